//! Server-side apply: ownership of fields, conflicts, lists, and what others leave behind.

use crate::{
    check::{Check, must, should},
    client::{Ask, Reply},
    cx::{Cx, config_map, deployment},
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "90",
            "apply creates with 201; the same again is 200 with the same revision",
            creates,
        ),
        must(
            "91",
            "apply without a manager is 422, with managedFields, another kind or name 400",
            refusals,
        ),
        must("92", "a conflict names each manager and field", conflicts),
        must(
            "93",
            "the same value by a second manager is shared; force takes the field",
            sharing,
        ),
        must("94", "a field that is left out goes only with its last owner", dropping),
        must("95", "lists are maps by key, sets or atomic", lists),
        must(
            "96",
            "apply to the main resource ignores status, apply to /status ignores spec",
            status,
        ),
        must(
            "97",
            "the list and map types of a custom resource's schema hold",
            custom_types,
        ),
        must(
            "98",
            "an unknown field is 500, and so are duplicate keys of a list",
            unknown_field,
        ),
        must(
            "99",
            "fieldsV1 of a ConfigMap, a Deployment and a custom resource are those of Kubernetes",
            fields,
        ),
        should(
            "100",
            "a change of ownership alone writes an entry without a time",
            ownership_only,
        ),
        must(
            "101",
            "kubectl moves from client-side to server-side apply without a conflict",
            migration,
        )
        .with_program("kubectl"),
        should(
            "102",
            "of 14 managers that update the oldest become ancient-changes",
            ancient,
        ),
        should(
            "103",
            "what was there before the first apply is owned by before-first-apply",
            before_first,
        ),
        should("104", "apply to /scale is recorded with the subresource", scale),
        should("105", "managedFields of [{}] clears them", reset),
        must("106", "an apply of nothing removes what the manager had", empty),
    ]
}

fn entry<'r>(reply: &'r Reply, manager: &str) -> &'r Value {
    let all = reply
        .at("/metadata/managedFields")
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    all.iter()
        .find(|it| it["manager"] == manager)
        .unwrap_or_else(|| panic!("no entry of {manager} in {}", reply.came()))
}

fn managers(reply: &Reply) -> Vec<(String, String)> {
    let all = reply
        .at("/metadata/managedFields")
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |it: &Value, key: &str| it[key].as_str().unwrap_or_default().to_owned();
    all.iter()
        .map(|it| (text(it, "manager"), text(it, "operation")))
        .collect()
}

async fn creates(c: Cx) {
    spelling(&c).await;
    let path = c.core("configmaps").await;
    let made = c
        .apply(&format!("{path}/a"), "m", config_map("a", json!({"k": "v"})))
        .await
        .is(201);
    assert_eq!(
        (&entry(&made, "m")["operation"], &entry(&made, "m")["apiVersion"]),
        (&json!("Apply"), &json!("v1"))
    );
    let again = c
        .apply(&format!("{path}/a"), "m", config_map("a", json!({"k": "v"})))
        .await
        .is(200);
    assert_eq!(again.revision(), made.revision());
    assert_eq!(again["metadata"], made["metadata"]);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: w\n";
    let ask = Ask::new("PATCH", format!("{path}/a?fieldManager=m")).bytes("application/apply-patch+yaml", yaml);
    c.send(ask).await.is(200).has("/data/k", "w");
}

async fn refusals(c: Cx) {
    let path = format!("{}/a", c.core("configmaps").await);
    c.send(Ask::patch("apply", &path, &config_map("a", json!({}))))
        .await
        .fails(422, "Invalid")
        .says("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch");
    let mut object = config_map("a", json!({}));
    object["metadata"]["managedFields"] = json!([]);
    c.apply(&path, "m", object)
        .await
        .fails(400, "BadRequest")
        .says("metadata.managedFields must be nil");
    c.apply(
        &path,
        "m",
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}),
    )
    .await
    .fails(400, "BadRequest")
    .mentions("invalid object type: /v1, Kind=Secret");
    c.apply(&path, "m", config_map("b", json!({})))
        .await
        .fails(400, "BadRequest")
        .mentions("does not match");
    c.get(&path).await.is(404);
    c.apply(&path, "m", json!({"apiVersion": "v1", "kind": "ConfigMap"}))
        .await
        .fails(400, "BadRequest")
        .says("the name of the object (a based on URL) was undeterminable: name must be provided");
    c.get(&path).await.is(404);
    c.apply(&path, "m", config_map("a", json!({}))).await.is(201);
    let mut object = config_map("a", json!({"k": "v"}));
    object["metadata"]["resourceVersion"] = "1".into();
    c.apply(&path, "m", object).await.fails(409, "Conflict");
}

