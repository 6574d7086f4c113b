//! The descriptions of what is served, and the keys of tokens.

use crate::{
    check::{Check, later, must, should},
    client::Ask,
    cx::Cx,
};
use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};

pub fn checks() -> Vec<Check> {
    vec![
        must(
            "20",
            "/openapi/v3 lists documents that can be fetched; a wrong hash redirects",
            v3,
        ),
        must(
            "21",
            "kubectl apply passes validation and asks for a strict one",
            kubectl_apply,
        )
        .with_program("kubectl"),
        should(
            "22",
            "/openapi/v2 as protobuf has Swagger's version, paths and definitions where old clients look for them, and an ETag",
            v2_protobuf,
        ),
        should("23", "kubectl explain works for built-in kinds and for a CRD", explain).with_program("kubectl"),
        later(
            "24",
            "/openapi/v2 as JSON is the published set of schemas; until then it is one of every kind that is served",
            v2_json,
        ),
        should(
            "25",
            "the OpenID configuration and keys are those of issued tokens",
            openid,
        )
        .embedded_too("whose address the keys have"),
    ]
}

async fn v3(c: Cx) {
    let index = c.get("/openapi/v3").await.is(200);
    let paths = index["paths"].as_object().expect("paths");
    for key in [
        "api/v1",
        "apis/apps/v1",
        "apis/rbac.authorization.k8s.io/v1",
        "apis/apiextensions.k8s.io/v1",
    ] {
        let url = paths.get(key).unwrap_or_else(|| panic!("no {key}"))["serverRelativeURL"]
            .as_str()
            .unwrap();
        let document = c.get(url).await.is(200);
        assert!(
            document["openapi"].as_str().is_some_and(|it| it.starts_with("3.0")),
            "{url}"
        );
        assert!(document["components"]["schemas"].is_object(), "{url} has no schemas");
        assert!(!document.header("etag").is_empty(), "{url} has no ETag");
        assert!(
            document.header("cache-control").contains("immutable"),
            "{url}: {}",
            document.header("cache-control")
        );
        c.get(&format!("/openapi/v3/{key}")).await.is(200);
        let wrong = c.get(&format!("/openapi/v3/{key}?hash=AB")).await.is(301);
        assert_eq!(wrong.header("location"), url);
    }
    every_document(&c).await;
    c.get("/openapi/v3/apis/nope/v1").await.is(404);
    c.send(Ask::get("/openapi/v3/api/v1").accept("text/html")).await.is(406);
    let apps = c.get("/openapi/v3/apis/apps/v1").await;
    let patch = &apps["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    let parameters = patch["parameters"].as_array().expect("parameters");
    assert!(
        parameters
            .iter()
            .any(|it| it["name"] == "fieldValidation" && it["in"] == "query"),
        "{parameters:?}"
    );
}

/// All that the index names can be fetched, and is of the group that it is listed under.
async fn every_document(c: &Cx) {
    let kind = c
        .define_simple("documents", "Document", json!({"size": {"type": "integer"}}))
        .await;
    let key = format!("apis/{}/v1", kind.group);
    let (index, _) = c.until("/openapi/v3", |it| it["paths"][&key].is_object()).await;
    let paths = index["paths"].as_object().expect("paths");
    for (key, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().expect("a path");
        assert!(url.starts_with(&format!("/openapi/v3/{key}?hash=")), "{key}: {url}");
        let document = c.get(url).await;
        let complete = document.code == 200
            && document["openapi"].as_str().is_some_and(|it| it.starts_with("3.0"))
            && document["info"].is_object();
        if !complete {
            // Right only of a group of another check that is being changed or deleted: a real server's
            // index is a moment behind.
            let came = document.came();
            c.until("/openapi/v3", |it| {
                it.code == 200 && it["paths"][key]["serverRelativeURL"] != *url
            })
            .await;
            assert!(key.contains(".example.com/"), "{came}");
            continue;
        }
        let served = document["paths"].as_object().expect("paths");
        let wrong = served.keys().find(|it| !it.starts_with(&format!("/{key}")));
        assert!(wrong.is_none(), "{key} tells of {wrong:?}");
    }
    let url = paths[&key]["serverRelativeURL"].as_str().unwrap();
    let document = c.get(url).await.is(200);
    let at = format!("/apis/{}/v1/namespaces/{{namespace}}/documents/{{name}}", kind.group);
    for (verb, action) in [("get", "get"), ("put", "put"), ("patch", "patch"), ("delete", "delete")] {
        let operation = &document["paths"][&at][verb];
        assert_eq!(
            (
                &operation["x-kubernetes-action"],
                &operation["x-kubernetes-group-version-kind"]["kind"]
            ),
            (&json!(action), &json!("Document"))
        );
    }
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let own = schemas.values().find(|it| {
        it["x-kubernetes-group-version-kind"] == json!([{"group": kind.group, "version": "v1", "kind": "Document"}])
    });
    assert_eq!(
        own.expect("a schema of the kind")["properties"]["spec"]["properties"]["size"]["type"],
        "integer"
    );
}

async fn kubectl_apply(c: Cx) {
    let namespace = c.namespace().await;
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n";
    let run = ["-n", &namespace, "apply", "-v=8", "-f", "-"];
    c.kubectl(&run, manifest)
        .await
        .ok()
        .prints("configmap/a created")
        .prints("fieldValidation=Strict");
    c.kubectl(&run, &manifest.replace("k: v", "k: w"))
        .await
        .ok()
        .prints("configmap/a configured")
        .prints("fieldValidation=Strict");
    c.kubectl(&run, &manifest.replace("k: v", "k: w"))
        .await
        .ok()
        .prints("configmap/a unchanged");
    let refused = c.kubectl(&run, &manifest.replace("\ndata", "\ndota")).await;
    assert!(!refused.ok, "an unknown field has to be refused");
    refused.prints("unknown field \"dota\"");
}

/// The top-level fields of a message: number and bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                break;
            }
        }
        value
    }
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        assert_eq!(tag & 7, 2, "every field of the document has a length");
        let length = varint(&mut bytes) as usize;
        found.push((tag >> 3, &bytes[..length]));
        bytes = &bytes[length..];
    }
    found
}

