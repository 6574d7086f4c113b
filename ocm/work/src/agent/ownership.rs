//! Whose an object is: which works own it, and what may be done with it when a work lets go.
//! Upstream: ocm pkg/work/helper, `OwnedByTheWork`, `ApplyOwnerReferences`, `DeleteAppliedResources`.

use ocm_api::work::{AppliedManifestWork, DeleteOption, DeletePropagationPolicy};
use serde_json::{Value, json};

use super::manifest::ObjectKey;

/// Whether the object goes when the work goes.
pub fn owned_by_work(option: Option<&DeleteOption>, key: &ObjectKey) -> bool {
    let Some(option) = option else { return true };
    match option.propagation_policy {
        DeletePropagationPolicy::Foreground => true,
        DeletePropagationPolicy::Orphan => false,
        DeletePropagationPolicy::SelectivelyOrphan => !option.selectively_orphans.iter().any(|it| {
            it.orphaning_rules.iter().any(|rule| {
                (&rule.group, &rule.resource, &rule.namespace, &rule.name)
                    == (&key.group, &key.resource, &key.namespace, &key.name)
            })
        }),
    }
}

/// The owner reference that a work puts on what it applies.
pub fn reference(trace_name: &str, trace_uid: &str) -> Value {
    json!({
        "apiVersion": AppliedManifestWork::API_VERSION,
        "kind": AppliedManifestWork::KIND,
        "name": trace_name,
        "uid": trace_uid,
    })
}

fn references(live: &Value) -> &[Value] {
    live.pointer("/metadata/ownerReferences")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn group_of(reference: &Value) -> &str {
    reference["apiVersion"]
        .as_str()
        .unwrap_or_default()
        .split('/')
        .next()
        .unwrap_or_default()
}

fn is_trace(reference: &Value) -> bool {
    reference["kind"] == AppliedManifestWork::KIND && group_of(reference) == ocm_api::work::GROUP
}

/// Whether the object carries a reference to this trace.
pub fn is_owned_by(live: &Value, trace_uid: &str) -> bool {
    references(live).iter().any(|it| it["uid"] == trace_uid)
}

/// The owner references with ours in them, or nothing when they are right already. A reference to an earlier trace of
/// the same name is replaced.
pub fn with_owner(live: &Value, trace_name: &str, trace_uid: &str) -> Option<Vec<Value>> {
    let wanted = reference(trace_name, trace_uid);
    let mut next = references(live).to_vec();
    match next.iter_mut().find(|it| is_trace(it) && it["name"] == trace_name) {
        Some(present) if present["uid"] == trace_uid => return None,
        Some(present) => *present = wanted,
        None => next.push(wanted),
    }
    Some(next)
}

/// What of an object's metadata is not for one work to take away, as a part of an object: the references to other
/// owners, and finalizers, which their controllers take off.
pub fn not_of(live: &Value, trace_uid: &str) -> Value {
    let others: Vec<&Value> = references(live).iter().filter(|it| it["uid"] != trace_uid).collect();
    json!({"metadata": {"ownerReferences": others, "finalizers": live["metadata"]["finalizers"]}})
}

/// The owner references without ours, or nothing when it is not there.
pub fn without_owner(live: &Value, trace_name: &str) -> Option<Vec<Value>> {
    let next: Vec<Value> = references(live)
        .iter()
        .filter(|it| !(is_trace(it) && it["name"] == trace_name))
        .cloned()
        .collect();
    (next.len() != references(live).len()).then_some(next)
}

/// What happens to an object that a work no longer wants.
#[derive(Clone, Debug, PartialEq)]
pub enum LettingGo {
    /// It is gone, or not ours: only the record of it is dropped.
    Forget,
    /// Another work owns it too: our reference is taken off, and what only this work asked for.
    Disown,
    /// It is being deleted; wait for its finalizers.
    Wait,
    /// Delete exactly this one.
    Delete { uid: String },
}

/// Decides about a recorded object. `recorded_uid` is empty when the record was written before the object was.
pub fn let_go(recorded_uid: &str, live: Option<&Value>, trace_name: &str, trace_uid: &str) -> LettingGo {
    let Some(live) = live else { return LettingGo::Forget };
    if !is_owned_by(live, trace_uid) {
        return LettingGo::Forget;
    }
    if references(live).iter().any(|it| is_trace(it) && it["uid"] != trace_uid) {
        return without_owner(live, trace_name).map_or(LettingGo::Forget, |_| LettingGo::Disown);
    }
    let uid = live
        .pointer("/metadata/uid")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !recorded_uid.is_empty() && recorded_uid != uid {
        return LettingGo::Forget;
    }
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return LettingGo::Wait;
    }
    LettingGo::Delete { uid: uid.to_owned() }
}