async fn conflicts(c: Cx) {
    let path = format!("{}/a", c.core("configmaps").await);
    c.apply(&path, "m1", config_map("a", json!({"a": "1"}))).await.is(201);
    c.apply(&path, "m2", config_map("a", json!({"a": "2"})))
        .await
        .fails(409, "Conflict")
        .says("Apply failed with 1 conflict: conflict with \"m1\": .data.a")
        .has(
            "/details/causes",
            json!([{"reason": "FieldManagerConflict", "message": "conflict with \"m1\"", "field": ".data.a"}]),
        )
        .lacks("/details/name")
        .lacks("/details/kind");
    c.send(Ask::patch(
        "merge",
        format!("{path}?fieldManager=updater"),
        &json!({"data": {"b": "1"}}),
    ))
    .await
    .is(200);
    c.apply(&path, "m2", config_map("a", json!({"a": "2", "b": "2"}))).await.fails(409, "Conflict").says(
        "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .data.a\nconflicts with \"updater\" using v1:\n- .data.b",
    );
    let deployments = path
        .replace("/api/v1/", "/apis/apps/v1/")
        .replace("configmaps", "deployments");
    c.apply(&deployments, "m1", deployment("a")).await.is(201);
    let mut other = deployment("a");
    other["spec"]["template"]["spec"]["containers"][0]["image"] = "other".into();
    c.apply(&deployments, "m2", other)
        .await
        .fails(409, "Conflict")
        .says("Apply failed with 1 conflict: conflict with \"m1\": .spec.template.spec.containers[name=\"c1\"].image");
    // Nobody else writes the status of a pod that is on no node.
    let pods = path.replace("configmaps/a", "pods");
    c.until(&pods.replace("pods", "serviceaccounts/default"), |it| it.code == 200)
        .await;
    c.make(&pods, json!({"metadata": {"name": "a"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}}))
        .await;
    c.send(Ask::patch(
        "merge",
        format!("{pods}/a/status?fieldManager=controller"),
        &json!({"status": {"message": "one"}}),
    ))
    .await
    .is(200);
    let status = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"message": "two"}});
    c.apply(&format!("{pods}/a/status"), "m2", status)
        .await
        .fails(409, "Conflict")
        .says("Apply failed with 1 conflict: conflict with \"controller\" with subresource \"status\" using v1: .status.message");
}

async fn sharing(c: Cx) {
    let path = format!("{}/a", c.core("configmaps").await);
    c.apply(&path, "m1", config_map("a", json!({"a": "1", "b": "1"})))
        .await
        .is(201);
    let shared = c.apply(&path, "m2", config_map("a", json!({"a": "1"}))).await.is(200);
    assert_eq!(
        entry(&shared, "m1")["fieldsV1"],
        json!({"f:data": {"f:a": {}, "f:b": {}}})
    );
    assert_eq!(entry(&shared, "m2")["fieldsV1"], json!({"f:data": {"f:a": {}}}));
    let forced = c
        .apply(&format!("{path}?force=true"), "m2", config_map("a", json!({"a": "2"})))
        .await
        .is(200)
        .has("/data/a", "2");
    assert_eq!(entry(&forced, "m1")["fieldsV1"], json!({"f:data": {"f:b": {}}}));
    assert_eq!(entry(&forced, "m2")["fieldsV1"], json!({"f:data": {"f:a": {}}}));
}

