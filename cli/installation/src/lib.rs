//! A hub or an agent on a Kubernetes: an operator and a ClusterManager ([`hub`]) or a Klusterlet ([`cluster`]), put
//! there, waited for, upgraded ([`upgrade`]) and taken away again, as clusteradm does; and the manifests of a hub or an
//! agent without an operator ([`charts`]), which is what [`former`] releases installed.
//!
//! What a verb does is here, as a function of plain options; `drover` and `clusteradm` type it each in its own way.

pub mod accept;
pub mod bundle;
pub mod capi;
pub mod charts;
pub mod cluster;
pub mod former;
pub mod gates;
pub mod hub;
pub mod images;
pub mod info;
pub mod manifests;
pub mod operated;
pub mod resources;
pub mod token;
pub mod upgrade;
pub mod values;
pub mod wait;

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use client::connect::ApiServer;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy},
    core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta},
    runtime::wait::{await_condition, conditions::is_deleted},
};
use ocm_api::namespaces;
use ocm_reconcile::install::{DROVER, MANAGED_BY};
use serde_json::Value;

/// The field manager of what is put on a cluster.
const MANAGER: &str = "drover";

/// The Deployments that upstream's hub is known by: namespace and name.
pub const UPSTREAM_HUB: [(&str, &str); 2] = [
    (namespaces::OPERATOR, "cluster-manager"),
    (namespaces::HUB, "cluster-manager-registration-controller"),
];
/// The one that upstream's agent is known by.
pub const UPSTREAM_AGENT: [(&str, &str); 1] = [(namespaces::OPERATOR, "klusterlet")];

/// What became of one object, and its name as kubectl writes it.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    name: String,
    what: &'static str,
}

impl Line {
    /// Of an object that has no manifest here.
    pub(crate) fn new(kind: &ApiResource, name: &str, what: &'static str) -> Self {
        let group = &kind.group;
        let dot = if group.is_empty() { "" } else { "." };
        Self {
            name: format!("{}{dot}{group}/{name}", kind.kind.to_lowercase()),
            what,
        }
    }

    /// The object, as kubectl names it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} {}", self.name, self.what)
    }
}

/// Whether to write, or only to say what would be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Writes.
    Write,
    /// Says what it would write.
    DryRun,
}

/// What every command takes that takes something away.
#[derive(Debug, Args)]
pub struct Removal {
    /// Also write what is removed to FILE, as manifests
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// How long to wait until everything is gone, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    timeout: u64,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl Removal {
    pub fn mode(&self) -> Mode {
        if self.dry_run { Mode::DryRun } else { Mode::Write }
    }

    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// One manifest, with what its requests need.
struct Object<'a> {
    resource: ApiResource,
    name: &'a str,
    namespace: Option<&'a str>,
    manifest: &'a Value,
}

impl<'a> Object<'a> {
    fn of(manifest: &'a Value) -> Result<Self> {
        let types: TypeMeta = serde_json::from_value(manifest.clone())?;
        let kind = GroupVersionKind::try_from(&types)?;
        let name = manifest["metadata"]["name"].as_str();
        Ok(Self {
            resource: ApiResource::from_gvk(&kind),
            name: name.ok_or_else(|| anyhow!("a manifest of kind {} has no name", kind.kind))?,
            namespace: manifest["metadata"]["namespace"].as_str(),
            manifest,
        })
    }

    fn api(&self, cluster: &ApiServer) -> Api<DynamicObject> {
        match self.namespace {
            Some(namespace) => cluster.namespaced(&self.resource, namespace),
            None => cluster.all(&self.resource),
        }
    }

    fn line(&self, what: &'static str) -> Line {
        Line::new(&self.resource, self.name, what)
    }
}

/// The first of these Deployments that is there, as NAMESPACE/NAME.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn find(cluster: &ApiServer, deployments: &[(&str, &str)]) -> Result<Option<String>> {
    for (namespace, name) in deployments {
        let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
        let found = api.get_opt(name).await;
        let found = found.map_err(|error| cluster.explain("could not look for what runs there already", &error))?;
        if found.is_some() {
            return Ok(Some(format!("{namespace}/{name}")));
        }
    }
    Ok(None)
}

/// A Deployment in a namespace that is none of ours, as NAMESPACE/NAME. Whose it is keeps the namespace.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn stranger(cluster: &ApiServer, namespace: &str) -> Result<Option<String>> {
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
    let listed = api.list(&ListParams::default()).await;
    let doing = || format!("could not look for what else runs in namespace {namespace}");
    let listed = listed.map_err(|error| cluster.explain(&doing(), &error))?;
    let names = listed.items.into_iter().filter_map(|it| it.metadata.name);
    let mut strangers = names.filter(|it| ![charts::HUB, charts::AGENT].contains(&it.as_str()));
    Ok(strangers.next().map(|it| format!("{namespace}/{it}")))
}

