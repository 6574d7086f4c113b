//! What webhooks are told.

use super::{Judged, VALIDATING, allowing, configure, only, rules, webhook};
use crate::{
    client::Ask,
    cx::{Cx, config_map, version},
    webhook::Webhook,
};
use serde_json::{Value, json};

pub async fn reviews(c: Cx) {
    let it = Judged::by(&c, "told", allowing().await, json!({"rules": rules(&["configmaps"])})).await;
    create(&it).await;
    change(&it).await;
    delete(&it).await;
    tokio::join!(namespaces(&c), subresources(&c), not_stored(&c));
}

async fn create(it: &Judged) {
    let Judged { c, maps, me, .. } = it;
    c.post(
        &format!("{maps}?fieldManager=me&fieldValidation=Strict"),
        config_map("a", json!({"a": "b"})),
    )
    .await
    .is(201);
    let seen = it.asked().pop().expect("the webhook was asked");
    assert_eq!(
        (seen.path.as_str(), seen.agent.as_str()),
        ("/judge?timeout=10s", "kube-apiserver-admission")
    );
    let whole = (&seen.review["apiVersion"], &seen.review["kind"]);
    assert_eq!(whole, (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
    let request = &seen.review["request"];
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let fixed = [
        ("kind", kind.clone()),
        ("requestKind", kind),
        ("resource", resource.clone()),
        ("requestResource", resource),
        ("name", json!("a")),
        ("namespace", json!(it.namespace)),
        ("operation", json!("CREATE")),
        ("oldObject", Value::Null),
        ("dryRun", json!(false)),
        (
            "options",
            json!({"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me", "fieldValidation": "Strict"}),
        ),
    ];
    for (key, wanted) in fixed {
        assert_eq!(request[key], wanted, "{key}");
    }
    for key in ["username", "groups"] {
        assert_eq!(request["userInfo"][key], me[key], "{key}");
    }
    assert_eq!(request["object"]["kind"], "ConfigMap");
    assert_eq!(request["object"]["data"]["a"], "b");
    let managers = request["object"]["metadata"]["managedFields"].to_string();
    assert!(managers.contains("\"manager\":\"me\""), "{managers}");
    assert!(request.get("subResource").is_none(), "{request}");
    assert_eq!(request["uid"].as_str().map(str::len), Some(36));
    let generated = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "g-"}});
    let made = c.post(maps, generated).await.is(201);
    assert_eq!(it.last()["name"], made["metadata"]["name"]);
}

async fn change(it: &Judged) {
    let Judged { c, maps, .. } = it;
    let path = format!("{maps}/a");
    let mut object = c.get(&path).await.is(200).json;
    object["data"]["a"] = "c".into();
    c.put(&path, &object).await.is(200);
    let put = it.last();
    c.merge(&path, json!({"data": {"a": "d"}})).await.is(200);
    let patched = it.last();
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "e"}});
    c.apply(&format!("{path}?force=true"), "me", config).await.is(200);
    let apply = it.last();
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
    c.apply(&format!("{maps}/new"), "me", config).await.is(201);
    let request = it.last();
    assert_eq!(
        (&request["operation"], &request["oldObject"]),
        (&json!("CREATE"), &Value::Null)
    );
    assert_eq!(request["options"]["kind"], "CreateOptions");
}

async fn delete(it: &Judged) {
    let Judged { c, maps, .. } = it;
    for name in ["b", "c"] {
        it.map(name).await.is(201);
    }
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background", "gracePeriodSeconds": 3});
    c.send(Ask::delete(format!("{maps}/a")).json(&options)).await.is(200);
    let request = it.last();
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
    c.delete(&format!("{maps}?fieldSelector=metadata.name!=kube-root-ca.crt"))
        .await
        .is(200);
    let seen: Vec<Value> = it.asked().iter().map(|it| it.review["request"].clone()).collect();
    let of: Vec<&Value> = seen.iter().map(|it| &it["oldObject"]["metadata"]["name"]).collect();
    assert!(of.contains(&&json!("b")) && of.contains(&&json!("c")), "{of:?}");
    assert!(seen.iter().all(|it| it["operation"] == "DELETE"), "{seen:?}");
    // The request names nobody.
    assert!(seen.iter().all(|it| it.get("name").is_none()), "{seen:?}");
}