async fn dropping(c: Cx) {
    let path = format!("{}/a", c.core("configmaps").await);
    c.apply(&path, "m1", config_map("a", json!({"a": "1", "b": "1"})))
        .await
        .is(201);
    c.apply(&path, "m2", config_map("a", json!({"a": "1"}))).await.is(200);
    c.apply(&path, "m1", config_map("a", json!({"b": "1"})))
        .await
        .is(200)
        .has("/data", json!({"a": "1", "b": "1"}));
    c.apply(&path, "m1", config_map("a", json!({"c": "1"})))
        .await
        .is(200)
        .has("/data", json!({"a": "1", "c": "1"}));
    let without = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    c.apply(&path, "m2", without)
        .await
        .is(200)
        .has("/data", json!({"c": "1"}));
}

async fn lists(c: Cx) {
    let namespace = c.namespace().await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/a");
    let pod = |spec: Value| {
        let mut object = deployment("a");
        object["spec"]["template"]["spec"] = spec;
        object
    };
    let first = pod(
        json!({"containers": [{"name": "c1", "image": "i", "args": ["a"], "ports": [{"containerPort": 80}]}],
        "tolerations": [{"key": "a", "operator": "Exists"}]}),
    );
    let made = c.apply(&path, "m1", first).await.is(201);
    let container =
        &entry(&made, "m1")["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c1\"}"];
    assert_eq!(
        container["f:args"],
        json!({}),
        "a list without keys is owned as a whole"
    );
    assert_eq!(
        container["f:ports"],
        json!({"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}),
        "a key that is defaulted counts"
    );
    let mut second = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {"template": {"spec": {}}}});
    second["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "c1", "ports": [{"containerPort": 81}]}, {"name": "c2", "image": "i"}]);
    let both = c.apply(&path, "m2", second).await.is(200);
    let containers = both["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(
        containers
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["c1", "c2"]
    );
    assert_eq!(containers[0]["ports"].as_array().unwrap().len(), 2);
    let mut third = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}});
    third["spec"] = json!({"template": {"spec": {"containers": [{"name": "c1", "args": ["a", "b"]}],
        "tolerations": [{"key": "b", "operator": "Exists"}]}}});
    c.apply(&path, "m3", third)
        .await
        .fails(409, "Conflict")
        .mentions(".spec.template.spec.containers[name=\"c1\"].args")
        .mentions(".spec.template.spec.tolerations");
    let maps = format!("/api/v1/namespaces/{namespace}/configmaps/a");
    let with = |finalizers: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "finalizers": finalizers}});
    let made = c.apply(&maps, "m1", with(json!(["ex.io/a"]))).await.is(201);
    assert_eq!(
        entry(&made, "m1")["fieldsV1"],
        json!({"f:metadata": {"f:finalizers": {"v:\"ex.io/a\"": {}}}})
    );
    c.apply(&maps, "m2", with(json!(["ex.io/b"])))
        .await
        .is(200)
        .has("/metadata/finalizers", json!(["ex.io/a", "ex.io/b"]));
    c.apply(&maps, "m1", with(json!([])))
        .await
        .is(200)
        .has("/metadata/finalizers", json!(["ex.io/b"]));
    c.merge(&maps, json!({"metadata": {"finalizers": null}})).await.is(200);
}

async fn status(c: Cx) {
    let kind = c
        .define_simple("things", "Thing", json!({"a": {"type": "string"}}))
        .await;
    let mut object = kind.object("a", json!({"a": "1"}));
    object["status"] = json!({"x": 1});
    let made = c
        .apply(&kind.at("a"), "m", object.clone())
        .await
        .is(201)
        .lacks("/status");
    assert_eq!(entry(&made, "m")["fieldsV1"], json!({"f:spec": {"f:a": {}}}));
    object["spec"]["a"] = "2".into();
    let with = c
        .apply(&format!("{}/status", kind.at("a")), "s", object.clone())
        .await
        .is(200)
        .has("/status/x", 1)
        .has("/spec/a", "1");
    assert_eq!(
        (&entry(&with, "s")["subresource"], &entry(&with, "s")["fieldsV1"]),
        (&json!("status"), &json!({"f:status": {"f:x": {}}}))
    );
    c.apply(
        &format!("{}/status", kind.at("missing")),
        "s",
        kind.object("missing", json!({})),
    )
    .await
    .fails(404, "NotFound");
    let path = kind
        .path
        .split("/namespaces/")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let path = format!("/apis/apps/v1/namespaces/{path}/deployments/d");
    let mut object = deployment("d");
    object["status"] = json!({"replicas": 3});
    let made = c
        .apply(&path, "m", object.clone())
        .await
        .is(201)
        .lacks("/status/replicas");
    assert!(entry(&made, "m")["fieldsV1"]["f:status"].is_null());
    object["spec"]["replicas"] = 7.into();
    c.apply(&format!("{path}/status"), "s", object)
        .await
        .is(200)
        .has("/status/replicas", 3)
        .has("/spec/replicas", 1);
}

