//! Media types in and out: JSON, YAML, protobuf, tables and partial objects.

use crate::{
    check::{Check, must, should},
    client::{Ask, Reply},
    cx::{CRDS, CSRS, Cx, RBAC, config_map, csr, definition, deployment, signing_request},
    proto::{Message, message, metadata},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use flate2::read::GzDecoder;
use serde_json::{Value, json};
use std::io::Read;

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "29",
            "a body without Content-Type is JSON; a charset is ignored; YAML is read",
            json_and_yaml,
        ),
        must("30", "a body of an unknown type is 415", unknown_type),
        must(
            "31",
            "a ConfigMap as protobuf is created and answered in JSON",
            config_map_protobuf,
        ),
        must(
            "32",
            "what client-go sends as protobuf is stored as its JSON would be",
            every_protobuf,
        ),
        must("33", "CSR approval and reviews are taken as protobuf", reviews),
        must(
            "34",
            "DeleteOptions as protobuf are taken for built-in kinds and custom resources",
            delete_options,
        ),
        must(
            "35",
            "protobuf before JSON or anything is answered in a matching encoding",
            protobuf_accept,
        ),
        must(
            "36",
            "zero replicas survive protobuf, unset fields do not appear",
            zeros,
        ),
        should(
            "37",
            "broken protobuf is 400, protobuf for a custom resource is 415",
            broken_protobuf,
        ),
        must("38", "CBOR is 406, as a Status in JSON", cbor),
        must("39", "YAML is answered when asked for", yaml),
        must("40", "lists and objects as Table have Kubernetes' columns", tables),
        should(
            "41",
            "includeObject gives no object, all of it or its metadata; anything else is 400",
            include_object,
        ),
        must(
            "42",
            "partial metadata of objects, lists and watches; the wrong pairing is 406",
            partial,
        ),
        should(
            "43",
            "a large list is compressed for who accepts it, a watch never",
            gzip,
        ),
    ]
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

async fn json_and_yaml(c: Cx) {
    let path = c.core("configmaps").await;
    let body = |name: &str| config_map(name, json!({"k": "v"})).to_string();
    c.send(Ask::new("POST", &path).untyped(body("a")))
        .await
        .is(201)
        .has("/data/k", "v");
    c.send(Ask::new("POST", &path).bytes("application/json; charset=utf-8", body("b")))
        .await
        .is(201);
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  k: v\n";
    c.send(Ask::new("POST", &path).bytes("application/yaml", yaml))
        .await
        .is(201)
        .has("/data/k", "v");
    c.send(Ask::new("POST", &path).bytes("application/json", yaml.replace("name: c", "name: d")))
        .await
        .is(400);
}

async fn unknown_type(c: Cx) {
    let path = c.core("configmaps").await;
    let ask = Ask::new("POST", &path).bytes("text/plain", config_map("a", json!({})).to_string());
    c.send(ask).await.fails(415, "UnsupportedMediaType").says(
        "the body of the request was in an unknown format - accepted media types include: application/json, \
         application/yaml, application/vnd.kubernetes.protobuf",
    );
    c.get(&format!("{path}/a")).await.is(404);
}

/// The answer is to be read, so it is asked for in JSON.
fn protobuf(method: &str, path: impl Into<String>, body: Bytes) -> Ask {
    Ask::new(method, path).bytes(PROTOBUF, body).accept("application/json")
}

async fn config_map_protobuf(c: Cx) {
    let path = c.core("configmaps").await;
    let body = message()
        .message(1, metadata("a").entry(11, "l", "1"))
        .entry(2, "k", "v")
        .entry(2, "empty", "")
        .envelope("v1", "ConfigMap");
    let ask = Ask::new("POST", &path).bytes(PROTOBUF, body).accept("application/json");
    c.send(ask).await.is(201);
    c.get(&format!("{path}/a"))
        .await
        .is(200)
        .has("/data", json!({"k": "v", "empty": ""}))
        .has("/metadata/labels", json!({"l": "1"}))
        .lacks("/metadata/generateName")
        .lacks("/binaryData");
}

