//! What a webhook answers, of admission and of conversion: a server of a stranger that this server asks.

use super::{certificates::KEYS, part};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube_api::{
    Options, Server,
    identity::{MASTERS, User},
    tls,
};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{LazyLock, Mutex, PoisonError},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

struct World {
    runtime: tokio::runtime::Runtime,
    server: Server,
}

/// What the webhook says next: its code and its text.
static ANSWER: Mutex<(u16, String)> = Mutex::new((200, String::new()));

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = runtime.block_on(async {
        let server = Server::open(Options::default()).await.expect("a server in memory");
        let address = listen().await;
        for (path, object) in configuration(&address) {
            let code = send(&server, "POST", path, &object).await;
            assert_eq!(code, 201, "{object}");
        }
        // A definition is served a moment after it was made.
        while send(&server, "GET", THINGS, &Value::Null).await != 200 {
            tokio::task::yield_now().await;
        }
        server
    });
    World { runtime, server }
});

const THINGS: &str = "/apis/example.com/v2/namespaces/default/things";

fn configuration(address: &str) -> Vec<(&'static str, Value)> {
    let client = |path: &str| {
        let authorities = BASE64_STANDARD.encode(KEYS.0.ca_pem());
        json!({"url": format!("https://{address}/{path}"), "caBundle": authorities})
    };
    let webhooks = |kind: &str| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "fuzz"},
            "webhooks": [{
                "name": "a.example.com", "clientConfig": client("admit"), "sideEffects": "None", "timeoutSeconds": 30,
                "admissionReviewVersions": ["v1"], "matchPolicy": "Exact", "reinvocationPolicy": "IfNeeded",
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
                "objectSelector": {"matchLabels": {"side": kind.chars().next().map(String::from)}},
            }],
        })
    };
    let mut mutating = webhooks("MutatingWebhookConfiguration");
    let mut validating = webhooks("ValidatingWebhookConfiguration");
    if let Some(it) = validating["webhooks"][0].as_object_mut() {
        it.remove("reinvocationPolicy");
    }
    mutating["webhooks"][0]["failurePolicy"] = "Fail".into();
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}}},
        }}})
    };
    let review = ["v1"];
    let conversion = json!({
        "strategy": "Webhook", "webhook": {"conversionReviewVersions": review, "clientConfig": client("convert")},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true), version("v2", false)], "conversion": conversion,
        },
    });
    vec![
        (
            "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
            mutating,
        ),
        (
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            validating,
        ),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition),
    ]
}

/// A code on the first line, the answer on the second, and the patch that stands in it for `PATCH`, not yet in base64.
pub fn webhooks(data: &[u8]) {
    let (code, rest) = part(data);
    let (answer, patch) = part(rest);
    let code = std::str::from_utf8(code).ok().and_then(|it| it.parse().ok());
    let patch = format!("\"{}\"", BASE64_STANDARD.encode(patch));
    let answer = String::from_utf8_lossy(answer).replace("PATCH", &patch);
    *ANSWER.lock().unwrap_or_else(PoisonError::into_inner) = (code.unwrap_or(200), answer);
    let World { runtime, server } = &*WORLD;
    runtime.block_on(async {
        for side in ["M", "V"] {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"side": side}}, "data": {"a": "b"},
            });
            send(server, "POST", "/api/v1/namespaces/default/configmaps?dryRun=All", &object).await;
        }
        let object = json!({
            "apiVersion": "example.com/v2", "kind": "Thing", "metadata": {"name": "t", "namespace": "default"}, "spec": {},
        });
        send(server, "POST", &format!("{THINGS}?dryRun=All"), &object).await;
    });
}

/// Sends a request as a client would, and gives the code of the answer.
async fn send(server: &Server, method: &str, path: &str, object: &Value) -> u16 {
    let body = Full::new(Bytes::from(object.to_string()));
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    let request = request.body(body).expect("a request");
    let response = server.answer(request, User::new("stranger", &[MASTERS])).await;
    let code = response.status().as_u16();
    let Ok(body) = response.into_body().collect().await;
    let value: Value = serde_json::from_slice(&body.to_bytes()).expect("what is called JSON is JSON");
    if code >= 400 {
        assert_eq!(
            (&value["kind"], &value["code"]),
            (&"Status".into(), &code.into()),
            "{value}"
        );
        assert!(value["message"].as_str().is_some_and(|it| !it.is_empty()), "{value}");
    }
    code
}

/// The webhook, and where it is.
async fn listen() -> String {
    let acceptor = TlsAcceptor::from(tls::server_config(&KEYS.0, &[]).expect("keys for TLS"));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service_fn(answer))
                        .await;
                }
            });
        }
    });
    address
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let asked = request.into_body().collect().await.map(|it| it.to_bytes());
    let asked: Value = serde_json::from_slice(&asked.unwrap_or_default()).unwrap_or_default();
    let uid = asked["request"]["uid"].as_str().unwrap_or_default();
    let (code, text) = ANSWER.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let response = Response::builder()
        .status(code)
        .body(Full::new(text.replace("UID", uid).into()));
    Ok(response.unwrap_or_default())
}
