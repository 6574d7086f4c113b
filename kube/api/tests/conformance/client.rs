//! A plain client: one connection, requests as bytes, answers as they came.

use crate::cluster::{Credential, Target};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use serde_json::Value;
use std::{ops::Index, sync::Arc, time::Duration};
use tokio::{net::TcpStream, sync::Mutex};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// An answer that takes longer is a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a TLS connection is tried.
const HANDSHAKES: usize = 3;

/// One request.
#[derive(Clone)]
pub struct Ask {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Ask {
    pub fn new(method: &str, path: impl Into<String>) -> Self {
        Self {
            method: method.parse().unwrap(),
            path: path.into(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }
    pub fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path)
    }
    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new("POST", path).json(body)
    }
    pub fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new("PUT", path).json(body)
    }
    /// PATCH with one of `json`, `merge`, `strategic-merge` and `apply`.
    pub fn patch(kind: &str, path: impl Into<String>, body: &Value) -> Self {
        let media = match kind {
            "json" => "application/json-patch+json",
            "merge" => "application/merge-patch+json",
            "strategic-merge" => "application/strategic-merge-patch+json",
            "apply" => "application/apply-patch+yaml",
            other => other,
        };
        Self::new("PATCH", path).bytes(media, body.to_string())
    }
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new("DELETE", path)
    }
    pub fn json(self, body: &Value) -> Self {
        self.bytes("application/json", body.to_string())
    }
    pub fn bytes(mut self, media: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.with("content-type", media)
    }
    /// A body without a media type.
    pub fn untyped(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
    pub fn accept(self, value: &str) -> Self {
        self.with("accept", value)
    }
    pub fn token(self, token: &str) -> Self {
        let value = format!("Bearer {token}");
        self.with("authorization", &value)
    }
    /// As somebody else.
    pub fn user(mut self, name: &str, groups: &[&str]) -> Self {
        self = self.with("impersonate-user", name);
        for group in groups {
            self = self.with("impersonate-group", group);
        }
        self
    }
    pub fn what(&self) -> String {
        format!("{} {}", self.method, self.path)
    }
}

enum Sender {
    Two(conn::http2::SendRequest<Full<Bytes>>),
    One(Arc<Mutex<conn::http1::SendRequest<Full<Bytes>>>>),
}

/// One connection, opened at the first request and again when it ended.
#[derive(Clone)]
pub struct Client {
    target: Target,
    credential: Credential,
    protocol: &'static str,
    sender: Arc<Mutex<Option<Sender>>>,
}

impl Client {
    pub fn new(target: &Target, credential: &Credential, protocol: &'static str) -> Self {
        Self {
            target: target.clone(),
            credential: credential.clone(),
            protocol,
            sender: Arc::default(),
        }
    }

    /// A TLS connection without a request. A server may close one before it is there, so it is tried again.
    pub async fn connect(&self, alpn: &[&str]) -> TlsStream<TcpStream> {
        for _ in 1..HANDSHAKES {
            if let Ok(stream) = self.try_connect(alpn).await {
                return stream;
            }
        }
        self.try_connect(alpn)
            .await
            .unwrap_or_else(|it| panic!("the handshake failed: {it}"))
    }

    async fn try_connect(&self, alpn: &[&str]) -> std::io::Result<TlsStream<TcpStream>> {
        let config = self.target.tls(self.credential.pair.as_ref(), alpn);
        let stream = TcpStream::connect((self.target.host.as_str(), self.target.port))
            .await
            .unwrap_or_else(|it| panic!("no connection: {it}"));
        stream.set_nodelay(true).unwrap();
        let name = ServerName::try_from(self.target.host.clone()).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }

    async fn start(&self) -> Sender {
        let io = TokioIo::new(self.connect(&[self.protocol]).await);
        if self.protocol == "h2" {
            let (sender, connection) = conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tokio::spawn(connection);
            Sender::Two(sender)
        } else {
            let (sender, connection) = conn::http1::handshake(io).await.unwrap();
            tokio::spawn(connection);
            Sender::One(Arc::new(Mutex::new(sender)))
        }
    }

    /// Sends a request and returns when the head of its answer is there. A server may close a connection at any time;
    /// what it has not taken yet is sent again.
    pub async fn begin(&self, ask: &Ask) -> Result<http::Response<Incoming>, String> {
        match self.try_begin(ask).await? {
            Err(error) if was_not_taken(&error) => {
                // It may not be known yet that this connection takes no more.
                *self.sender.lock().await = None;
                self.try_begin(ask).await?
            }
            answer => answer,
        }
        .map_err(|it| format!("{it:?}"))
    }

