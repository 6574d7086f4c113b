//! Brings the Policies of a cluster from its namespace on the hub to the cluster.
//!
//! Root: Policy on the hub. Reads: the Policy of that name on the cluster. Writes: the Policy on the cluster. Never:
//! labels of one that is there, its status, anything on the hub. Upstream: `controllers/specsync/policy_spec_sync.go`.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::{ResourceExt, api::ObjectMeta},
    ocm_api::policy::{Policy, labels},
    reconcile::{
        Cache, Done, EventKind, ObserveError, Outcome, Plan, Reconciler, Site, StepId, Watches, async_trait,
        caches::put_written,
    },
};

use super::{
    Caching, SyncSite, tell,
    uninstall::{LOOK_AGAIN, Uninstallation},
};

const REASON: &str = "PolicySpecSync";

/// The reconciler.
pub struct PolicySpecSync {
    on_hub: Cache<Policy>,
    on_cluster: Cache<Policy>,
    uninstallation: Uninstallation,
    site: Arc<SyncSite>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// Where it is.
    pub site: Arc<SyncSite>,
    /// The replica on the hub; `None` when it is gone.
    pub on_hub: Option<Arc<Policy>>,
    /// The Policy on the cluster.
    pub on_cluster: Option<Arc<Policy>>,
    /// Whether the add-on is being uninstalled.
    pub uninstalling: bool,
}

impl PolicySpecSync {
    /// Over the caches of the hub and of the cluster.
    pub fn new(caching: &Caching) -> Self {
        Self {
            on_hub: caching.policies_on_hub(),
            on_cluster: caching.policies(),
            uninstallation: caching.uninstallation.clone(),
            site: caching.site.clone(),
        }
    }
}

/// Whether two Policies ask for the same. Labels make no difference, as upstream has it.
pub fn ask_the_same(a: &Policy, b: &Policy) -> bool {
    a.annotations() == b.annotations() && a.spec == b.spec
}

#[async_trait]
impl Reconciler for PolicySpecSync {
    const NAME: &'static str = "policy-spec-sync";
    const WORKERS: usize = 2;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches
            .wakes(&self.on_hub, |old, new| old.or(new).map(|it| it.name_any()))
            .wakes(&self.on_cluster, |old, new| match (old, new) {
                (Some(old), Some(new)) if ask_the_same(old, new) => None,
                _ => old.or(new).map(|it| it.name_any()),
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            now: Timestamp::now(),
            on_hub: self.on_hub.get(&self.site.namespace_on_hub, key),
            on_cluster: self.on_cluster.get(&self.site.namespace, key),
            uninstalling: self.uninstallation.is_on(),
            site: self.site.clone(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if seen.uninstalling {
            plan.wait("the add-on is being uninstalled").look_again(LOOK_AGAIN);
            return plan;
        }
        let Some(on_hub) = seen.on_hub.as_deref() else {
            if let Some(on_cluster) = &seen.on_cluster {
                plan.delete(Site::Cluster, &**on_cluster);
            }
            return plan;
        };
        let step = match seen.on_cluster.as_deref() {
            None => Some(plan.create(Site::Cluster, &copy(on_hub, &seen.site.namespace))),
            Some(current) if ask_the_same(on_hub, current) => None,
            Some(current) => {
                let mut new = current.clone();
                new.metadata.annotations = on_hub.metadata.annotations.clone();
                new.spec = on_hub.spec.clone();
                plan.change(Site::Cluster, current, &new)
            }
        };
        if let Some(step) = step {
            plan.name(WRITTEN, step);
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.on_cluster, outcome);
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let written: Option<StepId> = outcome.plan().named(WRITTEN);
        let Some(Ok(Done::Object(object))) = written.and_then(|it| outcome.get(it)) else {
            return plan;
        };
        let Ok(policy) = (**object).clone().try_parse::<Policy>() else {
            return plan;
        };
        let (name, namespace) = (policy.name_any(), &seen.site.namespace);
        let note = match seen.on_cluster {
            None => format!("Policy {name} was synchronized to cluster namespace {namespace}"),
            Some(_) => format!("Policy {name} was updated in cluster namespace {namespace}"),
        };
        let by = (REASON, Self::NAME);
        plan.push(tell::for_people(
            Site::Cluster,
            &policy,
            by,
            EventKind::Normal,
            note,
            seen.now,
        ));
        plan
    }
}

const WRITTEN: &str = "policy";

/// The Policy as it is created on the cluster.
fn copy(on_hub: &Policy, namespace: &str) -> Policy {
    let mut own: BTreeMap<String, String> = on_hub.labels().clone();
    if let Some(label) = own.get_mut(labels::CLUSTER_NAMESPACE).filter(|it| !it.is_empty()) {
        *label = namespace.to_owned();
    }
    Policy {
        metadata: ObjectMeta {
            name: on_hub.metadata.name.clone(),
            namespace: Some(namespace.to_owned()),
            labels: Some(own).filter(|it| !it.is_empty()),
            annotations: on_hub.metadata.annotations.clone(),
            ..ObjectMeta::default()
        },
        spec: on_hub.spec.clone(),
        ..Policy::default()
    }
}
