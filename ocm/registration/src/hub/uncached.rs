//! What is not in a cache is mostly not there, and is made without asking: for a cluster that comes that is a handful
//! of requests less. Where something was there after all, because it lacks our label or the watch has not brought it
//! yet, the API is asked from then on: at once, in the same run, and in each later one.

use std::{collections::BTreeSet, time::Duration};

pub use ocm_reconcile::caches::put_written;
use ocm_reconcile::{Done, Outcome};
use parking_lot::Mutex;

/// How long to wait where somebody makes objects while they are made here.
pub const EXISTS_AGAIN: Duration = Duration::from_secs(1);

/// The keys of which something exists that the caches do not show.
#[derive(Default)]
pub struct Uncached {
    keys: Mutex<BTreeSet<String>>,
}

/// Whether something was there already that was to be created.
pub fn already_exists(outcome: &Outcome) -> bool {
    let mut results = outcome.stages.iter().flatten();
    results.any(|it| matches!(it, Ok(Done::AlreadyExists)))
}

/// Whether a run that took the caches' word (`asked_api` is false) has to look again, and at the API.
pub fn is_found_out(asked_api: bool, outcome: &Outcome) -> bool {
    !asked_api && outcome.succeeded() && already_exists(outcome)
}

impl Uncached {
    /// Whether the API is to be asked.
    pub fn has(&self, key: &str) -> bool {
        self.keys.lock().contains(key)
    }

    /// Keeps in memory what became of a plan for a key, and forgets a key whose root is gone.
    pub fn remember(&self, key: &str, root_exists: bool, outcome: &Outcome) {
        if !root_exists {
            self.keys.lock().remove(key);
        } else if already_exists(outcome) {
            self.keys.lock().insert(key.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met() -> Outcome {
        let mut met = Outcome::default();
        met.stages.push(vec![Ok(Done::AlreadyExists)]);
        met
    }

    #[test]
    fn a_run_is_repeated_only_after_it_finds_existing_objects() {
        assert!(is_found_out(false, &met()));
        assert!(!is_found_out(true, &met()));
        assert!(!is_found_out(false, &Outcome::default()));
        let mut failed = met();
        failed.skipped = 1;
        assert!(!is_found_out(false, &failed));
    }

    #[test]
    fn a_key_is_remembered_until_its_root_is_gone() {
        let uncached = Uncached::default();
        uncached.remember("a", true, &met());
        uncached.remember("a", true, &Outcome::default());
        assert!(uncached.has("a") && !uncached.has("b"));
        uncached.remember("a", false, &Outcome::default());
        assert!(!uncached.has("a"));
    }
}
