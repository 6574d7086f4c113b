//! Gathers what templates have said into the status of their Policy, on the cluster and then on the hub.
//!
//! Root: Policy on the cluster. Reads: events about it, the objects of its templates, its replica on the hub. Writes:
//! its status, and that of the replica. Never: a spec. Upstream: `controllers/statussync/policy_status_sync.go`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Event,
    kube::{ResourceExt, core::DynamicObject},
    ocm_api::policy::{ComplianceHistory, Policy, PolicyStatus},
    reconcile::{
        Cache, Done, EventKind, Index, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait,
    },
};

use super::{
    Caching, SyncSite,
    discovery::{KindName, KindOnCluster, KindsOnCluster},
    history,
    objects::{Interested, WatchedObjects, Whereabouts},
    spec_sync::ask_the_same,
    tell,
    uninstall::{LOOK_AGAIN, Uninstallation},
};

const REASON: &str = "PolicyStatusSync";
const ON_CLUSTER: &str = "on cluster";
const ON_HUB: &str = "on hub";

/// The reconciler.
pub struct PolicyStatusSync {
    policies: Cache<Policy>,
    /// `None` where the cluster is the hub.
    on_hub: Option<Cache<Policy>>,
    events: Cache<Event>,
    by_policy: Index<Event>,
    objects: WatchedObjects,
    kinds: KindsOnCluster,
    uninstallation: Uninstallation,
    site: Arc<SyncSite>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The Policy; `None` when it is gone.
    pub policy: Option<Arc<Policy>>,
    /// Its replica on the hub.
    pub on_hub: Replica,
    /// What events have said about each template.
    pub said: BTreeMap<String, Vec<ComplianceHistory>>,
    /// The templates, in their order: the name, and the object if there is one.
    pub templates: Vec<(String, Option<Arc<DynamicObject>>)>,
    /// Whether the add-on is being uninstalled.
    pub uninstalling: bool,
}

/// The replica of a Policy on the hub.
#[derive(Clone, Debug)]
pub enum Replica {
    /// The cluster is the hub: there is none.
    None,
    /// The hub has not been seen yet.
    Unknown,
    /// It is gone, and so the Policy goes.
    Gone,
    /// It is there.
    There(Arc<Policy>),
}

impl PolicyStatusSync {
    /// Over the caches of the hub and of the cluster.
    pub fn new(caching: &Caching) -> Self {
        let events = caching.events();
        Self {
            policies: caching.policies(),
            on_hub: (!caching.site.on_hub).then(|| caching.policies_on_hub()),
            by_policy: Index::over(&events, |it: &Event| it.involved_object.uid.clone()),
            events,
            objects: caching.objects.clone(),
            kinds: caching.kinds.clone(),
            uninstallation: caching.uninstallation.clone(),
            site: caching.site.clone(),
        }
    }

    fn interested(&self, key: &str) -> Interested {
        Interested {
            who: Self::NAME,
            policy: key.to_owned(),
        }
    }

    fn said(&self, policy: &Policy) -> BTreeMap<String, Vec<ComplianceHistory>> {
        let mut said: BTreeMap<String, Vec<ComplianceHistory>> = BTreeMap::new();
        for event in self.by_policy.objects(&policy.uid().unwrap_or_default()) {
            let template = event.reason.as_deref().and_then(history::template_of);
            if let Some(template) = template {
                said.entry(template.to_owned())
                    .or_default()
                    .push(history::of_event(&event));
            }
        }
        said
    }

    /// The templates, and the objects that they have become.
    async fn templates(&self, policy: &Policy) -> Result<Vec<(String, Option<Arc<DynamicObject>>)>, ObserveError> {
        let by = self.interested(&policy.name_any());
        let (mut all, mut asked) = (Vec::new(), BTreeSet::new());
        for (index, template) in policy.spec.policy_templates.iter().enumerate() {
            let text = |field: &str| template.object_definition[field].as_str().unwrap_or_default();
            let kind = KindName::new(text("apiVersion"), text("kind"));
            let name = template.object_definition["metadata"]["name"]
                .as_str()
                .unwrap_or_default();
            if kind.kind.is_empty() || name.is_empty() {
                // The name that template-sync uses for it.
                all.push((format!("template-{index}"), None));
                continue;
            }
            let mut object = None;
            if let KindOnCluster::Served(served) = self.kinds.find(&kind).await? {
                let namespace = served.namespaced.then_some(self.site.namespace.as_str());
                let at = Whereabouts::all(&served.resource, namespace);
                object = match self.objects.get(&at, name, &by).await {
                    Ok(object) => object,
                    // Of what we may not see, or what is gone meanwhile, events are all that there is.
                    Err(error) if matches!(error.code, Some(403..=405)) => None,
                    Err(error) => return Err(error.into()),
                };
                asked.insert((at, name.to_owned()));
            }
            all.push((name.to_owned(), object));
        }
        self.objects.keep_only(&by, &asked);
        Ok(all)
    }

    fn replica(&self, key: &str) -> Replica {
        let Some(on_hub) = &self.on_hub else {
            return Replica::None;
        };
        match on_hub.get(&self.site.namespace_on_hub, key) {
            Some(it) => Replica::There(it),
            None if on_hub.is_synced() => Replica::Gone,
            None => Replica::Unknown,
        }
    }
}

/// Whether a change of an object may change what it says.
fn says_something(old: Option<&DynamicObject>, new: Option<&DynamicObject>) -> bool {
    let said = |it: Option<&DynamicObject>| {
        it.map(|it| {
            let history = it.data["status"]["history"].clone();
            (
                history,
                it.metadata.owner_references.clone(),
                it.metadata.labels.clone(),
            )
        })
    };
    said(old) != said(new)
}

