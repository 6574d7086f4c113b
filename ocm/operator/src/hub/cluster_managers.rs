//! Puts a hub on a cluster as a ClusterManager says, and takes it off again.
//!
//! Root: ClusterManager. Reads: the objects that it makes, their pods, the Secrets and ConfigMaps of the operator's
//! namespace that it copies or follows, the nodes of the control plane, and the Secret `external-hub-kubeconfig`.
//! Writes: CRDs, RBAC, Services, Deployments, webhook configurations, Secrets, the namespace, and the ClusterManager's
//! status and finalizer. Never: a CRD that a newer release wrote, and the hub of an older ClusterManager in the same
//! namespace. Upstream: ocm
//! `pkg/operator/operators/clustermanager/controllers/{clustermanagercontroller,statuscontroller}`.

mod conclusion;
mod look;
mod plan;
mod seen;

use std::time::Duration;

use ocm_api::{conditions::cluster_manager, operator::ClusterManager};
use ocm_reconcile::{Clients, ObserveError, Outcome, Plan, Reconciler, StatusField, Watches, async_trait, rbac::Right};

use self::seen::Course;
pub use self::{look::ClusterManagers, seen::Seen};
use super::{hosted, owner, wanted::HubObjects};

/// Keeps a hub until it is taken off.
pub const FINALIZER: &str = "operator.open-cluster-management.io/cluster-manager-cleanup";

/// Everything that wakes the reconciler may be missed once.
const RESYNC: Duration = Duration::from_secs(10 * 60);
/// A hub on another cluster that does not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_secs(30);
/// So is a namespace that is being deleted, which nobody watches.
const SOON: Duration = Duration::from_secs(1);

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
        let hub = HubObjects::of(manager, &seen.options, &seen.facts);
        match seen.course() {
            Course::Nothing => {}
            Course::Refused(reason, message) => {
                let passes = reason == look::NAMESPACE_TERMINATING;
                plan.refuse(message).look_again(if passes { SOON } else { ASK_AGAIN });
            }
            Course::Removal => plan::remove(&mut plan, seen, manager, &hub),
            Course::Kept => plan::keep(&mut plan, seen, manager, &hub),
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

#[cfg(test)]
#[path = "cluster_managers_tests.rs"]
mod tests;
