//! The two ports of a server: clients come in by one, agents by the other, each with certificates of its own.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{
    TunnelServer,
    agents::{self, ConnectedAgent},
    front,
};
use crate::{
    connection::{WINDOW, WINDOW_HEADER},
    grpc::{self, CONNECTION_WINDOW, FRAME_MAX, Receiving, STREAM_WINDOW, Sending},
    peer::{Admit, Peer},
};

/// The present configuration of a port's TLS: it is asked for each connection, so that certificates are renewed.
pub type TlsConfig = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// A TLS handshake that takes longer is given up.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// HTTP/2 connections to a port at once.
const CONNECTIONS_MAX: usize = 20_000;
/// Streams of one client's connection at once.
const STREAMS_MAX: u32 = 10_000;
/// How long an open connection may be silent before it is asked whether it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Which port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Of clients: `/ProxyService/Proxy`.
    Front,
    /// Of agents: `/AgentService/Connect`.
    Agents,
}

impl TunnelServer {
    /// Serves a port until `stop`. Whoever comes in has a certificate that `tls` trusts and that `admit` lets in.
    pub async fn serve(
        &self,
        port: Port,
        listener: TcpListener,
        tls: TlsConfig,
        admit: Admit,
        stop: CancellationToken,
    ) {
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => return,
                it = listener.accept() => it,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    warn!(%error, "a connection could not be accepted");
                    // Mostly there are too many open files, which takes a while to change.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(permit) = room.clone().try_acquire_owned() else {
                debug!("too many connections");
                continue;
            };
            let (server, tls, admit, stop) = (self.clone(), tls(), admit.clone(), stop.clone());
            tokio::spawn(async move {
                tokio::select! {
                    served = server.connection(port, stream, tls, &admit) => {
                        if let Err(error) = served {
                            debug!(?port, %error, "a connection has ended");
                        }
                    }
                    () = stop.cancelled() => {}
                }
                drop(permit);
            });
        }
    }

    async fn connection(&self, port: Port, stream: TcpStream, tls: Arc<ServerConfig>, admit: &Admit) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let accepting = TlsAcceptor::from(tls).accept(stream);
        let stream = tokio::time::timeout(HANDSHAKE, accepting).await??;
        let peer = Peer::of(&stream)?;
        if let Err(why) = admit(&peer) {
            warn!(?port, "refused: {why}");
            return Err(io::Error::other(why));
        }
        let mut http = http2::Builder::new(TokioExecutor::new());
        http.timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME_MAX)
            .max_concurrent_streams(match port {
                Port::Front => STREAMS_MAX,
                // An agent has one; it may come again before the old one is given up.
                Port::Agents => 2,
            })
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let service = service_fn(|request| {
            let answer = self.answer(port, request);
            async { Ok::<_, Infallible>(answer) }
        });
        http.serve_connection(TokioIo::new(stream), service)
            .await
            .map_err(io::Error::other)
    }

    fn answer(&self, port: Port, request: Request<Incoming>) -> Response<Sending> {
        /// gRPC's codes.
        const INVALID: u32 = 3;
        const EXHAUSTED: u32 = 8;
        const UNIMPLEMENTED: u32 = 12;
        let (head, body) = request.into_parts();
        let incoming = Receiving::new(body);
        let (sender, sending) = grpc::channel(true);
        match (port, head.uri.path()) {
            (Port::Front, "/ProxyService/Proxy") => {
                let server = self.clone();
                tokio::spawn(async move { front::serve(&server.inner, incoming, sender).await });
                grpc::response(self.headers(), sending)
            }
            (Port::Agents, "/AgentService/Connect") => {
                if self.agents() >= self.inner.limits.agents {
                    return grpc::refusal(EXHAUSTED, "too many agents");
                }
                let agent = match ConnectedAgent::read(&head.headers, sender) {
                    Ok(agent) => agent,
                    Err(why) => return grpc::refusal(INVALID, &why),
                };
                let mut headers = self.headers();
                if agent.window.is_some() {
                    headers.insert(WINDOW_HEADER, WINDOW.into());
                }
                let server = self.clone();
                tokio::spawn(async move { agents::serve(&server.inner, agent, incoming).await });
                grpc::response(headers, sending)
            }
            (_, other) => grpc::refusal(UNIMPLEMENTED, &format!("unknown method {other}")),
        }
    }
}
