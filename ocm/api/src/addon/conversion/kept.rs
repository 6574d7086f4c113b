//! What the target of a conversion has no word for, in an annotation of the target.

use serde_json::{Map, Value};

use super::Version;

/// On an object read as `v1beta1`: what only `v1alpha1` can say, as JSON. No controller reads it.
/// The prefix is not the add-ons' own: add-on annotations are made equal to those of the cluster,
/// this one is not theirs.
pub const KEPT_OF_V1ALPHA1: &str = "conversion.open-cluster-management.io/v1alpha1";
/// On an object read as `v1alpha1`: what only `v1beta1` can say, as JSON. No controller reads it.
pub const KEPT_OF_V1BETA1: &str = "conversion.open-cluster-management.io/v1beta1";

fn key(version: Version) -> &'static str {
    match version {
        Version::V1Alpha1 => KEPT_OF_V1ALPHA1,
        Version::V1Beta1 => KEPT_OF_V1BETA1,
    }
}

/// Things of one version by where they belong, such as `spec.addOnConfiguration`.
#[derive(Debug, Default)]
pub(super) struct PreservedFields(Map<String, Value>);

impl PreservedFields {
    /// Takes what was kept of `version` off the object. What is no map was not written by us and stays.
    pub(super) fn take(object: &mut Value, version: Version) -> Self {
        let text = annotation(object, key(version));
        let Some(Value::Object(map)) = text.and_then(|it| serde_json::from_str(it).ok()) else {
            return Self::default();
        };
        remove_annotation(object, key(version));
        Self(map)
    }

    /// Puts what is kept of `version` on the object.
    pub(super) fn put(self, object: &mut Value, version: Version) {
        if !self.0.is_empty() {
            set_annotation(object, key(version), Value::Object(self.0).to_string());
        }
    }

    /// Keeps a thing.
    pub(super) fn keep(&mut self, place: &str, thing: Value) {
        self.0.insert(place.to_owned(), thing);
    }

    /// Takes a thing.
    pub(super) fn get(&mut self, place: &str) -> Option<Value> {
        self.0.remove(place)
    }

    fn entries(&mut self, place: &str) -> Map<String, Value> {
        match self.0.remove(place) {
            Some(Value::Object(entries)) => entries,
            _ => Map::new(),
        }
    }
}

/// Turns the entries of a list with `forward`. An entry that `theirs` keeps and that still says the same is taken from
/// there instead; an entry that `back` does not give back goes to `ours`. Entries are kept by index, and found again
/// when others were put before them or taken out.
pub(super) fn entries(
    list: &mut Value,
    place: &str,
    (theirs, ours): (&mut PreservedFields, &mut PreservedFields),
    forward: impl Fn(&Value) -> Value,
    back: impl Fn(&Value) -> Value,
) {
    let mut kept = theirs.entries(place);
    let Some(list) = list.as_array_mut() else { return };
    let mut found: Vec<Option<Value>> = list
        .iter()
        .enumerate()
        .map(|(at, entry)| {
            let at = at.to_string();
            let same = kept.get(&at).is_some_and(|it| back(it) == *entry);
            if same { kept.remove(&at) } else { None }
        })
        .collect();
    for (entry, found) in list.iter().zip(&mut found).filter(|(_, it)| it.is_none()) {
        let moved = kept
            .iter()
            .find(|(_, it)| back(it) == *entry)
            .map(|(at, _)| at.to_owned());
        *found = moved.and_then(|at| kept.remove(&at));
    }
    let mut lost = Map::new();
    for (at, (entry, found)) in list.iter_mut().zip(found).enumerate() {
        let converted = found.unwrap_or_else(|| forward(entry));
        let original = std::mem::replace(entry, converted);
        if back(entry) != original {
            lost.insert(at.to_string(), original);
        }
    }
    if !lost.is_empty() {
        ours.keep(place, Value::Object(lost));
    }
}

/// An annotation of an object.
pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get("annotations")?.get(key)?.as_str()
}

/// Sets an annotation.
pub(super) fn set_annotation(object: &mut Value, key: &str, value: String) {
    let annotations = &mut object["metadata"]["annotations"];
    if !annotations.is_object() {
        *annotations = Value::Object(Map::new());
    }
    annotations[key] = value.into();
}

/// Removes an annotation, and the map with the last one.
pub(super) fn remove_annotation(object: &mut Value, key: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.remove(key);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Moves a field of a map under another name.
pub(super) fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.to_owned(), value);
    }
}

/// A map with these fields, without those that have no value.
pub(super) fn map<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(given.collect())
}
