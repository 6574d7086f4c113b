//! The cluster's half: Subscriptions are deployed.
//!
//! ```text
//! hub                                         cluster
//!   Channel, Secret, ConfigMap --channels--+    Subscription (copied) <--- ManifestWork
//!   Git, Helm repository, bucket --source--+--> deploy: due, desired, decide --> objects, HelmReleases
//!   charts -----------------------------------> helm: releases of HelmReleases --> objects, Secrets
//!   SubscriptionReport (cluster) <--- report -- SubscriptionStatus, Subscription status <-- statuses
//! ```
//!
//! Ours differs from upstream's:
//!
//! 1. Merging is a server-side apply: a field that the source no longer has goes, one that others have set stays.
//! 2. What is there already as the source has it is not written again.
//! 3. While part of a source cannot be read, nothing is deleted.
//! 4. A kind whose definition is in the source is waited for.
//! 5. The hub hears of a result when it changes.

pub mod channels;
pub mod decide;
pub mod deploy;
pub mod desired;
pub mod due;
pub mod helm;
pub mod report;
pub mod statuses;

use std::sync::Arc;

use ocm_addon_sdk::{
    kube::Client,
    reconcile::{Caches, Clients, Controller},
};
use tokio_util::sync::CancellationToken;

use crate::source::SourceReader;
use deploy::{DeploySite, SubscriptionDeployment};
use helm::{ChartReader, HelmReleaseInstallation};

/// The API servers of a cluster's half.
#[derive(Clone)]
pub struct ClusterClients {
    /// The hub, as the add-on's agent; `None` for a cluster of its own.
    pub hub: Option<Client>,
    /// The cluster.
    pub cluster: Client,
}

/// Who reads for a cluster.
#[derive(Clone)]
pub struct ClusterReaders {
    /// The sources of Subscriptions.
    pub sources: Arc<dyn SourceReader>,
    /// The charts of HelmReleases.
    pub charts: Arc<dyn ChartReader>,
}

/// The reconcilers of a cluster, each with the clients that it writes with. They watch until `stop`.
pub fn controllers(
    clients: &ClusterClients,
    cluster: &str,
    readers: &ClusterReaders,
    stop: &CancellationToken,
) -> Vec<(Controller, Clients)> {
    let caches = Caches::new(clients.cluster.clone(), stop.clone());
    let site = DeploySite {
        cluster: cluster.to_owned(),
        standalone: clients.hub.is_none(),
    };
    let channels = clients.hub.clone().unwrap_or_else(|| clients.cluster.clone());
    let own = clients.cluster.clone();
    let deployment = SubscriptionDeployment::new(&caches, site, channels, own.clone(), readers.sources.clone());
    let releases = HelmReleaseInstallation::new(&caches, own.clone(), readers.charts.clone());
    let writing = Clients::cluster(own);
    let mut all = vec![
        (Controller::new(deployment), writing.clone()),
        (Controller::new(releases), writing),
    ];
    if let Some(hub) = &clients.hub {
        let on_hub = Caches::new(hub.clone(), stop.clone());
        let report = report::ClusterReport::new(&on_hub, &caches, cluster);
        all.push((Controller::new(report), Clients::hub(hub.clone())));
    }
    all
}
