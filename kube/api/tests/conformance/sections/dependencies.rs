//! What clients depend on without saying so, and what home-made servers get wrong: as a client would run into it.

use crate::{
    check::{Check, must},
    client::Ask,
    cluster::Credential,
    cx::{CRDS, Cx, RBAC, config_map, definition, deployment, version},
    proto::{message, metadata},
    sections::recorded,
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "27.1",
            "a typed Go client's first create, in protobuf, works with a JSON answer",
            protobuf,
        ),
        must(
            "27.2",
            "an informer's bookmark comes for an empty list of any kind",
            empty_bookmark,
        ),
        must(
            "27.3",
            "an expired revision is an event with reason and code in a 200 stream",
            error_event,
        ),
        must(
            "27.4",
            "an object that leaves a selector leaves the cache with its old labels",
            ghosts,
        ),
        must(
            "27.5",
            "an empty list has the current revision, and a write without change makes no event",
            revisions,
        ),
        must(
            "27.6",
            "a status write of a controller does not wake it by a new generation",
            status_loop,
        ),
        must(
            "27.7",
            "a pending DELETE answers the object, and the last finalizer deletes in the same write",
            finalizers,
        ),
        must("27.8", "what is written back as it was read changes nothing", defaults),
        must("27.9", "the two 409s have different reasons", two_conflicts),
        must(
            "27.10",
            "a kind that is there is never 404 while other definitions come",
            no_404,
        ),
        must("27.11", "what may be tried again says when", retry_after),
        must("27.12", "kubectl get prints its columns", columns).with_program("kubectl"),
        must(
            "27.13",
            "kubectl's apply with force=false is told of a conflict by its causes",
            force_false,
        ),
        must(
            "27.14",
            "managedFields of old, edited and reset never fail a write",
            managed_fields,
        ),
        must(
            "27.15",
            "garbage collection goes through custom resources by uid",
            garbage,
        ),
        must("27.16", "what exists without anybody creating it exists", bootstrap)
            .embedded_too("the endpoints of the Service `kubernetes`"),
        must(
            "27.17",
            "a token for somebody else is not taken, and its groups are those of its namespace",
            audiences,
        ),
    ]
}

async fn protobuf(c: Cx) {
    let name = c.name("go");
    let body = message()
        .message(1, metadata(&name))
        .message(2, message())
        .message(3, message().text(1, ""))
        .envelope("v1", "Namespace");
    let ask = Ask::new("POST", "/api/v1/namespaces?fieldManager=kubectl-create")
        .bytes("application/vnd.kubernetes.protobuf", body)
        .accept("application/vnd.kubernetes.protobuf,application/json");
    let reply = c.send(ask).await.is(201);
    c.removes(&format!("/api/v1/namespaces/{name}"));
    assert!(
        reply.bytes.starts_with(b"k8s\0") || reply["metadata"]["name"] == name.as_str(),
        "{}",
        reply.came()
    );
}

const WATCH_LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn empty_bookmark(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    for path in [
        kind.path.as_str(),
        "/api/v1/namespaces/there-is-none/pods",
        "/apis/apps/v1/namespaces/there-is-none/deployments",
        "/apis/coordination.k8s.io/v1/namespaces/there-is-none/leases",
        "/apis/events.k8s.io/v1/namespaces/there-is-none/events",
    ] {
        let mut watch = c.watch(&format!("{path}?{WATCH_LIST}")).await;
        let (event, object) = watch.next().await;
        assert_eq!(
            (
                event.as_str(),
                &object["metadata"]["annotations"]["k8s.io/initial-events-end"]
            ),
            ("BOOKMARK", &json!("true")),
            "{path}"
        );
    }
}

async fn error_event(c: Cx) {
    let path = c.core("configmaps").await;
    let (_, status) = c.watch_too_old(&path, c.accepted_by_go().await).await;
    assert_eq!(
        (
            &status["kind"],
            &status["apiVersion"],
            &status["reason"],
            &status["code"]
        ),
        (&json!("Status"), &json!("v1"), &json!("Expired"), &json!(410))
    );
}

