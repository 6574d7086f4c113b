//! Puts a hub on a cluster as a ClusterManager says, and takes it off again.
//!
//! Root: ClusterManager. Reads: the objects that it makes, their pods, the Secrets and ConfigMaps of the operator's
//! namespace that it copies or follows, the nodes of the control plane, and the Secret `external-hub-kubeconfig`. Writes:
//! CRDs, RBAC, Services, Deployments, webhook configurations, Secrets, the namespace, and the ClusterManager's status and
//! finalizer. Never: a CRD that a newer release wrote, and the hub of an older ClusterManager in the same namespace.
//! Upstream: ocm `pkg/operator/operators/clustermanager/controllers/{clustermanagercontroller,statuscontroller}`.

mod conclusion;
mod look;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use ocm_api::{conditions::cluster_manager, operator::ClusterManager};
use ocm_reconcile::{
    Clients, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};

pub use self::look::ClusterManagers;
use super::{
    Options,
    hosted::{self, Token, Way},
    install::{self, CRDS_FAILED, Install, Sources},
    owner, removal,
    wanted::{self, Facts, Hub},
};
use crate::{
    OCM_VERSION, crds,
    objects::{self, Apis, Current},
};

/// Keeps a hub until it is taken off.
pub const FINALIZER: &str = "operator.open-cluster-management.io/cluster-manager-cleanup";

/// Everything that wakes the reconciler may be missed once.
const RESYNC: Duration = Duration::from_secs(10 * 60);
/// A hub on another cluster that does not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// So is a namespace that is being deleted, which nobody watches.
const SOON: Duration = Duration::from_secs(1);

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// What the operator was told.
    pub options: Arc<Options>,
    /// The ClusterManager; `None` when it is gone.
    pub manager: Option<Arc<ClusterManager>>,
    /// An older ClusterManager that has the same namespace.
    pub elder: Option<String>,
    /// What is known beside.
    pub facts: Facts,
    /// Why nothing is made of it, although the ClusterManager says nothing wrong: a reason and a sentence.
    pub obstacle: Option<(&'static str, String)>,
    /// The hub on another cluster, if it is on one and answers.
    pub way: Option<Way>,
    /// What is copied.
    pub sources: Sources,
    /// The pods of hubs.
    pub pods: Vec<Arc<Pod>>,
    /// What is there.
    pub current: Current,
    /// The objects that keep the next CRD from going, in words.
    pub holders: Vec<String>,
    /// Tokens that were given in this run.
    pub tokens: BTreeMap<String, Token>,
    /// Where it is written to.
    pub apis: Apis,
}

/// What is to become of a ClusterManager.
enum Course {
    /// It is not there.
    Nothing,
    /// Nothing is done, for a reason and with a sentence.
    Refused(&'static str, String),
    /// Its hub is taken away.
    Removal,
    /// Its hub is kept.
    Kept,
}

impl Seen {
    fn course(&self) -> Course {
        let Some(manager) = &self.manager else {
            return Course::Nothing;
        };
        if manager.metadata.deletion_timestamp.is_some() {
            return Course::Removal;
        }
        if let Some(elder) = &self.elder {
            let namespace = wanted::namespace(manager);
            let message = format!(
                "ClusterManager {elder} is older and has the namespace {namespace}: delete one of the two, or set \
                 spec.deployOption.mode of this one to Hosted"
            );
            return Course::Refused("NamespaceTaken", message);
        }
        let refusal = wanted::refusal(&Hub::of(manager, &self.options, &self.facts));
        match refusal.or_else(|| self.obstacle.clone()) {
            Some((reason, message)) => Course::Refused(reason, message),
            None => Course::Kept,
        }
    }

