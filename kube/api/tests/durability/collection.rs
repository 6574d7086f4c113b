//! The deletion of a collection: many objects, few syncs, and an answer only when all of it is on the disk.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use futures::{StreamExt, future::join_all};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, BodyStream, Full};
use kube_api::{
    Options, Server,
    identity::{MASTERS, User},
    persist::{Loaded, Storage, StorageError},
    respond::Body,
};
use kube_store::store::Record;
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";
const OBJECTS: usize = 600;

/// A storage that writes while it is open, and fails the sync that it is told to.
#[derive(Clone, Default)]
struct Syncs {
    closed: Arc<(Mutex<bool>, Condvar)>,
    deletions: Arc<AtomicUsize>,
    /// Fails the group that deletes the so many-th object; 0 for none.
    failing: Arc<AtomicUsize>,
}

impl Syncs {
    fn close(&self, closed: bool) {
        *self.closed.0.lock().unwrap() = closed;
        self.closed.1.notify_all();
    }
}

impl Storage for Syncs {
    fn load(&mut self) -> Result<Loaded, StorageError> {
        Ok(Loaded::default())
    }

    fn write(&mut self, records: &[Record]) -> Result<(), StorageError> {
        let closed = self.closed.0.lock().unwrap();
        drop(self.closed.1.wait_while(closed, |it| *it).unwrap());
        let deleted = records.iter().filter(|it| it.json.is_none()).count();
        let before = self.deletions.fetch_add(deleted, Ordering::SeqCst);
        let failing = self.failing.load(Ordering::SeqCst);
        if failing > before && failing <= before + deleted {
            self.failing.store(0, Ordering::SeqCst);
            return Err(StorageError::Full);
        }
        Ok(())
    }
}

async fn ask(server: &Server, method: Method, path: &str, body: Value) -> Response<Body> {
    let body = if body.is_null() {
        Bytes::new()
    } else {
        body.to_string().into()
    };
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

async fn filled(storage: &Syncs) -> Server {
    let options = Options {
        storage: Some(Box::new(storage.clone())),
        ..Options::default()
    };
    let server = Server::open(options).await.unwrap();
    let created = join_all((0..OBJECTS).map(|number| {
        let mut metadata = json!({"name": format!("c{number}"), "labels": {"of": "test"}});
        if number % 100 == 7 {
            metadata["finalizers"] = json!(["example.com/hold"]);
        }
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
        ask(&server, Method::POST, CONFIGMAPS, body)
    }));
    assert!(created.await.iter().all(|it| it.status() == 201));
    server
}

async fn left(server: &Server) -> Vec<Value> {
    let list = value(
        ask(
            server,
            Method::GET,
            &format!("{CONFIGMAPS}?labelSelector=of=test"),
            Value::Null,
        )
        .await,
    )
    .await;
    list["items"].as_array().unwrap().clone()
}

#[tokio::test]
async fn deleting_a_collection_shares_syncs_between_objects() {
    let storage = Syncs::default();
    let server = filled(&storage).await;
    let watch = ask(
        &server,
        Method::GET,
        &format!("{CONFIGMAPS}?watch=1&labelSelector=of=test"),
        Value::Null,
    )
    .await;
    let mut watch = BodyStream::new(watch.into_body());
    // While the disk is at the first of them, the next ones are decided, and wait for one sync together.
    storage.close(true);
    let before = server.store().decided();
    let deleting = {
        let server = server.clone();
        let collection = format!("{CONFIGMAPS}?labelSelector=of=test");
        tokio::spawn(async move { ask(&server, Method::DELETE, &collection, Value::Null).await })
    };
    let mut looks = 0;
    while server.store().decided() < before + 200 {
        looks += 1;
        assert!(looks < 100_000, "{} were decided", server.store().decided() - before);
        tokio::task::yield_now().await;
    }
    assert!(!deleting.is_finished(), "it was answered before it was kept");
    storage.close(false);
    let deleted = deleting.await.unwrap();
    assert_eq!(deleted.status(), 200);
    assert_eq!(value(deleted).await["items"].as_array().unwrap().len(), OBJECTS);

    // What a finalizer holds is marked and stays; each of the others is gone, and was told once.
    let left = left(&server).await;
    assert_eq!(left.len(), OBJECTS / 100);
    for object in &left {
        assert!(object["metadata"]["deletionTimestamp"].is_string(), "{object}");
    }
    let mut told = BTreeSet::new();
    while told.len() < OBJECTS - left.len() {
        let chunk = watch.next().await.unwrap().unwrap().into_data().unwrap();
        for line in chunk.split(|it| *it == b'\n').filter(|it| !it.is_empty()) {
            let event: Value = serde_json::from_slice(line).unwrap();
            if event["type"] == "DELETED" {
                assert!(told.insert(event["object"]["metadata"]["name"].to_string()));
            }
        }
    }
    drop(watch);
    server.stop(None).await;
}

#[tokio::test]
async fn a_partly_failed_collection_delete_reports_an_error() {
    let storage = Syncs::default();
    let server = filled(&storage).await;
    storage
        .failing
        .store(storage.deletions.load(Ordering::SeqCst) + 5, Ordering::SeqCst);
    let collection = format!("{CONFIGMAPS}?labelSelector=of=test");
    let refused = ask(&server, Method::DELETE, &collection, Value::Null).await;
    assert_eq!(refused.status(), 500);
    assert!(left(&server).await.len() > OBJECTS / 100);
    let deleted = ask(&server, Method::DELETE, &collection, Value::Null).await;
    assert_eq!(deleted.status(), 200);
    assert_eq!(left(&server).await.len(), OBJECTS / 100);
    server.stop(None).await;
}
