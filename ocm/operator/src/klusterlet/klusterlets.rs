//! Puts an agent in place, and keeps it as its Klusterlet says.
//!
//! Root: Klusterlet. Reads: the Secrets of its agent, its Deployments, everything that is to be in place, here and on
//! another managed cluster; the pull secret, the TLS profile and the control plane's nodes.
//! Writes: finalizers; CRDs, namespaces, roles and bindings, Secrets, Deployments; conditions Applied, ReadyToApply and
//! ValidFeatureGates, `observedGeneration`, `generations`, `relatedResources`.
//! Never: what a Klusterlet that is being deleted leaves behind ([`cleanup`](super::cleanup)); the Secret to join with.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/klusterletcontroller/klusterlet_controller.go`.

use std::sync::Arc;

use jiff::Timestamp;
use ocm_api::{conditions::klusterlet as conditions, operator::Klusterlet};
use ocm_reconcile::{Clients, ObserveError, Outcome, Plan, Reconciler, StatusField, Watches, async_trait, rbac::Right};

use super::{
    external::Reached, ground::AgentOperator, install, look, permissions, said, scene::Finding, settings::Place,
};
use crate::Layout;

/// The reconciler.
pub struct Klusterlets {
    operator: Arc<AgentOperator>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// How many Deployments an agent is.
    pub layout: Layout,
    /// The Klusterlet, unless it is gone or is going.
    pub klusterlet: Option<Arc<Klusterlet>>,
    /// What was found.
    pub found: Finding,
    /// The way to the managed cluster, where it is another one.
    pub reached: Option<Reached>,
}

impl Klusterlets {
    /// Of this operator.
    pub fn new(operator: Arc<AgentOperator>) -> Self {
        Self { operator }
    }
}

#[async_trait]
impl Reconciler for Klusterlets {
    const NAME: &'static str = "klusterlet";
    /// Many agents may be hosted in one place, and a cluster that does not answer keeps no other waiting.
    const WORKERS: usize = 16;
    const AT_ONCE: usize = 8;
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(Klusterlet::KIND, conditions::APPLIED),
        StatusField::condition(Klusterlet::KIND, conditions::READY_TO_APPLY),
        StatusField::condition(Klusterlet::KIND, conditions::VALID_FEATURE_GATES),
        StatusField::new(Klusterlet::KIND, "observedGeneration"),
        StatusField::new(Klusterlet::KIND, "generations"),
        StatusField::new(Klusterlet::KIND, "relatedResources"),
    ];
    const RIGHTS: &'static [Right] = permissions::INSTALL;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.operator.klusterlets);
        self.operator.watch_secret(watches, &self.operator.credentials);
        self.operator.watch_secret(watches, &self.operator.external);
        self.operator.watch_made(watches);
        self.operator.watch_shared(watches);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        Ok(look::observe(&self.operator, name, Vec::new()).await)
    }

    fn clients(&self, seen: &Seen) -> Option<Clients> {
        let apis = match &seen.found {
            Finding::Scene(scene) => self.operator.apis(scene.settings.place, seen.reached.as_ref()),
            _ => self.operator.apis(Place::Hosting, None),
        };
        Some(apis.clients())
    }

    fn plan(seen: &Seen) -> Plan {
        match (&seen.klusterlet, &seen.found) {
            (Some(klusterlet), Finding::Scene(scene)) => install::plan(klusterlet, scene, seen),
            (Some(klusterlet), Finding::NotReady { settings, current, .. }) => {
                install::prepare(klusterlet, settings, current)
            }
            _ => Plan::new(),
        }
    }

    /// Tokens of another managed cluster were given: they go into Secrets, and Deployments get these.
    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        let first = matches!(&seen.found, Finding::Scene(scene) if scene.issued.is_empty());
        first && outcome.succeeded() && !install::issued(outcome).is_empty()
    }

    async fn observe_again(&self, name: &str, _: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        Ok(look::observe(&self.operator, name, install::issued(outcome)).await)
    }

    /// What could not be read is looked at again, too, and is told first.
    fn failure(seen: &Seen, outcome: &Outcome) -> Option<String> {
        match &seen.found {
            Finding::Unreadable(why)
            | Finding::NotReady {
                why, is_watched: false, ..
            } => Some(why.clone()),
            _ => (!outcome.succeeded()).then(|| outcome.error_text()),
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        said::conclude(seen, outcome)
    }
}