async fn custom_types(c: Cx) {
    let item = json!({"type": "object", "required": ["k"], "properties": {
        "k": {"type": "string"}, "p": {"type": "string", "default": "TCP"}, "v": {"type": "string"},
        "whole": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "string"}},
        "each": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}});
    let text = json!({"type": "string"});
    let properties = json!({
        "mp": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"], "items": item},
        "st": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
        "at": {"type": "array", "x-kubernetes-list-type": "atomic", "items": text},
        "am": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "gm": {"type": "object", "additionalProperties": text},
        "pu": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    });
    let kind = c.define_simple("things", "Thing", properties).await;
    let object = |spec: Value| kind.object("a", spec);
    let one = object(
        json!({"mp": [{"k": "k1", "v": "1", "whole": ["a"], "each": ["a"]}], "st": ["a"], "at": ["a"], "am": {"x": "1"}, "gm": {"x": "1"},
        "pu": {"q": {"w": 1}, "l": [1]}}),
    );
    let made = c.apply(&kind.at("a"), "m1", one).await.is(201);
    assert_eq!(
        entry(&made, "m1")["fieldsV1"]["f:spec"],
        json!({"f:mp": {"k:{\"k\":\"k1\",\"p\":\"TCP\"}": {".": {}, "f:k": {}, "f:v": {}, "f:whole": {}, "f:each": {"v:\"a\"": {}}}}, "f:st": {"v:\"a\"": {}}, "f:at": {},
            "f:am": {}, "f:gm": {"f:x": {}}, "f:pu": {"f:q": {".": {}, "f:w": {}}, "f:l": {}}})
    );
    let two = object(
        json!({"mp": [{"k": "k2", "v": "2"}, {"k": "k1", "p": "UDP"}], "st": ["b"], "gm": {"y": "1"}, "pu": {"z": 1}}),
    );
    c.apply(&kind.at("a"), "m2", two)
        .await
        .is(200)
        .has("/spec/st", json!(["a", "b"]))
        .has("/spec/gm", json!({"x": "1", "y": "1"}))
        .has("/spec/mp/0/p", "TCP")
        .has("/spec/pu/z", 1);
    let three = object(
        json!({"mp": [{"k": "k1", "p": "TCP", "v": "3", "whole": ["b"], "each": ["b"]}], "at": ["b"], "am": {"y": "1"}, "st": ["a"]}),
    );
    let refused = c.apply(&kind.at("a"), "m3", three).await.fails(409, "Conflict");
    let mut fields: Vec<&str> = refused
        .at("/details/causes")
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["field"].as_str())
        .collect();
    fields.sort_unstable();
    assert_eq!(
        fields,
        [
            ".spec.am",
            ".spec.at",
            ".spec.mp[k=\"k1\",p=\"TCP\"].v",
            ".spec.mp[k=\"k1\",p=\"TCP\"].whole"
        ]
    );
}

