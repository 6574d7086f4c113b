//! A controller of your own on a hub: every cluster that the hub has accepted finds the ConfigMap `welcome`
//! in its namespace.
//!
//! Root: ManagedCluster. Reads: ManagedClusters, ConfigMaps of the name `welcome`.
//! Writes: that ConfigMap. Never: deletes it, because it goes with the cluster's namespace;
//! or touches what others put into it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, runtime::watcher};
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::{
    Cache, Caches, Controller, ObserveError, Plan, Reconciler, Running, Site, Watches, async_trait, cache::Watching,
};
use tokio_util::sync::CancellationToken;

/// The name of the ConfigMap.
pub const WELCOME: &str = "welcome";

/// The reconciler: what it looks at the world with.
pub struct Welcome {
    clusters: Cache<ManagedCluster>,
    config_maps: Cache<ConfigMap>,
}

/// All that a plan is made from. A test builds one by hand.
pub struct Seen {
    /// The root; `None` if it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// What is there already.
    pub config_map: Option<Arc<ConfigMap>>,
}

#[async_trait]
impl Reconciler for Welcome {
    const NAME: &'static str = "welcome";
    type Seen = Seen;

    /// A change of a cluster has that cluster looked at, and so does one of its ConfigMap,
    /// whose namespace has its name.
    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.clusters).wakes(&self.config_maps, |old, new| {
            new.or(old).and_then(|it| it.metadata.namespace.clone())
        });
    }

    /// Looks, here into caches alone, and decides nothing.
    async fn observe(&self, cluster: &str) -> Result<Seen, ObserveError> {
        Ok(Seen {
            cluster: self.clusters.named(cluster),
            config_map: self.config_maps.get(cluster, WELCOME),
        })
    }

    /// Decides, and does nothing. If a step fails (the namespace may not be there yet), the run is tried again,
    /// with a growing delay.
    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen.cluster.as_deref() else {
            return plan;
        };
        let name = cluster.metadata.name.clone().unwrap_or_default();
        if !cluster.spec.hub_accepts_client {
            plan.wait(format!("{name} waits to be accepted"));
            return plan;
        }
        if cluster.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let mut desired = ConfigMap::default();
        desired.metadata.name = Some(WELCOME.to_owned());
        desired.metadata.namespace = Some(name.clone());
        desired.data = Some([("cluster".to_owned(), name)].into());
        // Creates it, patches what differs, or adds no step where all is as it should be.
        plan.keep(Site::Hub, seen.config_map.as_deref(), &desired);
        plan
    }
}

impl Welcome {
    /// Over the caches of the process, of which it asks for those that it reads.
    pub fn new(caches: &Caches) -> Self {
        let selection = watcher::Config::default().fields(&format!("metadata.name={WELCOME}"));
        Self {
            clusters: caches.of(),
            config_maps: caches.watching(Watching {
                selection,
                ..Watching::default()
            }),
        }
    }
}

/// Runs the controller until it is cancelled.
pub fn start(hub: Client, cancel: &CancellationToken) -> Running {
    let caches = Caches::new(hub.clone(), cancel.clone());
    Controller::new(Welcome::new(&caches)).start_on_hub(hub, cancel.clone())
}
