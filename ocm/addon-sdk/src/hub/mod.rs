//! The hub's half: one set of reconcilers for all add-ons of the process.
//!
//! Twenty add-ons on two hundred clusters are four thousand keys in a handful of queues, not twenty programs with a
//! watch per kind each. A reconciler finds the add-on of a key in the [`Registry`],
//! so add-ons come and go while it runs.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use ocm_addon_sdk::{AddOn, hub};
//! # async fn example(client: kube::Client, greeter: Arc<dyn AddOn>, stop: tokio_util::sync::CancellationToken) {
//! // A program of its own.
//! hub::run(client.clone(), vec![greeter.clone()], stop.clone()).await.unwrap();
//!
//! // In a process that has watches already.
//! let caches = hub::Caches::new(client.clone(), stop.clone());
//! let manager = hub::Manager::start(client, &caches, hub::Options::default(), stop).await.unwrap();
//! manager.add(greeter).unwrap();
//! # }
//! ```

pub mod approval;
mod authorities;
pub mod authority;
pub mod claims;
pub mod config_hashes;
pub mod configs;
pub mod context;
pub mod custom_signer;
pub mod default_hashes;
pub mod manager;
pub mod open_requests;
pub mod rbac;
pub mod rbac_objects;
pub mod registration;
pub mod registry;
pub mod renewal;
pub mod request;
pub(crate) mod rights;
pub mod shared_permissions;
pub mod signing;
pub mod trigger;

pub use configs::{ConfigKey, Configs, Lookup};
pub use context::{Context, InstalledAddOn, Look, Options};
pub use manager::{Manager, StartError, controllers, run, start};
pub use registration::owned_by;
pub use registry::{AddError, Entry, Registry};
pub use trigger::Trigger;

// Who has watches already hands them to [`Manager::start`].
pub use ocm_reconcile::Caches;

/// How many keys one reconciler works on at a time. Upstream has 1; ours share nothing between keys.
pub(crate) const WORKERS: usize = 4;
