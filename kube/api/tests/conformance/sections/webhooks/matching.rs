//! Which writes a webhook sees. What it sees it denies, so an answer tells.

use super::{Judged, VALIDATING, configure, denying, only, webhook};
use crate::{
    client::Ask,
    cx::{Cx, Kind, config_map, version},
};
use serde_json::{Value, json};

pub async fn chosen(c: Cx) {
    tokio::join!(by_namespace(&c), by_object(&c), by_rule(&c), by_equivalence(&c));
}

/// A kind of no namespace, of the check alone.
async fn gauges(c: &Cx) -> Kind {
    c.define("gauges", "Gauge", json!({"scope": "Cluster"})).await
}

async fn by_namespace(c: &Cx) {
    let kind = gauges(c).await;
    let hook = denying().await;
    let label = c.name("env");
    let labels = |env: &str| json!({"of": label, "env": env});
    let maps = |name: &str| format!("/api/v1/namespaces/{}/configmaps", c.name(name));
    for env in ["prod", "dev"] {
        c.make(
            "/api/v1/namespaces",
            json!({"metadata": {"name": c.name(env), "labels": labels(env)}}),
        )
        .await;
    }
    let more = json!({
        "namespaceSelector": {"matchLabels": {"of": label, "env": "prod"}},
        "rules": [
            {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps", "namespaces"]},
            {"operations": ["CREATE"], "apiGroups": [kind.group], "apiVersions": ["*"], "resources": ["gauges"]},
        ],
    });
    configure(c, VALIDATING, "env", &[webhook("test", hook.config("/"), more)]).await;
    c.post(&maps("prod"), config_map("a", json!({}))).await.is(400);
    c.post(&maps("dev"), config_map("a", json!({}))).await.is(201);
    // A namespace is chosen by its own labels, and what is in none always.
    let namespace = |env: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": c.name("new"), "labels": labels(env)}});
    c.post("/api/v1/namespaces", namespace("prod")).await.is(400);
    c.make("/api/v1/namespaces", namespace("dev")).await;
    c.post(&kind.path, kind.object("g", json!({}))).await.is(400);
}

async fn by_object(c: &Cx) {
    let more = json!({"objectSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}});
    let it = Judged::by(c, "object", denying().await, more).await;
    let mut labelled = config_map("b", json!({}));
    labelled["metadata"]["labels"] = json!({"x": "y"});
    c.post(&it.maps, labelled.clone()).await.is(400);
    it.map("a").await.is(201);
    let path = format!("{}/a", it.maps);
    c.merge(&path, json!({"metadata": {"labels": {"x": "y"}}}))
        .await
        .is(400);
    c.merge(&path, json!({"data": {"c": "d"}})).await.is(200);
    // One that had the label is chosen too when it is taken off.
    let unjudged = Judged::unjudged(c, "before", denying().await).await;
    c.make(&unjudged.maps, labelled).await;
    let more = json!({
        "objectSelector": {"matchLabels": {"x": "y"}}, "namespaceSelector": only(&unjudged.namespace),
    });
    configure(
        c,
        VALIDATING,
        "before",
        &[webhook("test", unjudged.hook.config("/"), more)],
    )
    .await;
    let path = format!("{}/b", unjudged.maps);
    c.merge(&path, json!({"metadata": {"labels": {"x": null}}}))
        .await
        .is(400);
    c.delete(&path).await.is(400);
}

async fn by_rule(c: &Cx) {
    let kind = c.define("levers", "Lever", json!({"scope": "Cluster"})).await;
    let rule = |operations: &[&str], resources: &[&str], scope: &str| json!({"operations": operations, "apiGroups": ["*"], "apiVersions": ["v1"], "resources": resources, "scope": scope});
    for (at, (rule, on_map, on_lever, on_delete)) in [
        (rule(&["CREATE"], &["*"], "*"), 400, 400, 200),
        (rule(&["CREATE"], &["*"], "Cluster"), 201, 400, 200),
        (rule(&["CREATE"], &["*"], "Namespaced"), 400, 201, 200),
        (rule(&["DELETE"], &["*/*"], "*"), 201, 201, 400),
        (rule(&["*"], &["configmaps/status"], "*"), 201, 201, 200),
        (
            rule(&["UPDATE", "DELETE"], &["configmaps", "secrets"], "Namespaced"),
            201,
            201,
            400,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let what = format!("rule-{at}");
        let it = Judged::unjudged(c, &what, denying().await).await;
        let labels = json!({"of": c.name(&what)});
        let labelled = |mut object: Value, name: &str| {
            object["metadata"] = json!({"name": name, "labels": labels});
            object
        };
        c.make(&it.maps, labelled(config_map("", json!({})), "early")).await;
        let more = json!({"rules": [rule], "objectSelector": {"matchLabels": labels}});
        configure(c, VALIDATING, &what, &[webhook("test", it.hook.config("/"), more)]).await;
        c.post(&it.maps, labelled(config_map("", json!({})), "a"))
            .await
            .is(on_map);
        let lever = labelled(kind.object("", json!({})), &what);
        c.post(&kind.path, lever).await.is(on_lever);
        c.removes(&kind.at(&what));
        c.delete(&format!("{}/early", it.maps)).await.is(on_delete);
    }
}

async fn by_equivalence(c: &Cx) {
    let mut two = version("v2", json!({"a": {"type": "string"}}));
    two["storage"] = false.into();
    let versions = json!([version("v1", json!({"a": {"type": "string"}})), two]);
    let kind = c.define("widgets", "Widget", json!({"versions": versions})).await;
    let group = &kind.group;
    let path = kind.path.replace("/v1/", "/v2/");
    c.until(&path, |it| it.code == 200).await;
    let rule = json!([{"operations": ["*"], "apiGroups": [group], "apiVersions": ["v1"], "resources": ["widgets"]}]);
    for (policy, code) in [("Exact", 201), ("Equivalent", 400)] {
        let what = policy.to_lowercase();
        let it = Judged::unjudged(c, &what, denying().await).await;
        let more = json!({"rules": rule, "matchPolicy": policy});
        configure(c, VALIDATING, &what, &[webhook("test", it.hook.config("/"), more)]).await;
        let object = json!({"apiVersion": format!("{group}/v2"), "kind": "Widget", "metadata": {"name": what}});
        let ask = Ask::post(format!("{path}?dryRun=All"), &object);
        if code == 201 {
            c.send(ask).await.is(201);
            continue;
        }
        // A real server takes a moment to know which versions there are.
        c.until_asked(&c.admin, &ask, |it| it.code == 400).await;
        let request = it.last();
        assert_eq!(request["kind"]["version"], "v1");
        assert_eq!(request["resource"]["version"], "v1");
        assert_eq!(request["requestKind"]["version"], "v2");
        assert_eq!(request["requestResource"]["version"], "v2");
        assert_eq!(request["object"]["apiVersion"], format!("{group}/v1"));
    }
}

pub async fn conditions(c: Cx) {
    let it = Judged::unjudged(&c, "me", denying().await).await;
    let me = it.me["username"].as_str().unwrap();
    let user = format!("request.userInfo.username == '{me}' && request.operation == 'CREATE'");
    let secrets = "authorizer.group('').resource('secrets').namespace('default').check('list').allowed()";
    let both =
        "authorizer.requestResource.check('create').allowed() && authorizer.path('/healthz').check('get').allowed()";
    let account = "authorizer.serviceAccount('default', 'x').group('').resource('secrets').check('list').allowed()";
    let broken = "object.metadata.nope.x == 'skip'";
    let case = async |at: usize, texts: &[&str], policy: &str, code: u16| {
        let conditions: Vec<Value> = texts
            .iter()
            .enumerate()
            .map(|(at, text)| json!({"name": format!("c{at}"), "expression": text}))
            .collect();
        let more = json!({"matchConditions": conditions, "failurePolicy": policy});
        let it = Judged::by(&c, &format!("when-{at}"), denying().await, more).await;
        let reply = it.map("skip").await.is(code);
        if code == 403 {
            reply.fails(403, "Forbidden").says(&format!(
                "configmaps \"skip\" is forbidden: expression '{broken}' resulted in error: no such key: nope"
            ));
        }
    };
    for (at, (texts, policy, code)) in [
        (&["object.metadata.name == 'skip'"][..], "Fail", 400),
        (&["object.metadata.name == 'other'"], "Fail", 201),
        (&[&user], "Fail", 400),
        (&["oldObject != null"], "Fail", 201),
        (&[secrets], "Fail", 400),
        (&[both], "Fail", 400),
        (&[account], "Fail", 201),
        (&[broken], "Fail", 403),
        (&[broken], "Ignore", 201),
        // One that does not hold is enough, whatever others come to.
        (&[broken, "false"], "Fail", 201),
        (&["true", broken], "Fail", 403),
    ]
    .into_iter()
    .enumerate()
    {
        case(at, texts, policy, code).await;
    }
}
