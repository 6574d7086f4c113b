//! What has just gone missing, and counts for a moment more: tools replace objects by deleting and making them anew,
//! and a fleet is not emptied for that. A process that starts knows of nothing that went before.

use std::{collections::HashMap, fmt::Debug, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use kube::Resource;
use ocm_reconcile::{Cache, cache::key_of};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

/// The objects of one kind that have just gone. Cloning shares them.
pub struct Lost<K> {
    hold: SignedDuration,
    objects: Arc<Mutex<Objects<K>>>,
}

/// Each with the time until which it counts.
type Objects<K> = HashMap<String, (Arc<K>, Timestamp)>;

impl<K> Clone for Lost<K> {
    fn clone(&self) -> Self {
        Self {
            hold: self.hold,
            objects: self.objects.clone(),
        }
    }
}

impl<K> Lost<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// What goes missing from this cache, for so long after the time that `now` tells.
    pub fn over(cache: &Cache<K>, hold: SignedDuration, now: fn() -> Timestamp) -> Self {
        let lost = Self {
            hold,
            objects: Arc::default(),
        };
        let own = lost.clone();
        cache.listen(move |old, new| own.note(old, new, now()));
        lost
    }

    fn note(&self, old: Option<&Arc<K>>, new: Option<&Arc<K>>, now: Timestamp) {
        let Some(it) = new.or(old) else { return };
        let mut objects = self.objects.lock();
        objects.retain(|_, (_, until)| now < *until);
        match new {
            Some(_) => objects.remove(&key_of(&**it)),
            None => {
                let until = now.checked_add(self.hold).unwrap_or(Timestamp::MAX);
                objects.insert(key_of(&**it), (it.clone(), until))
            }
        };
    }

    /// Those that count now, by name.
    pub fn at(&self, now: Timestamp) -> Vec<(Arc<K>, Timestamp)> {
        let mut objects = self.objects.lock();
        objects.retain(|_, (_, until)| now < *until);
        let mut found: Vec<_> = objects.values().cloned().collect();
        found.sort_by_key(|(it, _)| key_of(&**it));
        found
    }

    /// Those of one namespace that count now, by name.
    pub fn at_in(&self, namespace: &str, now: Timestamp) -> Vec<(Arc<K>, Timestamp)> {
        let mut found = self.at(now);
        found.retain(|(it, _)| it.meta().namespace.as_deref() == Some(namespace));
        found
    }
}

#[cfg(test)]
mod tests {
    use ocm_api::cluster::ManagedClusterSetBinding;
    use serde_json::json;

    use super::*;

    #[test]
    fn deleted_objects_count_for_a_while_unless_they_return() {
        let binding = |name: &str| -> Arc<ManagedClusterSetBinding> {
            let it = json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterSet": name}});
            Arc::new(serde_json::from_value(it).unwrap())
        };
        let lost = Lost::over(&Cache::empty(), SignedDuration::from_secs(5), || Timestamp::UNIX_EPOCH);
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let shown = |seconds: i64| {
            let found = lost.at_in("default", at(seconds));
            found
                .iter()
                .map(|(it, until)| format!("{} {} ", key_of(&**it), until.as_second()))
                .collect::<String>()
        };
        lost.note(Some(&binding("a")), None, at(0));
        lost.note(Some(&binding("b")), None, at(1));
        assert_eq!(shown(2), "default/a 5 default/b 6 ");
        lost.note(None, Some(&binding("a")), at(2));
        assert_eq!(shown(3), "default/b 6 ");
        assert_eq!(shown(6), "");
    }
}
