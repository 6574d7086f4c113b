//! A cluster's labels say which add-ons it has and how they are, so that placements can ask for them.
//!
//! Root: ManagedCluster. Reads: the add-ons in its namespace. Writes: its labels
//! `feature.open-cluster-management.io/addon-*`. Never: another label; a cluster of
//! which nobody has said yet whether it is available.
//! Upstream: ocm `pkg/registration/hub/addon/discovery_controller.go`, where one add-on with a name too long for a
//! label keeps the cluster from getting any.

use std::{collections::BTreeMap, sync::Arc};

use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    cluster::ManagedCluster,
    condition::{self, Status},
    conditions::{managed_cluster, managed_cluster_add_on},
    labels,
};
use ocm_reconcile::{Cache, Caches, ObserveError, Plan, Reconciler, Site, Watches, async_trait, rbac::Right};

use super::{facts, rights};

/// How long the part of a label's key behind the slash may be.
const NAME_MAX: usize = 63;

/// The reconciler.
pub struct Feature {
    clusters: Cache<ManagedCluster>,
    addons: Cache<ManagedClusterAddOn>,
}

/// What a plan is made from.
pub struct Seen {
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Its add-ons.
    pub addons: Vec<Arc<ManagedClusterAddOn>>,
}

#[async_trait]
impl Reconciler for Feature {
    const NAME: &'static str = "addon-feature-discovery";
    const WORKERS: usize = super::WORKERS;
    const RIGHTS: &'static [Right] = &[rights::LABEL_CLUSTERS];
    type Seen = Seen;

    /// Clusters whose labels change or that become known, and add-ons that come, go, or change their health.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.clusters, |old, new| {
            let is_same = |old: &ManagedCluster, new: &ManagedCluster| {
                old.metadata.labels == new.metadata.labels && is_known(old) == is_known(new)
            };
            facts::changed(old, new, is_same).map(|it| it.name_any())
        });
        watches.wakes(&self.addons, |old, new| {
            let concern = |it: &ManagedClusterAddOn| (facts::is_leaving(it), value(it));
            let changed = new.or(old).filter(|_| old.map(concern) != new.map(concern));
            changed.and_then(|it| it.metadata.namespace.clone())
        });
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            cluster: self.clusters.named(name),
            addons: self.addons.list_in(name),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let cluster = seen.cluster.as_deref();
        let Some(cluster) = cluster.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            return plan;
        };
        if !is_known(cluster) {
            plan.wait("nobody has said yet whether the cluster is available");
            return plan;
        }
        let mut wanted = BTreeMap::new();
        for addon in seen.addons.iter().filter(|it| !facts::is_leaving(it)) {
            let key = format!("{}{}", labels::FEATURE_ADDON_PREFIX, addon.name_any());
            let length = key.split_once('/').map_or(0, |(_, name)| name.len());
            if length > NAME_MAX {
                plan.refuse(format!(
                    "the name of add-on {} is too long for a label",
                    addon.name_any()
                ));
                continue;
            }
            wanted.insert(key, value(addon).to_owned());
        }
        let mut new = cluster.clone();
        let all = new.labels_mut();
        all.retain(|key, _| !key.starts_with(labels::FEATURE_ADDON_PREFIX) || wanted.contains_key(key));
        all.extend(wanted);
        if cluster.labels() != new.labels() {
            plan.change(Site::Hub, cluster, &new);
        }
        plan
    }
}

impl Feature {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            clusters: caches.of(),
            addons: caches.of(),
        }
    }
}

fn is_known(cluster: &ManagedCluster) -> bool {
    let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::find(conditions, managed_cluster::AVAILABLE).is_some()
}

fn value(addon: &ManagedClusterAddOn) -> &'static str {
    match condition::status(facts::conditions(addon), managed_cluster_add_on::AVAILABLE) {
        Some(Status::True) => "available",
        Some(Status::False) => "unhealthy",
        Some(Status::Unknown) | None => "unreachable",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn addon(name: &str, available: Option<&str>, leaving: bool) -> Value {
        let conditions: Vec<Value> = available
            .map(|it| {
                json!({"type": "Available", "status": it, "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .into_iter()
            .collect();
        let mut addon = json!({"metadata": {"name": name, "namespace": "cluster1"}, "spec": {}, "status": {"conditions": conditions}});
        if leaving {
            addon["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        addon
    }

    fn check(labels: Value, addons: Vec<Value>, known: bool, printed: &str) {
        let conditions = if known {
            json!([{"type": "ManagedClusterConditionAvailable", "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        } else {
            json!([])
        };
        let cluster = json!({"metadata": {"name": "cluster1", "labels": labels}, "status": {"conditions": conditions}});
        let seen = Seen {
            cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
            addons: addons
                .into_iter()
                .map(|it| Arc::new(serde_json::from_value(it).unwrap()))
                .collect(),
        };
        assert_eq!(format!("{:#}", Feature::plan(&seen)).trim(), printed);
    }

    #[test]
    fn each_add_on_has_a_label_with_its_availability() {
        let addons = vec![
            addon("a", Some("True"), false),
            addon("b", Some("False"), false),
            addon("c", Some("Unknown"), false),
            addon("d", None, false),
        ];
        check(
            json!({"env": "prod"}),
            addons,
            true,
            r#"hub: patch ManagedCluster cluster1 {"metadata":{"labels":{"feature.open-cluster-management.io/addon-a":"available","feature.open-cluster-management.io/addon-b":"unhealthy","feature.open-cluster-management.io/addon-c":"unreachable","feature.open-cluster-management.io/addon-d":"unreachable"}}}"#,
        );
    }

    #[test]
    fn a_label_goes_with_its_add_on() {
        check(
            json!({"feature.open-cluster-management.io/addon-a": "available", "feature.open-cluster-management.io/addon-b": "available"}),
            vec![addon("a", Some("True"), true)],
            true,
            r#"hub: patch ManagedCluster cluster1 {"metadata":{"labels":{"feature.open-cluster-management.io/addon-a":null,"feature.open-cluster-management.io/addon-b":null}}}"#,
        );
        check(
            json!({"feature.open-cluster-management.io/addon-a": "available", "env": "prod"}),
            vec![],
            true,
            r#"hub: patch ManagedCluster cluster1 {"metadata":{"labels":{"feature.open-cluster-management.io/addon-a":null}}}"#,
        );
    }

    #[test]
    fn a_name_too_long_for_a_label_blocks_no_other() {
        let long = "x".repeat(58);
        check(
            json!({}),
            vec![addon("a", Some("True"), false), addon(&long, Some("True"), false)],
            true,
            &format!(
                "hub: patch ManagedCluster cluster1 {{\"metadata\":{{\"labels\":{{\"feature.open-cluster-management.io/addon-a\":\"available\"}}}}}}\nrefuses: the name of add-on {long} is too long for a label"
            ),
        );
    }

    #[test]
    fn a_cluster_that_never_reported_gets_no_labels() {
        check(
            json!({}),
            vec![addon("a", Some("True"), false)],
            false,
            "nothing to do\nwaits: nobody has said yet whether the cluster is available",
        );
    }
}