async fn unknown_field(c: Cx) {
    let namespace = c.namespace().await;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/fv");
    let mut object = config_map("fv", json!({}));
    object["foo"] = "x".into();
    // The name is the one that the body gives.
    c.apply(&path, "m", object.clone())
        .await
        .is(500)
        .says("failed to create typed patch object (/fv; /v1, Kind=ConfigMap): .foo: field not declared in schema");
    object["metadata"]["namespace"] = namespace.clone().into();
    c.apply(&path, "m", object.clone()).await.is(500).says(&format!(
        "failed to create typed patch object ({namespace}/fv; /v1, Kind=ConfigMap): .foo: field not declared in schema"
    ));
    c.apply(&format!("{path}?fieldValidation=Strict"), "m", object.clone())
        .await
        .is(500)
        .mentions(".foo: field not declared in schema");
    c.get(&path).await.is(404);
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/d");
    let mut object = deployment("d");
    object["spec"]["template"]["spec"]["containers"] =
        json!([{"name": "side", "image": "a"}, {"name": "side", "image": "b"}]);
    c.apply(&path, "m", object)
        .await
        .is(500)
        .mentions(".spec.template.spec.containers: duplicate entries for key [name=\"side\"]");
    let text = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}});
    let items = json!({"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "inner": text}});
    let map =
        json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": items});
    let kind = c
        .define_simple("things", "Thing", json!({"set": text, "map": map}))
        .await;
    for (spec, said) in [
        (
            json!({"set": ["a", "a"]}),
            ".spec.set: duplicate entries for key [=\"a\"]",
        ),
        (
            json!({"map": [{"k": "a"}, {"k": "a"}]}),
            ".spec.map: duplicate entries for key [k=\"a\"]",
        ),
        (
            json!({"map": [{"k": "a", "inner": ["x", "x"]}]}),
            ".spec.map[k=\"a\"].inner: duplicate entries for key [=\"x\"]",
        ),
        (json!({"set": "x"}), ".spec.set: expected list, got &{x}"),
        (
            json!({"map": [{"k": 5}]}),
            ".spec.map[k=5].k: expected string, got &value.valueUnstructured{Value:5}",
        ),
    ] {
        c.apply(&kind.at("a"), "m", kind.object("a", spec))
            .await
            .is(500)
            .says(&format!(
                "failed to create typed patch object (/a; {}, Kind=Thing): {said}",
                kind.api_version
            ));
    }
    c.get(&kind.at("a")).await.is(404);
    // Fields of the right type may still hold what cannot be read.
    for (spec, said) in [
        (
            json!({"replicas": "x"}),
            "failed to create typed patch object (default/typed; apps/v1, Kind=Deployment): .spec.replicas: expected numeric (int or float), \
             got string",
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": true}}}),
            "failed to convert new object (default/typed; apps/v1, Kind=Deployment) to proper version: unable to convert unstructured object to \
             apps/v1, Kind=Deployment: json: cannot unmarshal bool into Go value of type int32",
        ),
    ] {
        let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "typed", "namespace": "default"}, "spec": spec});
        c.apply("/apis/apps/v1/namespaces/default/deployments/typed", "m", config)
            .await
            .is(500)
            .says(said);
    }
}

/// What is stored is not always spelled as it was applied.
async fn spelling(c: &Cx) {
    let namespace = c.namespace_called("spelling").await;
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/a");
    let mut object = deployment("a");
    object["spec"]["template"]["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": 1, "memory": "1024Mi"}, "requests": {"cpu": "1000m"}});
    let stored = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1"}});
    let at = "/spec/template/spec/containers/0/resources";
    let made = c
        .apply(&path, "m", object.clone())
        .await
        .is(201)
        .has(at, stored.clone());
    // What is there already is not asked for anew.
    let again = c
        .apply(&path, "m", object.clone())
        .await
        .is(200)
        .has(at, stored.clone());
    assert_eq!(again["metadata"]["generation"], made["metadata"]["generation"]);
    object["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] = 2.into();
    c.apply(&path, "m", object)
        .await
        .is(200)
        .has(&format!("{at}/limits/cpu"), "2");
}

