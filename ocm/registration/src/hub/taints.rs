//! Keeping placements away from clusters that are not well.
//!
//! Root: ManagedCluster. Reads: its condition Available. Writes: two of its taints. Never: any other taint; nothing
//! while the cluster is being deleted.
//! Upstream: ocm `pkg/registration/hub/taint/controller.go`.

use std::sync::Arc;

use ocm_api::{
    cluster::{ManagedCluster, Taint, TaintEffect},
    condition::{self, Status},
    conditions::managed_cluster,
};
use ocm_reconcile::{Cache, Caches, ObserveError, Plan, Reconciler, Site, Watches, async_trait, rbac::Right};

use super::{HubOptions, first, permissions};
use crate::status;

/// The reconciler.
pub struct Taints {
    clusters: Cache<ManagedCluster>,
    options: Arc<HubOptions>,
}

/// What a plan is made from.
pub struct Seen {
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// Whether the cluster is given its taints in a moment, with everything else.
    pub is_to_come: bool,
}

impl Taints {
    /// Over these caches.
    pub fn new(caches: &Caches, options: &Arc<HubOptions>) -> Self {
        Self {
            clusters: caches.of(),
            options: options.clone(),
        }
    }
}

/// The cluster with the taints that it should have.
pub fn put_right(cluster: &ManagedCluster) -> ManagedCluster {
    let wanted = match condition::status(status::conditions(cluster), managed_cluster::AVAILABLE) {
        None | Some(Status::Unknown) => Some(Taint::UNREACHABLE),
        Some(Status::False) => Some(Taint::UNAVAILABLE),
        Some(Status::True) => None,
    };
    let mut new = cluster.clone();
    for key in [Taint::UNREACHABLE, Taint::UNAVAILABLE] {
        let is_ours = |it: &Taint| it.key == key && it.value.is_empty() && it.effect == TaintEffect::NoSelect;
        if wanted != Some(key) {
            new.spec.taints.retain(|it| !is_ours(it));
        } else if !new.spec.taints.iter().any(is_ours) {
            // Admission fills in when it was added.
            new.spec.taints.push(Taint {
                key: key.to_owned(),
                value: String::new(),
                effect: TaintEffect::NoSelect,
                time_added: None,
            });
        }
    }
    new
}

#[async_trait]
impl Reconciler for Taints {
    const NAME: &'static str = "taint";
    const WORKERS: usize = super::WORKERS;
    const RIGHTS: &'static [Right] = &[permissions::CLUSTERS];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.clusters);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.clusters.named(name);
        Ok(Seen {
            is_to_come: cluster
                .as_deref()
                .is_some_and(|it| first::is_to_come(it, &self.options)),
            cluster,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let cluster = seen.cluster.as_deref().filter(|_| !seen.is_to_come);
        if let Some(cluster) = cluster.filter(|it| it.metadata.deletion_timestamp.is_none()) {
            plan.change(Site::Hub, cluster, &put_right(cluster));
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(available: Option<&str>, taints: Value, printed: &str) {
        let conditions: Vec<Value> = available
            .map(|status| {
                json!({"type": "ManagedClusterConditionAvailable", "status": status, "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .into_iter()
            .collect();
        let cluster: ManagedCluster = serde_json::from_value(json!({
            "metadata": {"name": "cluster1"}, "spec": {"taints": taints}, "status": {"conditions": conditions}
        }))
        .unwrap();
        let mut seen = Seen {
            cluster: Some(Arc::new(cluster)),
            is_to_come: false,
        };
        assert_eq!(format!("{:#}", Taints::plan(&seen)).trim(), printed);
        seen.is_to_come = true;
        assert!(Taints::plan(&seen).is_empty());
    }

    #[test]
    fn an_unknown_cluster_is_tainted_unreachable_instead_of_unavailable() {
        let unavailable = json!({"key": Taint::UNAVAILABLE, "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"});
        let mine = json!({"key": "mine", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"});
        check(
            Some("Unknown"),
            json!([unavailable, mine]),
            r#"hub: patch ManagedCluster cluster1 {"spec":{"taints":[{"effect":"NoSelect","key":"mine","timeAdded":"2026-01-01T00:00:00Z"},{"effect":"NoSelect","key":"cluster.open-cluster-management.io/unreachable","timeAdded":null}]}}"#,
        );
    }

    #[test]
    fn a_cluster_that_is_available_has_neither_taint() {
        check(
            Some("True"),
            json!([{"key": Taint::UNREACHABLE, "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}]),
            r#"hub: patch ManagedCluster cluster1 {"spec":{"taints":null}}"#,
        );
        check(Some("True"), json!([]), "nothing to do");
    }
}