#[async_trait]
impl Reconciler for PolicyStatusSync {
    const NAME: &'static str = "policy-status-sync";
    const WORKERS: usize = 2;
    const STATUS: &'static [StatusField] = &[
        StatusField::new("Policy", "compliant"),
        StatusField::new("Policy", "details"),
        StatusField::new("Policy", "placement"),
        StatusField::new("Policy", "status"),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let objects = self.objects.clone();
        let policies = self.policies.clone();
        watches
            .wakes(&self.policies, |old, new| old.or(new).map(|it| it.name_any()))
            .wakes(&self.events, |_, new| {
                let new = new.filter(|it| it.involved_object.api_version.as_deref() == Some(Policy::API_VERSION));
                new.and_then(|it| it.involved_object.name.clone())
            })
            .reads(&self.kinds.definitions)
            .wakes(&self.uninstallation.deployment, move |_, _| {
                policies.list().iter().map(|it| it.name_any()).collect::<Vec<_>>()
            })
            .not_awaited();
        if let Some(on_hub) = &self.on_hub {
            watches
                .wakes(on_hub, |old, new| old.or(new).map(|it| it.name_any()))
                .not_awaited();
        }
        watches.signal("objects of templates", move |queue| {
            objects.subscribe(Self::NAME, queue.clone(), says_something);
        });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let policy = self.policies.get(&self.site.namespace, key);
        let (mut said, mut templates) = (BTreeMap::new(), Vec::new());
        match &policy {
            Some(policy) => {
                said = self.said(policy);
                templates = self.templates(policy).await?;
            }
            None => self.objects.keep_only(&self.interested(key), &BTreeSet::new()),
        }
        Ok(Seen {
            now: Timestamp::now(),
            on_hub: self.replica(key),
            uninstalling: self.uninstallation.is_on(),
            policy,
            said,
            templates,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(policy) = seen.policy.as_deref() else {
            return plan;
        };
        if seen.uninstalling {
            plan.wait("the add-on is being uninstalled").look_again(LOOK_AGAIN);
            return plan;
        }
        match &seen.on_hub {
            Replica::Gone => {
                plan.wait("it is gone on the hub");
                return plan;
            }
            Replica::There(replica) if !ask_the_same(replica, policy) => {
                plan.wait("its spec is being synchronized");
                return plan;
            }
            Replica::Unknown => {
                plan.wait("the hub has not been seen yet; it gets the status then");
            }
            Replica::There(_) | Replica::None => {}
        }
        let status = status(seen, policy);
        let mut new = policy.clone();
        new.status = Some(status.clone());
        if policy.status.clone().unwrap_or_default() != status
            && let Some(step) = plan.status(Site::Cluster, policy, &new)
        {
            plan.name(ON_CLUSTER, step);
        }
        if let Replica::There(replica) = &seen.on_hub
            && replica.status.clone().unwrap_or_default() != status
        {
            plan.stage();
            let mut new = (**replica).clone();
            new.status = Some(status);
            if let Some(step) = plan.status(Site::Hub, &**replica, &new) {
                plan.name(ON_HUB, step);
            }
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        // The two caches hold objects of the same names in namespaces of the same name.
        let put = |name: &str, cache: &Cache<Policy>| {
            if let Some(policy) = outcome.object_of(name).and_then(|it| it.clone().try_parse().ok()) {
                cache.put(policy);
            }
        };
        put(ON_CLUSTER, &self.policies);
        if let Some(on_hub) = &self.on_hub {
            put(ON_HUB, on_hub);
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let by = (REASON, Self::NAME);
        let mut told = |name: &str, site: Site, note: &dyn Fn(&Policy, &str, &str) -> String| {
            let written = matches!(outcome.named(name), Some(Ok(Done::Object(_))));
            let policy = match (&seen.on_hub, site) {
                (Replica::There(replica), Site::Hub) => replica,
                _ => match &seen.policy {
                    Some(policy) => policy,
                    None => return,
                },
            };
            if !written {
                return;
            }
            let note = note(policy, &policy.name_any(), &policy.namespace().unwrap_or_default());
            plan.push(tell::for_people(site, policy, by, EventKind::Normal, note, seen.now));
        };
        told(ON_CLUSTER, Site::Cluster, &|_, name, namespace| {
            format!("Policy {name} status was updated in cluster namespace {namespace}")
        });
        let state = seen.policy.as_deref().and_then(|it| status(seen, it).compliant);
        let state = state.map(|it| it.as_str()).unwrap_or_default();
        told(ON_HUB, Site::Hub, &|_, name, namespace| {
            format!("Policy {name} status was updated to {state} in cluster namespace {namespace}")
        });
        plan
    }
}

/// The status of a Policy, as it has to be.
fn status(seen: &Seen, policy: &Policy) -> PolicyStatus {
    let before = policy.status.clone().unwrap_or_default();
    let name = policy.name_any();
    let details = seen.templates.iter().map(|(template, object)| {
        let mut said = seen.said.get(template).cloned().unwrap_or_default();
        let mut known = before.details.as_slice();
        if let Some(object) = object.as_deref() {
            if history::is_of(object, &name) {
                said.extend(history::of_object(object, &name));
            } else {
                // It is another Policy's: what was said of it is not said of this template.
                known = &[];
            }
        }
        history::merge(said, known, template)
    });
    let details: Vec<_> = details.collect();
    PolicyStatus {
        compliant: history::overall(&details, before.compliant),
        details,
        ..before
    }
}
