//! Telling the hub how the cluster is.
//!
//! Root: our ManagedCluster. Reads: the cluster's health, version, nodes, claims and namespaces. Writes: conditions Joined and
//! Available (True and False; Unknown is the hub's word), ClusterCertificateRotated, version, capacity, allocatable, clusterClaims, and the conditions
//! of managedNamespaces; those namespaces on the cluster.
//! Never: anything while the hub says that our clock is off; anything before it has accepted us.
//! Upstream: ocm `pkg/registration/spoke/managedcluster/status_controller.go`.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use ocm_api::{
    about::ClusterProperty,
    cluster::{ClusterClaim, ManagedCluster, ManagedClusterVersion},
    condition::{self, ConditionUpdate, Status, wanted},
    conditions::{
        managed_cluster::{self, reason},
        managed_namespace,
    },
};
use ocm_reconcile::{
    Cache, Clients, EventKind, EventStep, ObserveError, Outcome, Plan, Queue, Reconciler, Running, Site, Step,
    async_trait, execute::sentence,
};
use tokio_util::sync::CancellationToken;

use super::{
    availability::{self, Health},
    capacity, claims,
    drive::Agent,
    namespaces::{self, Present},
    node::Node,
};
use crate::status;

struct State {
    agent: Arc<Agent>,
    server: String,
    clusters: Cache<ManagedCluster>,
    nodes: Cache<Node>,
    claims: Cache<ClusterClaim>,
    properties: Cache<ClusterProperty>,
    failing_since: Mutex<Option<Timestamp>>,
    /// Tells when a namespace that this hub manages is tampered with. There is none before the hub wants one: most clusters
    /// have none.
    managed: OnceLock<Cache<Namespace>>,
    queue: Queue,
    stop: CancellationToken,
}

/// What a plan is made from.
pub(super) struct Seen {
    now: Timestamp,
    /// `None` while unknown.
    cluster: Option<Arc<ManagedCluster>>,
    health: Health,
    failing_since: Option<Timestamp>,
    /// What to say about the last renewal of the certificate.
    rotation: Option<ConditionUpdate>,
    /// `None` when the API server did not tell.
    version: Option<String>,
    /// `None` while they are not known.
    nodes: Option<Vec<Node>>,
    /// `None` while they are not known.
    claims: Option<Vec<ClusterClaim>>,
    custom_claims_max: usize,
    reserved_claim_suffixes: Vec<String>,
    /// The label of namespaces that this hub manages.
    label: String,
    namespaces: Present,
    period: Duration,
}

/// Starts it.
pub(super) fn start(
    agent: &Arc<Agent>,
    hub: Client,
    server: &str,
    clusters: &Cache<ManagedCluster>,
    stop: &CancellationToken,
) -> Running {
    let cluster = agent.options.cluster.clone();
    let nodes = Cache::start(Api::all(cluster.clone()), stop.clone());
    let claims = match agent.options.tells_claims {
        true => Cache::start(Api::all(cluster.clone()), stop.clone()),
        false => Cache::holding([]),
    };
    let properties = match agent.options.tells_properties {
        true => Cache::start(Api::all(cluster.clone()), stop.clone()),
        false => Cache::holding([]),
    };
    let queue = Queue::new();
    clusters.subscribe_by_name(&queue);
    let key = agent.cluster.clone();
    nodes.subscribe(&queue, move |old: Option<&Node>, new: Option<&Node>| {
        // A kubelet writes its node's status every few minutes; only what we sum up matters.
        let summed = |it: &Node| {
            (
                it.spec.unschedulable,
                it.status.capacity.clone(),
                it.status.allocatable.clone(),
            )
        };
        (old.map(summed) != new.map(summed)).then(|| key.clone())
    });
    let key = agent.cluster.clone();
    claims.subscribe(&queue, move |_, _| [key.clone()]);
    let key = agent.cluster.clone();
    properties.subscribe(&queue, move |_, _| [key.clone()]);
    tokio::spawn(follow_rotation(agent.clone(), queue.clone(), stop.clone()));
    let state = State {
        agent: agent.clone(),
        server: server.to_owned(),
        clusters: clusters.clone(),
        nodes,
        claims,
        properties,
        failing_since: Mutex::new(None),
        managed: OnceLock::new(),
        queue: queue.clone(),
        stop: stop.clone(),
    };
    ocm_reconcile::spawn(state, Clients::both(hub, cluster), queue, 1, stop.clone())
}

async fn follow_rotation(agent: Arc<Agent>, queue: Queue, stop: CancellationToken) {
    let mut rotation = agent.rotation.subscribe();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            // The sender lives in the agent that we hold.
            _ = rotation.changed() => queue.add(&agent.cluster),
        }
    }
}

// What has arrived. A cluster that lacks the kind has none of it; of what we may not or cannot look at, nothing is known, and
// what was told of it before stays.
fn arrived<K>(cache: &Cache<K>) -> Option<Vec<K>>
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    if cache.is_synced() {
        return Some(cache.list().iter().map(|it| (**it).clone()).collect());
    }
    let lacks = cache.failure().is_some_and(|it| it.code == Some(404));
    lacks.then(Vec::new)
}

