//! Manifests that bear pods, and what is put into their pods.

use k8s_openapi::api::core::v1::Toleration;
use ocm_addon_sdk::values::{images, resources};
use ocm_api::addon::{ContainerResourceRequirements, ImageMirror};
use serde_json::{Map, Value, json};

/// The pods of one manifest.
pub struct Pods<'m> {
    /// The plural of the manifest's kind.
    pub workloads: &'static str,
    /// The manifest's name.
    pub name: String,
    /// The pods' spec.
    pub spec: &'m mut Map<String, Value>,
}

/// Where the spec of its pods is in a manifest of a kind, and the plural of the kind.
fn place_of(api_version: &str, kind: &str) -> Option<(&'static str, &'static str)> {
    const TEMPLATE: &str = "/spec/template/spec";
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    match (group, kind) {
        ("apps", "Deployment") => Some(("deployments", TEMPLATE)),
        ("apps", "DaemonSet") => Some(("daemonsets", TEMPLATE)),
        ("apps", "StatefulSet") => Some(("statefulsets", TEMPLATE)),
        ("apps", "ReplicaSet") => Some(("replicasets", TEMPLATE)),
        ("batch", "Job") => Some(("jobs", TEMPLATE)),
        ("batch", "CronJob") => Some(("cronjobs", "/spec/jobTemplate/spec/template/spec")),
        ("", "Pod") => Some(("pods", "/spec")),
        _ => None,
    }
}

/// The plural of the manifest's kind, if the manifest bears pods.
pub fn workloads(manifest: &Value) -> Option<&'static str> {
    let text = |key: &str| manifest[key].as_str().unwrap_or_default();
    place_of(text("apiVersion"), text("kind")).map(|(plural, _)| plural)
}

impl<'m> Pods<'m> {
    /// The pods of a manifest, if it bears any.
    pub fn of(manifest: &'m mut Value) -> Option<Self> {
        let text = |key: &str| manifest[key].as_str().unwrap_or_default();
        let (workloads, pointer) = place_of(text("apiVersion"), text("kind"))?;
        let name = manifest["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let spec = manifest.pointer_mut(pointer)?.as_object_mut()?;
        Some(Self { workloads, name, spec })
    }

    /// The containers, those that run before the others included.
    fn containers(&mut self) -> impl Iterator<Item = &mut Map<String, Value>> {
        let lists = self.spec.iter_mut();
        lists
            .filter(|(key, _)| matches!(key.as_str(), "containers" | "initContainers"))
            .filter_map(|(_, list)| list.as_array_mut())
            .flatten()
            .filter_map(Value::as_object_mut)
    }
}

/// What is put into pods.
#[derive(Clone, Debug, Default)]
pub struct Decoration {
    /// Environment variables, in order. One that a container has already gets this value: with two of one name, which
    /// is what upstream makes, the later one counts.
    pub environment: Vec<(String, String)>,
    /// Volumes and where they are mounted.
    pub volumes: Vec<Volume>,
    /// The labels of the nodes to run on; replaces the pods' own unless empty.
    pub node_selector: Map<String, Value>,
    /// The taints of the nodes to run on; replaces the pods' own unless empty.
    pub tolerations: Vec<Toleration>,
    /// Where the images come from.
    pub registries: Vec<ImageMirror>,
    /// What containers ask for and may use.
    pub resource_requirements: Vec<ContainerResourceRequirements>,
}

/// A volume and where it is mounted.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// What it is: the fields of a volume but its name.
    pub source: Value,
    /// Where it is mounted.
    pub path: String,
}

impl Volume {
    /// The content of a Secret.
    pub fn secret(name: impl Into<String>, secret: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            source: json!({ "secret": { "secretName": secret.into() } }),
            path: path.into(),
        }
    }

    /// The content of a ConfigMap.
    pub fn config_map(name: impl Into<String>, config_map: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            source: json!({ "configMap": { "name": config_map.into() } }),
            path: path.into(),
        }
    }

    fn object(&self) -> Value {
        let mut volume = self.source.clone();
        volume["name"] = self.name.as_str().into();
        volume
    }
}

impl Decoration {
    /// Puts it into pods.
    pub fn apply(&self, pods: &mut Pods<'_>) {
        for volume in &self.volumes {
            // A volume that has this name already was meant to be this one.
            add_unless(pods.spec, "volumes", volume.object(), "name");
        }
        if !self.node_selector.is_empty() {
            pods.spec
                .insert("nodeSelector".to_owned(), self.node_selector.clone().into());
        }
        if !self.tolerations.is_empty() {
            pods.spec.insert("tolerations".to_owned(), json!(self.tolerations));
        }
        let (workloads, name) = (pods.workloads, pods.name.clone());
        for container in pods.containers() {
            self.apply_to_container(workloads, &name, container);
        }
    }

    fn apply_to_container(&self, workloads: &str, workload: &str, container: &mut Map<String, Value>) {
        for (name, value) in &self.environment {
            let environment = list(container, "env");
            let variable = json!({ "name": name, "value": value });
            match environment.iter_mut().find(|it| it["name"] == **name) {
                Some(own) => *own = variable,
                None => environment.push(variable),
            }
        }
        for volume in &self.volumes {
            let mount = json!({ "name": volume.name, "mountPath": volume.path });
            add_unless(container, "volumeMounts", mount, "mountPath");
        }
        if let Some(image) = container.get("image").and_then(Value::as_str) {
            let image = images::overridden(&self.registries, image);
            container.insert("image".to_owned(), image.into());
        }
        let name = container.get("name").and_then(Value::as_str).unwrap_or_default();
        if let Some(amounts) = resources::of_container(&self.resource_requirements, workloads, workload, name) {
            container.insert("resources".to_owned(), json!(amounts));
        }
    }
}

