//! What the placements that an add-on is installed through choose: where it goes, and in which groups its clusters are.

use std::{collections::BTreeSet, sync::Arc};

use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::{Placement, PlacementDecision},
};
use ocm_reconcile::{Cache, Caches, Watches, cache::key_of};

use super::{
    facts,
    indexes::{Decisions, placement_of},
};

/// A placement that an add-on is installed through, and its decisions.
pub struct InstallPlacement {
    /// `namespace/name`.
    pub name: String,
    /// The placement; `None` when there is none.
    pub placement: Option<Arc<Placement>>,
    /// Its decisions.
    pub decisions: Vec<Arc<PlacementDecision>>,
}

impl InstallPlacement {
    /// The clusters that it chose; a placement that is not there chooses nothing,
    /// even if its decisions are still there.
    pub fn chosen(&self) -> BTreeSet<&str> {
        let decisions = self.placement.iter().flat_map(|_| &self.decisions);
        decisions.flat_map(|it| clusters_of(it)).collect()
    }

    /// Whether decisions are missing that the placement counts.
    pub fn is_incomplete(&self) -> bool {
        let counted = self.placement.as_deref().map_or(0, counted);
        usize::try_from(counted).is_ok_and(|it| self.chosen().len() < it)
    }
}

/// The clusters that they chose.
pub fn chosen(placements: &[InstallPlacement]) -> BTreeSet<&str> {
    placements.iter().flat_map(InstallPlacement::chosen).collect()
}

/// The clusters that they chose and that do not have the add-on yet.
pub fn missing<'p>(placements: &'p [InstallPlacement], addons: &[Arc<ManagedClusterAddOn>]) -> Vec<&'p str> {
    let mut missing = chosen(placements);
    for addon in addons {
        missing.remove(facts::cluster(addon));
    }
    missing.into_iter().collect()
}

/// The names of those of which this is true, if there are any.
pub fn names(placements: &[InstallPlacement], is: impl Fn(&InstallPlacement) -> bool) -> Option<String> {
    let names = placements.iter().filter(|it| is(it)).map(|it| it.name.as_str());
    Some(names.collect::<Vec<_>>().join(", ")).filter(|it| !it.is_empty())
}

/// The clusters that a decision names.
fn clusters_of(decision: &PlacementDecision) -> impl Iterator<Item = &str> {
    let decisions = decision.status.iter().flat_map(|it| &it.decisions);
    decisions.map(|it| it.cluster_name.as_str()).filter(|it| !it.is_empty())
}

/// How many clusters a placement says that it chose.
pub fn counted(placement: &Placement) -> i32 {
    placement.status.as_ref().map_or(0, |it| it.number_of_selected_clusters)
}

/// Where placements are looked up, and the add-ons that are installed through them.
#[derive(Clone)]
pub struct PlacementLookup {
    cluster_management_addons: Cache<ClusterManagementAddOn>,
    placements: Cache<Placement>,
    decisions: Decisions,
}

impl PlacementLookup {
    /// In these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            cluster_management_addons: caches.of(),
            placements: caches.of(),
            decisions: Decisions::of(caches),
        }
    }

    /// The placements of an add-on, in the order of its spec; none where it is installed by hand.
    pub fn of(&self, offer: &ClusterManagementAddOn) -> Vec<InstallPlacement> {
        let strategy = Some(&offer.spec.install_strategy).filter(|_| facts::follows_placements(offer));
        let placements = strategy.into_iter().flat_map(|it| &it.placements);
        let look_up = placements.map(|it| InstallPlacement {
            name: format!("{}/{}", it.namespace, it.name),
            placement: self.placements.get(&it.namespace, &it.name),
            decisions: self.decisions.of_placement(&it.namespace, &it.name),
        });
        look_up.collect()
    }

    /// The names of the add-ons that are installed through a placement (`namespace/name`).
    fn installed_through(&self, placement: &str) -> Vec<String> {
        let (namespace, name) = placement.split_once('/').unwrap_or_default();
        let all = self.cluster_management_addons.list();
        let named = all.iter().filter(|it| {
            let mut placements = it.spec.install_strategy.placements.iter();
            facts::follows_placements(it) && placements.any(|it| it.namespace == namespace && it.name == name)
        });
        named.map(|it| it.name_any()).collect()
    }

    fn of_decision(&self, decision: &PlacementDecision) -> Vec<String> {
        self.installed_through(&placement_of(decision).unwrap_or_default())
    }

    /// The names of the add-ons of which some placement chose this cluster.
    pub fn choosing(&self, cluster: &str) -> Vec<String> {
        let decisions = self.decisions.cache.list();
        let naming = decisions.iter().filter(|it| clusters_of(it).any(|it| it == cluster));
        naming.flat_map(|it| self.of_decision(it)).collect()
    }

    /// Wakes the add-ons whose placements choose otherwise: decisions that change, and placements that come, go,
    /// or have another `concern`.
    pub fn watches<T: PartialEq>(
        &self,
        watches: &mut Watches,
        concern: impl Fn(&Placement) -> T + Send + Sync + 'static,
    ) {
        let of = self.clone();
        watches.wakes(&self.placements, move |old, new| match (old, new) {
            (Some(old), Some(new)) if concern(old) == concern(new) => Vec::new(),
            (old, new) => new.or(old).map_or(Vec::new(), |it| of.installed_through(&key_of(it))),
        });
        let of = self.clone();
        watches.wakes(&self.decisions.cache, move |old, new| {
            let same = matches!((old, new), (Some(old), Some(new))
                if old.metadata.labels == new.metadata.labels && old.status == new.status);
            let changed = [old, new].into_iter().flatten().filter(|_| !same);
            changed.flat_map(|it| of.of_decision(it)).collect::<Vec<_>>()
        });
    }
}
