//! Kinds that definitions make, once they are served: what selects them, when they are there, what they warn of.

use crate::{
    check::{Check, later, must, should},
    cx::{CRDS, Cx, config_map, definition, is_established, version},
};
use serde_json::json;

pub fn checks() -> Vec<Check> {
    vec![
        should(
            "146",
            "selectable fields select in lists and watches; others are 400",
            selectable,
        ),
        must(
            "150",
            "requests right after the definition are 404, 429 or 200; after a restart never 404",
            early,
        )
        .embedded("a server is restarted"),
        should("151", "a *.k8s.io group needs its approval", protected_group),
        should("152", "a deprecated version warns", deprecated),
        later(
            "153",
            "rules whose cost is too high are refused when they are defined; until then they are stopped when they run",
            static_cost,
        ),
    ]
}

async fn selectable(c: Cx) {
    let properties = || json!({"color": {"type": "string"}, "size": {"type": "string"}});
    let mut v1 = version("v1", properties());
    v1["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    // Kubernetes refuses fields of a version whose schema is that of all versions, so this one has one more.
    let mut more = properties();
    more["weight"] = json!({"type": "string"});
    let mut v2 = version("v2", more);
    v2["storage"] = false.into();
    v2["selectableFields"] = json!([{"jsonPath": ".spec.size"}]);
    let kind = c.define("things", "Thing", json!({"versions": [v1, v2]})).await;
    for (name, color) in [("a", "red"), ("b", "blue")] {
        c.make(&kind.path, kind.object(name, json!({"color": color, "size": "big"})))
            .await;
    }
    let select = |path: &str, selector: &str| format!("{path}?fieldSelector={}", selector.replace('=', "%3D"));
    assert_eq!(
        c.get(&select(&kind.path, "spec.color=red")).await.is(200).names(),
        ["a"]
    );
    let red = c.get(&select(&kind.path, "spec.color!=red")).await.is(200).names();
    assert_eq!(red, ["b"]);
    c.get(&select(&kind.path, "spec.size=big"))
        .await
        .fails(400, "BadRequest")
        .mentions("field label not supported: spec.size");
    let other = kind.path.replace("/v1/", "/v2/");
    c.until(&other, |it| it.code == 200).await;
    assert_eq!(
        c.get(&select(&other, "spec.size=big")).await.is(200).names(),
        ["a", "b"]
    );
    c.get(&select(&other, "spec.color=red")).await.fails(400, "BadRequest");
    let start = c.get(&kind.path).await.revision();
    let mut watch = c
        .watch(&format!(
            "{}&watch=1&resourceVersion={start}",
            select(&kind.path, "spec.color=green")
        ))
        .await;
    c.merge(&kind.at("a"), json!({"spec": {"size": "small"}})).await.is(200);
    c.merge(&kind.at("a"), json!({"spec": {"color": "green"}}))
        .await
        .is(200);
    assert_eq!(watch.brief().await, ("ADDED".into(), "a".into()));
    c.merge(&kind.at("a"), json!({"spec": {"color": "red"}})).await.is(200);
    assert_eq!(watch.brief().await, ("DELETED".into(), "a".into()));
    let mut bad = version("v1", properties());
    bad["selectableFields"] = json!([{"jsonPath": ".spec.missing"}]);
    c.post(
        CRDS,
        definition(&kind.group, "others", "Other", json!({"versions": [bad]})),
    )
    .await
    .fails(422, "Invalid")
    .mentions("selectableFields");
}

async fn early(c: Cx) {
    let (own, c) = c.own_server().await;
    let group = c.group();
    let made = c
        .post(CRDS, definition(&group, "things", "Thing", json!({"scope": "Cluster"})))
        .await
        .is(201);
    assert!(made.revision() > 0);
    let path = format!("/apis/{group}/v1/things");
    let (reply, _) = c
        .until(&path, |it| {
            assert!(matches!(it.code, 200 | 404 | 429), "{}", it.came());
            assert!(it.code != 429 || it.header("retry-after") == "1", "{}", it.came());
            it.code == 200
        })
        .await;
    assert_eq!(reply["items"], json!([]));
    let own = own.restart().await;
    let again = Cx::new(&own.target, "150", "again");
    let reply = again.get(&path).await;
    assert!(
        matches!(reply.code, 200 | 429),
        "after a restart a kind is never unknown; came {}",
        reply.came()
    );
    own.stop().await;
}

async fn protected_group(c: Cx) {
    let group = format!("{}.k8s.io", c.name("g"));
    let mut crd = definition(&group, "things", "Thing", json!({}));
    c.post(CRDS, crd.clone()).await.fails(422, "Invalid").mentions(
        "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
         https://github.com/kubernetes/enhancements/pull/1111",
    );
    crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, a check"});
    c.make(CRDS, crd).await;
    let path = format!("{CRDS}?dryRun=All");
    let name = c.name("p");
    for (suffix, note, said) in [
        (
            "kubernetes.io",
            None,
            "Required value: protected groups must have approval annotation",
        ),
        (
            "kubernetes.io",
            Some(""),
            "Required value: protected groups must have approval annotation",
        ),
        (
            "kubernetes.io",
            Some("because"),
            "Invalid value: \"because\": protected groups must have approval annotation \"api-approved.kubernetes.io\" with either \
             a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111",
        ),
        ("kubernetes.io", Some("https://example.com/x"), ""),
        ("k8s.io", Some("unapproved"), ""),
        ("k8s.io.example.com", None, ""),
    ] {
        let mut crd = definition(&format!("{name}.{suffix}"), "things", "Thing", json!({}));
        if let Some(note) = note {
            crd["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": note});
        }
        let reply = c.post(&path, crd).await;
        match said {
            "" => drop(reply.is(201)),
            said => drop(
                reply
                    .fails(422, "Invalid")
                    .mentions(&format!("metadata.annotations[api-approved.kubernetes.io]: {said}")),
            ),
        }
    }
}

