//! A work queue of keys: each key waits at most once, runs at most once at a time, may be due later, and comes back
//! after a growing delay when it failed.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    hash::Hash,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

/// client-go's first delay, which doubles with each failure. Its longest, 1000 s, would leave things as they are for a
/// quarter of an hour after a server has come back; half a minute costs an unreachable server next to nothing.
const BACKOFF_MIN: Duration = Duration::from_millis(5);
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// The longest appointment: a clock cannot be moved on by every number that a user may write. A look that comes
/// too early finds that it is, and wants the next one; once a day that costs nothing.
const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// What may be a key.
pub trait Key: Clone + Ord + Hash {}

impl<K: Clone + Ord + Hash> Key for K {}

/// A handle on the queue of one reconciler, whose keys are names unless it says otherwise. Cloning shares it.
pub struct Queue<K = String> {
    inner: Arc<Inner<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            inner: self.inner.clone(),
        }
    }
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self::retrying_within(BACKOFF_MAX)
    }
}

impl<K> Queue<K> {
    /// An empty queue whose longest delay after failures is `backoff_max`.
    pub fn retrying_within(backoff_max: Duration) -> Self {
        Self {
            inner: Arc::new(Inner {
                state: Mutex::default(),
                changed: Notify::new(),
                is_awaiting: watch::Sender::default(),
                backoff_max,
            }),
        }
    }
}

/// A handle that does not keep the queue.
pub struct WeakQueue<K = String>(Weak<Inner<K>>);

impl<K> WeakQueue<K> {
    /// How many keys wait; `None` when the queue is gone.
    pub fn waiting(&self) -> Option<usize> {
        Some(self.0.upgrade()?.state.lock().ready.len())
    }
}

struct Inner<K> {
    state: Mutex<State<K>>,
    changed: Notify,
    /// Whether those who add to it are still to come.
    is_awaiting: watch::Sender<bool>,
    backoff_max: Duration,
}

struct State<K> {
    ready: VecDeque<K>,
    // Keys that are in `ready`, or are running and must run once more.
    dirty: HashSet<K>,
    running: HashSet<K>,
    timers: BTreeSet<(Instant, K)>,
    due: HashMap<K, Instant>,
    failures: HashMap<K, u32>,
}

impl<K> Default for State<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            dirty: HashSet::new(),
            running: HashSet::new(),
            timers: BTreeSet::new(),
            due: HashMap::new(),
            failures: HashMap::new(),
        }
    }
}

impl Queue {
    /// An empty queue of names; [`default`](Self::default) makes one of other keys.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty queue whose reconciler has not begun, because something that it reads is not there yet.
    /// It counts as one that has something to do.
    pub fn awaiting() -> Self {
        let queue = Self::new();
        queue.inner.is_awaiting.send_replace(true);
        queue
    }
}

impl<K: Key> Queue<K> {
    /// From now on its reconciler works, or never will.
    pub fn begin(&self) {
        self.inner.is_awaiting.send_replace(false);
    }

    /// Ends when its reconciler has begun.
    pub async fn begun(&self) {
        // The sender lives as long as self, so waiting cannot fail.
        let _ = self.inner.is_awaiting.subscribe().wait_for(|it| !*it).await;
    }

    /// Asks for a run of `key`, now or as soon as its present run is over.
    pub fn add(&self, key: impl Into<K>) {
        let mut state = self.inner.state.lock();
        if state.mark(key.into()) {
            drop(state);
            self.inner.changed.notify_one();
        }
    }

    /// Asks for a run of `key` after `delay` at the latest, or after a day. An earlier appointment stays.
    pub fn add_after(&self, key: impl Into<K>, delay: Duration) {
        let key = key.into();
        let at = appointment(delay);
        let mut state = self.inner.state.lock();
        if state.due.get(&key).is_some_and(|before| *before <= at) {
            return;
        }
        state.schedule(key, at);
        drop(state);
        self.inner.changed.notify_one();
    }

    /// How many keys wait or run.
    pub fn len(&self) -> usize {
        let state = self.inner.state.lock();
        state.dirty.union(&state.running).count() + usize::from(*self.inner.is_awaiting.borrow())
    }

    /// Whether nothing waits and nothing runs. Appointments do not count.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The queue, for whoever wants to know how much waits and must not keep it.
    pub fn downgrade(&self) -> WeakQueue<K> {
        WeakQueue(Arc::downgrade(&self.inner))
    }

