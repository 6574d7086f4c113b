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
    fn change(&mut self, cluster: &str, by: i64) -> (Arc<str>, u32) {
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
            self.by_count.entry(after).or_default().insert(name.clone());
        }
        (name, after)
    }
}

impl Load {
    /// Counts what the cache holds, now and later.
    pub fn over(decisions: &Cache<PlacementDecision>) -> Self {
        let load = Self::default();
        let counting = load.clone();
        decisions.listen(move |old, new| {
            counting.count(old.map(|it| &**it), new.map(|it| &**it));
        });
        load
    }

    /// Counts a decision that changes; returns the clusters whose number is another now.
    pub fn count(&self, old: Option<&PlacementDecision>, new: Option<&PlacementDecision>) -> Vec<(Arc<str>, u32)> {
        let mut changes: HashMap<&str, i64> = HashMap::new();
        for cluster in new.into_iter().flat_map(clusters) {
            *changes.entry(cluster).or_default() += 1;
        }
        for cluster in old.into_iter().flat_map(clusters) {
            *changes.entry(cluster).or_default() -= 1;
        }
        changes.retain(|_, by| *by != 0);
        if changes.is_empty() {
            return Vec::new();
        }
        let mut counts = self.counts.write();
        changes
            .into_iter()
            .map(|(cluster, by)| counts.change(cluster, by))
            .collect()
    }

    /// How many decisions name a cluster.
    pub fn of(&self, cluster: &str) -> u32 {
        self.counts.read().of.get(cluster).copied().unwrap_or_default()
    }

    /// How often others than `own` name each of the clusters, and how often they name the one they name most.
    pub fn besides(&self, own: &[Arc<PlacementDecision>], of: &[Arc<ManagedCluster>]) -> (Vec<u32>, u32) {
        let own = counted(own);
        let counts = self.counts.read();
        let each = of.iter().map(|it| {
            let name = it.metadata.name.as_deref().unwrap_or_default();
            others(&own, name, counts.of.get(name).copied().unwrap_or_default())
        });
        let each = each.collect();
        drop(counts);
        (each, self.most_besides(&own))
    }

    /// How often others name the cluster they name most; `own` are the names that do not count.
    pub fn most_besides(&self, own: &BTreeMap<&str, u32>) -> u32 {
        let mut most = 0;
        // Those that all name most come first; where our own are not among them, that is the answer.
        for (count, clusters) in self.counts.read().by_count.iter().rev() {
            if *count <= most {
                break;
            }
            for it in clusters {
                most = most.max(others(own, it, *count));
                if most == *count {
                    break;
                }
            }
        }
        most
    }
}

fn others(own: &BTreeMap<&str, u32>, cluster: &str, count: u32) -> u32 {
    count.saturating_sub(own.get(cluster).copied().unwrap_or_default())
}

/// How often these decisions name each cluster.
pub fn counted(decisions: &[Arc<PlacementDecision>]) -> BTreeMap<&str, u32> {
    let mut counts = BTreeMap::new();
    for cluster in decisions.iter().flat_map(|it| clusters(it)) {
        *counts.entry(cluster).or_default() += 1;
    }
    counts
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
        let all = ["c1", "c2", "c3"].map(|it| Arc::new(ManagedCluster::new(it, Default::default())));
        let ask = |own: &str| {
            let own: Vec<_> = cache.get("default", own).into_iter().collect();
            load.besides(&own, &all)
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