/// What differs between two objects that say the same.
fn comparable(reply: Reply, name: &str) -> Value {
    let mut value = reply.json;
    // Where there are controllers, they have begun with the one and not yet with the other.
    let metadata = value["metadata"].as_object_mut().unwrap();
    for key in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "managedFields",
        "annotations",
    ] {
        metadata.remove(key);
    }
    value.as_object_mut().unwrap().remove("status");
    for key in ["clusterIP", "clusterIPs"] {
        if let Some(spec) = value.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove(key);
        }
    }
    let text = value.to_string();
    serde_json::from_str(&text.replace(name, "NAME")).unwrap()
}

/// Creates one object as protobuf and one as JSON and compares what is stored.
async fn same(c: &Cx, path: &str, json: impl Fn(&str) -> Value, proto: impl Fn(&str) -> Message) {
    let (one, other) = (c.name("proto"), c.name("jason"));
    let object = json(&one);
    let (api_version, kind) = (object["apiVersion"].as_str().unwrap(), object["kind"].as_str().unwrap());
    let reply = c
        .send(protobuf("POST", path, proto(&one).envelope(api_version, kind)))
        .await;
    let reply = reply.is(201);
    let made = reply["metadata"]["name"].as_str().unwrap().to_owned();
    c.removes(&format!("{path}/{made}"));
    let other = c.make(path, json(&other)).await["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let as_proto = comparable(c.get(&format!("{path}/{made}")).await.is(200), &one);
    let as_json = comparable(c.get(&format!("{path}/{other}")).await.is(200), &c.name("jason"));
    assert_eq!(as_proto, as_json, "{kind}");
}

async fn every_protobuf(c: Cx) {
    let namespace = c.namespace().await;
    let core = |plural: &str| format!("/api/v1/namespaces/{namespace}/{plural}");
    let named = |api_version: &'static str, kind: &'static str, rest: Value| {
        move |name: &str| {
            let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
            for (key, value) in rest.as_object().unwrap() {
                object[key] = value.clone();
            }
            object
        }
    };
    let meta = |name: &str| message().message(1, metadata(name));

    same(&c, "/api/v1/namespaces", named("v1", "Namespace", json!({})), |it| {
        meta(it).message(2, message()).message(3, message().text(1, ""))
    })
    .await;
    let secret = named(
        "v1",
        "Secret",
        json!({"data": {"k": STANDARD.encode("v")}, "stringData": {"s": "t"}, "type": "Opaque"}),
    );
    same(&c, &core("secrets"), secret, |it| {
        meta(it).entry(2, "k", "v").text(3, "Opaque").entry(4, "s", "t")
    })
    .await;
    same(
        &c,
        &core("serviceaccounts"),
        named("v1", "ServiceAccount", json!({"automountServiceAccountToken": false})),
        |it| meta(it).integer(4, 0),
    )
    .await;
    let service = named(
        "v1",
        "Service",
        json!({"spec": {"ports": [{"name": "http", "port": 80, "targetPort": "web"}], "selector": {"a": "b"}}}),
    );
    same(&c, &core("services"), service, |it| {
        let target = message().integer(1, 1).integer(2, 0).text(3, "web");
        let port = message()
            .text(1, "http")
            .text(2, "")
            .integer(3, 80)
            .message(4, target)
            .integer(5, 0);
        let spec = message()
            .message(1, port)
            .entry(2, "a", "b")
            .text(3, "")
            .text(4, "")
            .text(7, "")
            .text(8, "");
        meta(it).message(2, spec).message(3, message().message(1, message()))
    })
    .await;
    same(
        &c,
        &format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
        deployment,
        |it| {
            let container = message()
                .text(1, "c1")
                .text(2, "img:1")
                .text(5, "")
                .message(8, message())
                .text(13, "")
                .text(14, "");
            let pod = message()
                .message(2, container)
                .text(3, "")
                .text(6, "")
                .text(8, "")
                .text(9, "")
                .text(10, "");
            let template = message().message(1, metadata("").entry(11, "app", it)).message(2, pod);
            let spec = message()
                .message(2, message().entry(1, "app", it))
                .message(3, template)
                .message(4, message().text(1, ""))
                .integer(5, 0)
                .integer(7, 0);
            meta(it).message(2, spec).message(3, message().integer(1, 0))
        },
    )
    .await;
    let rules = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]});
    let rule = || message().texts(1, &["get", "list"]).text(2, "").text(3, "pods");
    let rbac = "rbac.authorization.k8s.io/v1";
    same(
        &c,
        &format!("{RBAC}/clusterroles"),
        named(rbac, "ClusterRole", rules.clone()),
        |it| meta(it).message(2, rule()),
    )
    .await;
    let roles = format!("{RBAC}/namespaces/{namespace}/roles");
    same(&c, &roles, named(rbac, "Role", rules), |it| meta(it).message(2, rule())).await;
    let subject = || message().text(1, "User").text(2, "").text(3, "u").text(4, "");
    for (kind, role, path) in [
        (
            "ClusterRoleBinding",
            "ClusterRole",
            format!("{RBAC}/clusterrolebindings"),
        ),
        (
            "RoleBinding",
            "Role",
            format!("{RBAC}/namespaces/{namespace}/rolebindings"),
        ),
    ] {
        let binding = json!({"subjects": [{"kind": "User", "name": "u"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": "none"}});
        same(&c, &path, named(rbac, kind, binding), |it| {
            let role = message()
                .text(1, "rbac.authorization.k8s.io")
                .text(2, role)
                .text(3, "none");
            meta(it).message(2, subject()).message(3, role)
        })
        .await;
    }
    let lease = json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 60, "renewTime": "2023-11-14T22:13:20.000005Z"}});
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    same(&c, &leases, named("coordination.k8s.io/v1", "Lease", lease), |it| {
        let time = message().integer(1, 1_700_000_000).integer(2, 5000);
        meta(it).message(2, message().text(1, "me").integer(2, 60).message(4, time))
    })
    .await;
    let (request, _) = signing_request("somebody", &[]);
    let signer = "example.com/custom";
    same(
        &c,
        CSRS,
        |it| csr(it, &request, signer, &["client auth"]),
        |it| {
            let spec = message()
                .bytes(1, request.as_bytes())
                .text(2, "")
                .text(3, "")
                .text(5, "client auth")
                .text(7, signer);
            meta(it).message(2, spec).message(3, message())
        },
    )
    .await;
    let event = json!({"eventTime": "2023-11-14T22:13:20.000005Z", "reportingController": "ex.io/c", "reportingInstance": "i",
        "action": "Act", "reason": "Because", "type": "Normal", "note": "text",
        "regarding": {"kind": "ConfigMap", "namespace": namespace, "name": "x"}});
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    same(&c, &events, named("events.k8s.io/v1", "Event", event), |it| {
        let regarding = message()
            .text(1, "ConfigMap")
            .text(2, &namespace)
            .text(3, "x")
            .text(4, "")
            .text(5, "")
            .text(6, "")
            .text(7, "");
        let source = message().text(1, "").text(2, "");
        meta(it)
            .message(2, message().integer(1, 1_700_000_000).integer(2, 5000))
            .text(4, "ex.io/c")
            .text(5, "i")
            .text(6, "Act")
            .text(7, "Because")
            .message(8, regarding)
            .text(10, "text")
            .text(11, "Normal")
            .message(12, source)
            .message(13, message())
            .message(14, message())
            .integer(15, 0)
    })
    .await;
    custom_resource_definition(&c).await;
}

