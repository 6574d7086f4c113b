//! What strangers may send, as functions of bytes: none of them panics, runs away or says something that no client expects.
//!
//! `cargo fuzz` calls them (`fuzz/fuzz_targets`), and so does a test that needs no fuzzer (`crates/kube-api/tests/strangers`).

use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use kube_api::{
    Options, Server,
    authn::Authenticator,
    csr,
    identity::{MASTERS, User},
    listen::PeerCertificate,
    pki::Pki,
    tokens::TokenKey,
};
use kube_store::{
    managed, patch,
    schema::{Schema, decode, default, duplicates, formats, prune, quantity, structural, timestamps, validate},
    selector::{FieldSelector, LabelSelector},
    store::{Journal, Record, Store},
};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

/// A target: its name, what it does with bytes, and bytes to begin with.
pub type Target = (&'static str, fn(&[u8]), &'static [&'static str]);

/// All of them.
pub const TARGETS: &[Target] = &[
    ("http", http, HTTP),
    ("patches", patches, PATCHES),
    ("selectors", selectors, SELECTORS),
    ("schemas", schemas, SCHEMAS),
    ("certificates", certificates, CERTIFICATES),
    ("tokens", tokens, TOKENS),
];

/// The first piece and the rest, parted at a newline.
fn part(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|it| *it == b'\n') {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}

fn text(data: &[u8]) -> &str {
    std::str::from_utf8(data).unwrap_or_default()
}

const HTTP: &[&str] = &[
    "GET /api/v1/namespaces/default/configmaps?labelSelector=a%3Db&limit=1&continue=eyJ2Ijoi application/json;as=Table;v=v1;g=meta.k8s.io,application/json\n",
    "POST /api/v1/namespaces/default/configmaps?fieldManager=x&dryRun=All application/json\n{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},\"data\":{\"a\":\"b\"}}",
    "PATCH /apis/apps/v1/namespaces/default/deployments/d?fieldManager=x&force=true application/apply-patch+yaml\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\n",
    "PUT /apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com application/json\n{\"kind\":\"CustomResourceDefinition\",\"apiVersion\":\"apiextensions.k8s.io/v1\",\"metadata\":{\"name\":\"things.example.com\"},\"spec\":{\"group\":\"example.com\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"things\",\"kind\":\"Thing\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"x-kubernetes-validations\":[{\"rule\":\"has(self.a)\"}]}}}}}]}}",
    "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews application/yaml\nkind: SelfSubjectAccessReview\nspec: {resourceAttributes: {verb: get, resource: pods}}\n",
    "DELETE /api/v1/namespaces/default/configmaps?fieldSelector=metadata.name!%3Dx application/json\n{\"kind\":\"DeleteOptions\",\"propagationPolicy\":\"Foreground\"}",
    "POST /api/v1/namespaces/default/pods application/vnd.kubernetes.protobuf\nk8s\u{0}\n\u{9}\n\u{2}v1\u{12}\u{3}Pod\u{12}\u{5}\n\u{3}\n\u{1}p",
    "GET /openapi/v3/apis/apps/v1?hash=0 application/com.github.proto-openapi.spec.v3@v1.0+protobuf\n",
    "PATCH /api/v1/namespaces/default/configmaps/a application/json-patch+json\n[{\"op\":\"add\",\"path\":\"/data/b\",\"value\":\"c\"}]",
    "GET /readyz/etcd?verbose&exclude=ping */*\n",
];

struct World {
    runtime: tokio::runtime::Runtime,
    server: Server,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = runtime
        .block_on(Server::open(Options::default()))
        .expect("a server in memory");
    World { runtime, server }
});

/// A request: `METHOD URI MEDIA-TYPE`, and its body after the line.
pub fn http(data: &[u8]) {
    let (line, body) = part(data);
    let mut words = text(line).splitn(3, ' ');
    let mut next = || words.next().unwrap_or_default();
    let (method, uri, media) = (next(), next(), next());
    let (Ok(method), Ok(uri)) = (Method::from_bytes(method.as_bytes()), uri.parse::<Uri>()) else {
        return;
    };
    let mut request = Request::builder().method(method).uri(uri);
    if let Ok(media) = http::HeaderValue::from_bytes(media.as_bytes()) {
        request = request.header("content-type", media.clone()).header("accept", media);
    }
    let Ok(request) = request.body(Full::new(Bytes::copy_from_slice(body))) else {
        return;
    };
    let World { runtime, server } = &*WORLD;
    let watches = request.uri().to_string().contains("watch") || request.uri().path().contains("follow");
    runtime.block_on(async {
        let user = User::new("stranger", &[MASTERS]);
        let response = server.answer(request, user).await;
        let code = response.status().as_u16();
        // A watch has no end.
        if watches {
            return;
        }
        let headers = response.headers().clone();
        let Ok(body) = response.into_body().collect().await;
        let body = body.to_bytes();
        let is_json = headers
            .get("content-type")
            .is_some_and(|it| it.as_bytes().starts_with(b"application/json"));
        if is_json && !headers.contains_key("content-encoding") && !body.is_empty() {
            let value: Value = serde_json::from_slice(&body).expect("what is called JSON is JSON");
            if code >= 400 {
                assert_eq!(value["kind"], "Status", "{code}: {value}");
                assert_eq!(value["code"], code, "{value}");
                assert!(value["message"].as_str().is_some_and(|it| !it.is_empty()), "{value}");
            }
        }
    });
}

const PATCHES: &[&str] = &[
    "{\"metadata\":{\"labels\":{\"a\":null}},\"spec\":{\"containers\":[{\"name\":\"b\",\"$patch\":\"delete\"}]}}\n{\"metadata\":{\"labels\":{\"a\":\"b\"}},\"spec\":{\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}]}}",
    "[{\"op\":\"replace\",\"path\":\"/spec/containers/0/name\",\"value\":\"x\"},{\"op\":\"move\",\"from\":\"/spec\",\"path\":\"/metadata/-\"},{\"op\":\"copy\",\"from\":\"\",\"path\":\"/a\"},{\"op\":\"test\",\"path\":\"/a~1b~0c\",\"value\":1}]\n{\"a/b~c\":1,\"spec\":{\"containers\":[{\"name\":\"a\"}]}}",
    "{\"spec\":{\"containers\":[{\"name\":\"c\",\"ports\":[{\"containerPort\":80}]}],\"$setElementOrder/containers\":[{\"name\":\"c\"}],\"$retainKeys\":[\"containers\"]}}\n{\"spec\":{\"containers\":[{\"name\":\"a\",\"ports\":[{\"containerPort\":80,\"protocol\":\"TCP\"}]}]}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"managedFields\":[{\"manager\":\"m\",\"operation\":\"Apply\",\"apiVersion\":\"v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:spec\":{\"f:containers\":{\"k:{\\\"name\\\":\\\"a\\\"}\":{\".\":{},\"f:image\":{}}}}}}]},\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"i\"}]}}\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"containers\":[{\"name\":\"a\",\"image\":\"j\"}],\"tolerations\":[]}}",
];

static POD: LazyLock<Schema> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "containers": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"}, "image": {"type": "string", "default": "none"},
                        "ports": {
                            "type": "array", "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                            "items": {"type": "object", "properties": {
                                "containerPort": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                            }},
                        },
                    }},
                },
                "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                "port": {"x-kubernetes-int-or-string": true},
            }},
        },
    });
    Schema::from_openapi(&schema).expect("the schema is one")
});

