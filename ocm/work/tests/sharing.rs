//! Objects that more than one work asks for, and what of an object is whose.

#[expect(dead_code, reason = "more can be done in the world than is done here")]
mod world;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use work::agent::hub_hash;
use world::{World, config_map};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_work_removes_its_fields_from_shared_objects() {
    let world = World::new().await;
    let mut of_a = works(&[with(config_map("shared", "1"), json!({"data": {"a": "1"}}))]);
    of_a["manifestConfigs"] = json!([{
        "resourceIdentifier": {"group": "", "resource": "configmaps", "name": "shared", "namespace": "default"},
        "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "b", "path": ".data.b"}]}],
        "conditionRules": [{"type": "CEL", "condition": "HasB", "celExpressions": ["has(object.data.b)"]}]
    }]);
    world.create_work("wa", of_a).await;
    world.work_until("wa", |it| is(it, "Applied", "True")).await;
    let of_b = with(
        config_map("shared", "1"),
        json!({"metadata": {"labels": {"b": "1"}}, "data": {"b": "1"}}),
    );
    world.create_work("wb", works(&[of_b])).await;
    world.work_until("wb", |it| is(it, "Applied", "True")).await;
    world.work_until("wa", |it| is(it, "HasB", "True")).await;
    world
        .patch_object("configmaps", "shared", json!({"data": {"by": "hand"}}))
        .await;
    let both = world.object("v1", "configmaps", "shared").await.unwrap();
    assert_eq!(both["data"], json!({"a": "1", "b": "1", "by": "hand", "k": "1"}));
    assert_eq!(owners(&both), 2);
    world.delete_work("wb").await;
    world.work_until_gone("wb").await;
    let one = world.object("v1", "configmaps", "shared").await.unwrap();
    assert_eq!(one["data"], json!({"a": "1", "by": "hand", "k": "1"}));
    assert_eq!(one["metadata"]["labels"], Value::Null);
    assert_eq!(owners(&one), 1);
    // What stays is told of as it is now.
    let told = world.work_until("wa", |it| is(it, "HasB", "False")).await;
    let manifest = &told["status"]["resourceStatus"]["manifests"][0];
    assert!(
        manifest["statusFeedback"]["values"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_work_is_deletable_though_the_object_needs_its_fields() {
    let world = World::new().await;
    let named = |labels: Value| json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default", "labels": labels}});
    let spec = json!({
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    });
    let whole = with(named(json!({"whole": "1"})), json!({"spec": spec}));
    world.create_work("whole", works(&[whole])).await;
    world.work_until("whole", |it| is(it, "Applied", "True")).await;
    world.create_work("label", works(&[named(json!({"label": "1"}))])).await;
    world.work_until("label", |it| is(it, "Applied", "True")).await;
    world.delete_work("whole").await;
    world.work_until_gone("whole").await;
    let left = world.object("apps/v1", "deployments", "d").await.unwrap();
    assert_eq!((owners(&left), &left["metadata"]["labels"]["label"]), (1, &json!("1")));
    assert_eq!(left["spec"]["template"]["spec"]["containers"][0]["image"], "i");
    // And the other goes on.
    let patch = json!({"spec": works(&[named(json!({"label": "2"}))])});
    world.patch_work("label", patch).await;
    let told = world.work_until("label", |it| at_generation(it, "Applied", 2)).await;
    assert!(is(&told, "Applied", "True"), "{told:#}");
    let left = world.object("apps/v1", "deployments", "d").await.unwrap();
    assert_eq!(left["metadata"]["labels"]["label"], "2");
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removing_a_shared_manifest_removes_only_the_fields_it_set() {
    let world = World::new().await;
    for (name, key) in [("wa", "a"), ("wb", "b")] {
        let shared = with(config_map("shared", "1"), json!({"data": {key: "1"}}));
        world.create_work(name, works(&[shared, config_map(name, "1")])).await;
        world.work_until(name, |it| is(it, "Applied", "True")).await;
    }
    let patch = json!({"spec": works(&[config_map("wb", "1")])});
    world.patch_work("wb", patch).await;
    let left = world
        .object_until("configmaps", "shared", |it| it.is_some_and(|it| owners(it) == 1))
        .await
        .unwrap();
    assert_eq!(left["data"], json!({"a": "1", "k": "1"}));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn works_sharing_an_object_do_not_conflict_after_a_restart() {
    let mut world = World::new().await;
    for (name, key) in [("wa", "a"), ("wb", "b")] {
        let shared = with(config_map("shared", "1"), json!({"data": {key: "1"}}));
        world.create_work(name, works(&[shared])).await;
        world.work_until(name, |it| is(it, "Applied", "True")).await;
    }
    let before = world
        .object_until("configmaps", "shared", |it| {
            it.is_some_and(|it| owners(it) == 2 && it["data"] == json!({"a": "1", "b": "1", "k": "1"}))
        })
        .await
        .unwrap();
    world.stop_agent().await;
    world.start_agent();
    for (name, key) in [("wa", "a"), ("wb", "b")] {
        let shared = with(config_map("shared", "1"), json!({"data": {key: "1"}}));
        world
            .patch_work(name, json!({"spec": works(&[shared, config_map(name, "1")])}))
            .await;
        world.work_until(name, |it| at_generation(it, "Applied", 2)).await;
    }
    let after = world.object("v1", "configmaps", "shared").await.unwrap();
    assert_eq!(
        before["metadata"]["resourceVersion"],
        after["metadata"]["resourceVersion"]
    );
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_works_that_share_an_object_own_it() {
    let world = World::new().await;
    let names: Vec<String> = (0..40).map(|it| format!("w{it}")).collect();
    let specs = names.iter().map(|name| {
        let shared = with(config_map("shared", "1"), json!({"data": {name: "1"}}));
        (name, works(&[shared, config_map(name, "1")]))
    });
    futures::future::join_all(specs.map(|(name, spec)| world.create_work(name, spec))).await;
    for name in &names {
        world.work_until(name, |it| is(it, "Applied", "True")).await;
    }
    let has_all = |it: &Value| owners(it) == 40 && names.iter().all(|name| it["data"][name] == "1");
    let reached = world
        .object_until("configmaps", "shared", |it| it.is_some_and(has_all))
        .await;
    let leaving = names.iter().skip(1).map(|it| world.delete_work(it));
    futures::future::join_all(leaving).await;
    for name in &names[1..] {
        world.work_until_gone(name).await;
    }
    let left = world.object("v1", "configmaps", "shared").await.unwrap();
    assert_eq!(left["metadata"]["uid"], reached.unwrap()["metadata"]["uid"]);
    assert_eq!(left["data"], json!({"k": "1", "w0": "1"}));
    assert_eq!(owners(&left), 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applied_fields_have_only_the_field_manager_work_agent() {
    let world = World::new().await;
    world.create_work("web", works(&[config_map("a", "1")])).await;
    world.work_until("web", |it| is(it, "Applied", "True")).await;
    let object = world.object("v1", "configmaps", "a").await.unwrap();
    assert_eq!(managers(&object), BTreeSet::from(["work-agent".to_owned()]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_from_an_earlier_release_are_taken_over_and_pruned() {
    let world = World::new().await;
    let hash = hub_hash("https://hub.example:6443");
    let earlier = format!("work-agent/{}/web", &hash[..8]);
    let object = with(config_map("a", "1"), json!({"data": {"dropped": "1"}}));
    world.apply_object("configmaps", "a", &earlier, object).await;
    world.create_work("web", works(&[config_map("a", "1")])).await;
    world.work_until("web", |it| is(it, "Applied", "True")).await;
    let object = world
        .object_until("configmaps", "a", |it| {
            it.is_some_and(|it| it["data"] == json!({"k": "1"}))
        })
        .await
        .unwrap();
    assert_eq!(managers(&object), BTreeSet::from(["work-agent".to_owned()]));
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_removed_finalizer_of_a_manifest_is_not_restored() {
    let world = World::new().await;
    let held = json!({"metadata": {"finalizers": ["example.com/held"]}});
    let strategies = [("update", "Update"), ("apply", "ServerSideApply")];
    for (name, strategy) in strategies {
        let mut spec = works(&[with(config_map(name, "1"), held.clone())]);
        spec["manifestConfigs"] = json!([{
            "resourceIdentifier": {"group": "", "resource": "configmaps", "name": name, "namespace": "default"},
            "updateStrategy": {"type": strategy, "serverSideApply": {"force": true}}
        }]);
        world.create_work(name, spec).await;
        world.work_until(name, |it| is(it, "Applied", "True")).await;
        let made = world.object("v1", "configmaps", name).await.unwrap();
        assert_eq!(
            made["metadata"]["finalizers"],
            json!(["example.com/held"]),
            "{strategy}"
        );
        // The controller that the finalizer is of is done with it.
        world
            .patch_object("configmaps", name, json!({"metadata": {"finalizers": null}}))
            .await;
        world
            .patch_object("configmaps", name, json!({"data": {"k": "changed"}}))
            .await;
        let repaired = world
            .object_until("configmaps", name, |it| it.is_some_and(|it| it["data"]["k"] == "1"))
            .await
            .unwrap();
        assert_eq!(repaired["metadata"]["finalizers"], Value::Null, "{strategy}");
        world.delete_work(name).await;
        world.work_until_gone(name).await;
        assert!(world.object("v1", "configmaps", name).await.is_none());
    }
    world.stop().await;
}

/// The object with the patch laid over it.
fn with(mut object: Value, patch: Value) -> Value {
    fn lay(base: &mut Value, over: Value) {
        match (base, over) {
            (Value::Object(base), Value::Object(over)) => {
                for (key, it) in over {
                    lay(base.entry(key).or_insert(Value::Null), it);
                }
            }
            (base, over) => *base = over,
        }
    }
    lay(&mut object, patch);
    object
}

fn owners(object: &Value) -> usize {
    object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len)
}

fn managers(object: &Value) -> BTreeSet<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    entries
        .map(|it| it["manager"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn works(manifests: &[Value]) -> Value {
    json!({"workload": {"manifests": manifests}})
}

fn condition(of: &Value, r#type: &str) -> Value {
    of["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|it| it["type"] == r#type)
        .cloned()
        .unwrap_or_default()
}

fn is(work: &Value, r#type: &str, status: &str) -> bool {
    condition(&work["status"], r#type)["status"] == status
}

fn at_generation(work: &Value, r#type: &str, generation: i64) -> bool {
    condition(&work["status"], r#type)["observedGeneration"] == generation
}
