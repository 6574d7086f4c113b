//! PATCH: JSON patch, merge patch, strategic merge patch.

use crate::{
    check::{Check, must, should},
    client::Ask,
    cx::{Cx, config_map, deployment, version},
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "81",
            "JSON patch: what cannot be done is 422, replace of a missing key adds, more than 10000 operations are 413",
            json_patch,
        ),
        must(
            "82",
            "merge patch: null deletes, maps merge, a list is 400, no change keeps the revision",
            merge,
        ),
        must(
            "83",
            "a stale resourceVersion in a patch is 409; without one eight writers at once never meet a conflict",
            parallel,
        ),
        must(
            "84",
            "strategic merge patch: merge keys, directives and orders of lists",
            strategic,
        ),
        must(
            "85",
            "a strategic merge patch of a custom resource is 415",
            strategic_custom,
        ),
        must(
            "86",
            "PATCH with application/json is 415, force without apply 422",
            media_types,
        ),
        must("87", "merge and JSON patches of /status and /scale", subresources),
        should("88", "a JSON patch of metadata/managedFields works", managed_fields),
        must("89", "a patch of a missing object is 404", missing),
    ]
}

async fn json_patch(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let path = format!("{path}/a");
    let generic = "the server rejected our request due to an error in our request";
    for operation in [
        json!({"op": "test", "path": "/data/k", "value": "other"}),
        json!({"op": "remove", "path": "/data/missing"}),
        json!({"op": "add", "path": "/nothing/here", "value": "x"}),
        json!({"op": "unheard-of", "path": "/data/k"}),
    ] {
        c.json_patch(&path, json!([operation]))
            .await
            .fails(422, "Invalid")
            .says(generic);
    }
    c.json_patch(&path, json!([{"op": "replace", "path": "/data/new", "value": "1"}]))
        .await
        .is(200)
        .has("/data/new", "1");
    c.json_patch(&path, json!([{"op": "test", "path": "/data/k", "value": "v"}, {"op": "move", "from": "/data/k", "path": "/data/moved"},
        {"op": "copy", "from": "/data/moved", "path": "/data/copied"}]))
        .await
        .is(200)
        .has("/data", json!({"new": "1", "moved": "v", "copied": "v"}));
    c.json_patch(&path, json!({"op": "remove"}))
        .await
        .fails(400, "BadRequest")
        .mentions("error decoding patch: ");
    // Copies that copy copies could fill the memory: they may add up to 3 MiB.
    let large = format!("{}/large", path.rsplit_once('/').unwrap().0);
    c.make(
        large.rsplit_once('/').unwrap().0,
        config_map("large", json!({"k": "v".repeat(300_000)})),
    )
    .await;
    let copies: Value = (0..12)
        .map(|it| json!({"op": "copy", "from": "/data/k", "path": format!("/data/k{it}")}))
        .collect();
    c.json_patch(&large, copies).await.fails(422, "Invalid").says(generic);
    let many: Vec<Value> = (0..10_001)
        .map(|_| json!({"op": "test", "path": "/data/new", "value": "1"}))
        .collect();
    c.json_patch(&path, many.into())
        .await
        .fails(413, "RequestEntityTooLarge")
        .says("Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001");
}