async fn custom_resource_definition(c: &Cx) {
    let group = c.group();
    let mut made = Vec::new();
    for (plural, kind) in [("protos", "Proto"), ("jsons", "Json")] {
        let path = format!("{CRDS}/{plural}.{group}");
        if plural == "jsons" {
            let versions = json!([{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "string"}}}}}]);
            c.make(CRDS, definition(&group, plural, kind, json!({"versions": versions})))
                .await;
        } else {
            let names = message().text(1, plural).text(2, "").text(4, kind).text(5, "");
            let property = message().text(1, "spec").message(2, message().text(5, "string"));
            let schema = message().message(1, message().text(5, "object").message(29, property));
            let version = message()
                .text(1, "v1")
                .integer(2, 1)
                .integer(3, 1)
                .message(4, schema)
                .message(5, message().message(1, message()))
                .integer(7, 0);
            let spec = message()
                .text(1, &group)
                .message(3, names)
                .text(4, "Namespaced")
                .message(7, version)
                .integer(10, 0);
            let accepted = message().text(1, "").text(2, "").text(4, "").text(5, "");
            let body = message()
                .message(1, metadata(&format!("{plural}.{group}")))
                .message(2, spec)
                .message(3, message().message(2, accepted))
                .envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition");
            c.send(protobuf("POST", CRDS, body)).await.is(201);
            c.removes(&path);
        }
        let (reply, _) = c.until(&path, |it| crate::cx::is_established(&it.json)).await;
        let spec = reply["spec"]
            .to_string()
            .replace(plural, "PLURAL")
            .replace(kind, "KIND");
        made.push(spec.replace(&kind.to_lowercase(), "SINGULAR"));
    }
    assert_eq!(made[0], made[1], "CustomResourceDefinition");
}

