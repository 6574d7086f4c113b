//! An add-on goes where its placements say.
//!
//! Root: ManagedClusterAddOns of one name, by that name. Reads: its ClusterManagementAddOn, Placements, PlacementDecisions,
//! ManagedClusters. Writes: ManagedClusterAddOns, which it creates and deletes, also those that a person made.
//! Never: anything for an add-on that is installed by hand or that its own manager looks after.
//! Upstream: ocm `pkg/addon/controllers/addonmanagement`.
//!
//! A placement that does not exist chooses nothing, as upstream has it, and the add-on is removed from where it was; an event
//! says so. We differ in one thing: while a placement has fewer decisions than its status counts, because somebody deleted
//! or is rewriting them, nothing is removed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use kube::{ResourceExt, api::ObjectMeta};
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn, ManagedClusterAddOnSpec},
    cluster::{ManagedCluster, Placement, PlacementDecision},
    condition,
    conditions::managed_cluster,
};
use ocm_reconcile::{
    Clients, EventKind, EventStep, ObserveError, Outcome, Plan, Queue, Reconciler, Site, Step, StepError, async_trait,
    run::{self, RunError},
};
use parking_lot::Mutex;
use serde_json::json;
use tracing::debug;

use super::{Caches, caches, facts, inherited, owner};

/// How soon to look again for the namespace of a cluster that is chosen before it is accepted. The watch of the cluster tells
/// when it is; somebody may also make the namespace by hand.
const NAMESPACE_AGAIN: Duration = Duration::from_secs(5);

/// The reconciler.
pub struct Install {
    caches: Caches,
    /// The add-ons for which nothing but namespaces was missing in the last run.
    waiting: Mutex<BTreeSet<String>>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// What the hub offers; `None` when it is gone.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
    /// What its placements chose.
    pub placements: Vec<Choice>,
    /// Where it is, by cluster.
    pub addons: Vec<Arc<ManagedClusterAddOn>>,
    /// The chosen clusters that do not have it yet, where the hub knows them.
    pub newcomers: BTreeMap<String, Arc<ManagedCluster>>,
}

/// A placement and what it chose.
pub struct Choice {
    /// `namespace/name`.
    pub name: String,
    /// The placement; `None` when there is none.
    pub placement: Option<Arc<Placement>>,
    /// The clusters that its decisions name.
    pub clusters: BTreeSet<String>,
}

impl Choice {
    /// Whether decisions are missing that the placement counts.
    fn is_incomplete(&self) -> bool {
        let status = self.placement.as_ref().and_then(|it| it.status.as_ref());
        let counted = status.map_or(0, |it| it.number_of_selected_clusters);
        usize::try_from(counted).is_ok_and(|it| self.clusters.len() < it)
    }

    /// What it chose; a placement that is not there chooses nothing, even if its decisions are still there.
    fn chosen(&self) -> impl Iterator<Item = &String> {
        self.placement.iter().flat_map(|_| &self.clusters)
    }
}

impl Install {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            caches: caches.clone(),
            waiting: Mutex::default(),
        }
    }
}

/// Whether a step failed because a cluster has no namespace yet.
fn lacks_namespace(error: &StepError) -> bool {
    let StepError::Kube(kube::Error::Api(status)) = error else {
        return false;
    };
    let of = status.details.as_ref().map(|it| it.kind.as_str());
    status.code == 404 && of == Some("namespaces")
}

fn is_accepted(cluster: &ManagedCluster) -> bool {
    let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::is_true(conditions, managed_cluster::HUB_ACCEPTED)
}

