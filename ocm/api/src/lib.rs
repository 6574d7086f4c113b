//! The words of Open Cluster Management: kinds, names, conditions and reasons, with no client
//! and no runtime behind them.
//!
//! Every kind is a plain struct with `metadata`, `spec` and `status`, implements [`kube::Resource`], tolerates what a
//! Go client may leave out or write as null, and serializes the way Go does: empty optional fields are left out.
//!
//! ```
//! use ocm_api::cluster::{ManagedCluster, ManagedClusterSpec};
//!
//! let cluster = ManagedCluster::new("cluster1", ManagedClusterSpec { hub_accepts_client: true, ..Default::default() });
//! assert_eq!(cluster.spec.lease_seconds(), 60);
//! ```

#![warn(missing_docs)]

mod kind;
mod null;
mod schema;

pub mod about;
pub mod addon;
pub mod annotations;
pub mod apps;
pub mod authentication;
pub mod cluster;
pub mod condition;
pub mod conditions;
pub mod crds;
pub mod finalizers;
pub mod gitops;
pub mod identity;
pub mod labels;
pub mod multicluster;
pub mod namespaces;
pub mod object;
pub mod operator;
pub mod policy;
pub mod proxy;
pub mod rbac;
pub mod selector;
pub mod selector_text;
pub mod work;

pub use condition::{Condition, Status};
pub use kind::{Column, Kind};
pub use object::RawObject;