/// A patch and the object it is for, in every patch format, and as a server-side apply.
pub fn patches(data: &[u8]) {
    let (body, live) = part(data);
    let Ok(live @ Value::Object(_)) = serde_json::from_slice::<Value>(live) else {
        return;
    };
    let _ = patch::json::apply(&live, body);
    if let Ok(once) = patch::merge::apply(&live, body) {
        // What a merge patch says is so after it, however often.
        assert_eq!(patch::merge::apply(&once, body).ok(), Some(once));
    }
    let _ = patch::strategic::apply(&live, body, &POD);
    let Ok(config @ Value::Object(_)) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    let ctx = managed::Ctx {
        schema: &POD,
        manager: "fuzz",
        api_version: "v1",
        subresource: "",
        now: jiff::Timestamp::UNIX_EPOCH,
        reset_fields: &[&["status"]],
        built_in: false,
        served: &["v1"],
        versions: None,
    };
    if let Ok(once) = managed::apply(Some(&live), &config, &ctx, true) {
        let again = managed::apply(Some(&once), &config, &ctx, false);
        assert!(
            again.is_ok(),
            "who has applied by force owns what was applied: {again:?}"
        );
    }
    let mut new = config;
    managed::update(Some(&live), &mut new, &ctx);
}

const SELECTORS: &[&str] = &[
    "a=b,c!=d,e in (f,g),h notin (i),j,!k",
    "example.com/name == value , x in (,)",
    "metadata.name=a\\,b,spec.nodeName!=",
    "a > 5, b < 7",
];

