//! Whether an agent's pods run.
//!
//! Root: Klusterlet. Reads: the agent's Deployments.
//! Writes: conditions Available, RegistrationDesiredDegraded and WorkDesiredDegraded.
//! Never: a Deployment.
//! Upstream: ocm `pkg/operator/operators/klusterlet/controllers/statuscontroller/klusterlet_status_controller.go`.
//! We differ in this: the conditions say why pods are missing, as far as the Deployment knows, and that earlier ones go
//! on meanwhile.

use std::sync::Arc;

use jiff::Timestamp;
use ocm_api::{condition, conditions::klusterlet as conditions, operator::Klusterlet};
use ocm_reconcile::{ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right};

use super::{
    ground::AgentOperator,
    names, permissions,
    pods::{self, AgentDeployment},
    settings::{self, Shape},
};
use crate::Layout;

/// The reconciler.
pub struct AgentAvailability {
    operator: Arc<AgentOperator>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The Klusterlet; `None` when it is gone.
    pub klusterlet: Option<Arc<Klusterlet>>,
    /// The Deployments of registration and work, which may be one and the same.
    pub agents: [AgentDeployment; 2],
}

impl AgentAvailability {
    /// Of this operator.
    pub fn new(operator: Arc<AgentOperator>) -> Self {
        Self { operator }
    }
}

#[async_trait]
impl Reconciler for AgentAvailability {
    const NAME: &'static str = "klusterlet-availability";
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(Klusterlet::KIND, conditions::AVAILABLE),
        StatusField::condition(Klusterlet::KIND, conditions::REGISTRATION_DESIRED_DEGRADED),
        StatusField::condition(Klusterlet::KIND, conditions::WORK_DESIRED_DEGRADED),
    ];
    const RIGHTS: &'static [Right] = permissions::STATUS;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.operator.klusterlets);
        self.operator.watch_deployments(watches);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let klusterlet = self.operator.klusterlets.named(name);
        let shape = match self.operator.options.layout {
            Layout::Compact => Some(Shape::One),
            Layout::Upstream => klusterlet.as_deref().and_then(settings::mode).map(|it| it.shape),
        };
        let names = match shape {
            Some(Shape::One) => [names::agent(name), names::agent(name)],
            Some(Shape::Two) | None => [names::registration_agent(name), names::work_agent(name)],
        };
        let namespace = klusterlet.as_deref().map(settings::agent_namespace).unwrap_or_default();
        let agent = |name: String| AgentDeployment {
            found: self.operator.deployments.get(&namespace, &name),
            namespace: namespace.clone(),
            name,
        };
        Ok(Seen {
            now: Timestamp::now(),
            klusterlet,
            agents: names.map(agent),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(before) = seen.klusterlet.as_deref() else {
            return plan;
        };
        let said = before.status.iter().flat_map(|it| &it.conditions);
        // Nothing was made yet.
        if !said.into_iter().any(|it| it.type_ == conditions::APPLIED) {
            return plan;
        }
        let [registration, work] = &seen.agents;
        let mut after = before.clone();
        let list = &mut after.status.get_or_insert_default().conditions;
        for update in [
            pods::available(&seen.agents),
            pods::degraded(conditions::REGISTRATION_DESIRED_DEGRADED, registration),
            pods::degraded(conditions::WORK_DESIRED_DEGRADED, work),
        ] {
            condition::set(list, update.at_generation(before.metadata.generation), seen.now);
        }
        plan.status(Site::Management, before, &after);
        plan
    }
}
