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
use kube::ResourceExt;
use ocm_api::{
    addon::{
        GROUP,
        v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    },
    cluster::ManagedCluster,
};
use ocm_reconcile::{Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Watches, async_trait, rbac::Right};

use super::{
    events, facts,
    indexes::AddOnsByName,
    new_add_on::{is_accepted, lacks_namespaces, new_add_on},
    placements::{InstallPlacement, PlacementLookup, counted},
};

/// How soon to look again for the namespace of a cluster that is chosen before it is accepted. The watch of the cluster tells
/// when it is; somebody may also make the namespace by hand.
const NAMESPACE_AGAIN: Duration = Duration::from_secs(5);

/// The reconciler.
pub struct Install {
    cluster_management_addons: Cache<ClusterManagementAddOn>,
    addons: Cache<ManagedClusterAddOn>,
    addons_by_name: AddOnsByName,
    clusters: Cache<ManagedCluster>,
    placements: PlacementLookup,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// What the hub offers; `None` when it is gone.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
    /// Its placements, in the order of the spec.
    pub placements: Vec<InstallPlacement>,
    /// Where it is, by cluster.
    pub addons: Vec<Arc<ManagedClusterAddOn>>,
    /// The chosen clusters, where the hub knows them.
    pub clusters: BTreeMap<String, Arc<ManagedCluster>>,
}

#[async_trait]
impl Reconciler for Install {
    const NAME: &'static str = "addon-install";
    const WORKERS: usize = super::WORKERS;
    const AT_ONCE: usize = 16;
    const RIGHTS: &'static [Right] = &[
        Right::new(GROUP, "managedclusteraddons", "create delete", "Add-ons go where placements say."),
        super::OWNER_STAYS,
        super::EVENTS,
    ];
    type Seen = Seen;

    /// Offers that change; add-ons that come and go; placements and decisions; clusters that come, or are accepted and so have a
    /// namespace, after they were chosen.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.cluster_management_addons, |old, new| {
            let concern = |it: &ClusterManagementAddOn| {
                (it.metadata.uid.clone(), it.spec.install_strategy.clone(), facts::is_managed(it))
            };
            new.filter(|it| old.map(concern) != Some(concern(it))).map(|it| it.name_any())
        });
        watches.wakes(&self.addons, |old, new| {
            let came_or_went = old.is_none() || new.is_none();
            new.or(old).filter(|_| came_or_went).map(|it| it.name_any())
        });
        self.placements.watches(watches, counted);
        let placements = self.placements.clone();
        watches.wakes(&self.clusters, move |old, new| {
            let came = |it: &&ManagedCluster| old.is_none_or(|old| is_accepted(it) && !is_accepted(old));
            new.filter(came).map_or(Vec::new(), |it| placements.choosing(&it.name_any()))
        });
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let offer = self.cluster_management_addons.named(name);
        let placements = offer.as_deref().map_or(Vec::new(), |it| self.placements.of(it));
        let chosen = placements.iter().flat_map(InstallPlacement::chosen);
        let known = chosen.filter_map(|it| Some((it.to_owned(), self.clusters.named(it)?)));
        Ok(Seen {
            now: Timestamp::now(),
            clusters: known.collect(),
            cluster_management_addon: offer,
            placements,
            addons: self.addons_by_name.objects(name),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let offer = facts::looked_after(&seen.cluster_management_addon);
        let Some(offer) = offer.filter(|it| facts::follows_placements(it)) else {
            return plan;
        };
        let chosen: BTreeSet<&str> = seen.placements.iter().flat_map(InstallPlacement::chosen).collect();
        let present: BTreeSet<&str> = seen.addons.iter().map(|it| facts::cluster(it)).collect();
        for cluster in chosen.difference(&present) {
            match seen.clusters.get(*cluster) {
                Some(it) if it.metadata.deletion_timestamp.is_none() => {
                    plan.create(Site::Hub, &new_add_on(offer, it));
                }
                Some(_) => {
                    plan.wait(format!("cluster {cluster} is being deleted"));
                }
                None => {
                    plan.wait(format!("there is no cluster {cluster}"));
                }
            }
        }
        let named = |it: fn(&&InstallPlacement) -> bool| {
            let names = seen.placements.iter().filter(it).map(|it| it.name.as_str());
            Some(names.collect::<Vec<_>>().join(", ")).filter(|it| !it.is_empty())
        };
        if let Some(incomplete) = named(|it| it.is_incomplete()) {
            plan.wait(format!("decisions of {incomplete} are missing; nothing is removed"));
            return plan;
        }
        let left = seen.addons.iter().filter(|it| !chosen.contains(facts::cluster(it)));
        let removed = left.filter_map(|it| plan.delete(Site::Hub, &**it)).count();
        if let Some(absent) = named(|it| it.placement.is_none()) {
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
            plan.wait("the namespaces of clusters that are not accepted yet").look_again(NAMESPACE_AGAIN);
        }
        plan
    }
}

impl Install {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            cluster_management_addons: caches.of(),
            addons: caches.of(),
            addons_by_name: AddOnsByName::of(caches),
            clusters: caches.of(),
            placements: PlacementLookup::new(caches),
        }
    }
}

#[cfg(test)]
#[path = "install_tests.rs"]
mod tests;
