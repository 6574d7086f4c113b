use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};

use super::*;

fn from<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("the fixture fits its kind")
}

fn check(plan: &Plan, printed: &str) {
    assert_eq!(format!("{plan:#}").trim(), printed.trim());
}

#[test]
fn keeping_an_absent_object_creates_it() {
    let mut plan = Plan::new();
    plan.keep::<Namespace>(
        Site::Hub,
        None,
        &from(json!({"metadata": {"name": "cluster1", "labels": {"a": "b"}}})),
    );
    check(
        &plan,
        r#"hub: create Namespace cluster1 {"metadata":{"labels":{"a":"b"}}}"#,
    );
}

#[test]
fn keeping_an_object_that_says_it_all_adds_nothing() {
    let mut plan = Plan::new();
    let current: ConfigMap = from(json!({
        "metadata": {"name": "it", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"a": "b", "mine": "x"}},
        "data": {"k": "v", "other": "w"}
    }));
    let desired: ConfigMap =
        from(json!({"metadata": {"name": "it", "namespace": "ns", "labels": {"a": "b"}}, "data": {"k": "v"}}));
    assert_eq!(plan.keep(Site::Cluster, Some(&current), &desired), None);
    check(&plan, "nothing to do");
}

#[test]
fn keeping_patches_only_the_difference_guarded_by_uid_and_version() {
    let mut plan = Plan::new();
    let current: ConfigMap = from(json!({
        "metadata": {"name": "it", "namespace": "ns", "uid": "u", "resourceVersion": "7", "finalizers": ["theirs"]},
        "data": {"k": "old", "other": "w"}
    }));
    let desired: ConfigMap =
        from(json!({"metadata": {"name": "it", "namespace": "ns", "finalizers": ["ours"]}, "data": {"k": "v"}}));
    plan.keep(Site::Cluster, Some(&current), &desired);
    assert_eq!(
        plan.stages[0][0],
        Step::MergePatch {
            target: Target::namespaced::<ConfigMap>(Site::Cluster, "ns", "it"),
            subresource: None,
            patch: json!({
                "metadata": {"finalizers": ["theirs", "ours"], "uid": "u", "resourceVersion": "7"},
                "data": {"k": "v"}
            }),
        }
    );
}

#[test]
fn a_plan_never_prints_the_data_of_a_secret() {
    let mut plan = Plan::new();
    plan.create::<Secret>(
        Site::Cluster,
        &from(json!({"metadata": {"name": "s", "namespace": "ns"}, "data": {"k": "c2VjcmV0"}})),
    );
    check(&plan, r#"cluster: create Secret ns/s {"data":{"k":"..."}}"#);
}

#[test]
fn a_stage_begins_only_behind_a_filled_one() {
    let mut plan = Plan::new();
    plan.stage().stage();
    plan.create::<Namespace>(Site::Hub, &from(json!({"metadata": {"name": "a"}})));
    plan.stage();
    plan.create::<Namespace>(Site::Hub, &from(json!({"metadata": {"name": "b"}})));
    plan.wait("b is not there").look_again(Duration::from_secs(5));
    assert_eq!(
        plan.to_string(),
        "stage 1\nhub: create Namespace a\nstage 2\nhub: create Namespace b\nwaits: b is not there\nagain in 5s\n"
    );
}

#[test]
fn finalizers_are_sent_as_a_whole_list() {
    let mut plan = Plan::new();
    let object: Namespace =
        from(json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "finalizers": ["x", "y"]}}));
    assert_eq!(plan.add_finalizer(Site::Hub, &object, "x"), None);
    plan.remove_finalizer(Site::Hub, &object, "x");
    check(&plan, r#"hub: patch Namespace a {"metadata":{"finalizers":["y"]}}"#);
}

#[test]
fn a_status_that_agrees_is_not_written() {
    let mut plan = Plan::new();
    let old: Namespace = from(json!({"metadata": {"name": "a"}, "status": {"phase": "Active"}}));
    assert_eq!(plan.status(Site::Hub, &old, &old.clone()), None);
    let new: Namespace = from(json!({"metadata": {"name": "a"}, "status": {"phase": "Terminating"}}));
    plan.status(Site::Hub, &old, &new);
    check(
        &plan,
        r#"hub: patch Namespace a status {"status":{"phase":"Terminating"}}"#,
    );
}
