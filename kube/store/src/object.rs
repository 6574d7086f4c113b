//! One stored object: its bytes, serialized once, and the little metadata that reads need without parsing them.

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::sync::Arc;

/// An object at one revision. The bytes are the whole object in its storage version, `kind` and `apiVersion` first, so
/// that a response, a watch event and a list item are slices of the same buffer.
#[derive(Clone, Debug)]
pub struct Object {
    /// Resource and group, such as `deployments.apps`.
    pub resource: Arc<str>,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
    /// The revision that wrote this state; what clients see as `metadata.resourceVersion`.
    pub revision: u64,
    /// Labels, sorted by key.
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// uids of `metadata.ownerReferences`.
    pub owners: Box<[Box<str>]>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// The whole object as JSON.
    pub json: Bytes,
    /// Length of the leading `{"kind":"K","apiVersion":"V",`.
    prefix: u32,
    views: Views,
}

/// The bytes of one state in other versions, each made when it is first asked for.
#[derive(Debug, Default)]
struct Views(Mutex<Vec<(Box<str>, Bytes)>>);

impl Clone for Views {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.0.lock().clone()))
    }
}

/// How deep an object may nest: as deep as JSON is read here, so that what was accepted
/// in another form can be read again.
pub const DEPTH_MAX: usize = 127;

/// How deep what is stored may nest. It leaves room for what grows around it until somebody reads it with a parser as
/// strict as ours: managed fields nest deeper than what they tell of, a list and a watch put an object into more
/// levels, and a ManifestWork carries one inside.
pub const STORED_DEPTH_MAX: usize = 100;

/// How much deeper managed fields nest than what they tell of: in their list, an entry and its `fieldsV1`,
/// and a level to spare.
const MANAGED_FIELDS_DEPTH: usize = 8;

/// Whether an object nests deeper than [`STORED_DEPTH_MAX`]. What the server itself keeps in it does not count.
pub fn is_too_deep(object: &Value) -> bool {
    let deeper = |value: &Value, levels_above: usize, more: usize| {
        is_deeper(value, STORED_DEPTH_MAX + more - levels_above, &mut 0)
    };
    let Some(map) = object.as_object() else {
        return deeper(object, 0, 0);
    };
    map.iter().any(|(key, value)| match value {
        Value::Object(metadata) if key == "metadata" => metadata.iter().any(|(key, value)| {
            let more = if key == "managedFields" {
                MANAGED_FIELDS_DEPTH
            } else {
                0
            };
            deeper(value, 2, more)
        }),
        _ => deeper(value, 1, 0),
    })
}

