//! What a ClusterManager says of its hub: conditions, from Deployments and pods. Upstream: ocm
//! `pkg/operator/operators/clustermanager/controllers/statuscontroller`. Upstream's `Progressing` counts pods that are
//! ready, whichever image they are of, so that an image that does not start is no progress that is missing; ours says
//! which pod does not start, and why.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use ocm_api::{
    condition::{ConditionUpdate, wanted},
    conditions::cluster_manager::{HUB_PLACEMENT_DEGRADED, HUB_REGISTRATION_DEGRADED, PROGRESSING},
};
use serde_json::Value;

use super::{deployments, wanted::HubObjects};

/// A Deployment, and what there is of it.
pub struct Component<'a> {
    /// Its name.
    pub name: String,
    /// The label `app` of its pods.
    pub app: String,
    /// As it is now.
    pub found: Option<Value>,
    /// Whether all its pods are as they are to be, and run.
    pub is_ready: bool,
    /// All pods of the hub.
    pub pods: &'a [std::sync::Arc<Pod>],
}

/// The condition `Progressing`.
pub fn progressing(components: &[Component<'_>]) -> ConditionUpdate {
    let rolling: Vec<&Component<'_>> = components.iter().filter(|it| !it.is_ready).collect();
    if rolling.is_empty() {
        let message = "Components of cluster manager are up to date";
        return wanted(PROGRESSING, false, "ClusterManagerUpToDate", message);
    }
    let names: Vec<&str> = rolling.iter().map(|it| it.name.as_str()).collect();
    let mut message = format!("Deployments {} is still rolling", names.join(","));
    for component in rolling {
        if let Some(why) = obstacle(component) {
            message += &format!("; {why}");
        }
    }
    wanted(PROGRESSING, true, "ClusterManagerDeploymentRolling", message)
}

/// Why a Deployment does not get on, if anything says so: the first pod that does not start, or the Deployment itself.
pub fn obstacle(component: &Component<'_>) -> Option<String> {
    let of = |it: &&std::sync::Arc<Pod>| it.labels().get("app") == Some(&component.app);
    let mut pods: Vec<_> = component.pods.iter().filter(of).collect();
    // The youngest tell of the present generation.
    pods.sort_by_key(|it| std::cmp::Reverse(it.metadata.creation_timestamp.clone().map(|it| it.0)));
    let told = pods.iter().find_map(|pod| {
        let why = pod_obstacle(pod)?;
        Some(format!(
            "pod {} of Deployment {}: {why}",
            pod.name_any(),
            component.name
        ))
    });
    told.or_else(|| {
        let conditions = component.found.as_ref()?["status"]["conditions"].as_array()?;
        let failed = conditions
            .iter()
            .find(|it| it["type"] == "ReplicaFailure" && it["status"] == "True")?;
        let message = failed["message"].as_str().unwrap_or_default();
        Some(format!("Deployment {}: {message}", component.name))
    })
}

fn pod_obstacle(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = status.init_container_statuses.iter().flatten();
    let mut containers = all.chain(status.container_statuses.iter().flatten());
    containers.find_map(container_obstacle).or_else(|| {
        let mut conditions = status.conditions.iter().flatten();
        let condition = conditions.find(|it| it.type_ == "PodScheduled" && it.status == "False")?;
        let message = condition.message.clone().unwrap_or_default();
        Some(format!("{}: {message}", condition.reason.clone().unwrap_or_default()))
    })
}

/// In words that stay the same while the kubelet tries again and again.
fn container_obstacle(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().unwrap_or_default();
    match reason {
        "" | "ContainerCreating" | "PodInitializing" => None,
        "ImagePullBackOff" | "ErrImagePull" => Some(format!("ImagePullBackOff: cannot pull image {}", container.image)),
        "CrashLoopBackOff" => {
            let last = container.last_state.as_ref().and_then(|it| it.terminated.as_ref());
            let code = last
                .map(|it| format!(" with code {}", it.exit_code))
                .unwrap_or_default();
            let said = last.and_then(|it| it.message.clone()).filter(|it| !it.is_empty());
            let said = said.map(|it| format!(": {}", it.trim())).unwrap_or_default();
            Some(format!(
                "CrashLoopBackOff: container {} of image {} ends{code}{said}",
                container.name, container.image
            ))
        }
        other => {
            let message = waiting.message.as_deref().unwrap_or_default();
            Some(format!("{other}: {message}").trim_end_matches(": ").to_owned())
        }
    }
}

/// The conditions `HubRegistrationDegraded` and `HubPlacementDegraded`.
pub fn degraded(hub: &HubObjects<'_>, components: &[Component<'_>]) -> [ConditionUpdate; 2] {
    let (registration, placement): (&[&str], &str) = match hub.is_compact() {
        true => (&[deployments::REGISTRATION], deployments::REGISTRATION),
        false => (
            &[deployments::REGISTRATION, deployments::REGISTRATION_WEBHOOK],
            deployments::PLACEMENT,
        ),
    };
    let of = |name: &str| {
        let name = format!("{}-{name}", hub.name);
        (components.iter().find(|it| it.name == name), name)
    };
    let first_of = |r#type: &str, names: &[&str], [what, missing, unavailable, well, message]: [&str; 5]| {
        for (component, name) in names.iter().map(|it| of(it)) {
            let Some(found) = component.and_then(|it| it.found.as_ref()) else {
                let message = format!("{what} deployment \"{}\" \"{name}\" is not there", hub.namespace);
                return wanted(r#type, true, missing, message);
            };
            let count = unavailable_pods(found);
            if count > 0 {
                let message = format!(
                    "{count} of requested instances are unavailable of {what} deployment \"{}\" \"{name}\"",
                    hub.namespace
                );
                return wanted(r#type, true, unavailable, message);
            }
        }
        wanted(r#type, false, well, message)
    };
    [
        first_of(
            HUB_REGISTRATION_DEGRADED,
            registration,
            [
                "registration",
                "GetRegistrationDeploymentFailed",
                "UnavailableRegistrationPod",
                "RegistrationFunctional",
                "Registration is managing credentials",
            ],
        ),
        first_of(
            HUB_PLACEMENT_DEGRADED,
            &[placement],
            [
                "placement",
                "GetPlacementDeploymentFailed",
                "UnavailablePlacementPod",
                "PlacementFunctional",
                "Placement is scheduling placement decisions",
            ],
        ),
    ]
}

fn unavailable_pods(found: &Value) -> i64 {
    let replicas = found["spec"]["replicas"].as_i64().unwrap_or(1);
    (replicas - found["status"]["availableReplicas"].as_i64().unwrap_or_default()).max(0)
}
