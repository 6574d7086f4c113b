//! How often it is said how far the works of a ManifestWorkReplicaSet are.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The shortest time between two reports on one set. Watchers of a set see a moving number; a thousand writes of it
/// would show them nothing more.
const PACE: Duration = Duration::from_millis(100);

/// When each set was last reported on.
#[derive(Default)]
pub struct Pace {
    last: Mutex<HashMap<String, Instant>>,
}

impl Pace {
    /// How long to hold the next report back.
    pub fn hold(&self, key: &str, now: Instant) -> Duration {
        let last = self.last.lock().get(key).copied();
        last.map_or(Duration::ZERO, |it| {
            PACE.saturating_sub(now.saturating_duration_since(it))
        })
    }

    /// There has just been one.
    pub fn reported(&self, key: &str, now: Instant) {
        self.last.lock().insert(key.to_owned(), now);
    }

    /// The set is gone.
    pub fn forget(&self, key: &str) {
        self.last.lock().remove(key);
    }
}