async fn ghosts(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let mut object = kind.object("a", json!({}));
    object["metadata"]["labels"] = json!({"in": "yes"});
    c.make(&kind.path, object).await;
    let mut watch = c.watch(&format!("{}?{WATCH_LIST}&labelSelector=in", kind.path)).await;
    assert_eq!(watch.next().await.0, "ADDED");
    assert_eq!(watch.next().await.0, "BOOKMARK");
    let left = c
        .merge(&kind.at("a"), json!({"metadata": {"labels": {"in": null}}}))
        .await
        .is(200);
    let (event, object) = watch.next().await;
    assert_eq!(
        (event.as_str(), &object["metadata"]["labels"]["in"]),
        ("DELETED", &json!("yes"))
    );
    assert_eq!(
        object["metadata"]["resourceVersion"],
        left["metadata"]["resourceVersion"]
    );
}

async fn revisions(c: Cx) {
    let kind = c
        .define_simple("things", "Thing", json!({"a": {"type": "string"}}))
        .await;
    let other = c
        .make(
            "/api/v1/namespaces/default/configmaps",
            config_map(&c.name("x"), json!({})),
        )
        .await;
    let empty = c.get(&kind.path).await.is(200);
    assert!(
        empty.revision() >= other.revision(),
        "an empty list has the store's revision"
    );
    let made = c.make(&kind.path, kind.object("a", json!({"a": "1"}))).await;
    let mut watch = c
        .watch(&format!("{}?watch=1&resourceVersion={}", kind.path, made.revision()))
        .await;
    c.put(&kind.at("a"), &made.json).await.is(200);
    c.merge(&kind.at("a"), json!({"spec": {"a": "1"}})).await.is(200);
    c.merge(&format!("{}/status", kind.at("a")), json!({})).await.is(200);
    c.apply(
        &format!("{}?force=true", kind.at("a")),
        "conformance",
        kind.object("a", json!({"a": "1"})),
    )
    .await
    .is(200);
    let applied = c
        .apply(&kind.at("a"), "conformance", kind.object("a", json!({"a": "1"})))
        .await
        .is(200);
    c.delete(&kind.at("a")).await.is(200);
    let mut kinds = Vec::new();
    let mut last = made.revision();
    loop {
        let (event, object) = watch.next().await;
        let revision: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(revision > last);
        last = revision;
        kinds.push(event);
        if kinds.last().is_some_and(|it| it == "DELETED") {
            break;
        }
    }
    // The first apply changed the owners and nothing else.
    assert_eq!(kinds, ["MODIFIED", "DELETED"]);
    assert!(last > applied.revision());
}

async fn status_loop(c: Cx) {
    let kind = c
        .define_simple("things", "Thing", json!({"a": {"type": "string"}}))
        .await;
    let made = c
        .make(&kind.path, kind.object("a", json!({"a": "1"})))
        .await
        .has("/metadata/generation", 1);
    let mut whole = made.json.clone();
    whole["status"] = json!({"observedGeneration": 1});
    whole["spec"]["a"] = "leak".into();
    let first = c
        .put(&format!("{}/status", kind.at("a")), &whole)
        .await
        .is(200)
        .has("/metadata/generation", 1)
        .has("/spec/a", "1");
    let mut again = first.json.clone();
    again["status"] = json!({"observedGeneration": 1});
    let second = c.put(&format!("{}/status", kind.at("a")), &again).await.is(200);
    assert_eq!(second.revision(), first.revision(), "the same status again is no write");
}

