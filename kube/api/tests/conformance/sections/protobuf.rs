//! Protobuf, as Go's clients send and read it.

use crate::{
    check::{Check, must, should},
    client::{Ask, Reply},
    cx::{CRDS, CSRS, Cx, RBAC, config_map, csr, definition, deployment, signing_request},
    proto::{Message, message, metadata},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "31",
            "a ConfigMap as protobuf is created and answered in JSON",
            config_map_protobuf,
        ),
        must(
            "32",
            "what client-go sends as protobuf is stored as its JSON would be (of every kind: tests/conformance/go-clients)",
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
        )
        .embedded_too("the 415"),
    ]
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

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
    // What is answered here no controller has written to yet.
    let reply = c
        .send(protobuf("POST", &path, body.envelope("apps/v1", "Deployment")))
        .await
        .is(201)
        .has("/spec/replicas", 0);
    c.get(&format!("{path}/a")).await.is(200).has("/spec/replicas", 0);
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
    let answer = c
        .admin
        .attempt(&Ask::new("POST", &kind.path).bytes(PROTOBUF, body))
        .await;
    match answer {
        Ok(reply) => drop(reply.fails(415, "UnsupportedMediaType")),
        // Kubernetes 1.36 has no answer: it resets the stream.
        Err(error) => assert!(!c.is_embedded(), "{error}"),
    }
    c.get(&kind.at("a")).await.is(404);
}