/// Label and field selectors, and what they call keys and values.
pub fn selectors(data: &[u8]) {
    let text = text(data);
    if let Ok(selector) = LabelSelector::parse(text) {
        let _ = selector.is_everything();
        let _ = selector.requirements().len();
    }
    let _ = FieldSelector::parse(text);
    if let Ok(value) = serde_json::from_str(text) {
        let _ = LabelSelector::from_json(&value);
    }
    let _ = kube_store::selector::label_key_error(text);
    let _ = kube_store::selector::label_value_error(text);
    let _ = kube_store::jsonpath::JsonPath::parse(text);
}

const SCHEMAS: &[&str] = &[
    "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^x+$\",\"maxLength\":5,\"default\":\"x\"},\"b\":{\"type\":\"array\",\"items\":{\"type\":\"integer\",\"minimum\":1},\"x-kubernetes-list-type\":\"set\"}},\"required\":[\"a\"]}\n{\"a\":\"xx\",\"b\":[1,2,2],\"c\":null}",
    "{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true,\"properties\":{\"q\":{\"x-kubernetes-int-or-string\":true,\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"string\"}]},\"t\":{\"type\":\"string\",\"format\":\"date-time\"}}}\n{\"q\":\"10%\",\"t\":\"2020-01-01T00:00:00Z\"}",
    "{\"type\":\"object\",\"properties\":{\"e\":{\"type\":\"object\",\"x-kubernetes-embedded-resource\":true,\"x-kubernetes-preserve-unknown-fields\":true},\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"number\",\"multipleOf\":0.5}}},\"x-kubernetes-validations\":[{\"rule\":\"self.m.size() < 3 && has(self.e)\",\"message\":\"no\"}]}\n{\"e\":{\"kind\":\"A\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"x\"}},\"m\":{\"a\":1.5}}",
    "100Mi\n1e3",
    "2020-02-30T23:59:60.999999999+23:59\nbyte",
];

/// A schema of a CustomResourceDefinition and an object of it; quantities, times and formats.
pub fn schemas(data: &[u8]) {
    let (schema_text, object_text) = part(data);
    for it in [text(schema_text), text(object_text)] {
        if let Ok(once) = quantity::canonical(it) {
            assert_eq!(quantity::canonical(&once).as_ref(), Ok(&once), "{it:?}");
        }
        let _ = quantity::milli(it);
        let _ = (
            timestamps::normalise_seconds(it),
            timestamps::normalise_micros(it),
            timestamps::is_rfc3339(it),
        );
        for format in [
            "date-time",
            "date",
            "duration",
            "byte",
            "ipv4",
            "ipv6",
            "cidr",
            "uri",
            "email",
            "hostname",
            "uuid",
            "mac",
            "quantity",
        ] {
            let _ = formats::is_valid(format, it);
        }
    }
    let Ok(node) = serde_json::from_slice::<Value>(schema_text) else {
        return;
    };
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": node.clone()}}],
        },
    });
    structural::default_crd(&mut crd);
    let _ = structural::tidy_schemas(&mut crd);
    let errors = structural::check_crd(&crd);
    let Ok(schema) = Schema::from_openapi(&node) else {
        return;
    };
    let Ok(object) = serde_json::from_slice::<Value>(object_text) else {
        return;
    };
    let _ = duplicates::duplicates(object_text);
    if !errors.is_empty() {
        return;
    }
    let mut kept = object.clone();
    if decode::decode(&mut kept, &schema, "Thing").is_err() || prune::prune(&mut kept, &schema, true).is_err() {
        return;
    }
    default::apply_defaults(&mut kept, &schema);
    let once = kept.clone();
    default::apply_defaults(&mut kept, &schema);
    assert_eq!(once, kept, "defaults are there after the first time");
    let _ = validate::validate(&kept, Some(&object), &schema);
}

