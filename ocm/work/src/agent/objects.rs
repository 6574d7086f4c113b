//! The objects that works care about, kept current by one watch per resource in use, shared among all works. A watch
//! shows every object of its resource; only those that some work follows are kept, so memory grows with the works and
//! not with the cluster.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client, ResourceExt,
    api::DynamicObject,
    core::ApiResource,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use ocm_api::namespaces::WORK_FIELD_MANAGER;
use ocm_reconcile::{Queue, segment};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, info_span, warn};

use super::{
    manifest::{ObjectKey, api_version},
    strategy::{LastWrite, Live},
};

/// Another writer that keeps undoing us is answered at once this often; after that we wait longer each time.
const REPAIRS_AT_ONCE: u32 = 20;
const REPAIR_WAIT_MAX: Duration = Duration::from_secs(300);
/// After this long without a repair the count starts anew.
const REPAIRS_FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// One object, whatever the version it is reached by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    group: String,
    resource: String,
    namespace: String,
    name: String,
}

impl From<&ObjectKey> for Id {
    fn from(key: &ObjectKey) -> Self {
        Self {
            group: key.group.clone(),
            resource: key.resource.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
        }
    }
}

/// Group, version and plural of a watched resource.
type Served = (String, String, String);

#[derive(Default)]
struct State {
    watches: HashMap<Served, Watch>,
    entries: HashMap<Id, Entry>,
    /// What each work follows. In order, and no more room than they take: there are many, of a few objects each.
    followed: HashMap<String, Box<[ObjectKey]>>,
    /// Where the agent may create and update, and not patch.
    unpatchable: HashSet<RightsScope>,
    /// Whose turn it is to write into what more than one work has; only while somebody writes or waits.
    turns: HashMap<Id, Weak<tokio::sync::Mutex<()>>>,
}

/// Group, plural and namespace: rights are mostly the same within it.
type RightsScope = (String, String, String);

fn place(key: &ObjectKey) -> RightsScope {
    (key.group.clone(), key.resource.clone(), key.namespace.clone())
}

struct Watch {
    cancel: CancellationToken,
    /// Whether the first list arrived and nothing failed since.
    current: bool,
    /// Objects that were followed when the list now arriving was asked for, and have not come yet.
    awaited: HashSet<Id>,
    /// When the last object let go of it.
    idle_since: Option<Instant>,
}

struct Entry {
    served: Served,
    followers: Vec<Follower>,
    live: Known,
    /// The uid of the last one that the watch has told the end of.
    gone: Option<Box<str>>,
    /// When `live` was set, to trust an answer of our own for the run it was given in.
    learned: Instant,
}

/// A work that follows an object: mostly there is one.
struct Follower {
    work: Box<str>,
    /// What it wrote last.
    written: Option<LastWrite>,
    /// How often it has undone what another writer did, and when last.
    repairs: Option<(u32, Instant)>,
}

impl Entry {
    fn follower(&mut self, work: &str) -> Option<&mut Follower> {
        self.followers.iter_mut().find(|it| *it.work == *work)
    }

    fn tell(&self, queue: &Queue) {
        self.followers.iter().for_each(|it| queue.add(it.work.to_string()));
    }
}

/// [`Live`], as it is kept: between two looks an object is a text, which takes a tenth of what a tree of values does.
#[derive(Clone, PartialEq)]
enum Known {
    Unknown,
    Absent,
    Present { version: Version, json: Arc<str> },
}

/// Which state of which object.
#[derive(Clone, PartialEq)]
struct Version {
    uid: Box<str>,
    number: Option<u64>,
    text: Box<str>,
}

impl Known {
    fn present(object: &Value) -> Self {
        Self::Present {
            version: Version::of(object),
            json: object.to_string().into(),
        }
    }

    fn version(&self) -> Option<&Version> {
        match self {
            Self::Present { version, .. } => Some(version),
            _ => None,
        }
    }

    fn read(&self) -> Live {
        match self {
            Self::Unknown => Live::Unknown,
            Self::Absent => Live::Absent,
            Self::Present { json, .. } => {
                let object = serde_json::from_str(json).expect("it was written by the same library");
                Live::Present(Arc::new(object))
            }
        }
    }
}

