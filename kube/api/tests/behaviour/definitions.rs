//! CustomResourceDefinitions that change, meet and go, and what becomes of their objects and of who watches them.

use super::world::{APPLY, PATIENCE, World};
use futures::future::join_all;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::sync::Arc;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/ex.io/v1/namespaces/default/widgets";

async fn define(world: &World, definition: &Value) {
    made(world, definition).await;
}

async fn made(world: &World, definition: &Value) -> Value {
    let (code, made) = world.post(DEFINITIONS, definition).await;
    assert_eq!(code, 201, "{made}");
    made
}

fn version(name: &str, served: bool, storage: bool) -> Value {
    json!({
        "name": name, "served": served, "storage": storage,
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "replicas": {"type": "integer"}, "kept": {"type": "string"}, "old": {"type": "string"},
            }},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        }}},
    })
}

fn definition(plural: &str, kind: &str, versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.ex.io")},
        "spec": {"group": "ex.io", "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": versions},
    })
}

fn widgets() -> Value {
    definition("widgets", "Widget", json!([version("v1", true, true)]))
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"kept": "k", "old": "o"}})
}

fn condition<'a>(definition: &'a Value, kind: &str) -> (&'a str, &'a str) {
    let mut conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let found = conditions.find(|it| it["type"] == kind);
    found.map_or(("", ""), |it| {
        (it["status"].as_str().unwrap(), it["reason"].as_str().unwrap())
    })
}

#[tokio::test]
async fn permission_for_a_subresource_allows_no_create_or_delete() {
    let world = World::new().await;
    define(&world, &widgets()).await;
    assert_eq!(world.post(WIDGETS, &widget("a")).await.0, 201);
    for path in [format!("{WIDGETS}/a/status"), format!("{WIDGETS}/a/scale")] {
        assert_eq!(world.delete(&path).await.0, 405, "{path}");
        let (code, answer) = world.post(&path, &json!({"target": {"name": "n"}})).await;
        assert_eq!((code, &answer["reason"]), (405, &json!("MethodNotAllowed")), "{path}");
    }
    let account = "/api/v1/namespaces/default/serviceaccounts/default/token";
    assert_eq!(world.get(account).await.0, 405);
    assert_eq!(world.get(&format!("{WIDGETS}/a")).await.1["spec"], widget("a")["spec"]);
}