async fn finalizers(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let mut object = kind.object("a", json!({}));
    object["metadata"]["finalizers"] = json!(["ex.io/f"]);
    c.make(&kind.path, object).await;
    let going = c.delete(&kind.at("a")).await.is(200).has("/kind", "Thing");
    let when = going["metadata"]["deletionTimestamp"].clone();
    c.delete(&kind.at("a"))
        .await
        .is(200)
        .has("/metadata/deletionTimestamp", when.clone());
    let mut without = going.json.clone();
    without["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
    c.put(&kind.at("a"), &without)
        .await
        .is(200)
        .has("/metadata/deletionTimestamp", when);
    c.merge(
        &kind.at("a"),
        json!({"metadata": {"finalizers": ["ex.io/f", "ex.io/g"]}}),
    )
    .await
    .fails(422, "Invalid");
    c.json_patch(&kind.at("a"), json!([{"op": "remove", "path": "/metadata/finalizers"}]))
        .await
        .is(200);
    c.get(&kind.at("a")).await.is(404);
}

/// Whether an object that is written back as it was read stays as it is. A controller may write to it in between,
/// which is another change.
async fn is_stable(c: &Cx, at: &str) -> bool {
    for _ in 0..50 {
        let read = c.get(at).await.is(200);
        let again = c.put(at, &read.json).await;
        if again.code == 200 && again.json == read.json {
            return true;
        }
    }
    false
}

async fn defaults(c: Cx) {
    let mut wrong = Vec::new();
    for (what, path, made) in recorded::make_each(&c).await.1 {
        let at = format!("{path}/{}", made["metadata"]["name"].as_str().unwrap());
        if !is_stable(&c, &at).await {
            wrong.push(what);
        }
    }
    assert!(
        wrong.is_empty(),
        "{wrong:?} are other objects when they are written back"
    );
    let namespace = c.namespace().await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let hook = c.name("hook");
    let webhook = json!({"metadata": {"name": hook}, "webhooks": [{"name": "a.ex.io", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/x"}, "rules": [{"apiGroups": ["none.ex.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}]}]});
    let role = c.name("role");
    let binding = json!({"metadata": {"name": role}, "subjects": [{"kind": "User", "name": "u"}], "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"}});
    for (path, object) in [
        (path.clone(), deployment("a")),
        (
            format!("/api/v1/namespaces/{namespace}/services"),
            json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}}),
        ),
        (format!("{RBAC}/clusterrolebindings"), binding),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations".to_owned(),
            webhook,
        ),
    ] {
        let made = c.make(&path, object.clone()).await;
        let at = format!("{path}/{}", made["metadata"]["name"].as_str().unwrap());
        // A controller may still write to it, which is another change.
        let mut unchanged = false;
        for _ in 0..50 {
            let read = c.get(&at).await.is(200);
            let again = c.put(&at, &read.json).await;
            // What was sent first, patched in, changes nothing either.
            let sent = c.merge(&at, object.clone()).await.is(200);
            let is_same = again.code == 200 && again["spec"] == read["spec"];
            unchanged = is_same && again.revision() == read.revision() && sent.revision() == read.revision();
            if unchanged {
                break;
            }
        }
        assert!(unchanged, "{at} changes");
    }
    let made = c
        .get(&format!(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{hook}"
        ))
        .await
        .is(200);
    for (key, value) in [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("timeoutSeconds", json!(10)),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
    ] {
        assert_eq!(made["webhooks"][0][key], value, "{key}");
    }
}

async fn two_conflicts(c: Cx) {
    let path = c.core("configmaps").await;
    let made = c.make(&path, config_map("a", json!({}))).await;
    c.post(&path, config_map("a", json!({})))
        .await
        .fails(409, "AlreadyExists");
    let mut stale = made.json.clone();
    stale["data"] = json!({"a": "b"});
    c.put(&format!("{path}/a"), &stale).await.is(200);
    c.put(&format!("{path}/a"), &stale).await.fails(409, "Conflict");
}

async fn no_404(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.make(&kind.path, kind.object("a", json!({}))).await;
    let (asker, path) = (c.clone(), kind.path.clone());
    let asking = tokio::spawn(async move {
        for _ in 0..60 {
            let reply = asker.get(&path).await;
            assert!(matches!(reply.code, 200 | 429), "{}", reply.came());
        }
    });
    for plural in ["ones", "twos", "threes"] {
        let crd = definition(&kind.group, plural, &plural.to_uppercase(), json!({}));
        c.make(CRDS, crd).await;
        c.merge(
            &format!("{CRDS}/{plural}.{}", kind.group),
            json!({"metadata": {"labels": {"l": "1"}}}),
        )
        .await
        .is(200);
        c.delete(&format!("{CRDS}/{plural}.{}", kind.group)).await.is(200);
    }
    c.merge(
        &kind.crd,
        json!({"spec": {"versions": [version("v1", json!({"b": {"type": "string"}}))]}}),
    )
    .await
    .is(200);
    asking.await.expect("the kind is there all the time");
}