impl Version {
    fn of(object: &Value) -> Self {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        Self {
            uid: text("uid").into(),
            number: text("resourceVersion").parse().ok(),
            text: text("resourceVersion").into(),
        }
    }

    /// Versions are opaque by contract, but every API server we meet counts upwards; only a clear "older" is dropped.
    fn is_older(&self, present: &Self) -> bool {
        self.uid == present.uid && matches!((self.number, present.number), (Some(new), Some(present)) if new < present)
    }
}

/// The right to write into objects that other works have, too; it ends when it is dropped.
#[derive(Debug)]
pub struct Turn {
    _held: Vec<tokio::sync::OwnedMutexGuard<()>>,
}

/// Shared by all works of one agent. Cloning shares it.
#[derive(Clone)]
pub struct WatchedObjects {
    client: Client,
    queue: Queue,
    cancel: CancellationToken,
    state: Arc<Mutex<State>>,
}

impl WatchedObjects {
    /// Follows nothing yet. Works whose objects change are added to `queue`.
    pub fn new(client: Client, queue: Queue, cancel: CancellationToken) -> Self {
        Self {
            client,
            queue,
            cancel,
            state: Arc::default(),
        }
    }

    /// From now on the work follows exactly these objects.
    pub fn follow(&self, work: &str, keys: BTreeSet<ObjectKey>) {
        let mut state = self.state.lock();
        if state.followed.get(work).is_some_and(|it| it.iter().eq(&keys))
            || (keys.is_empty() && !state.followed.contains_key(work))
        {
            return;
        }
        let before = state.followed.remove(work).unwrap_or_default();
        for key in &keys {
            let served = (key.group.clone(), key.version.clone(), key.resource.clone());
            let entry = state.entries.entry(Id::from(key)).or_insert_with(|| Entry {
                served: served.clone(),
                followers: Vec::with_capacity(1),
                live: Known::Unknown,
                gone: None,
                learned: Instant::now(),
            });
            if entry.follower(work).is_none() {
                entry.followers.push(Follower {
                    work: work.into(),
                    written: None,
                    repairs: None,
                });
            }
            let served = entry.served.clone();
            self.watch(&mut state, served);
        }
        for key in before.iter().filter(|it| !keys.contains(it)) {
            let id = Id::from(key);
            // The same object may be followed on under another version.
            if keys.iter().any(|it| Id::from(it) == id) {
                continue;
            }
            if let Some(entry) = state.entries.get_mut(&id) {
                entry.followers.retain(|it| *it.work != *work);
                if entry.followers.is_empty() {
                    state.entries.remove(&id);
                }
            }
        }
        if !keys.is_empty() {
            state.followed.insert(work.to_owned(), keys.into_iter().collect());
        }
    }

    /// The works that follow an object, this one aside.
    pub fn other_followers(&self, work: &str, key: &ObjectKey) -> Vec<String> {
        let state = self.state.lock();
        let followers = state.entries.get(&Id::from(key)).map(|it| it.followers.iter());
        let others = followers.into_iter().flatten().filter(|it| *it.work != *work);
        others.map(|it| it.work.to_string()).collect()
    }

    /// Waits until no other work is about to write into those of these objects that others have, too: what one writes
    /// into a shared object depends on what is there, and a hundred at once would refuse each other. Whether there was
    /// anything to wait for.
    pub async fn take_turn(&self, work: &str, keys: impl Iterator<Item = ObjectKey>) -> (Turn, bool) {
        // Everybody takes them in the same order, so that nobody waits for somebody who waits for them.
        let ids: BTreeSet<Id> = keys.map(|it| Id::from(&it)).collect();
        let locks: Vec<_> = ids.into_iter().filter_map(|it| self.turn_of(work, it)).collect();
        let (mut held, mut waited) = (Vec::new(), false);
        for lock in locks {
            held.push(match lock.clone().try_lock_owned() {
                Ok(turn) => turn,
                Err(_) => {
                    waited = true;
                    lock.lock_owned().await
                }
            });
        }
        (Turn { _held: held }, waited)
    }

