//! Requests, to a server in memory.

use super::{part, text};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use kube_api::{
    Options, Server,
    identity::{MASTERS, User},
};
use serde_json::Value;
use std::sync::{Mutex, PoisonError};

struct World {
    runtime: tokio::runtime::Runtime,
    server: Server,
    /// How often it was asked.
    asked: u32,
}

/// After so many requests there is a new server: what they have made would fill the memory otherwise, and a request
/// that brings the server down is easier to repeat when little went before it.
const REQUESTS_MAX: u32 = 2000;

static WORLD: Mutex<Option<World>> = Mutex::new(None);

fn open() -> World {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let server = runtime
        .block_on(Server::open(Options::default()))
        .expect("a server in memory");
    World {
        runtime,
        server,
        asked: 0,
    }
}

/// A request: `METHOD URI MEDIA-TYPE`, and its body after the line.
pub fn http(data: &[u8]) {
    let (line, body) = part(data);
    let mut words = text(line).splitn(3, ' ');
    let mut next = || words.next().unwrap_or_default();
    let (method, uri, media) = (next(), next(), next());
    ask(method, uri, media.as_bytes(), Bytes::copy_from_slice(body));
}

/// Sends one request and looks at what comes back.
pub fn ask(method: &str, uri: &str, media: &[u8], body: Bytes) {
    let (Ok(method), Ok(uri)) = (Method::from_bytes(method.as_bytes()), uri.parse::<Uri>()) else {
        return;
    };
    let mut request = Request::builder().method(method).uri(uri);
    if let Ok(media) = HeaderValue::from_bytes(media) {
        request = request.header("content-type", media.clone()).header("accept", media);
    }
    let Ok(request) = request.body(Full::new(body)) else {
        return;
    };
    // A request that panicked is told of once; the next one has a new server.
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut now = world.take().filter(|it| it.asked < REQUESTS_MAX).unwrap_or_else(open);
    now.asked += 1;
    let World { runtime, server, .. } = &now;
    runtime.block_on(converse(server, request));
    *world = Some(now);
}

async fn converse(server: &Server, request: Request<Full<Bytes>>) {
    let watches = request.uri().to_string().contains("watch") || request.uri().path().contains("follow");
    let user = User::new("stranger", &[MASTERS]);
    let response = server.answer(request, user).await;
    let code = response.status().as_u16();
    // A watch has no end.
    if watches {
        return;
    }
    let headers = response.headers().clone();
    let Ok(body) = response.into_body().collect().await;
    let body = body.to_bytes();
    let is_json = headers
        .get("content-type")
        .is_some_and(|it| it.as_bytes().starts_with(b"application/json"));
    if is_json && !headers.contains_key("content-encoding") && !body.is_empty() {
        let value: Value = serde_json::from_slice(&body).expect("what is called JSON is JSON");
        if code >= 400 {
            assert_eq!(value["kind"], "Status", "{code}: {value}");
            assert_eq!(value["code"], code, "{value}");
            assert!(value["message"].as_str().is_some_and(|it| !it.is_empty()), "{value}");
        }
    }
}
