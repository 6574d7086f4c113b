//! A server that stops.

use crate::client::{CONFIGMAPS, World, config_map, lines, send, text};
use http::Method;
use kube_api::Options;
use std::time::Duration;

#[tokio::test]
async fn a_stopping_server_finishes_requests_and_ends_watches() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options {
        data_dir: Some(dir.path().to_owned()),
        shutdown_delay: Duration::from_secs(2),
        ..Options::default()
    };
    let mut world = World::start(options()).await;
    let client = world.client("user").await;
    let watch = client.get(&format!("{CONFIGMAPS}?watch=1")).await;
    let (rest, answered) = client.begin(Method::POST, CONFIGMAPS);
    let whole = config_map("half").to_string();
    send(&rest, &whole[..10]);
    assert_eq!(client.get("/readyz").await.status(), 200);
    let (server, listening) = world.take();
    let stopping = tokio::spawn(async move { server.stop(Some(listening)).await });
    // Not ready at once, and still serving.
    while client.get("/readyz").await.status() == 200 {
        tokio::task::yield_now().await;
    }
    let said = text(client.get("/readyz?verbose=1").await).await;
    assert!(said.contains("[-]shutdown failed"), "{said}");
    assert_eq!(client.create("while-it-stops").await, 201);
    // The watch ends cleanly, with what was written until then.
    let seen = lines(watch).await;
    assert!(
        seen.iter()
            .any(|it| it["object"]["metadata"]["name"] == "while-it-stops")
    );
    assert!(seen.iter().all(|it| it["type"] == "ADDED"), "{seen:?}");
    send(&rest, &whole[10..]);
    drop(rest);
    assert_eq!(answered.await.unwrap().unwrap().status(), 201);
    stopping.await.unwrap();
    assert!(!world.is_listening().await);
    let again = kube_api::Server::open(options()).await.unwrap();
    for name in ["while-it-stops", "half"] {
        assert!(again.store().get("configmaps", "default", name).is_some(), "{name}");
    }
    again.stop(None).await;
}
