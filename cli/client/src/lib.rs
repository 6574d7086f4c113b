//! How commands speak to a Kubernetes API: from a kubeconfig to a client, from a failed request to one sentence that
//! names the thing and the fix, the token that a cluster joins with, and what commands read of the objects
//! that they find.

pub mod bootstrap;
pub mod cluster_name;
pub mod clusters;
pub mod conditions;
pub mod connect;
pub mod csr;
pub mod flags;
pub mod kinds;
