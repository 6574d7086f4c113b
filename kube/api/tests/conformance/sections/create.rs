//! POST: metadata, names, bodies, unknown fields, options and limits.

use crate::{
    check::{Check, must, should},
    client::Ask,
    cx::{Cx, RBAC, config_map, deployment, version},
};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "44",
            "a new object has uid, creationTimestamp, resourceVersion, and fields managed by the client's name",
            created,
        ),
        must(
            "45",
            "a name that is taken is 409 AlreadyExists with the plural in its details",
            taken,
        ),
        must("46", "an object without a name is 422", nameless),
        must("47", "generateName adds five letters to at most 58", generated),
        must("48", "names follow the rule of their kind", names),
        must(
            "49",
            "another namespace in the body is 400, a namespace that does not exist 404",
            namespaces,
        ),
        must("50", "a body of another kind or version is 400", other_kind),
        must("51", "a number where a text belongs is 400", wrong_type),
        must(
            "52",
            "resourceVersion in a new object is an error, and nothing is stored",
            with_revision,
        ),
        must(
            "53",
            "uid, creationTimestamp, deletionTimestamp and selfLink of the client are ignored",
            client_metadata,
        ),
        must(
            "54",
            "an unknown field warns, is refused when strict, and passes silently when ignored",
            unknown_field,
        ),
        should(
            "55",
            "duplicate keys warn or are refused, in JSON and YAML",
            duplicate_keys,
        ),
        must("56", "a dry run stores nothing and tells no watch", dry_run),
        must("57", "options that cannot be are 422", bad_options),
        must("58", "labels and annotations have their limits", labels),
        must(
            "59",
            "a finalizer without a domain is 422 for built-in kinds, a warning for custom resources",
            finalizers,
        ),
        should(
            "60",
            "owners that are named twice are named once; two controllers are 422",
            owners,
        ),
        must(
            "61",
            "a body above 3 MiB is 413, an object above 1.5 MiB an error",
            too_large,
        ),
    ]
}

async fn created(c: Cx) {
    let path = c.core("configmaps").await;
    let ask = Ask::post(&path, &config_map("a", json!({"k": "v"}))).with("user-agent", "my-tool/v1.2 (linux)");
    let reply = c
        .send(ask)
        .await
        .is(201)
        .has("/kind", "ConfigMap")
        .has("/apiVersion", "v1")
        .has("/metadata/name", "a");
    assert_eq!(reply.uid().len(), 36, "{}", reply.came());
    assert!(reply.revision() > 0);
    let time = reply["metadata"]["creationTimestamp"].as_str().unwrap();
    assert!(time.len() == 20 && time.ends_with('Z'), "{time}");
    let fields = reply["metadata"]["managedFields"].as_array().expect("managedFields");
    assert_eq!(fields.len(), 1);
    let it = &fields[0];
    assert_eq!(
        (&it["manager"], &it["operation"], &it["apiVersion"]),
        (&json!("my-tool"), &json!("Update"), &json!("v1"))
    );
    assert_eq!(
        (&it["fieldsType"], &it["fieldsV1"]),
        (&json!("FieldsV1"), &json!({"f:data": {".": {}, "f:k": {}}}))
    );
    let ask = Ask::post(
        format!("{path}?fieldManager=named"),
        &config_map("b", json!({"k": "v"})),
    );
    c.send(ask)
        .await
        .is(201)
        .has("/metadata/managedFields/0/manager", "named");
}

async fn taken(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({}))).await;
    c.post(&path, config_map("a", json!({})))
        .await
        .fails(409, "AlreadyExists")
        .says("configmaps \"a\" already exists")
        .has("/details/kind", "configmaps")
        .has("/details/name", "a");
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.make(&kind.path, kind.object("a", json!({}))).await;
    c.post(&kind.path, kind.object("a", json!({})))
        .await
        .fails(409, "AlreadyExists")
        .says(&format!("things.{} \"a\" already exists", kind.group))
        .has("/details/group", kind.group.clone());
}

