//! How many decisions name each cluster, counted as they change rather than when somebody asks.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use kube::ResourceExt;
use ocm_api::{
    cluster::{ManagedCluster, PlacementDecision},
    labels,
};
use ocm_reconcile::Cache;
use parking_lot::RwLock;

/// The count. Cloning shares it.
#[derive(Clone, Default)]
pub struct Load {
    counts: Arc<RwLock<Counts>>,
}

#[derive(Default)]
struct Counts {
    of: HashMap<Arc<str>, u32>,
    /// The same by number, to find those that are named most.
    by_count: BTreeMap<u32, HashSet<Arc<str>>>,
}

impl Counts {
    fn change(&mut self, cluster: &str, by: i64) {
        let (name, before) = match self.of.get_key_value(cluster) {
            Some((name, count)) => (name.clone(), *count),
            None => (Arc::from(cluster), 0),
        };
        let after = u32::try_from(i64::from(before) + by).unwrap_or_default();
        if let Some(of_count) = self.by_count.get_mut(&before) {
            of_count.remove(&name);
            if of_count.is_empty() {
                self.by_count.remove(&before);
            }
        }
        if after == 0 {
            self.of.remove(&name);
        } else {
            self.of.insert(name.clone(), after);
            self.by_count.entry(after).or_default().insert(name);
        }
    }
}

impl Load {
    /// Counts what the cache holds, now and later.
    pub fn over(decisions: &Cache<PlacementDecision>) -> Self {
        let load = Self::default();
        let counts = load.counts.clone();
        decisions.listen(move |old, new| {
            let mut changes: HashMap<&str, i64> = HashMap::new();
            for cluster in new.iter().flat_map(|it| clusters(it)) {
                *changes.entry(cluster).or_default() += 1;
            }
            for cluster in old.iter().flat_map(|it| clusters(it)) {
                *changes.entry(cluster).or_default() -= 1;
            }
            changes.retain(|_, by| *by != 0);
            if !changes.is_empty() {
                let mut counts = counts.write();
                changes.into_iter().for_each(|(cluster, by)| counts.change(cluster, by));
            }
        });
        load
    }

    /// How often others than `own` name each of the clusters, and how often they name the one they name most.
    pub fn besides(&self, own: &[Arc<PlacementDecision>], of: &[Arc<ManagedCluster>]) -> (Vec<u32>, u32) {
        let mut names = of.iter().map(|it| it.metadata.name.as_deref().unwrap_or_default());
        self.of_names(own, &mut names)
    }

    /// [`besides`](Self::besides) for clusters by name.
    pub fn of_names(&self, own: &[Arc<PlacementDecision>], names: &mut dyn Iterator<Item = &str>) -> (Vec<u32>, u32) {
        let mut own_counts: HashMap<&str, u32> = HashMap::new();
        for cluster in own.iter().flat_map(|it| clusters(it)) {
            *own_counts.entry(cluster).or_default() += 1;
        }
        let counts = self.counts.read();
        let others =
            |cluster: &str, count: u32| count.saturating_sub(own_counts.get(cluster).copied().unwrap_or_default());
        let each = names
            .map(|it| others(it, counts.of.get(it).copied().unwrap_or_default()))
            .collect();
        let mut most = 0;
        // Those that all name most come first; where our own are not among them, that is the answer.
        for (count, clusters) in counts.by_count.iter().rev().take_while(|(count, _)| **count > 0) {
            if *count <= most {
                break;
            }
            for it in clusters {
                most = most.max(others(it, *count));
                if most == *count {
                    break;
                }
            }
        }
        (each, most)
    }
}

/// The clusters that a decision names.
pub fn clusters(decision: &PlacementDecision) -> impl Iterator<Item = &str> {
    let decisions = decision.status.iter().flat_map(|it| &it.decisions);
    decisions.map(|it| it.cluster_name.as_str()).filter(|it| !it.is_empty())
}

/// Whether the decision is one of this placement's.
pub fn belongs_to(decision: &PlacementDecision, placement: &str) -> bool {
    decision.labels().get(labels::PLACEMENT).map(String::as_str) == Some(placement)
}

/// The clusters that these decisions name.
pub fn all_clusters(decisions: &[Arc<PlacementDecision>]) -> BTreeSet<String> {
    decisions
        .iter()
        .flat_map(|it| clusters(it))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decision(name: &str, clusters: &[&str]) -> PlacementDecision {
        let decisions: Vec<_> = clusters
            .iter()
            .map(|it| json!({"clusterName": it, "reason": ""}))
            .collect();
        let it = json!({"metadata": {"name": name, "namespace": "default"}, "status": {"decisions": decisions}});
        serde_json::from_value(it).unwrap()
    }

    #[test]
    fn what_others_have_is_counted_as_it_changes() {
        let cache = Cache::holding([decision("a", &["c1", "c2"]), decision("b", &["c1"])]);
        let load = Load::over(&cache);
        let ask = |own: &str| {
            let own: Vec<_> = cache.get("default", own).into_iter().collect();
            load.of_names(&own, &mut ["c1", "c2", "c3"].into_iter())
        };
        assert_eq!(ask("none"), (vec![2, 1, 0], 2));
        assert_eq!(ask("a"), (vec![1, 0, 0], 1));
        assert_eq!(ask("b"), (vec![1, 1, 0], 1));
        cache.put(decision("b", &["c3", "c2"]));
        assert_eq!(ask("none"), (vec![1, 2, 1], 2));
        assert_eq!(ask("a"), (vec![0, 1, 1], 1));
        cache.put(decision("a", &[]));
        cache.put(decision("b", &[]));
        assert_eq!(ask("none"), (vec![0, 0, 0], 0));
    }
}