#[cfg(test)]
mod tests {
    use ocm_api::work::{OrphaningRule, SelectivelyOrphan};

    use super::*;

    fn key() -> ObjectKey {
        ObjectKey {
            version: "v1".into(),
            resource: "configmaps".into(),
            namespace: "default".into(),
            name: "a".into(),
            ..Default::default()
        }
    }

    fn live(owners: &[Value]) -> Value {
        json!({"metadata": {"uid": "object", "ownerReferences": owners}})
    }

    #[test]
    fn only_orphaning_takes_an_object_out_of_the_works_hands() {
        let rule = OrphaningRule {
            resource: "configmaps".into(),
            namespace: "default".into(),
            name: "a".into(),
            ..Default::default()
        };
        let option = |policy, rules: Vec<OrphaningRule>| DeleteOption {
            propagation_policy: policy,
            selectively_orphans: Some(SelectivelyOrphan { orphaning_rules: rules }),
            ttl_seconds_after_finished: None,
        };
        use DeletePropagationPolicy::{Foreground, Orphan, SelectivelyOrphan as Selectively};
        assert!(owned_by_work(None, &key()));
        assert!(owned_by_work(Some(&option(Foreground, vec![rule.clone()])), &key()));
        assert!(!owned_by_work(Some(&option(Orphan, vec![])), &key()));
        assert!(!owned_by_work(Some(&option(Selectively, vec![rule.clone()])), &key()));
        assert!(owned_by_work(
            Some(&option(
                Selectively,
                vec![OrphaningRule {
                    name: "*".into(),
                    ..rule
                }]
            )),
            &key()
        ));
    }

    #[test]
    fn only_an_object_we_created_and_own_alone_is_deleted() {
        let (ours, theirs) = (reference("hub-a", "1"), reference("hub-b", "2"));
        let foreign = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "3"});
        assert_eq!(let_go("object", None, "hub-a", "1"), LettingGo::Forget);
        assert_eq!(let_go("object", Some(&live(&[])), "hub-a", "1"), LettingGo::Forget);
        assert_eq!(
            let_go("object", Some(&live(&[ours.clone(), theirs])), "hub-a", "1"),
            LettingGo::Disown
        );
        let delete = LettingGo::Delete { uid: "object".into() };
        assert_eq!(
            let_go("object", Some(&live(&[ours.clone(), foreign])), "hub-a", "1"),
            delete
        );
        assert_eq!(
            let_go("", Some(&live(std::slice::from_ref(&ours))), "hub-a", "1"),
            delete
        );
        assert_eq!(
            let_go("earlier", Some(&live(std::slice::from_ref(&ours))), "hub-a", "1"),
            LettingGo::Forget
        );
        let mut terminating = live(&[ours]);
        terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(let_go("object", Some(&terminating), "hub-a", "1"), LettingGo::Wait);
    }

    #[test]
    fn a_reference_to_an_earlier_trace_is_replaced() {
        let before = live(&[reference("hub-a", "old")]);
        assert_eq!(
            with_owner(&before, "hub-a", "new"),
            Some(vec![reference("hub-a", "new")])
        );
        assert_eq!(with_owner(&live(&[reference("hub-a", "new")]), "hub-a", "new"), None);
        assert_eq!(without_owner(&before, "hub-a"), Some(vec![]));
        assert_eq!(without_owner(&before, "hub-b"), None);
    }
}
