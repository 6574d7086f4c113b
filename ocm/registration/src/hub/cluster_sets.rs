//! Whether a cluster set has members.
//!
//! Root: ManagedClusterSet. Reads: all ManagedClusters. Writes: condition `ClusterSetEmpty`. Never: a cluster's labels.
//! Upstream: ocm `pkg/registration/hub/managedclusterset/controller.go`.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    cluster::{ManagedClusterSet, Membership},
    condition::{self, wanted},
    conditions::managed_cluster_set::{self, reason},
};
use ocm_reconcile::{ObserveError, Outcome, Plan, Queue, Reconciler, Site, async_trait};

use super::Caches;

/// How long clusters that come and go are gathered before a set is counted anew: a thousand that come at once would have all of
/// them counted, and the number written, a thousand times.
const GATHER: Duration = Duration::from_millis(200);
/// And for each cluster there is, because counting looks at all of them: the share of the time that it takes stays the same, a
/// second for ten thousand.
const GATHER_EACH: Duration = Duration::from_micros(100);

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
    /// How many clusters it has, or why its selector cannot be read.
    pub members: Result<usize, String>,
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
    let (sets, clusters, queue) = (caches.sets.clone(), caches.clusters.clone(), queue.clone());
    caches.clusters.listen(move |old, new| {
        if let (Some(old), Some(new)) = (old, new)
            && old.metadata.labels == new.metadata.labels
        {
            return;
        }
        // Who was and stays a member changes no number: the set of all clusters is not counted anew for a label.
        let differs = |set: &ManagedClusterSet| {
            let members = Membership::of([set]);
            let [before, after] = [old, new].map(|it| it.is_some_and(|it| members.has(it)));
            before != after
        };
        for set in sets.list().iter().filter(|set| differs(set)) {
            let all = u32::try_from(clusters.len()).unwrap_or(u32::MAX);
            queue.add_after(set.name_any(), GATHER.max(GATHER_EACH * all));
        }
    });
}

#[async_trait]
impl Reconciler for ClusterSets {
    const NAME: &'static str = "managed-cluster-set";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let set = self.caches.sets.named(name);
        let members = match set.as_deref().map(Membership::of_one) {
            Some(Ok(members)) => Ok(self.caches.clusters.list().iter().filter(|it| members.has(it)).count()),
            Some(Err(why)) => Err(why),
            None => Ok(0),
        };
        Ok(Seen {
            now: Timestamp::now(),
            set,
            members,
        })
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        // The watch will bring it, too, and the next count may come first.
        let name = seen.set.as_deref().map(ResourceExt::name_any);
        if let Some(set) = name.and_then(|it| outcome.latest(Site::Hub, None, &it)) {
            self.caches.sets.put(set);
        }
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
        let verdict = match &seen.members {
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
        condition::set(&mut new.status.get_or_insert_default().conditions, verdict, seen.now);
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
    fn the_members_are_counted_in_the_words_of_upstream() {
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
    fn a_selector_that_cannot_be_read_is_told() {
        check(
            prod(),
            Err("no values".into()),
            r#"hub: patch ManagedClusterSet prod status {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"No ManagedCluster selected: the selector cannot be read: no values","reason":"NoClusterMatched","status":"True","type":"ClusterSetEmpty"}]}}"#,
        );
    }

    #[test]
    fn a_set_that_is_counted_right_or_on_its_way_out_is_left_alone() {
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
