use std::{sync::Arc, time::Duration};

use ocm_api::work::{AppliedManifestWork, ManifestWork};
use ocm_reconcile::Step;
use serde_json::{Value, json};

use super::{
    super::{
        config::Config,
        executor::ExecutorRefusal,
        feedback::RawJson,
        manifest::{self, Gvk, ObjectKey, Resource},
        ownership,
        records::unwanted,
        removing::NEVER,
        schedule::is_worth_retrying,
        seen::{AgentIdentity, Item, Leaving},
        statuses::conclude,
        strategy::{self, Attempt, LastWrite, Live, Release},
    },
    *,
};

const NOON: &str = "2026-01-01T12:00:00Z";

fn identity() -> Arc<AgentIdentity> {
    Arc::new(AgentIdentity {
        hub_hash: "hub".into(),
        agent_id: "agent".into(),
        eviction_grace: Duration::from_secs(3600),
        raw: RawJson::Refused,
    })
}

fn work(changes: Value) -> Arc<ManifestWork> {
    let mut object = json!({
        "metadata": {
            "name": "web", "namespace": "cluster1", "uid": "w", "resourceVersion": "1", "generation": 1,
            "labels": {"team": "a"}, "finalizers": ["cluster.open-cluster-management.io/manifest-work-cleanup"]
        },
        "spec": {"workload": {"manifests": []}}
    });
    json_patch(&mut object, &changes);
    Arc::new(serde_json::from_value(object).unwrap())
}

fn trace(changes: Value) -> Arc<AppliedManifestWork> {
    let mut object = json!({
        "metadata": {
            "name": "hub-web", "uid": "t", "resourceVersion": "1",
            "finalizers": ["cluster.open-cluster-management.io/applied-manifest-work-cleanup"]
        },
        "spec": {"hubHash": "hub", "agentID": "agent", "manifestWorkName": "web"}
    });
    json_patch(&mut object, &changes);
    Arc::new(serde_json::from_value(object).unwrap())
}

/// RFC 7386, enough for fixtures.
fn json_patch(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                json_patch(base.entry(key.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}

fn record(name: &str, uid: &str) -> Value {
    json!({"group": "", "version": "v1", "resource": "configmaps", "namespace": "default", "name": name, "uid": uid})
}

fn live(name: &str, owner: &str) -> Live {
    Live::Present(Arc::new(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "5",
            "ownerReferences": [ownership::reference("hub-web", owner)],
            "managedFields": [{"manager": "work-agent", "operation": "Apply", "fieldsV1": {}}]
        },
        "data": {"k": "v"}
    })))
}

fn item(ordinal: usize, name: &str, live: Live) -> Item {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": "v"}
    });
    let gvk = Gvk {
        group: String::new(),
        version: "v1".into(),
        kind: "ConfigMap".into(),
    };
    Item {
        manifest: manifest::parse(ordinal, &object),
        resource: Ok(Resource {
            gvk,
            plural: "configmaps".into(),
            namespaced: true,
        }),
        key: Some(ObjectKey {
            version: "v1".into(),
            resource: "configmaps".into(),
            namespace: "default".into(),
            name: name.into(),
            ..Default::default()
        }),
        config: Config::default(),
        owned: true,
        complete: false,
        permitted: Ok(()),
        live,
        unreadable: None,
        watched: true,
        written: None,
        tried: Attempt::default(),
        hold: None,
        others: vec![],
    }
}

fn unknown_kind(ordinal: usize, name: &str) -> Item {
    let object = json!({"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": name, "namespace": "default"}});
    Item {
        manifest: manifest::parse(ordinal, &object),
        resource: Err("the server doesn't have a resource type \"Gadget\"".into()),
        key: None,
        ..item(ordinal, name, Live::Unknown)
    }
}

fn leaving(name: &str, uid: &str, live: Live) -> Leaving {
    Leaving {
        record: serde_json::from_value(record(name, uid)).unwrap(),
        live,
        problem: None,
        watched: true,
        manager: "work-agent".to_owned(),
        others: vec![],
        release: Release::Fields,
    }
}

