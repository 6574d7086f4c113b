//! Who depends on whom, by uid.
//!
//! Only objects that name an owner are in it, and of those only their key: whether an owner still exists is asked of
//! the store, which holds every object anyway.

use crate::controllers::queue::Key;
use std::collections::{BTreeSet, HashMap};

#[derive(Default)]
struct Owner {
    dependents: BTreeSet<Key>,
    /// The owner was seen to be deleted. Kept while it has dependents: its kind may be gone by then as well, and an
    /// owner of unknown kind would otherwise count as alive.
    gone: bool,
}

/// Owner uids, the objects that name them, and the owners that wait for their dependents.
#[derive(Default)]
pub(super) struct Graph {
    owners: HashMap<Box<str>, Owner>,
    waiting: HashMap<Box<str>, Key>,
}

impl Graph {
    /// `dependent` names `owners`.
    pub fn link(&mut self, dependent: &Key, owners: &[Box<str>]) {
        for uid in owners {
            self.owners
                .entry(uid.clone())
                .or_default()
                .dependents
                .insert(dependent.clone());
        }
    }

    /// `dependent` no longer names `owners`.
    pub fn unlink(&mut self, dependent: &Key, owners: &[Box<str>]) {
        for uid in owners {
            let Some(owner) = self.owners.get_mut(uid) else {
                continue;
            };
            owner.dependents.remove(dependent);
            if owner.dependents.is_empty() {
                self.owners.remove(uid);
            }
        }
    }

    /// The objects that name `uid` as owner.
    pub fn dependents(&self, uid: &str) -> Vec<Key> {
        self.owners
            .get(uid)
            .map(|it| it.dependents.iter().cloned().collect())
            .unwrap_or_default()
    }

    /// The object `uid` was deleted; returns those that named it.
    pub fn deleted(&mut self, uid: &str) -> Vec<Key> {
        self.waiting.remove(uid);
        let Some(owner) = self.owners.get_mut(uid) else {
            return Vec::new();
        };
        owner.gone = true;
        owner.dependents.iter().cloned().collect()
    }

    /// Whether `uid` was seen to be deleted.
    pub fn is_gone(&self, uid: &str) -> bool {
        self.owners.get(uid).is_some_and(|it| it.gone)
    }

    /// The object `uid` is deleted in the foreground: it wants to know when its dependents change.
    pub fn wait(&mut self, uid: &str, key: &Key) {
        self.waiting.insert(uid.into(), key.clone());
    }

    /// Those of `owners` that wait for their dependents.
    pub fn waiting<'a>(
        &'a self,
        owners: impl Iterator<Item = &'a Box<str>> + 'a,
    ) -> impl Iterator<Item = &'a Key> + 'a {
        owners.filter_map(|uid| self.waiting.get(uid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_forgotten_with_its_last_dependent() {
        let mut graph = Graph::default();
        let (a, b) = (Key::cluster("widgets", "a"), Key::cluster("widgets", "b"));
        graph.link(&a, &["u".into()]);
        graph.link(&b, &["u".into(), "v".into()]);
        assert_eq!(graph.deleted("u"), [a.clone(), b.clone()]);
        assert!(graph.is_gone("u") && !graph.is_gone("v"));
        graph.unlink(&a, &["u".into()]);
        graph.unlink(&b, &["u".into(), "v".into()]);
        assert!(graph.owners.is_empty());
    }

    #[test]
    fn a_dependent_finds_its_waiting_owner_by_uid() {
        let mut graph = Graph::default();
        let owner = Key::cluster("widgets", "owner");
        graph.wait("u", &owner);
        let named: [Box<str>; 2] = ["x".into(), "u".into()];
        assert_eq!(graph.waiting(named.iter()).collect::<Vec<_>>(), [&owner]);
        graph.deleted("u");
        assert_eq!(graph.waiting(named.iter()).count(), 0);
    }
}
