//! One stream to one server, and the connections that it has asked for.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use futures::FutureExt;
use http::{HeaderMap, HeaderValue};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{Inner, Io, Table};
use crate::{
    connection::{Arrived, Inlet, Outlet, SendCredit, WINDOW, WINDOW_HEADER, connection},
    grpc::{self, CONNECTION_WINDOW, FRAME_MAX, Receiving, Sender},
    packet::{self, Credit, DialRequest, DialResponse, Drain, Packet, Payload},
};

/// How much is read at once.
const PIECE: usize = 64 << 10;
/// All connections of an agent are on one stream.
const WINDOW_OF_STREAM: u32 = CONNECTION_WINDOW;
/// How long a stream may be silent before it is asked whether it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// A stream that is open.
pub(super) struct Session {
    /// Which server.
    pub server_id: String,
    /// How many there are.
    pub server_count: usize,
    incoming: Receiving,
    shared: Arc<Shared>,
    /// Ends the connection to the server when the session does.
    http: tokio::task::AbortHandle,
}

struct Shared {
    agent: Arc<Inner>,
    sender: Sender,
    window: Option<usize>,
    next: AtomicI64,
    connections: Table<Inlet>,
    dialling: Table<CancellationToken>,
}

/// Opens a stream.
pub(super) async fn open(agent: Arc<Inner>) -> io::Result<Session> {
    let io = (agent.options.server)().await?;
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW_OF_STREAM)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_MAX)
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    let (mut requests, connection) = http.handshake(TokioIo::new(io)).await.map_err(io::Error::other)?;
    let http = tokio::spawn(async move {
        // The session hears of its end by the stream.
        let _ = connection.await;
    })
    .abort_handle();
    let text = |it: &str| HeaderValue::from_str(it).map_err(io::Error::other);
    let mut headers = HeaderMap::new();
    headers.insert("agentid", text(&agent.options.id)?);
    headers.insert("agentidentifiers", text(&agent.options.identifiers)?);
    headers.insert(WINDOW_HEADER, WINDOW.into());
    let (sender, sending) = grpc::channel(false);
    let request = grpc::request("/AgentService/Connect", headers, sending);
    let answer = requests.send_request(request).await.map_err(io::Error::other)?;
    let header = |name: &str| answer.headers().get(name).and_then(|it| it.to_str().ok());
    if let Some(status) = header("grpc-status") {
        let why = header("grpc-message").unwrap_or_default();
        return Err(io::Error::other(format!("the server refuses: status {status} {why}")));
    }
    let server_id = header("serverid").unwrap_or_default().to_owned();
    let server_count = header("servercount").and_then(|it| it.parse().ok()).unwrap_or(1);
    let window = header(WINDOW_HEADER).and_then(|it| it.parse().ok());
    Ok(Session {
        server_id,
        server_count,
        incoming: Receiving::new(answer.into_body()),
        shared: Arc::new(Shared {
            agent,
            sender,
            window,
            next: AtomicI64::new(1),
            connections: Table::default(),
            dialling: Table::default(),
        }),
        http,
    })
}

impl Drop for Session {
    fn drop(&mut self) {
        self.http.abort();
        for (_, inlet) in self.shared.connections.lock().drain() {
            inlet.close("the server has gone");
        }
        for (_, dialling) in self.shared.dialling.lock().drain() {
            dialling.cancel();
        }
    }
}

impl Session {
    /// Serves it until it ends, or `stop` and its connections have ended or `grace` is over.
    pub async fn run(mut self, stop: CancellationToken, grace: Duration) {
        let shared = self.shared.clone();
        let mut draining = false;
        let mut end = std::pin::pin!(futures::future::pending().boxed());
        loop {
            let packet = tokio::select! {
                packet = self.incoming.next() => packet,
                () = stop.cancelled(), if !draining => {
                    draining = true;
                    shared.send(Payload::Drain(Drain {})).await;
                    end.set(tokio::time::sleep(grace).boxed());
                    continue;
                }
                () = &mut end => return,
                // While it drains, somebody has to see that the last connection has ended.
                () = tokio::time::sleep(Duration::from_millis(50)), if draining => {
                    if shared.connections.lock().is_empty() {
                        return;
                    }
                    continue;
                }
            };
            match packet {
                Some(Ok(packet)) => shared.receive(packet).await,
                Some(Err(error)) => {
                    debug!(%error, "the stream to a server is broken");
                    return;
                }
                None => return,
            }
        }
    }
}

impl Shared {
    async fn send(&self, payload: Payload) -> bool {
        self.send_packet(payload.into()).await
    }

    async fn send_packet(&self, packet: Packet) -> bool {
        self.sender.send(packet).await.is_ok()
    }

