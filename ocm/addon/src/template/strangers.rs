//! Templates that are used for an add-on other than the one that they name, to be told of once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ocm_reconcile::Queue;
use parking_lot::Mutex;

/// What was found. Cloning shares it.
#[derive(Clone, Default)]
pub struct Strangers {
    found: Arc<Mutex<Found>>,
}

#[derive(Default)]
struct Found {
    /// By add-on and template, the add-on that the template names.
    known: BTreeMap<(String, String), String>,
    /// What of it was not told yet.
    news: BTreeSet<(String, String)>,
    queues: Vec<Queue>,
}

impl Strangers {
    /// Notes that this template, which names the add-on `named`, is used for `addon`.
    pub fn note(&self, addon: &str, template: &str, named: &str) {
        let mut found = self.found.lock();
        let key = (addon.to_owned(), template.to_owned());
        if found.known.get(&key).is_some_and(|it| it == named) {
            return;
        }
        found.known.insert(key.clone(), named.to_owned());
        found.news.insert(key);
        found.queues.iter().for_each(|it| it.add(addon));
    }

    /// Notes that this template names the add-on that it is used for.
    pub fn forget(&self, addon: &str, template: &str) {
        let mut found = self.found.lock();
        if found.known.is_empty() {
            return;
        }
        let key = (addon.to_owned(), template.to_owned());
        found.known.remove(&key);
        found.news.remove(&key);
    }

    /// Adds to `queue` the name of every add-on of which there is something new.
    pub fn subscribe(&self, queue: &Queue) {
        let mut found = self.found.lock();
        found.news.iter().for_each(|(addon, _)| queue.add(addon));
        found.queues.push(queue.clone());
    }

    /// What is new of an add-on, each once: the templates, and the add-ons that they name.
    pub fn take(&self, addon: &str) -> Vec<(String, String)> {
        let mut found = self.found.lock();
        let of_it: Vec<_> = found.news.iter().filter(|it| it.0 == addon).cloned().collect();
        of_it
            .into_iter()
            .filter_map(|key| {
                found.news.remove(&key);
                let named = found.known.get(&key)?.clone();
                Some((key.1, named))
            })
            .collect()
    }
}
