//! The add-on config-policy-controller: what a cluster must have, and must not have, is checked and put right.
//!
//! ```text
//!                     +-- controller: a live cluster, its watches and its API server
//! ConfigurationPolicy |        v
//! OperatorPolicy -----+--> evaluate, operator --> Cluster: what there is, what is done
//!                     |        ^
//!                     +-- dryrun: files
//! ```
//!
//! [`evaluate`] judges a ConfigurationPolicy, the same for a cluster and for files; it sees a cluster as a
//! [`cluster::Cluster`]. Upstream: config-policy-controller.

pub mod addon;
pub mod cluster;
pub mod controller;
pub mod dryrun;
pub mod evaluate;
pub mod operator;

/// The name of the add-on.
pub const NAME: &str = "config-policy-controller";

/// The names of the programs in the image.
pub const PROGRAMS: &[&str] = controller::PROGRAMS;

/// Runs one of the programs with its arguments, without its name.
pub use controller::run;
