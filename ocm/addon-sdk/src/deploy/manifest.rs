//! What a rendered manifest is: which object, on which side it lives, whether it is a hook, whether it stays behind.
//! Upstream: addon-framework `pkg/addonmanager/constants` and `pkg/addonmanager/controllers/agentdeploy/utils.go`.

use std::time::Duration;

use ocm_api::annotations;
use serde_json::{Map, Value};

/// The two clusters that an add-on may put manifests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The managed cluster itself.
    Managed,
    /// The cluster that hosts the agent.
    Hosting,
}

/// Names one object, whatever version of its kind is spoken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestIdentity {
    /// The API group; empty for the core group.
    pub group: String,
    /// The kind.
    pub kind: String,
    /// Its namespace; empty when it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// What one side gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// What is there as long as the add-on is.
    pub deployed: Vec<Value>,
    /// Jobs and Pods that run before the add-on goes.
    pub hooks: Vec<Value>,
}

/// What both sides get.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shares {
    /// For the managed cluster.
    pub managed: Share,
    /// For the hosting cluster.
    pub hosting: Share,
}

impl Shares {
    /// What this side gets.
    pub fn on(&self, side: Side) -> &Share {
        match side {
            Side::Managed => &self.managed,
            Side::Hosting => &self.hosting,
        }
    }
}

impl ManifestIdentity {
    /// The identity of a manifest; what it does not say is empty.
    pub fn of(manifest: &Value) -> Self {
        Self {
            group: group(manifest).to_owned(),
            kind: text(manifest, "/kind").to_owned(),
            namespace: text(manifest, "/metadata/namespace").to_owned(),
            name: text(manifest, "/metadata/name").to_owned(),
        }
    }
}

/// Gives each manifest to its side. Where a manifest asks to go counts in hosted mode only;
/// without it everything goes to the managed cluster.
///
/// # Errors
/// What is wrong with a manifest, in words for the condition.
pub fn share(manifests: Vec<Value>, hosted: bool) -> Result<Shares, String> {
    let mut shares = Shares::default();
    for (place, mut manifest) in manifests.into_iter().enumerate() {
        if text(&manifest, "/apiVersion").is_empty() || text(&manifest, "/kind").is_empty() {
            return Err(format!("manifest {place} has no apiVersion or no kind"));
        }
        let share = match if hosted {
            location(&manifest)?
        } else {
            Some(Side::Managed)
        } {
            Some(Side::Managed) => &mut shares.managed,
            Some(Side::Hosting) => &mut shares.hosting,
            None => continue,
        };
        drop_creation_timestamps(&mut manifest);
        if is_hook(&manifest) {
            share.hooks.push(manifest);
        } else {
            share.deployed.push(manifest);
        }
    }
    Ok(shares)
}

/// Where a manifest says that it goes in hosted mode, if it says anything.
pub fn location_mark(manifest: &Value) -> Option<&str> {
    mark(manifest, annotations::ADDON_HOSTED_MANIFEST_LOCATION)
}

/// Where a manifest goes in hosted mode; nowhere is a place too: what only makes sense without hosting.
///
/// # Errors
/// What is wrong with it, in words for the condition.
pub fn location(manifest: &Value) -> Result<Option<Side>, String> {
    match location_mark(manifest) {
        None | Some("managed") => Ok(Some(Side::Managed)),
        Some("hosting") => Ok(Some(Side::Hosting)),
        Some("none") => Ok(None),
        Some(other) => Err(format!(
            "{} {} has the manifest location {other:?}, which is none of managed, hosting and none",
            text(manifest, "/kind"),
            text(manifest, "/metadata/name"),
        )),
    }
}

/// Whether a manifest is a Job or a Pod that runs before the add-on goes. The annotation on any other kind means
/// nothing.
pub fn is_hook(manifest: &Value) -> bool {
    let kind = (group(manifest), text(manifest, "/kind"));
    matches!(kind, ("batch", "Job") | ("", "Pod")) && mark(manifest, annotations::ADDON_PRE_DELETE).is_some()
}

/// How long a hook may take, counted from the deletion of the add-on. Upstream waits for ever,
/// and so do we unless the hook says otherwise.
///
/// # Errors
/// What the annotation says when it is no duration.
pub fn deadline(hook: &Value) -> Result<Option<Duration>, String> {
    let Some(text) = mark(hook, annotations::ADDON_PRE_DELETE_DEADLINE) else {
        return Ok(None);
    };
    let duration: Option<jiff::SignedDuration> = text.parse().ok();
    match duration.and_then(|it| Duration::try_from(it).ok()) {
        Some(duration) => Ok(Some(duration)),
        None => Err(text.to_owned()),
    }
}