#[tokio::test]
async fn a_name_conflict_takes_nothing_from_an_established_definition() {
    let world = World::new().await;
    let mut other = definition("gadgets", "Gadget", json!([version("v1", true, true)]));
    other["spec"]["names"]["shortNames"] = json!(["g"]);
    define(&world, &other).await;
    define(&world, &widgets()).await;
    assert_eq!(world.post(WIDGETS, &widget("a")).await.0, 201);
    let path = format!("{DEFINITIONS}/widgets.ex.io");
    let names = json!({"spec": {"names": {"shortNames": ["w", "g"], "listKind": "Widgets"}}});
    let (code, changed) = world.merge(&path, names).await;
    assert_eq!(code, 200, "{changed}");
    assert_eq!(condition(&changed, "NamesAccepted"), ("False", "ShortNamesConflict"));
    assert_eq!(condition(&changed, "Established"), ("True", "InitialNamesAccepted"));
    assert_eq!(
        changed["status"]["acceptedNames"],
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "Widgets"})
    );
    assert_eq!(world.get(&format!("{WIDGETS}/a")).await.0, 200);
    // Whose the name was goes, and it is free.
    assert_eq!(world.delete(&format!("{DEFINITIONS}/gadgets.ex.io")).await.0, 200);
    let settled = world
        .until(DEFINITIONS, &path, |_, it| {
            condition(it, "NamesAccepted") == ("True", "NoConflicts")
        })
        .await;
    assert_eq!(settled["status"]["acceptedNames"]["shortNames"], json!(["w", "g"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_definitions_of_one_kind_establish_only_one() {
    let data = tempfile::tempdir().unwrap();
    let world = Arc::new(World::kept_in(data.path()).await);
    for turn in 0..5 {
        let kind = format!("Widget{turn}");
        let make = |at: usize| {
            let wanted = definition(&format!("w{turn}x{at}s"), &kind, json!([version("v1", true, true)]));
            let world = world.clone();
            tokio::spawn(async move { made(&world, &wanted).await })
        };
        let all = join_all((0..8).map(make)).await;
        let all: Vec<Value> = all.into_iter().map(Result::unwrap).collect();
        let with = |of: &str, wanted: (&str, &str)| all.iter().filter(|it| condition(it, of) == wanted).count();
        assert_eq!(with("NamesAccepted", ("True", "NoConflicts")), 1, "{all:?}");
        assert_eq!(with("NamesAccepted", ("False", "ListKindConflict")), 7, "{all:?}");
        assert_eq!(with("Established", ("True", "InitialNamesAccepted")), 1, "{all:?}");
    }
}

#[tokio::test]
async fn a_definition_serves_when_its_name_has_become_free() {
    let world = World::new().await;
    define(&world, &widgets()).await;
    let renamed = definition("widgetry", "Widget", json!([version("v1", true, true)]));
    let waiting = made(&world, &renamed).await;
    assert_eq!(condition(&waiting, "Established"), ("False", "NotAccepted"));
    let objects = "/apis/ex.io/v1/widgetry";
    assert_eq!(world.get(objects).await.0, 404);
    assert_eq!(world.delete(&format!("{DEFINITIONS}/widgets.ex.io")).await.0, 200);
    world.until(DEFINITIONS, objects, |code, _| code == 200).await;
}

#[tokio::test]
async fn stored_versions_cannot_be_forgotten_nor_names_set_by_clients() {
    let world = World::new().await;
    define(&world, &widgets()).await;
    let status = format!("{DEFINITIONS}/widgets.ex.io/status");
    for (stored, field, detail) in [
        (
            json!([]),
            "status.storedVersions",
            "must have at least one stored version",
        ),
        (
            json!(["v2"]),
            "status.storedVersions",
            "must have the storage version v1",
        ),
        (
            json!(["v1", "v2"]),
            "status.storedVersions[1]",
            "must appear in spec.versions",
        ),
    ] {
        let (code, answer) = world
            .merge(&status, json!({"status": {"storedVersions": stored}}))
            .await;
        assert_eq!(code, 422, "{answer}");
        let cause = &answer["details"]["causes"][0];
        assert_eq!(cause["field"], field);
        assert!(cause["message"].as_str().unwrap().ends_with(detail), "{cause}");
    }
    let given = json!({"status": {"acceptedNames": {"plural": "", "kind": ""}, "conditions": []}});
    let (code, answer) = world.merge(&status, given).await;
    assert_eq!(
        (code, &answer["status"]["acceptedNames"]["plural"]),
        (200, &json!("widgets"))
    );
    assert_eq!(condition(&answer, "Established").0, "True");
    assert_eq!(world.get(WIDGETS).await.0, 200);
}

#[tokio::test]
async fn removed_schema_fields_are_pruned_on_read_and_allow_patches() {
    let world = World::new().await;
    define(&world, &widgets()).await;
    assert_eq!(world.post(WIDGETS, &widget("a")).await.0, 201);
    let mut next = version("v1", true, true);
    let spec = next["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].as_object_mut();
    spec.unwrap().remove("old");
    let path = format!("{DEFINITIONS}/widgets.ex.io");
    assert_eq!(world.merge(&path, json!({"spec": {"versions": [next]}})).await.0, 200);
    let path = format!("{WIDGETS}/a");
    assert_eq!(world.get(&path).await.1["spec"], json!({"kept": "k"}));
    assert_eq!(world.get(WIDGETS).await.1["items"][0]["spec"], json!({"kept": "k"}));
    let strict = format!("{path}?fieldValidation=Strict");
    let (code, answer) = world.merge(&strict, json!({"metadata": {"labels": {"l": "1"}}})).await;
    assert_eq!(code, 200, "{answer}");
    assert_eq!(answer["spec"], json!({"kept": "k"}));
}

#[tokio::test]
async fn a_watch_ends_only_when_the_served_versions_change() {
    let world = World::new().await;
    define(&world, &widgets()).await;
    let mut watch = world
        .open(Method::GET, &format!("{WIDGETS}?watch=1"), "", &Value::Null)
        .await
        .into_body();
    assert_eq!(world.post(WIDGETS, &widget("a")).await.0, 201);
    let path = format!("{DEFINITIONS}/widgets.ex.io");
    // What is said about a definition changes nothing for its objects.
    let label = json!({"metadata": {"labels": {"l": "1"}}});
    assert_eq!(world.merge(&path, label).await.0, 200);
    assert_eq!(world.post(WIDGETS, &widget("b")).await.0, 201);
    let mut text = String::new();
    let reading = async {
        while text.lines().count() < 2 {
            let frame = watch.frame().await.expect("the watch goes on").unwrap();
            text.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
        let versions = json!([version("v1", true, true), version("v2", true, false)]);
        assert_eq!(world.merge(&path, json!({"spec": {"versions": versions}})).await.0, 200);
        assert!(watch.frame().await.is_none(), "its clients list again");
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the watch ends");
    assert_eq!(text.matches("\"type\":\"ADDED\"").count(), 2, "{text}");
}

#[tokio::test]
async fn a_watch_receives_the_last_deletions_before_its_definition_goes() {
    let world = World::new().await;
    define(&world, &widgets()).await;
    assert_eq!(world.post(WIDGETS, &widget("a")).await.0, 201);
    let watch = world
        .open(Method::GET, &format!("{WIDGETS}?watch=1"), "", &Value::Null)
        .await
        .into_body();
    assert_eq!(world.delete(&format!("{DEFINITIONS}/widgets.ex.io")).await.0, 200);
    let read = tokio::time::timeout(PATIENCE, watch.collect())
        .await
        .expect("the watch ends");
    let bytes = read.unwrap().to_bytes();
    let text = std::str::from_utf8(&bytes).unwrap();
    assert_eq!(text.matches("\"type\":\"DELETED\"").count(), 1, "{text}");
}

#[tokio::test]
async fn objects_of_an_unserved_storage_version_are_garbage_collected() {
    let world = World::new().await;
    let versions = json!([version("v1", true, false), version("v2", false, true)]);
    define(&world, &definition("widgets", "Widget", versions)).await;
    let (_, owner) = world
        .post(
            "/api/v1/namespaces/default/configmaps",
            &json!({"metadata": {"name": "owner"}}),
        )
        .await;
    let mut owned = widget("a");
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    assert_eq!(world.post(WIDGETS, &owned).await.0, 201);
    let orphan = "/api/v1/namespaces/default/configmaps/owner?propagationPolicy=Orphan";
    assert_eq!(world.delete(orphan).await.0, 200);
    let is_orphan = |_: u16, it: &Value| it["metadata"].get("ownerReferences").is_none();
    world.until(WIDGETS, &format!("{WIDGETS}/a"), is_orphan).await;
}

#[tokio::test]
async fn a_group_that_serves_nothing_is_not_discovered() {
    let world = World::new().await;
    let versions = json!([version("v1", false, true)]);
    define(&world, &definition("widgets", "Widget", versions)).await;
    let (_, groups) = world.get("/apis").await;
    let names: Vec<&Value> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    assert!(
        names.contains(&&json!("apps")) && !names.contains(&&json!("ex.io")),
        "{names:?}"
    );
    assert_eq!(world.get("/apis/ex.io").await.0, 404);
}

#[tokio::test]
async fn replicas_are_validated_wherever_they_are_written() {
    let world = World::new().await;
    define(&world, &widgets()).await;
    assert_eq!(world.post(WIDGETS, &widget("a")).await.0, 201);
    let path = format!("{WIDGETS}/a");
    for (replicas, detail) in [
        (json!(-1), "should be a non-negative integer"),
        (json!(1_i64 << 40), "should be less than or equal to 2147483647"),
    ] {
        let (code, answer) = world.merge(&path, json!({"spec": {"replicas": replicas}})).await;
        assert_eq!(
            (code, &answer["details"]["causes"][0]["field"]),
            (422, &json!(".spec.replicas"))
        );
        assert!(answer["message"].as_str().unwrap().ends_with(detail), "{answer}");
    }
}

#[tokio::test]
async fn a_scale_patch_applies_to_the_current_state() {
    let world = World::new().await;
    define(&world, &widgets()).await;
    let mut three = widget("a");
    three["spec"]["replicas"] = json!(3);
    assert_eq!(world.post(WIDGETS, &three).await.0, 201);
    let path = format!("{WIDGETS}/a/scale");
    let patch = |from: i64| json!([{"op": "test", "path": "/spec/replicas", "value": from}, {"op": "replace", "path": "/spec/replicas", "value": from + 1}]);
    let json_patch = "application/json-patch+json";
    assert_eq!(world.ask(Method::PATCH, &path, json_patch, &patch(3)).await.0, 200);
    assert_eq!(world.ask(Method::PATCH, &path, json_patch, &patch(3)).await.0, 422);
    let (_, scale) = world.get(&path).await;
    let named = |revision: &Value| json!({"metadata": {"resourceVersion": revision}, "spec": {"replicas": 9}});
    assert_eq!(world.merge(&path, named(&json!("1"))).await.0, 409);
    let (code, scaled) = world.merge(&path, named(&scale["metadata"]["resourceVersion"])).await;
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(9)));
}

#[tokio::test]
async fn who_names_a_uid_does_not_make_another_object() {
    let world = World::new().await;
    let uid = "00000000-0000-0000-0000-000000000001";
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "gone", "uid": uid}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/gone";
    let (code, answer) = world
        .ask(Method::PATCH, &format!("{path}?fieldManager=m"), APPLY, &lease)
        .await;
    assert_eq!((code, &answer["reason"]), (409, &json!("Conflict")));
    assert_eq!(
        answer["message"],
        format!(
            "Operation cannot be fulfilled on leases.coordination.k8s.io \"gone\": uid mismatch: the provided object specified \
             uid {uid}, and no existing object was found"
        )
    );
    assert_eq!(world.ask(Method::PUT, path, "application/json", &lease).await.0, 409);
    assert_eq!(world.get(path).await.0, 404);
}

#[tokio::test]
async fn a_column_whose_path_cannot_be_read_is_refused() {
    let world = World::new().await;
    let mut wrong = widgets();
    wrong["spec"]["versions"][0]["additionalPrinterColumns"] =
        json!([{"name": "X", "type": "string", "jsonPath": ".spec["}]);
    let (code, answer) = world.post(DEFINITIONS, &wrong).await;
    assert_eq!(code, 422, "{answer}");
    assert!(
        answer["message"].as_str().unwrap().contains("is an invalid path: "),
        "{answer}"
    );
}
