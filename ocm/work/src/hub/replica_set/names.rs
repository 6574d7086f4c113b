//! How a ManifestWorkReplicaSet and its works are called, and know each other.

use std::collections::BTreeMap;

use kube::{Resource, ResourceExt, api::ObjectMeta};
use ocm_api::{
    annotations, labels,
    work::{ManifestWork, ManifestWorkReplicaSet},
};
use serde_json::{Map, Value, json};

use super::fingerprint::five_letters;

/// Kubernetes' limit for the value of a label.
const LABEL_VALUE_MAX: usize = 63;

/// `<namespace>.<name>`, the value of the label on its works.
pub fn label_value(set: &ManifestWorkReplicaSet) -> String {
    format!("{}.{}", set.namespace().unwrap_or_default(), set.name_any())
}

/// The key of the set that a label's value means. A namespace has no dot, so the first one ends it, and the name may
/// have more: upstream wants exactly one and never hears of the works of other sets.
pub fn key_of_label(value: &str) -> Option<String> {
    let (namespace, name) = value.split_once('.')?;
    (!namespace.is_empty() && !name.is_empty()).then(|| format!("{namespace}/{name}"))
}

/// The value of the label on a work; nothing when it belongs to no set.
pub fn label_of(work: &ManifestWork) -> Option<&str> {
    label_of_meta(&work.metadata)
}

/// [`label_of`], of its metadata.
pub fn label_of_meta(meta: &ObjectMeta) -> Option<&str> {
    let value = meta.labels.as_ref()?.get(labels::MANIFEST_WORK_REPLICA_SET)?;
    (!value.is_empty()).then_some(value)
}

/// Why no work can belong to the set, in upstream's words.
pub fn refusal(set: &ManifestWorkReplicaSet) -> Option<String> {
    let value = label_value(set);
    (value.len() > LABEL_VALUE_MAX).then(|| {
        format!(
            "ManifestWork owner reference {value:?} (namespace.name) is not a valid label value: must be no more than \
             {LABEL_VALUE_MAX} characters; recreate the ManifestWorkReplicaSet with a shorter namespace and/or name so the \
             combined length is at most {LABEL_VALUE_MAX} characters"
        )
    })
}

/// What its work is called on every cluster that does not have one yet. Upstream has the server generate five letters,
/// and with a cache that lags makes two works for one cluster; ours follow from whose work it is, so that the second is
/// refused.
pub fn work_name(set: &ManifestWorkReplicaSet) -> String {
    let name = set.name_any();
    let five = five_letters(&format!("{}/{name}", set.namespace().unwrap_or_default()));
    format!("{name}-{five}")
}

/// Whether an annotation of the set says `true`.
pub fn says(set: &ManifestWorkReplicaSet, annotation: &str) -> bool {
    let annotations = set.meta().annotations.as_ref();
    annotations.is_some_and(|it| it.get(annotation).is_some_and(|it| it == "true"))
}

/// What the metadata of the works of one placement of a set shall say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks {
    /// The set's labels, and whose the work is.
    pub labels: BTreeMap<String, String>,
    /// Which labels are the set's.
    pub annotations: BTreeMap<String, String>,
}

impl Marks {
    /// Of the works that are made for this placement.
    pub fn of(set: &ManifestWorkReplicaSet, placement: &str) -> Self {
        let mut marks = Self {
            labels: set.labels().clone(),
            annotations: BTreeMap::new(),
        };
        let keys: Vec<&str> = set.labels().keys().map(String::as_str).collect();
        if !keys.is_empty() {
            let note = annotations::LABELS_FROM_REPLICA_SET.to_owned();
            marks.annotations.insert(note, keys.join(","));
        }
        let whose = [
            (labels::MANIFEST_WORK_REPLICA_SET, label_value(set)),
            (labels::MANIFEST_WORK_PLACEMENT, placement.to_owned()),
        ];
        marks.labels.extend(whose.map(|(key, value)| (key.to_owned(), value)));
        marks
    }

    /// What has to change of a work, as a merge patch of its metadata. What others put there stays.
    pub fn patch(&self, work: &ManifestWork) -> Option<Value> {
        let present = work.labels();
        let recorded = work.annotations().get(annotations::LABELS_FROM_REPLICA_SET);
        let note = self.annotations.get(annotations::LABELS_FROM_REPLICA_SET);
        let has = |(key, value): (&String, &String)| present.get(key) == Some(value);
        // Nearly always, and asked of every work in every look.
        if note == recorded && self.labels.iter().all(has) {
            return None;
        }
        let mut changed: Map<_, _> = self
            .labels
            .iter()
            .filter(|it| !has(*it))
            .map(|(key, value)| (key.clone(), Value::from(value.clone())))
            .collect();
        for key in recorded.iter().flat_map(|it| it.split(',')) {
            if present.contains_key(key) && !self.labels.contains_key(key) {
                changed.insert(key.to_owned(), Value::Null);
            }
        }
        let mut patch = Map::new();
        if !changed.is_empty() {
            patch.insert("labels".to_owned(), Value::Object(changed));
        }
        if note != recorded {
            patch.insert(
                "annotations".to_owned(),
                json!({ annotations::LABELS_FROM_REPLICA_SET: note }),
            );
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, labels: Value) -> ManifestWorkReplicaSet {
        let metadata = json!({"name": name, "namespace": "default", "labels": labels});
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn a_name_may_have_dots() {
        assert_eq!(label_value(&set("a.b.c", Value::Null)), "default.a.b.c");
        assert_eq!(key_of_label("default.a.b.c").as_deref(), Some("default/a.b.c"));
        assert_eq!(key_of_label("default"), None);
        assert_eq!(key_of_label(".a"), None);
    }

    #[test]
    fn a_name_invalid_as_label_is_refused_like_upstream() {
        assert_eq!(refusal(&set(&"a".repeat(55), Value::Null)), None);
        let name = "a".repeat(56);
        assert_eq!(
            refusal(&set(&name, Value::Null)).unwrap(),
            format!(
                "ManifestWork owner reference \"default.{name}\" (namespace.name) is not a valid label value: must be no more \
                 than 63 characters; recreate the ManifestWorkReplicaSet with a shorter namespace and/or name so the combined \
                 length is at most 63 characters"
            )
        );
    }

    #[test]
    fn labels_of_the_set_follow_it_and_other_labels_stay() {
        let mut work = ManifestWork::default();
        let before = set("web", json!({"tier": "a", "old": "x"}));
        let marks = Marks::of(&before, "p");
        work.metadata.labels = Some(marks.labels.clone());
        work.metadata.annotations = Some(marks.annotations.clone());
        work.labels_mut().insert("mine".into(), "stays".into());
        assert_eq!(marks.patch(&work), None);
        assert_eq!(
            Marks::of(&set("web", json!({"tier": "b"})), "q").patch(&work).unwrap(),
            json!({
                "labels": {"tier": "b", "old": null, "work.open-cluster-management.io/placementname": "q"},
                "annotations": {"work.open-cluster-management.io/labels-from-replicaset": "tier"}
            })
        );
        assert_eq!(
            Marks::of(&set("web", Value::Null), "p").patch(&work).unwrap(),
            json!({
                "labels": {"tier": null, "old": null},
                "annotations": {"work.open-cluster-management.io/labels-from-replicaset": null}
            })
        );
    }
}
