//! Durability: decided writes go to disk in groups, and are acknowledged after the group is synced.
//!
//! One thread writes. It takes whatever has queued since the last sync, writes it as one transaction, and then
//! publishes the group, so that 64 writers share one fsync and a lone writer waits for one only.

pub mod file;

use bytes::Bytes;
pub use file::{Redb, StorageError};
use kube_store::{
    Store,
    store::{Event, Journal, Record},
};
use parking_lot::Mutex;
use std::{
    collections::{BTreeSet, VecDeque},
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
    /// Keeps a group of writes; when it returns they survive a power loss. When it fails it is not known which of them
    /// were kept, and it may be called again: the disk may have room by then.
    fn write(&mut self, records: &[Record]) -> Result<(), StorageError>;
}

/// What a storage held.
#[derive(Default)]
pub struct Loaded {
    pub objects: Vec<(String, Bytes)>,
    pub revision: u64,
}

/// Ranges of revisions whose loss is still remembered. A writer looks for its own as soon as it is woken, long before so many
/// groups have failed.
const LOST_RANGES_MAX: usize = 1024;

/// How far the writes have come.
#[derive(Clone, Debug, Default)]
struct Progress {
    published: u64,
    /// Ranges of revisions that could not be kept, oldest first, with the reason.
    lost: VecDeque<(u64, u64, Arc<str>)>,
}

impl Progress {
    /// What became of a revision, if it is known.
    fn of(&self, revision: u64) -> Option<Result<(), Arc<str>>> {
        // From the end: the ranges that writers still wait for are the last ones.
        let lost = self.lost.iter().rev().take_while(|(_, to, _)| *to >= revision);
        match lost.last() {
            Some((from, _, reason)) if *from <= revision => Some(Err(reason.clone())),
            _ => (self.published >= revision).then_some(Ok(())),
        }
    }

    fn lose(&mut self, from: u64, to: u64, reason: Arc<str>) {
        match self.lost.back_mut() {
            // A disk that stays full: one range that grows.
            Some(last) if last.1 + 1 == from && last.2 == reason => last.1 = to,
            _ => self.lost.push_back((from, to, reason)),
        }
        if self.lost.len() > LOST_RANGES_MAX {
            self.lost.pop_front();
        }
    }
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
            lost: VecDeque::new(),
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
        let mut outcome = None;
        let told = progress.wait_for(|it| {
            outcome = it.of(revision);
            outcome.is_some()
        });
        let _ = told.await;
        outcome.unwrap_or_else(|| Err("the server is shutting down".into()))
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
    // What a group that failed wanted to change. It may be on disk or not; the next group that is kept says what is true.
    let mut doubtful: BTreeSet<(Arc<str>, Box<str>)> = BTreeSet::new();
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
        let failing = !doubtful.is_empty();
        drop(group.splice(..0, doubtful.iter().map(|it| as_published(store, it, from))));
        match storage.write(&group) {
            Ok(()) => {
                if failing {
                    tracing::info!("writes are kept again");
                    doubtful.clear();
                }
                let events = store.publish(to);
                on_publish(&events);
                progress.send_modify(|it| it.published = to);
            }
            Err(error) => {
                if !failing {
                    tracing::error!(%error, "a group of writes could not be kept");
                }
                doubtful.extend(group.drain(..).map(|it| (it.resource, it.key)));
                lost_through = store.abort();
                let reason: Arc<str> = error.to_string().into();
                progress.send_modify(|it| it.lose(from, lost_through, reason));
            }
        }
    }
}

/// What readers see under a key, as a record of the group that begins with `revision`.
fn as_published(store: &Store, (resource, key): &(Arc<str>, Box<str>), revision: u64) -> Record {
    let (namespace, name) = key.split_once('\0').unwrap_or(("", key));
    Record {
        revision,
        resource: resource.clone(),
        key: key.clone(),
        json: store.get(resource, namespace, name).map(|it| it.json.clone()),
    }
}