async fn reviews(c: Cx) {
    let namespace = c.namespace().await;
    let (request, _) = signing_request("somebody", &[]);
    let name = c.name("csr");
    c.make(CSRS, csr(&name, &request, "example.com/custom", &["client auth"]))
        .await;
    let time = message();
    let condition = message()
        .text(1, "Approved")
        .text(2, "Why")
        .text(3, "because")
        .message(4, time.clone())
        .message(5, time)
        .text(6, "True");
    let body = message()
        .message(1, metadata(&name))
        .message(
            2,
            message()
                .bytes(1, request.as_bytes())
                .text(7, "example.com/custom")
                .text(5, "client auth"),
        )
        .message(3, message().message(1, condition))
        .envelope("certificates.k8s.io/v1", "CertificateSigningRequest");
    c.send(protobuf("PUT", format!("{CSRS}/{name}/approval"), body))
        .await
        .is(200);
    c.get(&format!("{CSRS}/{name}"))
        .await
        .has("/status/conditions/0/type", "Approved");

    let attributes = || {
        message()
            .text(1, &namespace)
            .text(2, "get")
            .text(3, "")
            .text(4, "")
            .text(5, "pods")
            .text(6, "")
            .text(7, "")
    };
    let authorization = "authorization.k8s.io/v1";
    let body = message()
        .message(1, metadata(""))
        .message(2, message().message(1, attributes()));
    let reply = c
        .send(protobuf(
            "POST",
            format!("/apis/{authorization}/selfsubjectaccessreviews"),
            body.envelope(authorization, "SelfSubjectAccessReview"),
        ))
        .await;
    reply.is(201).has("/status/allowed", true);
    let body = message()
        .message(1, metadata(""))
        .message(2, message().message(1, attributes()).text(3, "nobody"));
    let reply = c
        .send(protobuf(
            "POST",
            format!("/apis/{authorization}/subjectaccessreviews"),
            body.envelope(authorization, "SubjectAccessReview"),
        ))
        .await;
    reply.is(201).has("/status/allowed", false);

    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    c.make(&path, json!({"metadata": {"name": "sa"}})).await;
    let authentication = "authentication.k8s.io/v1";
    let body = message()
        .message(1, metadata(""))
        .message(2, message().integer(4, 3600))
        .message(3, message());
    let reply = c
        .send(protobuf(
            "POST",
            format!("{path}/sa/token"),
            body.envelope(authentication, "TokenRequest"),
        ))
        .await
        .is(201);
    let token = reply["status"]["token"].as_str().expect("a token").to_owned();
    let body = message().message(1, metadata("")).message(2, message().text(1, &token));
    let reply = c
        .send(protobuf(
            "POST",
            format!("/apis/{authentication}/tokenreviews"),
            body.envelope(authentication, "TokenReview"),
        ))
        .await;
    reply
        .is(201)
        .has("/status/authenticated", true)
        .has("/status/user/username", format!("system:serviceaccount:{namespace}:sa"));
}

