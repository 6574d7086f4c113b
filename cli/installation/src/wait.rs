//! Waiting until an installation works: for conditions that watches report, each with what it still waits for when the
//! time is over.
//! Upstream: clusteradm `pkg/helpers/wait`, which waits for the same pods and conditions.

use std::time::Duration;

use anyhow::{Result, bail};
use client::{conditions, connect::ApiServer};
use futures::TryStreamExt;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api,
    core::{ApiResource, DynamicObject},
    runtime::{WatchStreamExt, wait::await_condition, watcher},
};
use ocm_api::namespaces;
use serde_json::Value;
use tokio::time::Instant;

/// When a wait that begins now is over.
pub fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout
}

/// Waits until a pod of an operator's Deployment as it is written now is ready.
///
/// # Errors
/// After the deadline, with what its pods wait for.
pub async fn operator(cluster: &ApiServer, name: &str, deadline: Instant) -> Result<()> {
    let namespace = namespaces::OPERATOR;
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
    let ready = await_condition(api, name, |it: Option<&Deployment>| it.is_some_and(has_ready_pod));
    match tokio::time::timeout_at(deadline, ready).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => bail!("lost sight of Deployment {namespace}/{name}: {error}"),
        Err(_) => {
            let why = crate::waiting(cluster, namespace, name).await;
            bail!("the operator's Deployment {namespace}/{name} is not available in time: {why}")
        }
    }
}

/// Whether only pods of the Deployment as it is written now are there, and one of them is ready.
fn has_ready_pod(it: &Deployment) -> bool {
    it.status.as_ref().is_some_and(|status| {
        let updated = status.updated_replicas.unwrap_or(0);
        status.observed_generation >= it.metadata.generation
            && updated > 0
            && status.replicas.unwrap_or(0) <= updated
            && status.available_replicas.unwrap_or(0) > 0
    })
}

/// Waits until a pod with that label `app` is ready.
///
/// # Errors
/// After the deadline, with what the pods wait for.
pub async fn pod(cluster: &ApiServer, namespace: &str, app: &str, deadline: Instant) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let selected = watcher::Config::default().labels(&format!("app={app}"));
    let ready = async {
        let mut seen = std::pin::pin!(watcher(pods, selected).default_backoff().applied_objects());
        while let Some(pod) = seen.try_next().await? {
            if is_ready(&pod) {
                break;
            }
        }
        Ok::<_, watcher::Error>(())
    };
    match tokio::time::timeout_at(deadline, ready).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => bail!("could not watch the pods in namespace {namespace}: {error}"),
        Err(_) => {
            let why = crate::waiting(cluster, namespace, app).await;
            bail!("no pod with label app={app} in namespace {namespace} is ready in time: {why}")
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    let mut ready = conditions.filter(|it| it.type_ == "Ready");
    pod.metadata.deletion_timestamp.is_none() && ready.any(|it| it.status == "True")
}

/// Waits until a ClusterManager as it is written now is applied and its Deployments are.
///
/// # Errors
/// After the deadline, with what its conditions say.
pub async fn cluster_manager(hub: &ApiServer, name: &str, deadline: Instant) -> Result<()> {
    let wanted = [("Applied", "True"), ("Progressing", "False")];
    object(hub, &crate::operated::cluster_managers(), name, &wanted, deadline).await
}

/// Waits until a Klusterlet's Deployments are there with all of their pods.
///
/// # Errors
/// After the deadline, with what its conditions say.
pub async fn klusterlet(cluster: &ApiServer, name: &str, deadline: Instant) -> Result<()> {
    let wanted = [
        ("Applied", "True"),
        ("RegistrationDesiredDegraded", "False"),
        ("WorkDesiredDegraded", "False"),
    ];
    object(cluster, &crate::operated::klusterlets(), name, &wanted, deadline).await
}

async fn object(
    cluster: &ApiServer,
    kind: &ApiResource,
    name: &str,
    wanted: &[(&str, &str)],
    deadline: Instant,
) -> Result<()> {
    let api = cluster.all(kind);
    let held = |it: Option<&DynamicObject>| it.is_some_and(|it| is_observed(it) && unmet(it, wanted).is_empty());
    match tokio::time::timeout_at(deadline, await_condition(api.clone(), name, held)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => bail!("lost sight of {} {name}: {error}", kind.kind),
        Err(_) => {
            let found = api.get_opt(name).await.ok().flatten();
            let why = match found {
                None => "it is gone".to_owned(),
                Some(it) if !is_observed(&it) => {
                    "its operator has not seen its latest change; see the operator's log".to_owned()
                }
                Some(it) => unmet(&it, wanted).join("; "),
            };
            bail!("{} {name} is not ready in time: {why}", kind.kind)
        }
    }
}

/// Whether the status is of the object as it is written now.
fn is_observed(object: &DynamicObject) -> bool {
    object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation
}

/// The conditions that are not as wanted, as sentences.
fn unmet(object: &DynamicObject, wanted: &[(&str, &str)]) -> Vec<String> {
    let unmet = wanted
        .iter()
        .filter_map(|(kind, status)| match conditions::of(object, kind) {
            Some(it) if it.status == *status => None,
            Some(it) => Some(format!("{kind} is {} ({}: {})", it.status, it.reason, it.message)),
            None => Some(format!("there is no condition {kind} yet")),
        });
    unmet.collect()
}

/// What an object's conditions of these types say, for people.
pub fn told(object: &DynamicObject) -> Vec<String> {
    let all = object.data["status"]["conditions"].as_array();
    let text = |it: &Value, field: &str| it[field].as_str().unwrap_or_default().to_owned();
    let told = all.into_iter().flatten().map(|it| {
        let parts = ["type", "status", "reason", "message"].map(|field| text(it, field));
        format!("{} is {} ({}: {})", parts[0], parts[1], parts[2], parts[3])
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn old_pods_keep_an_operator_from_being_ready() {
        let deployment = |status: Value| -> Deployment {
            serde_json::from_value(json!({
                "metadata": {"generation": 2},
                "spec": {"selector": {}, "template": {}},
                "status": status,
            }))
            .unwrap()
        };
        let status = |observed: i64, all: i32, updated: i32, available: i32| {
            json!({
                "observedGeneration": observed, "replicas": all, "updatedReplicas": updated,
                "availableReplicas": available,
            })
        };
        assert!(has_ready_pod(&deployment(status(2, 3, 3, 1))));
        assert!(!has_ready_pod(&deployment(status(1, 3, 3, 3))));
        assert!(!has_ready_pod(&deployment(status(2, 4, 1, 3))));
        assert!(!has_ready_pod(&deployment(status(2, 1, 1, 0))));
    }

    #[test]
    fn conditions_of_an_older_generation_do_not_count() {
        let object = |observed: i64, status: &str| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "v1", "kind": "K", "metadata": {"name": "a", "generation": 2},
                "status": {
                    "observedGeneration": observed,
                    "conditions": [{"type": "Applied", "status": status, "reason": "R", "message": "M"}],
                },
            }))
            .unwrap()
        };
        assert!(is_observed(&object(2, "True")) && !is_observed(&object(1, "True")));
        let wanted = [("Applied", "True"), ("Progressing", "False")];
        assert_eq!(
            unmet(&object(2, "False"), &wanted),
            ["Applied is False (R: M)", "there is no condition Progressing yet"]
        );
    }
}
