//! All objects of one API server, their revisions and the log that watches read.
//!
//! A write has two moments. `commit` decides it: it checks the expected revision, assigns the next one and hands a
//! record to the journal. `publish` shows it: reads and watches see a write only after the journal has made it durable,
//! so nothing that a client saw can be lost by a crash. Writers read the newest decided state (`newest`), so that two
//! writes to one object never pass each other.

use crate::object::{Object, key};
use bytes::Bytes;
use parking_lot::RwLock;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

/// Events kept per resource for watches that resume; past either bound the oldest go. A watch that falls further behind
/// is told so and lists again, so these bounds trade the memory of a busy server against lists of slow watchers.
const LOG_EVENTS_MAX: usize = 4096;
/// Bytes of objects kept per resource in the log.
const LOG_BYTES_MAX: usize = 2 << 20;

/// The most that one object may take, as etcd limits it by default.
pub const OBJECT_BYTES_MAX: usize = 3 << 19;

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// One revision of one object.
#[derive(Clone, Debug)]
pub struct Event {
    pub revision: u64,
    pub change: Change,
    /// The new state; for `Deleted` the last state, carrying the revision of the deletion.
    pub object: Arc<Object>,
    /// The state before, for selectors that an object leaves.
    pub previous: Option<Arc<Object>>,
}

/// One decided write on its way to disk.
#[derive(Clone, Debug)]
pub struct Record {
    pub revision: u64,
    pub resource: Arc<str>,
    /// Namespace, NUL, name.
    pub key: Box<str>,
    /// The object's bytes; `None` deletes it.
    pub json: Option<Bytes>,
}

/// Takes decided writes in revision order. Called under the store's lock: it must only queue.
pub trait Journal: Send + Sync {
    fn append(&self, record: Record);
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Revision(u64),
}

/// Why a commit was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// `Expect::Absent`, but the object exists.
    Exists,
    /// The object is gone.
    Missing,
    /// The object has another revision by now.
    Changed,
    /// The new state is larger than an object may be.
    TooLarge,
    /// The journal is short of room, and the write would need more of it.
    NoRoom,
}

/// How much longer than before a state may be that is taken while the journal is short of room:
/// a revision has a digit more.
const SAME_SIZE_BYTES: usize = 64;
/// The same of what is being deleted: that it is, and how far those are who finish it.
const LAST_WORDS_BYTES: usize = 4 << 10;

/// A read or watch asked for a revision that the log no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest revision that can be asked for.
    pub oldest: u64,
}

#[derive(Default)]
struct Table {
    visible: BTreeMap<Box<str>, Arc<Object>>,
    /// Newest decided but unpublished state of a key; `None` is a deletion.
    pending: HashMap<Box<str>, (u64, Option<Arc<Object>>)>,
    log: VecDeque<Arc<Event>>,
    log_bytes: usize,
    /// Events at or below this revision are no longer in the log.
    floor: u64,
}

impl Table {
    fn newest(&self, key: &str) -> Option<&Arc<Object>> {
        match self.pending.get(key) {
            Some((_, object)) => object.as_ref(),
            None => self.visible.get(key),
        }
    }

    fn push(&mut self, event: Arc<Event>) {
        self.log_bytes += event.object.json.len();
        self.log.push_back(event);
        while self.log.len() > LOG_EVENTS_MAX || (self.log_bytes > LOG_BYTES_MAX && self.log.len() > 64) {
            if let Some(old) = self.log.pop_front() {
                self.log_bytes -= old.object.json.len();
                self.floor = old.revision;
            }
        }
    }
}

struct Inner {
    /// Last assigned revision.
    decided: u64,
    /// Last revision that readers see.
    published: u64,
    /// No history reaches below this: the revision at start.
    origin: u64,
    /// Whether only what needs no more room is taken.
    short_of_room: bool,
    tables: HashMap<Arc<str>, Table>,
    queue: VecDeque<(Arc<Event>, Box<str>)>,
}

