//! An API server in this process, and requests to it by an administrator.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use kube_api::{
    Options, Server,
    identity::{AUTHENTICATED, MASTERS, User},
    respond::Body,
};
use serde_json::Value;
use std::time::Duration;

const MERGE: &str = "application/merge-patch+json";
pub const APPLY: &str = "application/apply-patch+yaml";
/// Nothing that is waited for takes longer, even on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(30);

pub struct World {
    server: Server,
}

impl World {
    pub async fn new() -> Self {
        let server = Server::open(Options::default()).await.unwrap();
        Self { server }
    }

    /// One whose writes are shown only when they are on disk.
    pub async fn kept_in(data: &std::path::Path) -> Self {
        let options = Options {
            data_dir: Some(data.to_owned()),
            ..Options::default()
        };
        Self {
            server: Server::open(options).await.unwrap(),
        }
    }

    pub async fn open(&self, method: Method, path: &str, media: &str, body: &Value) -> http::Response<Body> {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::CONTENT_TYPE, media)
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        let user = User::new("admin", &[MASTERS, AUTHENTICATED]);
        self.server.answer(request, user).await
    }

    pub async fn ask(&self, method: Method, path: &str, media: &str, body: &Value) -> (u16, Value) {
        let response = self.open(method, path, media, body).await;
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Method::GET, path, "", &Value::Null).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.ask(Method::POST, path, "application/json", body).await
    }

    pub async fn merge(&self, path: &str, body: Value) -> (u16, Value) {
        self.ask(Method::PATCH, path, MERGE, &body).await
    }

    pub async fn delete(&self, path: &str) -> (u16, Value) {
        self.ask(Method::DELETE, path, "", &Value::Null).await
    }

    /// Waits until what is at a path holds; whatever happens in a collection is a reason to look again.
    pub async fn until(&self, collection: &str, path: &str, holds: impl Fn(u16, &Value) -> bool) -> Value {
        let watched = format!("{collection}?watch=1");
        let mut watch = self.open(Method::GET, &watched, "", &Value::Null).await.into_body();
        let waiting = async {
            loop {
                let (code, value) = self.get(path).await;
                if holds(code, &value) {
                    return value;
                }
                watch.frame().await.expect("the watch goes on").unwrap();
            }
        };
        tokio::time::timeout(PATIENCE, waiting).await.expect("it comes about")
    }
}
