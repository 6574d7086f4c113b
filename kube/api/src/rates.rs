//! How fast one client writes what is written often and read by many: status and Events, by namespace.

use crate::{limits::Limits, party::Party};
use kube_store::status::Status;
use parking_lot::Mutex;
use serde_json::json;
use std::{collections::HashMap, sync::Arc, time::Instant};

/// So many at once, and then so many a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    pub burst: usize,
    pub per_second: usize,
}

impl Rate {
    /// What there is of it a while later.
    fn after(self, left: f64, seconds: f64) -> f64 {
        (left + seconds * self.per_second as f64).min(self.burst as f64)
    }

    /// Seconds until there is so much of it.
    fn wait(self, left: f64, wanted: f64) -> f64 {
        (wanted - left) / (self.per_second as f64).max(1e-3)
    }
}

/// What is left of the rates of one client in one namespace.
struct Bucket {
    writes: f64,
    bytes: f64,
    at: Instant,
}

/// Buckets that are kept until those that are full again are forgotten.
const BUCKETS_MAX: usize = 8192;

/// The rates of one server.
pub struct Rates {
    limits: Limits,
    buckets: Mutex<HashMap<(Arc<str>, Box<str>), Bucket>>,
}

/// A 429 that says when to come again.
pub fn too_many(message: impl Into<String>, seconds: u32) -> Status {
    Status {
        retry_after_seconds: Some(seconds),
        details: Some(Box::new(json!({"retryAfterSeconds": seconds}))),
        ..Status::new(429, "TooManyRequests", message)
    }
}

impl Rates {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            buckets: Mutex::default(),
        }
    }

    /// Takes one write out of what a client has in a namespace (empty for objects that are in none). What it weighs is
    /// known when it is decided, and [charged](Self::charge) then.
    ///
    /// # Errors
    /// In how many seconds there is enough again.
    pub fn take(&self, party: &Party, namespace: &str, now: Instant) -> Result<(), u32> {
        let mut buckets = self.buckets.lock();
        if buckets.len() >= BUCKETS_MAX {
            // One that is full again is as good as a new one.
            let (writes, bytes) = (self.limits.status_writes, self.limits.status_bytes);
            buckets.retain(|_, it| {
                self.refill(it, now);
                it.writes < writes.burst as f64 || it.bytes < bytes.burst as f64
            });
        }
        let bucket = buckets
            .entry((party.client.clone(), namespace.into()))
            .or_insert(Bucket {
                writes: self.limits.status_writes.burst as f64,
                bytes: self.limits.status_bytes.burst as f64,
                at: now,
            });
        self.refill(bucket, now);
        let one = self.part_of(party);
        let wait = self.limits.status_writes.wait(bucket.writes, one);
        let wait = wait.max(self.limits.status_bytes.wait(bucket.bytes, 0.0));
        if wait > 0.0 {
            return Err((wait.ceil() as u32).max(1));
        }
        bucket.writes -= one;
        Ok(())
    }

    /// Takes the bytes of a write that was decided.
    pub fn charge(&self, party: &Party, namespace: &str, bytes: usize) {
        let key = (party.client.clone(), namespace.into());
        if let Some(bucket) = self.buckets.lock().get_mut(&key) {
            bucket.bytes -= bytes as f64 * self.part_of(party);
        }
    }

    /// What counts of one write: of an identity that many clients may share only a part.
    fn part_of(&self, party: &Party) -> f64 {
        match party.is_shared {
            true => 1.0 / self.limits.shared_times.max(1) as f64,
            false => 1.0,
        }
    }

    fn refill(&self, bucket: &mut Bucket, now: Instant) {
        let seconds = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket.writes = self.limits.status_writes.after(bucket.writes, seconds);
        bucket.bytes = self.limits.status_bytes.after(bucket.bytes, seconds);
        bucket.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_has_written_much_waits_and_others_do_not() {
        let rates = Rates::new(Limits {
            status_writes: Rate {
                burst: 2,
                per_second: 1,
            },
            status_bytes: Rate {
                burst: 100,
                per_second: 10,
            },
            ..Limits::default()
        });
        let (a, b) = (Party::new("a", "a1"), Party::new("b", "b"));
        let again = Party::new("a", "a2");
        let now = Instant::now();
        let later = |seconds| now + Duration::from_secs(seconds);
        assert_eq!(rates.take(&a, "n", now), Ok(()));
        assert_eq!(rates.take(&again, "n", now), Ok(()));
        assert_eq!(rates.take(&a, "n", now), Err(1), "two writes at once");
        assert_eq!(rates.take(&a, "other", now), Ok(()));
        assert_eq!(rates.take(&b, "n", now), Ok(()));
        rates.charge(&a, "n", 150);
        assert_eq!(rates.take(&a, "n", later(2)), Err(3), "bytes count as well");
        assert_eq!(rates.take(&a, "n", later(5)), Ok(()));
    }
}