    async fn receive(self: &Arc<Self>, packet: Packet) {
        match packet.payload {
            Some(Payload::DialRequest(request)) => self.dial(request).await,
            Some(Payload::CloseDial(back)) => {
                if let Some(dialling) = self.dialling.lock().remove(&back.random) {
                    dialling.cancel();
                }
            }
            // Upstream sends some for connections that never were.
            Some(Payload::Data(data)) if data.connect_id == 0 => {}
            Some(Payload::Data(data)) => {
                let id = data.connect_id;
                let taken = self.connections.lock().get(&id).map(|it| it.take(data.data));
                match taken {
                    Some(Ok(())) => {}
                    Some(Err(_)) => self.end(id, "the destination does not read what comes").await,
                    None => {
                        let unknown = packet::closed(id, "unrecognized connectID");
                        self.send_packet(unknown).await;
                    }
                }
            }
            Some(Payload::CloseRequest(asked)) => {
                let known = self.connections.lock().remove(&asked.connect_id);
                let why = if known.is_some() { "" } else { "Unknown connectID" };
                if let Some(inlet) = known {
                    inlet.close("");
                }
                self.send_packet(packet::closed(asked.connect_id, why)).await;
            }
            Some(Payload::CloseResponse(closed)) => {
                if let Some(inlet) = self.connections.lock().remove(&closed.connect_id) {
                    inlet.close("");
                }
            }
            Some(Payload::Credit(credit)) => {
                if let Some(inlet) = self.connections.lock().get(&credit.connect_id) {
                    inlet.grant(usize::try_from(credit.bytes).unwrap_or_default());
                }
            }
            Some(Payload::DialResponse(_) | Payload::Drain(_)) | None => {}
        }
    }

    /// Ends a connection and says why.
    async fn end(&self, id: i64, why: &str) {
        if let Some(inlet) = self.connections.lock().remove(&id) {
            inlet.close(why);
        } else {
            return;
        }
        self.send_packet(packet::closed(id, why)).await;
    }

    async fn dial(self: &Arc<Self>, request: DialRequest) {
        let random = request.random;
        let busy = self.connections.lock().len() + self.dialling.lock().len() >= self.agent.options.connections;
        if busy {
            return self
                .answer(random, Err("the agent has too many connections".to_owned()))
                .await;
        }
        let taken_back = CancellationToken::new();
        self.dialling.lock().insert(random, taken_back.clone());
        let shared = self.clone();
        tokio::spawn(async move {
            let dialled = tokio::select! {
                dialled = (shared.agent.options.target)(request.address) => dialled,
                () = taken_back.cancelled() => return,
            };
            if shared.dialling.lock().remove(&random).is_none() {
                return;
            }
            match dialled {
                Ok(target) => shared.connected(random, target).await,
                Err(error) => shared.answer(random, Err(error.to_string())).await,
            }
        });
    }

    async fn answer(&self, random: i64, result: Result<i64, String>) {
        let (error, connect_id) = match result {
            Ok(id) => (String::new(), id),
            Err(error) => (error, 0),
        };
        self.send(Payload::DialResponse(DialResponse {
            error,
            connect_id,
            random,
        }))
        .await;
    }

    /// Moves bytes both ways until one side ends.
    async fn connected(self: &Arc<Self>, random: i64, target: Box<dyn Io>) {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (inlet, outlet) = connection(self.window);
        self.connections.lock().insert(id, inlet);
        self.agent.connections.fetch_add(1, Ordering::Relaxed);
        self.answer(random, Ok(id)).await;
        let (read, write) = tokio::io::split(target);
        let credit = outlet.credit();
        let why = tokio::select! {
            why = self.read_target(id, credit, read) => why,
            why = self.write_target(id, outlet, write) => why,
        };
        self.agent.connections.fetch_sub(1, Ordering::Relaxed);
        // Where the server has closed it, it was told already.
        if self.connections.lock().remove(&id).is_some() {
            self.send_packet(packet::closed(id, why)).await;
        }
    }

    async fn read_target(&self, id: i64, credit: SendCredit, mut read: ReadHalf<Box<dyn Io>>) -> String {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(PIECE);
            match read.read_buf(&mut buffer).await {
                Ok(0) => return String::new(),
                Ok(length) => {
                    credit.spend(length).await;
                    let data = buffer.split().freeze();
                    if !self.send_packet(packet::data(id, data)).await {
                        return String::new();
                    }
                }
                Err(error) => return error.to_string(),
            }
        }
    }

    async fn write_target(&self, id: i64, mut outlet: Outlet, mut write: WriteHalf<Box<dyn Io>>) -> String {
        loop {
            match outlet.next().await {
                Some(Arrived::ConnectionData(data)) => {
                    if let Err(error) = write.write_all(&data).await {
                        return error.to_string();
                    }
                    if let Some(bytes) = outlet.handed_on(data.len()) {
                        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                        self.send(Payload::Credit(Credit { connect_id: id, bytes })).await;
                    }
                }
                Some(Arrived::Closed(_)) | None => {
                    // What was written is on its way.
                    let _ = write.shutdown().await;
                    return String::new();
                }
            }
        }
    }
}
