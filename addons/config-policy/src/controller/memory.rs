//! What a controller knows of a policy from its runs before: objects that have not changed since are not compared
//! again, and a policy that somebody always undoes waits longer.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::cluster::Judged;

/// So often a policy is evaluated at once, before it has to wait for the back-off.
const BURST: u32 = 10;

/// What is known of one policy.
#[derive(Default)]
pub struct PolicyMemory {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    uid: String,
    generation: i64,
    /// What was found in this run, and in the one before.
    objects: HashMap<String, (String, Judged)>,
    objects_before: HashMap<String, (String, Judged)>,
    namespaces: Option<Vec<String>>,
    /// The resourceVersion of the policy as it was written last.
    written: Option<String>,
    tokens: Option<(Instant, f64)>,
    /// Runs one after the other that had to write.
    corrections: u32,
}

impl PolicyMemory {
    /// A run begins: what concerns another policy of that name, or another generation, is forgotten.
    pub fn begin(&self, uid: &str, generation: i64) {
        let mut known = self.known.lock();
        if known.uid != uid {
            *known = Known {
                uid: uid.to_owned(),
                tokens: known.tokens,
                ..Known::default()
            };
        }
        if known.generation != generation {
            known.generation = generation;
            known.objects.clear();
            known.corrections = 0;
        }
        // What nobody has asked for in a whole run is forgotten.
        known.objects_before = std::mem::take(&mut known.objects);
    }

    /// What was found of an object, if it is still the same.
    pub fn judged(&self, object: &str, resource_version: &str) -> Option<Judged> {
        let mut known = self.known.lock();
        let (version, judged) = match known.objects.get(object) {
            Some(found) => found.clone(),
            None => known.objects_before.remove(object)?,
        };
        if version.is_empty() || version != resource_version {
            return None;
        }
        let kept = (version, judged.clone());
        known.objects.insert(object.to_owned(), kept);
        Some(judged)
    }

    /// Keeps what was found of an object.
    pub fn keep(&self, object: &str, resource_version: &str, judged: Judged) {
        let kept = (resource_version.to_owned(), judged);
        self.known.lock().objects.insert(object.to_owned(), kept);
    }

    /// Whether the selected namespaces are others than the last time.
    pub fn selects_others(&self, namespaces: &[String]) -> bool {
        self.known.lock().namespaces.as_deref() != Some(namespaces)
    }

    /// Keeps the selected namespaces.
    pub fn keep_namespaces(&self, namespaces: Vec<String>) {
        self.known.lock().namespaces = Some(namespaces);
    }

    /// Keeps the resourceVersion of the policy as it was written.
    pub fn wrote(&self, resource_version: Option<String>) {
        self.known.lock().written = resource_version;
    }

    /// Whether a policy is older than what was written. Versions of one object are in order.
    pub fn is_stale(&self, resource_version: Option<&str>) -> bool {
        let number = |it: &str| it.parse::<u64>().ok();
        let written = self.known.lock().written.as_deref().and_then(number);
        matches!((written, resource_version.and_then(number)), (Some(written), Some(seen)) if written > seen)
    }

    /// Takes leave to evaluate; how long to wait where there is none. One comes back after each `back_off`.
    pub fn admit(&self, now: Instant, back_off: Duration) -> Result<(), Duration> {
        let mut known = self.known.lock();
        let burst = f64::from(BURST);
        let per_second = 1.0 / back_off.as_secs_f64().max(f64::MIN_POSITIVE);
        let (at, tokens) = known.tokens.unwrap_or((now, burst));
        let tokens = (tokens + now.saturating_duration_since(at).as_secs_f64() * per_second).min(burst);
        if tokens < 1.0 {
            known.tokens = Some((now, tokens));
            return Err(back_off.mul_f64(1.0 - tokens).max(Duration::from_millis(1)));
        }
        known.tokens = Some((now, tokens - 1.0));
        Ok(())
    }

    /// Counts runs that had to write; `true` when it is time to say that somebody always undoes it.
    pub fn corrected(&self, writes: usize) -> bool {
        let mut known = self.known.lock();
        if writes == 0 {
            return false;
        }
        known.corrections += 1;
        let exhausted = known.tokens.is_some_and(|(_, tokens)| tokens < 1.0);
        exhausted && known.corrections >= BURST / 2
    }

    /// Nobody has undone anything for long.
    pub fn is_calm(&self, now: Instant) {
        let mut known = self.known.lock();
        if known
            .tokens
            .is_none_or(|(at, _)| now.saturating_duration_since(at) > Duration::from_secs(60))
        {
            known.corrections = 0;
        }
    }
}

/// What is known of all policies, by key. Cloning shares it.
#[derive(Clone, Default)]
pub struct PolicyMemories {
    all: Arc<Mutex<HashMap<String, Arc<PolicyMemory>>>>,
}

impl PolicyMemories {
    /// Of one policy.
    pub fn of(&self, key: &str) -> Arc<PolicyMemory> {
        self.all.lock().entry(key.to_owned()).or_default().clone()
    }

    /// Forgets a policy that is gone.
    pub fn forget(&self, key: &str) {
        self.all.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_evaluated_often_at_first_and_then_slowly() {
        let (memory, begun) = (PolicyMemory::default(), Instant::now());
        let back_off = Duration::from_secs(5);
        for _ in 0..BURST {
            assert_eq!(memory.admit(begun, back_off), Ok(()));
        }
        assert_eq!(memory.admit(begun, back_off), Err(back_off));
        assert_eq!(memory.admit(begun + Duration::from_secs(5), back_off), Ok(()));
        assert!(memory.admit(begun + Duration::from_secs(6), back_off).is_err());
    }

    #[test]
    fn only_objects_that_have_not_changed_are_remembered() {
        let memory = PolicyMemory::default();
        memory.begin("p", 1);
        memory.keep("u", "7", Judged::default());
        assert!(memory.judged("u", "7").is_some() && memory.judged("u", "8").is_none());
        memory.begin("p", 1);
        assert!(memory.judged("u", "7").is_some());
        memory.begin("p", 1);
        memory.begin("p", 1);
        assert!(memory.judged("u", "7").is_none(), "nobody has asked for it");
        memory.keep("u", "7", Judged::default());
        memory.begin("p", 2);
        assert!(memory.judged("u", "7").is_none());
    }

    #[test]
    fn an_older_policy_than_was_written_is_stale() {
        let memory = PolicyMemory::default();
        memory.wrote(Some("10".to_owned()));
        assert!(memory.is_stale(Some("9")) && !memory.is_stale(Some("10")) && !memory.is_stale(Some("x")));
    }
}