    fn turn_of(&self, work: &str, id: Id) -> Option<Arc<tokio::sync::Mutex<()>>> {
        let mut state = self.state.lock();
        let entry = state.entries.get(&id)?;
        if entry.followers.iter().all(|it| *it.work == *work) {
            return None;
        }
        state.turns.retain(|_, it| it.strong_count() > 0);
        if let Some(known) = state.turns.get(&id).and_then(Weak::upgrade) {
            return Some(known);
        }
        let new = Arc::default();
        state.turns.insert(id, Arc::downgrade(&new));
        Some(new)
    }

    /// Ends watches that nobody has needed for a while.
    pub fn rest(&self, after: Duration) {
        let mut state = self.state.lock();
        let State { watches, entries, .. } = &mut *state;
        let needed: HashSet<&Served> = entries.values().map(|it| &it.served).collect();
        watches.retain(|served, watch| {
            if needed.contains(served) {
                watch.idle_since = None;
                return true;
            }
            let idle = watch.idle_since.get_or_insert_with(Instant::now).elapsed() >= after;
            if idle {
                watch.cancel.cancel();
            }
            !idle
        });
    }

    /// What is known of an object. Without a current watch only what was learned since `since` counts.
    pub fn look(&self, key: &ObjectKey, since: Instant) -> Live {
        let known = {
            let state = self.state.lock();
            let Some(entry) = state.entries.get(&Id::from(key)) else {
                return Live::Unknown;
            };
            let current = state.watches.get(&entry.served).is_some_and(|it| it.current);
            if !current && entry.learned < since {
                return Live::Unknown;
            }
            entry.live.clone()
        };
        known.read()
    }

    /// Whether changes of the object come to us by themselves.
    pub fn is_watched(&self, key: &ObjectKey) -> bool {
        let state = self.state.lock();
        let Some(entry) = state.entries.get(&Id::from(key)) else {
            return false;
        };
        state.watches.get(&entry.served).is_some_and(|it| it.current)
    }

    /// Reads an object from the cluster for a work and remembers it.
    pub async fn fetch(&self, work: &str, key: &ObjectKey) -> Result<Live, kube::Error> {
        let found = self
            .api(key)
            .get_opt(&segment::encoded(&key.name))
            .await?
            .map(|it| kept(to_value(&it)));
        self.learn(work, key, found.clone());
        Ok(found.map_or(Live::Absent, |it| Live::Present(Arc::new(it))))
    }