    async fn try_begin(&self, ask: &Ask) -> Result<Result<http::Response<Incoming>, hyper::Error>, String> {
        let authority = format!("{}:{}", self.target.host, self.target.port);
        let mut request = Request::builder().method(&ask.method);
        request = if self.protocol == "h2" {
            request.uri(format!("https://{authority}{}", ask.path))
        } else {
            request.uri(&ask.path).header("host", &authority)
        };
        if !ask.headers.iter().any(|it| it.0 == "user-agent") {
            request = request.header("user-agent", "conformance/1.0 (test)");
        }
        if let (Some(token), false) = (
            &self.credential.token,
            ask.headers.iter().any(|it| it.0 == "authorization"),
        ) {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in &ask.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(ask.body.clone())).map_err(|it| it.to_string())?;
        let answer = {
            let mut sender = self.sender.lock().await;
            let ended = match &*sender {
                None => true,
                Some(Sender::Two(it)) => it.is_closed(),
                Some(Sender::One(it)) => it.lock().await.is_closed(),
            };
            if ended {
                *sender = Some(self.start().await);
            }
            match sender.as_ref().expect("it was started above") {
                Sender::Two(it) => {
                    let mut it = it.clone();
                    drop(sender);
                    match it.ready().await {
                        Ok(()) => it.send_request(request).await,
                        Err(closed) => Err(closed),
                    }
                }
                Sender::One(it) => {
                    let it = it.clone();
                    drop(sender);
                    let mut it = it.lock().await;
                    match it.ready().await {
                        Ok(()) => it.send_request(request).await,
                        Err(closed) => Err(closed),
                    }
                }
            }
        };
        Ok(answer)
    }

    /// Sends a request and reads its answer; a connection that breaks is an error.
    pub async fn attempt(&self, ask: &Ask) -> Result<Reply, String> {
        let whole = async {
            let mut turn = tokio::time::interval(Duration::from_millis(100));
            loop {
                turn.tick().await;
                let (head, body) = self.begin(ask).await?.into_parts();
                let bytes = body.collect().await.map_err(|it| format!("{it:?}"))?.to_bytes();
                let reply = Reply::new(ask.what(), head.status, head.headers, bytes);
                if !is_not_ready(&reply) {
                    return Ok(reply);
                }
            }
        };
        tokio::time::timeout(PATIENCE, whole)
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {} s", PATIENCE.as_secs())))
    }

    /// Sends a request and reads its answer.
    #[track_caller]
    pub fn send(&self, ask: Ask) -> impl Future<Output = Reply> + Send + 'static {
        let client = self.clone();
        let at = std::panic::Location::caller();
        async move {
            client
                .attempt(&ask)
                .await
                .unwrap_or_else(|it| panic!("{} (line {}): {it}", ask.what(), at.line()))
        }
    }

    /// Starts a watch; the answer has to be a stream.
    pub async fn watch(&self, ask: Ask) -> Watch {
        let mut turn = tokio::time::interval(Duration::from_millis(100));
        let (head, body) = loop {
            turn.tick().await;
            let response = tokio::time::timeout(PATIENCE, self.begin(&ask))
                .await
                .unwrap_or_else(|_| panic!("{}: the head of the answer did not come", ask.what()))
                .unwrap_or_else(|it| panic!("{}: {it}", ask.what()));
            let (head, body) = response.into_parts();
            if head.status == StatusCode::OK {
                break (head, body);
            }
            let bytes = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
            let reply = Reply::new(ask.what(), head.status, head.headers, bytes);
            assert!(is_not_ready(&reply), "{}", reply.came());
        };
        Watch {
            what: ask.what(),
            headers: head.headers,
            body,
            rest: Vec::new(),
        }
    }
}

/// An answer. Its JSON is reached by index.
pub struct Reply {
    pub what: String,
    pub code: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
    pub json: Value,
}

