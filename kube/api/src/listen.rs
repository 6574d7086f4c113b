//! The accept loop: TCP, TLS, and HTTP/2 or HTTP/1.1 by what the client negotiated.
//!
//! Our own loop rather than a server framework's, because the peer's certificate must reach authentication, because
//! running out of file descriptors must be said and survived, and because an idle connection has to stay small.

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, server::conn, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{ServerConfig, pki_types::CertificateDer};
use sha2::{Digest, Sha256};
use std::{convert::Infallible, future::Future, io, pin::pin, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, info, warn};

/// A client that has not finished its handshake by then is dropped.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// Also the idle time of an HTTP/1.1 connection: a little more than the 90 s after which Go and kube clients close
/// theirs, so that the client closes first and never sends into a closing connection.
const HEADER_DEADLINE: Duration = Duration::from_secs(95);
/// After the stop signal, requests still running get this long: as long as Kubernetes gives any request, so that a
/// write that waits for a slow webhook is answered. Mostly nothing runs, and stopping takes no time.
const DRAIN_DEADLINE: Duration = Duration::from_secs(60);
/// Notices clients that vanished without closing.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_DEADLINE: Duration = Duration::from_secs(20);
/// A Go server allows 100; our agents put all their watches on one connection, and would stall there.
const STREAMS_MAX: u32 = 1000;
const WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;
const HEADER_BYTES_MAX: u32 = 1 << 20;
/// The most that one HTTP/1.1 connection buffers; it starts small and grows only as needed.
const BUFFER_BYTES_MAX: usize = 64 << 10;

/// The certificate chain that a client showed. TLS proved that the client holds its key, nothing more.
#[derive(Debug, Clone)]
pub struct PeerCertificate {
    pub chain: Vec<CertificateDer<'static>>,
    /// Hash of the first certificate: the key of the identity cache, and the user's credential id.
    pub sha256: [u8; 32],
}

impl PeerCertificate {
    /// The chain, end entity first; `None` when it is empty.
    pub fn new(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let sha256 = Sha256::digest(chain.first()?).into();
        Some(Self {
            chain: chain.iter().map(|it| it.clone().into_owned()).collect(),
            sha256,
        })
    }
}

/// Accepts connections until `stop` and answers each request with `handler`. Returns when every connection has ended,
/// at the latest a drain deadline after `stop`. Watches and other endless responses must end by themselves at `stop`.
pub async fn serve<H, F, B>(listener: TcpListener, tls: Arc<ArcSwap<ServerConfig>>, handler: H, stop: CancellationToken)
where
    H: Fn(Request<Incoming>, Option<Arc<PeerCertificate>>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let connections = TaskTracker::new();
    let abandon = CancellationToken::new();
    let mut failures = 0u32;
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => {
                failures = 0;
                stream
            }
            Err(error) if ended_before_accept(&error) => continue,
            Err(error) => {
                // Out of file descriptors, most likely: say so, leave the clients in the backlog and try again.
                failures = (failures + 1).min(7);
                warn!(%error, "could not accept a connection");
                let pause = Duration::from_millis(10 << failures);
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(pause) => continue,
                }
            }
        };
        let (tls, handler, stop, abandon) = (tls.load_full(), handler.clone(), stop.clone(), abandon.clone());
        connections.spawn(async move {
            tokio::select! {
                () = abandon.cancelled() => {}
                () = connection(stream, tls, handler, stop) => {}
            }
        });
    }
    drop(listener);
    connections.close();
    if tokio::time::timeout(DRAIN_DEADLINE, connections.wait()).await.is_err() {
        info!(
            connections = connections.len(),
            "closing connections whose requests did not end in time"
        );
        abandon.cancel();
        connections.wait().await;
    }
}

fn ended_before_accept(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

const PLAIN_HTTP: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

async fn handshake(mut stream: TcpStream, tls: Arc<ServerConfig>) -> io::Result<TlsStream<TcpStream>> {
    stream.set_nodelay(true)?;
    let accepted = tokio::time::timeout(HANDSHAKE_DEADLINE, async {
        let mut start = [0; 1024];
        // A TLS record starts with 0x16, an HTTP request with the capital letter of its method.
        if stream.peek(&mut start[..1]).await? == 1 && start[0].is_ascii_uppercase() {
            // Reading what was sent keeps the close from discarding the answer.
            let _ = stream.read(&mut start).await?;
            stream.write_all(PLAIN_HTTP).await?;
            return Err(io::Error::new(io::ErrorKind::InvalidData, "plain HTTP on the TLS port"));
        }
        TlsAcceptor::from(tls).accept(stream).await
    });
    accepted.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

async fn connection<H, F, B>(stream: TcpStream, tls: Arc<ServerConfig>, handler: H, stop: CancellationToken)
where
    H: Fn(Request<Incoming>, Option<Arc<PeerCertificate>>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    // Boxed so that its buffers are freed before the long life of the connection.
    let stream = tokio::select! {
        () = stop.cancelled() => return,
        stream = Box::pin(handshake(stream, tls)) => match stream {
            Ok(stream) => stream,
            Err(error) => {
                debug!(%error, "TLS handshake failed");
                return;
            }
        },
    };
    let session = stream.get_ref().1;
    let peer = session.peer_certificates().and_then(PeerCertificate::new).map(Arc::new);
    let is_http2 = session.alpn_protocol() == Some(b"h2");
    let service = service_fn(move |request| {
        let response = handler(request, peer.clone());
        async move { Ok::<_, Infallible>(response.await) }
    });
    let io = TokioIo::new(stream);
    let ended = if is_http2 {
        let mut builder = conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_frame_size(WINDOW_BYTES)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEADER_BYTES_MAX)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_DEADLINE);
        let mut connection = pin!(builder.serve_connection(io, service));
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    } else {
        let mut builder = conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_DEADLINE)
            .max_buf_size(BUFFER_BYTES_MAX);
        let mut connection = pin!(builder.serve_connection(io, service).with_upgrades());
        tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "connection ended");
    }
}

#[cfg(test)]
mod tests;
