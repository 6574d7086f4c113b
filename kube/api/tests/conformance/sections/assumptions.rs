//! What clients depend on without saying so, second half: identities, names, streams, bodies, leases, events, clocks.

use crate::{
    check::{Check, must, should},
    client::{Ask, Client},
    cluster::Credential,
    cx::{CRDS, CSRS, Cx, RBAC, WHO, config_map, csr, definition, deployment, is_established, signing_request},
    proto::message,
    run::timed,
    sections::recorded,
};
use serde_json::{Value, json};
use std::time::Duration;

const WATCH_LIST: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "27.18",
            "who asks for a certificate is who the connection says",
            identity,
        ),
        must("27.19", "own rights may be granted, others not", escalation),
        must(
            "27.20",
            "fields are told apart by case, and a strict error names all that are wrong",
            strict_lists_all,
        ),
        must(
            "27.21",
            "metadata.name selects in list and watch of every kind",
            name_selector,
        ),
        must(
            "27.22",
            "items of built-in lists need no kind, custom ones have it",
            item_kinds,
        ),
        must(
            "27.23",
            "a watch's head comes at once, and its first event without a second one",
            flushing,
        ),
        should(
            "27.24",
            "one YAML document with anchors and comments is read; of several no second one is, and a bomb is refused",
            yaml,
        ),
        must(
            "27.25",
            "an expired credential is 401 even where nobody need show one",
            bad_credential,
        )
        .embedded_too("certificates that have expired"),
        must(
            "27.26",
            "null for a struct, a list, a status or a time is as if it were absent",
            nulls,
        ),
        must("27.27", "names with colons work, escaped in the path and not", colons),
        must(
            "27.28",
            "a connection takes hundreds of requests, and a stream beside them stays",
            long_connections,
        ),
        must("27.29", "the version is a semver and public", version_string),
        must(
            "27.30",
            "DELETE takes its options in a body of any type, in the query, or not at all",
            delete_bodies,
        ),
        must(
            "27.31",
            "bookmarks and partial objects have their kind and version",
            bookmark_kinds,
        ),
        must(
            "27.32",
            "a Lease is created by PUT, and updated with its revision only",
            leases,
        ),
        must(
            "27.33",
            "an event recorder's create and series patches work in both groups",
            event_recorder,
        ),
        must(
            "27.34",
            "the ETag of discovery changes with every definition, and all of it is there",
            etag,
        ),
        must(
            "27.35",
            "certificates and tokens are valid for clocks that are a little slow",
            skew,
        ),
    ]
}

async fn identity(c: Cx) {
    let (request, _) = signing_request("system:node:x", &["system:nodes"]);
    let mut object = csr(
        &c.name("a"),
        &request,
        "kubernetes.io/kube-apiserver-client",
        &["client auth"],
    );
    object["spec"]["username"] = "system:admin".into();
    object["spec"]["extra"] = json!({"k": ["v"]});
    let made = c.make(CSRS, object).await;
    assert_ne!(made["spec"]["username"], "system:admin");
    assert!(made["spec"]["extra"]["k"].is_null(), "{}", made.came());
}

async fn escalation(c: Cx) {
    let namespace = c.namespace().await;
    let user = c.name("user");
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user});
    let rules = json!([{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]);
    c.grant(&namespace, "r", rules, subject).await;
    let roles = format!("{RBAC}/namespaces/{namespace}/roles");
    let role = |name: &str, verb: &str| json!({"metadata": {"name": name}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]}]});
    c.until_asked(
        &c.admin,
        &Ask::post(&roles, &role("own", "get")).user(&user, &[]),
        |it| it.code == 201,
    )
    .await;
    c.send(Ask::post(&roles, &role("more", "delete")).user(&user, &[]))
        .await
        .fails(403, "Forbidden");
}

