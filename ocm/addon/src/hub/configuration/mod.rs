//! Every add-on on a cluster gets its configuration, when it is its turn.
//!
//! Root: ManagedClusterAddOns of one name, by that name. Reads: its ClusterManagementAddOn, its Placements and their
//! decisions. Writes: `status.configReferences` of the add-ons (what is desired; what was applied it keeps) and their
//! condition `Configured`; condition `Progressing` and the applied configurations of the ClusterManagementAddOn's
//! progressions. Never: an add-on whose own manager looks after it; a hash, which is the configurations' watcher's;
//! more add-ons under way than the strategy of their placement allows.
//! Upstream: ocm `pkg/addon/controllers/addonconfiguration`.
//!
//! One pass decides for all clusters, over maps, and writes only what differs. Two passes never overlap, and a pass
//! sees what the one before it has written even if the watch has not told yet: so the number
//! of clusters under way is exact.

mod add_on_status;
pub mod desired;
pub mod graph;
mod last_pass;
mod progression_status;

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    conditions::managed_cluster_add_on,
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};

use super::{
    config_references, facts,
    indexes::AddOns,
    placements::{InstallPlacement, PlacementLookup},
    rights,
};
use add_on_status::{concern, tell_all};
use graph::{Graph, Inherited};
use last_pass::LastPass;

/// The reconciler.
pub struct Configuration {
    cluster_management_addons: Cache<ClusterManagementAddOn>,
    addons: AddOns,
    placements: PlacementLookup,
    last_pass: LastPass,
}

/// What a plan is made from.
#[derive(Default)]
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The name of the add-on.
    pub name: String,
    /// What the hub offers; `None` when it is gone.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
    /// Its placements, in the order of the spec.
    pub placements: Vec<InstallPlacement>,
    /// Where it is, by cluster.
    pub addons: Vec<Arc<ManagedClusterAddOn>>,
}

#[async_trait]
impl Reconciler for Configuration {
    const NAME: &'static str = "addon-configuration";
    const WORKERS: usize = super::WORKERS;
    // Few, so that the work of a cluster whose turn has come is written before too many more are told
    // that theirs has, too.
    const AT_ONCE: usize = 4;
    const STATUS: &'static [StatusField] = &[
        StatusField::new(ManagedClusterAddOn::KIND, "configReferences").shared(super::REFERENCES),
        StatusField::condition(ManagedClusterAddOn::KIND, managed_cluster_add_on::CONFIGURED),
        StatusField::new(ClusterManagementAddOn::KIND, "installProgressions").shared(super::PROGRESSIONS),
    ];
    const RIGHTS: &'static [Right] = &[rights::ADD_ON_STATUS, rights::OFFER_STATUS];
    type Seen = Seen;

    /// Offers; what an add-on is told and how far it is with it; placements and decisions.
    fn watches(&self, watches: &mut Watches) {
        watches
            .root(&self.cluster_management_addons)
            .wakes(&self.addons.cache, |old, new| {
                let same = matches!((old, new), (Some(old), Some(new)) if concern(old) == concern(new));
                new.or(old).filter(|_| !same).map(|it| it.name_any())
            });
        self.placements.watches(watches, |it| it.spec.decision_strategy.clone());
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let mut seen = Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            cluster_management_addon: self.cluster_management_addons.named(name),
            ..Seen::default()
        };
        if let Some(offer) = facts::looked_after(&seen.cluster_management_addon) {
            seen.placements = self.placements.of(offer);
            seen.addons = self.addons.named(name);
            self.last_pass.catch_up(name, &mut seen.addons);
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(offer) = facts::looked_after(&seen.cluster_management_addon) else {
            return plan;
        };
        if !config_references::is_told(offer) {
            // Otherwise a cluster would be given the default for a moment, and then its placement's.
            plan.wait("the configurations of its placements are not in its status yet");
            return plan;
        }
        let inherited = Inherited::of(offer);
        let addons = seen.addons.iter().map(|it| &**it);
        let graph = Graph::of(offer, &inherited, &seen.placements, addons, seen.now);
        tell_all(&mut plan, &graph, seen.now);
        plan.status(Site::Hub, offer, &progression_status::saying(offer, &graph, seen.now));
        for (node, placement) in graph.nodes.iter().zip(&seen.placements) {
            if let Err(why) = &node.rollout {
                plan.refuse(format!("placement {}: {why}", placement.name));
            }
        }
        if let Some(delay) = graph.recheck_after() {
            plan.look_again(delay);
        }
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        self.last_pass.remember(&seen.name, &seen.addons, outcome);
    }
}

impl Configuration {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            cluster_management_addons: caches.of(),
            addons: AddOns::of(caches),
            placements: PlacementLookup::new(caches),
            last_pass: LastPass::default(),
        }
    }
}

#[cfg(test)]
mod tests;