async fn delete_options(c: Cx) {
    let path = c.core("configmaps").await;
    let options = |version: &str| {
        message()
            .integer(1, 0)
            .text(4, "Background")
            .envelope(version, "DeleteOptions")
    };
    c.make(&path, config_map("a", json!({}))).await;
    c.send(protobuf("DELETE", format!("{path}/a"), options("v1")))
        .await
        .is(200);
    c.get(&format!("{path}/a")).await.is(404);
    c.make(&path, config_map("a", json!({}))).await;
    c.send(protobuf("DELETE", format!("{path}/a"), options("apps/v1")))
        .await
        .is(200);
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.make(&kind.path, kind.object("a", json!({}))).await;
    let ask = Ask::delete(kind.at("a"))
        .bytes(PROTOBUF, options("v1"))
        .accept("application/json");
    c.send(ask).await.is(200);
    c.get(&kind.at("a")).await.is(404);
}

async fn protobuf_accept(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    for accept in [
        "application/vnd.kubernetes.protobuf,application/json",
        "application/vnd.kubernetes.protobuf, */*",
    ] {
        for path in [path.clone(), format!("{path}/a")] {
            let reply = c.send(Ask::get(&path).accept(accept)).await.is(200);
            match reply.header("content-type").as_str() {
                PROTOBUF => assert!(reply.bytes.starts_with(b"k8s\0"), "{accept}: no protobuf"),
                it => assert!(
                    it.starts_with("application/json") && reply.json.is_object(),
                    "{accept}: {it}"
                ),
            }
        }
    }
}

async fn zeros(c: Cx) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", c.namespace().await);
    let container = message()
        .text(1, "c1")
        .text(2, "img:1")
        .text(5, "")
        .message(8, message());
    let template = message()
        .message(1, metadata("").entry(11, "app", "a"))
        .message(2, message().message(2, container).text(3, ""));
    let spec = message()
        .integer(1, 0)
        .message(2, message().entry(1, "app", "a"))
        .message(3, template)
        .message(4, message().text(1, ""))
        .integer(5, 0)
        .integer(7, 0);
    let body = message()
        .message(1, metadata("a"))
        .message(2, spec)
        .message(3, message().integer(1, 0));
    c.send(protobuf("POST", &path, body.envelope("apps/v1", "Deployment")))
        .await
        .is(201);
    let reply = c.get(&format!("{path}/a")).await.is(200).has("/spec/replicas", 0);
    for pointer in [
        "/spec/minReadySeconds",
        "/spec/paused",
        "/status/observedGeneration",
        "/spec/template/spec/containers/0/workingDir",
        "/spec/template/spec/nodeName",
        "/metadata/generateName",
        "/metadata/selfLink",
    ] {
        assert!(
            reply.json.pointer(pointer).is_none(),
            "{pointer} appears: {}",
            reply.came()
        );
    }
}

