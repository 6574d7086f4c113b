//! Which namespaces a cluster's sets want on it.
//!
//! Root: ManagedCluster. Reads: all ManagedClusterSets. Writes: `status.managedNamespaces`, the list and not its
//! conditions, which the agent writes. Never: a namespace.
//! Upstream: ocm `pkg/registration/hub/managedcluster/managednamespace_controller.go`, which drops the agent's
//! conditions with each write; we keep those of the entries that stay.

use std::sync::Arc;

use kube::ResourceExt;
use ocm_api::cluster::{ClusterSetManagedNamespace, ManagedCluster, ManagedClusterSet, Membership};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};

use super::permissions;

/// The reconciler.
pub struct ManagedNamespaces {
    clusters: Cache<ManagedCluster>,
    sets: Cache<ManagedClusterSet>,
}

/// What a plan is made from.
pub struct Seen {
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// The sets it is in.
    pub sets: Vec<Arc<ManagedClusterSet>>,
}

impl ManagedNamespaces {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            clusters: caches.of(),
            sets: caches.of(),
        }
    }
}

/// The clusters that are, or were, in a set of which the namespaces or the members change.
fn members_to_tell(
    clusters: &Cache<ManagedCluster>,
    old: Option<&ManagedClusterSet>,
    new: Option<&ManagedClusterSet>,
) -> Vec<String> {
    let wants = |set: Option<&ManagedClusterSet>| set.is_some_and(|it| !it.spec.managed_namespaces.is_empty());
    let same = old.zip(new).is_some_and(|(old, new)| {
        old.spec == new.spec && old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
    });
    if same || !wants(old) && !wants(new) {
        return Vec::new();
    }
    let either = Membership::of([old, new].into_iter().flatten());
    let members = clusters.list().into_iter().filter(|it| either.has(it));
    members.map(|it| it.name_any()).collect()
}

#[async_trait]
impl Reconciler for ManagedNamespaces {
    const NAME: &'static str = "managed-namespace";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[StatusField::new(ManagedCluster::KIND, "managedNamespaces")
        .shared("the hub says which they are; the agent says how they are")];
    const RIGHTS: &'static [Right] = &[permissions::CLUSTER_STATUS];
    type Seen = Seen;

    /// Clusters whose labels change, and sets whose namespaces or members change.
    fn watches(&self, watches: &mut Watches) {
        let clusters = self.clusters.clone();
        watches
            .wakes(&self.clusters, |old, new| {
                let new = new?;
                let same = old.is_some_and(|it| it.metadata.labels == new.metadata.labels);
                (!same).then(|| new.name_any())
            })
            .wakes(&self.sets, move |old, new| members_to_tell(&clusters, old, new));
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.clusters.named(name);
        let mut sets = self.sets.list();
        sets.retain(|set| cluster.as_deref().is_some_and(|it| Membership::of([&**set]).has(it)));
        Ok(Seen { cluster, sets })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen
            .cluster
            .as_deref()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
        else {
            return plan;
        };
        let present = cluster.status.as_ref().map_or(&[][..], |it| &it.managed_namespaces);
        let mut wanted = Vec::new();
        for set in seen.sets.iter().filter(|it| it.metadata.deletion_timestamp.is_none()) {
            for namespace in &set.spec.managed_namespaces {
                let cluster_set = set.name_any();
                let before = present
                    .iter()
                    .find(|it| it.name == namespace.name && it.cluster_set == cluster_set);
                wanted.push(ClusterSetManagedNamespace {
                    name: namespace.name.clone(),
                    cluster_set,
                    conditions: before.map(|it| it.conditions.clone()).unwrap_or_default(),
                });
            }
        }
        wanted.sort_by(|a, b| (&a.cluster_set, &a.name).cmp(&(&b.cluster_set, &b.name)));
        if present != wanted {
            let mut new = cluster.clone();
            new.status.get_or_insert_default().managed_namespaces = wanted;
            plan.status(Site::Hub, cluster, &new);
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(present: Value, sets: &[Value], printed: &str) {
        let cluster = json!({"metadata": {"name": "cluster1"}, "spec": {}, "status": {"managedNamespaces": present}});
        let plan = ManagedNamespaces::plan(&Seen {
            cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
            sets: sets
                .iter()
                .map(|it| Arc::new(serde_json::from_value(it.clone()).unwrap()))
                .collect(),
        });
        assert_eq!(format!("{plan:#}").trim(), printed);
    }

    fn set(name: &str, namespaces: &[&str]) -> Value {
        let namespaces: Vec<Value> = namespaces.iter().map(|it| json!({"name": it})).collect();
        json!({"metadata": {"name": name}, "spec": {"managedNamespaces": namespaces}})
    }

    #[test]
    fn managed_namespaces_are_listed_by_set_and_name() {
        check(
            json!([]),
            &[set("b", &["z", "a"]), set("a", &["m"]), set("c", &[])],
            r#"hub: patch ManagedCluster cluster1 status {"status":{"managedNamespaces":[{"clusterSet":"a","name":"m"},{"clusterSet":"b","name":"a"},{"clusterSet":"b","name":"z"}]}}"#,
        );
        check(json!([]), &[set("a", &[])], "nothing to do");
    }

    #[test]
    fn the_agents_conditions_of_a_namespace_are_kept() {
        let said = json!([{
            "type": "NamespaceAvailable", "status": "True", "reason": "NamespaceApplied", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]);
        let present = json!([{"name": "m", "clusterSet": "a", "conditions": said}]);
        check(present.clone(), &[set("a", &["m"])], "nothing to do");
        check(
            present,
            &[set("a", &["m", "n"])],
            r#"hub: patch ManagedCluster cluster1 status {"status":{"managedNamespaces":[{"clusterSet":"a","conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","message":"","reason":"NamespaceApplied","status":"True","type":"NamespaceAvailable"}],"name":"m"},{"clusterSet":"a","name":"n"}]}}"#,
        );
    }

    #[test]
    fn a_left_or_terminating_set_requests_no_namespaces() {
        let present = json!([{"name": "m", "clusterSet": "a"}]);
        let removed = r#"hub: patch ManagedCluster cluster1 status {"status":{"managedNamespaces":null}}"#;
        check(present.clone(), &[], removed);
        let mut leaving = set("a", &["m"]);
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        check(present, &[leaving], removed);
    }
}
