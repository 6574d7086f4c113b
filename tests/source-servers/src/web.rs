//! A small HTTP server on this machine, which keeps what it was asked.

use bytes::Bytes;
use futures::{Stream, StreamExt, future::BoxFuture};
use http::{HeaderMap, Method, Request, Response, StatusCode, header::AUTHORIZATION};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    rt::{Read, Write},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

pub type ServerAnswer = Response<BoxBody<Bytes, Infallible>>;
type Handler = Arc<dyn Fn(ServerRequest) -> BoxFuture<'static, ServerAnswer> + Send + Sync>;

/// What a server was asked.
#[derive(Clone, Debug)]
pub struct ServerRequest {
    pub method: Method,
    pub path: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl ServerRequest {
    pub fn authorization(&self) -> Option<&str> {
        self.headers.get(AUTHORIZATION).map(|it| it.to_str().unwrap())
    }
}

/// A server, until its test ends.
pub struct WebServer {
    pub port: u16,
    scheme: &'static str,
    asked: Arc<Mutex<Vec<ServerRequest>>>,
}

impl WebServer {
    /// Answers with what a function makes of each request.
    pub async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(ServerRequest) -> A + Send + Sync + 'static,
        A: Future<Output = ServerAnswer> + Send + 'static,
    {
        Self::start_with(None, answer).await
    }

    /// The same over TLS.
    pub async fn start_with<F, A>(tls: Option<ServerConfig>, answer: F) -> Self
    where
        F: Fn(ServerRequest) -> A + Send + Sync + 'static,
        A: Future<Output = ServerAnswer> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |asked| Box::pin(answer(asked)));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let acceptor = tls.map(|it| TlsAcceptor::from(Arc::new(it)));
        let all = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (handler, all, acceptor) = (handler.clone(), all.clone(), acceptor.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => talk(TokioIo::new(stream), handler, all).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                talk(TokioIo::new(stream), handler, all).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, scheme, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}://localhost:{}{path}", self.scheme, self.port)
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<ServerRequest> {
        self.asked.lock().unwrap().clone()
    }

    /// What it was asked since this was asked last.
    pub fn take_asked(&self) -> Vec<ServerRequest> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn talk(
    stream: impl Read + Write + Unpin + Send + 'static,
    handler: Handler,
    all: Arc<Mutex<Vec<ServerRequest>>>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (handler, all) = (handler.clone(), all.clone());
        async move {
            let (head, body) = request.into_parts();
            let asked = ServerRequest {
                method: head.method,
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().to_owned(),
                headers: head.headers,
                body: body.collect().await.map(|it| it.to_bytes()).unwrap_or_default(),
            };
            all.lock().unwrap().push(asked.clone());
            Ok::<_, Infallible>(handler(asked).await)
        }
    });
    // Who hangs up early has read enough.
    let _ = http1::Builder::new().serve_connection(stream, service).await;
}

/// An answer with a body.
pub fn answer(status: u16, body: impl Into<Bytes>) -> ServerAnswer {
    let mut answer = Response::new(Full::new(body.into()).boxed());
    *answer.status_mut() = StatusCode::from_u16(status).unwrap();
    answer
}

/// An answer that sends us elsewhere.
pub fn redirect(to: &str) -> ServerAnswer {
    let mut answer = answer(302, "");
    answer.headers_mut().insert("location", to.parse().unwrap());
    answer
}

/// An answer that goes on as long as anybody reads it.
pub fn unending(start: &[u8], chunk: Vec<u8>) -> ServerAnswer {
    let start = futures::stream::iter([Bytes::copy_from_slice(start)]);
    let rest = futures::stream::repeat(Bytes::from(chunk));
    streamed(start.chain(rest))
}

fn streamed(chunks: impl Stream<Item = Bytes> + Send + Sync + 'static) -> ServerAnswer {
    let frames = chunks.map(|it| Ok::<_, Infallible>(Frame::data(it)));
    Response::new(BodyExt::boxed(StreamBody::new(frames)))
}

/// A URL at which nobody listens.
pub async fn nobody() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    format!("http://localhost:{}", listener.local_addr().unwrap().port())
}
