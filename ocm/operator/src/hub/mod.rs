//! What a ClusterManager asks for: a hub on this cluster, or on another one.
//!
//! ```text
//! ClusterManager --wanted--> Hub --install--> stages of objects --ClusterManagers--> API
//!       ^                                                              |
//!       +---------------- status: conditions, related resources <------+
//! ClusterManager ----------------------------------------ServingCertificates-------> Secrets, ca-bundle-configmap
//! ```
//!
//! Upstream: ocm `pkg/operator/operators/clustermanager`.

mod caches;
pub mod certificates;
mod cluster_managers;
mod deployments;
mod former;
mod hosted;
mod install;
mod network_policies;
mod owner;
mod removal;
mod rights;
mod roles;
mod serving_certificates;
mod status;
mod wanted;
mod webhooks;

use std::sync::Arc;

use kube::Client;
use ocm_reconcile::{Caches, Clients, Controller, Running, controller::start_all, rbac::Right};
use tokio_util::sync::CancellationToken;

pub use self::{
    certificates::CertificateTimes, cluster_managers::ClusterManagers, serving_certificates::ServingCertificates,
};
use crate::Layout;

/// What the operator of hubs is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many Deployments a hub is.
    pub layout: Layout,
    /// What a hub in one Deployment may do on its API server ([`Layout::Compact`]).
    pub compact_rights: &'static [Right],
    /// The namespace that the operator runs in.
    pub namespace: String,
    /// Leave the CRDs where they are when a ClusterManager is deleted.
    pub skip_remove_crds: bool,
    /// The nodes that are counted for the number of replicas.
    pub control_plane_node_label_selector: String,
    /// The number of replicas; 0 for the number that the control plane's nodes allow.
    pub deployment_replicas: i32,
    /// Copy the labels of a ClusterManager to what is made for it.
    pub enable_sync_labels: bool,
    /// The Secret of the operator's namespace that images are pulled with.
    pub image_pull_secret_name: String,
    /// The image that the cluster importer puts on clusters (environment variable `AGENT_IMAGE`).
    pub agent_image: Option<String>,
    /// How long the certificates of webhooks live.
    pub certificates: CertificateTimes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            layout: Layout::default(),
            compact_rights: &[],
            namespace: crate::NAMESPACE.to_owned(),
            skip_remove_crds: false,
            control_plane_node_label_selector: "node-role.kubernetes.io/master=".to_owned(),
            deployment_replicas: 0,
            enable_sync_labels: false,
            image_pull_secret_name: ocm_api::namespaces::PULL_SECRET.to_owned(),
            agent_image: None,
            certificates: CertificateTimes::default(),
        }
    }
}

/// The controllers of ClusterManagers.
pub fn controllers(client: &Client, caches: &Caches, options: Options) -> Vec<Controller> {
    let (sources, options) = (caches::HubCaches::new(caches, &options), Arc::new(options));
    vec![
        Controller::new(ServingCertificates::new(client.clone(), &sources, options.clone())),
        Controller::new(ClusterManagers::new(client.clone(), &sources, options)),
    ]
}

/// Starts the controllers of ClusterManagers. They end with `cancel`.
pub async fn start(client: Client, options: Options, cancel: CancellationToken) -> Vec<Running> {
    let caches = caches::shaped(Caches::new(client.clone(), cancel.clone()));
    let controllers = controllers(&client, &caches, options);
    start_all(controllers, &Clients::management(client), &cancel)
}
