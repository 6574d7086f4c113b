//! When nobody hears of a cluster any more, nobody knows how its add-ons are.
//!
//! Root: ManagedClusterAddOn. Reads: its ManagedCluster. Writes: condition `Available`, and of its three answers only
//! Unknown, with the cluster's reason (the agent, or the add-on's manager, says the rest).
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
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, StatusField, Watches, async_trait,
    cache::{key_of, split_key},
    rbac::Right,
};

use super::{facts, rights};

/// The reconciler.
pub struct Availability {
    clusters: Cache<ManagedCluster>,
    addons: Cache<ManagedClusterAddOn>,
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

#[async_trait]
impl Reconciler for Availability {
    const NAME: &'static str = "addon-health-check";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::condition(
        ManagedClusterAddOn::KIND,
        managed_cluster_add_on::AVAILABLE,
    )
    .shared(
        "Unknown while the hub does not hear of the cluster; the cluster's agent or the add-on's manager says the rest",
    )];
    const RIGHTS: &'static [Right] = &[rights::ADD_ON_STATUS];
    type Seen = Seen;

    /// Clusters that fall silent, and add-ons of clusters that are.
    fn watches(&self, watches: &mut Watches) {
        let addons = self.addons.clone();
        watches.wakes(&self.clusters, move |old, new| {
            let fell = new.filter(|it| silence(it).is_some() && old.and_then(silence) != silence(it));
            let there = fell.map_or(Vec::new(), |it| addons.list_in(&it.name_any()));
            there.iter().map(|it| key_of(&**it)).collect::<Vec<_>>()
        });
        let clusters = self.clusters.clone();
        watches.wakes(&self.addons, move |old, new| {
            let changed = new.filter(|it| old.map(available) != Some(available(it)));
            let cluster = changed.and_then(|it| clusters.named(facts::cluster(it)));
            changed
                .filter(|_| cluster.is_some_and(|it| silence(&it).is_some()))
                .map(key_of)
        });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = split_key(key);
        Ok(Seen {
            now: Timestamp::now(),
            addon: self.addons.get(cluster, name),
            cluster: self.clusters.named(cluster),
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
            facts::say(&mut plan, addon, condition, seen.now);
        }
        plan
    }
}

impl Availability {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            clusters: caches.of(),
            addons: caches.of(),
        }
    }
}

fn available(addon: &ManagedClusterAddOn) -> Option<&Condition> {
    condition::find(facts::conditions(addon), managed_cluster_add_on::AVAILABLE)
}

/// What the hub says of a cluster that it does not hear of.
fn silence(cluster: &ManagedCluster) -> Option<&Condition> {
    let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::find(conditions, managed_cluster::AVAILABLE).filter(|it| it.status == Status::Unknown.as_str())
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