const CERTIFICATES: &[&str] = &[
    "-----BEGIN CERTIFICATE REQUEST-----\nMIHRMHgCAQAwFjEUMBIGA1UEAwwLc3lzdGVtOm5vZGUwWTATBgcqhkjOPQIBBggq\nhkjOPQMBBwNCAAR9Hq0lGdQ9zqLr2qj2qSdKuAoW1z9q1uQWkcTNTFSJ1a8G3Vxg\n-----END CERTIFICATE REQUEST-----\n",
    "-----BEGIN CERTIFICATE-----\nMIIBdzCCAR2gAwIBAgIBADAKBggqhkjOPQQDAjAjMSEwHwYDVQQDDBhrM3Mtc2Vy\ndmVyLWNhQDE2\n-----END CERTIFICATE-----\n",
];

struct Discard;

impl Journal for Discard {
    fn append(&self, _: Record) {}
}

static KEYS: LazyLock<(Arc<Pki>, Authenticator)> = LazyLock::new(|| {
    let pki = Arc::new(Pki::open(None, &[], jiff::Timestamp::now()).expect("keys in memory"));
    let store = Arc::new(Store::new([], 0, Arc::new(Discard)));
    let authenticator = Authenticator::new(store, pki.clone()).expect("an authenticator");
    (pki, authenticator)
});

/// The ways in which a certificate request or a certificate comes: PEM in base64, or what TLS hands over.
pub fn certificates(data: &[u8]) {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject};
    let (pki, authenticator) = &*KEYS;
    let now = jiff::Timestamp::now();
    // Bytes as they are, and as PEM of what they are.
    let pem = |bytes: &[u8]| {
        let body = BASE64_STANDARD.encode(bytes);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
    };
    let der = CertificateSigningRequestDer::from_pem_slice(data).map(|it| it.to_vec());
    for request in [
        data.to_vec(),
        pem(data).into_bytes(),
        pem(&der.unwrap_or_default()).into_bytes(),
    ] {
        let request = Value::from(BASE64_STANDARD.encode(request));
        let _ = csr::Asked::read(&request);
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "a"},
            "spec": {
                "request": request, "signerName": csr::CLIENT, "usages": ["client auth"], "username": "x", "groups": [],
            },
        });
        let mut created = object.clone();
        if csr::prepare_create(&mut created, &User::new("x", &[])).is_ok() {
            let _ = csr::automatic_approval(&created);
            if let Ok(signed) = csr::sign(pki, &created, now) {
                assert!(signed.starts_with("-----BEGIN CERTIFICATE-----"));
            }
        }
    }
    let certificate = CertificateDer::from_pem_slice(data).unwrap_or_else(|_| CertificateDer::from(data.to_vec()));
    if let Some(peer) = PeerCertificate::new(&[certificate]) {
        // Nobody has our authority's key.
        assert!(
            authenticator
                .authenticate(&http::HeaderMap::new(), Some(&peer), now)
                .is_err()
        );
    }
}

const TOKENS: &[&str] = &[
    "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzL3NlcnZpY2VhY2NvdW50In0.AAAA",
    "eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ.",
    "abcdef.0123456789abcdef",
    "Bearer a b",
];

static KEY: LazyLock<TokenKey> = LazyLock::new(|| TokenKey::generate().expect("randomness"));

/// Bearer tokens: nothing that we did not sign is anybody.
pub fn tokens(data: &[u8]) {
    let text = text(data);
    let (_, authenticator) = &*KEYS;
    assert_eq!(KEY.verify(text), None);
    let now = jiff::Timestamp::now();
    assert!(authenticator.authenticate_token(text, &[], now).is_none());
    let mut headers = http::HeaderMap::new();
    if let Ok(value) = http::HeaderValue::from_bytes(data) {
        headers.insert("authorization", value);
        let _ = authenticator.authenticate(&headers, None, now);
    }
    let _ = TokenKey::from_pem(text).is_some();
    // Claims of any kind, in a token that is ours but for one bit.
    let signed = KEY.sign(&Value::from(text));
    assert!(KEY.verify(&signed).is_some());
    let (rest, signature) = signed.rsplit_once('.').expect("a token has three parts");
    let mut claims = rest.to_owned();
    claims.push('A');
    assert_eq!(KEY.verify(&format!("{claims}.{signature}")), None);
}
