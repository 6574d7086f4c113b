//! Whether those who watch still may.
//!
//! A request is authenticated and authorized once, and a watch is one request that goes on for an hour. So who watches
//! is remembered with what it showed, and asked for both again when something was taken away that may be what it stands
//! on: a binding, a rule of a role, a ServiceAccount, the object that its token is bound to. What gives rights asks
//! nobody, and what is taken from others asks only them. Changes are gathered while a look is under way and a moment
//! after it, so that many changes with many watches cost a few looks a second, however many they are.

use crate::{
    authn::{Authenticator, BoundObject},
    authz::{Lost, Rbac},
    credentials::Credentials,
    identity::{AccessDecision, Attributes, MASTERS, User},
    respond::Body,
};
use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt};
use kube_store::store::{Change, Event};
use parking_lot::Mutex;
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

/// A look takes at most this part of the time of one thread.
const PART_OF_TIME: u32 = 20;
/// Between two looks, at least and at most. Whoever lost a right waits so long for the end of its watch,
/// at the longest.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// Watches that are asked about before others have their turn.
const ASKED_AT_ONCE: usize = 128;

/// One watch, or another answer that goes on.
struct Entry {
    credentials: Credentials,
    user: User,
    attributes: Attributes,
    grounds: Box<[BoundObject]>,
    end: CancellationToken,
}

/// What was taken away since the last look.
#[derive(Default)]
struct Taken {
    /// Whatever it is: everybody is asked.
    everything: bool,
    lost: Lost,
    grounds: HashSet<BoundObject>,
}

impl Taken {
    fn is_empty(&self) -> bool {
        !self.everything && self.lost.is_empty() && self.grounds.is_empty()
    }

    fn concerns(&self, entry: &Entry) -> bool {
        self.everything
            || self.lost.concerns(&entry.user)
            // Whoever asks in the name of another needs rights of its own for that.
            || (entry.credentials.impersonates() && !self.lost.is_empty())
            || entry.grounds.iter().any(|it| self.grounds.contains(it))
    }
}

#[derive(Default)]
struct Entries {
    all: HashMap<u64, Arc<Entry>>,
    next: u64,
    /// How many entries stand on an object.
    grounds: HashMap<BoundObject, usize>,
}

/// Those who watch, and what they may have lost.
pub struct OpenWatches {
    authenticator: Arc<Authenticator>,
    rbac: Arc<Rbac>,
    entries: Mutex<Entries>,
    taken: Mutex<Taken>,
    notify: Notify,
    asked: AtomicU64,
}

/// The resource of an object that credentials stand on, if such a change can be the end of them. An account begins to
/// end when it is marked, and a Secret may hold another token.
fn ground_resource(resource: &str, change: Change) -> Option<&'static str> {
    let resources: &[&'static str] = match change {
        Change::Added => &[],
        Change::Modified => &["serviceaccounts", "secrets"],
        Change::Deleted => &["serviceaccounts", "secrets", "pods", "nodes"],
    };
    resources.iter().copied().find(|it| *it == resource)
}

impl OpenWatches {
    /// Nobody watches yet. Who does is asked for again by these.
    pub fn new(authenticator: Arc<Authenticator>, rbac: Arc<Rbac>) -> Self {
        Self {
            authenticator,
            rbac,
            entries: Mutex::default(),
            taken: Mutex::default(),
            notify: Notify::new(),
            asked: AtomicU64::new(0),
        }
    }

    /// Notes what published events take away. Called with all of them, in order.
    pub fn notice(&self, events: &[Arc<Event>]) {
        let mut noted = false;
        for event in events {
            let object = &event.object;
            if object.resource.ends_with(".rbac.authorization.k8s.io") {
                noted |= self.taken.lock().lost.note(event);
            } else if let Some(resource) = ground_resource(&object.resource, event.change) {
                let ground = (resource, object.namespace.clone(), object.name.clone());
                if self.entries.lock().grounds.contains_key(&ground) {
                    self.taken.lock().grounds.insert(ground);
                    noted = true;
                }
            }
        }
        if noted {
            self.notify.notify_one();
        }
    }

    /// Asks everybody again: something else than objects of this server has changed what they may.
    pub fn ask_everybody(&self) {
        self.taken.lock().everything = true;
        self.notify.notify_one();
    }

