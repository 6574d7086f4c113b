//! Seats, queues and 429.

use crate::client::{CONFIGMAPS, World, config_map, send, text};
use http::Method;
use kube_api::{Options, fair::Limits};
use std::time::Duration;

fn world(limits: Limits) -> Options {
    Options {
        limits,
        ..Options::default()
    }
}

#[tokio::test]
async fn a_client_whose_requests_never_finish_takes_nothing_from_others_and_is_sent_away_at_last() {
    let world = World::start(world(Limits {
        writes: 4,
        waiting: 3,
        ..Limits::default()
    }))
    .await;
    let noisy = world.client("noisy").await;
    let quiet = world.client("quiet").await;
    // Three of four seats, and three in the queue: all wait for bodies that do not come.
    let mut hanging: Vec<_> = (0..6).map(|_| noisy.begin(Method::POST, CONFIGMAPS)).collect();
    // One after the other: once one is sent away, all places were taken.
    let refused = loop {
        let answer = noisy.begin(Method::POST, CONFIGMAPS);
        let (rest, answered) = answer;
        let soon = tokio::time::timeout(Duration::from_secs(1), answered).await;
        match soon {
            Ok(answered) => break answered.unwrap().unwrap(),
            Err(_) => hanging.push((rest, tokio::spawn(std::future::pending()))),
        }
        assert!(hanging.len() < 20, "the queue has no end");
    };
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(text(refused).await, "Too many requests, please try again later.\n");
    // Others, and reads, and probes do not notice.
    for turn in 0..20 {
        assert_eq!(quiet.create(&format!("q{turn}")).await, 201);
    }
    assert_eq!(noisy.get(CONFIGMAPS).await.status(), 200);
    assert_eq!(noisy.get("/readyz").await.status(), 200);
    // When they finish after all, they are served.
    for (number, (rest, _)) in hanging.iter().take(6).enumerate() {
        send(rest, &config_map(&format!("n{number}")).to_string());
    }
    let six: Vec<_> = hanging.drain(..6).collect();
    drop(hanging);
    for (rest, answered) in six {
        drop(rest);
        assert_eq!(answered.await.unwrap().unwrap().status(), 201);
    }
    assert_eq!(noisy.create("at-last").await, 201);
    world.stop().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_waited_for_so_long_and_no_longer() {
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
async fn a_list_too_large_for_one_piece_is_the_same_list() {
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
