//! Why the Deployments of a hub, of an agent or of their operator are not as they should be: from their pods and, where
//! these do not say it, from events.

use anyhow::Result;
use client::connect::ApiServer;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ContainerStatus, Event, Pod},
};
use kube::{Api, ResourceExt, api::ListParams};
use ocm_api::operator::RelatedResourceMeta;

/// How many pods of a Deployment are told of; they mostly have the same trouble.
const PODS_MAX: usize = 2;

/// A Deployment and what there is of it.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// The Deployment.
    pub deployment: Deployment,
    /// Its pods.
    pub pods: Vec<PodSeen>,
}

/// One pod.
#[derive(Clone, Debug, Default)]
pub struct PodSeen {
    /// The pod.
    pub pod: Pod,
    /// The last warning about it.
    pub warning: Option<String>,
}

/// Reads the Deployments among the related resources. What is not there is left out: not every layout has all of them.
pub async fn related(api: &ApiServer, related: &[RelatedResourceMeta]) -> Result<Vec<Workload>> {
    let mut found = Vec::new();
    for it in related
        .iter()
        .filter(|it| it.group == "apps" && it.resource == "deployments")
    {
        found.extend(look(api, &it.namespace, &it.name).await?);
    }
    Ok(found)
}

/// Reads one Deployment; `None` when it is not there.
pub async fn look(api: &ApiServer, namespace: &str, name: &str) -> Result<Option<Workload>> {
    let doing = |what: &str| format!("could not get the {what} of Deployment {namespace}/{name}");
    let deployments: Api<Deployment> = Api::namespaced(api.client.clone(), namespace);
    let deployment = deployments.get_opt(name).await;
    let Some(deployment) = deployment.map_err(|error| api.explain(&doing("state"), &error))? else {
        return Ok(None);
    };
    let labels = deployment.spec.selector.match_labels.iter().flatten();
    let selector: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
    let pods: Api<Pod> = Api::namespaced(api.client.clone(), namespace);
    let listed = pods.list(&ListParams::default().labels(&selector.join(","))).await;
    let mut listed = listed.map_err(|error| api.explain(&doing("pods"), &error))?.items;
    // The youngest tell of the present generation.
    listed.sort_by_key(|it| std::cmp::Reverse(it.creation_timestamp().map(|it| it.0)));
    let mut pods = Vec::new();
    for pod in listed {
        let warning = match is_ready(&pod) || pods.len() >= PODS_MAX {
            true => None,
            false => last_warning(api, namespace, &pod.name_any()).await,
        };
        pods.push(PodSeen { pod, warning });
    }
    Ok(Some(Workload { deployment, pods }))
}

/// Who may not read events learns less, and no error.
async fn last_warning(api: &ApiServer, namespace: &str, pod: &str) -> Option<String> {
    let of_pod = format!("involvedObject.kind=Pod,involvedObject.name={pod},type=Warning");
    let events: Api<Event> = Api::namespaced(api.client.clone(), namespace);
    let listed = events.list(&ListParams::default().fields(&of_pod)).await.ok()?;
    let at = |it: &Event| it.last_timestamp.clone().or(it.creation_timestamp()).map(|it| it.0);
    let last = listed.items.into_iter().max_by_key(at)?;
    last.message.filter(|it| !it.is_empty())
}

impl Workload {
    /// `namespace/name`.
    fn title(&self) -> String {
        let namespace = self.deployment.namespace().unwrap_or_default();
        format!("{namespace}/{}", self.deployment.name_any())
    }

    /// What keeps it from being as it should be, one sentence for each thing. `fix` says what to do about an image that
    /// cannot be had.
    pub fn sentences(&self, fix: &str) -> Vec<String> {
        let status = self.deployment.status.clone().unwrap_or_default();
        let wanted = self.deployment.spec.replicas.unwrap_or(1);
        let (updated, available, all) = (
            status.updated_replicas.unwrap_or_default(),
            status.available_replicas.unwrap_or_default(),
            status.replicas.unwrap_or_default(),
        );
        let is_seen = status.observed_generation >= self.deployment.metadata.generation;
        if is_seen && updated >= wanted && available >= wanted && all <= wanted {
            return Vec::new();
        }
        let namespace = self.deployment.namespace().unwrap_or_default();
        let unready = self.pods.iter().filter(|it| !is_ready(&it.pod) && !is_going(&it.pod));
        let mut said: Vec<String> = unready
            .take(PODS_MAX)
            .map(|it| {
                format!(
                    "Pod {namespace}/{}: {}.",
                    it.pod.name_any(),
                    it.obstacle(&namespace, fix)
                )
            })
            .collect();
        let failure = status.conditions.iter().flatten().find(|it| {
            it.type_.as_deref() == Some("ReplicaFailure") && it.status.as_deref() == Some("True")
                || it.reason.as_deref() == Some("ProgressDeadlineExceeded")
        });
        if let Some(message) = failure.and_then(|it| it.message.as_deref()).filter(|_| said.is_empty()) {
            said.push(format!(
                "Deployment {}: {}.",
                self.title(),
                message.trim_end_matches('.')
            ));
        }
        if said.is_empty() {
            said.push(format!(
                "Deployment {} has {available} of {wanted} pods available, {updated} of them up to date.",
                self.title()
            ));
        }
        let of_before = all - updated;
        if of_before > 0 && available > 0 {
            said.push(format!(
                "Until then the pods of before go on: {available} of Deployment {}.",
                self.title()
            ));
        }
        said
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|it| it.type_ == "Ready" && it.status == "True")
}

fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

