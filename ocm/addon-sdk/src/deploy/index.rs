//! The works of each add-on on each cluster, found without looking at any other work.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use ocm_api::work::ManifestWork;
use ocm_reconcile::Cache;
use parking_lot::RwLock;

use super::names;

type Key = (String, String);

/// Which works each add-on has. Cloning shares it.
#[derive(Clone)]
pub struct WorkIndex {
    works: Cache<ManifestWork>,
    known: Arc<RwLock<HashMap<Key, BTreeSet<Key>>>>,
}

impl WorkIndex {
    /// An index of what is in this cache, kept with it. Make it before subscribing to the cache, so that it is told first.
    pub fn over(works: &Cache<ManifestWork>) -> Self {
        let index = Self {
            works: works.clone(),
            known: Arc::default(),
        };
        let known = index.known.clone();
        works.listen(move |old, new| {
            let (before, after) = (old.and_then(|it| entry(it)), new.and_then(|it| entry(it)));
            if before == after {
                return;
            }
            let mut known = known.write();
            if let Some((of, work)) = before
                && let Some(works) = known.get_mut(&of)
            {
                works.remove(&work);
                if works.is_empty() {
                    known.remove(&of);
                }
            }
            if let Some((of, work)) = after {
                known.entry(of).or_default().insert(work);
            }
        });
        index
    }

    /// The works of an add-on for a cluster, wherever they are, by namespace and name.
    pub fn of(&self, cluster: &str, addon: &str) -> Vec<Arc<ManifestWork>> {
        let known = self.known.read();
        let works = known.get(&(cluster.to_owned(), addon.to_owned()));
        works
            .into_iter()
            .flatten()
            .filter_map(|(namespace, name)| self.works.get(namespace, name))
            .collect()
    }
}

// The add-on and cluster that a work is for, and the work's own name.
fn entry(work: &ManifestWork) -> Option<(Key, Key)> {
    let names = names::belongs_to(work)?;
    names.part(work.metadata.name.as_deref()?)?;
    let name = |it: &Option<String>| it.clone().unwrap_or_default();
    Some((
        (names.cluster.to_owned(), names.addon.to_owned()),
        (name(&work.metadata.namespace), name(&work.metadata.name)),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(namespace: &str, name: &str, labels: &serde_json::Value) -> ManifestWork {
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}})).unwrap()
    }

    fn found(index: &WorkIndex, cluster: &str, addon: &str) -> Vec<String> {
        let name = |it: &Arc<ManifestWork>| {
            format!(
                "{}/{}",
                it.metadata.namespace.as_deref().unwrap_or_default(),
                it.metadata.name.as_deref().unwrap_or_default()
            )
        };
        index.of(cluster, addon).iter().map(name).collect()
    }

    #[test]
    fn an_add_on_finds_its_works_on_its_cluster_and_on_the_hosting_one_and_no_others() {
        let a = json!({"open-cluster-management.io/addon-name": "a"});
        let hosted = json!({
            "open-cluster-management.io/addon-name": "a", "open-cluster-management.io/addon-namespace": "cluster1"
        });
        let works = Cache::holding([
            work("cluster1", "addon-a-deploy-0", &a),
            work("cluster10", "addon-a-deploy-0", &a),
            work("hosting", "addon-a-deploy-hosting-cluster1-0", &hosted),
            work("cluster1", "addon-a-deploy-1", &json!({})),
            work("cluster1", "made-by-hand", &a),
        ]);
        let index = WorkIndex::over(&works);
        assert_eq!(
            found(&index, "cluster1", "a"),
            ["cluster1/addon-a-deploy-0", "hosting/addon-a-deploy-hosting-cluster1-0"]
        );
        assert_eq!(found(&index, "cluster10", "a"), ["cluster10/addon-a-deploy-0"]);
        works.put(work("cluster1", "addon-a-deploy-2", &a));
        works.put(work("cluster1", "addon-a-deploy-0", &json!({})));
        assert_eq!(
            found(&index, "cluster1", "a"),
            ["cluster1/addon-a-deploy-2", "hosting/addon-a-deploy-hosting-cluster1-0"]
        );
    }
}
