//! Lets the agents of add-ons in: says who they are and binds what they may do.
//!
//! Root: ManagedClusterAddOn. Reads: the add-on's registrations and permissions; the ClusterManagementAddOn that owns
//! it; the RBAC objects they come to.
//! Writes: those RBAC objects; of the ManagedClusterAddOn `status.supportedConfigs`, `registrations`, `namespace`,
//! `healthCheck` and the condition RegistrationApplied, and the annotations with the proof that the add-on's author has
//! chosen. Never: what an agent that proves itself with a token wrote about itself, unless it cannot be true; RBAC
//! objects of others that happen to have none of the names; a right for the agent on a cluster that is not accepted, or
//! is deleted: what it had goes at once, whatever else is to be said of the add-on.
//! Upstream: addon-framework `pkg/addonmanager/controllers/registration`. It needs a second run to bind permissions to
//! the subjects that it wrote in the first; here one run does both.

mod decision;
mod objects;
mod owners;
mod plan;
mod status;
mod waking;

use std::sync::OnceLock;

use jiff::Timestamp;
use ocm_api::{addon::v1alpha1::ClusterManagementAddOn, conditions::managed_cluster_add_on::REGISTRATION_APPLIED};
use ocm_reconcile::{
    Cache, Done, ObserveError, Outcome, Plan, Reconciler, StatusField, Watches, async_trait, cache::split_key,
    rbac::Right,
};

use super::{
    Context, WORKERS,
    rbac_objects::{AgentBindings, RbacCaches},
    rights,
};
pub use decision::{Permissions, RegistrationDecision, decide};
pub use objects::{NamedObjects, PresentObjects};
pub use owners::{is_owned_by, owned_by};
pub use plan::Seen;

const ADDON: &str = "ManagedClusterAddOn";

/// The reconciler.
pub struct Registrations {
    context: Context,
    management: Cache<ClusterManagementAddOn>,
    rbac: RbacCaches,
    bindings: AgentBindings,
}

impl Registrations {
    /// Over this context.
    pub fn new(context: &Context) -> Self {
        let rbac = RbacCaches::of(&context.caches);
        Self {
            management: context.caches.of(),
            bindings: AgentBindings::over(&rbac),
            rbac,
            context: context.clone(),
        }
    }
}

#[async_trait]
impl Reconciler for Registrations {
    const NAME: &'static str = "addon-registration";
    const WORKERS: usize = WORKERS;
    const AT_ONCE: usize = 4;
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(ADDON, REGISTRATION_APPLIED),
        StatusField::new(ADDON, "supportedConfigs"),
        StatusField::new(ADDON, "registrations").shared("an agent with a token says itself who it is"),
        StatusField::new(ADDON, "namespace"),
        StatusField::new(ADDON, "healthCheck"),
    ];
    const RIGHTS: &'static [Right] = rights::REGISTRATION;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        self.context.watches(watches);
        watches.wakes(&self.management, waking::keys_of_owned(&self.context));
        waking::watch_rbac(&self.context, &self.rbac, watches);
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = split_key(key);
        Ok(Seen {
            now: Timestamp::now(),
            key: key.to_owned(),
            look: self.context.look(key),
            addon: self.context.addons.get(cluster, name),
            cluster: self.context.clusters.named(cluster),
            management: self.management.named(name),
            present: objects::present(&self.rbac, &self.bindings, key),
            named: None,
            decision: OnceLock::new(),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        plan::plan(seen)
    }

    /// Says what a cluster asks for of what all share, before any of it is made.
    fn planned(&self, seen: &Seen, _: &Plan) {
        self.context
            .claims
            .follow(seen, self.context.asks_for_nothing(&seen.key));
    }

    fn goes_on(seen: &Seen, _: &Outcome) -> bool {
        seen.lacks_named()
    }

    async fn observe_again(&self, _: &str, mut seen: Seen, _: &Outcome) -> Result<Seen, ObserveError> {
        let wanted = seen.granted().cloned().unwrap_or_default();
        if seen.revoked().is_none() {
            seen.named = Some(objects::named(&self.context, &self.rbac, &wanted).await?);
            return Ok(seen);
        }
        let unlisted = seen.present.unlisted(wanted);
        let named = objects::named(&self.context, &self.rbac, &unlisted).await?;
        // The first round has deleted what was present.
        seen.named = Some(named.without(&seen.present));
        seen.present = PresentObjects::default();
        Ok(seen)
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        for (_, result) in outcome.results() {
            if let Ok(Done::Object(object)) = result {
                self.rbac.put(object);
            }
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        status::conclude(seen, outcome)
    }
}

#[cfg(test)]
mod tests;
