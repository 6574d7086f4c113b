//! Whether a cluster set has members.
//!
//! Root: ManagedClusterSet. Reads: all ManagedClusters. Writes: condition `ClusterSetEmpty`. Never: a cluster's labels.
//! Upstream: ocm `pkg/registration/hub/managedclusterset/controller.go`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, SelectorType},
    condition::{self, wanted},
    conditions::managed_cluster_set::{self, reason},
    labels,
};
use ocm_reconcile::{ObserveError, Plan, Queue, Reconciler, Site, async_trait};

use super::Caches;

/// The reconciler.
pub struct ClusterSets {
    caches: Caches,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The set; `None` when it is gone.
    pub set: Option<Arc<ManagedClusterSet>>,
    /// How many clusters it has.
    pub members: usize,
}

impl ClusterSets {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self { caches: caches.clone() }
    }
}

/// Sets, and clusters that come, go or change their labels.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.sets.subscribe_by_name(queue);
    let sets = caches.sets.clone();
    caches.clusters.subscribe(queue, move |old, new| {
        if let (Some(old), Some(new)) = (old, new)
            && old.metadata.labels == new.metadata.labels
        {
            return Vec::new();
        }
        let either = |set: &ManagedClusterSet| [old, new].into_iter().flatten().any(|cluster| is_member(set, cluster));
        sets.list()
            .iter()
            .filter(|set| either(set))
            .map(|set| set.name_any())
            .collect()
    });
}

/// Whether a cluster is in a set. No selector selects nothing, an empty one everything.
pub fn is_member(set: &ManagedClusterSet, cluster: &ManagedCluster) -> bool {
    let selector = &set.spec.cluster_selector;
    match selector.selector_type {
        SelectorType::ExclusiveClusterSetLabel => cluster.labels().get(labels::CLUSTER_SET) == Some(&set.name_any()),
        SelectorType::LabelSelector => selector.label_selector.as_ref().is_some_and(|it| matches(it, cluster)),
    }
}

fn matches(selector: &LabelSelector, cluster: &ManagedCluster) -> bool {
    let labels = cluster.labels();
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|it| {
            let value = labels.get(&it.key);
            let listed = value.is_some_and(|value| it.values.iter().flatten().any(|one| one == value));
            match it.operator.as_str() {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                // An operator that nobody knows selects nothing, as the API server would have refused it.
                _ => false,
            }
        })
}

#[async_trait]
impl Reconciler for ClusterSets {
    const NAME: &'static str = "managed-cluster-set";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let set = self.caches.sets.named(name);
        let members = match set.as_deref() {
            Some(set) => self
                .caches
                .clusters
                .list()
                .iter()
                .filter(|it| is_member(set, it))
                .count(),
            None => 0,
        };
        Ok(Seen {
            now: Timestamp::now(),
            set,
            members,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(set) = seen
            .set
            .as_deref()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
        else {
            return plan;
        };
        let verdict = if seen.members == 0 {
            wanted(
                managed_cluster_set::EMPTY,
                true,
                reason::NO_CLUSTER_MATCHED,
                "No ManagedCluster selected",
            )
        } else {
            let message = format!("{} ManagedClusters selected", seen.members);
            wanted(managed_cluster_set::EMPTY, false, reason::CLUSTERS_SELECTED, message)
        };
        let mut new = set.clone();
        condition::set(&mut new.status.get_or_insert_default().conditions, verdict, seen.now);
        plan.status(Site::Hub, set, &new);
        plan
    }
}
