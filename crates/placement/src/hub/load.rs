//! How many decisions name each cluster, counted as they change rather than when somebody asks.

use std::{
    collections::{BTreeSet, HashMap},
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
    counts: Arc<RwLock<HashMap<String, u32>>>,
}

impl Load {
    /// Counts what the cache holds, now and later.
    pub fn over(decisions: &Cache<PlacementDecision>) -> Self {
        let load = Self::default();
        let counts = load.counts.clone();
        decisions.listen(move |old, new| {
            let mut counts = counts.write();
            for cluster in new.iter().flat_map(|it| clusters(it)) {
                match counts.get_mut(cluster) {
                    Some(count) => *count += 1,
                    None => {
                        counts.insert(cluster.to_owned(), 1);
                    }
                }
            }
            for cluster in old.iter().flat_map(|it| clusters(it)) {
                if let Some(count) = counts.get_mut(cluster) {
                    *count -= 1;
                    if *count == 0 {
                        counts.remove(cluster);
                    }
                }
            }
        });
        load
    }

    /// How often others than `own` name each of the clusters, and how often they name the one they name most.
    pub fn besides(&self, own: &[Arc<PlacementDecision>], of: &[Arc<ManagedCluster>]) -> (Vec<u32>, u32) {
        let mut own_counts: HashMap<&str, u32> = HashMap::new();
        for cluster in own.iter().flat_map(|it| clusters(it)) {
            *own_counts.entry(cluster).or_default() += 1;
        }
        let counts = self.counts.read();
        let others =
            |cluster: &str, count: u32| count.saturating_sub(own_counts.get(cluster).copied().unwrap_or_default());
        let each = of
            .iter()
            .map(|it| it.metadata.name.as_deref().unwrap_or_default())
            .map(|it| others(it, counts.get(it).copied().unwrap_or_default()))
            .collect();
        let most = counts.iter().map(|(cluster, count)| others(cluster, *count)).max();
        (each, most.unwrap_or_default())
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
