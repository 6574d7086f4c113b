//! What changes between two revisions, and what Helm leaves alone.
//! Upstream: helm.sh/helm/v3 pkg/kube/client.go, `Update`, and pkg/action/validate.go.

use std::collections::BTreeSet;

use gotemplate::helm::install_order;
use serde_json::{Map, Value};

pub(super) const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "Helm");
pub(super) const RELEASE_NAME: &str = "meta.helm.sh/release-name";
pub(super) const RELEASE_NAMESPACE: &str = "meta.helm.sh/release-namespace";
const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

/// Which object it is: two revisions may name it in different versions of its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The group of the API; empty for the core's.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// The namespace that it names, else that of the release. Kinds without one have it, too: it is the same in both
    /// revisions.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// The key of an object of a release in this namespace.
    #[must_use]
    pub fn of(object: &Value, namespace: &str) -> Self {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let metadata = &object["metadata"];
        ObjectKey {
            group: version.split_once('/').map_or("", |it| it.0).to_owned(),
            kind: text(&object["kind"]),
            namespace: metadata["namespace"]
                .as_str()
                .filter(|it| !it.is_empty())
                .unwrap_or(namespace)
                .to_owned(),
            name: text(&metadata["name"]),
        }
    }
}

/// The objects of the old revision that the new one no longer has, in the order in which they go.
#[must_use]
pub fn removed_objects(old: &[Value], new: &[Value], namespace: &str) -> Vec<Value> {
    let kept: BTreeSet<_> = new.iter().map(|it| ObjectKey::of(it, namespace)).collect();
    let gone = old.iter().filter(|it| !kept.contains(&ObjectKey::of(it, namespace)));
    uninstall_order(gone.cloned().collect())
}

/// The order in which objects go: that of the installation backwards.
#[must_use]
pub fn uninstall_order(mut objects: Vec<Value>) -> Vec<Value> {
    let kind = |it: &Value| it["kind"].as_str().unwrap_or_default().to_owned();
    objects.reverse();
    objects.sort_by(|a, b| install_order(&kind(b), &kind(a)));
    objects
}

/// Whether the object says that it stays when it leaves the release.
#[must_use]
pub fn is_kept(object: &Value) -> bool {
    let policy = object["metadata"]["annotations"][RESOURCE_POLICY].as_str();
    policy.is_some_and(|it| it.trim().eq_ignore_ascii_case("keep"))
}

/// Why an object that is there already cannot become one of a release, in Helm's words; `None` when it can.
#[must_use]
pub fn owned_by_other(live: &Value, release: &str, namespace: &str) -> Option<String> {
    let metadata = &live["metadata"];
    let (label, helm) = MANAGED_BY;
    let checks = [
        ("label", &metadata["labels"], label, helm),
        ("annotation", &metadata["annotations"], RELEASE_NAME, release),
        ("annotation", &metadata["annotations"], RELEASE_NAMESPACE, namespace),
    ];
    let mut errors = String::new();
    for (what, there, key, wanted) in checks {
        let error = match there[key].as_str() {
            Some(value) if value == wanted => continue,
            Some(value) => format!("key {key:?} must equal {wanted:?}: current value is {value:?}"),
            None => format!("missing key {key:?}: must be set to {wanted:?}"),
        };
        errors.push_str(&format!("; {what} validation error: {error}"));
    }
    if errors.is_empty() {
        return None;
    }
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    Some(format!(
        "{} {:?} in namespace {:?} exists and cannot be imported into the current release: invalid ownership \
         metadata{errors}",
        text(&live["kind"]),
        text(&metadata["name"]),
        text(&metadata["namespace"]),
    ))
}