    /// What the hub is made of, and the ServiceAccounts of which a token has to be asked for first.
    fn install(&self, hub: &Hub<'_>) -> (Install, Vec<&'static str>) {
        let (kubeconfigs, missing) = match &self.way {
            Some(way) => hosted::kubeconfigs(hub, way, &self.current, &self.tokens, self.now),
            None => (Vec::new(), Vec::new()),
        };
        (
            install::install(hub, &self.sources, kubeconfigs, &self.current),
            missing,
        )
    }
}

#[async_trait]
impl Reconciler for ClusterManagers {
    const NAME: &'static str = "cluster-manager";
    const AT_ONCE: usize = 8;
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(ClusterManager::KIND, cluster_manager::APPLIED),
        StatusField::condition(ClusterManager::KIND, cluster_manager::PROGRESSING),
        StatusField::condition(ClusterManager::KIND, cluster_manager::VALID_FEATURE_GATES),
        StatusField::condition(ClusterManager::KIND, cluster_manager::HUB_REGISTRATION_DEGRADED),
        StatusField::condition(ClusterManager::KIND, cluster_manager::HUB_PLACEMENT_DEGRADED),
        StatusField::new(ClusterManager::KIND, "observedGeneration"),
        StatusField::new(ClusterManager::KIND, "generations"),
        StatusField::new(ClusterManager::KIND, "relatedResources"),
    ];
    const RIGHTS: &'static [Right] = super::rights::CLUSTER_MANAGERS;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let sources = &self.sources;
        watches.root(&sources.managers);
        // One that waited for the namespace of another has it when that is gone.
        owner::wakes_all(watches, &sources.managers, &sources.managers);
        owner::wakes(watches, &sources.deployments, &sources.managers);
        owner::wakes(watches, &sources.pods, &sources.managers);
        watches.if_allowed(&sources.pods);
        owner::wakes(watches, &sources.bundles, &sources.managers);
        owner::wakes(watches, &sources.external, &sources.managers);
        owner::wakes_all(watches, &sources.pull_secret, &sources.managers);
        owner::wakes_all(watches, &sources.work_driver, &sources.managers);
        owner::wakes_all(watches, &sources.tls_profile, &sources.managers);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        self.look(name).await
    }

    fn clients(&self, seen: &Seen) -> Option<Clients> {
        Some(seen.apis.clients())
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(manager) = seen.manager.as_deref() else {
            return plan;
        };
        let hub = Hub::of(manager, &seen.options, &seen.facts);
        match seen.course() {
            Course::Nothing => {}
            Course::Refused(reason, message) => {
                let passes = reason == look::NAMESPACE_TERMINATING;
                plan.refuse(message).look_again(if passes { SOON } else { ASK_AGAIN });
            }
            Course::Removal => remove(&mut plan, seen, manager, &hub),
            Course::Kept => keep(&mut plan, seen, manager, &hub),
        }
        plan
    }

    fn goes_on(_: &Seen, outcome: &Outcome) -> bool {
        outcome.succeeded() && !hosted::tokens(outcome).is_empty()
    }

    async fn observe_again(&self, name: &str, before: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        let mut seen = self.look(name).await?;
        seen.tokens = before.tokens;
        seen.tokens.extend(hosted::tokens(outcome));
        Ok(seen)
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        conclusion::conclude(seen, outcome)
    }
}

fn keep(plan: &mut Plan, seen: &Seen, manager: &ClusterManager, hub: &Hub<'_>) {
    plan.look_again(RESYNC);
    plan.add_finalizer(Site::Management, manager, FINALIZER);
    let (install, missing) = seen.install(hub);
    let generations = manager.status.as_ref().map(|it| it.generations.as_slice());
    let generations = generations.unwrap_or_default();
    let stages = |plan: &mut Plan, stages: &[objects::Stage]| {
        plan.then(objects::plan(stages, &seen.current, generations));
    };
    stages(plan, std::slice::from_ref(&install.namespaces));
    if seen.facts.authorities.is_empty() {
        plan.wait("the certificates of webhooks are being made");
        return;
    }
    crds::keep(plan, CRDS_FAILED, &install.crds, &seen.current, OCM_VERSION);
    let [secrets, on_hub, rest @ ..] = install.stages.as_slice() else {
        return;
    };
    stages(plan, &[secrets.clone(), on_hub.clone()]);
    if !missing.is_empty() {
        // The rest comes in the next round, when they have kubeconfigs.
        hosted::ask(plan, hub, &missing);
        return;
    }
    stages(plan, rest);
    stages(plan, &install.last);
    for wait in &install.waits {
        plan.wait(wait.clone());
    }
}

fn remove(plan: &mut Plan, seen: &Seen, manager: &ClusterManager, hub: &Hub<'_>) {
    // It has nothing of its own.
    if seen.elder.is_none() {
        let deletion = manager.metadata.deletion_timestamp.clone().map(|it| it.0);
        let since = removal::since(deletion, seen.now);
        let is_reached = !hub.is_hosted || seen.way.is_some();
        if !is_reached && since < removal::GIVE_UP {
            let why = seen.obstacle.as_ref().map(|it| it.1.clone()).unwrap_or_default();
            plan.wait(format!("the hub cannot be reached: {why}"))
                .look_again(ASK_AGAIN);
            return;
        }
        let left = removal::plan(plan, hub, &seen.current, is_reached, since);
        if !left.crds.is_empty() {
            return;
        }
    }
    plan.stage();
    plan.remove_finalizer(Site::Management, manager, FINALIZER);
}

#[cfg(test)]
#[path = "cluster_managers_tests.rs"]
mod tests;
