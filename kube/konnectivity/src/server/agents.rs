//! The agents of a server, and what goes through each.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::{Stream, StreamExt};
use http::HeaderMap;
use parking_lot::Mutex;
use std::io;
use tokio::sync::oneshot;
use tracing::{debug, info};

use super::{Inner, send};
use crate::{
    connection::{Inlet, Outlet, WINDOW_HEADER, connection},
    grpc::Sender,
    packet::{self, Packet, Payload},
};

/// What a client waits for: its connection, or why there is none.
pub(super) type Answer = Result<Opened, String>;

/// A connection that an agent has made.
pub(super) struct Opened {
    /// Its number among those of the agent.
    pub id: i64,
    /// What comes from the agent.
    pub outlet: Outlet,
}

/// One agent.
pub(super) struct ConnectedAgent {
    /// What it calls itself.
    id: String,
    /// Its stream.
    pub sender: Sender,
    hosts: Vec<String>,
    /// What it takes of a connection, if it has said so.
    pub window: Option<usize>,
    draining: AtomicBool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: HashMap<i64, oneshot::Sender<Answer>>,
    connections: HashMap<i64, Inlet>,
    /// It is gone: nothing is added any more.
    ended: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Agents {
    by_host: HashMap<String, Vec<Arc<ConnectedAgent>>>,
    all: Vec<Arc<ConnectedAgent>>,
}

impl Agents {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn connections(&self) -> usize {
        self.all.iter().map(|it| it.state.lock().connections.len()).sum()
    }

    /// The first agent for a host that takes connections.
    pub fn pick(&self, host: &str) -> Option<Arc<ConnectedAgent>> {
        let all = self.by_host.get(host)?;
        all.iter().find(|it| !it.draining.load(Ordering::Relaxed)).cloned()
    }

    fn add(&mut self, agent: &Arc<ConnectedAgent>) {
        for host in &agent.hosts {
            self.by_host.entry(host.clone()).or_default().push(agent.clone());
        }
        self.all.push(agent.clone());
    }

    fn remove(&mut self, agent: &Arc<ConnectedAgent>) {
        for host in &agent.hosts {
            if let Some(all) = self.by_host.get_mut(host) {
                all.retain(|it| !Arc::ptr_eq(it, agent));
                if all.is_empty() {
                    self.by_host.remove(host);
                }
            }
        }
        self.all.retain(|it| !Arc::ptr_eq(it, agent));
    }
}

impl ConnectedAgent {
    /// What an agent says of itself in the headers of its stream.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(headers: &HeaderMap, sender: Sender) -> Result<Self, String> {
        let mut ids = headers.get_all("agentid").iter();
        let id = match (ids.next().map(|it| it.to_str()), ids.next()) {
            (Some(Ok(id)), None) if !id.is_empty() => id.to_owned(),
            _ => return Err("expected one agent ID in the context".to_owned()),
        };
        let identifiers = headers.get("agentidentifiers").and_then(|it| it.to_str().ok());
        let pairs = url::form_urlencoded::parse(identifiers.unwrap_or_default().as_bytes());
        let hosts = pairs.filter(|(key, _)| matches!(&**key, "host" | "ipv4" | "ipv6"));
        let window = headers.get(WINDOW_HEADER).and_then(|it| it.to_str().ok());
        Ok(Self {
            id,
            sender,
            hosts: hosts.map(|(_, value)| value.into_owned()).collect(),
            window: window.and_then(|it| it.parse().ok()),
            draining: AtomicBool::new(false),
            state: Mutex::default(),
        })
    }

    /// Where the answer to a request will come; `None` when the agent has no room, or is gone.
    pub fn expect(&self, random: i64, connections_max: usize) -> Option<oneshot::Receiver<Answer>> {
        let mut state = self.state.lock();
        if state.ended || state.pending.len() + state.connections.len() >= connections_max {
            return None;
        }
        let (sender, answer) = oneshot::channel();
        state.pending.insert(random, sender);
        Some(answer)
    }

