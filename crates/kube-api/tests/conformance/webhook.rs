//! A webhook of this process: HTTPS on the loopback, with a certificate of its own authority.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube_api::{pki::Pki, tls};
use serde_json::Value;
use std::{convert::Infallible, sync::Arc};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_rustls::TlsAcceptor;

/// Answers until it is dropped.
pub struct Webhook {
    pub url: String,
    /// PEM of the authority of its certificate.
    pub authority: String,
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
        let pki = Pki::open(None, &[], jiff::Timestamp::now()).unwrap();
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
        let answer = Arc::new(answer);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, answer) = (acceptor.clone(), answer.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request: Request<Incoming>| {
                        let answer = answer.clone();
                        async move {
                            let body = request
                                .into_body()
                                .collect()
                                .await
                                .map(|it| it.to_bytes())
                                .unwrap_or_default();
                            let review = serde_json::from_slice(&body).unwrap_or_default();
                            let reply = Full::new(Bytes::from(answer(review).to_string()));
                            let response = Response::builder()
                                .header("content-type", "application/json")
                                .body(reply);
                            Ok::<_, Infallible>(response.expect("a response with a constant header"))
                        }
                    });
                    let _ = http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            url: format!("https://127.0.0.1:{port}/convert"),
            authority: pki.ca_pem().to_owned(),
            serving,
        }
    }
}