fn seen(work: Option<Arc<ManifestWork>>, trace: Option<Arc<AppliedManifestWork>>) -> Seen {
    Seen {
        now: NOON.parse().unwrap(),
        identity: identity(),
        keeps_agent_id: true,
        key: "hub-web".into(),
        work,
        trace,
        items: vec![],
        leaving: vec![],
        chance: 0.5,
        attempts: Attempts::since(Instant::now()),
        retries: 0,
        round: Arc::default(),
    }
}

#[track_caller]
fn check(seen: &Seen, expected: &str) {
    assert_eq!(writes(seen).to_string().trim_end(), expected);
}

#[test]
fn nothing_is_applied_before_finalizer_and_trace_are_there() {
    let fresh = work(json!({"metadata": {"finalizers": []}}));
    let mut it = seen(Some(fresh), None);
    it.items = vec![item(0, "a", Live::Unknown)];
    check(
        &it,
        "hub: patch ManifestWork cluster1/web\ncluster: create AppliedManifestWork hub-web",
    );
    let Step::Create { object, .. } = &writes(&it).stages[0][1] else {
        panic!("the second step creates the trace")
    };
    assert_eq!(
        (&object["metadata"]["labels"], &object["spec"]),
        (
            &json!({"team": "a"}),
            &json!({"hubHash": "hub", "agentID": "agent", "manifestWorkName": "web"})
        )
    );
}

#[test]
fn a_trace_of_an_earlier_agent_is_taken_over() {
    let mut it = seen(
        Some(work(json!({}))),
        Some(trace(json!({"spec": {"agentID": "earlier"}}))),
    );
    it.items = vec![item(0, "a", Live::Unknown)];
    check(&it, "cluster: patch AppliedManifestWork hub-web");
}

#[test]
fn kinds_are_applied_in_upstream_order_each_kind_concurrently() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({}))));
    let mut namespace = item(2, "default", Live::Unknown);
    let gvk = Gvk {
        group: String::new(),
        version: "v1".into(),
        kind: "Namespace".into(),
    };
    namespace.manifest = manifest::parse(
        2,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
    );
    namespace.resource = Ok(Resource {
        gvk,
        plural: "namespaces".into(),
        namespaced: false,
    });
    namespace.key = Some(ObjectKey {
        version: "v1".into(),
        resource: "namespaces".into(),
        name: "default".into(),
        ..Default::default()
    });
    it.items = vec![item(0, "a", Live::Absent), item(1, "b", Live::Absent), namespace];
    check(
        &it,
        "stage 1\n\
         cluster: patch AppliedManifestWork hub-web status\n\
         cluster: apply Namespace default as work-agent, force\n\
         stage 2\n\
         cluster: apply ConfigMap default/a as work-agent, force\n\
         cluster: apply ConfigMap default/b as work-agent, force",
    );
}

#[test]
fn a_matching_object_is_left_unchanged_and_reported_once() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({}))));
    it.items = vec![item(0, "a", live("a", "t"))];
    check(&it, "nothing to do");
    assert_eq!(
        conclude(&it).to_string(),
        "hub: patch ManifestWork cluster1/web status\ncluster: patch AppliedManifestWork hub-web status\n"
    );
    let status = |step: usize| match &conclude(&it).stages[0][step] {
        Step::MergePatch { patch, .. } => patch["status"].clone(),
        other => panic!("{other} is no patch"),
    };
    assert_eq!(status(1), json!({"appliedResources": [record("a", "uid-a")]}));
    let (of_work, of_trace) = (status(0), status(1));
    it.work = Some(work(json!({"status": of_work})));
    it.trace = Some(trace(json!({"status": of_trace})));
    assert_eq!(conclude(&it).to_string(), "nothing to do\n");
}

