//! What a Klusterlet asks for: an agent on this cluster, or on this one for another.
//!
//! ```text
//! Klusterlet --klusterlets--> definitions, roles, Secrets, Deployments
//!     |  ^-----hub_access---- SelfSubjectAccessReviews of the hub
//!     |  ^-----availability-- Deployments
//!     +-------cleanup-------> all of it away again
//! Namespaces of add-ons --addon_pull_secret, addon_tls_profile--> copies
//! ```

pub mod access;
pub mod addon_pull_secret;
pub mod addon_tls_profile;
mod asking;
pub mod availability;
pub mod cleanup;
pub mod deployment;
pub mod external;
mod former;
mod ground;
pub mod hub_access;
mod install;
pub mod klusterlets;
mod look;
pub mod names;
mod network;
mod pace;
mod permissions;
mod pods;
mod rbac;
pub mod remains;
mod removal;
mod said;
pub mod scene;
pub mod settings;
mod tokens;
mod wanted;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, runtime::watcher};
use ocm_api::{labels, namespaces::PULL_SECRET};
use ocm_reconcile::{Caches, Clients, Controller, Running, cache::Watching, controller::start_all};
use tokio_util::sync::CancellationToken;

use crate::Layout;
use ground::AgentOperator;
pub use permissions::RIGHTS;

/// After how long a hub that refuses is asked again, unless the operator is told.
pub const HUB_ACCESS_CHECK_INTERVAL: Duration = Duration::from_secs(30);

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
    /// After how long a hub that refuses is asked again.
    pub hub_access_check_interval: Duration,
}

/// Starts the controllers of Klusterlets. They end with `cancel`.
pub async fn start(client: Client, options: Options, cancel: CancellationToken) -> Vec<Running> {
    let caches = Caches::new(client.clone(), cancel.clone());
    let clients = Clients::management(client.clone()).and_cluster(client.clone());
    start_all(controllers(client, &caches, options), &clients, &cancel)
}

/// The controllers of Klusterlets.
pub fn controllers(client: Client, caches: &Caches, options: Options) -> Vec<Controller> {
    let named = |name: &str| Watching {
        selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
        ..Watching::default()
    };
    let operator = Arc::new(AgentOperator::new(client, caches, options));
    let wanting = caches.labelled(&format!("{}=true", labels::ADDON_WANTS_COPIES));
    let pull_secrets = caches.watching(named(PULL_SECRET));
    let profiles = caches.watching::<ConfigMap>(named(names::TLS_PROFILE));
    vec![
        Controller::new(klusterlets::Klusterlets::new(operator.clone())),
        Controller::new(cleanup::Cleanup::new(operator.clone())),
        Controller::new(hub_access::HubAccess::new(operator.clone())),
        Controller::new(availability::AgentAvailability::new(operator.clone())),
        Controller::new(addon_pull_secret::AddonPullSecret::new(
            operator.clone(),
            wanting.clone(),
            pull_secrets,
        )),
        Controller::new(addon_tls_profile::AddonTlsProfile::new(operator, wanting, profiles)),
    ]
}

#[cfg(test)]
mod plans_tests;
#[cfg(test)]
mod words_tests;
