//! What the last pass over an add-on wrote, for the next one to see though the watch has not told yet.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use ocm_api::addon::v1alpha1::ManagedClusterAddOn;
use ocm_reconcile::{Outcome, Site};
use parking_lot::Mutex;

use crate::hub::facts;

/// What was written, by the name of the add-on.
#[derive(Default)]
pub struct LastPass(Mutex<HashMap<String, WrittenAddOns>>);

/// By cluster.
pub type WrittenAddOns = BTreeMap<String, Arc<ManagedClusterAddOn>>;

impl LastPass {
    /// Puts what was written in the place of what the watch has not told yet.
    pub fn catch_up(&self, name: &str, addons: &mut [Arc<ManagedClusterAddOn>]) {
        if let Some(written) = self.0.lock().get(name) {
            catch_up(addons, written);
        }
    }

    /// Remembers what a pass wrote, and of what was written before only what the watch has not told yet.
    pub fn remember(&self, name: &str, seen: &[Arc<ManagedClusterAddOn>], outcome: &Outcome) {
        let mut all = self.0.lock();
        let before = all.remove(name).unwrap_or_default();
        let written = seen.iter().filter_map(|addon| {
            let cluster = facts::cluster(addon);
            let now = outcome.latest::<ManagedClusterAddOn>(Site::Hub, Some(cluster), name);
            let earlier = || before.get(cluster).filter(|it| Arc::ptr_eq(it, addon)).cloned();
            Some((cluster.to_owned(), now.map(Arc::new).or_else(earlier)?))
        });
        let written: WrittenAddOns = written.collect();
        if !written.is_empty() {
            all.insert(name.to_owned(), written);
        }
    }
}

fn catch_up(addons: &mut [Arc<ManagedClusterAddOn>], written: &WrittenAddOns) {
    for addon in addons {
        if let Some(mine) = written.get(facts::cluster(addon))
            && addon.metadata.uid == mine.metadata.uid
            && version(addon) < version(mine)
        {
            *addon = mine.clone();
        }
    }
}

fn version(addon: &ManagedClusterAddOn) -> Option<u64> {
    addon.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn addon(cluster: &str, version: &str) -> Arc<ManagedClusterAddOn> {
        let metadata = json!({"name": "a", "namespace": cluster, "uid": cluster, "resourceVersion": version});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap())
    }

    #[test]
    fn a_reconcile_sees_earlier_writes_before_the_watch_does() {
        let mine = addon("c1", "5");
        let written: WrittenAddOns = [("c1".to_owned(), mine.clone()), ("c9".to_owned(), addon("c9", "5"))].into();
        let last = LastPass(Mutex::new([("a".to_owned(), written)].into()));
        let mut addons = [addon("c1", "4"), addon("c2", "9")];
        last.catch_up("a", &mut addons);
        assert_eq!(addons[0], mine);
        // The one on c9 was deleted since.
        last.remember("a", &addons, &Outcome::default());
        assert_eq!(last.0.lock()["a"].keys().collect::<Vec<_>>(), ["c1"]);
        let told = addon("c1", "6");
        let mut addons = [told.clone()];
        last.catch_up("a", &mut addons);
        assert_eq!(addons[0], told);
        last.remember("a", &addons, &Outcome::default());
        assert!(last.0.lock().is_empty());
    }
}
