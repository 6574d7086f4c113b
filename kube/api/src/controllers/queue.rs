//! The keys a controller still has to look at: each waits once, none is worked on twice at a time, a failed one comes
//! back later.

use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Delay before the first retry of a failed key; doubles with every failure.
const RETRY_MILLIS_MIN: u64 = 5;
/// Longest delay before a retry. A minute would leave a deleted namespace hanging visibly, a second would log too much.
const RETRY_MILLIS_MAX: u64 = 30_000;

/// The object that a controller looks at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    /// Resource id such as `deployments.apps`.
    pub resource: Arc<str>,
    /// Empty for a cluster-scoped object.
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl Key {
    /// Key of a cluster-scoped object.
    pub fn cluster(resource: &str, name: &str) -> Self {
        Self {
            resource: resource.into(),
            namespace: Box::default(),
            name: name.into(),
        }
    }

    /// Key of a stored object.
    pub fn of(object: &kube_store::Object) -> Self {
        Self {
            resource: object.resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }
}

#[derive(Default)]
struct State {
    ready: VecDeque<Key>,
    /// Keys to be looked at, whether ready or busy.
    dirty: HashSet<Key>,
    /// Keys being looked at now.
    busy: HashSet<Key>,
    /// When to look again, in order of time; the number keeps equal times apart.
    later: BTreeMap<(Instant, u64), Key>,
    due: HashMap<Key, (Instant, u64)>,
    failures: HashMap<Key, u32>,
    serial: u64,
}

impl State {
    fn add(&mut self, key: Key) -> bool {
        if !self.dirty.insert(key.clone()) || self.busy.contains(&key) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    fn add_at(&mut self, key: Key, at: Instant) {
        if let Some(&before) = self.due.get(&key) {
            if before.0 <= at {
                return;
            }
            self.later.remove(&before);
        }
        self.serial += 1;
        self.due.insert(key.clone(), (at, self.serial));
        self.later.insert((at, self.serial), key);
    }

    /// The next ready key, or when to ask again.
    fn take(&mut self, now: Instant) -> Result<Key, Option<Instant>> {
        while let Some((&(at, serial), _)) = self.later.first_key_value() {
            if at > now {
                break;
            }
            if let Some(key) = self.later.remove(&(at, serial)) {
                self.due.remove(&key);
                self.add(key);
            }
        }
        let Some(key) = self.ready.pop_front() else {
            return Err(self.later.first_key_value().map(|((at, _), _)| *at));
        };
        self.dirty.remove(&key);
        self.busy.insert(key.clone());
        Ok(key)
    }
}

/// Keys waiting for one controller.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Notify,
}

impl Queue {
    /// Looks at `key` as soon as possible.
    pub fn add(&self, key: Key) {
        if self.state.lock().add(key) {
            self.wake.notify_one();
        }
    }

    /// Looks at `key` after `delay`, or earlier if an earlier time is already set.
    pub fn add_after(&self, key: Key, delay: Duration) {
        self.state.lock().add_at(key, Instant::now() + delay);
        self.wake.notify_one();
    }

    /// Waits for the next key. It is not given out again before `done` or `failed`.
    pub async fn next(&self) -> Key {
        loop {
            let wait = match self.state.lock().take(Instant::now()) {
                Ok(key) => return key,
                Err(wait) => wait,
            };
            match wait {
                None => self.wake.notified().await,
                Some(at) => tokio::select! {
                    () = self.wake.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
            }
        }
    }

    /// The key was worked on; `again` says when to look again without any event.
    pub fn done(&self, key: Key, again: Option<Duration>) {
        let mut state = self.state.lock();
        state.busy.remove(&key);
        state.failures.remove(&key);
        if let Some(delay) = again {
            state.add_at(key.clone(), Instant::now() + delay);
        }
        if state.dirty.contains(&key) {
            state.ready.push_back(key);
        }
        drop(state);
        self.wake.notify_one();
    }

    /// The key could not be worked on: it comes back after a growing delay. Returns how often it failed in a row.
    pub fn failed(&self, key: Key) -> u32 {
        let mut state = self.state.lock();
        state.busy.remove(&key);
        let failures = state.failures.entry(key.clone()).or_default();
        *failures += 1;
        let failures = *failures;
        let delay = RETRY_MILLIS_MIN
            .saturating_mul(1 << failures.min(16))
            .min(RETRY_MILLIS_MAX);
        state.add_at(key.clone(), Instant::now() + Duration::from_millis(delay));
        if state.dirty.contains(&key) {
            state.ready.push_back(key);
        }
        drop(state);
        self.wake.notify_one();
        failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::cluster("namespaces", name)
    }

    #[tokio::test]
    async fn a_key_waits_once_however_often_it_is_added() {
        let queue = Queue::default();
        queue.add(key("a"));
        queue.add(key("a"));
        queue.add(key("b"));
        assert_eq!(queue.next().await, key("a"));
        assert_eq!(queue.next().await, key("b"));
        assert!(queue.state.lock().ready.is_empty());
    }

    #[tokio::test]
    async fn a_busy_key_is_given_out_again_only_when_it_is_done() {
        let queue = Queue::default();
        queue.add(key("a"));
        let a = queue.next().await;
        queue.add(key("a"));
        assert!(queue.state.lock().ready.is_empty());
        queue.done(a, None);
        assert_eq!(queue.next().await, key("a"));
    }

    #[test]
    fn a_failed_key_comes_back_later_each_time() {
        let queue = Queue::default();
        queue.add(key("a"));
        let taken = queue.state.lock().take(Instant::now()).unwrap();
        assert_eq!(queue.failed(taken), 1);
        let now = Instant::now();
        let wait = queue
            .state
            .lock()
            .take(now - Duration::from_secs(1))
            .unwrap_err()
            .unwrap();
        assert!(wait <= now + Duration::from_millis(RETRY_MILLIS_MIN * 2));
        let taken = queue.state.lock().take(now + Duration::from_secs(60)).unwrap();
        assert_eq!(queue.failed(taken), 2);
    }

    #[test]
    fn the_earlier_of_two_times_counts() {
        let queue = Queue::default();
        queue.add_after(key("a"), Duration::from_secs(60));
        queue.add_after(key("a"), Duration::from_secs(1));
        queue.add_after(key("a"), Duration::from_secs(30));
        let mut state = queue.state.lock();
        assert_eq!(state.later.len(), 1);
        assert!(state.take(Instant::now() + Duration::from_secs(2)).is_ok());
    }
}
