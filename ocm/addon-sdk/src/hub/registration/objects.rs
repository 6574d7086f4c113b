//! The RBAC objects of an add-on on a cluster as they are, and what has to be done about them.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope,
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{Api, Resource, ResourceExt};
use ocm_api::labels;
use ocm_reconcile::{
    Cache, ObserveError, Plan, Site,
    cache::split_key,
    caches::Watchable,
    install::{DROVER, MANAGED_BY},
};

use crate::hub::{
    Context,
    rbac::{self, RbacObjects},
    rbac_objects::{AgentBindings, RbacCaches},
};

/// What is known without knowing what the add-on asks for.
#[derive(Clone, Debug, Default)]
pub struct PresentObjects {
    /// Of the add-on, in the cluster's namespace.
    pub roles: Vec<Arc<Role>>,
    /// Of the add-on, in the cluster's namespace.
    pub role_bindings: Vec<Arc<RoleBinding>>,
    /// That this SDK keeps for the agent on this cluster, wherever they are.
    pub role_bindings_of_agent: Vec<Arc<RoleBinding>>,
    /// That this SDK keeps for the agent on this cluster.
    pub cluster_role_bindings_of_agent: Vec<Arc<ClusterRoleBinding>>,
    /// Whether these are all the role bindings: a program of its own need not be allowed to list them.
    pub has_all_role_bindings: bool,
    /// The same of the cluster role bindings.
    pub has_all_cluster_role_bindings: bool,
}

/// Those that have the names of what the add-on asks for, whoever has made them.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct NamedObjects {
    pub roles: Vec<Arc<Role>>,
    pub role_bindings: Vec<Arc<RoleBinding>>,
    pub cluster_roles: Vec<Arc<ClusterRole>>,
    pub cluster_role_bindings: Vec<Arc<ClusterRoleBinding>>,
}

/// Those that there are and nobody may want any more.
#[derive(Default)]
pub(super) struct Stale {
    pub roles: Vec<Arc<Role>>,
    pub role_bindings: Vec<Arc<RoleBinding>>,
    pub cluster_role_bindings: Vec<Arc<ClusterRoleBinding>>,
}

/// Whether an object with these labels is one that this SDK keeps for an add-on.
pub(super) fn is_kept(labels: &BTreeMap<String, String>, addon: &str) -> bool {
    let is = |key: &str, value: &str| labels.get(key).is_some_and(|it| it == value);
    is(labels::ADDON_NAME, addon) && is(MANAGED_BY, DROVER)
}

/// What is known of the add-on of this key.
pub(super) fn present(caches: &RbacCaches, bindings: &AgentBindings, key: &str) -> PresentObjects {
    let (cluster, name) = split_key(key);
    let is_of_addon = |labels: &BTreeMap<String, String>| labels.get(labels::ADDON_NAME).is_some_and(|it| it == name);
    let (mut roles, mut role_bindings) = (caches.roles.list_in(cluster), caches.role_bindings.list_in(cluster));
    roles.retain(|it| is_of_addon(it.labels()));
    role_bindings.retain(|it| is_of_addon(it.labels()));
    PresentObjects {
        roles,
        role_bindings,
        role_bindings_of_agent: bindings.role_bindings.objects(key),
        cluster_role_bindings_of_agent: bindings.cluster_role_bindings.objects(key),
        has_all_role_bindings: caches.role_bindings.is_synced(),
        has_all_cluster_role_bindings: caches.cluster_role_bindings.is_synced(),
    }
}

impl PresentObjects {
    /// Whether there may be more bindings of what an add-on asks for than these.
    pub(super) fn may_lack(&self, wanted: &RbacObjects) -> bool {
        (!self.has_all_role_bindings && !wanted.role_bindings.is_empty())
            || (!self.has_all_cluster_role_bindings && !wanted.cluster_role_bindings.is_empty())
    }

    /// Of what an add-on asks for, the bindings that can only be found by their names.
    pub(super) fn unlisted(&self, mut wanted: RbacObjects) -> RbacObjects {
        if self.has_all_role_bindings {
            wanted.role_bindings.clear();
        }
        if self.has_all_cluster_role_bindings {
            wanted.cluster_role_bindings.clear();
        }
        RbacObjects {
            role_bindings: wanted.role_bindings,
            cluster_role_bindings: wanted.cluster_role_bindings,
            ..RbacObjects::default()
        }
    }
}