/// The objects of one server. Cheap to share behind an `Arc`; all methods take `&self`.
pub struct Store {
    inner: RwLock<Inner>,
    journal: Arc<dyn Journal>,
}

impl Store {
    /// A store that holds `objects`, with `revision` as the last one ever assigned.
    pub fn new(objects: impl IntoIterator<Item = Object>, revision: u64, journal: Arc<dyn Journal>) -> Self {
        // Revision 0 means "any" to clients, so the first state is revision 1.
        let revision = revision.max(1);
        let mut tables: HashMap<Arc<str>, Table> = HashMap::new();
        for object in objects {
            let table = tables.entry(object.resource.clone()).or_default();
            table.visible.insert(object.key().into(), Arc::new(object));
        }
        for table in tables.values_mut() {
            table.floor = revision;
        }
        let inner = Inner {
            decided: revision,
            published: revision,
            origin: revision,
            short_of_room: false,
            tables,
            queue: VecDeque::new(),
        };
        Self {
            inner: RwLock::new(inner),
            journal,
        }
    }

    /// Whether the journal is short of room from now on: then only deletions are taken, what belongs to an object that
    /// is being deleted, and what is not larger than what it replaces.
    pub fn set_short_of_room(&self, short: bool) {
        self.inner.write().short_of_room = short;
    }

    /// The revision that readers see now.
    pub fn revision(&self) -> u64 {
        self.inner.read().published
    }

    /// The revision of the last write that was decided, published or not.
    pub fn decided(&self) -> u64 {
        self.inner.read().decided
    }

