//! Keys that want a look, now or later. One worker takes them one by one.

use parking_lot::Mutex;
use std::{collections::HashMap, hash::Hash, time::Duration};
use tokio::{sync::Notify, time::Instant};

/// The longest wait: a clock cannot be moved on by every number that a user may write. A look that comes too early finds
/// that it is, and wants the next one; once a day that costs nothing.
const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// A key is in it at most once, with the earliest time at which it was wanted.
pub struct Queue<K> {
    due: Mutex<HashMap<K, Instant>>,
    added: Notify,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            due: Mutex::default(),
            added: Notify::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Queue<K> {
    /// Wants a look now.
    pub fn add(&self, key: K) {
        self.add_after(key, Duration::ZERO);
    }

    /// Wants a look after some time, or after the longest wait that there is, if nothing wants one earlier.
    pub fn add_after(&self, key: K, delay: Duration) {
        let at = Instant::now() + delay.min(DELAY_MAX);
        let mut due = self.due.lock();
        let entry = due.entry(key).or_insert(at);
        *entry = at.min(*entry);
        drop(due);
        self.added.notify_one();
    }

    /// Waits for the next key that is due.
    pub async fn next(&self) -> K {
        loop {
            let added = self.added.notified();
            let first = {
                let mut due = self.due.lock();
                let first = due
                    .iter()
                    .min_by_key(|(_, at)| **at)
                    .map(|(key, at)| (key.clone(), *at));
                if let Some((key, at)) = &first
                    && *at <= Instant::now()
                {
                    due.remove(key);
                    return key.clone();
                }
                first.map(|(_, at)| at)
            };
            match first {
                Some(at) => tokio::select! {
                    () = added => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => added.await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_look_that_is_wanted_in_ages_comes_within_a_day() {
        let queue = Queue::default();
        queue.add_after("a", Duration::from_secs(i64::MAX.unsigned_abs()));
        queue.add_after("b", Duration::MAX);
        let latest = Instant::now() + DELAY_MAX;
        assert!(queue.due.lock().values().all(|it| *it <= latest));
        queue.add("a");
        assert_eq!(queue.next().await, "a");
    }
}