async fn nameless(c: Cx) {
    let path = c.core("configmaps").await;
    c.post(&path, json!({"apiVersion": "v1", "kind": "ConfigMap"}))
        .await
        .fails(422, "Invalid")
        .says("ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required")
        .has("/details/kind", "ConfigMap")
        .has("/details/causes/0/reason", "FieldValueRequired")
        .has("/details/causes/0/field", "metadata.name");
}

async fn generated(c: Cx) {
    let path = c.core("configmaps").await;
    let long = "a".repeat(70);
    for (prefix, kept) in [("my-", "my-"), (&long[..], &long[..58])] {
        let reply = c
            .post(&path, json!({"metadata": {"generateName": prefix}}))
            .await
            .is(201);
        let name = reply["metadata"]["name"].as_str().unwrap();
        let end = name
            .strip_prefix(kept)
            .unwrap_or_else(|| panic!("{name} does not begin with {kept}"));
        assert!(
            end.len() == 5 && end.chars().all(|it| "bcdfghjklmnpqrstvwxz2456789".contains(it)),
            "{name}"
        );
        assert_eq!(reply["metadata"]["generateName"], prefix);
    }
}

async fn names(c: Cx) {
    let namespace = c.namespace().await;
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
                start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
                '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    c.post(&path, config_map("Upper", json!({})))
        .await
        .fails(422, "Invalid")
        .says(&format!(
            "ConfigMap \"Upper\" is invalid: metadata.name: Invalid value: \"Upper\": {rule}"
        ));
    c.post(&path, config_map(&"a".repeat(254), json!({})))
        .await
        .fails(422, "Invalid")
        .mentions("must be no more than 253 ");
    c.post(&path, config_map("a.b-c", json!({}))).await.is(201);
    let roles = format!("{RBAC}/namespaces/{namespace}/roles");
    for name in ["a:b", "With Upper:and space"] {
        c.post(&roles, json!({"metadata": {"name": name}, "rules": []}))
            .await
            .is(201);
    }
    c.get(&format!("{roles}/With%20Upper%3Aand%20space")).await.is(200);
    c.post(&roles, json!({"metadata": {"name": "a/b"}, "rules": []}))
        .await
        .fails(422, "Invalid")
        .mentions("may not contain '/'");
    c.post("/api/v1/namespaces", json!({"metadata": {"name": "a.b"}}))
        .await
        .fails(422, "Invalid")
        .mentions("must not contain dots");
    let services = format!("/api/v1/namespaces/{namespace}/services");
    c.post(
        &services,
        json!({"metadata": {"name": "a.b"}, "spec": {"ports": [{"port": 80}]}}),
    )
    .await
    .fails(422, "Invalid");
}

async fn namespaces(c: Cx) {
    let path = c.core("configmaps").await;
    let mut object = config_map("a", json!({}));
    object["metadata"]["namespace"] = "default".into();
    c.post(&path, object)
        .await
        .fails(400, "BadRequest")
        .says("the namespace of the provided object does not match the namespace sent on the request");
    let missing = c.name("missing");
    c.post(
        &format!("/api/v1/namespaces/{missing}/configmaps"),
        config_map("a", json!({})),
    )
    .await
    .fails(404, "NotFound")
    .says(&format!("namespaces \"{missing}\" not found"))
    .has("/details/kind", "namespaces")
    .has("/details/name", missing.clone());
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let path = format!("/apis/{}/v1/namespaces/{missing}/things", kind.group);
    c.post(&path, kind.object("a", json!({})))
        .await
        .fails(404, "NotFound")
        .says(&format!("namespaces \"{missing}\" not found"));
}

