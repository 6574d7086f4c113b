//! What is looked at on the cluster to tell the hub of it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use ocm_api::{about::ClusterProperty, cluster::ClusterClaim};
use ocm_reconcile::{Cache, Caches, Watches, caches::Watchable};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::agent::{AgentOptions, claims, drive::RegistrationAgent, namespaces, node::NodeResources};

/// The watches of the cluster.
pub(super) struct ClusterWatches {
    /// The label of the namespaces that this hub manages.
    pub label: String,
    nodes: Cache<NodeResources>,
    claims: Cache<ClusterClaim>,
    properties: Cache<ClusterProperty>,
    /// The namespaces that this hub manages, watched when it wants the first: most clusters have none.
    managed: Cache<Namespace>,
    is_watching: Mutex<bool>,
    stop: CancellationToken,
}

impl ClusterWatches {
    /// Over the caches of the cluster, for the hub at this address.
    pub fn new(options: &AgentOptions, server: &str, cluster: &Caches) -> Self {
        Self {
            label: namespaces::label(server),
            nodes: cluster.of(),
            claims: if_told(options.tells_claims, cluster),
            properties: if_told(options.tells_properties, cluster),
            managed: Cache::empty(),
            is_watching: Mutex::new(false),
            stop: cluster.cancel_token().clone(),
        }
    }

    /// All of them wake the one key, as a renewed certificate does. None is waited for: what has not arrived is not
    /// known, and not told.
    pub fn watches(&self, watches: &mut Watches, agent: &Arc<RegistrationAgent>) {
        let [of_node, of_claim, of_property, of_namespace] = std::array::from_fn(|_| agent.cluster.clone());
        let nodes = watches.wakes(&self.nodes, move |old, new| {
            // A kubelet writes its node's status every few minutes; only what we sum up matters.
            (old.map(NodeResources::summed) != new.map(NodeResources::summed)).then(|| of_node.clone())
        });
        nodes.not_awaited();
        let claims = watches.wakes(&self.claims, move |_, _| [of_claim.clone()]);
        claims.not_awaited();
        let properties = watches.wakes(&self.properties, move |_, _| [of_property.clone()]);
        properties.not_awaited();
        let namespaces = watches.wakes(&self.managed, move |old, new| {
            namespaces::is_tampering(old, new).then(|| of_namespace.clone())
        });
        namespaces.not_awaited();
        let (agent, stop) = (agent.clone(), self.stop.clone());
        watches.signal("the renewal of the certificate", |queue| {
            tokio::spawn(agent.wake_after_rotation(queue.clone(), stop));
        });
    }

    /// The nodes, as far as they are known.
    pub fn nodes(&self) -> Option<Vec<NodeResources>> {
        arrived(&self.nodes)
    }

    /// Properties and claims, as far as both are known.
    pub fn claims(&self) -> Option<Vec<ClusterClaim>> {
        let both = arrived(&self.properties).zip(arrived(&self.claims));
        both.map(|(properties, claims)| claims::joined(properties, claims))
    }

    /// Whether namespaces that the hub manages are watched.
    pub fn is_watching_namespaces(&self) -> bool {
        *self.is_watching.lock()
    }

    /// Watches them from now on.
    pub fn watch_namespaces(&self, options: &AgentOptions) {
        if !std::mem::replace(&mut *self.is_watching.lock(), true) {
            namespaces::feed(&self.managed, &options.cluster, &self.label, &self.stop);
        }
    }
}

fn if_told<K: Watchable>(is_told: bool, cluster: &Caches) -> Cache<K> {
    match is_told {
        true => cluster.of(),
        false => Cache::holding([]),
    }
}

/// What has arrived. A cluster that lacks the kind has none of it; of what we may not or cannot look at, nothing is
/// known, and what was told of it before stays.
pub(super) fn arrived<K: Watchable>(cache: &Cache<K>) -> Option<Vec<K>> {
    if cache.is_synced() {
        return Some(cache.list().iter().map(|it| (**it).clone()).collect());
    }
    let lacks = cache.failure().is_some_and(|it| it.code == Some(404));
    lacks.then(Vec::new)
}
