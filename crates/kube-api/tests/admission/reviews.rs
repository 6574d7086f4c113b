//! What webhooks are told.

use super::{
    hook::Hook,
    world::{APPLY, JSON, MAPS, MERGE, VALIDATING, World, configuration, map, rules, webhook},
};
use http::Method;
use serde_json::{Value, json};

async fn told() -> (World, Hook) {
    let world = World::new().await;
    let hook = Hook::new(|_, _| json!({"allowed": true})).await;
    let more = json!({"rules": rules(&["configmaps", "namespaces", "widgets/*"])});
    let hooks = [webhook("test", hook.config("/"), more)];
    world.ok(VALIDATING, &configuration("Validating", "v", &hooks)).await;
    (world, hook)
}

#[tokio::test]
async fn n158_a_create_has_the_object_and_its_name() {
    let (world, hook) = told().await;
    world
        .post(&format!("{MAPS}?fieldManager=me&fieldValidation=Strict"), &map("a"))
        .await;
    let request = hook.last();
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let fixed = [
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", resource.clone()),
        ("requestResource", resource),
        ("name", json!("a")),
        ("namespace", json!("default")),
        ("operation", json!("CREATE")),
        ("oldObject", Value::Null),
        ("dryRun", json!(false)),
        (
            "options",
            json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me", "fieldValidation": "Strict"}),
        ),
        (
            "userInfo",
            json!({"username": "admin", "groups": ["system:masters", "system:authenticated"]}),
        ),
    ];
    for (key, wanted) in fixed {
        assert_eq!(request[key], wanted, "{key}");
    }
    assert_eq!(request["object"]["kind"], "ConfigMap");
    assert_eq!(request["object"]["data"]["a"], "b");
    assert!(request.get("subResource").is_none() && request["uid"].as_str().unwrap().len() == 36);
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}});
    let made = world.ok(MAPS, &generated).await;
    assert_eq!(hook.last()["name"], made["metadata"]["name"]);
}

#[tokio::test]
async fn n158_updates_and_patches_have_both_objects() {
    let (world, hook) = told().await;
    let mut object = world.map("a").await.body;
    let path = format!("{MAPS}/a");
    object["data"]["a"] = "c".into();
    world.ask(Method::PUT, &path, JSON, &object).await;
    let put = hook.last();
    world
        .ask(Method::PATCH, &path, MERGE, &json!({"data": {"a": "d"}}))
        .await;
    let patched = hook.last();
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "e"}});
    let applied = format!("{path}?fieldManager=me&force=true");
    world.ask(Method::PATCH, &applied, APPLY, &config).await;
    let apply = hook.last();
    for (request, before, after) in [(&put, "b", "c"), (&patched, "c", "d"), (&apply, "d", "e")] {
        assert_eq!(request["operation"], "UPDATE");
        assert_eq!(request["oldObject"]["data"]["a"], before);
        assert_eq!(request["object"]["data"]["a"], after);
        assert_eq!(request["options"]["kind"], "UpdateOptions");
        assert_eq!(request["name"], "a");
    }
    assert_eq!(apply["options"]["fieldManager"], "me");
    // An apply that makes the object is a create.
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "new"}});
    let answer = world
        .ask(Method::PATCH, &format!("{MAPS}/new?fieldManager=me"), APPLY, &config)
        .await;
    assert_eq!(answer.code, 201);
    let request = hook.last();
    assert_eq!(
        (&request["operation"], &request["oldObject"]),
        (&json!("CREATE"), &Value::Null)
    );
    assert_eq!(request["options"]["kind"], "CreateOptions");
}