async fn other_kind(c: Cx) {
    let path = c.core("configmaps").await;
    c.post(&path, json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}))
        .await
        .fails(400, "BadRequest")
        .says(
            "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown \
             conversion",
        );
    c.post(
        &path,
        json!({"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}}),
    )
    .await
    .fails(400, "BadRequest")
    .mentions(
        "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \
             \"v2\" in scheme",
    );
    c.send(Ask::new("POST", &path).bytes("application/json", "garbage"))
        .await
        .fails(400, "BadRequest")
        .mentions("the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: ");
    c.post(&path, json!({"metadata": {"name": "no-kind"}})).await.is(201);
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.post(
        &kind.path,
        json!({"apiVersion": kind.api_version, "metadata": {"name": "a"}}),
    )
    .await
    .fails(400, "BadRequest")
    .mentions("Object 'Kind' is missing in");
    let mut object = kind.object("a", json!({}));
    object["apiVersion"] = format!("{}/v2", kind.group).into();
    c.post(&kind.path, object).await.fails(400, "BadRequest").says(&format!(
        "the API version in the data ({g}/v2) does not match the expected API version ({g}/v1)",
        g = kind.group
    ));
    let mut object = kind.object("a", json!({}));
    object["kind"] = "Other".into();
    c.post(&kind.path, object)
        .await
        .is(422)
        .mentions("kind: Invalid value: \"Other\": must be Thing");
}

async fn wrong_type(c: Cx) {
    let path = c.core("configmaps").await;
    c.post(&path, config_map("a", json!({"k": 5}))).await.fails(400, "BadRequest").says(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field \
         ConfigMap.data of type string",
    );
    let mut object = config_map("a", json!({}));
    object["metadata"]["labels"] = json!({"a": true});
    c.post(&path, object)
        .await
        .fails(400, "BadRequest")
        .mentions("json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.labels of type string");
    let deployments = path
        .replace("/api/v1/", "/apis/apps/v1/")
        .replace("configmaps", "deployments");
    let mut object = deployment("a");
    object["spec"]["replicas"] = "three".into();
    c.post(&deployments, object)
        .await
        .fails(400, "BadRequest")
        .mentions("json: cannot unmarshal string into Go struct field ");
}

async fn with_revision(c: Cx) {
    let path = c.core("configmaps").await;
    let mut object = config_map("a", json!({}));
    object["metadata"]["resourceVersion"] = "5".into();
    let reply = c
        .post(&path, object)
        .await
        .mentions("resourceVersion should not be set on objects to be created");
    assert!(reply.code >= 400, "{}", reply.came());
    c.get(&format!("{path}/a")).await.is(404);
}

async fn client_metadata(c: Cx) {
    let path = c.core("configmaps").await;
    let old = "2001-01-01T00:00:00Z";
    let reply = c
        .post(
            &path,
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "mine", "creationTimestamp": old,
                "deletionTimestamp": old, "deletionGracePeriodSeconds": 5, "selfLink": "/here"}}),
        )
        .await
        .is(201)
        .lacks("/metadata/deletionTimestamp")
        .lacks("/metadata/deletionGracePeriodSeconds")
        .lacks("/metadata/selfLink");
    assert!(
        reply.uid() != "mine" && reply["metadata"]["creationTimestamp"] != old,
        "{}",
        reply.came()
    );
}

