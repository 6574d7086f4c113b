//! Templates that are used for an add-on other than the one that they name, to be told of once.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ocm_reconcile::Queue;
use parking_lot::Mutex;

/// What was found. Cloning shares it.
#[derive(Clone, Default)]
pub struct NameMismatches {
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

impl NameMismatches {
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

    /// What is new of an add-on: the templates, and the add-ons that they name.
    pub fn news(&self, addon: &str) -> Vec<(String, String)> {
        let found = self.found.lock();
        let of_it = found.news.iter().filter(|it| it.0 == addon);
        of_it
            .filter_map(|key| Some((key.1.clone(), found.known.get(key)?.clone())))
            .collect()
    }

    /// Notes that these were told of, so that they are news no more.
    pub fn were_told(&self, addon: &str, told: &[(String, String)]) {
        let mut found = self.found.lock();
        for (template, named) in told {
            let key = (addon.to_owned(), template.clone());
            if found.known.get(&key) == Some(named) {
                found.news.remove(&key);
            }
        }
    }
}
