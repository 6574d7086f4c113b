//! Durability: decided writes go to disk in groups, and are acknowledged after the group is synced.
//!
//! One thread writes. It takes whatever has queued since the last sync, writes it as one transaction, and then
//! publishes the group, so that 64 writers share one fsync and a lone writer waits for one only.

pub mod file;

use bytes::Bytes;
pub use file::{Redb, Reserve, StorageError};
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
    time::{Duration, Instant},
};
use tokio::sync::watch;

/// The objects of a data directory.
pub const OBJECTS_FILE: &str = "objects.redb";

/// Where writes are kept. An implementation is called from one thread only.
pub trait Storage: Send + 'static {
    /// Everything that was kept: resource id, object bytes; and the last revision.
    fn load(&mut self) -> Result<Loaded, StorageError>;
    /// Keeps a group of writes; when it returns they survive a power loss. When it fails it is not known which of them
    /// were kept, and it may be called again: the disk may have room by then.
    fn write(&mut self, records: &[Record]) -> Result<(), StorageError>;
    /// Puts aside the room that deletions may need. A storage that has put it aside may be full and still delete.
    ///
    /// # Errors
    /// When there is no room for it: then only what needs no more room should be written.
    fn reserve(&mut self) -> Result<(), StorageError> {
        Ok(())
    }
}

/// What a storage held.
#[derive(Default)]
pub struct Loaded {
    pub objects: Vec<(String, Bytes)>,
    pub revision: u64,
}

/// Ranges of revisions whose loss is still remembered. A writer looks for its own as soon as it is woken,
/// long before so many groups have failed.
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
    /// Why writes are not kept, or only those that need no more room.
    trouble: Arc<Mutex<Option<Arc<str>>>>,
    /// Without a storage, writes are published by the writer itself.
    immediate: Option<Mutex<(watch::Sender<Progress>, OnPublish)>>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// What the thread is asked to do.
pub enum Order {
    Keep(Record),
    /// Look whether there is room again, or still.
    Look,
}

/// The journal half that the store calls.
pub struct WriteQueue {
    sender: Mutex<Option<Sender<Order>>>,
}

impl Journal for WriteQueue {
    fn append(&self, record: Record) {
        if let Some(sender) = &*self.sender.lock() {
            // The thread ends only after the sender is dropped, so sending cannot fail.
            let _ = sender.send(Order::Keep(record));
        }
    }
}

/// A queue and the end that the thread reads.
pub fn queue(durable: bool) -> (Arc<WriteQueue>, Receiver<Order>) {
    let (sender, receiver) = channel();
    (
        Arc::new(WriteQueue {
            sender: Mutex::new(durable.then_some(sender)),
        }),
        receiver,
    )
}

impl WriteQueue {
    /// Has the thread look whether there is room.
    pub fn look(&self) {
        if let Some(sender) = &*self.sender.lock() {
            let _ = sender.send(Order::Look);
        }
    }

    /// Ends the thread after it has written what is queued.
    pub fn close(&self) {
        self.sender.lock().take();
    }
}

impl Durability {
    /// Starts the writing thread, or publishes at once when `storage` is `None`.
    pub fn start(
        store: Arc<Store>,
        orders: Receiver<Order>,
        storage: Option<Box<dyn Storage>>,
        on_publish: OnPublish,
    ) -> Self {
        let (sender, progress) = watch::channel(Progress {
            published: store.revision(),
            lost: VecDeque::new(),
        });
        let trouble = Arc::<Mutex<Option<Arc<str>>>>::default();
        let Some(storage) = storage else {
            let immediate = Some(Mutex::new((sender, on_publish)));
            return Self {
                progress,
                trouble,
                immediate,
                thread: Mutex::new(None),
            };
        };
        let writer = Writer {
            room: Room {
                store: store.clone(),
                trouble: trouble.clone(),
                looked: None,
            },
            store,
            storage,
            progress: sender,
            on_publish,
            lost_through: 0,
            doubtful: BTreeSet::new(),
            renewed_at: None,
        };
        let thread = std::thread::Builder::new()
            .name("journal".into())
            .stack_size(512 * 1024)
            .spawn(move || writer.run(&orders))
            .expect("a thread can be started at start-up");
        Self {
            progress,
            trouble,
            immediate: None,
            thread: Mutex::new(Some(thread)),
        }
    }

    /// Shows a decided write at once if it need not be made durable.
    pub fn decided(&self, store: &Store, revision: u64) {
        let Some(immediate) = &self.immediate else { return };
        // The lock keeps events in order when two writers publish at once.
        let guard = immediate.lock();
        let events = store.publish(revision);
        if !events.is_empty() {
            (guard.1)(&events);
            guard.0.send_modify(|it| it.published = it.published.max(revision));
        }
    }

