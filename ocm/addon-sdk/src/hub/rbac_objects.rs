//! The RBAC objects of add-ons on the hub: those of one agent found by cluster and add-on, and those that the agents of
//! all clusters share by add-on, without looking at all.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::{Resource, ResourceExt, api::DynamicObject, runtime::watcher};
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, labels};
use ocm_reconcile::{
    Cache, Caches, Index,
    cache::Watching,
    caches::Watchable,
    install::{DROVER, MANAGED_BY},
};

use super::claims;

/// The RBAC objects of add-ons, watched by the add-on label, so that a hub does not hold what other people keep on it.
#[derive(Clone)]
pub struct RbacCaches {
    /// In namespaces.
    pub roles: Cache<Role>,
    /// In namespaces.
    pub role_bindings: Cache<RoleBinding>,
    /// Of the whole hub.
    pub cluster_roles: Cache<ClusterRole>,
    /// Of the whole hub.
    pub cluster_role_bindings: Cache<ClusterRoleBinding>,
}

impl RbacCaches {
    /// Those of these caches. A program of its own need not be allowed to list them.
    pub fn of(caches: &Caches) -> Self {
        fn labelled<K: Watchable>(caches: &Caches) -> Cache<K> {
            caches.watching(Watching {
                selection: watcher::Config::default().labels(labels::ADDON_NAME),
                forbidden_at_first: true,
                ..Watching::default()
            })
        }
        Self {
            roles: labelled(caches),
            role_bindings: labelled(caches),
            cluster_roles: labelled(caches),
            cluster_role_bindings: labelled(caches),
        }
    }

    /// Puts in what was just written, so that the next look need not ask the API server for it.
    pub fn put(&self, object: &DynamicObject) {
        if object.metadata.deletion_timestamp.is_some() {
            return;
        }
        let kind = object.types.as_ref().map(|it| it.kind.as_str()).unwrap_or_default();
        let object = object.clone();
        // One that cannot be read comes by the watch.
        let _ = match kind {
            "Role" => object.try_parse().map(|it| self.roles.put(it)),
            "RoleBinding" => object.try_parse().map(|it| self.role_bindings.put(it)),
            "ClusterRole" => object.try_parse().map(|it| self.cluster_roles.put(it)),
            "ClusterRoleBinding" => object.try_parse().map(|it| self.cluster_role_bindings.put(it)),
            _ => Ok(()),
        };
    }
}

/// The bindings that single agents have, by `cluster/add-on`: outside of their clusters' namespaces, too.
#[derive(Clone)]
pub(super) struct AgentBindings {
    pub role_bindings: Index<RoleBinding>,
    pub cluster_role_bindings: Index<ClusterRoleBinding>,
}

impl AgentBindings {
    pub(super) fn over(rbac: &RbacCaches) -> Self {
        Self {
            role_bindings: Index::over(&rbac.role_bindings, key_of_agent),
            cluster_role_bindings: Index::over(&rbac.cluster_role_bindings, key_of_agent),
        }
    }
}

/// What the agents of an add-on on all clusters share, and where that is.
#[derive(Clone)]
pub(super) struct SharedByClusters {
    roles: Index<Role>,
    role_bindings: Index<RoleBinding>,
    cluster_roles: Index<ClusterRole>,
    cluster_role_bindings: Index<ClusterRoleBinding>,
    addons: Index<ManagedClusterAddOn>,
}

impl SharedByClusters {
    pub(super) fn over(rbac: &RbacCaches, addons: &Cache<ManagedClusterAddOn>) -> Self {
        Self {
            roles: Index::over(&rbac.roles, shared_by),
            role_bindings: Index::over(&rbac.role_bindings, shared_by),
            cluster_roles: Index::over(&rbac.cluster_roles, shared_by),
            cluster_role_bindings: Index::over(&rbac.cluster_role_bindings, shared_by),
            addons: Index::over(addons, |it| Some(it.name_any())),
        }
    }

    /// What they share.
    pub(super) fn of(&self, addon: &str) -> SharedObjects {
        SharedObjects {
            roles: self.roles.objects(addon),
            role_bindings: self.role_bindings.objects(addon),
            cluster_roles: self.cluster_roles.objects(addon),
            cluster_role_bindings: self.cluster_role_bindings.objects(addon),
        }
    }

    /// The clusters that have the add-on.
    pub(super) fn clusters_with(&self, addon: &str) -> Vec<String> {
        let names = self.addons.names(addon).into_iter();
        names.map(|(cluster, _)| cluster).collect()
    }
}

/// RBAC objects that the agents of an add-on on all clusters share.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct SharedObjects {
    pub roles: Vec<Arc<Role>>,
    pub role_bindings: Vec<Arc<RoleBinding>>,
    pub cluster_roles: Vec<Arc<ClusterRole>>,
    pub cluster_role_bindings: Vec<Arc<ClusterRoleBinding>>,
}

impl SharedObjects {
    /// Whether they share nothing, as with most add-ons.
    pub fn is_empty(&self) -> bool {
        self.roles.is_empty()
            && self.role_bindings.is_empty()
            && self.cluster_roles.is_empty()
            && self.cluster_role_bindings.is_empty()
    }
}

fn shared_by<K: Resource>(object: &K) -> Option<String> {
    claims::shared_by(object).map(str::to_owned)
}

/// The key of an object that this SDK keeps for one agent alone.
fn key_of_agent<K: Resource>(object: &K) -> Option<String> {
    let labels = object.labels();
    let (cluster, addon) = (labels.get(labels::CLUSTER_NAME)?, labels.get(labels::ADDON_NAME)?);
    (labels.get(MANAGED_BY)? == DROVER).then(|| format!("{cluster}/{addon}"))
}