    fn api(&self, key: &ObjectKey) -> Api<DynamicObject> {
        let resource = api_resource(&key.group, &key.version, &key.resource);
        if key.namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), &segment::encoded(&key.namespace), &resource)
        }
    }

    /// Remembers what the cluster answered to a read or a write of this work. Others that follow the object are told:
    /// for them it is as if a stranger had written, and the watch will bring nothing that is not known by then.
    pub fn learn(&self, work: &str, key: &ObjectKey, object: Option<Value>) {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(&Id::from(key)) else {
            return;
        };
        let before = entry.live.version().map(|it| it.text.clone());
        match object.map(kept) {
            None => entry.live = Known::Absent,
            Some(object) => {
                let version = Version::of(&object);
                // The watch may tell the end of an object before the answer to our write of it has come.
                if entry.gone.as_deref() == Some(&*version.uid) {
                    return;
                }
                if !entry.live.version().is_some_and(|it| version.is_older(it)) {
                    entry.live = Known::present(&object);
                }
            }
        }
        entry.learned = Instant::now();
        if before.as_deref() != entry.live.version().map(|it| &*it.text) {
            for other in entry.followers.iter_mut().filter(|it| *it.work != *work) {
                // Two works that want different things would otherwise answer each other as fast as they can.
                let count = other.repairs.map_or(0, |it| it.0).max(REPAIRS_AT_ONCE);
                other.repairs = Some((count, Instant::now()));
                self.queue.add(other.work.to_string());
            }
        }
        let served = entry.served.clone();
        // A list that was asked for before our write may not have it yet; its silence proves nothing.
        if let Some(watch) = state.watches.get_mut(&served) {
            watch.awaited.remove(&Id::from(key));
        }
    }

    /// Whether objects like this one are written whole, because patching them was refused and that was not.
    pub fn must_be_whole(&self, key: &ObjectKey) -> bool {
        let state = self.state.lock();
        !state.unpatchable.is_empty() && state.unpatchable.contains(&place(key))
    }

    /// Remembers whether objects like this one are to be written whole, so that not every pass begins with a refusal.
    pub fn set_must_be_whole(&self, key: &ObjectKey, must: bool) {
        let mut state = self.state.lock();
        if must {
            state.unpatchable.insert(place(key));
        } else {
            state.unpatchable.remove(&place(key));
        }
    }

    /// What is known about the object no longer holds.
    pub fn unlearn(&self, key: &ObjectKey) {
        if let Some(entry) = self.state.lock().entries.get_mut(&Id::from(key)) {
            entry.live = Known::Unknown;
        }
    }

    /// What this work wrote last.
    pub fn written(&self, work: &str, key: &ObjectKey) -> Option<LastWrite> {
        let mut state = self.state.lock();
        state.entries.get_mut(&Id::from(key))?.follower(work)?.written.clone()
    }

    /// Remembers a write. Writing the same content again means that somebody undid it; with other content the count
    /// starts anew.
    pub fn wrote(&self, work: &str, key: &ObjectKey, written: LastWrite, content: bool) {
        let mut state = self.state.lock();
        let entry = state.entries.get_mut(&Id::from(key));
        let Some(follower) = entry.and_then(|it| it.follower(work)) else {
            return;
        };
        let before = follower.written.replace(written.clone());
        let Some(before) = before.filter(|_| content) else {
            return;
        };
        if before.hash != written.hash {
            follower.repairs = None;
        } else if before.resource_version != written.resource_version {
            let recent = follower.repairs.filter(|it| it.1.elapsed() <= REPAIRS_FORGOTTEN_AFTER);
            follower.repairs = Some((recent.map_or(0, |it| it.0) + 1, Instant::now()));
        }
    }

    /// How long to leave an object as another writer made it, because undoing it did not last.
    pub fn hold(&self, work: &str, key: &ObjectKey) -> Option<Duration> {
        let mut state = self.state.lock();
        let (count, last) = state.entries.get_mut(&Id::from(key))?.follower(work)?.repairs?;
        let wait = Duration::from_secs(1).saturating_mul(1 << count.checked_sub(REPAIRS_AT_ONCE)?.min(9));
        wait.min(REPAIR_WAIT_MAX).checked_sub(last.elapsed())
    }

    fn watch(&self, state: &mut State, served: Served) {
        if let Some(watch) = state.watches.get_mut(&served) {
            watch.idle_since = None;
            return;
        }
        let cancel = self.cancel.child_token();
        let watch = Watch {
            cancel: cancel.clone(),
            current: false,
            awaited: HashSet::new(),
            idle_since: None,
        };
        state.watches.insert(served.clone(), watch);
        let span = info_span!("watch", group = %served.0, resource = %served.2);
        tokio::spawn(self.clone().feed(served, cancel).instrument(span));
    }

    async fn feed(self, served: Served, cancel: CancellationToken) {
        let resource = api_resource(&served.0, &served.1, &served.2);
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        // As in ocm_reconcile::Cache: below the idle timeout of common load balancers.
        let config = watcher::Config::default().timeout(200);
        let stream = watcher::watcher(api, config).default_backoff();
        pin_mut!(stream);
        loop {
            let item = tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                item = stream.next() => item,
            };
            match item {
                Some(Ok(Event::Init)) => self.list_begins(&served),
                Some(Ok(Event::InitApply(object) | Event::Apply(object))) => self.seen(&served, &object),
                Some(Ok(Event::InitDone)) => self.list_ends(&served),
                Some(Ok(Event::Delete(object))) => self.gone(&served, &object),
                Some(Err(error)) => {
                    let was_current = self.lost(&served, &error);
                    if was_current {
                        warn!(%error, "watch failed, will retry");
                    } else {
                        debug!(%error, "watch failed again, will retry");
                    }
                }
                None => return,
            }
        }
    }

    fn list_begins(&self, served: &Served) {
        let mut state = self.state.lock();
        let followed = state
            .entries
            .iter()
            .filter(|(_, it)| it.served == *served)
            .map(|(id, _)| id.clone())
            .collect();
        if let Some(watch) = state.watches.get_mut(served) {
            watch.awaited = followed;
        }
    }

    fn seen(&self, served: &Served, object: &DynamicObject) {
        let id = id_of(served, object);
        let mut state = self.state.lock();
        if let Some(watch) = state.watches.get_mut(served) {
            watch.awaited.remove(&id);
        }
        let Some(entry) = state.entries.get_mut(&id) else {
            return;
        };
        let object = kept(to_value(object));
        let version = Version::of(&object);
        let news = match entry.live.version() {
            Some(before) if version.is_older(before) => return,
            Some(before) => before.text != version.text,
            None => true,
        };
        entry.live = Known::present(&object);
        entry.learned = Instant::now();
        if news {
            entry.tell(&self.queue);
        }
    }

    fn gone(&self, served: &Served, object: &DynamicObject) {
        let id = id_of(served, object);
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(&id) else {
            return;
        };
        entry.gone = object.metadata.uid.as_deref().map(Into::into);
        // The end of an earlier object of this name says nothing about its successor.
        let successor = entry
            .live
            .version()
            .is_some_and(|it| *it.uid != *object.metadata.uid.as_deref().unwrap_or_default());
        if successor || entry.live == Known::Absent {
            return;
        }
        entry.live = Known::Absent;
        entry.learned = Instant::now();
        entry.tell(&self.queue);
    }

    fn list_ends(&self, served: &Served) {
        let mut state = self.state.lock();
        let Some(watch) = state.watches.get_mut(served) else {
            return;
        };
        watch.current = true;
        for id in std::mem::take(&mut watch.awaited) {
            let Some(entry) = state.entries.get_mut(&id) else {
                continue;
            };
            if entry.live != Known::Absent {
                entry.live = Known::Absent;
                entry.learned = Instant::now();
                entry.tell(&self.queue);
            }
        }
    }

    /// Returns whether the watch was in order until now.
    fn lost(&self, served: &Served, error: &watcher::Error) -> bool {
        let mut state = self.state.lock();
        let Some(watch) = state.watches.get_mut(served) else {
            return false;
        };
        // A watch that breaks in the middle is taken up where it stopped; only a list that fails leaves us in the dark.
        let dark = matches!(
            error,
            watcher::Error::InitialListFailed(_) | watcher::Error::NoResourceVersion
        );
        let was_current = watch.current;
        if dark {
            watch.current = false;
        }
        // A definition that goes takes its objects along, and the watch may end before it has told of the last.
        if is_unserved(error) {
            let of_it = state.entries.values_mut().filter(|it| it.served == *served);
            for entry in of_it.filter(|it| it.live != Known::Absent) {
                entry.live = Known::Absent;
                entry.learned = Instant::now();
                entry.tell(&self.queue);
            }
        }
        was_current
    }
}