/// Offers that change; add-ons that come and go; placements and decisions; clusters that come after they were chosen.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.cluster_management_addons.subscribe(queue, |old, new| {
        let new = new?;
        let same = old.is_some_and(|it| {
            it.metadata.uid == new.metadata.uid
                && it.spec.install_strategy == new.spec.install_strategy
                && facts::is_managed(it) == facts::is_managed(new)
        });
        (!same).then(|| new.name_any())
    });
    caches.addons.subscribe(queue, |old, new| {
        let came_or_went = old.is_none() || new.is_none();
        new.or(old).filter(|_| came_or_went).map(|it| it.name_any())
    });
    subscribe_to_placements(caches, queue, |old, new| match (old, new) {
        (Some(old), Some(new)) => counted(old) != counted(new),
        _ => true,
    });
    let all = caches.clone();
    caches.clusters.subscribe(queue, move |old, new| {
        // Its namespace is there when it is accepted.
        let came = |it: &&ManagedCluster| old.is_none_or(|old| is_accepted(it) && !is_accepted(old));
        let Some(new) = new.filter(came) else {
            return Vec::new();
        };
        let cluster = new.name_any();
        let decisions = all.decisions.list();
        let placements = decisions.iter().filter(|it| chosen(it).any(|it| *it == cluster));
        placements.flat_map(|it| of_decision(&all, it)).collect()
    });
}

/// Everything that changes which clusters are chosen: decisions, and placements for which `counts` holds of old and new.
pub(super) fn subscribe_to_placements(
    caches: &Caches,
    queue: &Queue,
    counts: impl Fn(Option<&Placement>, Option<&Placement>) -> bool + Send + Sync + 'static,
) {
    let all = caches.clone();
    caches.placements.subscribe(queue, move |old, new| match new.or(old) {
        Some(it) if counts(old, new) => all.installed_through(&it.namespace().unwrap_or_default(), &it.name_any()),
        _ => Vec::new(),
    });
    let all = caches.clone();
    caches.decisions.subscribe(queue, move |old, new| {
        let same = |old: &PlacementDecision, new: &PlacementDecision| {
            old.metadata.labels == new.metadata.labels && old.status == new.status
        };
        match (old, new) {
            (Some(old), Some(new)) if same(old, new) => Vec::new(),
            (old, new) => [old, new]
                .into_iter()
                .flatten()
                .flat_map(|it| of_decision(&all, it))
                .collect(),
        }
    });
}

fn of_decision(caches: &Caches, decision: &PlacementDecision) -> Vec<String> {
    let placement = caches::placement_of(decision).unwrap_or_default();
    let (namespace, name) = placement.split_once('/').unwrap_or_default();
    caches.installed_through(namespace, name)
}

fn counted(placement: &Placement) -> i32 {
    placement.status.as_ref().map_or(0, |it| it.number_of_selected_clusters)
}

/// The clusters that a decision names.
pub(super) fn chosen(decision: &PlacementDecision) -> impl Iterator<Item = &String> {
    let decisions = decision.status.iter().flat_map(|it| &it.decisions);
    decisions.map(|it| &it.cluster_name).filter(|it| !it.is_empty())
}

