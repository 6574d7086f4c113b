//! Whether the set of a binding exists.
//!
//! Root: ManagedClusterSetBinding. Reads: its ManagedClusterSet. Writes: condition `Bound`. Never: anything else.
//! Upstream: ocm `pkg/registration/hub/managedclustersetbinding/controller.go`.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    cluster::{ManagedClusterSet, ManagedClusterSetBinding},
    condition::{self, wanted},
    conditions::managed_cluster_set_binding::{self, reason},
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait,
    cache::{key_of, split_key},
    rbac::Right,
};

/// The reconciler.
pub struct SetBindings {
    bindings: Cache<ManagedClusterSetBinding>,
    sets: Cache<ManagedClusterSet>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The binding; `None` when it is gone.
    pub binding: Option<Arc<ManagedClusterSetBinding>>,
    /// Whether its set exists.
    pub bound: bool,
}

impl SetBindings {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            bindings: caches.of(),
            sets: caches.of(),
        }
    }
}

#[async_trait]
impl Reconciler for SetBindings {
    const NAME: &'static str = "managed-cluster-set-binding";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::condition(
        ManagedClusterSetBinding::KIND,
        managed_cluster_set_binding::BOUND,
    )];
    const RIGHTS: &'static [Right] = &[Right::new(
        ManagedClusterSetBinding::GROUP,
        "managedclustersetbindings/status",
        "patch",
        "Whether there is a set.",
    )];
    type Seen = Seen;

    /// Bindings, and sets that come or go.
    fn watches(&self, watches: &mut Watches) {
        let bindings = self.bindings.clone();
        watches.root(&self.bindings).wakes(&self.sets, move |old, new| {
            let came_or_went = new.or(old).filter(|_| old.is_none() || new.is_none());
            let name = came_or_went.map(ResourceExt::name_any);
            let all = name.iter().flat_map(|_| bindings.list());
            let of_it = all.filter(|it| name.as_ref() == Some(&it.spec.cluster_set));
            of_it.map(|it| key_of(&*it)).collect::<Vec<_>>()
        });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let binding = self.bindings.get(namespace, name);
        let bound = binding
            .as_deref()
            .is_some_and(|it| self.sets.named(&it.spec.cluster_set).is_some());
        Ok(Seen {
            now: Timestamp::now(),
            binding,
            bound,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(binding) = seen.binding.as_deref() else {
            return plan;
        };
        let reason = if seen.bound {
            reason::CLUSTER_SET_BOUND
        } else {
            reason::CLUSTER_SET_NOT_FOUND
        };
        let update = wanted(managed_cluster_set_binding::BOUND, seen.bound, reason, "");
        let mut new = binding.clone();
        condition::set(&mut new.status.get_or_insert_default().conditions, update, seen.now);
        plan.status(Site::Hub, binding, &new);
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(status: Value, bound: bool, printed: &str) {
        let binding = json!({
            "metadata": {"name": "prod", "namespace": "default"}, "spec": {"clusterSet": "prod"}, "status": status,
        });
        let plan = SetBindings::plan(&Seen {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            binding: Some(Arc::new(serde_json::from_value(binding).unwrap())),
            bound,
        });
        assert_eq!(format!("{plan:#}").trim(), printed);
    }

    #[test]
    fn a_binding_says_whether_its_set_is_there() {
        let bound = json!({"conditions": [{
            "type": "Bound", "status": "True", "reason": "ClusterSetBound", "message": "",
            "lastTransitionTime": "2025-01-01T00:00:00Z",
        }]});
        check(
            json!({}),
            true,
            r#"hub: patch ManagedClusterSetBinding default/prod status {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","reason":"ClusterSetBound","status":"True","type":"Bound"}]}}"#,
        );
        check(bound.clone(), true, "nothing to do");
        check(
            bound,
            false,
            r#"hub: patch ManagedClusterSetBinding default/prod status {"status":{"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","reason":"ClusterSetNotFound","status":"False","type":"Bound"}]}}"#,
        );
    }
}