async fn merge(c: Cx) {
    let path = c.core("configmaps").await;
    let mut object = config_map("a", json!({"k": "v", "l": "w"}));
    object["metadata"]["annotations"] = json!({"x": "1"});
    c.make(&path, object).await;
    let path = format!("{path}/a");
    let patched = c
        .merge(
            &path,
            json!({"data": {"k": null, "m": "x"}, "metadata": {"annotations": {"y": "2"}}}),
        )
        .await
        .is(200)
        .has("/data", json!({"l": "w", "m": "x"}))
        .has("/metadata/annotations", json!({"x": "1", "y": "2"}));
    assert_eq!(
        c.merge(&path, json!({"data": {"m": "x"}})).await.is(200).revision(),
        patched.revision()
    );
    assert_eq!(c.merge(&path, json!({})).await.is(200).revision(), patched.revision());
    c.merge(&path, json!([1]))
        .await
        .fails(400, "BadRequest")
        .says("error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}");
    c.send(Ask::new("PATCH", &path).bytes("application/merge-patch+json", ""))
        .await
        .fails(400, "BadRequest")
        .says("error decoding patch: unexpected end of JSON input");
    for (metadata, message) in [
        (
            json!({"name": "b"}),
            "the name of the object (b) does not match the name on the URL (a)",
        ),
        (
            json!({"name": null}),
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            json!({"namespace": "elsewhere"}),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ] {
        c.merge(&path, json!({"metadata": metadata}))
            .await
            .fails(400, "BadRequest")
            .says(message);
    }
    c.merge(&path, json!({"kind": "ServiceAccount"}))
        .await
        .fails(422, "Invalid")
        .mentions("converting (v1.ServiceAccount) to (core.ConfigMap): unknown conversion");
    // What kubectl apply says of a misspelt field.
    c.strategic(&format!("{path}?fieldValidation=Strict"), json!({"dat": {"c": "d"}}))
        .await
        .fails(422, "Invalid")
        .says(" \"\" is invalid: patch: Invalid value: \"map[dat:map[c:d]]\": strict decoding error: unknown field \"dat\"");
    c.strategic(&path, json!({"kind": "Secret"}))
        .await
        .is(200)
        .has("/kind", "ConfigMap");
    // Nothing is said of a revision, or of a namespace.
    for metadata in [json!({"resourceVersion": "0"}), json!({"namespace": null})] {
        c.merge(&path, json!({"metadata": metadata})).await.is(200);
    }
    c.merge(&path, json!({"metadata": {"resourceVersion": "x"}}))
        .await
        .fails(500, "")
        .says("strconv.ParseUint: parsing \"x\": invalid syntax");
    c.merge(&path, json!({"data": {"k": 5}}))
        .await
        .fails(422, "Invalid")
        .mentions(" \"\" is invalid: patch: Invalid value: ")
        .mentions("json: cannot unmarshal number into Go struct field ConfigMap.data of type string");
}

async fn parallel(c: Cx) {
    let path = c.core("configmaps").await;
    let made = c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let path = format!("{path}/a");
    c.merge(&path, json!({"data": {"k": "w"}})).await.is(200);
    let stale = json!({"metadata": {"resourceVersion": made.revision().to_string()}, "data": {"k": "x"}});
    let said = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply your changes to the \
                latest version and try again";
    let operations = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": made.revision().to_string()},
        {"op": "add", "path": "/data/k", "value": "x"}]);
    for reply in [
        c.merge(&path, stale.clone()).await,
        c.strategic(&path, stale).await,
        c.json_patch(&path, operations).await,
    ] {
        reply.fails(409, "Conflict").says(said);
    }
    // To test the revision is an operation like others; to remove it asks for none.
    let tested = json!([{"op": "test", "path": "/metadata/resourceVersion", "value": made.revision().to_string()}]);
    c.json_patch(&path, tested).await.fails(422, "Invalid");
    let removed =
        json!([{"op": "remove", "path": "/metadata/resourceVersion"}, {"op": "add", "path": "/data/k", "value": "y"}]);
    c.json_patch(&path, removed).await.is(200).has("/data/k", "y");
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (c, path) = (c.clone(), path.clone());
            tokio::spawn(async move {
                for turn in 0..10 {
                    let key = format!("w{writer}");
                    c.merge(&path, json!({"data": {key: turn.to_string()}})).await.is(200);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.expect("no conflict");
    }
    let reply = c.get(&path).await.is(200);
    for writer in 0..8 {
        assert_eq!(reply["data"][format!("w{writer}")], "9");
    }
}

fn names(reply: &crate::client::Reply, pointer: &str) -> Vec<String> {
    let items = reply.at(pointer).as_array().cloned().unwrap_or_default();
    items
        .iter()
        .map(|it| it["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

async fn strategic(c: Cx) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", c.namespace().await);
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "c1", "image": "i1", "args": ["x"]}, {"name": "c2", "image": "i2"}]);
    object["metadata"]["finalizers"] = json!(["ex.io/a", "ex.io/b"]);
    c.make(&path, object).await;
    let path = format!("{path}/a");
    let containers = |list: Value| json!({"spec": {"template": {"spec": {"containers": list}}}});
    let at = "/spec/template/spec/containers";
    let reply = c
        .strategic(
            &path,
            containers(json!([{"name": "c2", "image": "new"}, {"name": "c3", "image": "i3"}])),
        )
        .await
        .is(200);
    // In the order of the patch, and what it does not name where it was.
    assert_eq!(names(&reply, at), ["c1", "c2", "c3"]);
    let reply = c
        .strategic(&path, containers(json!([{"name": "c4", "image": "i4"}])))
        .await
        .is(200);
    assert_eq!(
        names(&reply, at),
        ["c4", "c1", "c2", "c3"],
        "a new element goes in front"
    );
    let one = reply
        .at(at)
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "c1")
        .unwrap();
    assert_eq!(
        (&one["image"], &one["args"]),
        (&json!("i1"), &json!(["x"])),
        "others stay as they are"
    );
    let reply = c
        .strategic(
            &path,
            containers(json!([{"$patch": "delete", "name": "c3"}, {"$patch": "delete", "name": "c4"}])),
        )
        .await
        .is(200);
    assert_eq!(names(&reply, at).len(), 2);
    let order =
        json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}]}}}});
    assert_eq!(names(&c.strategic(&path, order).await.is(200), at), ["c2", "c1"]);
    let both = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "c1"}, {"name": "c5"}, {"name": "c2"}],
        "containers": [{"name": "c5", "image": "i5"}, {"name": "c2", "image": "i2"}],
    }}}});
    let reply = c.strategic(&path, both).await.is(200);
    assert_eq!(names(&reply, at), ["c1", "c5", "c2"]);
    assert_eq!(reply.at(at)[2]["image"], "i2");
    let unnamed = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "c1"}],
        "containers": [{"name": "c2", "image": "i9"}],
    }}}});
    c.strategic(&path, unnamed)
        .await
        .is(500)
        .mentions("The order in patch list:");
    let volumes = |list: Value| json!({"spec": {"template": {"spec": {"volumes": list}}}});
    c.strategic(&path, volumes(json!([{"name": "v", "emptyDir": {}}])))
        .await
        .is(200);
    let secret = json!([{"$retainKeys": ["name", "secret"], "name": "v", "secret": {"secretName": "s"}}]);
    let reply = c.strategic(&path, volumes(secret)).await.is(200);
    assert_eq!(
        reply.at("/spec/template/spec/volumes"),
        &json!([{"name": "v", "secret": {"secretName": "s", "defaultMode": 420}}])
    );
    let gone = json!({"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}});
    c.strategic(&path, gone).await.is(200);
    let gone = json!({"spec": {"template": {"metadata": {"annotations": {"$patch": "delete"}}}}});
    c.strategic(&path, gone)
        .await
        .is(200)
        .lacks("/spec/template/metadata/annotations");
    let reply = c
        .strategic(
            &path,
            containers(json!([{"$patch": "replace"}, {"name": "only", "image": "i"}])),
        )
        .await
        .is(200);
    assert_eq!(names(&reply, at), ["only"]);
    c.strategic(
        &path,
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    )
    .await
    .is(200)
    .has("/spec/strategy", json!({"type": "Recreate"}));
    c.strategic(
        &path,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["ex.io/a"]}}),
    )
    .await
    .is(200)
    .has("/metadata/finalizers", json!(["ex.io/b"]));
    c.strategic(&path, json!({"metadata": {"finalizers": ["ex.io/z"]}}))
        .await
        .is(200)
        .has("/metadata/finalizers", json!(["ex.io/z", "ex.io/b"]));
    c.strategic(
        &path,
        json!({"metadata": {"$setElementOrder/finalizers": ["ex.io/b", "ex.io/y", "ex.io/z"], "finalizers": ["ex.io/y"]}}),
    )
    .await
    .is(200)
    .has("/metadata/finalizers", json!(["ex.io/b", "ex.io/y", "ex.io/z"]));
    c.strategic(&path, json!({"metadata": {"labels": {"a": "1", "b": "2"}}}))
        .await
        .is(200);
    c.strategic(&path, json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}))
        .await
        .is(200)
        .has("/metadata/labels", json!({"c": "3"}));
    c.strategic(&path, json!({"metadata": {"labels": {"c": null}}}))
        .await
        .is(200)
        .lacks("/metadata/labels/c");
    c.strategic(&path, json!({"spec": {"replicas": 5}}))
        .await
        .is(200)
        .has("/spec/replicas", 5);
    c.strategic(&path, json!({"spec": {"replicas": null}}))
        .await
        .is(200)
        .has("/spec/replicas", 1);
    c.strategic(&path, containers(json!([{"image": "noname"}])))
        .await
        .is(500)
        .says("map: map[image:noname] does not contain declared merge key: name");
    // A directive about what is not there is nothing.
    c.strategic(&path, json!({"metadata": {"labels": {"$patch": "bad", "a": "1"}}}))
        .await
        .is(200)
        .lacks("/metadata/labels/a");
    c.strategic(&path, json!({"metadata": {"labels": {"a": "1"}}}))
        .await
        .is(200);
    c.strategic(&path, json!({"metadata": {"labels": {"$patch": "bad"}}}))
        .await
        .is(500)
        .mentions("unknown patch type: bad in map: ");
    c.merge(&path, json!({"metadata": {"finalizers": null}})).await.is(200);
    let path = path
        .replace("/apis/apps/v1/", "/api/v1/")
        .replace("deployments/a", "configmaps");
    c.make(&path, config_map("a", json!({"a": "b"}))).await;
    c.strategic(&format!("{path}/a"), json!({"data": {"a": 5}}))
        .await
        .fails(422, "Invalid")
        .says(" \"\" is invalid: patch: Invalid value: \"map[data:map[a:5]]\": cannot convert int64 to string");
}

