//! A write that is on its way to the disk: nobody sees it, and nobody is refused because of it either,
//! until it is there.

use std::{
    pin::pin,
    sync::{Arc, Condvar, Mutex},
};

use bytes::Bytes;
use futures::poll;
use http::{Method, Request, Response};
use http_body_util::Full;
use kube_api::{
    Options, Server,
    identity::{MASTERS, User},
    persist::{Loaded, Storage, StorageError},
    respond::Body,
};
use kube_store::store::Record;
use serde_json::{Value, json};

const CONFIGMAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A storage that writes while it is open.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn close(&self, closed: bool) {
        *self.0.0.lock().unwrap() = closed;
        self.0.1.notify_all();
    }
}

impl Storage for Gate {
    fn load(&mut self) -> Result<Loaded, StorageError> {
        Ok(Loaded::default())
    }

    fn write(&mut self, _: &[Record]) -> Result<(), StorageError> {
        let closed = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(closed, |it| *it).unwrap());
        Ok(())
    }
}

async fn ask(server: &Server, method: Method, path: &str, body: Value) -> Response<Body> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .unwrap();
    server.answer(request, User::new("admin", &[MASTERS])).await
}

#[tokio::test]
async fn a_conflict_is_reported_once_the_other_write_is_readable() {
    let gate = Gate::default();
    let options = Options {
        storage: Some(Box::new(gate.clone())),
        ..Options::default()
    };
    let server = Server::open(options).await.unwrap();
    let create = || {
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        ask(&server, Method::POST, CONFIGMAPS, body)
    };
    gate.close(true);
    let (mut one, mut two) = (pin!(create()), pin!(create()));
    for _ in 0..200 {
        assert!(poll!(&mut one).is_pending());
        assert!(poll!(&mut two).is_pending(), "it was refused for what nobody can see");
        tokio::task::yield_now().await;
    }
    gate.close(false);
    let (one, two) = futures::join!(one, two);
    let mut codes = [one.status().as_u16(), two.status().as_u16()];
    codes.sort_unstable();
    assert_eq!(codes, [201, 409]);
    let read = ask(&server, Method::GET, &format!("{CONFIGMAPS}/c"), Value::Null).await;
    assert_eq!(read.status(), 200);
}
