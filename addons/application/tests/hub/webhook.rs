//! Events of Git servers.

use std::{sync::Arc, time::Duration};

use addon_application::hub::webhook::{serve, tls::from_files};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use kube_api::pki::serving_pair;
use ocm_addon_sdk::kube::ResourceExt;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, pem::PemObject},
    },
};
use tokio_util::sync::CancellationToken;

use crate::ground::{CHANNELS, SubscriptionHub, content};

const COUNT: &str = "apps.open-cluster-management.io/webhook-event-count";

async fn hub(annotations: Value) -> SubscriptionHub {
    let hub = SubscriptionHub::start(&["c1"]).await;
    hub.apply(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hook", "namespace": CHANNELS},
        "data": {"secret": BASE64_STANDARD.encode("key\n")},
    }))
    .await;
    hub.channel("c", "Git", annotations).await;
    hub.subscribe("s", json!({})).await;
    hub.copy("c1", "s", "comes", |_| true).await;
    hub
}

fn push() -> String {
    json!({"repository": {"full_name": "org/app", "clone_url": "https://github.com/org/app.git"}}).to_string()
}

/// `sha1=` and the HMAC of the body with this key.
fn signature(key: &str, body: &str) -> String {
    use aws_lc_rs::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, Key, sign};
    let tag = sign(
        &Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes()),
        body.as_bytes(),
    );
    let hex: String = tag.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    format!("sha1={hex}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_push_is_counted_and_goes_to_clusters() {
    let annotations = json!({
        "apps.open-cluster-management.io/webhook-enabled": "true", "apps.open-cluster-management.io/webhook-secret": "hook",
    });
    let hub = hub(annotations).await;
    let stop = CancellationToken::new();
    let address = serve("127.0.0.1:0".parse().unwrap(), None, hub.listener.clone(), &stop)
        .await
        .unwrap();
    let send = async |signature: &str| {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = Request::post("/webhook")
            .header("Host", "hub")
            .header("Content-Type", "application/json")
            .header("X-Github-Event", "push")
            .header("X-Hub-Signature", signature)
            .body(Full::new(Bytes::from(push())))
            .unwrap();
        let sent = tokio::time::timeout(Duration::from_secs(30), sender.send_request(request));
        sent.await.unwrap().unwrap().status()
    };
    assert_eq!(send(&signature("other", &push())).await, StatusCode::UNAUTHORIZED);
    *hub.source.content.lock().await = Ok(content("fedcba9876"));
    assert_eq!(send(&signature("key", &push())).await, StatusCode::OK);
    let counted = |it: &Value| it["metadata"]["annotations"][COUNT] == "0";
    hub.copy("c1", "s", "is told", counted).await;
    // The hub has read the source again.
    let commit = |it: &ocm_addon_sdk::ocm_api::apps::Subscription| {
        it.annotation("apps.open-cluster-management.io/git-current-commit") == Some("fedcba9876")
    };
    hub.subscription("s", "has the commit", commit).await;
    assert_eq!(send(&signature("key", &push())).await, StatusCode::OK);
    hub.copy("c1", "s", "is told again", |it| {
        it["metadata"]["annotations"][COUNT] == "1"
    })
    .await;
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_come_over_https() {
    let hub = SubscriptionHub::start(&[]).await;
    let folder = tempfile::tempdir().unwrap();
    let made = serving_pair(&["localhost".to_owned()], Timestamp::now(), 3600).unwrap();
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    std::fs::write(&certificate, &made.pair.certificate_pem).unwrap();
    std::fs::write(&key, &made.pair.key_pem).unwrap();
    let (tls, stop) = (from_files(certificate, key).unwrap(), CancellationToken::new());
    let address = serve("127.0.0.1:0".parse().unwrap(), Some(tls), hub.listener.clone(), &stop)
        .await
        .unwrap();
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(made.authority_pem.as_bytes()).unwrap())
        .unwrap();
    let trusting = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(trusting));
    let stream = connector
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::post("/webhook")
        .header("Host", "hub")
        .body(Full::new(Bytes::from("{}")))
        .unwrap();
    let answer = sender.send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::BAD_REQUEST);
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "Unsupported webhook event type.");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_that_wants_no_events_gets_none() {
    let hub = hub(json!({})).await;
    hub.channel(
        "other",
        "Git",
        json!({"apps.open-cluster-management.io/webhook-enabled": "true"}),
    )
    .await;
    hub.apply(json!({
        "apiVersion": "apps.open-cluster-management.io/v1", "kind": "Subscription",
        "metadata": {"name": "hears", "namespace": "ns"},
        "spec": {"channel": "ch/other", "placement": {"placementRef": {"kind": "Placement", "name": "all"}}},
    }))
    .await;
    hub.copy("c1", "hears", "comes", |_| true).await;
    let request = Request::post("/webhook")
        .header("X-Github-Event", "push")
        .header("Content-Type", "application/json")
        .body(Full::new(Bytes::from(push())))
        .unwrap();
    assert_eq!(hub.listener.answer(request).await.status(), StatusCode::OK);
    hub.subscription("hears", "is counted", |it| it.annotations().contains_key(COUNT))
        .await;
    let deaf = hub.subscription("s", "is there", |_| true).await;
    assert!(!deaf.annotations().contains_key(COUNT));
}