async fn unknown_field(c: Cx) {
    let path = c.core("configmaps").await;
    let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "foo": 1}, "spec": {"x": 1}, "data": {"k": "v"}});
    c.post(&path, object("a"))
        .await
        .is(201)
        .warns("299 - \"unknown field \"metadata.foo\"\"")
        .warns("unknown field \"spec\"")
        .lacks("/spec")
        .lacks("/metadata/foo");
    c.post(&format!("{path}?fieldValidation=Warn"), object("b"))
        .await
        .is(201)
        .warns("unknown field \"spec\"");
    c.post(&format!("{path}?fieldValidation=Ignore"), object("c"))
        .await
        .is(201)
        .silent();
    c.post(&format!("{path}?fieldValidation=Strict"), object("d")).await.fails(400, "BadRequest").says(
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"metadata.foo\", \
         unknown field \"spec\"",
    );
    c.get(&format!("{path}/d")).await.is(404);
    c.send(Ask::patch(
        "merge",
        format!("{path}/a?fieldValidation=Strict"),
        &json!({"foo": 1}),
    ))
    .await
    .fails(422, "Invalid")
    .mentions("strict decoding error: unknown field \"foo\"");
    let kind = c
        .define_simple("things", "Thing", json!({"a": {"type": "string"}}))
        .await;
    c.post(&kind.path, kind.object("a", json!({"a": "b", "b": 1})))
        .await
        .is(201)
        .warns("unknown field \"spec.b\"")
        .lacks("/spec/b");
    c.post(
        &format!("{}?fieldValidation=Strict", kind.path),
        kind.object("b", json!({"a": "b", "b": 1})),
    )
    .await
    .fails(400, "BadRequest")
    .mentions("strict decoding error: unknown field \"spec.b\"");
    // Every way to write says it.
    let strict = format!("{path}/a?fieldValidation=Strict");
    let said = "strict decoding error: unknown field \"foo\", unknown field \"metadata.bar\"";
    let mut whole = c.get(&format!("{path}/a")).await.is(200).json;
    whole["foo"] = 1.into();
    whole["metadata"]["bar"] = 1.into();
    c.put(&strict, &whole).await.fails(400, "BadRequest").mentions(said);
    c.put(&format!("{path}/a"), &whole)
        .await
        .is(200)
        .warns("unknown field \"metadata.bar\"")
        .warns("unknown field \"foo\"");
    let operations = json!([{"op": "add", "path": "/foo", "value": 1}]);
    c.json_patch(&strict, operations.clone())
        .await
        .fails(422, "Invalid")
        .mentions("strict decoding error: unknown field \"foo\"");
    c.json_patch(&format!("{path}/a"), operations)
        .await
        .is(200)
        .warns("unknown field \"foo\"");
    c.strategic(&strict, json!({"foo": 1}))
        .await
        .fails(422, "Invalid")
        .says(" \"\" is invalid: patch: Invalid value: \"map[foo:1]\": strict decoding error: unknown field \"foo\"");
    // Inside an object that another holds its metadata are known, too.
    let holder = c
        .define(
            "holders",
            "Holder",
            json!({"versions": [version("v1", json!({"emb": {"type": "object", "x-kubernetes-embedded-resource": true,
                "x-kubernetes-preserve-unknown-fields": true}}))]}),
        )
        .await;
    let held = |more: Value| {
        holder.object(
            "a",
            json!({"emb": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": more, "any": 1}}),
        )
    };
    c.post(
        &format!("{}?fieldValidation=Strict", holder.path),
        held(json!({"foo": 1})),
    )
    .await
    .fails(400, "BadRequest")
    .mentions("strict decoding error: unknown field \"spec.emb.metadata.foo\"");
    c.post(
        &format!("{}?fieldValidation=Strict", holder.path),
        held(json!({"name": "x"})),
    )
    .await
    .is(201);
}

async fn duplicate_keys(c: Cx) {
    let path = c.core("configmaps").await;
    let twice = |name: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {{"name": "{name}"}}, "data": {{"a": "1", "a": "2"}}}}"#
        )
    };
    let send = |query: &str, media: &'static str, body: String| {
        c.send(Ask::new("POST", format!("{path}{query}")).bytes(media, body))
    };
    send("", "application/json", twice("a"))
        .await
        .is(201)
        .warns("duplicate field \"data.a\"")
        .has("/data/a", "2");
    send("?fieldValidation=Strict", "application/json", twice("b"))
        .await
        .fails(400, "BadRequest")
        .mentions("strict decoding error: duplicate field \"data.a\"");
    send("?fieldValidation=Ignore", "application/json", twice("c"))
        .await
        .is(201)
        .silent();
    let yaml =
        |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  x: '1'\n  x: '2'\n");
    send("", "application/yaml", yaml("d"))
        .await
        .is(201)
        .warns("line 7: key \"x\" already set in map")
        .has("/data/x", "2");
    send("?fieldValidation=Strict", "application/yaml", yaml("e"))
        .await
        .fails(400, "BadRequest")
        .mentions("yaml: unmarshal errors:\n  line 7: key \"x\" already set in map");
    send("?fieldValidation=Ignore", "application/yaml", yaml("f"))
        .await
        .is(201)
        .silent();
    // In a PUT and in patches.
    let change = |method: &'static str, query: &str, media: &'static str, body: &'static str| {
        c.send(Ask::new(method, format!("{path}/a{query}")).bytes(media, body))
    };
    const PUT: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "name": "a"},
        "data": {"x": "1", "x": "2"}}"#;
    let said = "strict decoding error: duplicate field \"metadata.name\", duplicate field \"data.x\"";
    change("PUT", "?fieldValidation=Strict", "application/json", PUT)
        .await
        .fails(400, "BadRequest")
        .mentions(said);
    change("PUT", "", "application/json", PUT)
        .await
        .is(200)
        .warns("duplicate field \"metadata.name\"")
        .warns("duplicate field \"data.x\"")
        .has("/data", json!({"x": "2"}));
    const PATCH: &str = r#"{"data": {"y": "1", "y": "2"}}"#;
    for media in ["application/merge-patch+json", "application/strategic-merge-patch+json"] {
        change("PATCH", "?fieldValidation=Strict", media, PATCH)
            .await
            .fails(422, "Invalid")
            .mentions("strict decoding error: duplicate field \"data.y\"");
        const BOTH: &str = r#"{"data": {"y": "1", "y": "2"}, "foo": 1}"#;
        change("PATCH", "?fieldValidation=Strict", media, BOTH)
            .await
            .fails(422, "Invalid")
            .mentions("strict decoding error: duplicate field \"data.y\", unknown field \"foo\"");
        change("PATCH", "?fieldValidation=Ignore", media, PATCH)
            .await
            .is(200)
            .silent();
        change("PATCH", "", media, PATCH)
            .await
            .is(200)
            .warns("duplicate field \"data.y\"")
            .has("/data/y", "2");
    }
    const OPERATIONS: &str = r#"[{"op": "add", "path": "/data/z", "value": "1", "value": "2"}]"#;
    let media = "application/json-patch+json";
    change("PATCH", "?fieldValidation=Strict", media, OPERATIONS)
        .await
        .fails(422, "Invalid")
        .mentions("strict decoding error: json patch duplicate field \"[0].value\"");
    change("PATCH", "", media, OPERATIONS)
        .await
        .is(200)
        .warns("json patch duplicate field \"[0].value\"")
        .has("/data/z", "2");
    const APPLY: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  q: '1'\n  q: '2'\n";
    change(
        "PATCH",
        "?fieldValidation=Strict&fieldManager=check",
        "application/apply-patch+yaml",
        APPLY,
    )
    .await
    .fails(400, "BadRequest")
    .mentions("error strict decoding YAML: ")
    .mentions("line 7: key \"q\" already set in map");
}