async fn broken_protobuf(c: Cx) {
    let path = c.core("configmaps").await;
    let body = message()
        .message(1, metadata("a"))
        .entry(2, "k", "value of some length")
        .envelope("v1", "ConfigMap");
    c.send(protobuf("POST", &path, body.slice(..body.len() - 12)))
        .await
        .fails(400, "BadRequest");
    let ask = Ask::new("POST", &path).bytes(PROTOBUF, "{\"apiVersion\": \"v1\"}");
    c.send(ask).await.fails(400, "BadRequest").mentions(
        "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf \
         message, expected prefix [107 56 115 0]",
    );
    let kind = c.define_simple("things", "Thing", json!({})).await;
    let body = message().message(1, metadata("a")).envelope(&kind.api_version, "Thing");
    // Kubernetes 1.36 has no answer: it resets the stream.
    if let Ok(reply) = c
        .admin
        .attempt(&Ask::new("POST", &kind.path).bytes(PROTOBUF, body))
        .await
    {
        reply.fails(415, "UnsupportedMediaType");
    }
    c.get(&kind.at("a")).await.is(404);
}

async fn cbor(c: Cx) {
    let reply = c
        .send(Ask::get("/api/v1/namespaces/default").accept("application/cbor"))
        .await
        .fails(406, "NotAcceptable");
    assert!(reply.header("content-type").starts_with("application/json"));
}

async fn yaml(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v", "yes": "no"}))).await;
    let reply = c
        .send(Ask::get(format!("{path}/a")).accept("application/yaml"))
        .await
        .is(200);
    assert!(reply.header("content-type").starts_with("application/yaml"));
    let value: Value = serde_saphyr::from_str(&reply.text()).expect("YAML");
    assert_eq!(
        (&value["kind"], &value["data"]["yes"]),
        (&json!("ConfigMap"), &json!("no"))
    );
}

const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

/// Resource and columns; those with a star have priority 1, types other than text follow a colon.
const COLUMNS: &[(&str, &str)] = &[
    ("/api/v1/configmaps", "Name Data Age"),
    ("/api/v1/secrets", "Name Type Data Age"),
    ("/api/v1/serviceaccounts", "Name Age"),
    ("/api/v1/namespaces", "Name Status Age"),
    (
        "/api/v1/pods",
        "Name Ready Status Restarts Age IP* Node* Nominated_Node* Readiness_Gates*",
    ),
    (
        "/api/v1/services",
        "Name Type Cluster-IP External-IP Port(s) Age Selector*",
    ),
    ("/api/v1/endpoints", "Name Endpoints Age"),
    (
        "/api/v1/events",
        "Last_Seen Type Reason Object Subobject* Source* Message First_Seen* Count* Name*",
    ),
    (
        "/api/v1/nodes",
        "Name Status Roles Age Version Internal-IP* External-IP* OS-Image* Kernel-Version* Container-Runtime*",
    ),
    (
        "/apis/apps/v1/deployments",
        "Name Ready Up-to-date Available Age Containers* Images* Selector*",
    ),
    (
        "/apis/apps/v1/replicasets",
        "Name Desired:integer Current:integer Ready:integer Age Containers* Images* Selector*",
    ),
    ("/apis/apps/v1/statefulsets", "Name Ready Age Containers* Images*"),
    (
        "/apis/apps/v1/daemonsets",
        "Name Desired:integer Current:integer Ready:integer Up-to-date:integer Available:integer Node_Selector Age Containers* Images* Selector*",
    ),
    (
        "/apis/batch/v1/jobs",
        "Name Status Completions Duration Age Containers* Images* Selector*",
    ),
    (
        "/apis/batch/v1/cronjobs",
        "Name Schedule Timezone Suspend:boolean Active:integer Last_Schedule Age Containers* Images* Selector*",
    ),
    (
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "Name Age SignerName Requestor RequestedDuration Condition",
    ),
    ("/apis/coordination.k8s.io/v1/leases", "Name Holder Age"),
    (
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "Name Role Age Users* Groups* ServiceAccounts*",
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "Name Created_At:date",
    ),
    (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "Name Created_At:date",
    ),
    (
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "Name Webhooks:integer Age",
    ),
    (
        "/apis/networking.k8s.io/v1/ingresses",
        "Name Class Hosts Address Ports Age",
    ),
    ("/apis/networking.k8s.io/v1/networkpolicies", "Name Pod-Selector Age"),
    (
        "/apis/policy/v1/poddisruptionbudgets",
        "Name Min_Available Max_Unavailable Allowed_Disruptions:integer Age",
    ),
    (
        "/apis/autoscaling/v2/horizontalpodautoscalers",
        "Name Reference Targets MinPods MaxPods Replicas Age",
    ),
    (
        "/apis/discovery.k8s.io/v1/endpointslices",
        "Name AddressType Ports Endpoints Age",
    ),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        "Name Provisioner ReclaimPolicy VolumeBindingMode AllowVolumeExpansion Age",
    ),
    (
        "/apis/autoscaling/v1/horizontalpodautoscalers",
        "Name Reference Targets MinPods MaxPods Replicas Age",
    ),
    ("/api/v1/podtemplates", "Name Containers Images Pod_Labels"),
    ("/apis/node.k8s.io/v1/runtimeclasses", "Name Handler Age"),
    (
        "/apis/storage.k8s.io/v1/csidrivers",
        "Name AttachRequired:boolean PodInfoOnMount:boolean StorageCapacity:boolean TokenRequests RequiresRepublish:boolean \
         Modes Age",
    ),
    ("/apis/storage.k8s.io/v1/csinodes", "Name Drivers:integer Age"),
    (
        "/apis/storage.k8s.io/v1/volumeattachments",
        "Name Attacher PV Node Attached:boolean Age",
    ),
    (
        "/apis/apiregistration.k8s.io/v1/apiservices",
        "Name Service Available Age",
    ),
];