async fn strategic_custom(c: Cx) {
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.make(&kind.path, kind.object("a", json!({}))).await;
    c.strategic(&kind.at("a"), json!({"spec": {}})).await.fails(415, "UnsupportedMediaType").says(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, \
         application/merge-patch+json, application/apply-patch+yaml",
    );
}

async fn media_types(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({}))).await;
    let path = format!("{path}/a");
    c.send(Ask::new("PATCH", &path).json(&json!({})))
        .await
        .fails(415, "UnsupportedMediaType")
        .says("415: Unsupported Media Type");
    c.send(Ask::new("PATCH", &path).untyped("{}"))
        .await
        .fails(415, "UnsupportedMediaType");
    c.merge(&format!("{path}?force=true"), json!({"data": {"a": "b"}}))
        .await
        .fails(422, "Invalid")
        .says("PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch");
}

async fn subresources(c: Cx) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", c.namespace().await);
    c.make(&path, deployment("a")).await;
    let path = format!("{path}/a");
    c.merge(
        &format!("{path}/status"),
        json!({"status": {"replicas": 2}, "spec": {"replicas": 9}}),
    )
    .await
    .is(200)
    .has("/status/replicas", 2)
    .has("/spec/replicas", 1);
    // A controller may write the status anew in between.
    let scale = loop {
        c.json_patch(
            &format!("{path}/status"),
            json!([{"op": "replace", "path": "/status/replicas", "value": 3}]),
        )
        .await
        .is(200)
        .has("/status/replicas", 3);
        let scale = c.get(&format!("{path}/scale")).await.is(200);
        if scale.at("/status/replicas") == 3 {
            break scale;
        }
    };
    scale
        .has("/kind", "Scale")
        .has("/apiVersion", "autoscaling/v1")
        .has("/spec/replicas", 1)
        .has("/status/selector", "app=a");
    c.merge(&format!("{path}/scale"), json!({"spec": {"replicas": 4}}))
        .await
        .is(200)
        .has("/kind", "Scale")
        .has("/spec/replicas", 4);
    c.json_patch(
        &format!("{path}/scale"),
        json!([{"op": "replace", "path": "/spec/replicas", "value": 5}]),
    )
    .await
    .is(200);
    c.get(&path).await.has("/spec/replicas", 5);
    c.merge(&format!("{path}/scale"), json!({"spec": {"replicas": -5}}))
        .await
        .fails(422, "Invalid")
        .says(
            "Scale.autoscaling \"a\" is invalid: spec.replicas: Invalid value: -5: must be greater than or equal to 0",
        );
    // A controller may write in between.
    let scale = loop {
        let mut scale = c.get(&format!("{path}/scale")).await.json;
        scale["spec"]["replicas"] = 6.into();
        let reply = c.put(&format!("{path}/scale"), &scale).await;
        if reply.code != 409 {
            reply.is(200).has("/spec/replicas", 6);
            break scale;
        }
    };
    c.put(&format!("{path}/scale"), &scale).await.fails(409, "Conflict");

    let mut version = version("v1", json!({"replicas": {"type": "integer"}}));
    version["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let kind = c.define("things", "Thing", json!({"versions": [version]})).await;
    c.make(&kind.path, kind.object("a", json!({"replicas": 1}))).await;
    c.merge(&format!("{}/scale", kind.at("a")), json!({"spec": {"replicas": 2}}))
        .await
        .is(200)
        .has("/spec/replicas", 2);
    c.merge(&format!("{}/status", kind.at("a")), json!({"status": {"replicas": 2}}))
        .await
        .is(200);
    c.get(&kind.at("a"))
        .await
        .has("/spec/replicas", 2)
        .has("/status/replicas", 2);
    // Each path changes what it is of.
    c.json_patch(
        &format!("{}/status", kind.at("a")),
        json!([{"op": "replace", "path": "/status/replicas", "value": 3}, {"op": "replace", "path": "/spec/replicas", "value": 77}]),
    )
    .await
    .is(200)
    .has("/status/replicas", 3)
    .has("/spec/replicas", 2);
    c.json_patch(
        &format!("{}/scale", kind.at("a")),
        json!([{"op": "replace", "path": "/spec/replicas", "value": 4}]),
    )
    .await
    .is(200)
    .has("/kind", "Scale")
    .has("/spec/replicas", 4)
    .has("/status/replicas", 3);
    c.get(&kind.at("a"))
        .await
        .has("/spec/replicas", 4)
        .has("/status/replicas", 3);
}

async fn managed_fields(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let path = format!("{path}/a");
    c.json_patch(
        &path,
        json!([
            {"op": "test", "path": "/metadata/managedFields/0/manager", "value": "conformance"},
            {"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "renamed"},
            {"op": "replace", "path": "/metadata/managedFields/0/operation", "value": "Apply"},
        ]),
    )
    .await
    .is(200)
    .has("/metadata/managedFields/0/manager", "renamed")
    .has("/metadata/managedFields/0/operation", "Apply");
    c.apply(&path, "renamed", config_map("a", json!({"l": "w"})))
        .await
        .is(200)
        .has("/data", json!({"l": "w"}));
}

async fn missing(c: Cx) {
    let path = format!("{}/a", c.core("configmaps").await);
    for kind in ["json", "merge", "strategic-merge"] {
        let body = if kind == "json" { json!([]) } else { json!({}) };
        c.send(Ask::patch(kind, &path, &body))
            .await
            .fails(404, "NotFound")
            .says("configmaps \"a\" not found");
    }
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.merge(&kind.at("a"), json!({})).await.fails(404, "NotFound");
}