async fn dry_run(c: Cx) {
    let path = c.core("configmaps").await;
    let mut watch = c
        .watch(&format!(
            "{path}?watch=1&fieldSelector=metadata.name!%3Dkube-root-ca.crt"
        ))
        .await;
    let reply = c
        .post(&format!("{path}?dryRun=All"), config_map("a", json!({"k": "v"})))
        .await
        .is(201)
        .lacks("/metadata/resourceVersion");
    assert!(
        !reply.uid().is_empty() && reply["metadata"]["creationTimestamp"].is_string(),
        "{}",
        reply.came()
    );
    c.get(&format!("{path}/a")).await.is(404);
    c.make(&path, config_map("b", json!({"k": "v"}))).await;
    c.merge(&format!("{path}/b?dryRun=All"), json!({"data": {"k": "w"}}))
        .await
        .is(200)
        .has("/data/k", "w");
    c.delete(&format!("{path}/b?dryRun=All")).await.is(200);
    c.get(&format!("{path}/b")).await.is(200).has("/data/k", "v");
    c.make(&path, config_map("c", json!({}))).await;
    assert_eq!(
        watch.brief().await,
        ("ADDED".into(), "b".into()),
        "the dry run should not be seen"
    );
    assert_eq!(
        watch.brief().await,
        ("ADDED".into(), "c".into()),
        "the dry runs should not be seen"
    );
}