async fn retry_after(c: Cx) {
    let path = c.core("configmaps").await;
    let future = c.get(&path).await.revision() + 100_000_000;
    let reply = c.get(&format!("{path}?resourceVersion={future}")).await.is(504);
    assert_eq!(
        (
            reply.header("retry-after").as_str(),
            reply.at("/details/retryAfterSeconds")
        ),
        ("1", &json!(1))
    );
}

async fn columns(c: Cx) {
    let namespace = c.namespace().await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    // Without pods, so that it prints the same whether or not somebody makes them.
    let mut none = deployment("web");
    none["spec"]["replicas"] = 0.into();
    c.make(&path, none).await;
    let ran = c.kubectl(&["-n", &namespace, "get", "deployments"], "").await.ok();
    let words: Vec<Vec<&str>> = ran.out.lines().map(|it| it.split_whitespace().collect()).collect();
    assert_eq!(
        words[0],
        ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"],
        "{}",
        ran.out
    );
    assert_eq!(&words[1][..4], ["web", "0/0", "0", "0"], "{}", ran.out);
    let ran = c
        .kubectl(&["-n", &namespace, "get", "deployments", "-o", "wide"], "")
        .await
        .ok();
    assert!(
        ran.out.contains("CONTAINERS") && ran.out.contains("img:1") && ran.out.contains("app=web"),
        "{}",
        ran.out
    );
    c.kubectl(
        &[
            "-n",
            &namespace,
            "get",
            "deployment",
            "web",
            "-o",
            "jsonpath={.spec.replicas}",
        ],
        "",
    )
    .await
    .ok()
    .prints("0");
    c.kubectl(&["-n", &namespace, "describe", "deployment", "web"], "")
        .await
        .ok()
        .prints("RollingUpdate");
}

async fn force_false(c: Cx) {
    let path = format!("{}/a", c.core("configmaps").await);
    c.apply(&path, "one", config_map("a", json!({"k": "1"}))).await.is(201);
    let refused = c
        .apply(
            &format!("{path}?force=false"),
            "two",
            config_map("a", json!({"k": "2"})),
        )
        .await
        .fails(409, "Conflict");
    assert_eq!(refused.at("/details/causes/0/reason"), "FieldManagerConflict");
    assert_eq!(refused.at("/details/causes/0/field"), ".data.k");
}