/// Whether an object stays when the add-on goes.
pub fn stays_behind(manifest: &Value) -> bool {
    manifest["metadata"]["annotations"]
        .get(annotations::ADDON_DELETION_ORPHAN)
        .is_some()
}

/// Whether two manifests say the same. A member that is null says nothing, because a merge patch cannot write it;
/// neither does an empty one of the metadata, because an API server leaves it out
/// when it stores an object inside another.
pub fn same(one: &Value, other: &Value) -> bool {
    let (Value::Object(one), Value::Object(other)) = (one, other) else {
        return one == other;
    };
    let metadata = |of: &Map<String, Value>| of.get("metadata").cloned().unwrap_or_default();
    let rest = |of: &Map<String, Value>| said(of, Value::is_null).filter(|(key, _)| *key != "metadata").count();
    rest(one) == rest(other)
        && said(one, Value::is_null)
            .filter(|(key, _)| *key != "metadata")
            .all(|(key, it)| other.get(key).is_some_and(|there| agrees(it, there, Value::is_null)))
        && agrees(&metadata(one), &metadata(other), is_empty)
}

fn said(map: &Map<String, Value>, is_nothing: fn(&Value) -> bool) -> impl Iterator<Item = (&String, &Value)> {
    map.iter().filter(move |(_, it)| !is_nothing(it))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

// Below a field of the metadata, such as its labels, what is empty is said again.
fn agrees(one: &Value, other: &Value, is_nothing: fn(&Value) -> bool) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            said(one, is_nothing).count() == said(other, is_nothing).count()
                && said(one, is_nothing)
                    .all(|(key, it)| other.get(key).is_some_and(|there| agrees(it, there, Value::is_null)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| agrees(one, other, Value::is_null))
        }
        (one, other) => one == other,
    }
}

// Go writes `creationTimestamp: null` into everything it serializes, templates of pods included.
fn drop_creation_timestamps(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(metadata)) = map.get_mut("metadata") {
                metadata.remove("creationTimestamp");
            }
            map.values_mut().for_each(drop_creation_timestamps);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_creation_timestamps),
        _ => {}
    }
}

/// The lower-case plural that the API server most likely serves a kind under. A definition of the kind among the
/// manifests knows better, and is asked first.
pub fn resource(manifest: &Value, beside: &[Value]) -> String {
    let (group, kind) = (group(manifest), text(manifest, "/kind"));
    let defined = beside.iter().find(|it| {
        text(it, "/kind") == "CustomResourceDefinition"
            && text(it, "/spec/group") == group
            && text(it, "/spec/names/kind") == kind
    });
    match defined.map(|it| text(it, "/spec/names/plural")) {
        Some(plural) if !plural.is_empty() => plural.to_owned(),
        _ => plural(kind),
    }
}

// Upstream knows `s`, `y` and the rest; Gateway and Mesh are kinds too.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    if lower == "endpoints" {
        return lower;
    }
    if ["s", "x", "ch", "sh"].iter().any(|end| lower.ends_with(end)) {
        return format!("{lower}es");
    }
    match lower.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ => format!("{lower}s"),
    }
}