    /// Waits until `revision` is durable and visible.
    ///
    /// # Errors
    /// The reason why it could not be kept.
    pub async fn wait(&self, store: &Store, revision: u64) -> Result<(), Arc<str>> {
        if self.immediate.is_some() {
            self.decided(store, revision);
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

    /// Why writes are not kept at present, or only those that need no more room.
    pub fn trouble(&self) -> Option<Arc<str>> {
        self.trouble.lock().clone()
    }

    /// Waits for the writing thread to end; call after `WriteQueue::close`.
    pub fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

/// Most writes that share one sync: bounds the memory of a group, far above what queues during one sync.
const GROUP_RECORDS_MAX: usize = 4096;
/// The same while there is little room: what one group changes is there twice until it is kept,
/// and must fit into the reserve.
const GROUP_RECORDS_MAX_SHORT: usize = 256;
/// Renewals of Leases that nobody else writes beside are kept no more often than so: a sync costs as much as everything
/// else about a renewal together, and of a large fleet several come within this time. A renewal after a pause is kept
/// at once, and whatever else is written takes along what waits.
const RENEWALS_EVERY: Duration = Duration::from_millis(50);
const LEASES: &str = "leases.coordination.k8s.io";

/// How soon it is looked again whether there is room.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Whether there is room for more than deletions.
struct Room {
    store: Arc<Store>,
    trouble: Arc<Mutex<Option<Arc<str>>>>,
    looked: Option<Instant>,
}

impl Room {
    fn is_short(&self) -> bool {
        self.trouble.lock().is_some()
    }

    fn look(&mut self, storage: &mut dyn Storage) {
        if self.looked.is_some_and(|it| it.elapsed() < LOOK_AGAIN) {
            return;
        }
        self.looked = Some(Instant::now());
        match storage.reserve() {
            Ok(()) => self.settle(None),
            Err(error) => self.settle(Some(error.to_string())),
        }
    }

    /// What is true from now on.
    fn settle(&self, trouble: Option<String>) {
        let mut before = self.trouble.lock();
        match (&*before, &trouble) {
            (None, Some(error)) => tracing::error!(%error, "only deletions are taken, and what needs no more room"),
            (Some(_), None) => tracing::info!("writes are kept again"),
            _ => {}
        }
        self.store.set_short_of_room(trouble.is_some());
        *before = trouble.map(Into::into);
    }
}

/// The writing thread.
struct Writer {
    room: Room,
    store: Arc<Store>,
    storage: Box<dyn Storage>,
    progress: watch::Sender<Progress>,
    on_publish: OnPublish,
    lost_through: u64,
    /// What a group that failed wanted to change. It may be on disk or not; the next group
    /// that is kept says what is true.
    doubtful: BTreeSet<(Arc<str>, Box<str>)>,
    /// When the last group of renewals was kept.
    renewed_at: Option<Instant>,
}

impl Writer {
    fn run(mut self, orders: &Receiver<Order>) {
        let mut group = Vec::new();
        while let Ok(first) = orders.recv() {
            group.clear();
            let (mut next, mut looks) = (Some(first), self.room.is_short());
            let most = if looks {
                GROUP_RECORDS_MAX_SHORT
            } else {
                GROUP_RECORDS_MAX
            };
            while let Some(order) = next {
                match order {
                    Order::Keep(record) => group.push(record),
                    Order::Look => looks = true,
                }
                next = if group.len() < most {
                    self.next(orders, &group)
                } else {
                    None
                };
            }
            let renews = are_renewals(&group);
            self.keep(&mut group);
            if renews {
                self.renewed_at = Some(Instant::now());
            }
            if looks {
                self.room.look(&mut *self.storage);
            }
        }
    }

    /// What shares the sync of a group: what has queued, and what comes while the group may wait.
    fn next(&self, orders: &Receiver<Order>, group: &[Record]) -> Option<Order> {
        match orders.try_recv() {
            Ok(queued) => Some(queued),
            Err(_) => orders.recv_timeout(patience(group, self.renewed_at?.elapsed())?).ok(),
        }
    }

    fn keep(&mut self, group: &mut Vec<Record>) {
        group.retain(|it| it.revision > self.lost_through);
        let (Some(from), Some(to)) = (group.first().map(|it| it.revision), group.last().map(|it| it.revision)) else {
            return;
        };
        drop(group.splice(..0, self.doubtful.iter().map(|it| as_published(&self.store, it, from))));
        match self.storage.write(group) {
            Ok(()) => {
                self.doubtful.clear();
                let events = self.store.publish(to);
                (self.on_publish)(&events);
                self.progress.send_modify(|it| it.published = to);
            }
            Err(error) => {
                self.doubtful.extend(group.drain(..).map(|it| (it.resource, it.key)));
                self.room.settle(Some(error.to_string()));
                self.lost_through = self.store.abort();
                let (lost, reason) = (self.lost_through, error.to_string().into());
                self.progress.send_modify(|it| it.lose(from, lost, reason));
            }
        }
    }
}

/// How long a group may wait for more: one of renewals until it is time for them,
/// when the last such group was kept so long ago.
fn patience(group: &[Record], since: Duration) -> Option<Duration> {
    RENEWALS_EVERY.checked_sub(since).filter(|_| are_renewals(group))
}

fn are_renewals(group: &[Record]) -> bool {
    let renews = |it: &Record| &*it.resource == LEASES && it.json.is_some();
    !group.is_empty() && group.iter().all(renews)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(resource: &str, json: Option<&'static str>) -> Record {
        Record {
            revision: 1,
            resource: resource.into(),
            key: "n\0a".into(),
            json: json.map(|it| Bytes::from_static(it.as_bytes())),
        }
    }

    #[test]
    fn lease_renewals_share_a_sync_and_nothing_else_waits() {
        let (renewal, deletion) = (record(LEASES, Some("{}")), record(LEASES, None));
        let other = record("configmaps", Some("{}"));
        let since = Duration::from_millis(10);
        assert_eq!(
            patience(&[renewal.clone(), renewal.clone()], since),
            Some(RENEWALS_EVERY - since)
        );
        assert_eq!(patience(std::slice::from_ref(&renewal), RENEWALS_EVERY * 2), None);
        assert_eq!(patience(&[renewal, other.clone()], since), None);
        assert_eq!(patience(&[deletion], since), None);
        assert_eq!(patience(&[other], since), None);
        assert_eq!(patience(&[], since), None);
    }
}