/// Whether lists and maps nest deeper in a value than so. `seen` counts the values that were looked at.
pub fn is_deeper(value: &Value, than: usize, seen: &mut usize) -> bool {
    *seen += 1;
    let Some(left) = than.checked_sub(1) else {
        return value.is_object() || value.is_array();
    };
    match value {
        Value::Object(map) => map.values().any(|it| is_deeper(it, left, seen)),
        Value::Array(items) => items.iter().any(|it| is_deeper(it, left, seen)),
        _ => false,
    }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

impl Object {
    /// Encodes `value` as the state written by `revision`. `metadata.resourceVersion` is set here.
    pub fn encode(resource: &Arc<str>, mut value: Value, revision: u64) -> Self {
        if !value.is_object() {
            value = Value::Object(Map::new());
        }
        let map = value.as_object_mut().expect("made an object above");
        let kind = map.remove("kind").unwrap_or_default();
        let api_version = map.remove("apiVersion").unwrap_or_default();
        let metadata = map.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".into(), revision.to_string().into());
        }
        let mut json = Vec::with_capacity(512);
        json.extend_from_slice(b"{\"kind\":");
        // Writing JSON into a Vec cannot fail.
        serde_json::to_writer(&mut json, &kind).expect("a string serializes");
        json.extend_from_slice(b",\"apiVersion\":");
        serde_json::to_writer(&mut json, &api_version).expect("a string serializes");
        json.push(b',');
        let prefix = json.len() as u32;
        let rest = json.len();
        serde_json::to_writer(&mut json, map).expect("a JSON map serializes");
        json.remove(rest); // the opening brace of the rest; the prefix has its own
        // It stays for as long as the object does, and a vector that has grown is half empty.
        json.shrink_to_fit();
        let (namespace, name, uid, labels, owners, terminating) = read_metadata(&value["metadata"]);
        Self {
            resource: resource.clone(),
            namespace,
            name,
            uid,
            revision,
            labels,
            owners,
            terminating,
            json: json.into(),
            prefix,
            views: Views::default(),
        }
    }

    /// Reads an object back from the bytes that `encode` made.
    ///
    /// # Errors
    /// When the bytes are no JSON object or do not start as `encode` writes them.
    pub fn decode(resource: &Arc<str>, json: Bytes) -> Result<Self, serde_json::Error> {
        // A start reads every object, and needs little of it.
        let head: Head = serde_json::from_slice(&json)?;
        let revision = head.metadata.resource_version.as_str().and_then(|it| it.parse().ok());
        let revision = revision.unwrap_or_default();
        let kind = serde_json::to_string(&head.kind)?;
        let api_version = serde_json::to_string(&head.api_version)?;
        let rest = json
            .strip_prefix(b"{\"kind\":")
            .and_then(|it| it.strip_prefix(kind.as_bytes()))
            .and_then(|it| it.strip_prefix(b",\"apiVersion\":"))
            .and_then(|it| it.strip_prefix(api_version.as_bytes()))
            .and_then(|it| it.strip_prefix(b","));
        let Some(rest) = rest else {
            return Ok(Self::encode(resource, serde_json::from_slice(&json)?, revision));
        };
        let prefix = (json.len() - rest.len()) as u32;
        let Metadata {
            namespace,
            name,
            uid,
            labels,
            owner_references,
            deletion_timestamp,
            ..
        } = head.metadata;
        let text = |it: Value| it.as_str().unwrap_or_default().into();
        let (namespace, name, uid) = (text(namespace), text(name), text(uid));
        let (labels, owners) = (read_labels(&labels), read_owners(&owner_references));
        let terminating = !deletion_timestamp.is_null();
        Ok(Self {
            resource: resource.clone(),
            namespace,
            name,
            uid,
            revision,
            labels,
            owners,
            terminating,
            json,
            prefix,
            views: Views::default(),
        })
    }

    /// The object parsed anew; the caller may change it.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json).expect("stored bytes were serialized by encode")
    }

    /// The bytes of this state in another version; `make` runs once per state and version.
    pub fn view(&self, version: &str, make: impl FnOnce() -> Bytes) -> Bytes {
        let mut views = self.views.0.lock();
        if let Some((_, bytes)) = views.iter().find(|(it, _)| **it == *version) {
            return bytes.clone();
        }
        let bytes = make();
        // What follows an `@` says since when a version is read so; an older reading is of no use.
        let name = version.split('@').next();
        views.retain(|(it, _)| it.split('@').next() != name);
        views.push((version.into(), bytes.clone()));
        bytes
    }

    /// The bytes of this state in another version, if they were made.
    pub fn kept_view(&self, version: &str) -> Option<Bytes> {
        let views = self.views.0.lock();
        views
            .iter()
            .find(|(it, _)| **it == *version)
            .map(|(_, bytes)| bytes.clone())
    }

    /// The bytes after `{"kind":"K","apiVersion":"V",`: put a `{` or another prefix in front.
    pub fn body(&self) -> &[u8] {
        &self.json[self.prefix as usize..]
    }

    /// Value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(it, _)| it.as_ref().cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// The key within its resource: namespace, a NUL, name. Sorts by namespace, then name.
    pub fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }
}

/// The key of an object within its resource.
pub fn key(namespace: &str, name: &str) -> String {
    let mut key = String::with_capacity(namespace.len() + name.len() + 1);
    key.push_str(namespace);
    key.push('\0');
    key.push_str(name);
    key
}

type Labels = Box<[(Box<str>, Box<str>)]>;