impl Reply {
    fn new(what: String, status: StatusCode, headers: HeaderMap, bytes: Bytes) -> Self {
        Self {
            what,
            code: status.as_u16(),
            json: serde_json::from_slice(&bytes).unwrap_or_default(),
            headers,
            bytes,
        }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// What came, for messages.
    pub fn came(&self) -> String {
        let mut text = self.text();
        if text.len() > 1500 {
            let end = (0..=1500).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
            text.truncate(end);
            text.push('…');
        }
        format!("{} → {} {}", self.what, self.code, text.trim_end())
    }

    #[track_caller]
    pub fn is(self, code: u16) -> Self {
        assert!(self.code == code, "expected {code}; came: {}", self.came());
        self
    }

    /// A Status with this code and reason.
    #[track_caller]
    pub fn fails(self, code: u16, reason: &str) -> Self {
        let it = self.is(code);
        let given = it.json["reason"].as_str().unwrap_or_default();
        assert!(
            it.json["kind"] == "Status" && it.json["status"] == "Failure" && given == reason && it.json["code"] == code,
            "expected a Status {code} {reason:?}; came: {}",
            it.came()
        );
        it
    }

    #[track_caller]
    pub fn says(self, message: &str) -> Self {
        let given = self.json["message"].as_str().unwrap_or_default();
        assert!(
            given == message,
            "expected the message {message:?}; came: {}",
            self.came()
        );
        self
    }

    #[track_caller]
    pub fn mentions(self, part: &str) -> Self {
        let given = self.json["message"].as_str().unwrap_or_default();
        assert!(
            given.contains(part),
            "expected a message with {part:?}; came: {}",
            self.came()
        );
        self
    }

    pub fn header(&self, name: &str) -> String {
        let all: Vec<&str> = self
            .headers
            .get_all(name)
            .iter()
            .filter_map(|it| it.to_str().ok())
            .collect();
        all.join("; ")
    }

    /// A `Warning` header that has this text.
    #[track_caller]
    pub fn warns(self, part: &str) -> Self {
        let given = self.header("warning").replace("\\\"", "\"");
        assert!(
            given.contains(part),
            "expected a warning with {part:?}; came {given:?} with {}",
            self.came()
        );
        self
    }

    #[track_caller]
    pub fn silent(self) -> Self {
        let given = self.header("warning");
        assert!(given.is_empty(), "expected no warning; came {given:?}");
        self
    }

    /// The value at a JSON pointer.
    pub fn at(&self, pointer: &str) -> &Value {
        self.json.pointer(pointer).unwrap_or(&Value::Null)
    }

    #[track_caller]
    pub fn has(self, pointer: &str, wanted: impl Into<Value>) -> Self {
        let wanted = wanted.into();
        assert!(
            *self.at(pointer) == wanted,
            "expected {pointer} to be {wanted}, it is {}; came: {}",
            self.at(pointer),
            self.came()
        );
        self
    }

    #[track_caller]
    pub fn lacks(self, pointer: &str) -> Self {
        assert!(
            self.json.pointer(pointer).is_none(),
            "expected no {pointer}; came: {}",
            self.came()
        );
        self
    }

    pub fn revision(&self) -> u64 {
        let text = self.json["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        text.parse()
            .unwrap_or_else(|_| panic!("no resourceVersion; came: {}", self.came()))
    }

    pub fn uid(&self) -> String {
        self.json["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
    }

    /// The names of a list's items.
    pub fn names(&self) -> Vec<String> {
        let items = self.json["items"].as_array();
        let items = items.unwrap_or_else(|| panic!("no list; came: {}", self.came()));
        items
            .iter()
            .map(|it| it["metadata"]["name"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

impl Index<&str> for Reply {
    type Output = Value;

    fn index(&self, key: &str) -> &Value {
        &self.json[key]
    }
}

/// Whether a real server has just heard of a definition, or of a change of it: every client has to ask again then.
fn is_not_ready(reply: &Reply) -> bool {
    reply.code == 429 && reply.json["message"] == "storage is (re)initializing"
}

/// Whether the server closed the connection in peace before it had taken the request.
fn was_not_taken(error: &hyper::Error) -> bool {
    error.is_canceled() || format!("{error:?}").contains("NO_ERROR")
}

/// A stream of events.
pub struct Watch {
    what: String,
    pub headers: HeaderMap,
    body: Incoming,
    rest: Vec<u8>,
}

impl Watch {
    /// The next event; `None` when the stream ended as it should.
    pub async fn event(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(PATIENCE, self.line())
            .await
            .unwrap_or_else(|_| panic!("{}: no event within {} s", self.what, PATIENCE.as_secs()));
        line.map(|it| {
            serde_json::from_slice(&it)
                .unwrap_or_else(|error| panic!("{}: {error} in {}", self.what, String::from_utf8_lossy(&it)))
        })
    }

    async fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.rest.iter().position(|it| *it == b'\n') {
                let line = self.rest.drain(..=end).collect();
                return Some(line);
            }
            match self.body.frame().await {
                None => {
                    assert!(self.rest.is_empty(), "{}: the stream ended inside a line", self.what);
                    return None;
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.rest.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => panic!("{}: the stream broke: {error:?}", self.what),
            }
        }
    }

    /// The next event's type and object.
    pub async fn next(&mut self) -> (String, Value) {
        let mut event = self
            .event()
            .await
            .unwrap_or_else(|| panic!("{}: the stream ended", self.what));
        let kind = event["type"].as_str().unwrap_or_default().to_owned();
        (kind, event["object"].take())
    }

    /// The type of the next event and the name of its object; a server may set a bookmark at any time.
    pub async fn brief(&mut self) -> (String, String) {
        let (kind, object) = loop {
            let (kind, object) = self.next().await;
            if kind != "BOOKMARK" || !object["metadata"]["annotations"].is_null() {
                break (kind, object);
            }
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        (kind, name)
    }
}