async fn fields(c: Cx) {
    let namespace = c.namespace().await;
    // What is added after the client's fields were noted is nobody's.
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = c
        .make(&format!("/api/v1/namespaces/{namespace}/services"), service)
        .await;
    assert_eq!(
        entry(&made, "conformance")["fieldsV1"],
        json!({"f:spec": {"f:internalTrafficPolicy": {}, "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}":
            {".": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}}, "f:sessionAffinity": {}, "f:type": {}}})
    );
    c.until(
        &format!("/api/v1/namespaces/{namespace}/serviceaccounts/default"),
        |it| it.code == 200,
    )
    .await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}});
    let made = c.make(&format!("/api/v1/namespaces/{namespace}/pods"), pod).await;
    let spec = entry(&made, "conformance")["fieldsV1"]["f:spec"].clone();
    for key in [
        "f:priority",
        "f:preemptionPolicy",
        "f:serviceAccount",
        "f:serviceAccountName",
        "f:tolerations",
    ] {
        assert!(spec[key].is_null(), "{key}: {spec}");
    }
    let map = c
        .apply(&format!("/api/v1/namespaces/{namespace}/configmaps/a"), "m", json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"l": "1"}, "annotations": {"x.io/y": "1"}}, "data": {"k": "v"}, "immutable": false}))
        .await
        .is(201);
    assert_eq!(
        entry(&map, "m")["fieldsV1"].to_string(),
        r#"{"f:data":{"f:k":{}},"f:immutable":{},"f:metadata":{"f:annotations":{"f:x.io/y":{}},"f:labels":{"f:l":{}}}}"#
    );
    let deployments = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let made = c.apply(&format!("{deployments}/a"), "m", deployment("a")).await.is(201);
    assert_eq!(
        entry(&made, "m")["fieldsV1"],
        json!({"f:spec": {"f:selector": {}, "f:template": {"f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c1\"}": {".": {}, "f:image": {}, "f:name": {}}}}}}})
    );
    let made = c.make(&deployments, deployment("b")).await;
    assert_eq!(
        entry(&made, "conformance")["fieldsV1"],
        json!({"f:spec": {"f:progressDeadlineSeconds": {}, "f:replicas": {}, "f:revisionHistoryLimit": {}, "f:selector": {},
            "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}, "f:maxUnavailable": {}}, "f:type": {}},
            "f:template": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {
                "f:containers": {"k:{\"name\":\"c1\"}": {".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {},
                    "f:resources": {}, "f:terminationMessagePath": {}, "f:terminationMessagePolicy": {}}},
                "f:dnsPolicy": {}, "f:restartPolicy": {}, "f:schedulerName": {}, "f:securityContext": {},
                "f:terminationGracePeriodSeconds": {}}}}})
    );
    let properties = json!({"a": {"type": "string", "default": "dd"}, "o": {"type": "object", "properties": {"b": {"type": "integer"}}}});
    let kind = c.define_simple("things", "Thing", properties).await;
    let applied = c
        .apply(&kind.at("a"), "m", kind.object("a", json!({"o": {"b": 1}})))
        .await
        .is(201)
        .has("/spec/a", "dd");
    assert_eq!(
        entry(&applied, "m")["fieldsV1"],
        json!({"f:spec": {"f:o": {"f:b": {}}}})
    );
    let updated = c.make(&kind.path, kind.object("b", json!({"o": {"b": 1}}))).await;
    assert_eq!(
        entry(&updated, "conformance")["fieldsV1"],
        json!({"f:spec": {".": {}, "f:a": {}, "f:o": {".": {}, "f:b": {}}}})
    );
}

async fn ownership_only(c: Cx) {
    let path = format!("{}/a", c.core("configmaps").await);
    let made = c.apply(&path, "m1", config_map("a", json!({"a": "1"}))).await.is(201);
    assert!(entry(&made, "m1")["time"].is_string());
    let shared = c.apply(&path, "m2", config_map("a", json!({"a": "1"}))).await.is(200);
    assert!(shared.revision() > made.revision());
    assert!(entry(&shared, "m2")["time"].is_null(), "{}", shared.came());
}

async fn migration(c: Cx) {
    let namespace = c.namespace().await;
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v, l: w}\n";
    c.kubectl(&["-n", &namespace, "apply", "-f", "-"], manifest).await.ok();
    let changed = manifest.replace("k: v", "k: x");
    c.kubectl(&["-n", &namespace, "apply", "--server-side", "-f", "-"], &changed)
        .await
        .ok()
        .prints("serverside-applied");
    let reply = c
        .get(&format!("/api/v1/namespaces/{namespace}/configmaps/a"))
        .await
        .is(200)
        .has("/data/k", "x");
    let last = reply["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"]
        .as_str()
        .expect("last-applied");
    assert!(last.contains("\"k\":\"x\"") && last.ends_with('\n'), "{last:?}");
    let all = managers(&reply);
    assert!(all.contains(&("kubectl".into(), "Apply".into())), "{all:?}");
    assert!(!all.iter().any(|it| it.0 == "kubectl-client-side-apply"), "{all:?}");
    let fewer = manifest.replace("k: v, ", "");
    c.kubectl(&["-n", &namespace, "apply", "--server-side", "-f", "-"], &fewer)
        .await
        .ok();
    c.get(&format!("/api/v1/namespaces/{namespace}/configmaps/a"))
        .await
        .has("/data", json!({"l": "w"}));
}

