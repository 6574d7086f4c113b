//! The agent: makes connections for a server that it has opened a stream to.
//! Upstream: apiserver-network-proxy `pkg/agent/`.

mod session;

use std::{
    collections::{HashMap, HashSet},
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use rand::RngExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// How soon a server is tried again, at first and at most, and how much longer each time.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(10);
const LONGER: f64 = 1.5;
const JITTER: f64 = 0.1;
/// How often it is looked whether there are servers without a stream.
const PROBE: Duration = Duration::from_secs(1);
/// A destination that has not answered by then is not there.
const DIALLED_WITHIN: Duration = Duration::from_secs(5);
/// A server that has not answered by then is tried again.
const CONNECTED_WITHIN: Duration = Duration::from_secs(20);

/// Anything that bytes go through.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Opens something.
pub type Opening = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send>>;

/// What an agent is told.
#[derive(Clone)]
pub struct Options {
    /// What it calls itself.
    pub id: String,
    /// What it can reach, as a query: `host=a&host=b`.
    pub identifiers: String,
    /// Opens a TLS connection to a server; behind one address there may be several.
    pub server: Arc<dyn Fn() -> Opening + Send + Sync>,
    /// Opens a connection to `host:port`.
    pub target: Arc<dyn Fn(String) -> Opening + Send + Sync>,
    /// Connections of one server at once.
    pub connections: usize,
}

/// Opens TCP connections: for [`Options::target`].
pub fn tcp(address: String) -> Opening {
    Box::pin(async move {
        let stream = timeout(DIALLED_WITHIN, TcpStream::connect(&address));
        let stream = stream.await.map_err(|_| {
            let why = format!("dial tcp {address}: i/o timeout");
            io::Error::new(io::ErrorKind::TimedOut, why)
        })??;
        stream.set_nodelay(true)?;
        Ok(Box::new(stream) as Box<dyn Io>)
    })
}

/// An agent that runs. Cloning shares it.
#[derive(Clone)]
pub struct TunnelAgent {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    /// The servers that there is a stream to.
    servers: Mutex<HashSet<String>>,
    connections: AtomicUsize,
}

impl TunnelAgent {
    /// With these options; nothing happens before [`run`](Self::run).
    pub fn new(options: Options) -> Self {
        let inner = Inner {
            options,
            servers: Mutex::default(),
            connections: AtomicUsize::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether there is a stream to a server.
    pub fn is_ready(&self) -> bool {
        !self.inner.servers.lock().is_empty()
    }

    /// How many connections it has.
    pub fn connections(&self) -> usize {
        self.inner.connections.load(Ordering::Relaxed)
    }

    /// Keeps a stream to every server until `stop`; then tells them, and ends when its connections have, or after
    /// `grace`.
    pub async fn run(&self, stop: CancellationToken, grace: Duration) {
        let mut sessions = JoinSet::new();
        // How many servers there are, as they say themselves.
        let mut wanted = 1;
        let mut delay = AGAIN;
        while !stop.is_cancelled() {
            while sessions.try_join_next().is_some() {}
            let again = if self.inner.servers.lock().len() < wanted {
                match self.open(&stop, grace, &mut sessions).await {
                    Ok(count) => {
                        wanted = count.max(1);
                        delay = AGAIN;
                        continue;
                    }
                    Err(error) => {
                        // Of several servers behind one address, a known one is found again and again.
                        if error.kind() == io::ErrorKind::AlreadyExists {
                            debug!("{error}");
                        } else {
                            warn!("no stream to a server of the tunnel: {error}");
                        }
                        let now = delay.mul_f64(1.0 + rand::rng().random_range(0.0..JITTER));
                        delay = delay.mul_f64(LONGER).min(AGAIN_MAX);
                        now
                    }
                }
            } else {
                PROBE
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(again) => {}
                // A server that is gone is looked for at once.
                Some(_) = sessions.join_next(), if !sessions.is_empty() => {}
            }
        }
        while sessions.join_next().await.is_some() {}
    }

    /// Opens a stream to a server; returns how many servers there are.
    async fn open(&self, stop: &CancellationToken, grace: Duration, sessions: &mut JoinSet<()>) -> io::Result<usize> {
        let opening = session::open(self.inner.clone());
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time");
        let session = timeout(CONNECTED_WITHIN, opening).await.map_err(late)??;
        let id = session.server_id.clone();
        if !self.inner.servers.lock().insert(id.clone()) {
            let why = format!("there is a stream to server {id} already");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        info!(server = %id, "connected to a server of the tunnel");
        let count = session.server_count;
        let (inner, stop) = (self.inner.clone(), stop.clone());
        sessions.spawn(async move {
            session.run(stop, grace).await;
            inner.servers.lock().remove(&id);
            info!(server = %id, "disconnected from a server of the tunnel");
        });
        Ok(count)
    }
}

/// Connections by their numbers.
type Table<T> = Mutex<HashMap<i64, T>>;