#[test]
fn the_status_names_each_manifest_as_upstream_does() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({}))));
    it.items = vec![item(0, "a", live("a", "t"))];
    let Step::MergePatch { patch, .. } = &conclude(&it).stages[0][0] else {
        panic!("the first step patches the work")
    };
    let manifest = &patch["status"]["resourceStatus"]["manifests"][0];
    assert_eq!(
        manifest["resourceMeta"],
        json!({
            "ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
            "name": "a", "namespace": "default"
        })
    );
}

#[test]
fn a_removed_manifest_is_pruned_after_the_others_are_applied() {
    let recorded = json!({"status": {"appliedResources": [record("a", "uid-a"), record("old", "uid-old")]}});
    let mut it = seen(Some(work(json!({}))), Some(trace(recorded)));
    it.items = vec![item(0, "a", Live::Absent)];
    it.leaving = vec![leaving("old", "uid-old", live("old", "t"))];
    check(&it, "cluster: apply ConfigMap default/a as work-agent, force");
    it.items = vec![item(0, "a", live("a", "t"))];
    check(&it, "cluster: delete ConfigMap default/old background");
    it.leaving = vec![leaving("old", "uid-old", Live::Absent)];
    check(&it, "nothing to do");
}

#[test]
fn an_unknown_kind_stops_neither_other_manifests_nor_pruning() {
    let trace = trace(json!({"status": {"appliedResources": [record("x", "uid-x"), record("old", "uid-old")]}}));
    let items = vec![item(0, "a", live("a", "t")), unknown_kind(1, "x")];
    let names: Vec<_> = unwanted(&trace, &items).map(|it| it.name.as_str()).collect();
    // What the unreadable manifest may have been is kept; the rest goes.
    assert_eq!(names, ["old"]);
    let mut it = seen(Some(work(json!({}))), Some(trace));
    it.items = items;
    it.leaving = vec![leaving("old", "uid-old", live("old", "t"))];
    check(&it, "cluster: delete ConfigMap default/old background");
    it.leaving = vec![];
    let Step::MergePatch { patch, .. } = &conclude(&it).stages[0][0] else {
        panic!("the first step patches the work")
    };
    let conditions = &patch["status"]["resourceStatus"]["manifests"][1]["conditions"];
    assert_eq!(
        conditions[0]["message"],
        "Failed to apply manifest: the server doesn't have a resource type \"Gadget\""
    );
    assert_eq!(conditions[1]["reason"], "IncompleteResourceMeta");
    let Step::MergePatch { patch, .. } = &conclude(&it).stages[0][1] else {
        panic!("the second step patches the trace")
    };
    assert_eq!(
        patch["status"]["appliedResources"],
        json!([record("a", "uid-a"), record("x", "uid-x")])
    );
}

#[test]
fn a_manifest_forbidden_to_the_executor_is_rechecked_every_minute() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({}))));
    let refusal = ExecutorRefusal::NotAllowed("not allowed".into());
    it.items = vec![
        Item {
            permitted: Err(refusal),
            ..item(0, "a", Live::Absent)
        },
        item(1, "b", Live::Absent),
    ];
    check(
        &it,
        "cluster: patch AppliedManifestWork hub-web status\n\
         cluster: apply ConfigMap default/b as work-agent, force",
    );
    assert_eq!(conclude(&it).again, Some(Duration::from_secs(60)));
    assert!(!is_worth_retrying(&it));
}

#[test]
fn a_complete_work_is_left_as_it_is() {
    let complete = work(json!({"status": {"conditions": [{
        "type": "Complete", "status": "True", "reason": "ConditionRulesAggregated", "message": "m",
        "observedGeneration": 1, "lastTransitionTime": NOON
    }]}}));
    let mut it = seen(Some(complete), Some(trace(json!({}))));
    it.items = vec![item(0, "a", Live::Absent)];
    check(
        &it,
        "nothing to do\nnote: every manifest is complete: the objects are left as they are",
    );
}