/// Whether a watch ended because its resource is not served any more.
fn is_unserved(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(kube::Error::Api(status)) if status.code == 404)
}

fn api_resource(group: &str, version: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: segment::encoded_api_version(&api_version(group, version)).into_owned(),
        // Only printed, never sent: paths are made of the plural.
        kind: plural.to_owned(),
        plural: segment::encoded(plural).into_owned(),
    }
}

fn id_of(served: &Served, object: &DynamicObject) -> Id {
    Id {
        group: served.0.clone(),
        resource: served.2.clone(),
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
    }
}

fn to_value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).expect("a Kubernetes object serializes: its keys are strings")
}

/// The object without what nobody here reads: of the field managers only our own count, and of them what was applied,
/// and that upstream's agent wrote it the plain way.
fn kept(mut object: Value) -> Value {
    if let Some(Value::Array(entries)) = object.pointer_mut("/metadata/managedFields") {
        entries.retain(|it| {
            let manager = it["manager"].as_str().unwrap_or_default();
            match it["operation"].as_str() {
                Some("Apply") => manager.starts_with(WORK_FIELD_MANAGER),
                _ => manager == WORK_FIELD_MANAGER && it.get("subresource").is_none(),
            }
        });
        for entry in entries.iter_mut().filter(|it| it["operation"] == "Update") {
            entry["fieldsV1"] = Value::Null;
        }
    }
    object
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
