//! Seats, queues and 429.

use crate::client::{CONFIGMAPS, Client, World, config_map, group, metric, send, size, text};
use http::Method;
use kube_api::{
    Options,
    limits::Limits,
    party::{Party, PartyRule},
};
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

fn world(limits: Limits) -> Options {
    Options {
        limits,
        ..Options::default()
    }
}

#[tokio::test]
async fn unfinished_requests_are_limited_and_do_not_block_others() {
    let world = World::start(world(Limits {
        writes: 4,
        bodies: 6,
        ..Limits::default()
    }))
    .await;
    world.allow("writers", group("writers"), &["configmaps"]).await;
    let noisy = world.client_in("noisy", &["writers"]).await;
    let quiet = world.client_in("quiet", &["writers"]).await;
    let hanging: Vec<_> = (0..6).map(|_| noisy.begin(Method::POST, CONFIGMAPS)).collect();
    // One after the other: once one is sent away, all places were taken.
    let mut more = Vec::new();
    let refused = loop {
        let (rest, answered) = noisy.begin(Method::POST, CONFIGMAPS);
        let soon = tokio::time::timeout(Duration::from_secs(1), answered).await;
        match soon {
            Ok(answered) => break answered.unwrap().unwrap(),
            Err(_) => more.push(rest),
        }
        assert!(more.len() < 20, "there is room without end");
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    let status: serde_json::Value = serde_json::from_str(&text(refused).await).unwrap();
    assert_eq!(status["reason"], "TooManyRequests");
    // Others, and reads, and probes do not notice.
    for turn in 0..20 {
        assert_eq!(quiet.create(&format!("q{turn}")).await, 201);
    }
    assert_eq!(noisy.get(CONFIGMAPS).await.status(), 200);
    assert_eq!(noisy.get("/readyz").await.status(), 200);
    // When they finish after all, they are served.
    for (number, (rest, _)) in hanging.iter().enumerate() {
        send(rest, &config_map(&format!("n{number}")).to_string());
    }
    for (rest, answered) in hanging {
        drop(rest);
        assert_eq!(answered.await.unwrap().unwrap().status(), 201);
    }
    assert_eq!(noisy.create("at-last").await, 201);
    world.stop().await;
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

/// How long each of so many renewals took, the longest last.
async fn renewals(client: &Client, count: usize) -> Vec<Duration> {
    let mut took = Vec::with_capacity(count);
    let mut lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "two"}, "spec": {}});
    for turn in 0..count {
        lease["spec"]["holderIdentity"] = format!("agent{turn}").into();
        let began = Instant::now();
        let answer = client.ask(Method::PUT, &format!("{LEASES}/two"), Some(lease)).await;
        took.push(began.elapsed());
        let code = answer.status().as_u16();
        let said = text(answer).await;
        assert!(matches!(code, 200 | 201), "renewal {turn}: {said}");
        lease = serde_json::from_str(&said).unwrap();
    }
    took.sort();
    took
}

