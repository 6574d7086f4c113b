//! How a connection reaches its server: straight, or through a proxy that makes it a tunnel (`proxy-url` of a
//! kubeconfig). Upstream: Go's `net/http` `Transport.Proxy`, of which http and https are here. A proxy that is spoken
//! to over TLS has to show a certificate that the kubeconfig's bundle vouches for, as in client-go.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Uri;
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::TokioIo,
};
use percent_encoding::percent_decode_str;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tower::{BoxError, Service};

/// The longest answer to CONNECT that is read.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// Makes connections for the TLS of the API server to run over.
#[derive(Clone)]
pub(crate) struct Dial {
    tcp: HttpConnector,
    proxy: Option<Arc<Proxy>>,
}

struct Proxy {
    address: Uri,
    /// The value of `Proxy-Authorization`.
    authorization: Option<String>,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dial {
    /// Straight, or through the proxy of this URL. `tls` is what the API server is spoken to with; nothing when the URL
    /// is none of a proxy that we can speak to.
    pub fn new(tcp: HttpConnector, proxy: Option<&Uri>, tls: &ClientConfig) -> Option<Self> {
        let proxy = match proxy {
            Some(url) => Some(Arc::new(Proxy::of(url, tls)?)),
            None => None,
        };
        Some(Self { tcp, proxy })
    }
}

impl Proxy {
    fn of(url: &Uri, tls: &ClientConfig) -> Option<Self> {
        let (host, tls, port) = match url.scheme_str()? {
            "http" => (url.host()?, None, 80),
            "https" => {
                let mut tls = tls.clone();
                // A tunnel is asked for in HTTP/1.1.
                tls.alpn_protocols.clear();
                let host = url.host()?;
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).ok()?;
                (host, Some((TlsConnector::from(Arc::new(tls)), name)), 443)
            }
            _ => return None,
        };
        let port = url.port_u16().unwrap_or(port);
        let userinfo = url.authority()?.as_str().rsplit_once('@').map(|it| it.0);
        Some(Self {
            // The connector connects to the host and port of any URL; the scheme is nothing to it.
            address: format!("http://{host}:{port}").parse().ok()?,
            authorization: userinfo.map(|it| {
                let plain: Vec<u8> = percent_decode_str(it).collect();
                format!("Basic {}", STANDARD.encode(plain))
            }),
            tls,
        })
    }

    async fn tunnel(&self, stream: TcpStream, target: &Uri) -> Result<Stream, BoxError> {
        let mut stream = match &self.tls {
            None => Stream::Plain(stream),
            Some((tls, name)) => Stream::Tls(Box::new(tls.connect(name.clone(), stream).await?)),
        };
        let host = target
            .host()
            .ok_or("a URL without a host cannot be reached through a proxy")?;
        let port = target
            .port_u16()
            .unwrap_or(if target.scheme_str() == Some("http") { 80 } else { 443 });
        let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        if let Some(authorization) = &self.authorization {
            request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        // What comes after the empty line is the server's, so nothing beyond it may be read.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() == ANSWER_BYTES_MAX {
                return Err("the proxy's answer has no end".into());
            }
            answer.push(stream.read_u8().await?);
        }
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.lines().next().unwrap_or_default();
        if status.split_whitespace().nth(1) == Some("200") {
            return Ok(stream);
        }
        Err(format!("the proxy {} makes no tunnel to {host}:{port}: {status}", self.address).into())
    }
}

impl Service<Uri> for Dial {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(BoxError::from)
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        let Some(proxy) = self.proxy.clone() else {
            let connecting = self.tcp.call(target);
            return Box::pin(async move { Ok(TokioIo::new(Stream::Plain(connecting.await?.into_inner()))) });
        };
        let connecting = self.tcp.call(proxy.address.clone());
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            Ok(TokioIo::new(proxy.tunnel(stream, &target).await?))
        })
    }
}

/// What the connection runs over.
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        match self {
            Stream::Plain(it) => it.connected(),
            Stream::Tls(it) => it.get_ref().0.connected(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(it) => Pin::new(it).poll_read(context, buffer),
            Stream::Tls(it) => Pin::new(it).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(it) => Pin::new(it).poll_write(context, bytes),
            Stream::Tls(it) => Pin::new(it).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(it) => Pin::new(it).poll_write_vectored(context, pieces),
            Stream::Tls(it) => Pin::new(it).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(it) => it.is_write_vectored(),
            Stream::Tls(it) => it.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(it) => Pin::new(it).poll_flush(context),
            Stream::Tls(it) => Pin::new(it).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(it) => Pin::new(it).poll_shutdown(context),
            Stream::Tls(it) => Pin::new(it).poll_shutdown(context),
        }
    }
}