/// A list of a map, made when there is none.
fn list<'m>(map: &'m mut Map<String, Value>, key: &str) -> &'m mut Vec<Value> {
    let list = map.entry(key).or_insert(Value::Null);
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    list.as_array_mut().expect("made a list above")
}

/// Adds an item to a list unless the list has one with the same value of this key.
fn add_unless(map: &mut Map<String, Value>, key: &str, item: Value, same: &str) {
    let list = list(map, key);
    if !list.iter().any(|it| it[same] == item[same]) {
        list.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoration() -> Decoration {
        Decoration {
            environment: vec![("CLUSTER_NAME".to_owned(), "cluster1".to_owned())],
            volumes: vec![Volume::secret(
                "hub-kubeconfig",
                "a-hub-kubeconfig",
                "/managed/hub-kubeconfig",
            )],
            node_selector: Map::from_iter([("disk".to_owned(), "ssd".into())]),
            registries: vec![ImageMirror {
                source: "quay.io".to_owned(),
                mirror: "m.io".to_owned(),
            }],
            resource_requirements: vec![ContainerResourceRequirements {
                container_id: "*:*:agent".to_owned(),
                resources: serde_json::from_value(json!({"limits": {"cpu": "1"}})).unwrap(),
            }],
            ..Decoration::default()
        }
    }

    fn pods_of(api_version: &str, kind: &str, pods: Value) -> Value {
        let spec = match kind {
            "Pod" => pods,
            "CronJob" => json!({"jobTemplate": {"spec": {"template": {"spec": pods}}}}),
            _ => json!({"template": {"spec": pods}}),
        };
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "w"}, "spec": spec})
    }

    #[test]
    fn every_kind_that_bears_pods_is_decorated() {
        let kinds = [
            ("apps/v1", "Deployment"),
            ("apps/v1", "DaemonSet"),
            ("apps/v1", "StatefulSet"),
            ("apps/v1", "ReplicaSet"),
            ("batch/v1", "Job"),
            ("batch/v1", "CronJob"),
            ("v1", "Pod"),
        ];
        for (api_version, kind) in kinds {
            let plain = json!({
                "containers": [{"name": "agent", "image": "quay.io/a:1"}],
                "initContainers": [{"name": "first", "image": "quay.io/b:1"}],
            });
            let mut manifest = pods_of(api_version, kind, plain);
            decoration().apply(&mut Pods::of(&mut manifest).unwrap());
            let environment = json!([{"name": "CLUSTER_NAME", "value": "cluster1"}]);
            let mounts = json!([{"name": "hub-kubeconfig", "mountPath": "/managed/hub-kubeconfig"}]);
            let decorated = json!({
                "nodeSelector": {"disk": "ssd"},
                "volumes": [{"name": "hub-kubeconfig", "secret": {"secretName": "a-hub-kubeconfig"}}],
                "containers": [{"name": "agent", "image": "m.io/a:1", "env": environment, "volumeMounts": mounts,
                    "resources": {"limits": {"cpu": "1"}}}],
                "initContainers": [{"name": "first", "image": "m.io/b:1", "env": environment, "volumeMounts": mounts}],
            });
            assert_eq!(manifest, pods_of(api_version, kind, decorated), "{kind}");
        }
    }

    #[test]
    fn other_kinds_bear_no_pods() {
        for (api_version, kind) in [
            ("v1", "ConfigMap"),
            ("example.com/v1", "Deployment"),
            ("apps/v1", "ControllerRevision"),
        ] {
            assert!(Pods::of(&mut pods_of(api_version, kind, json!({"containers": []}))).is_none());
        }
    }

    #[test]
    fn what_is_there_already_is_not_there_twice() {
        let plain = json!({
            "volumes": [{"name": "hub-kubeconfig", "emptyDir": {}}],
            "containers": [{"name": "x", "env": [{"name": "CLUSTER_NAME", "valueFrom": {}}, {"name": "A", "value": "b"}],
                "volumeMounts": [{"name": "own", "mountPath": "/managed/hub-kubeconfig"}]}],
        });
        let mut manifest = pods_of("v1", "Pod", plain);
        let decoration = decoration();
        decoration.apply(&mut Pods::of(&mut manifest).unwrap());
        let once = manifest.clone();
        decoration.apply(&mut Pods::of(&mut manifest).unwrap());
        assert_eq!(manifest, once);
        let container = &once["spec"]["containers"][0];
        assert_eq!(
            container["env"],
            json!([{"name": "CLUSTER_NAME", "value": "cluster1"}, {"name": "A", "value": "b"}])
        );
        assert_eq!(
            container["volumeMounts"],
            json!([{"name": "own", "mountPath": "/managed/hub-kubeconfig"}])
        );
        assert_eq!(
            once["spec"]["volumes"],
            json!([{"name": "hub-kubeconfig", "emptyDir": {}}])
        );
    }
}
