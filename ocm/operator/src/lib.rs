//! The operator: it puts a hub or an agent on a cluster, upgrades it and takes it off, as a `ClusterManager`
//! ([`hub`]) or a `Klusterlet` ([`klusterlet`]) says.
//! Upstream: ocm `pkg/operator`, which is the image `registration-operator`.
//!
//! ```text
//! ClusterManager --hub::Reconciler-------> CRDs, RBAC, Deployments, webhooks of a hub
//! Klusterlet ------klusterlet::Reconciler-> CRDs, RBAC, Deployments of an agent
//! ManagedCluster --importer::Importer---> the operator and a Klusterlet, on a cluster whose kubeconfig the hub has
//! ```

pub mod charts;
pub mod crds;
pub mod feature_gates;
pub mod hub;
pub mod importer;
pub mod klusterlet;
pub mod objects;
pub mod rbac;
pub mod replicas;

/// The release of Open Cluster Management that the operator installs: what CRDs are annotated with
/// (`operator.open-cluster-management.io/version`), so that neither upstream's operator of this release nor ours takes
/// the other's CRDs for newer ones.
pub const OCM_VERSION: &str = "1.3.1";

/// The namespace of the operators, unless their pod says another.
pub const NAMESPACE: &str = "open-cluster-management";

/// How many Deployments a hub or an agent is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One Deployment for each of upstream's components, with upstream's names, counts and arguments.
    #[default]
    Upstream,
    /// One Deployment for a hub, and one for an agent.
    Compact,
}
