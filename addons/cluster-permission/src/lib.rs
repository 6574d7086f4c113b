//! The add-on cluster-permission: a ClusterPermission on the hub becomes roles and bindings on its cluster.
//!
//! ```text
//! hub, namespace of the cluster
//!   ClusterPermission ---+
//!   ManagedServiceAccount +--> payload --> ManifestWork --> the cluster's work agent --> roles and bindings
//!   ManagedClusterAddOn --+                     |
//!   Namespace (all) ------+                     v
//!   ClusterPermission status <------------- its status
//! ```
//!
//! It runs on the hub alone: [`controllers`] is what a hub process runs in itself, and `cluster-permission` is the
//! program of upstream's image ([`run`]).
//!
//! Conditions, reasons and texts are upstream's (`cluster-permission`, `controllers/`). Ours reacts where upstream does
//! not look:
//!
//! 1. A ManagedCluster that appears, a ManagedServiceAccount, its add-on, and the labels of Namespaces that a
//!    namespaceSelector is evaluated over wake the ClusterPermissions that are concerned.
//! 2. Condition `Validation` becomes True, with reason `Validated`, when what was wrong has been put right.
//! 3. Two different objects of one name, such as two `clusterRoleBindings` without a name, are refused.
//! 4. `validate` does not look for roles that the ClusterPermission makes itself: upstream's manifest for it would keep
//!    the role from being updated. The two conditions of `validate` go when it is turned off.
//! 5. A ManifestWork of the same name that belongs to somebody else is left alone.

pub mod payload;
pub mod permissions;
mod program;
pub mod status;

use ocm_addon_sdk::reconcile::{Caches, Controller};

pub use program::{PROGRAMS, run};

/// The name of the add-on.
pub const NAME: &str = "cluster-permission";

/// What a hub process runs in itself.
pub fn controllers(caches: &Caches) -> Vec<Controller> {
    vec![Controller::new(permissions::Permissions::new(caches))]
}
