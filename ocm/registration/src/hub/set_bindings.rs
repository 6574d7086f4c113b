//! Whether the set of a binding exists.
//!
//! Root: ManagedClusterSetBinding. Reads: its ManagedClusterSet. Writes: condition `Bound`. Never: anything else.
//! Upstream: ocm `pkg/registration/hub/managedclustersetbinding/controller.go`.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    cluster::ManagedClusterSetBinding,
    condition::{self, wanted},
    conditions::managed_cluster_set_binding::{self, reason},
};
use ocm_reconcile::{
    ObserveError, Plan, Queue, Reconciler, Site, async_trait,
    cache::{key_of, split_key},
};

use super::Caches;

/// The reconciler.
pub struct SetBindings {
    caches: Caches,
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
        Self { caches: caches.clone() }
    }
}

/// Bindings, and sets that come or go.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.set_bindings.subscribe_by_name(queue);
    let bindings = caches.set_bindings.clone();
    caches.sets.subscribe(queue, move |old, new| {
        let (true, Some(set)) = (old.is_none() || new.is_none(), new.or(old)) else {
            return Vec::new();
        };
        let name = set.name_any();
        bindings
            .list()
            .iter()
            .filter(|it| it.spec.cluster_set == name)
            .map(|it| key_of(&**it))
            .collect()
    });
}

#[async_trait]
impl Reconciler for SetBindings {
    const NAME: &'static str = "managed-cluster-set-binding";
    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let binding = self.caches.set_bindings.get(namespace, name);
        let bound = binding
            .as_deref()
            .is_some_and(|it| self.caches.sets.named(&it.spec.cluster_set).is_some());
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
        let verdict = wanted(managed_cluster_set_binding::BOUND, seen.bound, reason, "");
        let mut new = binding.clone();
        condition::set(&mut new.status.get_or_insert_default().conditions, verdict, seen.now);
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
