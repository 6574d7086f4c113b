//! Whether a cluster set has members.
//!
//! Root: ManagedClusterSet. Reads: all ManagedClusters. Writes: condition `ClusterSetEmpty`. Never: a cluster's labels.
//! Upstream: ocm `pkg/registration/hub/managedclusterset/controller.go`.

mod membership;

use std::sync::Arc;

use jiff::Timestamp;
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, Membership},
    condition::{self, wanted},
    conditions::managed_cluster_set::{self, reason},
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};

use super::uncached::put_written;

/// The reconciler.
pub struct ClusterSets {
    sets: Cache<ManagedClusterSet>,
    clusters: Cache<ManagedCluster>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The set; `None` when it is gone.
    pub set: Option<Arc<ManagedClusterSet>>,
    /// How many clusters it has, or why its selector cannot be read.
    pub members: Result<usize, String>,
}

impl ClusterSets {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            sets: caches.of(),
            clusters: caches.of(),
        }
    }
}

#[async_trait]
impl Reconciler for ClusterSets {
    const NAME: &'static str = "managed-cluster-set";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::condition(
        ManagedClusterSet::KIND,
        managed_cluster_set::EMPTY,
    )];
    const RIGHTS: &'static [Right] = &[Right::new(
        ManagedClusterSet::GROUP,
        "managedclustersets/status",
        "patch",
        "How many clusters sets have.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (sets, clusters) = (self.sets.clone(), self.clusters.clone());
        watches
            .root(&self.sets)
            .reads(&self.clusters)
            .signal("ManagedClusters that come, go or change their labels", move |queue| {
                membership::wake(queue, &sets, &clusters)
            });
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let set = self.sets.named(name);
        let members = match set.as_deref().map(Membership::of_one) {
            Some(Ok(members)) => Ok(self.clusters.list().iter().filter(|it| members.has(it)).count()),
            Some(Err(why)) => Err(why),
            None => Ok(0),
        };
        Ok(Seen {
            now: Timestamp::now(),
            set,
            members,
        })
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        put_written(&self.sets, outcome);
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
        let nobody = |message: String| wanted(managed_cluster_set::EMPTY, true, reason::NO_CLUSTER_MATCHED, message);
        let update = match &seen.members {
            Ok(0) => nobody("No ManagedCluster selected".to_owned()),
            Ok(count) => {
                let message = format!("{count} ManagedClusters selected");
                wanted(managed_cluster_set::EMPTY, false, reason::CLUSTERS_SELECTED, message)
            }
            // Upstream says nothing at all and tries again for ever.
            Err(why) => nobody(format!(
                "No ManagedCluster selected: the selector cannot be read: {why}"
            )),
        };
        let mut new = set.clone();
        condition::set(&mut new.status.get_or_insert_default().conditions, update, seen.now);
        plan.status(Site::Hub, set, &new);
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(set: Value, members: Result<usize, String>, printed: &str) {
        let set = Some(Arc::new(serde_json::from_value(set).unwrap()));
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let plan = ClusterSets::plan(&Seen { now, set, members });
        assert_eq!(format!("{plan:#}").trim(), printed);
    }

    fn prod() -> Value {
        json!({"metadata": {"name": "prod"}, "spec": {}})
    }

    #[test]
    fn members_are_counted_with_upstreams_message() {
        check(
            prod(),
            Ok(0),
            r#"hub: patch ManagedClusterSet prod status {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"No ManagedCluster selected","reason":"NoClusterMatched","status":"True","type":"ClusterSetEmpty"}]}}"#,
        );
        check(
            prod(),
            Ok(2),
            r#"hub: patch ManagedClusterSet prod status {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"2 ManagedClusters selected","reason":"ClustersSelected","status":"False","type":"ClusterSetEmpty"}]}}"#,
        );
    }

    #[test]
    fn an_invalid_selector_is_reported() {
        check(
            prod(),
            Err("no values".into()),
            r#"hub: patch ManagedClusterSet prod status {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"No ManagedCluster selected: the selector cannot be read: no values","reason":"NoClusterMatched","status":"True","type":"ClusterSetEmpty"}]}}"#,
        );
    }

    #[test]
    fn a_correctly_counted_or_terminating_set_is_left_unchanged() {
        let mut set = prod();
        set["status"] = json!({"conditions": [{
            "type": "ClusterSetEmpty", "status": "False", "reason": "ClustersSelected",
            "message": "2 ManagedClusters selected", "lastTransitionTime": "2025-01-01T00:00:00Z",
        }]});
        check(set.clone(), Ok(2), "nothing to do");
        set["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        check(set, Ok(0), "nothing to do");
    }
}
