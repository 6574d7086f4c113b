//! What clients keep on this server that they need no right of their own to keep much of: certificate requests, which
//! are counted by who asks for them, and Events, by the namespace that they are in.

use crate::{
    csr,
    identity::User,
    limits::Limits,
    party::Parties,
    rates::too_many,
    resource_ids::{CSRS, EVENTS},
};
use kube_store::{
    Object, Store,
    status::Status,
    store::{Change, Event},
};
use parking_lot::Mutex;
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};

/// Where what is kept is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shelf {
    /// Certificate requests of an identity.
    Requests(Arc<str>),
    /// Events of a namespace.
    Events(Box<str>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    objects: usize,
    /// Those that nobody has decided.
    open: usize,
    bytes: usize,
}

/// What is kept on one server.
pub struct KeptObjects {
    limits: Limits,
    parties: Arc<Parties>,
    shelves: Mutex<HashMap<Shelf, Count>>,
}

/// Room for what is being written, until it is counted as what was written.
pub struct KeptPlace {
    kept: Arc<KeptObjects>,
    shelf: Shelf,
    count: Count,
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        self.kept.take_off(&self.shelf, self.count);
    }
}

/// A bound that is reached, and what to say about it.
pub struct Full {
    pub bound: &'static str,
    pub status: Status,
}

impl KeptObjects {
    /// Counts what a store has.
    pub fn new(limits: Limits, parties: Arc<Parties>, store: &Store) -> Arc<Self> {
        let kept = Self {
            limits,
            parties,
            shelves: Mutex::default(),
        };
        for resource in [EVENTS, CSRS] {
            for object in store.list(resource, "").0 {
                if let Some((shelf, count)) = kept.weigh(&object) {
                    kept.put_on(shelf, count);
                }
            }
        }
        Arc::new(kept)
    }

    /// Counts what was published.
    pub fn notice(&self, events: &[Arc<Event>]) {
        for event in events.iter().filter(|it| matches!(&*it.object.resource, EVENTS | CSRS)) {
            if event.change != Change::Deleted
                && let Some((shelf, count)) = self.weigh(&event.object)
            {
                self.put_on(shelf, count);
            }
            if let Some((shelf, count)) = event.previous.as_ref().and_then(|it| self.weigh(it)) {
                self.take_off(&shelf, count);
            }
        }
    }

    fn put_on(&self, shelf: Shelf, more: Count) {
        let mut shelves = self.shelves.lock();
        let count = shelves.entry(shelf).or_default();
        count.objects += more.objects;
        count.open += more.open;
        count.bytes += more.bytes;
    }

    fn take_off(&self, shelf: &Shelf, less: Count) {
        let mut shelves = self.shelves.lock();
        let Some(count) = shelves.get_mut(shelf) else { return };
        count.objects = count.objects.saturating_sub(less.objects);
        count.open = count.open.saturating_sub(less.open);
        count.bytes = count.bytes.saturating_sub(less.bytes);
        if *count == Count::default() {
            shelves.remove(shelf);
        }
    }

    fn weigh(&self, object: &Object) -> Option<(Shelf, Count)> {
        let bytes = object.json.len();
        match &*object.resource {
            EVENTS => Some((
                Shelf::Events(object.namespace.clone()),
                Count {
                    objects: 1,
                    open: 0,
                    bytes,
                },
            )),
            CSRS => {
                let request = object.value();
                let party = self.parties.of(&csr::requester(&request));
                Some((Shelf::Requests(party.identity), count_of_request(&request, bytes)))
            }
            _ => None,
        }
    }

    /// Room for a new object, or for the new state of one that takes `before` bytes.
    ///
    /// # Errors
    /// The bound that it would pass.
    pub fn place(
        self: &Arc<Self>,
        (id, namespace): (&str, &str),
        user: &User,
        before: Option<usize>,
        value: &Value,
    ) -> Result<Option<KeptPlace>, Full> {
        let bytes = || serde_json::to_vec(value).map_or(0, |it| it.len());
        match (id, before) {
            (EVENTS, _) => {
                let more = bytes().saturating_sub(before.unwrap_or_default());
                let count = Count {
                    objects: usize::from(before.is_none()),
                    open: 0,
                    bytes: more,
                };
                let of = format!("namespace {namespace:?}");
                let shelf = Shelf::Events(namespace.into());
                self.take(shelf, count, |now| {
                    if count.objects > 0 && now.objects + count.objects > self.limits.events {
                        return Some(full("Events", "events of", &of, self.limits.events));
                    }
                    let most = self.limits.event_bytes;
                    // What does not grow is no harm.
                    (more > 0 && now.bytes + more > most).then(|| full("EventBytes", "bytes of events of", &of, most))
                })
            }
            (CSRS, None) => {
                let party = self.parties.of(user);
                let limits = &self.limits;
                let (open, all) = match party.is_shared {
                    true => (limits.shared_requests, limits.shared_requests),
                    false => (limits.open_requests, limits.requests),
                };
                let count = count_of_request(value, bytes());
                let (of, most) = (format!("{:?}", party.identity), limits.requests_bytes);
                self.take(Shelf::Requests(party.identity), count, |now| {
                    if now.open >= open {
                        return Some(full("OpenRequests", "open certificate requests of", &of, open));
                    }
                    if now.objects >= all {
                        return Some(full("Requests", "certificate requests of", &of, all));
                    }
                    let is_heavy = now.bytes + count.bytes > most;
                    is_heavy.then(|| full("RequestBytes", "bytes of certificate requests of", &of, most))
                })
            }
            _ => Ok(None),
        }
    }

    fn take(
        self: &Arc<Self>,
        shelf: Shelf,
        count: Count,
        refuse: impl FnOnce(Count) -> Option<Full>,
    ) -> Result<Option<KeptPlace>, Full> {
        // Two that come at once do not both find the last place.
        let mut shelves = self.shelves.lock();
        let now = shelves.entry(shelf.clone()).or_default();
        if let Some(full) = refuse(*now) {
            return Err(full);
        }
        now.objects += count.objects;
        now.open += count.open;
        now.bytes += count.bytes;
        drop(shelves);
        Ok(Some(KeptPlace {
            kept: self.clone(),
            shelf,
            count,
        }))
    }
}

fn full(bound: &'static str, what: &str, of: &str, most: usize) -> Full {
    let message = format!("the limit of {what} {of} is reached: {most}; try again when there are fewer");
    Full {
        bound,
        status: too_many(message, 30),
    }
}

fn count_of_request(request: &Value, bytes: usize) -> Count {
    let is_decided = request["status"]["conditions"]
        .as_array()
        .is_some_and(|it| !it.is_empty())
        || request["status"]["certificate"]
            .as_str()
            .is_some_and(|it| !it.is_empty());
    Count {
        objects: 1,
        open: usize::from(!is_decided),
        bytes,
    }
}
