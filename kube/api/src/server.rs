//! One API server: its objects, its keys, what it serves, and how it is started and stopped.

use crate::{
    admission::{configuration::Hooks, plugin::Admission},
    authn::{Authenticator, TrustedProxies},
    authz::{self, Rbac},
    buffers::Buffers,
    callout::Caller,
    clock::Clock,
    context::ServerContext,
    controllers,
    conversion::{Conversion, Converters},
    definition,
    fair::Fair,
    identity::User,
    intake::Intake,
    kept::KeptObjects,
    kinds, limit_events,
    limits::Limits,
    listen,
    local::Local,
    pages::ServedPage,
    party::{Parties, PartyRule},
    persist::{self, Durability, Loaded, OBJECTS_FILE, Redb, Storage, StorageError},
    pki::{self, Pki},
    pod_logs::PodLogs,
    pod_streams::{self, PodStreams},
    rates::Rates,
    registry::Registry,
    reports,
    respond::Body,
    snapshots::Snapshots,
    standing::{self, OpenWatches},
    tls,
    wake::Wake,
};
use arc_swap::ArcSwap;
use http::{Request, Response};
use kube_store::{Object, Store, status::Status};
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// How to start a server.
#[derive(Default)]
pub struct Options {
    /// Where objects and keys are kept; `None` keeps everything in memory.
    pub data_dir: Option<PathBuf>,
    /// What keeps the objects instead of a file in the data directory.
    pub storage: Option<Box<dyn Storage>>,
    /// DNS names and addresses that the serving certificate holds besides the loopback ones.
    pub names: Vec<String>,
    /// Admission plug-ins, in order.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Conversion plug-ins for custom resources with several versions.
    pub conversion: Vec<Arc<dyn Conversion>>,
    /// Where the server will listen; `None` for in-process use only.
    pub address: Option<SocketAddr>,
    /// How much one client may have at once, keep, and write.
    pub limits: Limits,
    /// Which users are one client; `None` for the general rule.
    pub parties: Option<PartyRule>,
    /// How long a server that stops goes on serving, not ready any more, so that those who send it requests can look
    /// for another.
    pub shutdown_delay: Duration,
    /// How long Events live after they were last written; `None` for Kubernetes' default, an hour.
    pub event_ttl: Option<Duration>,
    /// Proxies in front that are believed about who asks; `None` for none.
    pub front_proxy: Option<TrustedProxies>,
    /// By which clock the serving certificate is renewed.
    pub clock: Clock,
}

/// Kubernetes' default `--event-ttl`.
const EVENT_TTL: Duration = Duration::from_secs(60 * 60);

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the data directory {path} cannot be used: {source}")]
    Directory { path: String, source: io::Error },
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("the keys cannot be used: {0}")]
    Keys(#[from] pki::Error),
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("an object in {path} cannot be read: {source}; restore the file from a backup")]
    Object { path: String, source: serde_json::Error },
    #[error("the first objects could not be written: {0}")]
    Bootstrap(Status),
}

/// A running API server. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<ServerContext>,
}

