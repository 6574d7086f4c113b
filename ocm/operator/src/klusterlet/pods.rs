//! What a Deployment says of its pods.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use ocm_api::{
    condition::{ConditionUpdate, wanted},
    conditions::klusterlet as conditions,
};

/// One Deployment.
#[derive(Clone)]
pub struct AgentDeployment {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it is; `None` when it is not there.
    pub found: Option<Arc<Deployment>>,
}

const MISSING: &str = "GetDeploymentFailed";

impl AgentDeployment {
    fn missing(&self) -> String {
        let Self { namespace, name, .. } = self;
        format!("Failed to get deployment {namespace:?} {name:?}: deployments.apps {name:?} not found")
    }
}

/// Whether each Deployment has a pod that is available.
pub fn available(agents: &[AgentDeployment; 2]) -> ConditionUpdate {
    let says_no = |reason, message| wanted(conditions::AVAILABLE, false, reason, message);
    let mut ready: Vec<&str> = Vec::new();
    for agent in agents {
        let Some(found) = &agent.found else {
            return says_no(MISSING, agent.missing());
        };
        let AgentDeployment { namespace, name, .. } = agent;
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
pub fn degraded(condition: &str, agent: &AgentDeployment) -> ConditionUpdate {
    let Some(found) = &agent.found else {
        return wanted(condition, true, MISSING, agent.missing());
    };
    let replicas = found.spec.replicas.unwrap_or(1);
    let missing = replicas - available_replicas(found);
    let AgentDeployment { namespace, name, .. } = agent;
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

/// New pods that are not ready while those of before go on: an image that does not start shows here first.
fn stuck(deployment: &Deployment) -> String {
    let status = deployment.status.as_ref();
    match status.and_then(|it| it.unavailable_replicas).unwrap_or_default() {
        number if number > 0 => format!(
            "; {number} new ones are not ready, and those of before go on meanwhile{}",
            why(deployment)
        ),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn agent(status: Option<Value>) -> AgentDeployment {
        let found = status.map(|status| {
            let object = json!({"spec": {"replicas": 1, "selector": {}, "template": {}}, "status": status});
            Arc::new(serde_json::from_value(object).unwrap())
        });
        AgentDeployment {
            namespace: "ns".to_owned(),
            name: "a".to_owned(),
            found,
        }
    }

    #[test]
    fn a_deployment_is_told_in_upstreams_words() {
        let said = |status| degraded("D", &agent(status));
        let ready = said(Some(json!({"availableReplicas": 1})));
        assert_eq!(
            (ready.reason.as_str(), ready.message.as_str()),
            ("DeploymentsFunctional", "deployments replicas are desired: 1")
        );
        let none = said(Some(json!({})));
        assert_eq!(
            (none.reason.as_str(), none.message.as_str()),
            (
                "UnavailablePods",
                "1 of requested instances are unavailable of deployment \"ns\" \"a\""
            )
        );
        assert_eq!(said(None).reason, "GetDeploymentFailed");
    }

    #[test]
    fn a_failed_upgrade_is_told_while_former_pods_go_on() {
        let condition = json!({"type": "Progressing", "status": "False", "message": "it has timed out", "reason": "r"});
        let status = json!({"availableReplicas": 1, "unavailableReplicas": 1, "conditions": [condition]});
        let said = degraded("D", &agent(Some(status)));
        assert_eq!(said.reason, "DeploymentsFunctional");
        assert!(said.message.contains("1 new ones are not ready"), "{}", said.message);
        assert!(
            said.message.ends_with("meanwhile: it has timed out"),
            "{}",
            said.message
        );
    }

    #[test]
    fn an_agent_is_available_with_a_pod_of_each() {
        let ready = || agent(Some(json!({"availableReplicas": 1})));
        assert_eq!(available(&[ready(), ready()]).message, "deployments are ready: a");
        assert_eq!(available(&[ready(), agent(Some(json!({})))]).reason, "NoAvailablePods");
        assert_eq!(available(&[ready(), agent(None)]).reason, "GetDeploymentFailed");
    }
}