async fn managed_fields(c: Cx) {
    let path = c.core("configmaps").await;
    let made = c.make(&path, config_map("a", json!({"k": "1"}))).await;
    let path = format!("{path}/a");
    c.send(Ask::patch(
        "merge",
        format!("{path}?fieldManager=other"),
        &json!({"data": {"l": "2"}}),
    ))
    .await
    .is(200);
    let mut old = made.json.clone();
    old["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    old["data"] = json!({"k": "3"});
    c.put(&path, &old).await.is(200).has("/data/k", "3");
    let managers = |it: &crate::client::Reply| -> Vec<String> {
        let entries = it.at("/metadata/managedFields").as_array().cloned().unwrap_or_default();
        let mut all: Vec<String> = entries
            .iter()
            .map(|it| it["manager"].as_str().unwrap_or_default().to_owned())
            .collect();
        all.sort();
        all
    };
    // Who leaves them out knows nothing of them. An empty list, or one empty entry, throws all of them away.
    let other = json!({"data": {"l": "2"}});
    for reset in [json!([]), json!([{}])] {
        c.apply(
            &format!("{path}?force=true"),
            "applier",
            config_map("a", json!({"k": "3"})),
        )
        .await
        .is(200);
        c.send(Ask::patch("merge", format!("{path}?fieldManager=other"), &other))
            .await
            .is(200);
        let known = c.get(&path).await.is(200);
        assert!(managers(&known).contains(&"applier".to_owned()), "{}", known.came());
        let mut object = known.json.clone();
        object["metadata"].as_object_mut().unwrap().remove("managedFields");
        let kept = c.put(&path, &object).await.is(200);
        assert_eq!(managers(&kept), managers(&known), "{}", kept.came());
        object["metadata"]["managedFields"] = reset;
        c.put(&path, &object).await.is(200).lacks("/metadata/managedFields");
        c.get(&path).await.is(200).lacks("/metadata/managedFields");
    }
    c.apply(&path, "applier", config_map("a", json!({"k": "3"})))
        .await
        .is(200);
    c.merge(&path, json!({"metadata": {"managedFields": [{}]}}))
        .await
        .is(200)
        .lacks("/metadata/managedFields");
    for fields in [
        json!([]),
        json!([{}]),
        json!([{"manager": "x"}]),
        json!([{"manager": "x", "operation": "Bad", "fieldsV1": {"f:x": 5}}]),
    ] {
        let mut object = c.get(&path).await.json;
        object["metadata"]["managedFields"] = fields.clone();
        let reply = c.put(&path, &object).await;
        assert_eq!(reply.code, 200, "{fields}: {}", reply.came());
    }
}

async fn garbage(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let owner = c.make(&kind.path, kind.object("owner", json!({}))).await;
    let mut child = kind.object("child", json!({}));
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": kind.api_version, "kind": "Thing", "name": "owner", "uid": owner.uid(), "blockOwnerDeletion": true}]);
    c.make(&kind.path, child).await;
    c.delete(&format!("{}?propagationPolicy=Foreground", kind.at("owner")))
        .await
        .is(200);
    c.until_gone(&kind.at("owner")).await;
    c.get(&kind.at("child")).await.is(404);
    let owner = c.make(&kind.path, kind.object("owner", json!({}))).await;
    let mut child = kind.object("late", json!({}));
    child["metadata"]["ownerReferences"] = json!([{"apiVersion": kind.api_version, "kind": "Thing", "name": "owner", "uid": "22222222-2222-4222-8222-222222222222"}]);
    c.post(&kind.path, child).await.is(201);
    c.until_gone(&kind.at("late")).await;
    assert_eq!(
        c.get(&kind.at("owner")).await.is(200).uid(),
        owner.uid(),
        "the namesake stays"
    );
}

async fn bootstrap(c: Cx) {
    for name in ["default", "kube-system", "kube-public"] {
        let it = c.get(&format!("/api/v1/namespaces/{name}")).await.is(200);
        assert_eq!(it["metadata"]["labels"]["kubernetes.io/metadata.name"], name);
        c.until(&format!("/api/v1/namespaces/{name}/serviceaccounts/default"), |it| {
            it.code == 200
        })
        .await;
        c.until(
            &format!("/api/v1/namespaces/{name}/configmaps/kube-root-ca.crt"),
            |it| it.code == 200,
        )
        .await;
    }
    c.get("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")
        .await
        .is(200);
    c.get("/api/v1/namespaces/default/services/kubernetes").await.is(200);
    c.get("/api/v1/namespaces/kube-node-lease").await.is(200);
    // Where servers are, others may have been told to say.
    if c.is_embedded() {
        let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
        let port = c.target.port;
        c.get("/api/v1/namespaces/default/endpoints/kubernetes")
            .await
            .is(200)
            .has("/subsets/0/ports/0/port", port);
        let slice = c
            .get(&format!(
                "{slices}?labelSelector=kubernetes.io%2Fservice-name%3Dkubernetes"
            ))
            .await
            .is(200);
        assert_eq!(slice.at("/items/0/ports/0/port"), &json!(port), "{}", slice.came());
    }
}

async fn audiences(c: Cx) {
    let path = c.core("serviceaccounts").await;
    let namespace = path.split('/').nth(4).unwrap().to_owned();
    c.make(&path, json!({"metadata": {"name": "sa"}})).await;
    let token = async |spec: Value| {
        let reply = c.post(&format!("{path}/sa/token"), json!({"spec": spec})).await.is(201);
        reply["status"]["token"].as_str().unwrap().to_owned()
    };
    let other = c.client(&Credential::token(&token(json!({"audiences": ["vault"]})).await));
    other.send(Ask::get("/healthz")).await.fails(401, "Unauthorized");
    let own = c.client(&Credential::token(&token(json!({})).await));
    let subject = json!({"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": format!("system:serviceaccounts:{namespace}")});
    let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]}]);
    own.send(Ask::get(format!("/api/v1/namespaces/{namespace}/secrets")))
        .await
        .fails(403, "Forbidden");
    c.grant(&namespace, "g", rules, subject).await;
    c.until_asked(
        &own,
        &Ask::get(format!("/api/v1/namespaces/{namespace}/secrets")),
        |it| it.code == 200,
    )
    .await;
}
