//! Which profiles a change may concern. Profiles that are there are looked at with every change that may end them: two
//! changes that cross each other then leave none behind.

use std::collections::BTreeSet;

use kube::ResourceExt;
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Membership},
    condition,
    conditions::managed_cluster,
    multicluster::ClusterProfile,
};
use ocm_reconcile::{Cache, Caches, Index, cache::key_of};

use super::binding::is_bound;

/// Where sets are bound and where profiles are.
#[derive(Clone)]
pub struct ProfileKeys {
    clusters: Cache<ManagedCluster>,
    sets: Cache<ManagedClusterSet>,
    profiles: Cache<ClusterProfile>,
    bindings_by_set: Index<ManagedClusterSetBinding>,
    profiles_by_cluster: Index<ClusterProfile>,
}

impl ProfileKeys {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        let profiles = caches.of();
        Self {
            clusters: caches.of(),
            sets: caches.of(),
            bindings_by_set: Index::over(&caches.of(), |it: &ManagedClusterSetBinding| {
                Some(it.spec.cluster_set.clone())
            }),
            profiles_by_cluster: Index::over(&profiles, |it: &ClusterProfile| it.metadata.name.clone()),
            profiles,
        }
    }

    /// Those of a cluster, when a change of it shows in them.
    pub fn of_cluster(&self, old: Option<&ManagedCluster>, new: Option<&ManagedCluster>) -> BTreeSet<String> {
        let changed = new
            .or(old)
            .filter(|_| old.zip(new).is_none_or(|(old, new)| shows(old, new)));
        let Some(cluster) = changed else {
            return BTreeSet::new();
        };
        let name = cluster.name_any();
        let mut found = self.profiles_by_cluster.names(&name);
        for set in self.sets.list() {
            let members = Membership::of([&*set]);
            if [old, new].into_iter().flatten().any(|it| members.has(it)) {
                found.extend(self.bindings_by_set.names(&set.name_any()));
            }
        }
        found
            .into_iter()
            .map(|(namespace, _)| format!("{namespace}/{name}"))
            .collect()
    }

    /// Those wherever a set is bound, when it may have other members.
    pub fn of_set(&self, old: Option<&ManagedClusterSet>, new: Option<&ManagedClusterSet>) -> BTreeSet<String> {
        let changed = new
            .or(old)
            .filter(|_| old.zip(new).is_none_or(|(old, new)| old.spec != new.spec));
        let members = Membership::of([old, new].into_iter().flatten());
        let bindings = changed.map(|it| self.bindings_by_set.names(&it.name_any()));
        let bindings = bindings.unwrap_or_default().into_iter();
        bindings
            .flat_map(|(namespace, _)| self.in_namespace(&namespace, &members))
            .collect()
    }

    /// Those of a namespace in which another set is bound, or no longer.
    pub fn of_binding(
        &self,
        old: Option<&ManagedClusterSetBinding>,
        new: Option<&ManagedClusterSetBinding>,
    ) -> BTreeSet<String> {
        let same = |(old, new): (&ManagedClusterSetBinding, &ManagedClusterSetBinding)| {
            is_bound(old) == is_bound(new) && old.spec == new.spec
        };
        let Some(binding) = new.or(old).filter(|_| !old.zip(new).is_some_and(same)) else {
            return BTreeSet::new();
        };
        let set = self.sets.named(&binding.spec.cluster_set);
        let members = Membership::of(set.as_deref());
        self.in_namespace(&binding.namespace().unwrap_or_default(), &members)
    }

    /// The profiles of a namespace that are there, and those that there may be now.
    fn in_namespace(&self, namespace: &str, members: &Membership<'_>) -> BTreeSet<String> {
        let present = self.profiles.list_in(namespace);
        let clusters = self.clusters.list();
        let wanted = clusters.iter().filter(|it| members.has(it));
        present
            .iter()
            .map(|it| key_of(&**it))
            .chain(wanted.map(|it| format!("{namespace}/{}", it.name_any())))
            .collect()
    }
}

/// Whether a change of a cluster shows in its profiles. Most do not: capacity, taints, other conditions.
fn shows(old: &ManagedCluster, new: &ManagedCluster) -> bool {
    let status = |it: &ManagedCluster| {
        let it = it.status.clone().unwrap_or_default();
        let condition = |type_| condition::find(&it.conditions, type_).cloned();
        let (available, joined) = (
            condition(managed_cluster::AVAILABLE),
            condition(managed_cluster::JOINED),
        );
        (it.version, it.cluster_claims, available, joined)
    };
    old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || status(old) != status(new)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::super::tests::{cluster, read};
    use super::*;

    #[test]
    fn a_heartbeat_of_a_cluster_wakes_no_profile() {
        let old: Arc<ManagedCluster> = read(cluster());
        let changed = |path: &str, value: Value| {
            let mut new = cluster();
            *new.pointer_mut(path).unwrap() = value;
            shows(&old, &read(new))
        };
        assert!(!changed(
            "/spec",
            json!({"taints": [{"key": "a", "effect": "NoSelect"}]})
        ));
        assert!(!changed("/status/conditions/2/reason", json!("Other")));
        assert!(changed("/status/conditions/0/status", json!("True")));
        assert!(changed("/status/clusterClaims/0/value", json!("us")));
        assert!(changed("/status/version/kubernetes", json!("v1.35.0")));
        assert!(changed("/metadata/labels", json!({})));
    }

    #[test]
    fn changes_that_affect_profiles_reconcile_new_and_existing_ones() {
        let caches = Caches::unfed();
        let keys = ProfileKeys::new(&caches);
        let set = |name: &str| -> ManagedClusterSet {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {}})).unwrap()
        };
        let binding = |set: &str| -> ManagedClusterSetBinding {
            let it = json!({"metadata": {"name": "b", "namespace": "kueue"}, "spec": {"clusterSet": set}});
            serde_json::from_value(it).unwrap()
        };
        let found: Arc<ManagedCluster> = read(cluster());
        caches.of().put((*found).clone());
        caches.of().put(set("prod"));
        caches.of().put(binding("prod"));
        let profile = json!({"metadata": {"name": "gone", "namespace": "kueue"},
            "spec": {"displayName": "gone", "clusterManager": {"name": "m"}}});
        caches
            .of::<ClusterProfile>()
            .put(serde_json::from_value(profile).unwrap());
        let list = |it: BTreeSet<String>| it.into_iter().collect::<Vec<_>>().join(" ");
        assert_eq!(list(keys.of_cluster(None, Some(&found))), "kueue/cluster1");
        assert_eq!(list(keys.of_cluster(Some(&found), Some(&found))), "");
        assert_eq!(list(keys.of_set(Some(&set("prod")), None)), "kueue/cluster1 kueue/gone");
        assert_eq!(list(keys.of_set(Some(&set("prod")), Some(&set("prod")))), "");
        assert_eq!(
            list(keys.of_binding(None, Some(&binding("prod")))),
            "kueue/cluster1 kueue/gone"
        );
        assert_eq!(list(keys.of_binding(None, Some(&binding("other")))), "kueue/gone");
        // The binding was made anew for another set before anybody looked.
        caches.of().put(binding("other"));
        assert_eq!(list(keys.of_set(Some(&set("prod")), None)), "");
    }
}
