//! A cluster for programs that speak the multicluster SIG's API: a ClusterProfile wherever a set of the cluster is
//! bound. Upstream: ocm `pkg/registration/hub/clusterprofile`, which moves profiles at its next resync only.
//!
//! Root: ClusterProfile, by `namespace/cluster`. Reads: its ManagedCluster, the namespace, the bindings there and their
//! ManagedClusterSets. Writes: the profile, its three labels, its `status.version` and `status.properties`, conditions
//! `ControlPlaneHealthy` and `Joined`. Never: `status.accessProviders`, which add-ons write, nor a profile of another
//! manager.

mod binding;
mod keys;
mod profile;

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding},
    conditions::cluster_profile,
    multicluster::ClusterProfile,
    namespaces,
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, StatusField, Watches, async_trait, cache::split_key, rbac::Right,
};

use self::{
    binding::{BoundSet, bound_set},
    keys::ProfileKeys,
};
use super::permissions;
use crate::api_reader::ApiReader;

/// The reconciler.
pub struct ClusterProfiles {
    api: ApiReader,
    clusters: Cache<ManagedCluster>,
    sets: Cache<ManagedClusterSet>,
    bindings: Cache<ManagedClusterSetBinding>,
    profiles: Cache<ClusterProfile>,
    keys: ProfileKeys,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// Where the profile is, or would be.
    pub namespace: String,
    /// The profile; `None` when there is none.
    pub profile: Option<Arc<ClusterProfile>>,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// The bindings of the namespace.
    pub bindings: Vec<Arc<ManagedClusterSetBinding>>,
    /// The sets that these name, as far as they exist.
    pub sets: Vec<Arc<ManagedClusterSet>>,
    /// Whether the namespace takes new objects. Looked at only where there is no profile yet.
    pub open: bool,
}

impl ClusterProfiles {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            api: ApiReader::of(caches),
            clusters: caches.of(),
            sets: caches.of(),
            bindings: caches.of(),
            profiles: caches.of(),
            keys: ProfileKeys::new(caches),
        }
    }
}

#[async_trait]
impl Reconciler for ClusterProfiles {
    const NAME: &'static str = "cluster-profile";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[
        StatusField::new(ClusterProfile::KIND, "version"),
        StatusField::new(ClusterProfile::KIND, "properties"),
        StatusField::condition(ClusterProfile::KIND, cluster_profile::CONTROL_PLANE_HEALTHY),
        StatusField::condition(ClusterProfile::KIND, cluster_profile::JOINED),
    ];
    const RIGHTS: &'static [Right] = permissions::PROFILES;
    type Seen = Seen;

    /// Profiles, and whatever decides that there is one or what it says.
    fn watches(&self, watches: &mut Watches) {
        let [of_cluster, of_set, of_binding] = std::array::from_fn(|_| self.keys.clone());
        watches
            .root(&self.profiles)
            .wakes(&self.clusters, move |old, new| of_cluster.of_cluster(old, new))
            .wakes(&self.sets, move |old, new| of_set.of_set(old, new))
            .wakes(&self.bindings, move |old, new| of_binding.of_binding(old, new));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let (profile, cluster) = (self.profiles.get(namespace, name), self.clusters.named(name));
        let bindings = self.bindings.list_in(namespace);
        let sets = bindings.iter().map(|it| self.sets.named(&it.spec.cluster_set));
        let sets = sets.flatten().collect();
        let mut open = false;
        if profile.is_none() && cluster.is_some() && !bindings.is_empty() {
            let namespaces: Api<Namespace> = Api::all(self.api.client()?.clone());
            let found = namespaces.get_metadata_opt(namespace).await?;
            open = found.is_some_and(|it| it.metadata.deletion_timestamp.is_none());
        }
        Ok(Seen {
            now: Timestamp::now(),
            namespace: namespace.to_owned(),
            profile,
            cluster,
            bindings,
            sets,
            open,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if let Some(it) = seen.profile.as_deref() {
            if it.metadata.deletion_timestamp.is_some() {
                return plan;
            }
            let manager = &it.spec.cluster_manager.name;
            if manager != namespaces::CLUSTER_PROFILE_MANAGER {
                plan.remark(format!("a profile of the cluster manager {manager:?} is not ours"));
                return plan;
            }
        }
        match bound_set(seen) {
            BoundSet::HasCluster(cluster) => profile::show(&mut plan, seen, cluster),
            BoundSet::None => profile::remove(&mut plan, seen),
            BoundSet::MadeAnew(until) => {
                plan.wait("a set that the hub makes anew is missing");
                if let Some(it) = until.and_then(|it| it.duration_since(seen.now).try_into().ok()) {
                    plan.look_again(it);
                }
            }
        }
        plan
    }
}

#[cfg(test)]
#[path = "cluster_profiles_tests.rs"]
mod tests;