/// Those of the manifests whose objects are there and say that they are ours.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn ours(cluster: &ApiServer, manifests: Vec<Value>) -> Result<Vec<Value>> {
    let mut ours = Vec::new();
    for manifest in manifests {
        let object = Object::of(&manifest)?;
        let found = get(&object.api(cluster), object.name).await;
        let doing = || format!("could not look at {}", object.line("").name);
        let found = found.map_err(|error| cluster.explain(&doing(), &error))?;
        if found.is_some_and(|it| it.labels().get(MANAGED_BY).is_some_and(|it| it == DROVER)) {
            ours.push(manifest);
        }
    }
    Ok(ours)
}

/// An object; nothing where it or its kind is not there.
async fn get(api: &Api<DynamicObject>, name: &str) -> Result<Option<DynamicObject>, kube::Error> {
    match api.get_opt(name).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        got => got,
    }
}

/// Applies the manifests one after the other, each by server-side apply: fields that somebody else has set stay.
///
/// # Errors
/// What the API server says of the first that it refuses.
pub async fn apply(cluster: &ApiServer, manifests: &[Value], mode: Mode) -> Result<Vec<Line>> {
    let mut lines = Vec::new();
    for manifest in manifests {
        let object = Object::of(manifest)?;
        let api = object.api(cluster);
        let doing = || format!("could not apply {}", object.line("").name);
        let before = get(&api, object.name).await;
        let before = before.map_err(|error| cluster.explain(&doing(), &error))?;
        if mode == Mode::DryRun {
            let what = if before.is_some() {
                "applied (dry run)"
            } else {
                "created (dry run)"
            };
            lines.push(object.line(what));
            continue;
        }
        let mut wanted = object.manifest.clone();
        if wanted.get("aggregationRule").is_some() {
            // They are Kubernetes' to fill in.
            wanted.as_object_mut().map(|it| it.remove("rules"));
        }
        // What we installed is ours, whoever else has written it since.
        let parameters = PatchParams::apply(MANAGER).force();
        let after = api.patch(object.name, &parameters, &Patch::Apply(&wanted)).await;
        let after = after.map_err(|error| cluster.explain(&doing(), &error))?;
        let what = match before {
            None => "created",
            Some(before) if before.metadata.resource_version == after.metadata.resource_version => "unchanged",
            Some(_) => "configured",
        };
        lines.push(object.line(what));
    }
    Ok(lines)
}

/// Takes the manifests away, the last first, and waits for each until it is gone with what belongs to it.
/// What is not there is passed over.
///
/// # Errors
/// What the API server says of the first that it refuses, and what is still there after `timeout`.
pub async fn remove(cluster: &ApiServer, manifests: &[Value], mode: Mode, timeout: Duration) -> Result<Vec<Line>> {
    let deadline = tokio::time::Instant::now() + timeout;
    let mut lines = Vec::new();
    for manifest in manifests.iter().rev() {
        let object = Object::of(manifest)?;
        let api = object.api(cluster);
        let doing = || format!("could not delete {}", object.line("").name);
        let found = get(&api, object.name).await;
        let found = found.map_err(|error| cluster.explain(&doing(), &error))?;
        let Some(uid) = found.and_then(|it| it.metadata.uid) else {
            continue;
        };
        if mode == Mode::DryRun {
            lines.push(object.line("deleted (dry run)"));
            continue;
        }
        let parameters = DeleteParams {
            // Pods go before their Deployment: while one still works it would write anew what goes next.
            propagation_policy: Some(PropagationPolicy::Foreground),
            ..DeleteParams::default()
        };
        match api.delete(object.name, &parameters).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(cluster.explain(&doing(), &error)),
        }
        let gone = await_condition(api, object.name, is_deleted(&uid));
        match tokio::time::timeout_at(deadline, gone).await {
            Ok(Ok(_)) => lines.push(object.line("deleted")),
            Ok(Err(error)) => bail!(
                "lost sight of {} while it was being deleted: {error}",
                object.line("").name
            ),
            Err(_) => bail!(
                "{} is still being deleted after {} s; `kubectl get {} -o yaml` names what holds it",
                object.line("").name,
                timeout.as_secs(),
                object.line("").name
            ),
        }
    }
    Ok(lines)
}