#[test]
fn a_complete_work_reports_only_what_was_applied() {
    let said = |type_: &str, reason: &str| {
        json!({
            "type": type_, "status": "True", "reason": reason, "message": "m",
            "observedGeneration": 1, "lastTransitionTime": NOON
        })
    };
    let meta = json!({
        "ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
        "name": "a", "namespace": "default"
    });
    let complete = said("Complete", "ConditionRuleEvaluated");
    let edited = work(json!({
        "metadata": {"generation": 2},
        "spec": {"workload": {"manifests": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "renamed", "namespace": "default"}}
        ]}},
        "status": {
            "conditions": [said("Applied", "AppliedManifestWorkComplete"), said("Complete", "ConditionRulesAggregated")],
            "resourceStatus": {"manifests": [
                {"resourceMeta": meta, "conditions": [said("Applied", "AppliedManifestComplete"), complete]}
            ]}
        }
    }));
    let status = edited.status.as_ref().unwrap();
    let listed = Item::listed(&edited, &status.resource_status.manifests[0].resource_meta);
    let evicting = trace(json!({"status": {"evictionStartTime": NOON, "appliedResources": [record("a", "uid-a")]}}));
    let mut it = seen(Some(edited), Some(evicting));
    it.items = vec![Item {
        live: Live::Absent,
        watched: true,
        ..listed
    }];
    assert!(writes(&it).is_empty());
    let patch = |step: usize| match &conclude(&it).stages[0][step] {
        Step::MergePatch { patch, .. } => patch["status"].clone(),
        other => panic!("{other} is no patch"),
    };
    let told = patch(0);
    let applied = |of: &Value| (of["type"].clone(), of["observedGeneration"].clone());
    assert_eq!(applied(&told["conditions"][0]), (json!("Applied"), json!(1)));
    let manifests = told["resourceStatus"]["manifests"].as_array().unwrap();
    assert_eq!(manifests.len(), 1);
    assert_eq!(manifests[0]["resourceMeta"], meta);
    assert_eq!(manifests[0]["conditions"][1], complete);
    // The work is there, so nothing is evicted, and what is on record stays.
    assert_eq!(patch(1), json!({"evictionStartTime": null}));
}

#[test]
fn a_terminating_work_updates_its_status_while_its_trace_exists() {
    let meta = json!({
        "ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
        "name": "a", "namespace": "default"
    });
    let going = work(json!({
        "metadata": {"deletionTimestamp": NOON},
        "status": {"resourceStatus": {"manifests": [{"resourceMeta": meta, "conditions": []}]}}
    }));
    let status = going.status.as_ref().unwrap();
    let listed = Item::listed(&going, &status.resource_status.manifests[0].resource_meta);
    let mut it = seen(
        Some(going),
        Some(trace(json!({"metadata": {"deletionTimestamp": NOON}}))),
    );
    it.leaving = vec![leaving("a", "uid-a", live("a", "t"))];
    it.items = vec![Item {
        live: live("a", "t"),
        ..listed
    }];
    let Step::MergePatch { patch, .. } = &conclude(&it).stages[0][0] else {
        panic!("the first step patches the work")
    };
    let entry = &patch["status"]["resourceStatus"]["manifests"][0];
    assert_eq!(
        (&entry["resourceMeta"], &entry["conditions"][0]["reason"]),
        (&meta, &json!("ResourceAvailable"))
    );
    it.trace = None;
    assert_eq!(conclude(&it), Plan::new());
}

#[test]
fn a_deleted_work_removes_objects_then_trace_then_finalizer() {
    let going = || Some(work(json!({"metadata": {"deletionTimestamp": NOON}})));
    let recorded = json!({"appliedResources": [record("a", "uid-a")]});
    let mut it = seen(going(), Some(trace(json!({"status": recorded}))));
    it.leaving = vec![leaving("a", "uid-a", live("a", "t"))];
    check(
        &it,
        "hub: patch ManifestWork cluster1/web status\ncluster: delete AppliedManifestWork hub-web",
    );
    it.trace = Some(trace(
        json!({"metadata": {"deletionTimestamp": NOON}, "status": recorded}),
    ));
    check(&it, "cluster: delete ConfigMap default/a background");
    it.leaving = vec![leaving("a", "uid-a", Live::Absent)];
    check(&it, "cluster: patch AppliedManifestWork hub-web");
    it.trace = None;
    check(&it, "hub: patch ManifestWork cluster1/web");
}