#[tokio::test]
async fn n158_deletes_have_the_old_object_and_those_of_a_collection_no_name() {
    let (world, hook) = told().await;
    for name in ["a", "b", "c"] {
        world.map(name).await;
    }
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", "gracePeriodSeconds": 3});
    world.ask(Method::DELETE, &format!("{MAPS}/a"), JSON, &options).await;
    let request = hook.last();
    assert_eq!(
        (&request["operation"], &request["name"]),
        (&json!("DELETE"), &json!("a"))
    );
    assert_eq!(
        (&request["object"], &request["oldObject"]["metadata"]["name"]),
        (&Value::Null, &json!("a"))
    );
    let wanted = json!({
        "kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background", "gracePeriodSeconds": 3,
    });
    assert_eq!(request["options"], wanted);
    let before = hook.seen().len();
    world.delete(&format!("{MAPS}?labelSelector=!none")).await;
    let seen: Vec<Value> = hook
        .seen()
        .drain(before..)
        .map(|(_, it)| it["request"].clone())
        .collect();
    let names: Vec<_> = seen
        .iter()
        .map(|it| it["oldObject"]["metadata"]["name"].clone())
        .collect();
    assert!(names.contains(&json!("b")) && names.contains(&json!("c")), "{names:?}");
    assert!(
        seen.iter()
            .all(|it| it.get("name").is_none() && it["operation"] == "DELETE")
    );
}

#[tokio::test]
async fn n158_a_namespace_is_in_itself_once_it_exists() {
    let (world, hook) = told().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n1"}});
    world.ok("/api/v1/namespaces", &namespace).await;
    let made = hook.last();
    assert_eq!((&made["name"], made.get("namespace")), (&json!("n1"), None));
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    world.ask(Method::PATCH, "/api/v1/namespaces/n1", MERGE, &patch).await;
    // The server writes to it too.
    let all = hook.seen();
    let own = all
        .iter()
        .find(|(_, it)| it["request"]["userInfo"]["username"] == "admin")
        .unwrap();
    assert_eq!(own.1["request"]["namespace"], "n1");
}

#[tokio::test]
async fn n158_a_subresource_is_named() {
    let (world, hook) = told().await;
    let version = json!({
        "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.ex.io"},
        "spec": {"group": "ex.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version]},
    });
    world
        .ok("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd)
        .await;
    let path = "/apis/ex.io/v1/namespaces/default/widgets";
    let widget = json!({"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w"}});
    world.ok(path, &widget).await;
    assert!(hook.last().get("subResource").is_none());
    let status = world
        .ask(
            Method::PATCH,
            &format!("{path}/w/status"),
            MERGE,
            &json!({"status": {"a": 1}}),
        )
        .await;
    assert_eq!(status.code, 200);
    let request = hook.last();
    assert_eq!(
        (&request["subResource"], &request["requestSubResource"]),
        (&json!("status"), &json!("status"))
    );
    assert_eq!(request["object"]["status"]["a"], 1);
    assert_eq!(
        request["kind"],
        json!({"group": "ex.io", "version": "v1", "kind": "Widget"})
    );
}

#[tokio::test]
async fn n158_what_is_posted_and_not_stored_is_asked_about_too() {
    let world = World::new().await;
    let hook = Hook::new(|_, request| json!({"allowed": request["name"] != "denied"})).await;
    let all = rules(&["serviceaccounts/*", "selfsubjectaccessreviews", "pods/eviction"]);
    let hooks = [webhook("test", hook.config("/"), json!({"rules": all}))];
    world.ok(VALIDATING, &configuration("Validating", "v", &hooks)).await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}});
    world.ok(accounts, &account).await;
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    world.ok(&format!("{accounts}/a/token"), &token).await;
    let request = hook.last();
    let kind = json!({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"});
    assert_eq!((&request["kind"], &request["subResource"]), (&kind, &json!("token")));
    assert_eq!(
        (&request["operation"], &request["name"]),
        (&json!("CREATE"), &json!("a"))
    );
    assert_eq!(world.post(&format!("{accounts}/denied/token"), &token).await.code, 400);
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    });
    world
        .ok("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review)
        .await;
    assert_eq!(hook.last()["kind"]["kind"], "SelfSubjectAccessReview");
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "denied"}});
    let path = "/api/v1/namespaces/default/pods/denied/eviction";
    assert_eq!(world.post(path, &eviction).await.code, 400);
    assert_eq!(hook.last()["kind"]["kind"], "Eviction");
}