    /// The published state of an object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let inner = self.inner.read();
        inner
            .tables
            .get(resource)?
            .visible
            .get(key(namespace, name).as_str())
            .cloned()
    }

    /// The newest decided state of an object, published or not: what a writer starts from.
    pub fn newest(&self, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let inner = self.inner.read();
        inner.tables.get(resource)?.newest(&key(namespace, name)).cloned()
    }

    /// All published objects of a resource in key order, in one namespace or (empty) in all, and the revision they
    /// show.
    pub fn list(&self, resource: &str, namespace: &str) -> (Vec<Arc<Object>>, u64) {
        let inner = self.inner.read();
        let objects = inner
            .tables
            .get(resource)
            .map(|it| in_namespace(&it.visible, namespace))
            .unwrap_or_default();
        (objects, inner.published)
    }

    /// The newest decided states of all objects of a resource, published or not and in no order:
    /// what a writer must not collide with.
    pub fn list_newest(&self, resource: &str) -> Vec<Arc<Object>> {
        let inner = self.inner.read();
        let Some(table) = inner.tables.get(resource) else {
            return Vec::new();
        };
        let settled = table
            .visible
            .iter()
            .filter(|(key, _)| !table.pending.contains_key(*key));
        let pending = table.pending.values().filter_map(|(_, it)| it.as_ref());
        settled.map(|(_, it)| it).chain(pending).cloned().collect()
    }

    /// All published objects of all resources, and the revision they show.
    pub fn snapshot(&self) -> (Vec<Arc<Object>>, u64) {
        let inner = self.inner.read();
        let objects = inner.tables.values().flat_map(|it| it.visible.values());
        (objects.cloned().collect(), inner.published)
    }

    /// The objects as they were at `revision`.
    ///
    /// # Errors
    /// `Compacted` when the log does not reach that far back.
    pub fn list_at(&self, resource: &str, namespace: &str, revision: u64) -> Result<Vec<Arc<Object>>, Compacted> {
        let inner = self.inner.read();
        let Some(table) = inner.tables.get(resource) else {
            return Ok(Vec::new());
        };
        if revision < table.floor {
            return Err(Compacted { oldest: table.floor });
        }
        let first = table.log.partition_point(|it| it.revision <= revision);
        if first == table.log.len() {
            return Ok(in_namespace(&table.visible, namespace));
        }
        let mut then = table.visible.clone();
        for event in table.log.range(first..).rev() {
            let key = event.object.key();
            match &event.previous {
                Some(previous) => then.insert(key.into(), previous.clone()),
                None => then.remove(key.as_str()),
            };
        }
        Ok(in_namespace(&then, namespace))
    }

    /// Number of published objects of a resource.
    pub fn count(&self, resource: &str) -> usize {
        self.inner.read().tables.get(resource).map_or(0, |it| it.visible.len())
    }

    /// Names of the resources that hold objects.
    pub fn resources(&self) -> Vec<Arc<str>> {
        let inner = self.inner.read();
        inner
            .tables
            .iter()
            .filter(|(_, it)| !it.visible.is_empty())
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Decides a write. `make` is called with the new revision and returns the encoded state, or `None` to delete.
    ///
    /// # Errors
    /// `Refused` when the object is not as expected; nothing is written then.
    pub fn commit(
        &self,
        resource: &Arc<str>,
        namespace: &str,
        name: &str,
        expect: Expect,
        make: impl FnOnce(u64) -> Option<Object>,
    ) -> Result<(u64, Option<Arc<Object>>), Refused> {
        let key: Box<str> = key(namespace, name).into();
        let mut inner = self.inner.write();
        let inner = &mut *inner;
        let origin = inner.origin;
        let table = inner.tables.entry(resource.clone()).or_insert_with(|| Table {
            floor: origin,
            ..Table::default()
        });
        let before = table.newest(&key).cloned();
        match (expect, &before) {
            (Expect::Absent, None) => {}
            (Expect::Absent, Some(_)) => return Err(Refused::Exists),
            (Expect::Revision(_), None) => return Err(Refused::Missing),
            (Expect::Revision(it), Some(before)) if it != before.revision => return Err(Refused::Changed),
            _ => {}
        }
        let revision = inner.decided + 1;
        let after = make(revision).map(Arc::new);
        if after.as_ref().is_some_and(|it| it.json.len() > OBJECT_BYTES_MAX) {
            return Err(Refused::TooLarge);
        }
        if inner.short_of_room && needs_room(before.as_deref(), after.as_deref()) {
            return Err(Refused::NoRoom);
        }
        let (change, object) = match (&before, &after) {
            (None, Some(after)) => (Change::Added, after.clone()),
            (Some(_), Some(after)) => (Change::Modified, after.clone()),
            (Some(before), None) => (
                Change::Deleted,
                Arc::new(Object::encode(&before.resource, before.value(), revision)),
            ),
            (None, None) => return Err(Refused::Missing),
        };
        inner.decided = revision;
        table.pending.insert(key.clone(), (revision, after.clone()));
        let event = Event {
            revision,
            change,
            object,
            previous: before,
        };
        let json = after.as_ref().map(|it| it.json.clone());
        self.journal.append(Record {
            revision,
            resource: resource.clone(),
            key: key.clone(),
            json,
        });
        inner.queue.push_back((Arc::new(event), key));
        Ok((revision, after))
    }

    /// Shows every decided write up to `revision` to readers, in order, and returns their events.
    pub fn publish(&self, revision: u64) -> Vec<Arc<Event>> {
        let mut events = Vec::new();
        let mut inner = self.inner.write();
        let inner = &mut *inner;
        while inner.queue.front().is_some_and(|(event, _)| event.revision <= revision) {
            let Some((event, key)) = inner.queue.pop_front() else {
                break;
            };
            let Some(table) = inner.tables.get_mut(&event.object.resource) else {
                continue;
            };
            if table
                .pending
                .get(&key)
                .is_some_and(|(newest, _)| *newest == event.revision)
            {
                table.pending.remove(&key);
            }
            match event.change {
                Change::Deleted => table.visible.remove(&key),
                _ => table.visible.insert(key, event.object.clone()),
            };
            table.push(event.clone());
            inner.published = event.revision;
            events.push(event);
        }
        events
    }

    /// Forgets the events up to `revision`: who asks for what came before is told `Compacted`.
    pub fn compact(&self, revision: u64) {
        let mut forgotten = Vec::new();
        for table in self.inner.write().tables.values_mut() {
            let count = table.log.partition_point(|it| it.revision <= revision);
            let Some(last) = count.checked_sub(1).and_then(|it| table.log.get(it)) else {
                continue;
            };
            table.floor = last.revision;
            let old: Vec<_> = table.log.drain(..count).collect();
            table.log_bytes -= old.iter().map(|it| it.object.json.len()).sum::<usize>();
            table.log.shrink_to(table.log.len() * 2);
            forgotten.push(old);
        }
        // Taking so many apart is nothing that writers should wait for.
        drop(forgotten);
    }

    /// Forgets every decided but unpublished write: the journal could not keep it. Their revisions are not used again.
    /// Returns the last revision that is lost.
    pub fn abort(&self) -> u64 {
        let mut inner = self.inner.write();
        inner.queue.clear();
        for table in inner.tables.values_mut() {
            table.pending.clear();
        }
        inner.decided
    }

    /// The events of a resource after `revision`, at most `limit` of them.
    ///
    /// # Errors
    /// `Compacted` when some of them are no longer in the log.
    pub fn events(&self, resource: &str, revision: u64, limit: usize) -> Result<Vec<Arc<Event>>, Compacted> {
        let inner = self.inner.read();
        let Some(table) = inner.tables.get(resource) else {
            return if revision < inner.origin {
                Err(Compacted { oldest: inner.origin })
            } else {
                Ok(Vec::new())
            };
        };
        if revision < table.floor {
            return Err(Compacted { oldest: table.floor });
        }
        let first = table.log.partition_point(|it| it.revision <= revision);
        Ok(table.log.range(first..).take(limit).cloned().collect())
    }
}

