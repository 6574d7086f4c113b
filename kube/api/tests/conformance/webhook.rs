//! A webhook of this process: HTTPS on the loopback, with a certificate of its own authority.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube_api::{pki::Pki, tls};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

/// A request that came: its path with the query, its `User-Agent` and its body.
#[derive(Clone, Debug)]
pub struct Seen {
    pub path: String,
    pub agent: String,
    pub review: Value,
}

/// Path without the query and body in; code and body out, or nothing when it never answers.
type Answer = dyn Fn(&str, &Value) -> Option<(u16, String)> + Send + Sync;

/// Answers until it is dropped.
pub struct Webhook {
    pub port: u16,
    /// PEM of the authority of its certificate.
    pub authority: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    serving: JoinHandle<()>,
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Webhook {
    /// Answers each review with what `answer` makes of it.
    pub async fn start(answer: impl Fn(Value) -> Value + Send + Sync + 'static) -> Self {
        Self::raw("localhost", move |_, review| {
            Some((200, answer(review.clone()).to_string()))
        })
        .await
    }

    /// A webhook of admission: the path and the request in, what `response` has beside `uid` out.
    pub async fn judge(response: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Self {
        Self::raw("localhost", reviewed(response)).await
    }

    /// One whose certificate is for this name too, beside the loopback address.
    pub async fn raw(
        name: &str,
        answer: impl Fn(&str, &Value) -> Option<(u16, String)> + Send + Sync + 'static,
    ) -> Self {
        let pki = Pki::open(None, &[name.to_owned()], jiff::Timestamp::now()).unwrap();
        let serving = pki.serving();
        let mut config = rustls::ServerConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(serving.chain.clone(), serving.key.clone_key())
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let serving = tokio::spawn(serve(listener, acceptor, seen.clone(), Arc::new(answer)));
        Self {
            port,
            authority: pki.ca_pem().to_owned(),
            seen,
            serving,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("https://127.0.0.1:{}{path}", self.port)
    }

    /// Its authority as a `caBundle`.
    pub fn bundle(&self) -> String {
        STANDARD.encode(&self.authority)
    }

    /// A `clientConfig` that names this server by URL.
    pub fn config(&self, path: &str) -> Value {
        json!({"url": self.url(path), "caBundle": self.bundle()})
    }

    /// Everything that came since it was last asked.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

/// What a webhook of admission answers, with the `uid` that it was asked with.
pub fn reviewed(
    response: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
) -> impl Fn(&str, &Value) -> Option<(u16, String)> + Send + Sync + 'static {
    move |path, review| {
        let mut response = response(path, &review["request"]);
        response["uid"] = review["request"]["uid"].clone();
        let whole = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
        Some((200, whole.to_string()))
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, seen: Arc<Mutex<Vec<Seen>>>, answer: Arc<Answer>) {
    // They end with it.
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen, answer) = (acceptor.clone(), seen.clone(), answer.clone());
        connections.spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request: Request<Incoming>| {
                let (seen, answer) = (seen.clone(), answer.clone());
                async move {
                    let path = request.uri().path().to_owned();
                    let whole = request.uri().path_and_query().map_or(path.clone(), ToString::to_string);
                    let agent = request.headers().get("user-agent");
                    let agent = agent.and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
                    let body = request.into_body().collect().await;
                    let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let reply = answer(&path, &review);
                    seen.lock().unwrap().push(Seen {
                        path: whole,
                        agent,
                        review,
                    });
                    let Some((code, text)) = reply else {
                        return std::future::pending().await;
                    };
                    let is_json = code == 200 || text.starts_with('{');
                    let media = if is_json { "application/json" } else { "text/plain" };
                    let response = Response::builder()
                        .status(code)
                        .header("content-type", media)
                        .body(Full::new(Bytes::from(text)));
                    Ok::<_, Infallible>(response.expect("a response with a constant header"))
                }
            });
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