impl NamedObjects {
    /// Without the bindings that are `present`.
    pub(super) fn without(mut self, present: &PresentObjects) -> Self {
        let role_bindings = || present.role_bindings.iter().chain(&present.role_bindings_of_agent);
        self.role_bindings
            .retain(|it| !role_bindings().any(|other| is_same(&**other, &**it)));
        let of_hub = &present.cluster_role_bindings_of_agent;
        self.cluster_role_bindings
            .retain(|it| !of_hub.iter().any(|other| is_same(&**other, &**it)));
        self
    }
}

/// Keeps what is wanted, and deletes what is stale and not wanted.
pub(super) fn keep(plan: &mut Plan, objects: &RbacObjects, named: &NamedObjects, stale: &Stale) {
    // A binding cannot change its role: one that has another goes first, and the right one comes in the next stage.
    let mut later = Plan::new();
    for desired in &objects.roles {
        rbac::keep_role(&mut later, same(&named.roles, desired), desired);
    }
    for desired in &objects.cluster_roles {
        rbac::keep_cluster_role(&mut later, same(&named.cluster_roles, desired), desired);
    }
    for desired in &objects.role_bindings {
        let mut found = same(&named.role_bindings, desired);
        if let Some(other) = found.filter(|it| it.role_ref != desired.role_ref) {
            plan.delete(Site::Hub, other);
            found = None;
        }
        rbac::keep_role_binding(&mut later, found, desired);
    }
    for desired in &objects.cluster_role_bindings {
        let mut found = same(&named.cluster_role_bindings, desired);
        if let Some(other) = found.filter(|it| it.role_ref != desired.role_ref) {
            plan.delete(Site::Hub, other);
            found = None;
        }
        rbac::keep_cluster_role_binding(&mut later, found, desired);
    }
    for stale in &stale.roles {
        if !objects.roles.iter().any(|it| is_same(it, &**stale)) {
            plan.delete(Site::Hub, &**stale);
        }
    }
    for stale in &stale.role_bindings {
        if !objects.role_bindings.iter().any(|it| is_same(it, &**stale)) {
            plan.delete(Site::Hub, &**stale);
        }
    }
    for stale in &stale.cluster_role_bindings {
        if !objects.cluster_role_bindings.iter().any(|it| is_same(it, &**stale)) {
            plan.delete(Site::Hub, &**stale);
        }
    }
    plan.then(later);
}

fn is_same<K: Resource>(a: &K, b: &K) -> bool {
    a.meta().name == b.meta().name && a.meta().namespace == b.meta().namespace
}

fn same<'a, K: Resource>(all: &'a [Arc<K>], desired: &K) -> Option<&'a K> {
    all.iter().map(|it| &**it).find(|it| is_same(*it, desired))
}

/// The objects that have the names of what is wanted.
pub(super) async fn named(
    context: &Context,
    caches: &RbacCaches,
    wanted: &RbacObjects,
) -> Result<NamedObjects, ObserveError> {
    Ok(NamedObjects {
        roles: in_namespaces(context, &caches.roles, &wanted.roles).await?,
        role_bindings: in_namespaces(context, &caches.role_bindings, &wanted.role_bindings).await?,
        cluster_roles: of_the_hub(context, &caches.cluster_roles, &wanted.cluster_roles).await?,
        cluster_role_bindings: of_the_hub(context, &caches.cluster_role_bindings, &wanted.cluster_role_bindings)
            .await?,
    })
}

// What the cache does not have may still be there: it may lack our label, or the watch may not have brought it yet.
async fn in_namespaces<K>(context: &Context, cache: &Cache<K>, wanted: &[K]) -> Result<Vec<Arc<K>>, ObserveError>
where
    K: Watchable + Resource<Scope = NamespaceResourceScope>,
{
    let mut found = Vec::new();
    for it in wanted {
        let (namespace, name) = (it.namespace().unwrap_or_default(), it.name_any());
        match cache.get(&namespace, &name) {
            Some(object) => found.push(object),
            None => {
                let api = Api::<K>::namespaced(context.client()?, &namespace);
                found.extend(api.get_opt(&name).await?.map(Arc::new));
            }
        }
    }
    Ok(found)
}

async fn of_the_hub<K>(context: &Context, cache: &Cache<K>, wanted: &[K]) -> Result<Vec<Arc<K>>, ObserveError>
where
    K: Watchable + Resource<Scope = ClusterResourceScope>,
{
    let mut found = Vec::new();
    for it in wanted {
        let name = it.name_any();
        match cache.named(&name) {
            Some(object) => found.push(object),
            None => found.extend(Api::<K>::all(context.client()?).get_opt(&name).await?.map(Arc::new)),
        }
    }
    Ok(found)
}
