//! One HTTP/2 connection to an API server, shared by every request and watch, whose certificate can be changed.
//!
//! kube's own client speaks HTTP/1.1 only, so that every watch would be a TCP and TLS connection of its own, and it
//! repeats POST requests after a 503, which can create an object twice. This one speaks HTTP/2 (with ping frames, so
//! that a dead peer is noticed even when nothing is said), falls back to HTTP/1.1 where a proxy speaks nothing else,
//! and never repeats a POST that may have arrived.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, LazyLock, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{RETRY_AFTER, USER_AGENT},
};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use kube_primitives::server_certificate;
use rand::RngExt;
use rustls::pki_types::{CertificateDer, ServerName};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, util::BoxCloneSyncService};
use tracing::debug;

use crate::{buffer_release::ReleasingBody, dial::Dial};

/// A peer that does not answer a ping within this time is dead.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take to begin. Watches answer at once and then go on for as long as they like.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a request that may be repeated is repeated.
const REPEATS_MAX: u32 = 4;

type Sender = HyperClient<HttpsConnector<Dial>, Body>;
type Stack = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// A connection that hands out clients. Cloning shares it.
#[derive(Clone)]
pub struct Connection {
    stack: Arc<RwLock<Stack>>,
    default_namespace: String,
}

/// Why no connection can be set up. Nothing was sent yet.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// Certificates, keys or tokens cannot be used.
    #[error("the credential cannot be used: {0}")]
    Credential(#[source] kube::Error),
    /// The name to expect in the server's certificate is none.
    #[error("tls-server-name {0:?} is no host name")]
    ServerName(String),
    /// The proxy cannot be spoken to.
    #[error("proxy-url {0} is none of a proxy that makes tunnels: write http://HOST:PORT or https://HOST:PORT")]
    Proxy(String),
}

impl Connection {
    /// Prepares a connection; it is made with the first request.
    pub fn new(config: &Config) -> Result<Self, ConnectionError> {
        Ok(Self {
            stack: Arc::new(RwLock::new(stack(config)?)),
            default_namespace: config.default_namespace.clone(),
        })
    }

    /// A client over this connection. All clients of one connection share it, and follow [`reload`](Self::reload).
    pub fn client(&self) -> Client {
        let follow = Follow {
            stack: self.stack.clone(),
        };
        let service =
            ServiceExt::<Request<Body>>::map_response(follow, |it: Response<Incoming>| it.map(ReleasingBody::of));
        Client::new(service, self.default_namespace.clone())
    }

    /// Uses another certificate, token or server from the next request on. What is under way goes on as it began;
    /// watches come over when they are renewed, which they are every few minutes.
    pub fn reload(&self, config: &Config) -> Result<(), ConnectionError> {
        let new = stack(config)?;
        // A poisoned lock only means that another reload panicked; the stack behind it is whole.
        *self.stack.write().unwrap_or_else(std::sync::PoisonError::into_inner) = new;
        Ok(())
    }
}

/// One client for callers that never reload.
pub fn client(config: &Config) -> Result<Client, ConnectionError> {
    Ok(Connection::new(config)?.client())
}

/// Makes aws-lc-rs the process's crypto provider unless one is installed already.
pub fn install_crypto_provider() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // It can only fail when somebody else was faster, which serves as well.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
}

/// What our clients call themselves: the program, its version and the machine, as Go's clients do. API servers own the
/// fields that we write under the program's name.
fn user_agent() -> HeaderValue {
    static NAME: LazyLock<HeaderValue> = LazyLock::new(|| {
        let program = std::env::current_exe().ok();
        let program = program
            .as_ref()
            .and_then(|it| it.file_name()?.to_str())
            .unwrap_or("drover");
        let (version, os, arch) = (env!("CARGO_PKG_VERSION"), std::env::consts::OS, std::env::consts::ARCH);
        let text = format!("{program}/{version} ({os}/{arch})");
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("drover"))
    });
    NAME.clone()
}

fn name_ourselves<B>(mut request: Request<B>) -> Request<B> {
    request.headers_mut().entry(USER_AGENT).or_insert_with(user_agent);
    request
}

fn stack(config: &Config) -> Result<Stack, ConnectionError> {
    install_crypto_provider();
    let mut tls = config.rustls_client_config().map_err(ConnectionError::Credential)?;
    if let Some(bundle) = config.root_cert.as_ref().filter(|_| !config.accept_invalid_certs) {
        let bundle = bundle.iter().cloned().map(CertificateDer::from);
        let provider = tls.crypto_provider();
        let verifier = match &config.root_cert_file {
            Some(path) => server_certificate::verifier_of_file(path, bundle, provider),
            None => server_certificate::verifier(bundle, provider),
        };
        tls.dangerous().set_certificate_verifier(verifier);
    }
    tls.resumption = rustls::client::Resumption::in_memory_sessions(8);
    let speak = Speak {
        h2: sender(config, tls.clone(), true)?,
        h1: sender(config, tls, false)?,
        only_h1: Arc::new(AtomicBool::new(config.cluster_url.scheme_str() == Some("http"))),
    };
    let auth = config.auth_layer().map_err(ConnectionError::Credential)?;
    let headers = config.extra_headers_layer().map_err(ConnectionError::Credential)?;
    let stack = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(auth)
        .layer(headers)
        .map_request(name_ourselves)
        .map_err(BoxError::from)
        .service(speak);
    Ok(BoxCloneSyncService::new(stack.map_err(BoxError::from)))
}

