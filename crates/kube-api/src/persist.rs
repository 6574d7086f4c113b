//! Durability: decided writes go to disk in groups, and are acknowledged after the group is synced.
//!
//! One thread writes. It takes whatever has queued since the last sync, writes it as one transaction, and then
//! publishes the group, so that 64 writers share one fsync and a lone writer waits for one only.

use bytes::Bytes;
use kube_store::{
    Store,
    store::{Event, Journal, Record},
};
use parking_lot::Mutex;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::{
    path::Path,
    sync::{
        Arc,
        mpsc::{Receiver, Sender, channel},
    },
};
use tokio::sync::watch;

/// Where writes are kept. An implementation is called from one thread only.
pub trait Storage: Send + 'static {
    /// Everything that was kept: resource id, object bytes; and the last revision.
    fn load(&mut self) -> Result<Loaded, StorageError>;
    /// Keeps a group of writes; when it returns they survive a power loss.
    fn write(&mut self, records: &[Record]) -> Result<(), StorageError>;
}

/// What a storage held.
#[derive(Default)]
pub struct Loaded {
    pub objects: Vec<(String, Bytes)>,
    pub revision: u64,
}

/// What went wrong with the disk.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error("{path} cannot be opened: {source}")]
    Open {
        path: String,
        source: Box<redb::DatabaseError>,
    },
    #[error("another process uses {0}; stop it first, or name another data directory")]
    Locked(String),
    #[error("{0} is damaged; restore it from a backup, or move it away to start from nothing")]
    Damaged(String),
    #[error("the object store failed: {0}")]
    Failed(#[from] Box<redb::Error>),
}

fn failed<E: Into<redb::Error>>(error: E) -> StorageError {
    StorageError::Failed(Box::new(error.into()))
}

const OBJECTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("objects");
const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
/// Pages kept in memory: reads are served from the store, so the engine needs only what a write touches.
const CACHE_BYTES: usize = 2 << 20;

/// One redb file.
pub struct Redb {
    database: Database,
}

impl Redb {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// `Locked` when another process has it, `Damaged` when it is no database, `Open` for anything else.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let shown = path.display().to_string();
        match Builder::new().set_cache_size(CACHE_BYTES).create(path) {
            Ok(database) => Ok(Self { database }),
            Err(redb::DatabaseError::DatabaseAlreadyOpen) => Err(StorageError::Locked(shown)),
            Err(redb::DatabaseError::Storage(redb::StorageError::Corrupted(_))) => Err(StorageError::Damaged(shown)),
            Err(redb::DatabaseError::Storage(redb::StorageError::Io(it)))
                if it.kind() == std::io::ErrorKind::InvalidData =>
            {
                Err(StorageError::Damaged(shown))
            }
            Err(source) => Err(StorageError::Open {
                path: shown,
                source: Box::new(source),
            }),
        }
    }
}

impl Storage for Redb {
    fn load(&mut self) -> Result<Loaded, StorageError> {
        let transaction = self.database.begin_read().map_err(failed)?;
        let mut loaded = Loaded::default();
        match transaction.open_table(OBJECTS) {
            Ok(table) => {
                for row in table.iter().map_err(failed)? {
                    let (key, value) = row.map_err(failed)?;
                    let resource = key.value().split('\0').next().unwrap_or_default().to_owned();
                    loaded.objects.push((resource, Bytes::copy_from_slice(value.value())));
                }
            }
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(loaded),
            Err(error) => return Err(failed(error)),
        }
        let meta = transaction.open_table(META).map_err(failed)?;
        loaded.revision = meta.get("revision").map_err(failed)?.map_or(0, |it| it.value());
        Ok(loaded)
    }