/// Waits until all pods of a Deployment are ready.
///
/// # Errors
/// After `timeout`, with what its pods wait for.
pub async fn available(cluster: &ApiServer, namespace: &str, name: &str, timeout: Duration) -> Result<()> {
    let api: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
    let ready = await_condition(api, name, |it: Option<&Deployment>| it.is_some_and(is_available));
    match tokio::time::timeout(timeout, ready).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => bail!("lost sight of Deployment {namespace}/{name}: {error}"),
        Err(_) => {
            let why = waiting(cluster, namespace, name).await;
            bail!(
                "Deployment {namespace}/{name} is not available after {} s: {why}",
                timeout.as_secs()
            )
        }
    }
}

/// Whether the Deployment as it is written now has all of its pods ready.
pub fn is_available(it: &Deployment) -> bool {
    let wanted = it.spec.replicas.unwrap_or(1);
    it.status.as_ref().is_some_and(|status| {
        status.observed_generation >= it.metadata.generation
            && status.updated_replicas.unwrap_or(0) >= wanted
            && status.available_replicas.unwrap_or(0) >= wanted
            && status.replicas.unwrap_or(0) <= wanted
    })
}

/// What the pods of a Deployment wait for, in one sentence.
async fn waiting(cluster: &ApiServer, namespace: &str, name: &str) -> String {
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let listed = pods.list(&ListParams::default().labels(&format!("app={name}"))).await;
    let said: Vec<String> = match listed {
        Ok(listed) => listed.items.iter().filter_map(pod_waits).collect(),
        Err(error) => return cluster.explain("could not list its pods", &error).to_string(),
    };
    if said.is_empty() {
        format!("it has no pods; `kubectl describe deployment -n {namespace} {name}` may tell why")
    } else {
        said.join("; ")
    }
}

fn pod_waits(pod: &Pod) -> Option<String> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let status = pod.status.as_ref()?;
    let texts = |reason: &Option<String>, message: &Option<String>| {
        let parts: Vec<&str> = [reason, message].into_iter().filter_map(|it| it.as_deref()).collect();
        parts.join(": ")
    };
    let container = status.container_statuses.iter().flatten().find_map(|it| {
        let waiting = it.state.as_ref()?.waiting.as_ref()?;
        Some(texts(&waiting.reason, &waiting.message))
    });
    let condition = status.conditions.iter().flatten().find(|it| it.status == "False");
    let condition = condition.map(|it| texts(&it.reason, &it.message));
    let said = container.or(condition).filter(|it| !it.is_empty());
    let said = said.or_else(|| status.phase.clone())?;
    Some(format!("pod {name}: {said}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_printed_as_in_kubectl() {
        let deployment =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "b"}});
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b"}});
        let line = |manifest: &Value| Object::of(manifest).unwrap().line("created").to_string();
        assert_eq!(line(&deployment), "deployment.apps/a created");
        assert_eq!(line(&namespace), "namespace/b created");
        assert!(Object::of(&json!({"apiVersion": "v1", "kind": "Namespace"})).is_err());
    }

    #[test]
    fn a_deployment_is_available_when_what_is_written_now_runs() {
        let of = |observed: i64, updated: i32, available: i32, replicas: i32| -> bool {
            let value = json!({
                "metadata": {"generation": 2}, "spec": {"replicas": 2, "selector": {}, "template": {}},
                "status": {
                    "observedGeneration": observed, "updatedReplicas": updated, "availableReplicas": available, "replicas": replicas,
                },
            });
            is_available(&serde_json::from_value(value).unwrap())
        };
        assert!(of(2, 2, 2, 2));
        assert!(!of(1, 2, 2, 2), "of an earlier text");
        assert!(!of(2, 1, 2, 3), "while it changes");
        assert!(!of(2, 2, 1, 2), "while one is missing");
    }

    #[test]
    fn a_waiting_pod_is_explained_by_container_reason_or_condition() {
        let pod = |status: Value| -> Option<String> {
            let value = json!({"metadata": {"name": "p"}, "status": status});
            pod_waits(&serde_json::from_value(value).unwrap())
        };
        let pulls = json!({"phase": "Pending", "containerStatuses": [{
            "name": "a", "image": "b", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}},
        }]});
        assert_eq!(pod(pulls).unwrap(), "pod p: ErrImagePull: no such image");
        let unscheduled = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no nodes"},
        ]});
        assert_eq!(pod(unscheduled).unwrap(), "pod p: Unschedulable: no nodes");
        assert_eq!(pod(json!({"phase": "Pending"})).unwrap(), "pod p: Pending");
    }
}
