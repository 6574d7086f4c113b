//! What becomes of an object whose owners are as they are. Plain rules on plain data.
//! Upstream: kubernetes pkg/controller/garbagecollector/garbagecollector.go, `attemptToDeleteItem`.

use serde_json::Value;

/// Finalizer of an owner that goes only after its blocking dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an owner whose dependents are to be left without it.
pub(super) const ORPHAN: &str = "orphan";

/// One entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    /// `blockOwnerDeletion`.
    pub blocks: bool,
}

/// How an owner is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Alive,
    /// Deleted in the foreground: it waits for this object to go first.
    Waiting,
    /// No object has its uid.
    Absent,
    /// Nothing can be said: its kind is not served, or a cluster-scoped object names a namespaced owner.
    Unknown,
}

/// What to do with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GarbageVerdict {
    Keep,
    /// It lives by another owner: remove the references with these uids.
    Drop(Vec<String>),
    /// Delete it with this propagation policy. `unblock` first clears `blockOwnerDeletion`, because it and its owner
    /// would wait for each other in a circle.
    Delete {
        propagation: &'static str,
        unblock: bool,
    },
}

/// The owner references of an object.
pub(super) fn references(object: &Value) -> Vec<Reference> {
    let entries = object["metadata"]["ownerReferences"].as_array();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let read = |entry: &Value| Reference {
        api_version: text(entry, "apiVersion"),
        kind: text(entry, "kind"),
        name: text(entry, "name"),
        uid: text(entry, "uid"),
        blocks: entry["blockOwnerDeletion"].as_bool().unwrap_or_default(),
    };
    entries.map(|it| it.iter().map(read).collect()).unwrap_or_default()
}

/// Whether the object carries `finalizer`.
pub(super) fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|it| it.iter().any(|it| it == finalizer))
}

/// The finalizers without `finalizer`.
pub(super) fn finalizers_without(object: &Value, finalizer: &str) -> Vec<Value> {
    let all = object["metadata"]["finalizers"].as_array();
    all.map(|it| it.iter().filter(|it| *it != finalizer).cloned().collect())
        .unwrap_or_default()
}

/// The owner references, as they are written, without those with `uids`.
pub(super) fn references_without(object: &Value, uids: &[String]) -> Vec<Value> {
    let all = object["metadata"]["ownerReferences"].as_array();
    let stays = |it: &&Value| !uids.iter().any(|uid| it["uid"] == uid.as_str());
    all.map(|it| it.iter().filter(stays).cloned().collect())
        .unwrap_or_default()
}

/// What becomes of `object`, which is not being deleted, given its owners. `dependents_wait` says for each of its own
/// dependents whether that one is itself deleted in the foreground.
pub(super) fn judge(object: &Value, owners: &[(Reference, Owner)], dependents_wait: &[bool]) -> GarbageVerdict {
    let uids = |wanted: &[Owner]| -> Vec<String> {
        let those = owners.iter().filter(|(_, it)| wanted.contains(it));
        those.map(|(reference, _)| reference.uid.clone()).collect()
    };
    if owners.is_empty() || owners.iter().any(|(_, it)| *it == Owner::Unknown) {
        return GarbageVerdict::Keep;
    }
    if owners.iter().any(|(_, it)| *it == Owner::Alive) {
        let lost = uids(&[Owner::Absent, Owner::Waiting]);
        return if lost.is_empty() {
            GarbageVerdict::Keep
        } else {
            GarbageVerdict::Drop(lost)
        };
    }
    if owners.iter().any(|(_, it)| *it == Owner::Waiting) && !dependents_wait.is_empty() {
        return GarbageVerdict::Delete {
            propagation: "Foreground",
            unblock: dependents_wait.contains(&true),
        };
    }
    let propagation = match object {
        it if has_finalizer(it, ORPHAN) => "Orphan",
        it if has_finalizer(it, FOREGROUND) => "Foreground",
        _ => "Background",
    };
    GarbageVerdict::Delete {
        propagation,
        unblock: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owner(uid: &str, state: Owner) -> (Reference, Owner) {
        let reference = Reference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: uid.into(),
            uid: uid.into(),
            blocks: true,
        };
        (reference, state)
    }

    #[test]
    fn an_object_goes_when_its_last_owner_is_absent() {
        let it = json!({"metadata": {}});
        let background = GarbageVerdict::Delete {
            propagation: "Background",
            unblock: false,
        };
        assert_eq!(judge(&it, &[owner("a", Owner::Absent)], &[]), background);
        assert_eq!(
            judge(&it, &[owner("a", Owner::Absent), owner("b", Owner::Absent)], &[false]),
            background
        );
        assert_eq!(judge(&it, &[], &[]), GarbageVerdict::Keep);
    }

    #[test]
    fn an_object_with_a_living_owner_loses_only_other_references() {
        let owners = [
            owner("a", Owner::Absent),
            owner("b", Owner::Alive),
            owner("c", Owner::Waiting),
        ];
        let verdict = judge(&json!({}), &owners, &[]);
        assert_eq!(verdict, GarbageVerdict::Drop(vec!["a".into(), "c".into()]));
        assert_eq!(judge(&json!({}), &owners[1..2], &[]), GarbageVerdict::Keep);
    }

    #[test]
    fn an_object_with_an_owner_of_unknown_kind_is_kept() {
        let owners = [owner("a", Owner::Absent), owner("b", Owner::Unknown)];
        assert_eq!(judge(&json!({}), &owners, &[]), GarbageVerdict::Keep);
    }

    #[test]
    fn foreground_deletion_follows_the_tree_and_breaks_cycles() {
        let owners = [owner("a", Owner::Waiting)];
        assert_eq!(
            judge(&json!({}), &owners, &[]),
            GarbageVerdict::Delete {
                propagation: "Background",
                unblock: false
            }
        );
        assert_eq!(
            judge(&json!({}), &owners, &[false]),
            GarbageVerdict::Delete {
                propagation: "Foreground",
                unblock: false
            }
        );
        assert_eq!(
            judge(&json!({}), &owners, &[true]),
            GarbageVerdict::Delete {
                propagation: "Foreground",
                unblock: true
            }
        );
    }

    #[test]
    fn the_policy_that_the_object_carries_is_kept() {
        let it = json!({"metadata": {"finalizers": ["orphan"]}});
        let verdict = judge(&it, &[owner("a", Owner::Absent)], &[]);
        assert_eq!(
            verdict,
            GarbageVerdict::Delete {
                propagation: "Orphan",
                unblock: false
            }
        );
    }

    #[test]
    fn references_and_finalizers_are_taken_out_by_name() {
        let it = json!({"metadata": {"finalizers": ["a", "orphan"], "ownerReferences": [{"uid": "u"}, {"uid": "v"}]}});
        assert_eq!(finalizers_without(&it, ORPHAN), [json!("a")]);
        assert_eq!(references_without(&it, &["u".into()]), [json!({"uid": "v"})]);
    }
}