async fn deprecated(c: Cx) {
    let mut plain = version("v1", json!({}));
    plain["deprecated"] = true.into();
    plain["storage"] = false.into();
    let mut worded = version("v2", json!({}));
    worded["deprecated"] = true.into();
    worded["deprecationWarning"] = "use something else".into();
    let kind = c.define("things", "Thing", json!({"versions": [plain, worded]})).await;
    c.get(&kind.path)
        .await
        .is(200)
        .warns(&format!("299 - \"{}/v1 Thing is deprecated\"", kind.group));
    c.make(&kind.path, kind.object("a", json!({})))
        .await
        .warns("is deprecated");
    c.get(&kind.path.replace("/v1/", "/v2/"))
        .await
        .is(200)
        .warns("use something else");
    // Every use of it.
    let said = "Thing is deprecated";
    let at = kind.at("a");
    let read = c.get(&at).await.is(200).warns(said);
    c.put(&at, &read.json).await.is(200).warns(said);
    c.merge(&at, json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .is(200)
        .warns(said);
    let watch = c.watch(&format!("{}?watch=1&timeoutSeconds=1", kind.path)).await;
    let warning = watch.headers.get("warning").and_then(|it| it.to_str().ok());
    assert!(warning.is_some_and(|it| it.contains(said)), "{warning:?}");
    c.delete(&at).await.is(200).warns(said);
    c.post(
        &kind
            .path
            .replace(&kind.path, "/api/v1/namespaces/default/configmaps?dryRun=All"),
        config_map(&c.name("x"), json!({})),
    )
    .await
    .is(201)
    .silent();
    // What a built-in kind takes, though it does nothing or hides something.
    let twice = json!({"metadata": {"name": c.name("twice")}, "spec": {"containers": [
        {"name": "c", "image": "i", "ports": [{"containerPort": 80}, {"containerPort": 80}]},
    ]}});
    c.post("/api/v1/namespaces/default/pods?dryRun=All", twice)
        .await
        .is(201)
        .warns("spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]");
    let named = json!({"metadata": {"name": c.name("named")}, "spec": {"ports": [{"port": 80}], "externalName": "a"}});
    c.post("/api/v1/namespaces/default/services?dryRun=All", named)
        .await
        .is(201)
        .warns("spec.externalName is ignored when spec.type is not \"ExternalName\"");
}

/// Where the cost is not estimated, it is measured: an object that makes the rule run away is refused.
async fn static_cost(c: Cx) {
    let rule = "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c != 'never')))";
    let mut it = version("v1", json!({}));
    it["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object", "properties": {
        "l": {"type": "array", "items": {"type": "string"}}}, "x-kubernetes-validations": [{"rule": rule}]});
    let crd = definition(&c.group(), "things", "Thing", json!({"versions": [it]}));
    let path = format!("{CRDS}/things.{}", c.group());
    let reply = c.post(CRDS, crd).await;
    if reply.code == 422 {
        reply.mentions("estimated rule cost exceeds budget");
        return;
    }
    reply.is(201);
    c.removes(&path);
    c.until(&path, |it| is_established(&it.json)).await;
    let collection = format!("/apis/{}/v1/namespaces/default/things", c.group());
    c.until(&collection, |it| it.code == 200).await;
    let list: Vec<String> = (0..600).map(|it| format!("item-{it}")).collect();
    let object = json!({"apiVersion": format!("{}/v1", c.group()), "kind": "Thing", "metadata": {"name": "a"}, "spec": {"l": list}});
    c.post(&collection, object).await.fails(422, "Invalid").mentions("cost");
}