async fn strict_lists_all(c: Cx) {
    let path = c.core("configmaps").await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "Data": {"k": "v"}, "dota": 1, "spec": {}});
    let refused = c
        .post(&format!("{path}?fieldValidation=Strict"), object.clone())
        .await
        .fails(400, "BadRequest");
    refused
        .mentions("unknown field \"Data\"")
        .mentions("unknown field \"dota\"")
        .mentions("unknown field \"spec\"");
    c.post(&path, object)
        .await
        .is(201)
        .lacks("/data")
        .warns("unknown field \"Data\"");
}

async fn name_selector(c: Cx) {
    let kind = c.define("things", "Thing", json!({"scope": "Cluster"})).await;
    for name in ["a", "b"] {
        c.make(&kind.path, kind.object(name, json!({}))).await;
    }
    let query = "fieldSelector=metadata.name%3Db";
    assert_eq!(c.get(&format!("{}?{query}", kind.path)).await.is(200).names(), ["b"]);
    let mut watch = c.watch(&format!("{}?{query}&watch=1", kind.path)).await;
    assert_eq!(watch.brief().await, ("ADDED".into(), "b".into()));
    for path in [
        "/api/v1/nodes",
        "/api/v1/pods",
        "/apis/batch/v1/jobs",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "/apis/events.k8s.io/v1/events",
    ] {
        assert!(
            c.get(&format!("{path}?fieldSelector=metadata.name%3Dthere-is-none"))
                .await
                .is(200)
                .names()
                .is_empty(),
            "{path}"
        );
    }
    let mut wrong = Vec::new();
    for (what, path, made) in recorded::make_each(&c).await.1 {
        let name = made["metadata"]["name"].as_str().unwrap().to_owned();
        let query = format!("fieldSelector=metadata.name%3D{name}");
        let names = c.get(&format!("{path}?{query}")).await.is(200).names();
        if names != [name.as_str()] {
            wrong.push(format!("{what}: a list of {name} has {names:?}"));
        }
        let mut watch = c.watch(&format!("{path}?{query}&watch=1")).await;
        let came = watch.brief().await;
        if came != ("ADDED".to_owned(), name.clone()) {
            wrong.push(format!("{what}: a watch of {name} begins with {came:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let rules = json!([{"apiGroups": [kind.group], "resources": ["things"], "resourceNames": ["b"], "verbs": ["list", "watch"]}]);
    let user = c.name("user");
    c.grant(
        "",
        "r",
        rules,
        json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}),
    )
    .await;
    c.until_asked(
        &c.admin,
        &Ask::get(format!("{}?{query}", kind.path)).user(&user, &[]),
        |it| it.code == 200,
    )
    .await;
    c.send(Ask::get(&kind.path).user(&user, &[]))
        .await
        .fails(403, "Forbidden");
}

async fn item_kinds(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.make(&kind.path, kind.object("a", json!({}))).await;
    c.get(&kind.path)
        .await
        .has("/items/0/kind", "Thing")
        .has("/items/0/apiVersion", kind.api_version.clone());
    c.get("/api/v1/namespaces?limit=1")
        .await
        .lacks("/items/0/kind")
        .lacks("/items/0/apiVersion");
}

async fn flushing(c: Cx) {
    let path = c.core("secrets").await;
    let start = c.get(&path).await.revision();
    for protocol in ["h2", "http/1.1"] {
        let client = Client::new(&c.target, &c.target.admin, protocol);
        client.send(Ask::get("/version")).await.is(200);
        let (mut watch, took) = timed(client.watch(Ask::get(format!(
            "{path}?watch=1&resourceVersion={start}&fieldSelector=metadata.name%3D{}",
            protocol.replace(['/', '.'], "-")
        ))))
        .await;
        assert!(took < Duration::from_secs(2), "the head came after {took:?}");
        c.make(&path, json!({"metadata": {"name": protocol.replace(['/', '.'], "-")}}))
            .await;
        let (event, took) = timed(watch.next()).await;
        assert_eq!(event.0, "ADDED");
        assert!(took < Duration::from_secs(2), "the event came after {took:?}");
    }
}

async fn yaml(c: Cx) {
    let path = c.core("configmaps").await;
    let send = |body: &'static str| c.send(Ask::new("POST", &path).bytes("application/yaml", body));
    send("# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: &x text\n  b: *x\n")
        .await
        .is(201)
        .has("/data", json!({"a": "text", "b": "text"}));
    // Clients take several apart; a server never makes more than one of a body.
    let document = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    let several = format!("{}---\n{}", document("first"), document("second"));
    let reply = c.send(Ask::new("POST", &path).bytes("application/yaml", several)).await;
    assert!(
        reply.code == 400 || (reply.code == 201 && reply.at("/metadata/name") == "first"),
        "{}",
        reply.came()
    );
    c.get(&format!("{path}/second")).await.is(404);
    send("apiVersion: v1\nkind: ConfigMap\nmetadata:\n\tname: tab\n")
        .await
        .fails(400, "BadRequest");
    let bomb = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\ndata:\n  a: &a [x,x,x,x,x,x,x,x,x,x]\n  b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n  \
                c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n  d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n  e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n  \
                f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\n  g: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n";
    let reply = send(bomb).await;
    assert!((400..500).contains(&reply.code), "{}", reply.came());
}

async fn bad_credential(c: Cx) {
    for path in ["/healthz", "/livez", "/readyz", "/version", "/api"] {
        c.anonymous()
            .send(Ask::get(path).token("eyJhbGciOiJSUzI1NiJ9.e30.x"))
            .await
            .fails(401, "Unauthorized");
    }
    c.anonymous()
        .send(Ask::post(WHO, &json!({})).token("abcdef.0123456789abcdef"))
        .await
        .fails(401, "Unauthorized");
    expired_token(&c).await;
    if c.is_embedded() {
        expired_pairs(&c).await;
    }
}

/// A bootstrap token that was good and has ended since.
async fn expired_token(c: &Cx) {
    let secrets = "/api/v1/namespaces/kube-system/secrets";
    let id = format!("{:06x}", rand::random::<u32>() & 0xff_ffff);
    let secret = format!("{:016x}", rand::random::<u64>());
    let end = jiff::Timestamp::now() + Duration::from_secs(10);
    let data = json!({"token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true",
        "expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()});
    let object = json!({"metadata": {"name": format!("bootstrap-token-{id}")}, "type": "bootstrap.kubernetes.io/token", "stringData": data});
    c.make(secrets, object).await;
    let client = c.anonymous();
    let asks = ["/version", "/healthz", "/livez"].map(|it| Ask::get(it).token(&format!("{id}.{secret}")));
    c.until_asked(&client, &asks[0], |it| it.code == 200).await;
    for ask in &asks {
        let (refused, _) = c.until_asked(&client, ask, |it| it.code == 401).await;
        refused.fails(401, "Unauthorized").says("Unauthorized");
    }
    assert!(
        jiff::Timestamp::now() >= end - Duration::from_secs(1),
        "it ended too early"
    );
}

/// A certificate and a token of the server's own keys, of which each is good and as good as another but for its time.
async fn expired_pairs(c: &Cx) {
    let (own, c) = c.own_server().await;
    let now = jiff::Timestamp::now();
    let past = now - jiff::SignedDuration::from_hours(2);
    for (issued, code) in [(now, 200), (past, 401)] {
        let pair = own
            .server
            .pki()
            .issue_client_certificate("somebody", &["system:masters"], 3600, issued)
            .unwrap();
        let client = c.client(&Credential::pair(&pair.certificate_pem, &pair.key_pem));
        for path in ["/healthz", "/version", "/api/v1/namespaces"] {
            client.send(Ask::get(path)).await.is(code);
        }
    }
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    c.until(&format!("{accounts}/default"), |it| it.code == 200).await;
    let issued = c
        .post(&format!("{accounts}/default/token"), json!({"spec": {}}))
        .await
        .is(201);
    let (_, mut claims) = crate::sections::openapi::claims(issued["status"]["token"].as_str().unwrap());
    let key = own.server.pki().token_key().unwrap().clone();
    let mut shift = |seconds: i64| {
        for time in ["iat", "nbf", "exp"] {
            claims[time] = (claims[time].as_i64().unwrap() - seconds).into();
        }
        key.sign(&claims)
    };
    for (token, code) in [(shift(0), 200), (shift(7200), 401)] {
        for path in ["/healthz", "/version"] {
            c.anonymous().send(Ask::get(path).token(&token)).await.is(code);
        }
    }
    own.stop().await;
}

async fn nulls(c: Cx) {
    let namespace = c.namespace().await;
    let mut object = deployment("a");
    object["metadata"]["creationTimestamp"] = Value::Null;
    object["metadata"]["labels"] = Value::Null;
    object["spec"]["template"]["metadata"]["creationTimestamp"] = Value::Null;
    object["spec"]["template"]["spec"]["containers"][0]["resources"] = Value::Null;
    object["spec"]["template"]["spec"]["volumes"] = Value::Null;
    object["status"] = Value::Null;
    c.post(
        &format!("/apis/apps/v1/namespaces/{namespace}/deployments?fieldValidation=Strict"),
        object,
    )
    .await
    .is(201)
    .lacks("/spec/template/spec/volumes")
    .lacks("/metadata/labels")
    .silent();
    let kind = c
        .define_simple("things", "Thing", json!({"a": {"type": "string"}}))
        .await;
    let mut object = kind.object("a", json!({"a": null}));
    object["metadata"]["creationTimestamp"] = Value::Null;
    object["metadata"]["annotations"] = Value::Null;
    object["status"] = Value::Null;
    c.make(&kind.path, object)
        .await
        .has("/spec", json!({}))
        .lacks("/status");
    let mut crd = definition(&c.group(), "others", "Other", json!({}));
    crd["status"] = json!({"acceptedNames": {"kind": "", "plural": ""}, "conditions": null, "storedVersions": null});
    c.make(CRDS, crd).await;
    c.until(&format!("{CRDS}/others.{}", c.group()), |it| is_established(&it.json))
        .await;
}

async fn colons(c: Cx) {
    let name = format!("open-cluster-management:managedcluster:{}", c.name("x"));
    let path = format!("{RBAC}/clusterroles");
    c.make(&path, json!({"metadata": {"name": name}, "rules": []})).await;
    for written in [name.clone(), name.replace(':', "%3A")] {
        c.get(&format!("{path}/{written}"))
            .await
            .is(200)
            .has("/metadata/name", name.clone());
    }
    c.merge(
        &format!("{path}/{}", name.replace(':', "%3a")),
        json!({"metadata": {"labels": {"a": "b"}}}),
    )
    .await
    .is(200);
    assert_eq!(
        c.get(&format!(
            "{path}?fieldSelector=metadata.name%3D{}",
            name.replace(':', "%3A")
        ))
        .await
        .names(),
        [name]
    );
}

async fn long_connections(c: Cx) {
    let path = c.core("secrets").await;
    let client = Client::new(&c.target, &c.target.admin, "http/1.1");
    let other = Client::new(&c.target, &c.target.admin, "h2");
    let mut watch = other.watch(Ask::get(format!("{path}?watch=1"))).await;
    for _ in 0..300 {
        client.send(Ask::get("/version")).await.is(200);
        other.send(Ask::get("/version")).await.is(200);
    }
    c.make(&path, json!({"metadata": {"name": "a"}})).await;
    assert_eq!(watch.brief().await, ("ADDED".into(), "a".into()));
}

async fn version_string(c: Cx) {
    let reply = c.anonymous().send(Ask::get("/version")).await.is(200);
    let git = reply["gitVersion"].as_str().unwrap();
    let parts: Vec<&str> = git[1..].split('+').next().unwrap().split('.').collect();
    assert!(
        git.starts_with('v') && parts.len() == 3 && parts.iter().all(|it| it.parse::<u16>().is_ok()),
        "{git}"
    );
    let ran = if c.has_program("kubectl") {
        Some(c.kubectl(&["version"], "").await.ok())
    } else {
        None
    };
    if let Some(ran) = ran {
        ran.prints("Server Version: v");
    }
}

async fn delete_bodies(c: Cx) {
    let path = c.core("configmaps").await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0, "propagationPolicy": "Background"});
    let yaml = "kind: DeleteOptions\napiVersion: v1\npropagationPolicy: Background\n";
    let protobuf = message()
        .integer(1, 0)
        .text(4, "Background")
        .envelope("v1", "DeleteOptions");
    let at = format!("{path}/a");
    for ask in [
        Ask::delete(&at),
        Ask::delete(format!("{at}?gracePeriodSeconds=0&propagationPolicy=Background")),
        Ask::delete(&at).json(&options),
        Ask::delete(&at).untyped(options.to_string()),
        Ask::delete(&at).json(&json!({})),
        Ask::delete(&at).json(&json!({"propagationPolicy": "Background"})),
        Ask::delete(&at).json(&json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"})),
        Ask::delete(&at).bytes("application/yaml", yaml),
        Ask::delete(&at).bytes("application/vnd.kubernetes.protobuf", protobuf),
    ] {
        c.make(&path, config_map("a", json!({}))).await;
        c.send(ask).await.is(200).has("/status", "Success");
        c.get(&at).await.is(404);
    }
    // False is written `0` or `false`, and everything else is true.
    for (written, left) in [
        ("0", false),
        ("false", false),
        ("False", false),
        ("1", true),
        ("true", true),
    ] {
        let owner = c.make(&path, config_map("a", json!({}))).await.uid();
        let mut child = config_map("child", json!({}));
        child["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": owner}]);
        c.make(&path, child).await;
        let reply = c.delete(&format!("{at}?orphanDependents={written}")).await.is(200);
        let finalizers = reply.at("/metadata/finalizers").to_string();
        assert_eq!(finalizers.contains("orphan"), left, "{written}: {}", reply.came());
        c.until_gone(&at).await;
        if left {
            c.until(&format!("{path}/child"), |it| {
                it["metadata"]["ownerReferences"].is_null()
            })
            .await
            .0
            .is(200);
            c.delete(&format!("{path}/child")).await.is(200);
        } else {
            c.until_gone(&format!("{path}/child")).await;
        }
    }
    c.make(&path, config_map("a", json!({}))).await;
    c.delete(&format!("{at}?gracePeriodSeconds=abc"))
        .await
        .fails(400, "BadRequest")
        .mentions("strconv.ParseInt: parsing \"abc\": invalid syntax");
    for wrong in [
        json!({"gracePeriodSeconds": "abc"}),
        json!({"orphanDependents": "true"}),
        json!({"propagationPolicy": 5}),
        json!({"dryRun": "All"}),
        json!({"preconditions": {"uid": 5}}),
    ] {
        c.send(Ask::delete(&at).json(&wrong)).await.fails(400, "BadRequest");
    }
    for query in [
        "propagationPolicy=Bad",
        "dryRun=Some",
        "orphanDependents=1&propagationPolicy=Orphan",
    ] {
        c.delete(&format!("{at}?{query}")).await.fails(422, "Invalid");
    }
    c.get(&at).await.is(200);
    // Where there is a body, the query is not looked at.
    c.send(Ask::delete(format!("{at}?dryRun=All&propagationPolicy=Foreground")).json(&json!({})))
        .await
        .is(200)
        .has("/kind", "Status");
    c.get(&at).await.is(404);
}

async fn bookmark_kinds(c: Cx) {
    let partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let path = format!("{}?{WATCH_LIST}", c.core("secrets").await);
    let mut watch = c.admin.watch(Ask::get(&path).accept(partial)).await;
    let (event, object) = watch.next().await;
    assert_eq!(
        (event.as_str(), &object["kind"], &object["apiVersion"]),
        ("BOOKMARK", &json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    let mut watch = c.watch(&path).await;
    let (event, object) = watch.next().await;
    assert_eq!(
        (event.as_str(), &object["kind"], &object["apiVersion"]),
        ("BOOKMARK", &json!("Secret"), &json!("v1"))
    );
}

async fn leases(c: Cx) {
    let path = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/managed-cluster-lease",
        c.namespace().await
    );
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "managed-cluster-lease"},
        "spec": {"leaseDurationSeconds": 60, "renewTime": "2026-01-01T00:00:00.000000Z"}});
    let made = c
        .put(&path, &lease)
        .await
        .is(201)
        .has("/spec/renewTime", "2026-01-01T00:00:00.000000Z");
    c.put(&path, &lease).await.fails(422, "Invalid");
    let mut next = made.json.clone();
    next["spec"]["renewTime"] = "2026-01-01T00:01:00.000000Z".into();
    let renewed = c.put(&path, &next).await.is(200);
    assert!(renewed["metadata"]["generation"].is_null());
    c.put(&path, &next).await.fails(409, "Conflict");
}