#[tokio::test]
async fn half_sent_requests_do_not_delay_another_clusters_lease() {
    const RENEWALS: usize = 200;
    let requests = size("ATTACK_REQUESTS", 2000);
    let rule: PartyRule = Arc::new(|user| {
        let rest = user.username.strip_prefix("fleet:")?;
        Some(Party::new(rest.split(':').next()?, rest))
    });
    let world = World::start(Options {
        parties: Some(rule),
        limits: Limits {
            body_start: Duration::from_secs(60),
            ..Limits::default()
        },
        ..Options::default()
    })
    .await;
    world.allow("fleet", group("fleet"), &["configmaps", "leases"]).await;
    let other = world.client_in("fleet:two:agent", &["fleet"]).await;
    let before = renewals(&other, RENEWALS).await;
    let gone = world.server.local();
    let gone = gone.delete("leases.coordination.k8s.io", "default", "two", None, None);
    gone.await.unwrap();
    let mut half_sent = Vec::new();
    for number in 0..requests {
        // Two identities of one cluster, and no more on one connection than it takes.
        if number % 500 == 0 {
            let agent = format!("fleet:one:agent{}", number / 500 % 2);
            let client = world.client_in(&agent, &["fleet"]).await;
            half_sent.push((client, Vec::new()));
        }
        let (client, requests) = half_sent.last_mut().unwrap();
        let (rest, answered) = client.begin(Method::POST, CONFIGMAPS);
        send(&rest, "{\"kind\":");
        requests.push((rest, answered));
    }
    // All of them are there, or sent away, before the other renews.
    let most = Limits::default().bodies.min(requests) as u64;
    let admin = world.client("admin").await;
    let arrived = async {
        while metric(&admin, "apiserver_request_body_bytes").await < most * 8 {
            tokio::task::yield_now().await;
        }
    };
    let arrived = tokio::time::timeout(Duration::from_secs(20), arrived).await;
    let during = renewals(&other, RENEWALS).await;
    let p99 = |took: &[Duration]| took[took.len() * 99 / 100];
    println!(
        "{requests} half-sent requests: the p99 of {RENEWALS} renewals is {:?}, and {:?} without them",
        p99(&during),
        p99(&before)
    );
    // Beside what the same machine takes without them. One that waited for a body would have waited for seconds.
    let most = p99(&before) * 3 + Duration::from_millis(100);
    assert!(
        p99(&during) < most,
        "{:?} and {:?} without them",
        p99(&during),
        p99(&before)
    );
    assert!(
        arrived.is_ok(),
        "what has come of bodies is not known before they have a seat"
    );
    drop(half_sent);
    world.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_arrive_times_out() {
    let world = World::start(world(Limits {
        body: Duration::from_millis(50),
        ..Limits::default()
    }))
    .await;
    let client = world.client("slow").await;
    let (rest, answered) = client.begin(Method::POST, CONFIGMAPS);
    send(&rest, "{\"kind\":");
    let answer = answered.await.unwrap().unwrap();
    assert_eq!(answer.status(), 504);
    let status: serde_json::Value = serde_json::from_str(&text(answer).await).unwrap();
    assert_eq!(status["reason"], "Timeout");
    world.stop().await;
}

#[tokio::test]
async fn a_list_sent_in_pieces_is_the_same_list() {
    use http_body_util::BodyExt;
    use std::io::Read;
    let world = World::start(Options::default()).await;
    let client = world.client("reader").await;
    let empty: serde_json::Value = serde_json::from_str(&text(client.get(CONFIGMAPS).await).await).unwrap();
    let before = empty["items"].as_array().unwrap().len();
    for number in 0..60 {
        let mut object = config_map(&format!("big{number}"));
        object["data"] = serde_json::json!({"text": format!("{number}-").repeat(2000)});
        let answer = client.ask(Method::POST, CONFIGMAPS, Some(object)).await;
        assert_eq!(answer.status(), 201);
    }
    let plain = text(client.get(CONFIGMAPS).await).await;
    assert!(plain.len() > 300_000 && plain.ends_with("]}\n"), "{}", plain.len());
    let value: serde_json::Value = serde_json::from_str(&plain).unwrap();
    assert_eq!(value["items"].as_array().unwrap().len(), before + 60);
    // Packed while it is sent, it is the same.
    let request = http::Request::builder()
        .uri(CONFIGMAPS)
        .header("accept-encoding", "gzip")
        .body(http_body_util::Empty::<bytes::Bytes>::new())
        .unwrap();
    let user = kube_api::identity::User::new("reader", &[kube_api::identity::MASTERS]);
    let packed = world.server.answer(request, user).await;
    assert_eq!(packed.headers()["content-encoding"], "gzip");
    let packed = packed.into_body().collect().await.unwrap().to_bytes();
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain);
    world.stop().await;
}
