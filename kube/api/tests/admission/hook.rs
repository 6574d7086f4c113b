//! A webhook on loopback, with TLS and an authority of its own.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use kube_api::{pki::Pki, tls};
use serde_json::{Value, json};
use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A request that came: path with query, and body.
pub type Seen = (String, Value);

/// Answers with a code and a text; nothing when it never answers.
type Answer = dyn Fn(&str, &Value) -> Option<(u16, String)> + Send + Sync;

pub struct Hook {
    pub address: SocketAddr,
    pki: Pki,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Hook {
    /// A server that answers so: path and body in, a whole body out.
    pub async fn raw(answer: impl Fn(&str, &Value) -> Option<(u16, String)> + Send + Sync + 'static) -> Self {
        let names = ["hook.default.svc".to_owned()];
        let pki = Pki::open(None, &names, jiff::Timestamp::now()).unwrap();
        let acceptor = TlsAcceptor::from(tls::server_config(&pki, &[]).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let answer: Arc<Answer> = Arc::new(answer);
        tokio::spawn(serve(listener, acceptor, seen.clone(), answer));
        Self { address, pki, seen }
    }

    /// A webhook of admission: the path and the request in, what `response` has beside `uid` out.
    pub async fn new(response: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Self {
        Self::raw(move |path, review| {
            let mut response = response(path, &review["request"]);
            response["uid"] = review["request"]["uid"].clone();
            let kind = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
            Some((200, kind.to_string()))
        })
        .await
    }

    /// A `clientConfig` that names this server by URL.
    pub fn config(&self, path: &str) -> Value {
        json!({"url": format!("https://{}{path}", self.address), "caBundle": self.authorities()})
    }

    /// Its authorities in base64.
    pub fn authorities(&self) -> String {
        use base64::{Engine, engine::general_purpose::STANDARD};
        STANDARD.encode(self.pki.ca_pem())
    }

    /// Its own certificate, which is no authority, in the place of theirs.
    pub fn own_certificate(&self) -> String {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let body = STANDARD.encode(&self.pki.serving().chain[0]);
        STANDARD.encode(format!(
            "-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n"
        ))
    }

    /// Everything that came.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor, seen: Arc<Mutex<Vec<Seen>>>, answer: Arc<Answer>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen, answer) = (acceptor.clone(), seen.clone(), answer.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let (seen, answer) = (seen.clone(), answer.clone());
                async move {
                    let path = request.uri().path_and_query().unwrap().as_str().to_owned();
                    assert_eq!(request.headers()["user-agent"], "kube-apiserver-admission");
                    let bytes = request.into_body().collect().await.unwrap().to_bytes();
                    let body: Value = serde_json::from_slice(&bytes).unwrap();
                    // The server's own controllers write at the same time.
                    let user = &body["request"]["userInfo"]["username"];
                    if user.is_null() || user == "admin" {
                        seen.lock().unwrap().push((path.clone(), body.clone()));
                    }
                    let Some((code, text)) = answer(path.split('?').next().unwrap(), &body) else {
                        return std::future::pending().await;
                    };
                    let response = Response::builder().status(code).body(Full::new(Bytes::from(text)));
                    Ok::<_, Infallible>(response.unwrap())
                }
            });
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}
