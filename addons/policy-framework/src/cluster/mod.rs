//! The cluster's half of the policy framework: Policies come from the hub, their templates become objects, and what
//! those say goes back.
//!
//! ```text
//! hub, namespace of the cluster                        cluster, namespace of the cluster
//!   Policy (replica) ---------- policy-spec-sync ----> Policy --- policy-template-sync --> objects of its templates
//!   Policy status <------------ policy-status-sync --- Policy status <---- Events <--------- their controllers
//!   Secret policy-encryption-key ---- secret-sync ---> Secret             ^
//!                                                      constraints of Gatekeeper, by gatekeeper-constraint-status-sync
//! ```
//!
//! Upstream is `governance-policy-framework-addon`, whose names, texts and rules these are. Ours differs:
//!
//! 1. The objects of a kind share one watch, and definitions of kinds that Policies carry are watched: a template
//!    whose kind comes later is made at once.
//! 2. While the hub is away, the status on the cluster goes on, and the hub gets it when it is back. A process that
//!    starts while the hub is away works, too.
//! 3. A template that has changed its kind and kept its name leaves no object of the old kind behind.
//! 4. A Policy that is being deleted gives up its finalizer although some of its templates cannot be read or two have
//!    one name; cluster-scoped objects that are not its own stay.
//! 5. Before an object goes because of an error of hub templates it is told to prune nothing, and it goes only when
//!    that has been written.
//! 6. Gatekeeper has ten seconds to say whether it has taken a ConstraintTemplate, before its silence is an error.
//! 7. What is told of a template that has no name is in the status, under the name `template-INDEX`.

pub mod constraint_sync;
pub mod counters;
pub mod discovery;
pub mod gatekeeper;
pub mod history;
pub mod objects;
mod program;
pub mod secret_sync;
pub mod spec_sync;
pub mod status_sync;
pub mod tell;
pub mod template;
pub mod template_sync;
pub mod uninstall;

use std::sync::Arc;

use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Event,
    kube::{Client, runtime::watcher},
    ocm_api::policy::Policy,
    reconcile::{Cache, Caches, Clients, Controller, cache::Watching, metrics::also},
};
use tokio_util::sync::CancellationToken;

pub use program::{PROGRAMS, run};

use discovery::KindsOnCluster;
use objects::WatchedObjects;
use uninstall::Uninstallation;

/// The name of the add-on.
pub const ADD_ON: &str = "governance-policy-framework";

/// Where the add-on works.
#[derive(Clone, Debug)]
pub struct SyncSite {
    /// The namespace of Policies on the cluster.
    pub namespace: String,
    /// The namespace of the cluster on the hub.
    pub namespace_on_hub: String,
    /// Whether the cluster is the hub itself: there is nothing to bring, and the status is in place.
    pub on_hub: bool,
    /// Whether Gatekeeper's kinds are made and their constraints looked at.
    pub gatekeeper: bool,
    /// The namespace of its own Deployment.
    pub own_namespace: String,
    /// The name of its own Deployment.
    pub deployment: String,
    /// The host that events are said to come from.
    pub instance: String,
}

/// The two API servers.
#[derive(Clone)]
pub struct SyncClients {
    /// The hub, as the add-on's agent.
    pub hub: Client,
    /// The cluster.
    pub cluster: Client,
}

/// What the reconcilers read.
#[derive(Clone)]
pub struct Caching {
    /// Of the hub.
    pub hub: Caches,
    /// Of the cluster.
    pub cluster: Caches,
    /// The objects of templates and what they depend on.
    pub objects: WatchedObjects,
    /// The kinds that there are on the cluster.
    pub kinds: KindsOnCluster,
    /// Whether the add-on is being uninstalled.
    pub uninstallation: Uninstallation,
    /// Where it is.
    pub site: Arc<SyncSite>,
}

