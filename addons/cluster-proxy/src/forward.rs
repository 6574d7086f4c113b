//! A request that is passed on as it is, its answer, and what follows an upgrade: bytes, both ways.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{
    body::Incoming,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::{
    client::legacy::{
        self,
        connect::{Connected, Connection},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use ocm_addon_sdk::kube;
use tokio::io::{AsyncRead, AsyncWrite};
use tracing::debug;

/// What is answered.
pub type Body = BoxBody<Bytes, hyper::Error>;

/// A connection that nobody uses is kept so long for the next request.
const IDLE: Duration = Duration::from_secs(60);
/// After an upgrade so much is copied at once.
const PIECE: usize = 256 << 10;

/// What bytes go through.
pub trait AnyIo: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> AnyIo for T {}

/// A connection of a [`Client`].
pub struct Wire(TokioIo<Box<dyn AnyIo>>);

impl Wire {
    /// Over this.
    pub fn new(io: impl AnyIo + 'static) -> Self {
        Self(TokioIo::new(Box::new(io)))
    }
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Opens connections to where requests go.
pub type DialTarget =
    std::sync::Arc<dyn Fn(Uri) -> Pin<Box<dyn Future<Output = io::Result<Wire>> + Send>> + Send + Sync>;

/// A [`DialTarget`] as hyper's client has it.
#[derive(Clone)]
pub struct Connector(DialTarget);

impl tower::Service<Uri> for Connector {
    type Response = Wire;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Wire>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        (self.0)(uri)
    }
}

/// Passes requests on over HTTP/1.1, so that they may be upgraded.
#[derive(Clone)]
pub struct Client(legacy::Client<Connector, Incoming>);

impl Client {
    /// Over connections that `dial` opens; they are used again.
    pub fn new(dial: DialTarget) -> Self {
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .build(Connector(dial));
        Self(client)
    }

    /// Passes a request on to where its URI says, and its answer back.
    ///
    /// # Errors
    /// When there is no connection, or it breaks before the answer.
    pub async fn forward(&self, mut request: Request<Incoming>) -> Result<Response<Body>, String> {
        *request.version_mut() = http::Version::HTTP_11;
        let upgrade = upgrade(request.headers());
        strip(request.headers_mut(), upgrade.as_ref());
        let of_caller = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
        let answer = self.0.request(request).await;
        let mut answer = answer.map_err(|error| reason(&error))?;
        if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
            let Some(of_caller) = of_caller else {
                return Err("the other side switches protocols, which nobody asked for".to_owned());
            };
            let of_other = hyper::upgrade::on(&mut answer);
            tokio::spawn(async move {
                match tokio::try_join!(of_caller, of_other) {
                    Ok((caller, other)) => {
                        let (mut caller, mut other) = (TokioIo::new(caller), TokioIo::new(other));
                        let _ = tokio::io::copy_bidirectional_with_sizes(&mut caller, &mut other, PIECE, PIECE).await;
                    }
                    Err(error) => debug!(%error, "an upgrade did not come about"),
                }
            });
        } else {
            strip(answer.headers_mut(), None);
        }
        Ok(answer.map(|it| it.boxed()))
    }
}

/// An error with what led to it, which hyper keeps apart.
pub fn reason(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}

/// The protocol that a caller wants to change to.
fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut words = headers.get_all(header::CONNECTION).iter();
    let asks = words.any(|it| {
        let text = it.to_str().unwrap_or_default();
        text.split(',').any(|it| it.trim().eq_ignore_ascii_case("upgrade"))
    });
    headers.get(header::UPGRADE).filter(|_| asks).cloned()
}

/// Takes away what is between two neighbours only. RFC 9110, section 7.6.1.
fn strip(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .filter_map(|it| it.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "proxy-authorization",
        "upgrade",
    ] {
        headers.remove(name);
    }
    if let Some(upgrade) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, upgrade.clone());
    }
}

/// An answer of ours, as Go's `http.Error` writes it.
pub fn error(status: StatusCode, text: &str) -> Response<Body> {
    let body = Full::new(Bytes::from(format!("{text}\n")))
        .map_err(|never| match never {})
        .boxed();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    let sniff = HeaderValue::from_static("nosniff");
    response.headers_mut().insert("x-content-type-options", sniff);
    response
}

/// The certificates in PEM.
///
/// # Errors
/// When there is none, or one cannot be read.
pub fn roots(pem: &[u8]) -> io::Result<rustls::RootCertStore> {
    use rustls_pki_types::{CertificateDer, pem::PemObject};
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(io::Error::other)?;
        roots.add(certificate).map_err(io::Error::other)?;
    }
    if roots.is_empty() {
        return Err(io::Error::other("there is no certificate"));
    }
    Ok(roots)
}

/// Whose errors these are: kube's client says of an API call what went wrong.
pub fn of_api(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => reason(other),
    }
}