/// The API group of a manifest.
pub fn group(manifest: &Value) -> &str {
    text(manifest, "/apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group)
}

/// What stands at a JSON pointer, or nothing.
pub fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A mark of the framework: an annotation, or a label of the same key as older add-ons have it.
fn mark<'v>(manifest: &'v Value, key: &str) -> Option<&'v str> {
    let metadata = &manifest["metadata"];
    ["annotations", "labels"]
        .iter()
        .find_map(|it| metadata[*it].get(key))
        .map(|it| it.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(version: &str, kind: &str, name: &str, annotations: &Value) -> Value {
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "annotations": annotations}})
    }

    fn names(list: &[Value]) -> Vec<&str> {
        list.iter().map(|it| text(it, "/metadata/name")).collect()
    }

    fn mixed() -> Vec<Value> {
        let at = |place: &str| json!({ annotations::ADDON_HOSTED_MANIFEST_LOCATION: place });
        let hook = json!({ annotations::ADDON_PRE_DELETE: "" });
        let mut hosted_hook = at("hosting");
        hosted_hook[annotations::ADDON_PRE_DELETE] = "".into();
        vec![
            object("v1", "ConfigMap", "everywhere", &json!({})),
            object("v1", "ConfigMap", "here", &at("managed")),
            object("v1", "ConfigMap", "there", &at("hosting")),
            object("v1", "ConfigMap", "nowhere", &at("none")),
            object("batch/v1", "Job", "hook", &hook),
            object("v1", "Pod", "hosted-hook", &hosted_hook),
            object("v1", "ConfigMap", "no-hook", &hook),
        ]
    }

    #[test]
    fn in_hosted_mode_each_manifest_has_its_location() {
        let shares = share(mixed(), true).unwrap();
        assert_eq!(names(&shares.managed.deployed), ["everywhere", "here", "no-hook"]);
        assert_eq!(names(&shares.managed.hooks), ["hook"]);
        assert_eq!(names(&shares.hosting.deployed), ["there"]);
        assert_eq!(names(&shares.hosting.hooks), ["hosted-hook"]);
    }

    #[test]
    fn without_hosting_everything_goes_to_the_managed_cluster() {
        let shares = share(mixed(), false).unwrap();
        assert_eq!(
            names(&shares.managed.deployed),
            ["everywhere", "here", "there", "nowhere", "no-hook"]
        );
        assert_eq!(names(&shares.managed.hooks), ["hook", "hosted-hook"]);
        assert_eq!(shares.hosting, Share::default());
    }

    #[test]
    fn an_unknown_location_is_an_error_in_hosted_mode_only() {
        let odd = || {
            vec![object(
                "v1",
                "Secret",
                "odd",
                &json!({ annotations::ADDON_HOSTED_MANIFEST_LOCATION: "moon" }),
            )]
        };
        assert_eq!(
            share(odd(), true).unwrap_err(),
            "Secret odd has the manifest location \"moon\", which is none of managed, hosting and none"
        );
        assert!(share(odd(), false).is_ok());
        assert!(share(vec![json!({"kind": "Secret"})], false).is_err());
    }

    #[test]
    fn labels_of_older_add_ons_count_as_marks() {
        let manifest = json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": {"name": "a", "labels": {annotations::ADDON_PRE_DELETE: ""}}
        });
        assert!(is_hook(&manifest));
    }

    #[test]
    fn a_timestamp_that_was_never_written_is_no_difference() {
        let wanted = json!({"metadata": {"creationTimestamp": null, "name": "a"}, "spec": {"template": {"metadata": {"creationTimestamp": null}}}});
        let written = json!({"metadata": {"name": "a"}, "spec": {"template": {"metadata": {}}}});
        assert!(same(&wanted, &written) && same(&written, &wanted));
        assert!(!same(&json!({"a": 1, "b": null}), &json!({"a": 1, "b": 2})));
        let mut dropped = wanted;
        drop_creation_timestamps(&mut dropped);
        assert_eq!(dropped, written);
        // What an API server does to the metadata of an object inside a work.
        let wanted =
            json!({"metadata": {"name": "a", "namespace": "", "annotations": {}, "labels": {"x": ""}}, "data": {}});
        let written = json!({"metadata": {"name": "a", "labels": {"x": ""}}, "data": {}});
        assert!(same(&wanted, &written) && same(&written, &wanted));
        assert!(!same(
            &json!({"metadata": {"labels": {"x": ""}}}),
            &json!({"metadata": {"labels": {"y": ""}}})
        ));
        assert!(!same(&json!({"data": {}}), &json!({})));
    }

    #[test]
    fn plurals_are_guessed_unless_a_definition_says_them() {
        let guess = |kind: &str| resource(&object("v1", kind, "a", &json!({})), &[]);
        for (kind, plural) in [
            ("ConfigMap", "configmaps"),
            ("NetworkPolicy", "networkpolicies"),
            ("Ingress", "ingresses"),
            ("Gateway", "gateways"),
            ("Endpoints", "endpoints"),
        ] {
            assert_eq!(guess(kind), plural);
        }
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "spec": {"group": "x.io", "names": {"kind": "Ox", "plural": "oxen"}}
        });
        assert_eq!(
            resource(&object("x.io/v1", "Ox", "a", &json!({})), &[definition]),
            "oxen"
        );
    }

    #[test]
    fn a_deadline_is_a_duration_or_is_called_wrong() {
        let with = |text: &str| {
            let marks = json!({ annotations::ADDON_PRE_DELETE_DEADLINE: text });
            deadline(&object("batch/v1", "Job", "a", &marks))
        };
        assert_eq!(deadline(&object("batch/v1", "Job", "a", &json!({}))), Ok(None));
        assert_eq!(with("5m"), Ok(Some(Duration::from_secs(300))));
        assert_eq!(with("1h30m"), Ok(Some(Duration::from_secs(5400))));
        assert_eq!(with("soon"), Err("soon".to_owned()));
        assert_eq!(with("-5m"), Err("-5m".to_owned()));
    }
}