impl Caching {
    /// Watches both API servers until `stop`.
    pub fn new(clients: &SyncClients, site: SyncSite, stop: &CancellationToken) -> Self {
        let hub = Caches::new(clients.hub.clone(), stop.clone());
        let cluster = Caches::new(clients.cluster.clone(), stop.clone()).shaped::<Event>(|_, it| only_what_is_read(it));
        Self {
            objects: WatchedObjects::new(clients.cluster.clone(), stop.clone()),
            kinds: KindsOnCluster::new(clients.cluster.clone(), &cluster),
            uninstallation: Uninstallation::new(&cluster, &site.own_namespace, &site.deployment),
            hub,
            cluster,
            site: Arc::new(site),
        }
    }

    /// The Policies on the cluster.
    pub fn policies(&self) -> Cache<Policy> {
        self.cluster.in_namespace(&self.site.namespace, rights_may_come_later())
    }

    /// The Policies of the cluster on the hub.
    pub fn policies_on_hub(&self) -> Cache<Policy> {
        self.hub
            .in_namespace(&self.site.namespace_on_hub, rights_may_come_later())
    }

    /// The events about Policies that are not our own.
    pub fn events(&self) -> Cache<Event> {
        let watching = Watching {
            selection: watcher::Config::default().fields(
                "involvedObject.kind=Policy,reason!=PolicySpecSync,reason!=PolicyTemplateSync,reason!=PolicyStatusSync",
            ),
            ..rights_may_come_later()
        };
        self.cluster.in_namespace(&self.site.namespace, watching)
    }
}

/// The rights of an agent may come after it.
fn rights_may_come_later() -> Watching {
    Watching {
        forbidden_at_first: true,
        ..Watching::default()
    }
}

/// The object of this name alone.
fn named(name: &str) -> Watching {
    let field = format!("metadata.name={name}");
    Watching {
        selection: watcher::Config::default().fields(&field),
        ..rights_may_come_later()
    }
}

fn only_what_is_read(event: &mut Event) {
    let metadata = &mut event.metadata;
    (metadata.labels, metadata.annotations) = (None, None);
    (event.action, event.source, event.related) = (None, None, None);
    (event.first_timestamp, event.event_time, event.series) = (None, None, None);
    (event.reporting_component, event.reporting_instance, event.type_) = (None, None, None);
}

/// The reconcilers of a cluster, each with the clients that it writes with.
pub fn controllers(clients: &SyncClients, caching: &Caching, workers: usize) -> Vec<(Controller, Clients)> {
    let both = Clients::both(clients.hub.clone(), clients.cluster.clone());
    let strict = both.clone().validating_strictly();
    let site = &caching.site;
    let mut all = vec![
        (
            Controller::new(template_sync::PolicyTemplateSync::new(caching)).workers(workers),
            strict,
        ),
        (
            Controller::new(status_sync::PolicyStatusSync::new(caching)).workers(workers),
            both.clone(),
        ),
    ];
    if site.gatekeeper {
        let controller = Controller::new(constraint_sync::ConstraintStatusSync::new(caching));
        all.push((controller.workers(workers), both.clone()));
    }
    if !site.on_hub {
        let spec = Controller::new(spec_sync::PolicySpecSync::new(caching)).workers(workers);
        all.push((spec, both.clone()));
        all.push((Controller::new(secret_sync::EncryptionKeySync::new(caching)), both));
    }
    all
}

/// Starts the reconcilers of a cluster; they end with `stop`, and this with them.
pub async fn synchronize(clients: &SyncClients, site: SyncSite, workers: usize, stop: &CancellationToken) {
    let caching = Caching::new(clients, site, stop);
    also("policy-template-sync", counters::text);
    let all = controllers(clients, &caching, workers);
    let running: Vec<_> = all
        .into_iter()
        .map(|(it, clients)| it.start(clients, stop.clone()))
        .collect();
    for one in running {
        let _ = one.finished.await;
    }
}
