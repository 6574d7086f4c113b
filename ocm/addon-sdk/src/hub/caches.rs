//! One watch per kind, shared by all reconcilers of all add-ons in the process, and by whoever else runs there.

use std::fmt::Debug;

use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
};
use kube::{Api, Client, Resource, runtime::watcher};
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::ManagedCluster,
    labels,
    work::ManifestWork,
};
use ocm_reconcile::{Cache, cache::Watching};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::{configs::Configs, open_requests};

/// The caches. CSRs and RBAC objects are watched by the add-on label only, so that the hub does not hold what other people
/// keep on it.
#[derive(Clone)]
pub struct Caches {
    /// All clusters.
    pub clusters: Cache<ManagedCluster>,
    /// All add-ons on all clusters.
    pub addons: Cache<ManagedClusterAddOn>,
    /// The add-ons that the hub offers.
    pub cluster_management_addons: Cache<ClusterManagementAddOn>,
    /// Works: at least those of add-ons; whoever shares a cache of all works has others in it too.
    pub works: Cache<ManifestWork>,
    /// Certificate requests of add-ons. Those that wait for nobody are there without their certificates.
    pub requests: Cache<CertificateSigningRequest>,
    /// Roles of add-ons.
    pub roles: Cache<Role>,
    /// RoleBindings of add-ons.
    pub role_bindings: Cache<RoleBinding>,
    /// ClusterRoles of add-ons.
    pub cluster_roles: Cache<ClusterRole>,
    /// ClusterRoleBindings of add-ons.
    pub cluster_role_bindings: Cache<ClusterRoleBinding>,
    /// The configuration objects of all kinds that add-ons understand.
    pub configs: Configs,
}

/// Caches that run already in this process. What is missing is started.
#[derive(Clone, Default)]
pub struct Shared {
    /// All clusters.
    pub clusters: Option<Cache<ManagedCluster>>,
    /// All add-ons on all clusters.
    pub addons: Option<Cache<ManagedClusterAddOn>>,
    /// The add-ons that the hub offers.
    pub cluster_management_addons: Option<Cache<ClusterManagementAddOn>>,
    /// All works, or at least those of add-ons.
    pub works: Option<Cache<ManifestWork>>,
}

impl Caches {
    /// Starts all watches. They end with `cancel`.
    pub fn start(client: &Client, cancel: &CancellationToken) -> Self {
        Self::start_with(client, Shared::default(), cancel)
    }

    /// Starts the watches that are not shared. They end with `cancel`.
    pub fn start_with(client: &Client, shared: Shared, cancel: &CancellationToken) -> Self {
        let of_addons = || watcher::Config::default().labels(labels::ADDON_NAME);
        let addons = shared
            .addons
            .unwrap_or_else(|| Cache::start(Api::all(client.clone()), cancel.clone()));
        let cluster_management_addons = shared
            .cluster_management_addons
            .unwrap_or_else(|| Cache::start(Api::all(client.clone()), cancel.clone()));
        Self {
            clusters: shared
                .clusters
                .unwrap_or_else(|| Cache::start(Api::all(client.clone()), cancel.clone())),
            works: shared
                .works
                .unwrap_or_else(|| Cache::start_with(Api::all(client.clone()), of_addons(), cancel.clone())),
            requests: Cache::start_shaped(
                Api::all(client.clone()),
                Watching {
                    selection: of_addons(),
                    ..Watching::default()
                },
                cancel.clone(),
                |_, it| open_requests::lighten(it),
            ),
            roles: start(client, cancel),
            role_bindings: start(client, cancel),
            cluster_roles: start(client, cancel),
            cluster_role_bindings: start(client, cancel),
            configs: Configs::new(client.clone(), &addons, &cluster_management_addons, cancel.clone()),
            addons,
            cluster_management_addons,
        }
    }
}

fn start<K>(client: &Client, cancel: &CancellationToken) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let watching = Watching {
        selection: watcher::Config::default().labels(labels::ADDON_NAME),
        forbidden_at_first: true,
        ..Watching::default()
    };
    Cache::start_watching(Api::all(client.clone()), watching, cancel.clone())
}