fn needs_room(before: Option<&Object>, after: Option<&Object>) -> bool {
    match (before, after) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => {
            // That it is to be deleted is a time, too.
            let more = match after.terminating {
                true => LAST_WORDS_BYTES,
                false => SAME_SIZE_BYTES,
            };
            after.json.len() > before.json.len() + more
        }
    }
}

fn in_namespace(objects: &BTreeMap<Box<str>, Arc<Object>>, namespace: &str) -> Vec<Arc<Object>> {
    if namespace.is_empty() {
        return objects.values().cloned().collect();
    }
    let start: Box<str> = format!("{namespace}\0").into();
    let range = objects.range(start..);
    range
        .map(|(_, it)| it)
        .take_while(|it| it.namespace.as_ref() == namespace)
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Discard;
    impl Journal for Discard {
        fn append(&self, _: Record) {}
    }

    fn put(store: &Store, name: &str, expect: Expect, data: &str) -> Result<u64, Refused> {
        let resource: Arc<str> = "configmaps".into();
        let value = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "n"}, "data": {"a": data}});
        store
            .commit(&resource, "n", name, expect, |it| {
                Some(Object::encode(&resource, value, it))
            })
            .map(|it| it.0)
    }

    #[test]
    fn a_write_is_seen_only_after_it_is_published() {
        let store = Store::new([], 0, Arc::new(Discard));
        let revision = put(&store, "a", Expect::Absent, "1").unwrap();
        assert!(store.get("configmaps", "n", "a").is_none());
        assert!(store.newest("configmaps", "n", "a").is_some());
        assert_eq!(put(&store, "a", Expect::Absent, "1"), Err(Refused::Exists));
        store.publish(revision);
        assert_eq!(store.get("configmaps", "n", "a").unwrap().revision, revision);
        assert_eq!(
            put(&store, "a", Expect::Revision(revision + 5), "1"),
            Err(Refused::Changed)
        );
    }

    #[test]
    fn an_older_list_shows_the_objects_as_they_were() {
        let store = Store::new([], 0, Arc::new(Discard));
        let first = put(&store, "a", Expect::Absent, "1").unwrap();
        store.publish(first);
        let second = put(&store, "a", Expect::Revision(first), "2").unwrap();
        let third = put(&store, "b", Expect::Absent, "1").unwrap();
        store.publish(third);
        let then = store.list_at("configmaps", "", first).unwrap();
        assert_eq!(then.iter().map(|it| it.revision).collect::<Vec<_>>(), [first]);
        let then = store.list_at("configmaps", "", second).unwrap();
        assert_eq!(then.iter().map(|it| it.revision).collect::<Vec<_>>(), [second]);
        assert_eq!(store.list("configmaps", "").0.len(), 2);
        assert!(store.list_at("configmaps", "", 0).is_err());
    }

    #[test]
    fn the_log_returns_each_event_once_or_reports_compaction() {
        let store = Store::new([], 5, Arc::new(Discard));
        let mut revision = put(&store, "a", Expect::Absent, "0").unwrap();
        for turn in 0..LOG_EVENTS_MAX + 10 {
            revision = put(&store, "a", Expect::Revision(revision), &turn.to_string()).unwrap();
        }
        store.publish(revision);
        assert!(store.events("configmaps", 6, 10).is_err());
        let events = store.events("configmaps", revision - 3, 10).unwrap();
        assert_eq!(
            events.iter().map(|it| it.revision).collect::<Vec<_>>(),
            [revision - 2, revision - 1, revision]
        );
        assert!(store.events("nothing", 1, 10).is_err());
        assert!(store.events("nothing", 5, 10).unwrap().is_empty());
    }

    #[test]
    fn compacted_revisions_cannot_be_read_but_later_ones_can() {
        let store = Store::new([], 0, Arc::new(Discard));
        let first = put(&store, "a", Expect::Absent, "1").unwrap();
        let second = put(&store, "a", Expect::Revision(first), "2").unwrap();
        let third = put(&store, "a", Expect::Revision(second), "3").unwrap();
        store.publish(third);
        store.compact(second);
        assert_eq!(
            store.events("configmaps", first, 10).unwrap_err(),
            Compacted { oldest: second }
        );
        assert!(store.list_at("configmaps", "", first).is_err());
        let left = store.events("configmaps", second, 10).unwrap();
        assert_eq!(left.iter().map(|it| it.revision).collect::<Vec<_>>(), [third]);
        assert_eq!(store.list("configmaps", "").0.len(), 1);
        // Nothing happened since: nothing more is forgotten, and whoever is up to date stays so.
        store.compact(third);
        assert!(store.events("configmaps", third, 10).unwrap().is_empty());
        assert!(store.inner.read().tables["configmaps"].log_bytes == 0);
    }

    #[test]
    fn who_is_short_of_room_takes_what_needs_none() {
        let store = Store::new([], 0, Arc::new(Discard));
        let first = put(&store, "a", Expect::Absent, "1").unwrap();
        store.set_short_of_room(true);
        assert_eq!(put(&store, "b", Expect::Absent, "1"), Err(Refused::NoRoom));
        let second = put(&store, "a", Expect::Revision(first), "2").unwrap();
        let large = "x".repeat(100);
        assert_eq!(put(&store, "a", Expect::Revision(second), &large), Err(Refused::NoRoom));
        let resource: Arc<str> = "configmaps".into();
        let deleted = store.commit(&resource, "n", "a", Expect::Revision(second), |_| None);
        assert!(deleted.is_ok());
        store.set_short_of_room(false);
        assert!(put(&store, "b", Expect::Absent, &large).is_ok());
    }

    #[test]
    fn aborted_writes_leave_no_trace() {
        let store = Store::new([], 0, Arc::new(Discard));
        put(&store, "a", Expect::Absent, "1").unwrap();
        store.abort();
        let revision = put(&store, "a", Expect::Absent, "2").unwrap();
        store.publish(revision);
        assert_eq!(store.events("configmaps", 1, 10).unwrap().len(), 1);
    }
}
