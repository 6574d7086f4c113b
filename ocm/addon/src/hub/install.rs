//! An add-on goes where its placements say.
//!
//! Root: ManagedClusterAddOns of one name, by that name. Reads: its ClusterManagementAddOn, Placements,
//! PlacementDecisions, ManagedClusters. Writes: ManagedClusterAddOns, which it creates and deletes, also those that a
//! person made. Never: anything for an add-on that is installed by hand or that its own manager looks after. Upstream:
//! ocm `pkg/addon/controllers/addonmanagement`.
//!
//! A placement that does not exist chooses nothing, as upstream has it, and the add-on is removed from where it was; an
//! event says so. We differ in one thing: while a placement has fewer decisions than its status counts, because
//! somebody deleted or is rewriting them, nothing is removed.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::ManagedCluster,
};
use ocm_reconcile::{Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Watches, async_trait, rbac::Right};

use super::{
    events, facts,
    indexes::AddOns,
    new_add_on::{self, NAMESPACE_AGAIN, is_accepted, lacks_namespaces},
    placements::{InstallPlacement, PlacementLookup, chosen, counted, missing, names},
    rights,
};

/// The reconciler.
pub struct Install {
    cluster_management_addons: Cache<ClusterManagementAddOn>,
    addons: AddOns,
    clusters: Cache<ManagedCluster>,
    placements: PlacementLookup,
}

/// What a plan is made from.
#[derive(Default)]
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// What the hub offers; `None` when it is gone.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
    /// Its placements, in the order of the spec.
    pub placements: Vec<InstallPlacement>,
    /// Where it is, by cluster.
    pub addons: Vec<Arc<ManagedClusterAddOn>>,
    /// The chosen clusters that do not have it yet, where the hub knows them.
    pub newcomers: BTreeMap<String, Arc<ManagedCluster>>,
}

#[async_trait]
impl Reconciler for Install {
    const NAME: &'static str = "addon-install";
    const WORKERS: usize = super::WORKERS;
    const AT_ONCE: usize = 16;
    const RIGHTS: &'static [Right] = &[rights::INSTALL, rights::OWNERS_STAY, rights::EVENTS];
    type Seen = Seen;

    /// Offers that change; add-ons that come and go; placements and decisions; clusters that come, or are accepted and
    /// so have a namespace, after they were chosen.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.cluster_management_addons, |old, new| {
            let is_same = |old: &ClusterManagementAddOn, new: &ClusterManagementAddOn| {
                facts::identity(old) == facts::identity(new) && old.spec.install_strategy == new.spec.install_strategy
            };
            facts::changed(old, new, is_same).map(|it| it.name_any())
        });
        watches.wakes(&self.addons.cache, |old, new| {
            let came_or_went = old.is_none() || new.is_none();
            new.or(old).filter(|_| came_or_went).map(|it| it.name_any())
        });
        self.placements.watches(watches, counted);
        let placements = self.placements.clone();
        watches.wakes(&self.clusters, move |old, new| {
            let came = new.filter(|it| old.is_none_or(|old| is_accepted(it) && !is_accepted(old)));
            came.map_or(Vec::new(), |it| placements.choosing(&it.name_any()))
        });
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let mut seen = Seen {
            now: Timestamp::now(),
            cluster_management_addon: self.cluster_management_addons.named(name),
            ..Seen::default()
        };
        let Some(offer) = facts::installed_by_placements(&seen.cluster_management_addon) else {
            return Ok(seen);
        };
        seen.placements = self.placements.of(offer);
        seen.addons = self.addons.named(name);
        let known = missing(&seen.placements, &seen.addons).into_iter();
        let known = known.filter_map(|it| Some((it.to_owned(), self.clusters.named(it)?)));
        seen.newcomers = known.collect();
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(offer) = facts::installed_by_placements(&seen.cluster_management_addon) else {
            return plan;
        };
        for cluster in missing(&seen.placements, &seen.addons) {
            new_add_on::install(&mut plan, offer, cluster, seen.newcomers.get(cluster).map(|it| &**it));
        }
        if let Some(incomplete) = names(&seen.placements, InstallPlacement::is_incomplete) {
            plan.wait(format!("decisions of {incomplete} are missing; nothing is removed"));
            return plan;
        }
        let chosen = chosen(&seen.placements);
        let left = seen.addons.iter().filter(|it| !chosen.contains(facts::cluster(it)));
        let removed = left.filter_map(|it| plan.delete(Site::Hub, &**it)).count();
        if let Some(absent) = names(&seen.placements, |it| it.placement.is_none()) {
            plan.refuse(format!("there is no placement {absent}"));
            if removed > 0 {
                plan.push(events::placement_not_found(offer, &absent, removed, seen.now));
            }
        }
        plan
    }

    /// That a cluster has no namespace yet is no failure: it is waited for.
    fn failure(_: &Seen, outcome: &Outcome) -> Option<String> {
        (!outcome.succeeded() && !lacks_namespaces(outcome)).then(|| outcome.error_text())
    }

    fn conclude(_: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        if lacks_namespaces(outcome) {
            plan.wait("the namespaces of clusters that are not accepted yet")
                .look_again(NAMESPACE_AGAIN);
        }
        plan
    }
}

impl Install {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            cluster_management_addons: caches.of(),
            addons: AddOns::of(caches),
            clusters: caches.of(),
            placements: PlacementLookup::new(caches),
        }
    }
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