#[async_trait]
impl Reconciler for Install {
    const NAME: &'static str = "addon-install";
    const AT_ONCE: usize = 16;
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let mut seen = Seen {
            now: Timestamp::now(),
            cluster_management_addon: self.caches.cluster_management_addons.named(name),
            placements: Vec::new(),
            addons: Vec::new(),
            newcomers: BTreeMap::new(),
        };
        let offer = facts::looked_after(&seen.cluster_management_addon);
        let Some(offer) = offer.filter(|it| facts::follows_placements(it)) else {
            return Ok(seen);
        };
        for it in &offer.spec.install_strategy.placements {
            let decisions = self.caches.decisions_of(&it.namespace, &it.name);
            seen.placements.push(Choice {
                name: format!("{}/{}", it.namespace, it.name),
                placement: self.caches.placements.get(&it.namespace, &it.name),
                clusters: decisions.iter().flat_map(|it| chosen(it)).cloned().collect(),
            });
        }
        seen.addons = self.caches.addons_named(name);
        let present: BTreeSet<&str> = seen.addons.iter().map(|it| facts::cluster(it)).collect();
        let missing = seen
            .placements
            .iter()
            .flat_map(Choice::chosen)
            .filter(|it| !present.contains(it.as_str()));
        let known = missing.filter_map(|it| Some((it.clone(), self.caches.clusters.named(it)?)));
        seen.newcomers = known.collect();
        Ok(seen)
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let Some(offer) = &seen.cluster_management_addon else {
            return;
        };
        let mut errors = outcome.errors().map(|(_, error)| error).peekable();
        let mut waiting = self.waiting.lock();
        if errors.peek().is_some() && errors.all(lacks_namespace) {
            waiting.insert(offer.name_any());
        } else {
            waiting.remove(&offer.name_any());
        }
    }

    async fn reconcile(&self, clients: &Clients, name: &str) -> Result<Option<Duration>, RunError> {
        let result = run::once(self, clients, name).await;
        if result.is_err() && self.waiting.lock().remove(name) {
            debug!("waits for the namespaces of clusters that are not accepted yet");
            return Ok(Some(NAMESPACE_AGAIN));
        }
        result
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(offer) = facts::looked_after(&seen.cluster_management_addon) else {
            return plan;
        };
        if !facts::follows_placements(offer) {
            return plan;
        }
        let chosen = seen.placements.iter().flat_map(Choice::chosen);
        let wanted: BTreeSet<&str> = chosen.map(String::as_str).collect();
        let present: BTreeSet<&str> = seen.addons.iter().map(|it| facts::cluster(it)).collect();
        for cluster in wanted.difference(&present) {
            match seen.newcomers.get(*cluster) {
                Some(it) if it.metadata.deletion_timestamp.is_none() => {
                    plan.create(Site::Hub, &new_addon(offer, it));
                }
                Some(_) => {
                    plan.wait(format!("cluster {cluster} is being deleted"));
                }
                None => {
                    plan.wait(format!("there is no cluster {cluster}"));
                }
            }
        }
        let incomplete: Vec<&str> = seen
            .placements
            .iter()
            .filter(|it| it.is_incomplete())
            .map(|it| it.name.as_str())
            .collect();
        if !incomplete.is_empty() {
            plan.wait(format!(
                "decisions of {} are missing; nothing is removed",
                incomplete.join(", ")
            ));
            return plan;
        }
        let mut removed = 0;
        for addon in seen.addons.iter().filter(|it| !wanted.contains(facts::cluster(it))) {
            removed += usize::from(plan.delete(Site::Hub, &**addon).is_some());
        }
        let absent: Vec<&str> = seen
            .placements
            .iter()
            .filter(|it| it.placement.is_none())
            .map(|it| it.name.as_str())
            .collect();
        if !absent.is_empty() {
            plan.refuse(format!("there is no placement {}", absent.join(", ")));
            if removed > 0 {
                plan.push(Step::Event(not_found(offer, &absent.join(", "), removed, seen.now)));
            }
        }
        plan
    }
}

fn new_addon(offer: &ClusterManagementAddOn, cluster: &ManagedCluster) -> ManagedClusterAddOn {
    let mut addon = ManagedClusterAddOn {
        metadata: ObjectMeta {
            name: offer.metadata.name.clone(),
            namespace: cluster.metadata.name.clone(),
            owner_references: Some(vec![owner::reference(offer)]),
            ..ObjectMeta::default()
        },
        spec: ManagedClusterAddOnSpec::default(),
        status: None,
    };
    inherited::hand_over(cluster, &mut addon);
    addon
}

fn not_found(offer: &ClusterManagementAddOn, placements: &str, removed: usize, now: Timestamp) -> EventStep {
    EventStep {
        site: Site::Hub,
        // Where Kubernetes files events about what has no namespace.
        namespace: "default".to_owned(),
        regarding: json!({
            "apiVersion": ClusterManagementAddOn::API_VERSION,
            "kind": ClusterManagementAddOn::KIND,
            "name": offer.metadata.name,
            "uid": offer.metadata.uid,
        }),
        related: None,
        kind: EventKind::Warning,
        reason: "PlacementNotFound".to_owned(),
        action: "Uninstall".to_owned(),
        note: format!("There is no placement {placements}; the add-on is removed from {removed} clusters."),
        reporting_controller: "addon-manager".to_owned(),
        at: now,
    }
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