/// A namespace is in itself.
async fn namespaces(c: &Cx) {
    let label = c.name("own");
    let chosen = json!({"matchLabels": {"of": label}});
    let it = Judged::unjudged(c, "beside", allowing().await).await;
    let name = c.name("in-itself");
    // It goes after the webhook that would be asked about it.
    c.removes(&format!("/api/v1/namespaces/{name}"));
    let more = json!({"rules": rules(&["namespaces"]), "objectSelector": chosen});
    configure(
        c,
        VALIDATING,
        "namespaces",
        &[webhook("test", it.hook.config("/"), more)],
    )
    .await;
    let namespace = json!({"metadata": {"name": name, "labels": {"of": label}}});
    c.post("/api/v1/namespaces", namespace).await.is(201);
    let made = it.last();
    assert_eq!((&made["name"], &made["namespace"]), (&json!(name), &json!(name)));
    let patch = json!({"metadata": {"labels": {"a": "b"}}});
    c.merge(&format!("/api/v1/namespaces/{name}"), patch).await.is(200);
    assert_eq!(it.last()["namespace"], name.as_str());
}

async fn subresources(c: &Cx) {
    let mut one = version("v1", json!({"a": {"type": "string"}}));
    one["subresources"] = json!({"status": {}});
    let kind = c.define("gadgets", "Gadget", json!({"versions": [one]})).await;
    let it = Judged::unjudged(c, "gadgets", allowing().await).await;
    let rule = json!([{
        "operations": ["*"], "apiGroups": [kind.group], "apiVersions": ["*"], "resources": ["gadgets", "gadgets/*"],
    }]);
    let hooks = [webhook("test", it.hook.config("/"), json!({"rules": rule}))];
    configure(c, VALIDATING, "gadgets", &hooks).await;
    c.make(&kind.path, kind.object("w", json!({}))).await;
    assert!(it.last().get("subResource").is_none());
    c.merge(&format!("{}/status", kind.at("w")), json!({"status": {"a": 1}}))
        .await
        .is(200);
    let request = it.last();
    let named = (&request["subResource"], &request["requestSubResource"]);
    assert_eq!(named, (&json!("status"), &json!("status")));
    assert_eq!(request["object"]["status"]["a"], 1);
    assert_eq!(
        request["kind"],
        json!({"group": kind.group, "version": "v1", "kind": "Gadget"})
    );
}

/// What is posted and kept nowhere.
async fn not_stored(c: &Cx) {
    let hook = Webhook::judge(|_, request| json!({"allowed": request["name"] != "denied"})).await;
    let it = Judged::unjudged(c, "posted", hook).await;
    let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", it.namespace);
    for name in ["a", "denied"] {
        c.make(
            &accounts,
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
        )
        .await;
    }
    let here =
        json!({"rules": rules(&["serviceaccounts/*", "pods/eviction"]), "namespaceSelector": only(&it.namespace)});
    // Nothing chooses a review: those of other checks are seen too, and pass.
    let of_all = allowing().await;
    let reviews = json!({"rules": rules(&["selfsubjectaccessreviews"]), "failurePolicy": "Ignore"});
    let hooks = [
        webhook("here", it.hook.config("/"), here),
        webhook("reviews", of_all.config("/"), reviews),
    ];
    configure(c, VALIDATING, "posted", &hooks).await;
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    c.post(&format!("{accounts}/a/token"), token.clone()).await.is(201);
    let request = it.last();
    let kind = json!({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"});
    assert_eq!((&request["kind"], &request["subResource"]), (&kind, &json!("token")));
    assert_eq!(
        (&request["operation"], &request["name"]),
        (&json!("CREATE"), &json!("a"))
    );
    c.post(&format!("{accounts}/denied/token"), token).await.is(400);
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "name": it.namespace}},
    });
    c.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        .await
        .is(201);
    let seen: Vec<Value> = of_all.take().iter().map(|it| it.review["request"].clone()).collect();
    let own = seen
        .iter()
        .find(|own| own["object"]["spec"]["resourceAttributes"]["name"] == it.namespace.as_str());
    assert_eq!(
        own.expect("the webhook was asked")["kind"]["kind"],
        "SelfSubjectAccessReview"
    );
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "denied"}});
    let path = format!("/api/v1/namespaces/{}/pods/denied/eviction", it.namespace);
    c.post(&path, eviction).await.is(400);
    assert_eq!(it.last()["kind"]["kind"], "Eviction");
}
