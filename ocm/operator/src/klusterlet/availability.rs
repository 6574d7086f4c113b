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
use k8s_openapi::api::apps::v1::Deployment;
use ocm_api::{
    condition::{self, ConditionUpdate, wanted},
    conditions::klusterlet as conditions,
    operator::Klusterlet,
};
use ocm_reconcile::{ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right};

use super::{
    ground::Operator,
    names, permissions,
    settings::{self, Shape},
};
use crate::Layout;

/// The reconciler.
pub struct Availability {
    operator: Arc<Operator>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The Klusterlet; `None` when it is gone.
    pub klusterlet: Option<Arc<Klusterlet>>,
    /// The Deployments of registration and work, which may be one and the same.
    pub agents: [Agent; 2],
}

/// One Deployment.
#[derive(Clone)]
pub struct Agent {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it is; `None` when it is not there.
    pub found: Option<Arc<Deployment>>,
}

impl Availability {
    /// Of this operator.
    pub fn new(operator: Arc<Operator>) -> Self {
        Self { operator }
    }
}

#[async_trait]
impl Reconciler for Availability {
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
        let agent = |name: String| Agent {
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
            available(&seen.agents),
            degraded(conditions::REGISTRATION_DESIRED_DEGRADED, registration),
            degraded(conditions::WORK_DESIRED_DEGRADED, work),
        ] {
            condition::set(list, update.at_generation(before.metadata.generation), seen.now);
        }
        plan.status(Site::Management, before, &after);
        plan
    }
}

const MISSING: &str = "GetDeploymentFailed";

impl Agent {
    fn missing(&self) -> String {
        let Self { namespace, name, .. } = self;
        format!("Failed to get deployment {namespace:?} {name:?}: deployments.apps {name:?} not found")
    }
}

/// Whether each Deployment has a pod that is available.
fn available(agents: &[Agent; 2]) -> ConditionUpdate {
    let says_no = |reason, message| wanted(conditions::AVAILABLE, false, reason, message);
    let mut ready: Vec<&str> = Vec::new();
    for agent in agents {
        let Some(found) = &agent.found else {
            return says_no(MISSING, agent.missing());
        };
        let Agent { namespace, name, .. } = agent;
        let number = available_replicas(found);
        if number <= 0 {
            let message = format!("{number} of requested instances are available of deployment {namespace:?} {name:?}");
            return says_no("NoAvailablePods", message + &why(found));
        }
        if !ready.contains(&name.as_str()) {
            ready.push(name);
        }
    }
    let message = format!("deployments are ready: {}", ready.join(","));
    wanted(conditions::AVAILABLE, true, "KlusterletAvailable", message)
}

/// Whether a Deployment has fewer pods than it is to have.
fn degraded(condition: &str, agent: &Agent) -> ConditionUpdate {
    let Some(found) = &agent.found else {
        return wanted(condition, true, MISSING, agent.missing());
    };
    let replicas = found.spec.replicas.unwrap_or(1);
    let missing = replicas - available_replicas(found);
    let Agent { namespace, name, .. } = agent;
    match missing > 0 {
        true => {
            let message =
                format!("{missing} of requested instances are unavailable of deployment {namespace:?} {name:?}");
            wanted(condition, true, "UnavailablePods", message + &why(found))
        }
        false => {
            let message = format!("deployments replicas are desired: {replicas}");
            wanted(condition, false, "DeploymentsFunctional", message + &stuck(found))
        }
    }
}

fn available_replicas(deployment: &Deployment) -> i32 {
    deployment
        .status
        .as_ref()
        .and_then(|it| it.available_replicas)
        .unwrap_or_default()
}

/// What the Deployment itself says of pods that cannot be made or do not come up.
fn why(deployment: &Deployment) -> String {
    let conditions = deployment.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let bad = conditions.filter(|it| {
        matches!(
            (it.type_.as_deref(), it.status.as_deref()),
            (Some("ReplicaFailure"), Some("True")) | (Some("Progressing"), Some("False"))
        )
    });
    let messages: Vec<&str> = bad.filter_map(|it| it.message.as_deref()).collect();
    match messages.is_empty() {
        true => String::new(),
        false => format!(": {}", messages.join("; ")),
    }
}

/// New pods that do not come up while those of before go on.
fn stuck(deployment: &Deployment) -> String {
    let status = deployment.status.as_ref();
    let updated = status.and_then(|it| it.updated_replicas).unwrap_or_default();
    let all = status.and_then(|it| it.replicas).unwrap_or_default();
    match why(deployment) {
        why if !why.is_empty() && updated < all => {
            format!("; those of before go on, because new ones do not come up{why}")
        }
        _ => String::new(),
    }
}