#[test]
fn an_object_with_finalizers_holds_the_work() {
    let going = Some(work(json!({"metadata": {"deletionTimestamp": NOON}})));
    let mut it = seen(going, Some(trace(json!({"metadata": {"deletionTimestamp": NOON}}))));
    let Live::Present(object) = live("a", "t") else {
        panic!("live makes a present object")
    };
    let mut object = (*object).clone();
    object["metadata"]["deletionTimestamp"] = json!(NOON);
    it.leaving = vec![leaving("a", "uid-a", Live::Present(Arc::new(object)))];
    check(
        &it,
        "nothing to do\nwaits: configmaps default/a is being deleted and waits for its finalizers",
    );
}

#[test]
fn an_object_owned_by_another_work_is_not_deleted() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({}))));
    let Live::Present(object) = live("a", "t") else {
        panic!("live makes a present object")
    };
    let mut object = (*object).clone();
    object["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(ownership::reference("hub-other", "o"));
    it.leaving = vec![leaving("a", "uid-a", Live::Present(Arc::new(object)))];
    check(&it, "cluster: patch ConfigMap default/a");
    it.leaving = vec![leaving("a", "uid-a", live("a", "somebody-else"))];
    check(&it, "nothing to do");
}

#[test]
fn a_deleted_trace_removes_its_objects_and_is_recreated() {
    let mut it = seen(
        Some(work(json!({}))),
        Some(trace(json!({"metadata": {"deletionTimestamp": NOON}}))),
    );
    it.leaving = vec![leaving("a", "uid-a", live("a", "t"))];
    check(
        &it,
        "cluster: delete ConfigMap default/a background\n\
         waits: the earlier AppliedManifestWork takes its objects along; then the work is applied anew",
    );
}

#[test]
fn an_orphaned_trace_is_evicted_after_the_grace_period() {
    let mut it = seen(None, Some(trace(json!({}))));
    check(&it, "cluster: patch AppliedManifestWork hub-web status");
    let since = |at: &str| Some(trace(json!({"status": {"evictionStartTime": at}})));
    it.trace = since("2026-01-01T11:30:00Z");
    check(
        &it,
        "nothing to do\nwaits: its work is gone from the hub; its objects are removed in 1800s\nagain in 1800s",
    );
    it.trace = since("2026-01-01T11:00:00Z");
    check(&it, "cluster: delete AppliedManifestWork hub-web");
    it.identity = Arc::new(AgentIdentity {
        eviction_grace: NEVER,
        ..(*identity()).clone()
    });
    check(
        &it,
        "cluster: patch AppliedManifestWork hub-web status\n\
         note: its work is gone from the hub; eviction is off, so its objects stay",
    );
    it.identity = Arc::new(AgentIdentity {
        agent_id: "another".into(),
        ..(*identity()).clone()
    });
    check(&it, "nothing to do\nnote: belongs to agent agent");
}

#[test]
fn a_work_that_came_back_is_no_longer_evicted() {
    let evicting = trace(json!({"status": {"evictionStartTime": NOON, "appliedResources": [record("a", "uid-a")]}}));
    let mut it = seen(Some(work(json!({}))), Some(evicting));
    it.items = vec![item(0, "a", live("a", "t"))];
    let Step::MergePatch { patch, .. } = &conclude(&it).stages[0][1] else {
        panic!("the second step patches the trace")
    };
    assert_eq!(patch["status"], json!({"evictionStartTime": null}));
}

