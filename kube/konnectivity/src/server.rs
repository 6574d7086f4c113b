//! The server: clients at its front ask for connections, and agents make them.
//! Upstream: apiserver-network-proxy `pkg/server/server.go`.

mod agents;
mod front;
mod ports;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use futures::Stream;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::{
    client::TunnelStream,
    grpc::Sender,
    packet::{DialRequest, Packet, Payload},
};

use agents::Agents;
pub use ports::{Port, TlsConfig};

/// Bounds of a server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Agents at once.
    pub agents: usize,
    /// Connections of one agent at once, those that are asked for included.
    pub connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            agents: 10_000,
            connections: 10_000,
        }
    }
}

/// A server. Cloning shares it.
#[derive(Clone)]
pub struct TunnelServer {
    inner: Arc<Inner>,
}

struct Inner {
    id: String,
    /// How many servers there are.
    count: u32,
    limits: Limits,
    agents: Mutex<Agents>,
    /// Names requests to agents, whatever clients call them.
    next: AtomicI64,
}

impl TunnelServer {
    /// One of `count` servers, with an id of its own.
    pub fn new(id: impl Into<String>, count: u32, limits: Limits) -> Self {
        let inner = Inner {
            id: id.into(),
            count,
            limits,
            agents: Mutex::default(),
            next: AtomicI64::new(1),
        };
        Self { inner: Arc::new(inner) }
    }

    /// How many agents there are.
    pub fn agents(&self) -> usize {
        self.inner.agents.lock().len()
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.inner.agents.lock().connections()
    }

    /// Opens a connection in this process, as a client at the front would.
    ///
    /// # Errors
    /// What the client would be told.
    pub async fn dial(&self, address: &str) -> io::Result<TunnelStream> {
        let (to_server, incoming) = mpsc::channel(16);
        let (outgoing, from_server) = mpsc::channel(16);
        let server = self.clone();
        tokio::spawn(async move { front::serve(&server.inner, packets(incoming), outgoing).await });
        TunnelStream::open(to_server, Box::pin(packets(from_server)), address).await
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if let Ok(id) = HeaderValue::from_str(&self.inner.id) {
            headers.insert("serverid", id);
        }
        headers.insert("servercount", self.inner.count.into());
        headers
    }
}

impl Inner {
    fn random(&self) -> i64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// Messages of a channel of this process.
fn packets(receiver: mpsc::Receiver<Packet>) -> impl Stream<Item = io::Result<Packet>> + Send + Unpin + 'static {
    Box::pin(futures::stream::unfold(receiver, async |mut it| {
        let packet = it.recv().await?;
        Some((Ok(packet), it))
    }))
}

/// The host of an address, by which its agent is found.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

/// A request for a connection, under a name of ours.
fn dial(request: &DialRequest, random: i64) -> Packet {
    Payload::DialRequest(DialRequest {
        random,
        ..request.clone()
    })
    .into()
}

/// Sends a message; `false` when nobody takes it any more.
async fn send(to: &Sender, packet: Packet) -> bool {
    to.send(packet).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_its_port_is_the_host() {
        assert_eq!(host("a.b:7443"), "a.b");
        assert_eq!(host("[::1]:80"), "::1");
        assert_eq!(host("a"), "a");
    }
}