    /// The client waits no longer; `false` when the answer has come already.
    pub fn forget(&self, random: i64) -> bool {
        self.state.lock().pending.remove(&random).is_some()
    }

    /// A connection is over.
    pub fn remove(&self, id: i64) {
        self.state.lock().connections.remove(&id);
    }

    /// Everything that goes through it is over, at once.
    fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        for (_, waiting) in state.pending.drain() {
            let _ = waiting.send(Err("the agent has gone".to_owned()));
        }
        for (_, inlet) in state.connections.drain() {
            inlet.close("the agent has gone");
        }
    }

    /// What is to be said to the agent about what it has said.
    fn receive(&self, packet: Packet) -> Option<Packet> {
        match packet.payload? {
            Payload::DialResponse(answer) => {
                let mut state = self.state.lock();
                let Some(waiting) = state.pending.remove(&answer.random) else {
                    // Nobody waits for it any more.
                    return answer.error.is_empty().then(|| packet::close(answer.connect_id));
                };
                if !answer.error.is_empty() {
                    let _ = waiting.send(Err(answer.error));
                    return None;
                }
                let id = answer.connect_id;
                let (inlet, outlet) = connection(self.window);
                state.connections.insert(id, inlet);
                if waiting.send(Ok(Opened { id, outlet })).is_err() {
                    state.connections.remove(&id);
                    return Some(packet::close(id));
                }
                None
            }
            Payload::Data(data) => {
                let mut state = self.state.lock();
                let id = data.connect_id;
                let Some(inlet) = state.connections.get(&id) else {
                    debug!(agent = %self.id, id, "bytes of a connection that is closed");
                    return None;
                };
                if inlet.take(data.data).is_ok() {
                    return None;
                }
                inlet.close("the client does not read what comes");
                state.connections.remove(&id);
                Some(packet::close(id))
            }
            Payload::CloseResponse(closed) => {
                if let Some(inlet) = self.state.lock().connections.remove(&closed.connect_id) {
                    inlet.close(closed.error);
                }
                None
            }
            Payload::CloseRequest(asked) => {
                let inlet = self.state.lock().connections.remove(&asked.connect_id)?;
                inlet.close("");
                Some(packet::closed(asked.connect_id, ""))
            }
            Payload::Drain(_) => {
                info!(agent = %self.id, "takes no more connections");
                self.draining.store(true, Ordering::Relaxed);
                None
            }
            Payload::Credit(credit) => {
                if let Some(inlet) = self.state.lock().connections.get(&credit.connect_id) {
                    inlet.grant(usize::try_from(credit.bytes).unwrap_or_default());
                }
                None
            }
            Payload::DialRequest(_) | Payload::CloseDial(_) => None,
        }
    }
}

/// Serves one agent until its stream ends.
pub(super) async fn serve(
    server: &Inner,
    agent: ConnectedAgent,
    mut incoming: impl Stream<Item = io::Result<Packet>> + Unpin,
) {
    let agent = Arc::new(agent);
    server.agents.lock().add(&agent);
    info!(agent = %agent.id, "an agent has come");
    // Whatever ends this, the agent is taken off.
    let _taken_off = TakeOff {
        server,
        agent: agent.clone(),
    };
    while let Some(packet) = incoming.next().await {
        let packet = match packet {
            Ok(packet) => packet,
            Err(error) => {
                debug!(agent = %agent.id, %error, "the stream of an agent is broken");
                return;
            }
        };
        if let Some(answer) = agent.receive(packet)
            && !send(&agent.sender, answer).await
        {
            return;
        }
    }
}

struct TakeOff<'a> {
    server: &'a Inner,
    agent: Arc<ConnectedAgent>,
}

impl Drop for TakeOff<'_> {
    fn drop(&mut self) {
        self.server.agents.lock().remove(&self.agent);
        self.agent.end();
        info!(agent = %self.agent.id, "an agent has gone");
    }
}
