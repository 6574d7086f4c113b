//! When nobody hears of a cluster any more, nobody knows how its add-ons are.
//!
//! Root: ManagedClusterAddOn. Reads: its ManagedCluster. Writes: condition `Available`, and of its three answers only Unknown, with the
//! cluster's reason (the agent, or the add-on's manager, says the rest).
//! Never: anything while the cluster is heard of.
//! Upstream: ocm `pkg/registration/hub/addon/healthcheck_controller.go`.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    Condition,
    addon::v1alpha1::ManagedClusterAddOn,
    cluster::ManagedCluster,
    condition::{self, Status, wanted},
    conditions::{managed_cluster, managed_cluster_add_on},
};
use ocm_reconcile::{ObserveError, Plan, Queue, Reconciler, async_trait, cache};

use super::{OfClusters, facts};

/// The reconciler.
pub struct Availability {
    caches: OfClusters,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The add-on on a cluster; `None` when it is gone.
    pub addon: Option<Arc<ManagedClusterAddOn>>,
    /// The cluster.
    pub cluster: Option<Arc<ManagedCluster>>,
}

impl Availability {
    /// Over these caches.
    pub fn new(caches: &OfClusters) -> Self {
        Self { caches: caches.clone() }
    }
}

/// Clusters that fall silent, and add-ons of clusters that are.
pub fn subscribe(caches: &OfClusters, queue: &Queue) {
    let all = caches.clone();
    caches.clusters.subscribe(queue, move |old, new| {
        let Some(new) = new.filter(|it| silence(it).is_some()) else {
            return Vec::new();
        };
        if old.is_some_and(|it| silence(it) == silence(new)) {
            return Vec::new();
        }
        let addons = all.addons.list_in(&new.name_any());
        addons.iter().map(|it| cache::key_of(&**it)).collect()
    });
    let clusters = caches.clusters.clone();
    caches.addons.subscribe(queue, move |old, new| {
        let new = new?;
        let same = old.is_some_and(|it| available(it) == available(new));
        let silent = || {
            clusters
                .named(facts::cluster(new))
                .is_some_and(|it| silence(&it).is_some())
        };
        (!same && silent()).then(|| cache::key_of(new))
    });
}

fn available(addon: &ManagedClusterAddOn) -> Option<&Condition> {
    condition::find(facts::conditions(addon), managed_cluster_add_on::AVAILABLE)
}

/// What the hub says of a cluster that it does not hear of.
fn silence(cluster: &ManagedCluster) -> Option<&Condition> {
    let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::find(conditions, managed_cluster::AVAILABLE).filter(|it| it.status == Status::Unknown.as_str())
}

#[async_trait]
impl Reconciler for Availability {
    const NAME: &'static str = "addon-health-check";
    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = cache::split_key(key);
        Ok(Seen {
            now: Timestamp::now(),
            addon: self.caches.addons.get(cluster, name),
            cluster: self.caches.clusters.named(cluster),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let (Some(addon), Some(cluster)) = (seen.addon.as_deref(), seen.cluster.as_deref()) else {
            return plan;
        };
        if let Some(silence) = silence(cluster) {
            let condition = wanted(
                managed_cluster_add_on::AVAILABLE,
                Status::Unknown,
                &silence.reason,
                &silence.message,
            );
            facts::tell(&mut plan, addon, &facts::saying(addon, condition, seen.now));
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn condition(r#type: &str, status: &str, reason: &str) -> Value {
        json!({"type": r#type, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    fn check(of_cluster: &str, of_addon: (&str, &str), printed: &str) {
        let cluster = json!({"metadata": {"name": "cluster1"}, "status": {"conditions": [
            condition("ManagedClusterConditionAvailable", of_cluster, "ManagedClusterLeaseUpdateStopped")
        ]}});
        let addon = json!({"metadata": {"name": "a", "namespace": "cluster1"}, "spec": {}, "status": {"conditions": [
            condition("Available", of_addon.0, of_addon.1)
        ]}});
        let seen = Seen {
            now: "2026-01-01T12:00:00Z".parse().unwrap(),
            addon: Some(Arc::new(serde_json::from_value(addon).unwrap())),
            cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
        };
        assert_eq!(format!("{:#}", Availability::plan(&seen)).trim(), printed);
    }

    #[test]
    fn an_add_on_is_unknown_when_its_cluster_is() {
        check(
            "Unknown",
            ("True", "WorkApplied"),
            r#"hub: patch ManagedClusterAddOn cluster1/a status {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T12:00:00Z","message":"m","reason":"ManagedClusterLeaseUpdateStopped","status":"Unknown","type":"Available"}]}}"#,
        );
        check(
            "Unknown",
            ("Unknown", "ManagedClusterLeaseUpdateStopped"),
            "nothing to do",
        );
        check("True", ("False", "WorkNotApplied"), "nothing to do");
        check("False", ("True", "WorkApplied"), "nothing to do");
    }
}