#[test]
fn a_trace_that_cannot_be_created_fails_every_manifest() {
    let mut it = seen(Some(work(json!({}))), None);
    it.items = vec![item(0, "a", Live::Unknown)];
    it.attempts.blocked = Some("metadata.name: must be no more than 253 characters".into());
    check(
        &it,
        "nothing to do\nwaits: the work could not be begun: metadata.name: must be no more than 253 characters",
    );
    let Step::MergePatch { patch, .. } = &conclude(&it).stages[0][0] else {
        panic!("the first step patches the work")
    };
    assert_eq!(
        patch["status"]["resourceStatus"]["manifests"][0]["conditions"][0]["message"],
        "Failed to apply manifest: metadata.name: must be no more than 253 characters"
    );
}

#[test]
fn a_conflict_with_another_writer_slows_down_and_is_reported() {
    let mut it = seen(
        Some(work(json!({}))),
        Some(trace(json!({"status": {"appliedResources": [record("a", "uid-a")]}}))),
    );
    it.items = vec![item(0, "a", Live::Absent)];
    let hashes = writes(&it).worked_out::<applying::WriteHashes>().unwrap().clone();
    let hash = hashes.of(it.items[0].key.as_ref().unwrap()).unwrap();
    let written = |hash: &str| {
        Some(LastWrite {
            hash: hash.to_owned(),
            resource_version: "1".to_owned(),
        })
    };
    it.items[0].hold = Some(Duration::from_secs(3));
    it.items[0].written = written(hash);
    check(
        &it,
        "nothing to do\nwaits: another writer keeps changing configmaps default/a; it is repaired again in 4s\nagain in 3s",
    );
    // What the work says anew is no repair, and does not wait for one.
    it.items[0].written = written("what an earlier spec said");
    check(&it, "cluster: apply ConfigMap default/a as work-agent, force");
}

#[test]
fn only_the_first_write_of_an_object_is_remembered() {
    let recorded = json!({"status": {"appliedResources": [record("a", "uid-a")]}});
    let mut it = seen(Some(work(json!({}))), Some(trace(recorded)));
    let mut second = item(1, "a", live("a", "t"));
    let mut says_otherwise = second.manifest.clone().unwrap();
    says_otherwise.object["data"]["k"] = json!("w");
    second.manifest = Ok(says_otherwise);
    // It agrees with the first, and so what is written is a write of the second.
    it.items = vec![item(0, "a", live("a", "t")), second];
    let plan = writes(&it);
    assert_eq!(plan.len(), 1);
    let key = it.items[0].key.clone().unwrap();
    assert_eq!(plan.worked_out::<applying::WriteHashes>().unwrap().of(&key), None);
    // By whatever version it is reached, it is the same object.
    it.items.swap(0, 1);
    it.items[1].key.as_mut().unwrap().version = "v2".into();
    let plan = writes(&it);
    assert!(plan.worked_out::<applying::WriteHashes>().unwrap().of(&key).is_some());
}

#[test]
fn nothing_old_is_removed_while_a_replacement_waits() {
    let recorded = json!({"status": {"appliedResources": [record("a", "uid-a"), record("old", "uid-old")]}});
    let mut it = seen(Some(work(json!({}))), Some(trace(recorded)));
    let secret = |kind: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": "a", "namespace": "default"}
        })
    };
    let mut going = secret("kubernetes.io/basic-auth");
    going["metadata"]["deletionTimestamp"] = json!(NOON);
    let mut replaced = item(0, "a", Live::Present(Arc::new(going)));
    replaced.manifest = manifest::parse(0, &secret("Opaque"));
    replaced.resource.as_mut().unwrap().gvk.kind = "Secret".into();
    it.items = vec![replaced];
    it.leaving = vec![leaving("old", "uid-old", live("old", "t"))];
    check(
        &it,
        "nothing to do\nwaits: configmaps default/a has to be made anew and waits for its finalizers",
    );
}