async fn event_recorder(c: Cx) {
    let namespace = c.namespace().await;
    let core = format!("/api/v1/namespaces/{namespace}/events");
    let other = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let reference = json!({"kind": "ConfigMap", "namespace": namespace, "name": "x", "apiVersion": "v1"});
    c.strategic(&format!("{core}/missing"), json!({"count": 2}))
        .await
        .fails(404, "NotFound");
    c.make(&core, json!({"metadata": {"name": "a", "namespace": namespace}, "involvedObject": reference, "reason": "R", "message": "m", "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1, "source": {"component": "me"}}))
        .await;
    c.strategic(
        &format!("{core}/a"),
        json!({"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"}),
    )
    .await
    .is(200)
    .has("/count", 2);
    c.make(&other, json!({"metadata": {"name": "b", "namespace": namespace}, "regarding": reference, "reason": "R", "action": "A", "note": "n", "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "ex.io/c", "reportingInstance": "i"}))
        .await;
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:01:00.000000Z"}});
    c.strategic(&format!("{other}/b"), series.clone())
        .await
        .is(200)
        .has("/series/count", 2);
    c.merge(&format!("{other}/b"), json!({"series": {"count": 3}}))
        .await
        .is(200)
        .has("/series/count", 3);
    c.merge(&format!("{other}/missing"), series)
        .await
        .fails(404, "NotFound");
    c.get(&format!("{core}/b")).await.is(200).has("/series/count", 3);
}

async fn etag(c: Cx) {
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let tag = async || {
        c.send(Ask::get("/apis").accept(aggregated))
            .await
            .is(200)
            .header("etag")
    };
    let before = tag().await;
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let with = tag().await;
    assert_ne!(before, with);
    c.merge(&kind.crd, json!({"spec": {"names": {"shortNames": ["thg"]}}}))
        .await
        .is(200);
    c.until_asked(&c.admin, &Ask::get("/apis").accept(aggregated), |it| {
        it.header("etag") != with
    })
    .await;
    let plain = c.get("/apis").await.is(200);
    let whole = c.send(Ask::get("/apis").accept(aggregated)).await.is(200);
    let names: Vec<&Value> = whole["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["metadata"]["name"])
        .collect();
    for group in ["apps", "batch", "rbac.authorization.k8s.io", &kind.group] {
        assert!(
            names.iter().any(|it| **it == group),
            "{group} is not in the aggregated form"
        );
        assert!(
            plain["groups"].as_array().unwrap().iter().any(|it| it["name"] == group),
            "{group} is not in the plain form"
        );
    }
}

async fn skew(c: Cx) {
    let path = c.core("serviceaccounts").await;
    c.make(&path, json!({"metadata": {"name": "sa"}})).await;
    let reply = c.post(&format!("{path}/sa/token"), json!({"spec": {}})).await.is(201);
    let (_, body) = crate::sections::openapi::claims(reply["status"]["token"].as_str().unwrap());
    assert_eq!(body["nbf"], body["iat"]);
    let credential = c.certificate("skewed", &[]).await;
    let (_, block) = x509_parser::pem::parse_x509_pem(credential.pair.unwrap().0.as_bytes()).unwrap();
    let certificate = block.parse_x509().unwrap();
    let early = jiff::Timestamp::now().as_second() - certificate.validity().not_before.timestamp();
    assert!((290..=400).contains(&early), "not before is {early} s ago");
}