async fn bad_options(c: Cx) {
    let path = c.core("configmaps").await;
    let object = config_map("a", json!({}));
    let long = "a".repeat(129);
    for (query, message) in [
        (
            "dryRun=Bad".to_owned(),
            "dryRun: Unsupported value: [\"Bad\"]: supported values: \"All\"",
        ),
        (
            "fieldValidation=Bad".to_owned(),
            "fieldValidation: Unsupported value: \"Bad\": supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"",
        ),
        (
            format!("fieldManager={long}"),
            "fieldManager: Too long: may not be more than 128 bytes",
        ),
        (
            "fieldManager=a%01b".to_owned(),
            "invalid character U+0001 (at position 1)",
        ),
    ] {
        c.post(&format!("{path}?{query}"), object.clone())
            .await
            .fails(422, "Invalid")
            .mentions("CreateOptions.meta.k8s.io \"\" is invalid: ")
            .mentions(message);
    }
    c.get(&format!("{path}/a")).await.is(404);
    c.make(&path, object.clone()).await;
    let path = format!("{path}/a");
    for query in [
        "dryRun=Bad".to_owned(),
        "fieldValidation=Bad".to_owned(),
        format!("fieldManager={long}"),
        "fieldManager=a%01b".to_owned(),
    ] {
        let path = format!("{path}?{query}");
        let refused = |options: &str| {
            format!(
                "{options}.meta.k8s.io \"\" is invalid: {}",
                query.split('=').next().unwrap()
            )
        };
        c.put(&path, &object)
            .await
            .fails(422, "Invalid")
            .mentions(&refused("UpdateOptions"));
        for reply in [c.merge(&path, json!({})).await, c.json_patch(&path, json!([])).await] {
            reply.fails(422, "Invalid").mentions(&refused("PatchOptions"));
        }
        if query.starts_with("dryRun") {
            c.delete(&path)
                .await
                .fails(422, "Invalid")
                .mentions(&refused("DeleteOptions"));
        }
    }
    let applied = format!("{path}?dryRun=Bad");
    c.send(Ask::patch("apply", applied, &object))
        .await
        .fails(422, "Invalid")
        .mentions("PatchOptions.meta.k8s.io \"\" is invalid: [fieldManager: Required value: is required for apply patch, dryRun: ");
    c.get(&path).await.is(200);
}

async fn labels(c: Cx) {
    let path = c.core("configmaps").await;
    let with = |key: &str, value: serde_json::Value| {
        let mut object = config_map("a", json!({}));
        object["metadata"][key] = value;
        object
    };
    c.post(&path, with("labels", json!({"a": "b c"})))
        .await
        .fails(422, "Invalid")
        .mentions("metadata.labels: Invalid value: \"b c\": ");
    c.post(&path, with("labels", json!({"a b": "c"})))
        .await
        .fails(422, "Invalid")
        .mentions("metadata.labels: Invalid value: \"a b\": ");
    c.post(&path, with("labels", json!({"a": "c".repeat(64)})))
        .await
        .fails(422, "Invalid");
    c.post(&path, with("labels", json!({"Upper.example.com/a": "c"})))
        .await
        .fails(422, "Invalid");
    c.post(&path, with("annotations", json!({"a b": "c"})))
        .await
        .fails(422, "Invalid")
        .mentions("metadata.annotations: Invalid value: \"a b\": ");
    c.post(&path, with("annotations", json!({"a": "c".repeat(262_145)})))
        .await
        .fails(422, "Invalid")
        .says("ConfigMap \"a\" is invalid: metadata.annotations: Too long: may not be more than 262144 bytes")
        .has("/details/causes/0/reason", "FieldValueTooLong");
    c.post(&path, with("annotations", json!({"a": "c".repeat(200_000)})))
        .await
        .is(201);
}