    /// How often watches were asked about again.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn add(self: &Arc<Self>, entry: Entry) -> Held {
        let entry = Arc::new(entry);
        let mut entries = self.entries.lock();
        entries.next += 1;
        let number = entries.next;
        for ground in &entry.grounds {
            *entries.grounds.entry(ground.clone()).or_default() += 1;
        }
        entries.all.insert(number, entry.clone());
        drop(entries);
        Held {
            standing: self.clone(),
            number,
            entry,
        }
    }

    /// Whether the same request would be answered now.
    fn holds(&self, entry: &Entry) -> bool {
        let now = entry.credentials.identify(&self.authenticator, &self.rbac);
        now.is_ok_and(|it| {
            matches!(
                self.rbac.authorize(&it.user, &entry.attributes),
                AccessDecision::Allow(_)
            )
        })
    }

    /// Looks once at whom it concerns, and ends what may not go on.
    async fn look(&self, mut taken: Taken) {
        self.rbac.add_holders(&mut taken.lost);
        let concerned: Vec<Arc<Entry>> = {
            let entries = self.entries.lock();
            let all = entries.all.values();
            all.filter(|it| taken.concerns(it)).cloned().collect()
        };
        for some in concerned.chunks(ASKED_AT_ONCE) {
            for entry in some {
                self.asked.fetch_add(1, Ordering::Relaxed);
                if !self.holds(entry) {
                    entry.end.cancel();
                }
            }
            tokio::task::yield_now().await;
        }
    }
}

/// The place of one watch among those that are asked about. Dropping it gives the place up.
struct Held {
    standing: Arc<OpenWatches>,
    number: u64,
    entry: Arc<Entry>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut entries = self.standing.entries.lock();
        entries.all.remove(&self.number);
        for ground in &self.entry.grounds {
            if let Some(count) = entries.grounds.get_mut(ground) {
                *count -= 1;
                if *count == 0 {
                    entries.grounds.remove(ground);
                }
            }
        }
    }
}

/// Looks after what was taken away, until the server stops.
pub async fn run(standing: Arc<OpenWatches>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = standing.notify.notified() => {}
        }
        let taken = std::mem::take(&mut *standing.taken.lock());
        if taken.is_empty() {
            continue;
        }
        let began = Instant::now();
        standing.look(taken).await;
        let pause = (began.elapsed() * PART_OF_TIME).clamp(PAUSE_MIN, PAUSE_MAX);
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// An answer that goes on for as long as whoever asked may have it, and no longer than the credential is good for. It
/// ends as one whose time is over: who comes again is told why not.
pub fn while_it_stands(
    standing: &Arc<OpenWatches>,
    stop: &CancellationToken,
    credentials: Credentials,
    user: &User,
    attributes: Attributes,
    stream: BoxStream<'static, Bytes>,
) -> Body {
    let terms = credentials.terms(&standing.authenticator);
    let until = terms.until.map(instant);
    // What nobody can take away needs no look: an administrator's certificate, and who is part of the process
    // and may all.
    let is_lasting = user.is_in(MASTERS) && !credentials.impersonates() && terms.grounds.is_empty();
    let held = (!is_lasting).then(|| {
        standing.add(Entry {
            grounds: terms.grounds.into(),
            user: user.clone(),
            credentials,
            attributes,
            end: stop.child_token(),
        })
    });
    let end = match &held {
        Some(held) => {
            // What was taken away between the request's own look and this place in the list.
            if !standing.holds(&held.entry) {
                held.entry.end.cancel();
            }
            held.entry.end.clone()
        }
        None => stop.clone(),
    };
    let ended = async move {
        match until {
            Some(until) => drop(tokio::time::timeout_at(until, end.cancelled()).await),
            None => end.cancelled().await,
        }
    };
    let stream = stream.map(move |it| {
        // The place is given up with the stream.
        let _ = &held;
        it
    });
    Body::Stream(stream.take_until(ended).boxed())
}

/// No answer goes on for longer, and a clock has an end.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// When that will be by the clock that timers go by.
fn instant(at: jiff::Timestamp) -> Instant {
    let left = at.duration_since(jiff::Timestamp::now());
    Instant::now() + Duration::try_from(left).unwrap_or_default().min(LONGEST)
}