/// A merge patch that takes away what the old revision set, the new one does not, and the object still has as the old
/// one set it. `None` when there is nothing. Elements of lists stay, because only the server knows which are the same.
///
/// It is for objects that Helm itself has made: of those that were applied on the server's side, the server knows.
#[must_use]
pub fn dropped_fields(old: &Value, new: &Value, live: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new), Value::Object(live)) = (old, new, live) else {
        return None;
    };
    let mut patch = Map::new();
    for (key, before) in old {
        let Some(there) = live.get(key).filter(|it| !it.is_null()) else {
            continue;
        };
        match new.get(key).filter(|it| !it.is_null()) {
            Some(now) => {
                if let Some(below) = dropped_fields(before, now, there) {
                    patch.insert(key.clone(), below);
                }
            }
            None if matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status") => {}
            // What others have put beside it stays.
            None if before.is_object() && there.is_object() => {
                if let Some(below) = dropped_fields(before, &Value::Object(Map::new()), there) {
                    patch.insert(key.clone(), below);
                }
            }
            None => {
                patch.insert(key.clone(), Value::Null);
            }
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(version: &str, kind: &str, name: &str) -> Value {
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}})
    }

    fn names(objects: &[Value]) -> Vec<&str> {
        objects
            .iter()
            .filter_map(|it| it["metadata"]["name"].as_str())
            .collect()
    }

    #[test]
    fn an_object_that_the_new_revision_lacks_goes() {
        let old = [
            object("v1", "ConfigMap", "a"),
            object("v1", "ConfigMap", "b"),
            object("extensions/v1beta1", "Ingress", "c"),
            object("apps/v1", "Deployment", "d"),
            object("apps/v1", "Deployment", "e"),
        ];
        let new = [
            object("v1", "ConfigMap", "b"),
            object("networking.k8s.io/v1", "Ingress", "c"),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "e", "namespace": "ns"}}),
        ];
        assert_eq!(names(&removed_objects(&old, &new, "ns")), ["c", "d", "a"]);
    }

    #[test]
    fn objects_go_in_the_opposite_order() {
        let installed = vec![
            object("v1", "Namespace", "a"),
            object("v1", "ConfigMap", "b"),
            object("v1", "ConfigMap", "c"),
            object("apps/v1", "Deployment", "d"),
            object("example.org/v1", "Custom", "e"),
        ];
        assert_eq!(names(&uninstall_order(installed)), ["e", "d", "c", "b", "a"]);
    }

    #[test]
    fn a_policy_keeps_an_object() {
        let with = |policy: &str| json!({"metadata": {"annotations": {RESOURCE_POLICY: policy}}});
        assert!(is_kept(&with("keep")) && is_kept(&with(" Keep ")));
        assert!(!is_kept(&with("delete")) && !is_kept(&json!({})));
    }

    #[test]
    fn an_object_of_somebody_else_is_named_in_helms_words() {
        let mut live = object("v1", "ConfigMap", "a");
        live["metadata"]["namespace"] = json!("ns");
        live["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
        live["metadata"]["annotations"] = json!({RELEASE_NAME: "other"});
        assert_eq!(
            owned_by_other(&live, "web", "ns").unwrap(),
            "ConfigMap \"a\" in namespace \"ns\" exists and cannot be imported into the current release: invalid \
             ownership metadata; annotation validation error: key \"meta.helm.sh/release-name\" must equal \"web\": \
             current value is \"other\"; annotation validation error: missing key \
             \"meta.helm.sh/release-namespace\": must be set to \"ns\""
        );
        live["metadata"]["annotations"] = json!({RELEASE_NAME: "web", RELEASE_NAMESPACE: "ns"});
        assert_eq!(owned_by_other(&live, "web", "ns"), None);
    }

    #[test]
    fn a_dropped_field_goes_and_that_of_others_stays() {
        let old = json!({"data": {"a": "1", "b": "2"}, "spec": {"x": {"y": 1}}, "metadata": {"labels": {"l": "1"}}});
        let new = json!({"data": {"b": "3"}, "metadata": {"labels": {"m": "1"}}});
        let live = json!({
            "data": {"a": "1", "b": "2", "c": "others"},
            "spec": {"x": {"y": 1, "z": 2}},
            "metadata": {"labels": {"l": "1", "o": "1"}, "name": "a"},
        });
        assert_eq!(
            dropped_fields(&old, &new, &live),
            Some(json!({"data": {"a": null}, "spec": {"x": {"y": null}}, "metadata": {"labels": {"l": null}}}))
        );
        assert_eq!(dropped_fields(&new, &new, &live), None);
        assert_eq!(dropped_fields(&old, &new, &json!({"data": {"c": "1"}})), None);
    }
}
