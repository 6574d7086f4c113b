//! What a Klusterlet asks for: an agent on this cluster, or on this one for another.

use kube::Client;
use ocm_reconcile::Running;
use tokio_util::sync::CancellationToken;

use crate::Layout;

/// What the operator of agents is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many Deployments an agent is.
    pub layout: Layout,
    /// The namespace that the operator runs in.
    pub namespace: String,
    /// The nodes that are counted for the number of replicas.
    pub control_plane_node_label_selector: String,
    /// The number of replicas; 0 for the number that the control plane's nodes allow.
    pub deployment_replicas: i32,
    /// Do not make the namespace `open-cluster-management-agent-addon`.
    pub disable_default_addon_namespace: bool,
    /// Copy the labels of a Klusterlet to what is made for it.
    pub enable_sync_labels: bool,
}

/// Starts the controllers of Klusterlets. They end with `cancel`.
pub async fn start(client: Client, options: Options, cancel: CancellationToken) -> Vec<Running> {
    let _ = (client, options, cancel);
    Vec::new()
}