async fn v2_protobuf(c: Cx) {
    let accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    let reply = c.send(Ask::get("/openapi/v2").accept(accept)).await.is(200);
    assert_eq!(
        reply.header("content-type"),
        "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
    );
    assert!(!reply.header("etag").is_empty());
    let document = fields(&reply.bytes);
    assert_eq!(
        document[0],
        (1, &b"2.0"[..]),
        "the first field is the version of Swagger"
    );
    // Field 8 holds the paths, field 9 the definitions.
    let definitions = document.iter().find(|it| it.0 == 9).expect("definitions").1;
    let names: Vec<String> = fields(definitions)
        .iter()
        .map(|it| String::from_utf8_lossy(fields(it.1)[0].1).into_owned())
        .collect();
    for name in ["io.k8s.api.core.v1.ConfigMap", "io.k8s.api.apps.v1.Deployment"] {
        assert!(names.iter().any(|it| it == name), "no definition of {name}");
    }
    assert!(document.iter().any(|it| it.0 == 8), "no paths");
    // Another check may define a kind between the two requests.
    let mut turns = 0;
    let mut tag = reply.header("etag");
    loop {
        let ask = Ask::get("/openapi/v2").accept(accept).with("if-none-match", &tag);
        let again = c.send(ask).await;
        if again.code == 304 {
            assert!(again.bytes.is_empty(), "a 304 has no body");
            break;
        }
        turns += 1;
        assert!(turns < 50, "never 304, with {tag}");
        tag = again.is(200).header("etag");
    }
    c.send(Ask::get("/openapi/v2").accept("text/html")).await.is(406);
}

async fn explain(c: Cx) {
    c.kubectl(&["explain", "deployment.spec.template", "--recursive"], "")
        .await
        .ok()
        .prints("KIND:       Deployment")
        .prints("terminationGracePeriodSeconds");
    let whole = c.kubectl(&["explain", "deployment", "--recursive"], "").await.ok();
    for line in [
        "  spec\t<DeploymentSpec>\n",
        "        maxSurge\t<IntOrString>\n",
        "  metadata\t<ObjectMeta>\n",
        "            limits\t<map[string]Quantity>\n",
    ] {
        assert!(whole.out.contains(line), "{line:?} is not in\n{}", whole.out);
    }
    let properties = json!({"size": {"type": "integer", "description": "How big it is."}});
    let kind = c.define_simple("gadgets", "Gadget", properties).await;
    c.until("/openapi/v3", |it| {
        it["paths"][format!("apis/{}/v1", kind.group)].is_object()
    })
    .await;
    let run = ["explain", &format!("{}.{}", kind.plural, kind.group), "--recursive"];
    c.kubectl(&run, "")
        .await
        .ok()
        .prints("KIND:       Gadget")
        .prints("size");
}

async fn v2_json(c: Cx) {
    let reply = c.get("/openapi/v2").await.is(200).has("/swagger", "2.0");
    for name in [
        "io.k8s.api.core.v1.Pod",
        "io.k8s.api.apps.v1.Deployment",
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    ] {
        assert!(reply["definitions"][name].is_object(), "no definition of {name}");
    }
}

pub fn claims(token: &str) -> (Value, Value) {
    let part = |at: usize| -> Value {
        let bytes = URL_SAFE_NO_PAD
            .decode(token.split('.').nth(at).expect("three parts"))
            .expect("base64url");
        serde_json::from_slice(&bytes).expect("JSON")
    };
    (part(0), part(1))
}

async fn openid(c: Cx) {
    let configuration = c.get("/.well-known/openid-configuration").await.is(200);
    let jwks = c.get("/openid/v1/jwks").await.is(200);
    assert_eq!(jwks.header("content-type"), "application/jwk-set+json");
    let uri = configuration["jwks_uri"].as_str().unwrap_or_default();
    assert!(uri.starts_with("https://") && uri.ends_with("/openid/v1/jwks"), "{uri}");
    if c.is_embedded() {
        assert_eq!(
            uri,
            format!("https://{}:{}/openid/v1/jwks", c.target.host, c.target.port)
        );
    }
    assert_eq!(configuration["response_types_supported"], json!(["id_token"]));
    assert_eq!(configuration["subject_types_supported"], json!(["public"]));
    let path = c.core("serviceaccounts").await;
    c.make(&path, json!({"metadata": {"name": "sa"}})).await;
    let issued = c.post(&format!("{path}/sa/token"), json!({"spec": {}})).await.is(201);
    let token = issued["status"]["token"].as_str().expect("a token");
    let (header, body) = claims(token);
    assert_eq!(body["iss"], configuration["issuer"]);
    // The key may have been made for this very token.
    let jwks = c.get("/openid/v1/jwks").await.is(200);
    let keys = jwks["keys"].as_array().expect("keys");
    let key = keys
        .iter()
        .find(|it| it["kid"] == header["kid"])
        .expect("the token's key is in the set");
    assert_eq!(
        (&key["use"], &key["kty"], &key["alg"]),
        (&json!("sig"), &json!("RSA"), &header["alg"])
    );
    let number = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let public = RsaPublicKeyComponents {
        n: number("n"),
        e: number("e"),
    };
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    public
        .verify(&RSA_PKCS1_2048_8192_SHA256, signed.as_bytes(), &signature)
        .expect("the token is signed with the key of the set");
}