    /// The next key to run, marked as running until [`done`](Self::done) or [`failed`](Self::failed).
    pub async fn next(&self) -> K {
        loop {
            let notified = self.inner.changed.notified();
            let sleep_until = {
                let mut state = self.inner.state.lock();
                state.ring(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.dirty.remove(&key);
                    state.cancel(&key);
                    state.running.insert(key.clone());
                    // Of several that wait, an addition wakes one; who was woken for two keys wakes the next.
                    if !state.ready.is_empty() {
                        self.inner.changed.notify_one();
                    }
                    return key;
                }
                state.timers.first().map(|(at, _)| *at)
            };
            match sleep_until {
                Some(at) => {
                    tokio::select! {
                        () = notified => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => notified.await,
            }
        }
    }

    /// The run of `key` is over; `again` is when it wants to be looked at again without any event.
    pub fn done(&self, key: &K, again: Option<Duration>) {
        let mut state = self.inner.state.lock();
        state.failures.remove(key);
        state.finish(key, again);
        drop(state);
        self.inner.changed.notify_one();
    }

    /// The run of `key` failed; it is tried again after a delay that doubles with each failure. Returns the delay.
    pub fn failed(&self, key: &K) -> Duration {
        let mut state = self.inner.state.lock();
        let failures = state.failures.entry(key.clone()).or_insert(0);
        let delay = BACKOFF_MIN
            .saturating_mul(1u32.checked_shl(*failures).unwrap_or(u32::MAX))
            .min(self.inner.backoff_max);
        *failures = (*failures + 1).min(30);
        state.finish(key, Some(delay));
        drop(state);
        self.inner.changed.notify_one();
        delay
    }
}

fn appointment(delay: Duration) -> Instant {
    Instant::now() + delay.min(DELAY_MAX)
}

impl<K: Key> State<K> {
    // True when the key became ready now.
    fn mark(&mut self, key: K) -> bool {
        if !self.dirty.insert(key.clone()) || self.running.contains(&key) {
            return false;
        }
        self.ready.push_back(key);
        true
    }

    fn schedule(&mut self, key: K, at: Instant) {
        self.cancel(&key);
        self.timers.insert((at, key.clone()));
        self.due.insert(key, at);
    }

    fn cancel(&mut self, key: &K) {
        if let Some(at) = self.due.remove(key) {
            self.timers.remove(&(at, key.clone()));
        }
    }

    fn ring(&mut self, now: Instant) {
        while let Some((at, _)) = self.timers.first() {
            if *at > now {
                break;
            }
            if let Some((_, key)) = self.timers.pop_first() {
                self.due.remove(&key);
                self.mark(key);
            }
        }
    }

    fn finish(&mut self, key: &K, again: Option<Duration>) {
        self.running.remove(key);
        if self.dirty.contains(key) {
            self.ready.push_back(key.clone());
        }
        // An appointment made by somebody else during the run stays if it is earlier.
        if let Some(delay) = again {
            let at = appointment(delay);
            if self.due.get(key).is_none_or(|before| *before > at) {
                self.schedule(key.clone(), at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_queued_key_is_unique_and_reruns_if_added_meanwhile() {
        let queue = Queue::new();
        queue.add("a");
        queue.add("a");
        let a = queue.next().await;
        assert_eq!(a, "a");
        queue.add("a");
        queue.add("b");
        let b = queue.next().await;
        assert_eq!(b, "b");
        queue.done(&a, None);
        assert_eq!(queue.next().await, a);
        queue.done(&a, None);
        queue.done(&b, None);
        assert!(queue.is_empty());
    }

    #[tokio::test]
    async fn the_earliest_appointment_wins() {
        let queue = Queue::new();
        let never = Duration::from_secs(9999);
        queue.add_after("a", never);
        queue.add_after("a", Duration::ZERO);
        queue.add_after("a", never);
        assert_eq!(queue.next().await, "a");
    }

    #[tokio::test]
    async fn an_appointment_in_ages_is_one_within_a_day() {
        let queue = Queue::new();
        queue.add_after("a", Duration::MAX);
        queue.add("b");
        let key = queue.next().await;
        queue.done(&key, Some(Duration::from_secs(i64::MAX.unsigned_abs())));
        let latest = Instant::now() + DELAY_MAX;
        let due = queue.inner.state.lock().due.clone();
        assert_eq!(due.len(), 2);
        assert!(due.values().all(|it| *it <= latest));
    }

    #[tokio::test]
    async fn a_key_is_whatever_can_be_told_apart() {
        let queue: Queue<(u8, &str)> = Queue::default();
        queue.add((1, "a"));
        queue.add((2, "a"));
        queue.add((1, "a"));
        assert_eq!(queue.next().await, (1, "a"));
        assert_eq!(queue.next().await, (2, "a"));
        assert_eq!(queue.len(), 2);
    }

    #[tokio::test]
    async fn a_queue_waits_no_longer_than_it_was_told() {
        let queue: Queue = Queue::retrying_within(Duration::from_millis(8));
        queue.add("a");
        let mut delays = Vec::new();
        for _ in 0..3 {
            let key = queue.next().await;
            delays.push(queue.failed(&key).as_millis());
        }
        assert_eq!(delays, [5, 8, 8]);
    }

    #[tokio::test]
    async fn failures_double_the_delay_and_success_forgets_them() {
        let queue = Queue::new();
        let mut delays = Vec::new();
        queue.add("a");
        for _ in 0..3 {
            let key = queue.next().await;
            delays.push(queue.failed(&key).as_millis());
        }
        assert_eq!(delays, [5, 10, 20]);
        let key = queue.next().await;
        queue.done(&key, None);
        queue.add("a");
        let key = queue.next().await;
        assert_eq!(queue.failed(&key).as_millis(), 5);
    }
}