fn columns(table: &Reply) -> String {
    let definitions = table["columnDefinitions"]
        .as_array()
        .unwrap_or_else(|| panic!("no columns: {}", table.came()));
    let words = definitions.iter().map(|it| {
        let mut word = it["name"].as_str().unwrap().replace(' ', "_");
        if it["type"] != "string" {
            word = format!("{word}:{}", it["type"].as_str().unwrap());
        }
        if it["priority"] == 1 { format!("{word}*") } else { word }
    });
    words.collect::<Vec<_>>().join(" ")
}

async fn tables(c: Cx) {
    let mut wrong = Vec::new();
    for (path, wanted) in COLUMNS {
        let table = c
            .send(Ask::get(*path).accept(TABLE))
            .await
            .is(200)
            .has("/kind", "Table")
            .has("/apiVersion", "meta.k8s.io/v1");
        let came = columns(&table);
        if came != *wanted {
            wrong.push(format!("{path}\n  expected {wanted}\n  came     {came}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let deployments = format!(
        "/apis/apps/v1/namespaces/{}/deployments",
        c.namespace_called("scaled").await
    );
    c.make(&deployments, deployment("d")).await;
    let table = c
        .send(Ask::get(format!("{deployments}/d/scale")).accept(TABLE))
        .await
        .is(200);
    assert_eq!(columns(&table), "Name Desired:integer Available:integer Age");
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let table = c
        .send(Ask::get(format!("{path}/a")).accept(TABLE))
        .await
        .is(200)
        .has("/rows/0/cells/0", "a")
        .has("/rows/0/cells/1", 1);
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["columnDefinitions"][0]["format"], "name");
    assert!(table.header("content-type").starts_with("application/json"));
    let beta = Ask::get(&path).accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io");
    c.send(beta).await.is(200).has("/apiVersion", "meta.k8s.io/v1beta1");
    let kind = c.define_simple("things", "Thing", json!({})).await;
    c.make(&kind.path, kind.object("a", json!({}))).await;
    let table = c
        .send(Ask::get(&kind.path).accept(TABLE))
        .await
        .is(200)
        .has("/rows/0/cells/0", "a");
    assert_eq!(columns(&table), "Name Age:date");
}

async fn include_object(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let ask = |include: &str| Ask::get(format!("{path}?includeObject={include}")).accept(TABLE);
    let none = c.send(ask("None")).await.is(200);
    let row = none["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["cells"][0] == "a")
        .unwrap()
        .clone();
    assert!(row["object"].is_null(), "{row}");
    let whole = c.send(ask("Object")).await.is(200);
    let row = whole["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["cells"][0] == "a")
        .unwrap()
        .clone();
    assert_eq!(
        (&row["object"]["kind"], &row["object"]["data"]["k"]),
        (&json!("ConfigMap"), &json!("v"))
    );
    let metadata = c.send(ask("Metadata")).await.is(200);
    let row = metadata["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["cells"][0] == "a")
        .unwrap()
        .clone();
    assert_eq!(
        (&row["object"]["kind"], &row["object"]["data"]),
        (&json!("PartialObjectMetadata"), &Value::Null)
    );
    c.send(ask("Bad")).await.fails(400, "BadRequest").says(
        "Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be 'Metadata', 'Object', \
         'None', or empty",
    );
}

async fn partial(c: Cx) {
    let path = c.core("configmaps").await;
    c.make(&path, config_map("a", json!({"k": "v"}))).await;
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    c.send(Ask::get(format!("{path}/a")).accept(one))
        .await
        .is(200)
        .has("/kind", "PartialObjectMetadata")
        .has("/apiVersion", "meta.k8s.io/v1")
        .has("/metadata/name", "a")
        .lacks("/data");
    let reply = c
        .send(Ask::get(&path).accept(list))
        .await
        .is(200)
        .has("/kind", "PartialObjectMetadataList");
    for item in reply["items"].as_array().unwrap() {
        assert_eq!(
            (&item["kind"], &item["apiVersion"]),
            (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
        );
    }
    let mut watch = c
        .admin
        .watch(Ask::get(format!("{path}?watch=1&fieldSelector=metadata.name%3Da")).accept(one))
        .await;
    let (kind, object) = watch.next().await;
    assert_eq!(
        (kind.as_str(), &object["kind"], &object["data"]),
        ("ADDED", &json!("PartialObjectMetadata"), &Value::Null)
    );
    c.send(Ask::get(&path).accept(one))
        .await
        .fails(406, "NotAcceptable")
        .says("you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)");
    c.send(Ask::get(format!("{path}/a")).accept(list))
        .await
        .fails(406, "NotAcceptable");
    let metadata_client = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                           application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    c.send(Ask::get(&path).accept(metadata_client)).await.is(200);
}

async fn gzip(c: Cx) {
    let path = c.core("configmaps").await;
    let text = "some text to be compressed ".repeat(3000);
    for name in ["a", "b"] {
        c.make(&path, config_map(name, json!({"k": text}))).await;
    }
    let reply = c.send(Ask::get(&path).with("accept-encoding", "gzip")).await.is(200);
    assert_eq!(reply.header("content-encoding"), "gzip");
    assert!(
        reply.header("vary").contains("Accept-Encoding"),
        "Vary is {:?}",
        reply.header("vary")
    );
    let mut json = String::new();
    GzDecoder::new(&reply.bytes[..])
        .read_to_string(&mut json)
        .expect("gzip");
    let list: Value = serde_json::from_str(&json).expect("JSON");
    assert!(list["items"].as_array().unwrap().len() >= 2);
    let plain = c.get(&path).await.is(200);
    assert_eq!(plain.header("content-encoding"), "");
    let small = c
        .send(Ask::get("/api/v1/namespaces/default").with("accept-encoding", "gzip"))
        .await
        .is(200);
    assert_eq!(small.header("content-encoding"), "");
    let mut watch = c
        .admin
        .watch(Ask::get(format!("{path}?watch=1")).with("accept-encoding", "gzip"))
        .await;
    assert!(
        watch.headers.get("content-encoding").is_none(),
        "a watch is never compressed"
    );
    assert_eq!(watch.next().await.0, "ADDED");
}
