//! What one identity may keep, write and leave unread. The attacks run at full size with `ATTACK_REQUESTS=2000` and
//! `ATTACK_WATCHES=10000`; what they cost is counted in objects and in bytes that wait, not in the memory of a process.

use crate::client::{Client, World, group, metric, size, text};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use kube_api::{
    Options,
    limits::Limits,
    party::{Party, PartyRule},
    pki::certificate,
    rates::Rate,
};
use p256::{
    ecdsa::{DerSignature, SigningKey},
    elliptic_curve::Generate,
    pkcs8::LineEnding,
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use x509_cert::{builder::Builder, der::EncodePem, request::RequestBuilder};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// A server whose users `fleet:CLUSTER:NAME` are of one cluster, and may do everything with these resources.
async fn fleet(limits: Limits, resources: &[&str]) -> World {
    let rule: PartyRule = Arc::new(|user| {
        let rest = user.username.strip_prefix("fleet:")?;
        Some(Party::new(rest.split(':').next()?, &user.username))
    });
    let options = Options {
        limits,
        parties: Some(rule),
        ..Options::default()
    };
    let world = World::start(options).await;
    world.allow("fleet", group("fleet"), resources).await;
    world
}

async fn said(client: &Client, method: Method, path: &str, body: Value) -> (u16, Value) {
    let response = client.ask(method, path, Some(body)).await;
    let code = response.status().as_u16();
    if code == 429 {
        assert!(
            response.headers().contains_key("retry-after"),
            "it says when to come again"
        );
    }
    (code, serde_json::from_str(&text(response).await).unwrap())
}

fn request(name: &str, pem: &str) -> Value {
    let spec = json!({"request": STANDARD.encode(pem), "signerName": "ex.io/signer", "usages": ["client auth"]});
    json!({"metadata": {"name": name}, "spec": spec})
}

fn request_pem(name: &str) -> String {
    let key = SigningKey::generate_from_rng(&mut rand::rng());
    let subject = certificate::subject(name, &[]).unwrap();
    let built = RequestBuilder::new(subject).unwrap().build::<_, DerSignature>(&key);
    built.unwrap().to_pem(LineEnding::LF).unwrap()
}

/// Waits until an administrator sees in an Event that a bound was reached.
async fn is_told(world: &World, reason: &str, identity: &str) {
    let admin = world.client("admin").await;
    let found = async {
        loop {
            let list: Value = serde_json::from_str(&text(admin.get(EVENTS).await).await).unwrap();
            let events = list["items"].as_array().unwrap().clone();
            let told = |it: &Value| it["reason"] == reason && it["involvedObject"]["name"] == identity;
            if events.iter().any(told) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(30), found).await;
    assert!(found.is_ok(), "no Event {reason} of {identity}");
}

#[tokio::test]
async fn certificate_requests_per_identity_are_limited_and_others_unaffected() {
    let limits = Limits {
        open_requests: 40,
        requests: 60,
        ..Limits::default()
    };
    let world = fleet(limits, &["certificatesigningrequests"]).await;
    let attacker = world.client_in("fleet:one:agent", &["fleet"]).await;
    let pem = request_pem("agent");
    let mut made = 0;
    let attempts = size("ATTACK_REQUESTS", 100);
    for number in 0..attempts {
        let asked = request(&format!("a{number}"), &pem);
        match said(&attacker, Method::POST, REQUESTS, asked).await {
            (201, _) => made += 1,
            (code, status) => assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")), "{status}"),
        }
    }
    println!("{attempts} certificate requests: {made} are kept");
    assert_eq!(made, 40);
    is_told(&world, "LimitReachedOpenRequests", "fleet:one:agent").await;
    // An add-on of the same cluster, and another cluster.
    for user in ["fleet:one:addon", "fleet:two:agent"] {
        let other = world.client_in(user, &["fleet"]).await;
        let asked = request(&user.replace(':', "-"), &pem);
        assert_eq!(said(&other, Method::POST, REQUESTS, asked).await.0, 201);
    }
    // What is decided is not open, and still there.
    let local = world.server.local();
    let condition = json!([{"type": "Denied", "status": "True", "reason": "No", "message": "no"}]);
    let id = "certificatesigningrequests.certificates.k8s.io";
    for number in 0..30 {
        let patch = json!({"status": {"conditions": condition}});
        local
            .merge_patch(id, "", &format!("a{number}"), "approval", patch)
            .await
            .unwrap();
    }
    for number in 0..21 {
        let (code, status) = said(&attacker, Method::POST, REQUESTS, request(&format!("b{number}"), &pem)).await;
        assert_eq!(code, if number < 20 { 201 } else { 429 }, "{number}: {status}");
    }
    local.delete(id, "", "a0", None, None).await.unwrap();
    assert_eq!(said(&attacker, Method::POST, REQUESTS, request("c", &pem)).await.0, 201);
    world.stop().await;
}

#[tokio::test]
async fn an_oversized_certificate_request_is_refused() {
    let world = World::start(Options::default()).await;
    let admin = world.client("admin").await;
    let (code, status) = said(&admin, Method::POST, REQUESTS, request("large", &"x".repeat(17 << 10))).await;
    assert_eq!(code, 422, "{status}");
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.request");
    let mut around = request("around", &request_pem("agent"));
    around["metadata"]["annotations"] = json!({"a": "x".repeat(100 << 10)});
    assert_eq!(said(&admin, Method::POST, REQUESTS, around).await.0, 413);
    let (code, status) = said(&admin, Method::POST, REQUESTS, request("fits", &request_pem("agent"))).await;
    assert_eq!(code, 201, "{status}");
    let more = json!({"metadata": {"annotations": {"a": "x".repeat(100 << 10)}}});
    let patched = world.server.local();
    let patched = patched
        .merge_patch("certificatesigningrequests.certificates.k8s.io", "", "fits", "", more)
        .await;
    assert_eq!(patched.unwrap_err().code, 413, "nor does it grow");
    world.stop().await;
}

fn event(name: &str, bytes: usize) -> Value {
    let about = json!({"kind": "ConfigMap", "namespace": "default", "name": "x"});
    json!({"metadata": {"name": name}, "involvedObject": about, "message": "x".repeat(bytes)})
}

#[tokio::test]
async fn events_per_namespace_are_limited_in_number_and_bytes() {
    let limits = Limits {
        events: 20,
        event_bytes: 100_000,
        ..Limits::default()
    };
    let world = fleet(limits, &["events"]).await;
    let attacker = world.client_in("fleet:one:agent", &["fleet"]).await;
    let local = world.server.local();
    // Others have written some already.
    let mut made = world.server.store().list("events", "default").0.len();
    for number in 0..30 {
        let (code, status) = said(&attacker, Method::POST, EVENTS, event(&format!("e{number}"), 10)).await;
        match code {
            201 => made += 1,
            _ => assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")), "{status}"),
        }
    }
    assert_eq!(made, 20);
    is_told(&world, "LimitReachedEvents", "fleet:one:agent").await;
    let namespace = json!({"metadata": {"name": "other"}});
    local.create("namespaces", "", namespace).await.unwrap();
    let mut elsewhere = event("e", 10);
    elsewhere["involvedObject"]["namespace"] = "other".into();
    let other = EVENTS.replace("default", "other");
    assert_eq!(said(&attacker, Method::POST, &other, elsewhere).await.0, 201);
    // One that is there grows as little as a new one.
    let larger = json!({"message": "x".repeat(200_000)});
    let patch = local.merge_patch("events", "other", "e", "", json!({})).await;
    assert!(patch.is_ok());
    let mut grown = event("e", 200_000);
    grown["involvedObject"]["namespace"] = "other".into();
    assert_eq!(said(&attacker, Method::PUT, &format!("{other}/e"), grown).await.0, 429);
    // The server's own are not counted against anybody.
    assert!(local.merge_patch("events", "other", "e", "", larger).await.is_ok());
    world.stop().await;
}

#[tokio::test]
async fn status_writes_of_one_client_are_limited_but_not_others() {
    let rate = Rate {
        burst: 5,
        per_second: 1,
    };
    let limits = Limits {
        status_writes: rate,
        ..Limits::default()
    };
    let world = fleet(limits, &["services/status", "services"]).await;
    let services = "/api/v1/namespaces/default/services";
    let admin = world.client("admin").await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    assert_eq!(said(&admin, Method::POST, services, service).await.0, 201);
    let write = |client: Client, turn: usize| async move {
        let condition = json!({"type": "T", "status": "True", "reason": "R", "message": format!("{turn}"),
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let path = format!("{services}/s/status");
        let (code, mut read) = said(&client, Method::GET, &path, json!({})).await;
        assert_eq!(code, 200);
        read["status"]["conditions"] = json!([condition]);
        said(&client, Method::PUT, &path, read).await
    };
    let attacker = world.client_in("fleet:one:agent", &["fleet"]).await;
    let mut refused = 0;
    // More than the rate gives back while it lasts, unless each takes a second.
    for turn in 0..30 {
        let (code, status) = write(attacker.clone(), turn).await;
        match code {
            200 => {}
            _ => assert_eq!((code, &status["reason"]), (429, &json!("TooManyRequests")), "{status}"),
        }
        refused += usize::from(code == 429);
    }
    assert!(refused > 0, "all were written");
    is_told(&world, "LimitReachedWriteRate", "fleet:one:agent").await;
    let other = world.client_in("fleet:two:agent", &["fleet"]).await;
    for (turn, client) in [(100, other), (101, admin)] {
        assert_eq!(write(client, turn).await.0, 200);
    }
    world.stop().await;
}

#[tokio::test]
async fn unread_watches_are_limited_and_do_not_affect_others() {
    const MIB: usize = 1 << 20;
    let (watches, objects) = (size("ATTACK_WATCHES", 200), 40);
    let limits = Limits {
        watches: watches / 2,
        watch_bytes: MIB,
        ..Limits::default()
    };
    let world = fleet(limits, &["configmaps"]).await;
    let local = world.server.local();
    for number in 0..objects {
        let data = json!({"text": "x".repeat(100 << 10)});
        let large = json!({"metadata": {"name": format!("large{number}")}, "data": data});
        local.create("configmaps", "default", large).await.unwrap();
    }
    let path = "/api/v1/configmaps?watch=1";
    let mut unread = Vec::new();
    let mut refused = 0;
    for number in 0..watches {
        if number % 100 == 0 {
            unread.push((world.client_in("fleet:one:agent", &["fleet"]).await, Vec::new()));
        }
        let (client, answers) = unread.last_mut().unwrap();
        let answer = client.get(path).await;
        match answer.status().as_u16() {
            200 => answers.push(answer),
            code => {
                assert_eq!(code, 429);
                refused += 1;
            }
        }
    }
    let admin = world.client("admin").await;
    let bytes = metric(&admin, "apiserver_watch_buffered_bytes").await;
    println!("{watches} unread watches of one identity: {refused} refused, {bytes} bytes wait");
    // One piece may be larger than what is left of the room.
    assert!(bytes <= 2 * MIB as u64, "{bytes} bytes wait");
    is_told(&world, "LimitReachedWatchBytes", "fleet:one:agent").await;
    // A watch of another is told of everything, whatever waits there.
    let other = world.client_in("fleet:two:agent", &["fleet"]).await;
    let mut chunks = other.get(path).await.into_body().into_data_stream();
    let mut seen = 0;
    while seen < objects {
        let chunk = chunks.next().await.expect("the watch goes on").unwrap();
        seen += String::from_utf8_lossy(&chunk).matches("\"name\":\"large").count();
    }
    // The place of a watch that is gone is free again.
    let (client, answers) = unread.pop().unwrap();
    drop((answers, client));
    drop(unread);
    while metric(&admin, "apiserver_watches").await > 1 {
        tokio::task::yield_now().await;
    }
    world.stop().await;
}

#[tokio::test]
async fn watches_per_identity_are_limited_except_for_administrators() {
    let limits = Limits {
        watches: 3,
        ..Limits::default()
    };
    let world = fleet(limits, &["configmaps"]).await;
    let path = "/api/v1/configmaps?watch=1";
    let client = world.client_in("fleet:one:agent", &["fleet"]).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(client.get(path).await);
    }
    let refused = client.get(path).await;
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("retry-after"));
    is_told(&world, "LimitReachedWatches", "fleet:one:agent").await;
    let admin = world.client("admin").await;
    for _ in 0..5 {
        open.push(admin.get(path).await);
    }
    assert!(open.iter().all(|it| it.status() == 200));
    world.stop().await;
}