#[test]
fn a_run_is_over_after_twelve_rounds_that_tried_something() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({}))));
    for _ in 0..12 {
        assert!(!it.attempts.are_over());
        it.attempts = Attempts::after(&mut it, &Outcome::default());
    }
    assert!(it.attempts.are_over());
}

#[test]
fn a_failed_run_counts_as_no_retry() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({}))));
    let counts = |it: &Seen| {
        ManifestWorks::conclude(it, &Outcome::default())
            .worked_out::<Retries>()
            .is_some()
    };
    assert!(counts(&it));
    it.attempts.could_not_read_trace("the API server is gone".into());
    assert!(!counts(&it));
    assert!(ManifestWorks::plan(&it).is_empty());
    let failure = <ManifestWorks as Reconciler>::failure(&it, &Outcome::default());
    assert_eq!(failure.as_deref(), Some("the API server is gone"));
}

#[test]
fn names_of_traces_belong_to_one_hub() {
    let it = identity();
    assert_eq!(it.trace_name("web"), "hub-web");
    assert_eq!(it.work_name("hub-web"), Some("web"));
    assert_eq!(it.work_name("hub-"), None);
    assert_eq!(it.work_name("hubx-web"), None);
}

#[test]
fn objects_are_recorded_before_they_are_created() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({}))));
    it.items = vec![item(0, "a", live("a", "t")), item(1, "b", Live::Unknown)];
    let Step::MergePatch { patch, .. } = &writes(&it).stages[0][0] else {
        panic!("the first step patches the trace")
    };
    let mut intended = record("b", "");
    intended.as_object_mut().unwrap().remove("uid");
    assert_eq!(patch["status"]["appliedResources"], json!([intended]));
    // A try that failed leaves the record as it is, so that trying again does not write it again.
    let failure = strategy::WriteFailure {
        code: Some(422),
        message: "no".into(),
    };
    it.trace = Some(trace(
        json!({"status": {"appliedResources": [record("a", "uid-a"), intended]}}),
    ));
    it.items[1].live = Live::Absent;
    it.items[1].tried = Attempt {
        failure: Some(failure),
        failures: 1,
        plain: false,
    };
    check(&it, "nothing to do");
    assert_eq!(
        conclude(&it).to_string(),
        "hub: patch ManifestWork cluster1/web status\n"
    );
}

#[test]
fn a_trace_without_agent_id_is_ours_by_hub_hash() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({"spec": {"agentID": ""}}))));
    check(&it, "cluster: patch AppliedManifestWork hub-web");
    // The answer to this told that the field is not kept.
    it.keeps_agent_id = false;
    check(&it, "nothing to do");
    // With its work gone, it is not somebody else's.
    it.work = None;
    check(&it, "cluster: patch AppliedManifestWork hub-web status");
    it.trace = Some(trace(json!({"spec": {"agentID": "", "hubHash": "elsewhere"}})));
    check(&it, "nothing to do\nnote: belongs to an agent of another hub");
}

#[test]
fn a_round_waits_before_it_writes_to_shared_objects() {
    let mut it = seen(Some(work(json!({}))), Some(trace(json!({}))));
    it.items = vec![item(0, "a", Live::Absent)];
    assert_eq!(
        ManifestWorks::plan(&it).to_string(),
        "stage 1\nwait for its turn to write into what other works may have, too\nstage 2\n\
         cluster: patch AppliedManifestWork hub-web status\ncluster: apply ConfigMap default/a as work-agent, force\n"
    );
    // What its write is one of goes with the plan, to be remembered.
    let hashes = ManifestWorks::plan(&it);
    let hashes = hashes.worked_out::<applying::WriteHashes>().unwrap();
    assert!(hashes.of(it.items[0].key.as_ref().unwrap()).is_some());
    // Nobody else writes the finalizer and the trace.
    let alone = seen(Some(work(json!({"metadata": {"finalizers": []}}))), None);
    assert_eq!(ManifestWorks::plan(&alone), writes(&alone));
    it.attempts.has_failed = true;
    assert!(ManifestWorks::plan(&it).is_empty());
}