async fn finalizers(c: Cx) {
    let path = c.core("configmaps").await;
    let mut object = config_map("a", json!({}));
    object["metadata"]["finalizers"] = json!(["foo"]);
    c.post(&path, object)
        .await
        .fails(422, "Invalid")
        .mentions("metadata.finalizers")
        .mentions("name is neither a standard finalizer name nor is it fully qualified");
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let mut object = kind.object("a", json!({}));
    object["metadata"]["finalizers"] = json!(["foo"]);
    c.make(&kind.path, object.clone()).await.warns(
        "metadata.finalizers: \"foo\": prefer a domain-qualified finalizer name to avoid accidental conflicts with other \
         finalizer writers",
    );
    c.merge(&kind.at("a"), json!({"metadata": {"finalizers": null}}))
        .await
        .is(200);
}

async fn owners(c: Cx) {
    let path = c.core("configmaps").await;
    let owner = c.make(&path, config_map("owner", json!({}))).await.uid();
    let reference = |name: &str, uid: &str, controller: bool| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": controller});
    let mut object = config_map("a", json!({}));
    object["metadata"]["ownerReferences"] =
        json!([reference("owner", &owner, false), reference("owner", &owner, false)]);
    let reply = c
        .post(&path, object)
        .await
        .is(201)
        .warns(".metadata.ownerReferences contains duplicate entries");
    assert_eq!(reply["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    let mut object = config_map("b", json!({}));
    object["metadata"]["ownerReferences"] = json!([reference("owner", &owner, true), reference("other", "u2", true)]);
    c.post(&path, object).await.fails(422, "Invalid").mentions(
        "Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/owner and ConfigMap/other",
    );
    let mut object = config_map("c", json!({}));
    object["metadata"]["ownerReferences"] = json!([reference("owner", "", false)]);
    c.post(&path, object)
        .await
        .fails(422, "Invalid")
        .mentions("metadata.ownerReferences.uid: Invalid value: \"\": must not be empty");
}

async fn too_large(c: Cx) {
    let path = c.core("configmaps").await;
    let ask = Ask::post(&path, &config_map("a", json!({"k": "v".repeat(3 << 20)})));
    c.send(ask)
        .await
        .fails(413, "RequestEntityTooLarge")
        .says("Request entity too large: limit is 3145728");
    c.post(&path, config_map("a", json!({"k": "v".repeat((1 << 20) + 1)})))
        .await
        .fails(422, "Invalid")
        .mentions("Too long: may not be more than 1048576 bytes");
    let properties = json!({"big": {"type": "string"}});
    let kind = c.define_simple("things", "Thing", properties).await;
    let reply = c
        .post(&kind.path, kind.object("a", json!({"big": "v".repeat(2_000_000)})))
        .await;
    assert!(
        reply.code >= 400,
        "an object of 2 MB is too large for the storage; came {}",
        reply.code
    );
    c.get(&kind.at("a")).await.is(404);
    c.post(&kind.path, kind.object("b", json!({"big": "v".repeat(1_400_000)})))
        .await
        .is(201);
    // What grows over it is refused as well, and stays as it was.
    let reply = c
        .merge(
            &kind.at("b"),
            json!({"metadata": {"annotations": {"a": "v".repeat(200_000)}}, "spec": {"more": 1}}),
        )
        .await;
    assert!(reply.code >= 400, "it grew to 1.6 MB; came {}", reply.code);
    c.get(&kind.at("b")).await.is(200).lacks("/metadata/annotations");
    c.make(&path, config_map("grows", json!({"k": "v".repeat(300_000)})))
        .await;
    c.merge(&format!("{path}/grows"), json!({"data": {"more": "v".repeat(900_000)}}))
        .await
        .fails(422, "Invalid")
        .says("ConfigMap \"grows\" is invalid: []: Too long: may not be more than 1048576 bytes");
    let copies = |count: usize| -> Value {
        (0..count)
            .map(|it| json!({"op": "copy", "from": "/data/k", "path": format!("/data/k{it}")}))
            .collect()
    };
    c.json_patch(&format!("{path}/grows"), copies(4))
        .await
        .fails(422, "Invalid")
        .mentions("Too long: may not be more than 1048576 bytes");
    c.get(&format!("{path}/grows")).await.is(200).lacks("/data/k0");
}