fn read_labels(labels: &Value) -> Labels {
    labels.as_object().map_or_else(Labels::default, |labels| {
        let pairs = labels
            .iter()
            .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or_default().into()));
        pairs.collect()
    })
}

fn read_owners(owners: &Value) -> Box<[Box<str>]> {
    owners.as_array().map_or_else(Default::default, |it| {
        it.iter().map(|owner| text(owner, "uid").into()).collect()
    })
}

fn read_metadata(metadata: &Value) -> (Box<str>, Box<str>, Box<str>, Labels, Box<[Box<str>]>, bool) {
    let terminating = metadata.get("deletionTimestamp").is_some_and(|it| !it.is_null());
    (
        text(metadata, "namespace").into(),
        text(metadata, "name").into(),
        text(metadata, "uid").into(),
        read_labels(&metadata["labels"]),
        read_owners(&metadata["ownerReferences"]),
        terminating,
    )
}

/// What [`Object`] holds of an object beside its bytes.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    kind: Value,
    #[serde(default)]
    api_version: Value,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, serde::Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: Value,
    name: Value,
    uid: Value,
    resource_version: Value,
    labels: Value,
    owner_references: Value,
    deletion_timestamp: Value,
}

impl crate::selector::Labels for Object {
    fn label(&self, key: &str) -> Option<&str> {
        Object::label(self, key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bytes_start_with_kind_and_version_and_read_back() {
        let resource: Arc<str> = "configmaps".into();
        let value = json!({"apiVersion": "v1", "data": {"a": "b"}, "kind": "ConfigMap",
            "metadata": {"name": "x", "namespace": "n", "uid": "u", "labels": {"b": "2", "a": "1"}}});
        let object = Object::encode(&resource, value, 7);
        let start = "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",";
        assert!(object.json.starts_with(start.as_bytes()));
        assert_eq!(&object.json[start.len()..], object.body());
        assert_eq!(object.label("a"), Some("1"));
        let again = Object::decode(&resource, object.json.clone()).unwrap();
        assert_eq!(
            (again.revision, again.body(), again.name.as_ref()),
            (7, object.body(), "x")
        );
        assert_eq!(object.value()["metadata"]["resourceVersion"], "7");
    }

    #[test]
    fn an_accepted_object_is_readable_with_managed_fields_in_lists() {
        let nested = |levels: usize| (0..levels).fold(json!("leaf"), |inner, _| json!({"k": inner}));
        let object = |spec: Value| json!({"kind": "K", "apiVersion": "v1", "metadata": {"name": "x"}, "spec": spec});
        let deepest = STORED_DEPTH_MAX - 1;
        assert!(is_too_deep(&object(nested(deepest + 1))));
        assert!(is_too_deep(&nested(STORED_DEPTH_MAX + 1)));
        let mut taken = object(nested(deepest));
        assert!(!is_too_deep(&taken));
        let fields = crate::managed::field_set(&taken, &crate::schema::Schema::default()).to_json();
        taken["metadata"]["managedFields"] = json!([{"manager": "m", "fieldsV1": fields}]);
        assert!(!is_too_deep(&taken), "what was read can be sent back");
        let list = json!({"items": [taken]}).to_string();
        assert!(serde_json::from_str::<Value>(&list).is_ok());
    }

    #[test]
    fn bytes_that_start_differently_are_rewritten() {
        let resource: Arc<str> = "configmaps".into();
        let long = "K".repeat(70_000);
        for text in [
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","resourceVersion":"7"}}"#.to_owned(),
            r#"{"kind":"ConfigMap" ,"metadata":{"name":"x","resourceVersion":"7"},"apiVersion":"v1"}"#.to_owned(),
            format!(r#"{{"kind":"{long}","apiVersion":"v1","metadata":{{"name":"x","resourceVersion":"7"}}}}"#),
        ] {
            let object = Object::decode(&resource, text.clone().into()).unwrap();
            assert_eq!(
                object.body(),
                br#""metadata":{"name":"x","resourceVersion":"7"}}"#,
                "{text}"
            );
        }
    }
}