async fn ancient(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"first": "v"}))).await;
    let mut last = None;
    for number in 0..14 {
        let body = json!({"data": {format!("k{number}"): "v"}});
        last = Some(
            c.send(Ask::patch("merge", format!("{path}/a?fieldManager=m{number}"), &body))
                .await
                .is(200),
        );
    }
    let last = last.unwrap();
    let all = managers(&last);
    assert!(all.len() <= 10, "{} entries: {all:?}", all.len());
    let ancient = &entry(&last, "ancient-changes")["fieldsV1"]["f:data"];
    assert_eq!(ancient["f:first"], json!({}), "{ancient}");
    assert_eq!(ancient["f:k0"], json!({}), "{ancient}");
    assert_eq!(entry(&last, "m13")["fieldsV1"]["f:data"]["f:k13"], json!({}));
}

async fn before_first(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let path = format!("{path}/a");
    c.merge(&path, json!({"metadata": {"managedFields": [{}]}}))
        .await
        .is(200)
        .lacks("/metadata/managedFields");
    let reply = c.apply(&path, "m", config_map("a", json!({"l": "w"}))).await.is(200);
    let before = entry(&reply, "before-first-apply");
    assert_eq!(
        (&before["operation"], &before["fieldsV1"]["f:data"]["f:k"]),
        (&json!("Update"), &json!({}))
    );
}

async fn scale(c: Cx) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/a", c.namespace().await);
    let mut object = deployment("a");
    object["spec"]["replicas"] = 1.into();
    c.apply(&path, "owner", object).await.is(201);
    let scale = |replicas: i64| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": replicas}});
    c.apply(&format!("{path}/scale"), "scaler", scale(3))
        .await
        .fails(409, "Conflict")
        .mentions("conflict with \"owner\"");
    c.apply(&format!("{path}/scale?force=true"), "scaler", scale(3))
        .await
        .is(200)
        .has("/spec/replicas", 3);
    let reply = c.get(&path).await.is(200).has("/spec/replicas", 3);
    let it = entry(&reply, "scaler");
    assert_eq!(
        (&it["operation"], &it["subresource"], &it["apiVersion"], &it["fieldsV1"]),
        (
            &json!("Apply"),
            &json!("scale"),
            &json!("apps/v1"),
            &json!({"f:spec": {"f:replicas": {}}})
        )
    );
    assert!(entry(&reply, "owner")["fieldsV1"]["f:spec"]["f:replicas"].is_null());
    c.send(Ask::patch(
        "merge",
        format!("{path}/scale?fieldManager=patcher"),
        &json!({"spec": {"replicas": 4}}),
    ))
    .await
    .is(200);
    let reply = c.get(&path).await.is(200);
    let it = entry(&reply, "patcher");
    assert_eq!(
        (&it["operation"], &it["subresource"]),
        (&json!("Update"), &json!("scale"))
    );
}

async fn reset(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let path = format!("{path}/a");
    c.merge(&path, json!({"metadata": {"managedFields": [{}]}}))
        .await
        .is(200)
        .lacks("/metadata/managedFields");
    c.merge(&path, json!({"data": {"k": "w"}}))
        .await
        .is(200)
        .lacks("/metadata/managedFields");
    let mut object = c.get(&path).await.json;
    object["metadata"]["managedFields"] =
        json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "bad"}]);
    c.put(&path, &object).await.is(200);
}

async fn empty(c: Cx) {
    let path = format!("{}/a", c.core("configmaps").await);
    c.apply(&path, "m1", config_map("a", json!({"a": "1"}))).await.is(201);
    c.apply(&path, "m2", config_map("a", json!({"b": "1"}))).await.is(200);
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let reply = c
        .apply(&path, "m1", nothing)
        .await
        .is(200)
        .has("/data", json!({"b": "1"}));
    assert_eq!(managers(&reply), [("m2".to_owned(), "Apply".to_owned())]);
}
