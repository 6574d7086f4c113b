//! The add-on argocd-pull: Argo CD's Applications on the hub are carried out by the clusters that pull them.
//!
//! Basic mode ([`basic`]) wraps an Application that names a cluster into a ManifestWork and writes what the cluster
//! says of it back.
//!
//! Controller mode ([`gitops`]) carries out GitOpsClusters: agents of Argo CD on clusters that speak to a principal on
//! the hub. What it sends to the clusters is this program again, in modes addon and cleanup ([`cluster`]).
//!
//! Names, labels and texts are upstream's (`argocd-pull-integration`). Ours reacts where upstream does not look:
//!
//! 1. An Application whose cluster is not there yet waits for it; nothing is retried in between.
//! 2. A ManifestWork that was deleted or edited comes back, unless its cluster is being deleted.
//! 3. The ManifestWork of an Application that is gone is deleted when either changes; upstream's interval remains as a
//!    safety net. Before that the API server is asked whether the Application is really gone.
//! 4. A status that says already what the cluster says is not written again.
//! 5. The Secret of a cluster comes back when it was deleted.
//! 6. An `operation` stays in the work until the cluster has heard of it; upstream's may overtake it and be lost.
//! 7. What a cluster has for its agent is deleted when no GitOpsCluster has chosen it, rather than when this one has
//!    not: several GitOpsClusters would undo each other's work.
//! 8. On a cluster the operator of Argo CD is installed from objects that are written here and kinds without schemas;
//!    upstream's has those of the operator's release in it. The clean-up fails for whatever it could not delete, and
//!    what pauses mode addon goes with the add-on, which otherwise could not come again.

pub mod addon;
pub mod application;
pub mod basic;
pub mod cluster;
pub mod gitops;
mod program;
pub mod words;

pub use program::{PROGRAMS, run};

/// The name of the add-on.
pub const NAME: &str = "argocd";