impl PodSeen {
    /// Why it is not ready, and what to do about it.
    fn obstacle(&self, namespace: &str, fix: &str) -> String {
        let name = self.pod.name_any();
        let status = self.pod.status.clone().unwrap_or_default();
        let init = status.init_container_statuses.iter().flatten();
        let containers: Vec<&ContainerStatus> = init.chain(status.container_statuses.iter().flatten()).collect();
        if let Some(text) = containers.iter().find_map(|it| of_container(it, namespace, &name, fix)) {
            return text;
        }
        let unscheduled = status
            .conditions
            .iter()
            .flatten()
            .find(|it| it.type_ == "PodScheduled" && it.status == "False");
        if let Some(message) = unscheduled.and_then(|it| it.message.as_deref()) {
            return format!("no node takes it: {}", message.trim_end_matches('.'));
        }
        if let Some(warning) = &self.warning {
            return warning.trim_end_matches('.').to_owned();
        }
        match containers
            .iter()
            .any(|it| it.state.as_ref().is_some_and(|it| it.running.is_some()))
        {
            true => format!("it runs and is not ready yet; `kubectl logs -n {namespace} {name}` says what it does"),
            false => "it has not started yet".to_owned(),
        }
    }
}

fn of_container(it: &ContainerStatus, namespace: &str, pod: &str, fix: &str) -> Option<String> {
    let waiting = it.state.as_ref()?.waiting.as_ref()?;
    let message = waiting.message.as_deref().unwrap_or_default().trim_end_matches('.');
    match waiting.reason.as_deref().unwrap_or_default() {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
            let why = if message.is_empty() {
                String::new()
            } else {
                format!(" ({message})")
            };
            Some(format!("image {} cannot be had{why}; {fix}", it.image))
        }
        "CrashLoopBackOff" => {
            let last = it.last_state.as_ref().and_then(|it| it.terminated.as_ref());
            let code = last
                .map(|it| format!(" with exit code {}", it.exit_code))
                .unwrap_or_default();
            Some(format!(
                "container {} ends{code} each time it is started; `kubectl logs -n {namespace} {pod} --previous` says why",
                it.name
            ))
        }
        "" | "ContainerCreating" | "PodInitializing" if message.is_empty() => None,
        "" | "ContainerCreating" | "PodInitializing" => Some(message.to_owned()),
        reason => Some(format!("{reason}: {message}").trim_end_matches(": ").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn workload(status: &Value, pods: &[Value]) -> Workload {
        let deployment = json!({
            "metadata": {"name": "d", "namespace": "n", "generation": 1},
            "spec": {"replicas": 1, "selector": {}, "template": {}}, "status": status,
        });
        let pod = |it: &Value| PodSeen {
            pod: serde_json::from_value(it.clone()).unwrap(),
            warning: it["warning"].as_str().map(str::to_owned),
        };
        Workload {
            deployment: serde_json::from_value(deployment).unwrap(),
            pods: pods.iter().map(pod).collect(),
        }
    }

    fn pod(state: &Value, last: &Value) -> Value {
        json!({"metadata": {"name": "p"}, "status": {"containerStatuses": [{
            "name": "c", "image": "drover:9", "imageID": "", "ready": false, "restartCount": 0, "state": state, "lastState": last,
        }]}})
    }

    #[test]
    fn a_deployment_that_is_up_to_date_waits_for_nothing() {
        let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1});
        assert_eq!(workload(&status, &[]).sentences("fix"), Vec::<String>::new());
    }

    #[test]
    fn an_image_that_does_not_start_leaves_old_pods_serving() {
        let status = json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 1, "availableReplicas": 1});
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image."}});
        assert_eq!(
            workload(&status, &[pod(&waiting, &json!({}))]).sentences("take another"),
            [
                "Pod n/p: image drover:9 cannot be had (Back-off pulling image); take another.",
                "Until then the pods of before go on: 1 of Deployment n/d.",
            ]
        );
    }

    #[test]
    fn a_pod_that_does_not_start_says_why() {
        let said = |pod: Value| {
            workload(&json!({"observedGeneration": 1}), &[pod])
                .sentences("fix")
                .join(" ")
        };
        let crash = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
        let last = json!({"terminated": {"exitCode": 2}});
        assert_eq!(
            said(pod(&crash, &last)),
            "Pod n/p: container c ends with exit code 2 each time it is started; `kubectl logs -n n p --previous` says why."
        );
        let creating = json!({"waiting": {"reason": "ContainerCreating"}});
        let mut mount = pod(&creating, &json!({}));
        assert_eq!(said(mount.clone()), "Pod n/p: it has not started yet.");
        mount["warning"] = json!("MountVolume.SetUp failed: secret \"s\" not found.");
        assert_eq!(
            said(mount),
            "Pod n/p: MountVolume.SetUp failed: secret \"s\" not found."
        );
        let running = json!({"running": {}});
        assert!(said(pod(&running, &json!({}))).contains("`kubectl logs -n n p`"));
        let full = json!({"metadata": {"name": "p"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Too many pods."}]}});
        assert_eq!(
            said(full),
            "Pod n/p: no node takes it: 0/1 nodes are available: 1 Too many pods."
        );
    }

    #[test]
    fn a_deployment_that_cannot_make_pods_says_why() {
        let status = json!({"observedGeneration": 1, "conditions": [
            {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota."}]});
        assert_eq!(
            workload(&status, &[]).sentences("fix"),
            ["Deployment n/d: exceeded quota."]
        );
        assert_eq!(
            workload(&json!({}), &[]).sentences("fix"),
            ["Deployment n/d has 0 of 1 pods available, 0 of them up to date."]
        );
    }
}