    fn write(&mut self, records: &[Record]) -> Result<(), StorageError> {
        let transaction = self.database.begin_write().map_err(failed)?;
        {
            let mut objects = transaction.open_table(OBJECTS).map_err(failed)?;
            for record in records {
                let key = format!("{}\0{}", record.resource, record.key);
                match &record.json {
                    Some(json) => objects.insert(key.as_str(), json.as_ref()).map_err(failed)?,
                    None => objects.remove(key.as_str()).map_err(failed)?,
                };
            }
            if let Some(last) = records.last() {
                let mut meta = transaction.open_table(META).map_err(failed)?;
                meta.insert("revision", last.revision).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }
}

/// How far the writes have come.
#[derive(Clone, Debug, Default)]
struct Progress {
    published: u64,
    /// Ranges of revisions that could not be kept, with the reason. A disk that is full fills this slowly: writers
    /// that get an error back off.
    lost: Vec<(u64, u64, Arc<str>)>,
}

/// Called with every published event, in order, before its writer is answered.
pub type OnPublish = Box<dyn Fn(&[Arc<Event>]) + Send>;

/// The journal of a store: hands out waiting places and runs the writing thread.
pub struct Durability {
    progress: watch::Receiver<Progress>,
    /// Without a storage, writes are published by the writer itself.
    immediate: Option<Mutex<(watch::Sender<Progress>, OnPublish)>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// The journal half that the store calls.
pub struct Queue {
    sender: Mutex<Option<Sender<Record>>>,
}

impl Journal for Queue {
    fn append(&self, record: Record) {
        if let Some(sender) = &*self.sender.lock() {
            // The thread ends only after the sender is dropped, so sending cannot fail.
            let _ = sender.send(record);
        }
    }
}

/// A queue and the end that the thread reads.
pub fn queue(durable: bool) -> (Arc<Queue>, Receiver<Record>) {
    let (sender, receiver) = channel();
    (
        Arc::new(Queue {
            sender: Mutex::new(durable.then_some(sender)),
        }),
        receiver,
    )
}

impl Queue {
    /// Ends the thread after it has written what is queued.
    pub fn close(&self) {
        self.sender.lock().take();
    }
}

impl Durability {
    /// Starts the writing thread, or publishes at once when `storage` is `None`.
    pub fn start(
        store: Arc<Store>,
        records: Receiver<Record>,
        storage: Option<Box<dyn Storage>>,
        on_publish: OnPublish,
    ) -> Self {
        let (sender, progress) = watch::channel(Progress {
            published: store.revision(),
            lost: Vec::new(),
        });
        let Some(storage) = storage else {
            let immediate = Some(Mutex::new((sender, on_publish)));
            return Self {
                progress,
                immediate,
                thread: Mutex::new(None),
            };
        };
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .stack_size(512 * 1024)
            .spawn(move || write_groups(&store, &records, storage, &sender, &on_publish))
            .expect("a thread can be started at start-up");
        Self {
            progress,
            immediate: None,
            thread: Mutex::new(Some(thread)),
        }
    }

    /// Waits until `revision` is durable and visible.
    ///
    /// # Errors
    /// The reason why it could not be kept.
    pub async fn wait(&self, store: &Store, revision: u64) -> Result<(), Arc<str>> {
        if let Some(immediate) = &self.immediate {
            // The lock keeps events in order when two writers publish at once.
            let guard = immediate.lock();
            let events = store.publish(revision);
            if !events.is_empty() {
                (guard.1)(&events);
                guard.0.send_modify(|it| it.published = it.published.max(revision));
            }
            return Ok(());
        }
        let mut progress = self.progress.clone();
        let done = progress.wait_for(|it| it.published >= revision || it.lost.iter().any(|(_, to, _)| *to >= revision));
        match done.await {
            Ok(it) => match it.lost.iter().find(|(from, to, _)| (*from..=*to).contains(&revision)) {
                Some((_, _, reason)) => Err(reason.clone()),
                None => Ok(()),
            },
            Err(_) => Err("the server is shutting down".into()),
        }
    }

    /// Waits for the writing thread to end; call after `Queue::close`.
    pub fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

/// Most writes that share one sync: bounds the memory of a group, far above what queues during one sync.
const GROUP_RECORDS_MAX: usize = 4096;

fn write_groups(
    store: &Store,
    records: &Receiver<Record>,
    mut storage: Box<dyn Storage>,
    progress: &watch::Sender<Progress>,
    on_publish: &OnPublish,
) {
    let mut lost_through = 0;
    let mut group = Vec::new();
    while let Ok(first) = records.recv() {
        group.clear();
        group.push(first);
        while group.len() < GROUP_RECORDS_MAX
            && let Ok(next) = records.try_recv()
        {
            group.push(next);
        }
        group.retain(|it| it.revision > lost_through);
        let (Some(from), Some(to)) = (group.first().map(|it| it.revision), group.last().map(|it| it.revision)) else {
            continue;
        };
        match storage.write(&group) {
            Ok(()) => {
                let events = store.publish(to);
                on_publish(&events);
                progress.send_modify(|it| it.published = to);
            }
            Err(error) => {
                tracing::error!(%error, "a group of writes could not be kept");
                lost_through = store.abort();
                let reason: Arc<str> = error.to_string().into();
                progress.send_modify(|it| it.lost.push((from, lost_through, reason)));
            }
        }
    }
}
