//! What of a process does not work, or not yet, and what it waits for: for its log, and for `/readyz?verbose`.
//!
//! A controller begins when the caches that it reads have arrived. Where a kind is missing, because a part of a hub
//! runs alone or an upgrade is under way, only those wait that read it. As with [`metrics`](crate::metrics)
//! one process says all of it in one place.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    hash::Hash,
    sync::atomic::{AtomicU64, Ordering},
};

use kube::Resource;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::Cache;

static SAID: Mutex<BTreeMap<(&'static str, u64), String>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Something that is said until it is dropped.
pub struct Said {
    key: (&'static str, u64),
}

impl Said {
    fn change(&self, text: String) {
        SAID.lock().insert(self.key, text);
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        SAID.lock().remove(&self.key);
    }
}

/// Says of a part of this process why it does not work, as long as the answer is kept.
pub fn say(who: &'static str, why: impl Into<String>) -> Said {
    let said = Said {
        key: (who, NEXT.fetch_add(1, Ordering::Relaxed)),
    };
    said.change(why.into());
    said
}

/// Everything that is said now: a part of this process, and why it does not work.
pub fn all() -> Vec<(&'static str, String)> {
    let said = SAID.lock();
    let mut all: Vec<_> = said.iter().map(|((who, _), why)| (*who, why.clone())).collect();
    // Several hubs of one process may wait for the same.
    all.dedup();
    all
}

/// A kind that somebody reads.
pub struct Need {
    kind: String,
    standing: Box<dyn Fn() -> Standing + Send + Sync>,
    is_there: watch::Receiver<bool>,
    changes: watch::Receiver<u64>,
}

enum Standing {
    There,
    Missing(Option<String>),
}

impl Need {
    /// Of all objects of this cache.
    pub fn of<K>(cache: &Cache<K>) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        Self::with(cache, false)
    }

    /// Of those objects of this cache that we may look at: being forbidden to is an answer, too.
    pub fn if_allowed<K>(cache: &Cache<K>) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        Self::with(cache, true)
    }

    fn with<K>(cache: &Cache<K>, forbidden_is_an_answer: bool) -> Self
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        let of = cache.clone();
        let standing = move || match of.failure() {
            _ if of.is_synced() => Standing::There,
            Some(failure) if forbidden_is_an_answer && failure.code == Some(403) => Standing::There,
            failure => Standing::Missing(failure.map(|it| it.text)),
        };
        Self {
            kind: K::kind(&K::DynamicType::default()).into_owned(),
            standing: Box::new(standing),
            is_there: cache.arrival(),
            changes: cache.changes(),
        }
    }

    /// Why it is missing, if it is; from here on [`moved`](Self::moved) tells of every change.
    fn missing(&mut self) -> Option<Option<String>> {
        self.is_there.borrow_and_update();
        self.changes.borrow_and_update();
        match (self.standing)() {
            Standing::There => None,
            Standing::Missing(why) => Some(why),
        }
    }

    async fn moved(&mut self) {
        tokio::select! {
            _ = self.is_there.changed() => {}
            _ = self.changes.changed() => {}
        }
    }
}

/// Ends when all of these have arrived; until then it is said for whom they are waited for.
pub async fn arrived(who: &'static str, mut needs: Vec<Need>) {
    let mut said: Option<Said> = None;
    let mut logged = Vec::new();
    loop {
        let (mut kinds, mut refused, mut reason, mut first) = (Vec::new(), Vec::new(), None, None);
        for (position, need) in needs.iter_mut().enumerate() {
            let Some(why) = need.missing() else { continue };
            kinds.push(need.kind.clone());
            // A server that has not answered yet is nothing to speak of.
            if why.is_some() {
                refused.push(need.kind.clone());
            }
            reason = reason.or(why);
            first = first.or(Some(position));
        }
        let Some(first) = first else { break };
        for all in [&mut kinds, &mut refused] {
            all.sort_unstable();
            all.dedup();
        }
        // Why is for the log: `/readyz` is answered to anybody.
        let text = format!("waits for {}", kinds.join(", "));
        match &said {
            Some(said) => said.change(text),
            None => said = Some(say(who, text)),
        }
        if reason.is_some() && logged != refused {
            let names = refused.join(", ");
            warn!(controller = who, kinds = %names, reason, "waits for kinds that the API server does not show");
            logged = refused;
        }
        needs[first].moved().await;
    }
    if !logged.is_empty() {
        info!(controller = who, "begins: the kinds that it waited for are there");
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};

    use super::*;

    fn of(who: &str) -> Vec<String> {
        let all = all().into_iter().filter(|(it, _)| *it == who);
        all.map(|(_, why)| why).collect()
    }

    #[tokio::test]
    async fn who_waits_says_for_which_kinds_until_they_are_there() {
        let (there, missing) = (Cache::holding([ConfigMap::default()]), Cache::<Secret>::empty());
        let mut waiting = Box::pin(arrived("awaited-test", vec![Need::of(&there), Need::of(&missing)]));
        assert!(futures::poll!(&mut waiting).is_pending());
        assert_eq!(of("awaited-test"), ["waits for Secret"]);
        missing.fill(Vec::new());
        waiting.await;
        assert!(of("awaited-test").is_empty());
    }

    #[test]
    fn a_reported_wait_ends_when_it_is_dropped() {
        let said = say("said-test", "is not there");
        assert_eq!(of("said-test"), ["is not there"]);
        drop(said);
        assert!(of("said-test").is_empty());
    }
}