#[async_trait]
impl Reconciler for State {
    const NAME: &'static str = "managed-cluster-status";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let client = &self.agent.options.cluster;
        let cluster = self.clusters.named(name);
        let label = namespaces::label(&self.server);
        let mut seen = Seen {
            now: Timestamp::now(),
            health: Health::Ok,
            failing_since: None,
            version: None,
            rotation: self.agent.rotation.borrow().clone(),
            nodes: arrived(&self.nodes),
            claims: arrived(&self.properties)
                .zip(arrived(&self.claims))
                .map(|(of, others)| claims::joined(of, others)),
            custom_claims_max: self.agent.options.custom_claims_max,
            reserved_claim_suffixes: self.agent.options.reserved_claim_suffixes.clone(),
            namespaces: Present::default(),
            label,
            period: self.agent.options.healthcheck_period,
            cluster,
        };
        if !seen.cluster.as_deref().is_some_and(is_accepted) {
            return Ok(seen);
        }
        seen.health = availability::probe(client).await;
        seen.failing_since = {
            // What is behind a poisoned lock is one time, whole or absent.
            let mut since = self
                .failing_since
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            *since = match seen.health {
                Health::Ok => None,
                Health::Failed { .. } => since.or(Some(seen.now)),
            };
            *since
        };
        if seen.health == Health::Ok {
            seen.version = client.apiserver_version().await.ok().map(|it| it.git_version);
            let wanted = seen.cluster.as_deref().map(namespaces::wanted).unwrap_or_default();
            if !wanted.is_empty() {
                self.managed
                    .get_or_init(|| namespaces::watch(client, &seen.label, name, &self.queue, &self.stop));
            }
            seen.namespaces = namespaces::present(client, &seen.label, &wanted).await;
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen.cluster.as_deref() else {
            plan.wait("the hub has not told us about our cluster");
            return plan;
        };
        if !is_accepted(cluster) {
            plan.wait("the cluster is not accepted");
            return plan;
        }
        if seen.health == Health::Ok {
            namespaces::plan(&mut plan, cluster, &seen.label, &seen.namespaces);
        }
        plan
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen.cluster.as_deref().filter(|it| is_accepted(it)) else {
            return plan;
        };
        plan.look_again(seen.period);
        if condition::is_false(status::conditions(cluster), managed_cluster::CLOCK_SYNCED) {
            plan.refuse("the hub says that this cluster's clock is off: set it");
            return plan;
        }
        let mut new = status::saying(
            cluster,
            wanted(managed_cluster::JOINED, true, reason::JOINED, "Managed cluster joined"),
            seen.now,
        );
        if let Some(rotation) = seen.rotation.clone() {
            new = status::saying(&new, rotation, seen.now);
        }
        match availability::verdict(&seen.health, seen.failing_since, seen.now) {
            Some(verdict) => new = status::saying(&new, verdict, seen.now),
            None => {
                plan.look_again(availability::AGAIN);
            }
        }
        if seen.health == Health::Ok {
            fill(seen, outcome, &mut new);
            if !seen.namespaces.unread.is_empty() {
                plan.look_again(availability::AGAIN);
            }
        }
        plan.status(Site::Hub, cluster, &new);
        announce(cluster, &new, seen.now, &mut plan);
        plan
    }
}

fn is_accepted(cluster: &ManagedCluster) -> bool {
    condition::is_true(status::conditions(cluster), managed_cluster::HUB_ACCEPTED)
}

fn fill(seen: &Seen, outcome: &Outcome, cluster: &mut ManagedCluster) {
    let status = cluster.status.get_or_insert_default();
    if let Some(version) = &seen.version {
        status.version = ManagedClusterVersion {
            kubernetes: version.clone(),
        };
    }
    if let Some(nodes) = &seen.nodes {
        status.capacity = capacity::keeping_others(capacity::capacity(nodes), &status.capacity);
        status.allocatable = capacity::allocatable(nodes);
    }
    if let Some(all) = &seen.claims {
        status.cluster_claims = claims::told(all, seen.custom_claims_max, &seen.reserved_claim_suffixes);
    }
    let failures = failures(seen, outcome);
    for namespace in &mut status.managed_namespaces {
        let verdict = match failures.get(&namespace.name) {
            None => wanted(
                managed_namespace::AVAILABLE,
                true,
                managed_namespace::reason::APPLIED,
                "Namespace successfully applied and managed",
            ),
            Some(failure) => wanted(
                managed_namespace::AVAILABLE,
                false,
                managed_namespace::reason::APPLY_FAILED,
                format!("Failed to apply namespace: {failure}"),
            ),
        };
        condition::set(&mut namespace.conditions, verdict, seen.now);
    }
}

// Why a namespace is not as it should be, by its name: one that fails says nothing about the others.
fn failures(seen: &Seen, outcome: &Outcome) -> BTreeMap<String, String> {
    let plan = State::plan(seen);
    let written = outcome.errors().filter_map(|(id, error)| {
        let step = plan.stages.get(id.stage)?.get(id.step)?;
        Some((step.target()?.name.clone(), sentence(error)))
    });
    seen.namespaces.unread.clone().into_iter().chain(written).collect()
}

// A change of availability is worth an event, in upstream's words and spelling.
fn announce(old: &ManagedCluster, new: &ManagedCluster, now: Timestamp, plan: &mut Plan) {
    let before = condition::status(status::conditions(old), managed_cluster::AVAILABLE);
    let after = condition::status(status::conditions(new), managed_cluster::AVAILABLE);
    let name = new.name_any();
    let (kind, reason, note) = match after {
        _ if before == after => return,
        Some(Status::True) => (
            EventKind::Normal,
            "Available",
            format!(
                "The {name} is successfully imported, and it is managed by the hub cluster. Its apieserver is available"
            ),
        ),
        Some(Status::False) => (
            EventKind::Warning,
            "Unavailable",
            format!("The {name} is successfully imported. However, its Kube API server is unavailable"),
        ),
        _ => return,
    };
    plan.stage();
    plan.push(Step::Event(EventStep {
        site: Site::Hub,
        namespace: name,
        regarding: status::regarding(new),
        related: None,
        kind,
        reason: reason.to_owned(),
        action: reason.to_owned(),
        note,
        reporting_controller: "klusterlet-agent".to_owned(),
        at: now,
    }));
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
