//! A hub and clusters that know OCM's kinds.

use crate::site::Site;
use ocm_reconcile::install;

/// A hub and clusters; none of OCM's programs runs on them yet.
pub struct World {
    pub hub: Site,
    pub clusters: Vec<Site>,
}

impl World {
    /// A hub and `clusters` clusters.
    ///
    /// # Panics
    /// When they cannot be started, which in memory nothing should prevent.
    pub async fn new(clusters: usize) -> Self {
        let start = async || Site::start().await.expect("an API server in memory starts");
        let hub = start().await;
        install::install_crds(&hub.client(), ocm_api::crds::hub())
            .await
            .expect("the hub takes OCM's definitions");
        let mut world = Self {
            hub,
            clusters: Vec::new(),
        };
        for _ in 0..clusters {
            let cluster = start().await;
            let installed = install::install_crds(&cluster.client(), ocm_api::crds::managed_cluster()).await;
            installed.expect("the cluster takes OCM's definitions");
            world.clusters.push(cluster);
        }
        world
    }
}