fn sender(config: &Config, tls: rustls::ClientConfig, h2: bool) -> Result<Sender, ConnectionError> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(Duration::from_secs(30)));
    tcp.set_connect_timeout(Some(
        config.connect_timeout.unwrap_or(CONNECT_TIMEOUT).min(CONNECT_TIMEOUT),
    ));
    let dial = Dial::new(tcp, config.proxy_url.as_ref(), &tls).ok_or_else(|| {
        let url = config.proxy_url.as_ref().map(ToString::to_string);
        ConnectionError::Proxy(url.unwrap_or_default())
    })?;
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let builder = match &config.tls_server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone()).map_err(|_| ConnectionError::ServerName(name.clone()))?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
        None => builder,
    };
    let connector = if h2 {
        builder.enable_http2().wrap_connector(dial)
    } else {
        builder.enable_http1().wrap_connector(dial)
    };
    Ok(HyperClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_secs(90))
        // With "only", the pool knows that one connection will do, and the first requests wait for it rather than each
        // opening one.
        .http2_only(h2)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .http2_adaptive_window(true)
        .build(connector))
}

/// What clients hold: it asks for the present stack with each request.
#[derive(Clone)]
struct Follow {
    stack: Arc<RwLock<Stack>>,
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Incoming>, BoxError>> + Send>>;

impl Service<Request<Body>> for Follow {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let stack = self
            .stack
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone();
        Box::pin(stack.oneshot(request))
    }
}

/// The bottom of the stack: chooses the protocol and repeats what may be repeated.
#[derive(Clone)]
struct Speak {
    h2: Sender,
    h1: Sender,
    only_h1: Arc<AtomicBool>,
}

impl Service<Request<Body>> for Speak {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        Box::pin(self.clone().send(request))
    }
}

impl Speak {
    async fn send(self, request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        let (parts, body) = request.into_parts();
        let mut repeats = 0;
        let mut last_body = Some(body);
        loop {
            let body = last_body.take().ok_or("a streamed body cannot be sent twice")?;
            // Every body the client makes is in memory and can be cloned; a streamed one simply is not repeated.
            last_body = body.try_clone();
            let mut attempt = Request::new(body);
            *attempt.method_mut() = parts.method.clone();
            *attempt.uri_mut() = parts.uri.clone();
            *attempt.headers_mut() = parts.headers.clone();
            let h1 = self.only_h1.load(Ordering::Relaxed);
            let sender = if h1 { &self.h1 } else { &self.h2 };
            let answer = match tokio::time::timeout(ANSWER_TIMEOUT, sender.request(attempt)).await {
                Ok(answer) => answer,
                Err(_) => return Err(format!("no answer within {} s", ANSWER_TIMEOUT.as_secs()).into()),
            };
            match answer {
                Ok(response) => {
                    let Some(delay) = repeat_after(&parts.method, &response, repeats) else {
                        return Ok(response);
                    };
                    if last_body.is_none() {
                        return Ok(response);
                    }
                    debug!(method = %parts.method, uri = %parts.uri, status = %response.status(), ?delay, "will repeat");
                    drop(response);
                    tokio::time::sleep(delay).await;
                    repeats += 1;
                }
                // Nothing of the request was understood, so even a POST may be said again in the older language.
                Err(error) if !h1 && last_body.is_some() && speaks_no_h2(&error) => {
                    debug!("the server speaks no HTTP/2, using HTTP/1.1");
                    self.only_h1.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

// A GET may always be repeated; other methods only when the server asks for it by Retry-After, which says that it did
// not act; a POST never, because a proxy in between can say so of a request that did arrive.
fn repeat_after<B>(method: &Method, response: &Response<B>, repeats: u32) -> Option<Duration> {
    let status = response.status();
    let busy = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    if !busy.contains(&status) || method == Method::POST || repeats >= REPEATS_MAX {
        return None;
    }
    let asked = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|it| it.to_str().ok())
        .and_then(|it| it.parse::<u64>().ok());
    let delay = match asked {
        Some(seconds) => Duration::from_secs(seconds.min(30)),
        None if method == Method::GET => Duration::from_millis(50 << repeats),
        None => return None,
    };
    Some(delay.mul_f64(rand::rng().random_range(1.0..1.5)))
}

// Either TLS agreed on no protocol, or the server answered an HTTP/2 preface with something else.
fn speaks_no_h2(error: &hyper_util::client::legacy::Error) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)) =
            error.downcast_ref::<rustls::Error>()
        {
            return true;
        }
        if error.downcast_ref::<hyper::Error>().is_some_and(|it| it.is_parse()) {
            return true;
        }
        next = match error.downcast_ref::<std::io::Error>().and_then(|it| it.get_ref()) {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, retry_after: Option<&str>) -> Response<()> {
        let mut response = Response::builder().status(status);
        if let Some(seconds) = retry_after {
            response = response.header(RETRY_AFTER, seconds);
        }
        response.body(()).expect("a response")
    }

    #[test]
    fn a_post_is_never_repeated() {
        assert_eq!(repeat_after(&Method::POST, &answer(503, Some("1")), 0), None);
    }

    #[test]
    fn only_a_get_is_repeated_without_retry_after() {
        assert!(repeat_after(&Method::GET, &answer(503, None), 0).is_some());
        assert_eq!(repeat_after(&Method::PATCH, &answer(503, None), 0), None);
        assert!(repeat_after(&Method::PATCH, &answer(429, Some("1")), 0).is_some());
        assert_eq!(repeat_after(&Method::GET, &answer(500, None), 0), None);
        assert_eq!(repeat_after(&Method::GET, &answer(503, None), REPEATS_MAX), None);
    }
}
