//! One manifest of a work: what it names, where it stands in the order of applying, and what of it is applied.
//! Upstream: ocm pkg/work/spoke/controllers/manifestcontroller, `resourceApplyOrder`.

use std::fmt;

use ocm_reconcile::segment;
use serde_json::{Map, Value};

/// Group, version and kind, as the user wrote them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Gvk {
    /// `group/version`, or just the version for the core group.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }
}

impl fmt::Display for Gvk {
    /// As Go prints it, because it appears in messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

/// `group/version`, or just the version for the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// Splits `apiVersion` into group and version.
pub fn split_api_version(text: &str) -> (String, String) {
    match text.split_once('/') {
        Some((group, version)) => (group.to_owned(), version.to_owned()),
        None => (String::new(), text.to_owned()),
    }
}

/// A resource as the API serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    pub gvk: Gvk,
    /// Lower-case plural, as in URLs.
    pub plural: String,
    pub namespaced: bool,
}

/// One object on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    /// Whether both name one object, whatever the version they were reached by.
    pub fn same_object(&self, other: &ObjectKey) -> bool {
        (&self.group, &self.resource, &self.namespace, &self.name)
            == (&other.group, &other.resource, &other.namespace, &other.name)
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        write!(f, " ")?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}", self.name)
    }
}

/// A manifest that can be read as an object with a kind and a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Its place in the work's list.
    pub ordinal: usize,
    pub gvk: Gvk,
    pub namespace: String,
    pub name: String,
    /// The object without what only a server may write.
    pub object: Value,
}

/// A manifest that nothing can be done with, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unreadable {
    pub ordinal: usize,
    pub gvk: Gvk,
    pub namespace: String,
    pub name: String,
    pub why: String,
}

/// Reads the manifest at this place of the list.
#[expect(clippy::result_large_err, reason = "what can be read is larger still")]
pub fn parse(ordinal: usize, raw: &Value) -> Result<Manifest, Unreadable> {
    let text = |pointer: &str| {
        raw.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (group, version) = split_api_version(&text("/apiVersion"));
    let gvk = Gvk {
        group,
        version,
        kind: text("/kind"),
    };
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let problem = match raw {
        Value::Object(_) if gvk.kind.is_empty() => Some("Object 'Kind' is missing in the manifest".to_owned()),
        Value::Object(_) if gvk.version.is_empty() => Some("Object 'apiVersion' is missing in the manifest".to_owned()),
        Value::Object(_) if name.is_empty() => Some("name must be set in manifest".to_owned()),
        Value::Object(_) => refusal(&gvk, &namespace, &name),
        other => Some(format!("the manifest is not an object but {}", type_name(other))),
    };
    if let Some(why) = problem {
        return Err(Unreadable {
            ordinal,
            gvk,
            namespace,
            name,
            why,
        });
    }
    let mut object = raw.clone();
    strip(&mut object);
    Ok(Manifest {
        ordinal,
        gvk,
        namespace,
        name,
        object,
    })
}

/// Why a manifest cannot be addressed: what it names goes into the paths of requests. In the words of client-go, with
/// which upstream refuses it, and one more reason: no kind that we know has control characters in its names, and they
/// tear apart what is logged.
fn refusal(gvk: &Gvk, namespace: &str, name: &str) -> Option<String> {
    let texts = [
        ("group", gvk.group.as_str()),
        ("version", &gvk.version),
        ("namespace", namespace),
        ("resource name", name),
    ];
    texts.into_iter().find_map(|(what, text)| {
        let control = || {
            text.contains(char::is_control)
                .then(|| "may not contain control characters".to_owned())
        };
        let why = segment::refusal(text).or_else(control)?;
        Some(format!("invalid {what} {text:?}: [{why}]"))
    })
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Takes away what only a server may write, and the null creation timestamps that Go programs print everywhere.
fn strip(object: &mut Value) {
    strip_null_creation_timestamps(object);
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "managedFields",
            "selfLink",
        ] {
            metadata.remove(field);
        }
    }
}

fn strip_null_creation_timestamps(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("creationTimestamp") == Some(&Value::Null) {
                fields.remove("creationTimestamp");
            }
            fields.values_mut().for_each(strip_null_creation_timestamps);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_null_creation_timestamps),
        _ => {}
    }
}

/// Where a kind stands in the order of applying: lower goes first. Only the kind's name counts, as upstream.
pub fn rank(kind: &str) -> u16 {
    match kind {
        "PriorityClass"
        | "Namespace"
        | "CustomResourceDefinition"
        | "StorageClass"
        | "PersistentVolume"
        | "PodSecurityPolicy" => 0,
        "ClusterRole" | "ClusterRoleBinding" | "Role" | "RoleBinding" => 1,
        "NetworkPolicy" | "ResourceQuota" | "LimitRange" | "PodDisruptionBudget" | "ServiceAccount" => 2,
        "Secret" | "ConfigMap" | "PersistentVolumeClaim" => 3,
        "Service" => 4,
        "DaemonSet"
        | "Pod"
        | "ReplicationController"
        | "ReplicaSet"
        | "Deployment"
        | "HorizontalPodAutoscaler"
        | "StatefulSet"
        | "Job"
        | "CronJob" => 5,
        "APIService"
        | "MutatingWebhookConfiguration"
        | "ValidatingWebhookConfiguration"
        | "ValidatingAdmissionPolicy"
        | "ValidatingAdmissionPolicyBinding" => 6,
        _ => 1000,
    }
}

/// The part of an object's metadata, made if it is missing.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.get("metadata").is_some_and(Value::is_object) {
        object["metadata"] = Value::Object(Map::new());
    }
    object["metadata"]
        .as_object_mut()
        .expect("metadata was made an object just above")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_manifest_that_is_not_an_object_is_refused() {
        assert_eq!(
            parse(0, &json!("x")).unwrap_err().why,
            "the manifest is not an object but a string"
        );
        assert_eq!(parse(3, &json!([1])).unwrap_err().ordinal, 3);
        assert_eq!(
            parse(0, &json!({"kind": "A"})).unwrap_err().why,
            "Object 'apiVersion' is missing in the manifest"
        );
        assert_eq!(
            parse(0, &json!({"kind": "A", "apiVersion": "v1", "metadata": {}}))
                .unwrap_err()
                .why,
            "name must be set in manifest"
        );
    }

    #[test]
    fn what_a_server_writes_is_not_applied() {
        let manifest = parse(
            0,
            &json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "a", "namespace": "b", "uid": "u", "creationTimestamp": null},
                "spec": {"template": {"metadata": {"creationTimestamp": null, "labels": {"app": "x"}}}}
            }),
        )
        .unwrap();
        assert_eq!(manifest.gvk.to_string(), "apps/v1, Kind=Deployment");
        assert_eq!(
            manifest.object,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a", "namespace": "b"},
                "spec": {"template": {"metadata": {"labels": {"app": "x"}}}}
            })
        );
    }

    #[test]
    fn namespaces_go_first_and_webhooks_after_what_they_watch() {
        let mut kinds = [
            "Widget",
            "APIService",
            "Deployment",
            "ConfigMap",
            "ServiceAccount",
            "Role",
            "Namespace",
        ];
        kinds.sort_by_key(|it| rank(it));
        assert_eq!(
            kinds,
            [
                "Namespace",
                "Role",
                "ServiceAccount",
                "ConfigMap",
                "Deployment",
                "APIService",
                "Widget"
            ]
        );
    }
}
