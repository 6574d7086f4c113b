//! The disk has no room left: writes are refused as Kubernetes refuses, reads go on,
//! and when there is room again so do writes.

use crate::disk::Disk;
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, BodyStream, Full};
use kube_api::{
    Options, Server,
    identity::{MASTERS, User},
    persist::{Redb, Storage, StorageError},
    respond::Body,
};
use kube_store::store::Record;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn open(disk: &Disk) -> Server {
    let (disk, reserve) = (disk.clone(), Box::new(disk.clone()));
    let storage = Redb::with_backend("the disk", move || Ok(disk.clone()), reserve).unwrap();
    let options = Options {
        storage: Some(Box::new(storage)),
        ..Options::default()
    };
    Server::open(options).await.unwrap()
}

async fn ask(server: &Server, method: Method, path: &str, body: Option<Value>) -> Response<Body> {
    let body = body.map_or_else(Bytes::new, |it| it.to_string().into());
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::new(body))
        .unwrap();
    server.answer(request, User::new("admin", &[MASTERS])).await
}

async fn value(response: Response<Body>) -> Value {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "x".repeat(20_000)}})
}

async fn names(server: &Server) -> BTreeSet<String> {
    let list = value(ask(server, Method::GET, CONFIGMAPS, None).await).await;
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|it| it["metadata"]["name"].as_str().unwrap().to_owned())
        .filter(|it| it.starts_with("big"))
        .collect()
}

#[tokio::test]
async fn a_full_disk_refuses_writes_but_still_serves_reads() {
    let disk = Disk::default();
    let server = open(&disk).await;
    let watch = ask(&server, Method::GET, &format!("{CONFIGMAPS}?watch=1"), None).await;
    let mut watch = BodyStream::new(watch.into_body());
    disk.set_room(Some(disk.needed() + 100_000));
    let mut kept = BTreeSet::new();
    let refused = loop {
        let name = format!("big{}", kept.len());
        let response = ask(&server, Method::POST, CONFIGMAPS, Some(config_map(&name))).await;
        if response.status() != 201 {
            break response;
        }
        kept.insert(name);
        assert!(kept.len() < 2000, "the disk never filled");
    };
    assert_eq!(refused.status(), 500);
    assert_eq!(refused.headers()["retry-after"], "1");
    let status = value(refused).await;
    assert_eq!(
        (&status["kind"], &status["reason"]),
        (&json!("Status"), &json!("InternalError"))
    );
    let text = status["message"].as_str().unwrap();
    assert!(
        text.contains("the disk is full: make room on it, and writes go on by themselves"),
        "{text}"
    );

    // It stays so, and reads do not mind.
    for turn in 0..5 {
        let refused = ask(
            &server,
            Method::POST,
            CONFIGMAPS,
            Some(config_map(&format!("big-no{turn}"))),
        )
        .await;
        assert_eq!(refused.status(), 500);
        assert_eq!(names(&server).await, kept);
    }
    let path = format!("{CONFIGMAPS}/big0");
    assert_eq!(ask(&server, Method::GET, &path, None).await.status(), 200);
    assert_eq!(ask(&server, Method::DELETE, &path, None).await.status(), 200);
    assert_eq!(ask(&server, Method::GET, &path, None).await.status(), 404);
    kept.remove("big0");

    // Room comes back; a client that tries again, as it is told to, succeeds.
    disk.set_room(None);
    let mut tries = 0;
    while ask(&server, Method::POST, CONFIGMAPS, Some(config_map("big-last")))
        .await
        .status()
        != 201
    {
        tries += 1;
        assert!(tries < 10_000_000, "writes did not go on");
        tokio::task::yield_now().await;
    }
    kept.insert("big-last".into());
    assert_eq!(names(&server).await, kept);

    // Who watched has seen what was kept, each once, and nothing else.
    let mut seen = Vec::new();
    while seen.last().is_none_or(|it| it != "big-last") {
        let chunk = watch.next().await.unwrap().unwrap().into_data().unwrap();
        for line in chunk.split(|it| *it == b'\n').filter(|it| !it.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            let name = event["object"]["metadata"]["name"].as_str().unwrap().to_owned();
            if event["type"] == "DELETED" {
                assert_eq!(name, "big0");
                seen.retain(|it| *it != name);
                continue;
            }
            assert_eq!(event["type"], "ADDED");
            seen.extend(Some(name).filter(|it| it.starts_with("big")));
        }
    }
    assert_eq!(seen.len(), kept.len());
    assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), kept);
    drop(watch);
    server.stop(None).await;

    let again = open(&disk).await;
    assert_eq!(names(&again).await, kept);
    again.stop(None).await;
}

