//! The user-server: takes requests for clusters and sends them through the tunnel.
//! Upstream: cluster-proxy `pkg/userserver/`.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use http::{HeaderValue, Request, Response, StatusCode, Uri};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::RwLock;
use rustls::{ClientConfig, ServerConfig, pki_types::ServerName};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{debug, warn};

use crate::{
    SERVICE_PROXY_PORT,
    allow_list::AllowList,
    forward::{self, AnyIo, Body, Client, DialTarget, Wire},
    headers, service_proxy_host, target,
};

/// The head of a request that takes longer is given up.
const HEAD: Duration = Duration::from_secs(32);
/// A TLS handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections at once.
const CONNECTIONS_MAX: usize = 10_000;

/// Opens a connection to `host:port` through the tunnel. The error [`NotConnected`](io::ErrorKind::NotConnected) means
/// that no proxy server is reached.
pub type Tunnel =
    Arc<dyn Fn(String) -> std::pin::Pin<Box<dyn Future<Output = io::Result<Box<dyn AnyIo>>> + Send>> + Send + Sync>;

/// What a server shows, asked for each connection, so that a renewed certificate counts at once.
pub type Serving = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// Whom service-proxies are trusted by, asked for each connection.
pub type Trusted = Arc<dyn Fn() -> Arc<ClientConfig> + Send + Sync>;

/// A user-server. Cloning shares it.
#[derive(Clone)]
pub struct UserServer {
    client: Client,
    allowed: Arc<RwLock<AllowList>>,
}

impl UserServer {
    /// Through this tunnel; `trusted` has the certificates of service-proxies.
    pub fn new(tunnel: Tunnel, trusted: Trusted, allowed: Arc<RwLock<AllowList>>) -> Self {
        let dial: DialTarget = Arc::new(move |uri: Uri| {
            let (tunnel, connector) = (tunnel.clone(), TlsConnector::from(trusted()));
            Box::pin(async move {
                let host = uri.host().unwrap_or_default().to_owned();
                let io = tunnel(format!("{host}:{SERVICE_PROXY_PORT}"))
                    .await
                    .map_err(NoTunnel::error)?;
                let name = ServerName::try_from(host).map_err(io::Error::other)?;
                let handshake = tokio::time::timeout(HANDSHAKE, connector.connect(name, io));
                Ok(Wire::new(handshake.await??))
            })
        });
        Self {
            client: Client::new(dial),
            allowed,
        }
    }

    /// Answers one request.
    pub async fn answer(&self, mut request: Request<Incoming>) -> Response<Body> {
        let uri = request.uri();
        let raw = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        let target = match target::read(raw) {
            Ok(target) => target,
            Err(why) => return forward::error(StatusCode::BAD_REQUEST, &why),
        };
        let service = &target.service;
        if !self.allowed.read().allows(service) {
            let why = format!(
                "service {}/{} is not in the exposed services allowlist",
                service.namespace, service.service
            );
            return forward::error(StatusCode::FORBIDDEN, &why);
        }
        let host = service_proxy_host(&target.cluster);
        let Ok(uri) = format!("https://{host}:{SERVICE_PROXY_PORT}{}", target.path).parse() else {
            return forward::error(StatusCode::BAD_REQUEST, "requestURL format not correct");
        };
        *request.uri_mut() = uri;
        let sent = request.headers_mut();
        sent.remove(http::header::HOST);
        for name in headers::ALL {
            // Whatever the caller has put there.
            sent.remove(name);
        }
        for (name, value) in service.headers() {
            match HeaderValue::from_str(value) {
                Ok(value) => sent.insert(name, value),
                Err(_) => return forward::error(StatusCode::BAD_REQUEST, "requestURL format not correct"),
            };
        }
        match self.client.forward(request).await {
            Ok(answer) => answer,
            Err(why) if why.contains(NO_TUNNEL) => forward::error(StatusCode::BAD_REQUEST, &why),
            Err(why) => {
                debug!(cluster = %target.cluster, "{why}");
                let why = format!("proxy to anp-proxy-server failed because {why}");
                forward::error(StatusCode::BAD_GATEWAY, &why)
            }
        }
    }

    /// Serves until `stop`, and then those requests that are open until `drained`.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Serving,
        stop: CancellationToken,
        drained: CancellationToken,
    ) {
        serve(listener, tls, stop, drained, Arc::new(self.clone())).await;
    }
}

impl Answering for UserServer {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        Self::answer(self, request).await
    }
}

/// What stands in the reason when no proxy server can be reached.
const NO_TUNNEL: &str = "no proxy server is reached";

struct NoTunnel;

impl NoTunnel {
    fn error(error: io::Error) -> io::Error {
        if error.kind() != io::ErrorKind::NotConnected {
            return error;
        }
        io::Error::new(error.kind(), format!("{NO_TUNNEL}: {error}"))
    }
}

/// What answers requests.
pub trait Answering: Send + Sync + 'static {
    /// Answers one.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Body>> + Send;
}

/// Serves HTTP/1.1 over TLS until `stop`; requests that are open then go on until `drained`.
pub async fn serve<A: Answering>(
    listener: TcpListener,
    tls: Serving,
    stop: CancellationToken,
    drained: CancellationToken,
    answering: Arc<A>,
) {
    let room = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    let open = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            it = listener.accept() => it,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = room.clone().try_acquire_owned() else {
            debug!("too many connections");
            continue;
        };
        let (tls, answering, stop, drained) = (tls(), answering.clone(), stop.clone(), drained.clone());
        open.spawn(async move {
            tokio::select! {
                () = connection(stream, tls, answering, stop) => {}
                () = drained.cancelled() => {}
            }
            drop(permit);
        });
    }
    open.close();
    open.wait().await;
}

async fn connection<A: Answering>(
    stream: TcpStream,
    tls: Arc<ServerConfig>,
    answering: Arc<A>,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let accepting = tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream));
    let Ok(Ok(stream)) = accepting.await else {
        return;
    };
    let service = service_fn(|request| {
        let answering = answering.clone();
        async move { Ok::<_, Infallible>(answering.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let serving = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::pin!(serving);
    tokio::select! {
        // A caller that goes away is no fault of ours.
        _ = serving.as_mut() => return,
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}