impl Server {
    /// Opens the data, writes the objects that every cluster has, and starts Kubernetes' own controllers.
    ///
    /// # Errors
    /// When the data directory, the object file or the keys cannot be used; the message says what to do.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let (storage, loaded, shown) = match (options.storage, options.data_dir.clone()) {
            (None, None) => (None, Loaded::default(), String::new()),
            (given, dir) => {
                let opened = tokio::task::spawn_blocking(move || open_storage(dir.as_deref(), given)).await;
                opened.map_err(|it| OpenError::Directory {
                    path: OBJECTS_FILE.into(),
                    source: io::Error::other(it),
                })??
            }
        };
        let mut objects = Vec::with_capacity(loaded.objects.len());
        // They come resource by resource, so that all of one share its name.
        let mut resource: Arc<str> = "".into();
        for (of, json) in loaded.objects {
            if *resource != *of {
                resource = of.into();
            }
            let object = Object::decode(&resource, json).map_err(|source| OpenError::Object {
                path: shown.clone(),
                source,
            })?;
            objects.push(object);
        }
        let keys = options.data_dir.as_ref().map(|it| it.join("pki"));
        let pki = Arc::new(Pki::open(keys.as_deref(), &options.names, options.clock.now())?);
        let (queue, records) = persist::queue(storage.is_some());
        let store = Arc::new(Store::new(objects, loaded.revision, queue.clone()));
        let caller = Arc::new(Caller::new(store.clone()));
        let converters = Converters {
            plugins: options.conversion,
            caller: caller.clone(),
        };
        let mut registry = kinds::registry();
        for object in store.list(crate::resource_ids::CRDS, "").0 {
            definition::register(&mut registry, &converters, &object, false);
        }
        let registry = Arc::new(ArcSwap::from_pointee(registry));
        let wake = Arc::new(Wake::default());
        let hooks = Arc::new(ArcSwap::from_pointee(Hooks::load(&store)));
        let mut authenticator = Authenticator::new(store.clone(), pki.clone())?;
        if let Some(trusted) = &options.front_proxy {
            authenticator = authenticator.with_front_proxy(trusted)?;
        }
        let (authenticator, rbac) = (Arc::new(authenticator), Arc::new(Rbac::new(store.clone())));
        let standing = Arc::new(OpenWatches::new(authenticator.clone(), rbac.clone()));
        let parties = Arc::new(Parties(options.parties));
        let kept = KeptObjects::new(options.limits.clone(), parties.clone(), &store);
        let (reports, told) = reports::reports();
        let on_publish = {
            let (registry, wake, hooks) = (registry.clone(), wake.clone(), hooks.clone());
            let (standing, kept) = (standing.clone(), kept.clone());
            Box::new(move |events: &[Arc<kube_store::store::Event>]| {
                // A definition serves before its writer is answered.
                for event in events.iter().filter(|it| definition::is_definition(&it.object)) {
                    let mut next = Registry::clone(&registry.load());
                    definition::register(
                        &mut next,
                        &converters,
                        &event.object,
                        event.change == kube_store::store::Change::Deleted,
                    );
                    registry.store(Arc::new(next));
                }
                // As a webhook is in force.
                for event in events.iter().filter(|it| Hooks::concerns(it)) {
                    let next = hooks.load().after(event);
                    hooks.store(Arc::new(next));
                }
                // Before anybody is told what it may not know any more.
                standing.notice(events);
                kept.notice(events);
                wake.tell(events);
                for event in events.iter().filter(|it| definition::is_definition(&it.object)) {
                    // The name of a definition is the id of its resource.
                    wake.touch(&event.object.name);
                }
            })
        };
        let durability = Durability::start(store.clone(), records, storage, on_publish);
        let inner = Arc::new(ServerContext {
            authenticator,
            rbac,
            registry,
            wake,
            admission: options.admission,
            hooks,
            caller,
            pki,
            clock: options.clock,
            fair: Fair::new(options.limits.clone()),
            intake: Intake::new(options.limits.clone()),
            parties,
            kept,
            rates: Rates::new(options.limits.clone()),
            buffers: Buffers::new(options.limits.clone()),
            reports,
            limits: options.limits,
            standing: standing.clone(),
            snapshots: Snapshots::default(),
            stop: CancellationToken::new(),
            allocating: tokio::sync::Mutex::default(),
            pod_logs: parking_lot::RwLock::default(),
            pod_streams: parking_lot::RwLock::default(),
            pod_sessions: Arc::new(tokio::sync::Semaphore::new(pod_streams::SESSIONS_MAX)),
            pages: parking_lot::RwLock::default(),
            address: options.address,
            ready: AtomicBool::new(false),
            shutdown_delay: options.shutdown_delay,
            durability,
            queue,
            store,
        });
        let server = Self { inner };
        let wanted = controllers::Bootstrap {
            client_ca: server.inner.pki.ca_pem().to_owned(),
            front_proxy: options.front_proxy,
            policy: authz::bootstrap::policy(),
            address: options.address,
        };
        let local = server.local();
        controllers::bootstrap(&local, &wanted)
            .await
            .map_err(OpenError::Bootstrap)?;
        let ground = Arc::new(crate::ground::ServerGround::new(&server.inner));
        let event_ttl = options.event_ttl.unwrap_or(EVENT_TTL);
        controllers::run(local, ground, event_ttl, server.inner.stop.clone());
        let stop = server.inner.stop.clone();
        tokio::spawn(standing::run(standing, stop.clone()));
        tokio::spawn(limit_events::run(told, server.local(), stop));
        server.inner.ready.store(true, Ordering::Release);
        // From now on room is kept for deletions; what a start has to write goes into it.
        server.inner.queue.look();
        Ok(server)
    }

    /// Serves HTTPS on a listener until the server stops.
    ///
    /// # Errors
    /// When the serving certificate cannot be used.
    pub fn listen(&self, listener: TcpListener) -> Result<JoinHandle<()>, rustls::Error> {
        let others = self.inner.authenticator.proxy_authorities().to_vec();
        let config = move |pki: &Pki| tls::server_config(pki, &others);
        let shown = Arc::new(ArcSwap::new(config(&self.inner.pki)?));
        tokio::spawn(tls::keep(
            self.inner.pki.clone(),
            shown.clone(),
            config,
            self.inner.clock.clone(),
            self.inner.stop.clone(),
        ));
        let server = self.clone();
        let handler = move |request: Request<hyper::body::Incoming>, peer| {
            let server = server.clone();
            async move { crate::dispatch::handle(&server.inner, request, peer, None).await }
        };
        let stop = self.inner.stop.clone();
        Ok(tokio::spawn(listen::serve(listener, shown, handler, stop)))
    }

    /// Answers one request as `user`, without sockets, TLS or credentials.
    pub async fn answer<B>(&self, request: Request<B>, user: User) -> Response<Body>
    where
        B: http_body::Body<Data = bytes::Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        crate::dispatch::handle(&self.inner, request, None, Some(user)).await
    }

    /// A tower service that answers as `user`: hand it to `kube::Client::new`.
    pub fn service(&self, user: User) -> crate::in_process::InProcess {
        crate::in_process::InProcess::new(self.clone(), user)
    }

    /// The handle of the server's own controllers.
    pub fn local(&self) -> Local {
        Local::new(self.inner.clone())
    }

    /// Whom to ask for the logs of pods from now on: the node, which starts when the server is there.
    pub fn set_pod_logs(&self, logs: Arc<dyn PodLogs>) {
        *self.inner.pod_logs.write() = Some(logs);
    }

    /// Who reaches into pods from now on, for `exec`, `attach` and `port-forward`.
    pub fn set_pod_streams(&self, streams: Arc<dyn PodStreams>) {
        *self.inner.pod_streams.write() = Some(streams);
    }

    /// Whom to ask for all paths that begin so, from now on.
    pub fn set_page(&self, prefix: &str, page: Arc<dyn ServedPage>) {
        self.inner.pages.write().push((prefix.to_owned(), page));
    }

    /// Has everybody who watches asked again whether they may: what decides that beside the roles and bindings
    /// of this server has changed.
    pub fn rights_changed(&self) {
        self.inner.standing.ask_everybody();
    }

    /// The objects.
    pub fn store(&self) -> &Arc<Store> {
        &self.inner.store
    }

    /// The server's keys: its CA and client certificates.
    pub fn pki(&self) -> &Arc<Pki> {
        &self.inner.pki
    }

    /// Ends when the server stops.
    pub fn stopping(&self) -> &CancellationToken {
        &self.inner.stop
    }

    /// Stops: after the delay of the options watches end, connections drain, and everything decided is written. Returns
    /// when the data is closed.
    pub async fn stop(&self, listening: Option<JoinHandle<()>>) {
        self.inner.ready.store(false, Ordering::Release);
        if !self.inner.shutdown_delay.is_zero() {
            tokio::time::sleep(self.inner.shutdown_delay).await;
        }
        self.inner.stop.cancel();
        if let Some(listening) = listening {
            let _ = listening.await;
        }
        self.inner.wake.close();
        self.inner.queue.close();
        let inner = self.inner.clone();
        // Joining a thread blocks.
        let _ = tokio::task::spawn_blocking(move || inner.durability.join()).await;
    }
}

type Opened = (Option<Box<dyn Storage>>, Loaded, String);

fn open_storage(dir: Option<&Path>, given: Option<Box<dyn Storage>>) -> Result<Opened, OpenError> {
    use std::os::unix::fs::DirBuilderExt;
    if let Some(dir) = dir {
        let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        created.map_err(|source| OpenError::Directory {
            path: dir.display().to_string(),
            source,
        })?;
    }
    let path = dir.unwrap_or(Path::new("")).join(OBJECTS_FILE);
    let mut storage = match given {
        Some(storage) => storage,
        None => Box::new(Redb::open(&path)?),
    };
    let loaded = storage.load()?;
    Ok((Some(storage), loaded, path.display().to_string()))
}