async fn health(server: &Server, which: &str) -> (u16, String) {
    let response = ask(server, Method::GET, &format!("/{which}?verbose"), None).await;
    let code = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

/// Fills the disk; says how many were kept.
async fn fill(server: &Server) -> usize {
    let mut kept = 0;
    while ask(
        server,
        Method::POST,
        CONFIGMAPS,
        Some(config_map(&format!("big{kept}"))),
    )
    .await
    .status()
        == 201
    {
        kept += 1;
        assert!(kept < 2000, "the disk never filled");
    }
    kept
}

#[tokio::test]
async fn deletions_and_the_start_go_on_a_full_disk() {
    let disk = Disk::default();
    let server = open(&disk).await;
    disk.set_room(Some(disk.needed() + 2_000_000));
    let kept = fill(&server).await;
    assert!(kept > 20, "{kept}");
    let mut same = config_map("big1");
    same["data"]["a"] = "y".repeat(20_000).into();
    let path = format!("{CONFIGMAPS}/big1");
    let put = ask(&server, Method::PUT, &path, Some(same)).await;
    let code = put.status().as_u16();
    assert_eq!(code, 200, "it needs no more room: {}", value(put).await);
    for number in 2..8 {
        let path = format!("{CONFIGMAPS}/big{number}");
        assert_eq!(ask(&server, Method::DELETE, &path, None).await.status(), 200);
    }
    assert_eq!(names(&server).await.len(), kept - 6);
    server.stop(None).await;

    let again = open(&disk).await;
    assert_eq!(names(&again).await.len(), kept - 6);
    assert_eq!(ask(&again, Method::DELETE, CONFIGMAPS, None).await.status(), 200);
    assert_eq!(names(&again).await.len(), 0);
    again.stop(None).await;
}

#[tokio::test]
async fn who_cannot_keep_what_is_written_is_not_ready() {
    let disk = Disk::default();
    let server = open(&disk).await;
    assert_eq!(health(&server, "readyz").await.0, 200);
    disk.set_room(Some(disk.needed() + 100_000));
    fill(&server).await;
    for which in ["readyz", "healthz"] {
        let (code, text) = health(&server, which).await;
        assert_eq!(code, 500);
        assert!(text.contains("[-]etcd failed"), "{text}");
    }
    // A restart would not make room.
    assert_eq!(health(&server, "livez").await.0, 200);
    disk.set_room(None);
    let mut looks = 0;
    while health(&server, "readyz").await.0 != 200 {
        looks += 1;
        assert!(looks < 10_000_000, "it does not see that there is room");
        tokio::task::yield_now().await;
    }
    server.stop(None).await;
}

fn record(revision: u64, key: &str, text: &str) -> Record {
    Record {
        revision,
        resource: "things".into(),
        key: key.into(),
        json: Some(text.to_owned().into()),
    }
}

#[test]
fn a_failing_disk_is_not_written_to_again() {
    let disk = Disk::default();
    let clone = disk.clone();
    let mut storage = Redb::with_backend("the disk", move || Ok(clone.clone()), Box::new(())).unwrap();
    storage.write(&[record(1, "a", "1")]).unwrap();
    disk.lose_power_after(0);
    for _ in 0..2 {
        let error = storage.write(&[record(2, "b", "2")]).unwrap_err();
        assert!(matches!(error, StorageError::Failed(_)), "{error:?}");
        assert!(
            error.to_string().contains("look after the disk, then start again"),
            "{error}"
        );
    }
}
