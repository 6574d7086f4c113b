//! Which configurations an add-on has by default and on the clusters of each of its placements.
//!
//! Root: ClusterManagementAddOn. Reads: nothing else. Writes: `status.defaultConfigReferences` and the entries of
//! `status.installProgressions` without their hashes (the configurations' watcher has them) and without their conditions and
//! applied configurations (the rollout has them).
//! Never: the progressions of an add-on whose own manager looks after it.
//! Upstream: ocm `pkg/addon/controllers/cmainstallprogression`.

use std::{collections::BTreeMap, sync::Arc};

use ocm_api::addon::{
    ConfigReferent, ConfigSpecHash, DefaultConfigReference, InstallConfigReference, InstallProgression,
    PlacementStrategy,
    v1alpha1::{ClusterManagementAddOn, ClusterManagementAddOnStatus},
    v1beta1::NO_DEFAULT_CONFIG,
};
use ocm_reconcile::{ObserveError, Plan, Queue, Reconciler, Site, async_trait};

use super::{Caches, facts};

/// The reconciler.
pub struct Progression {
    caches: Caches,
}

impl Progression {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self { caches: caches.clone() }
    }
}

/// Offers that change.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.cluster_management_addons.subscribe_by_name(queue);
}

#[async_trait]
impl Reconciler for Progression {
    const NAME: &'static str = "cma-install-progression";
    type Seen = Option<Arc<ClusterManagementAddOn>>;

    async fn observe(&self, name: &str) -> Result<Self::Seen, ObserveError> {
        Ok(self.caches.cluster_management_addons.named(name))
    }

    fn plan(seen: &Self::Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(offer) = seen.as_deref().filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            return plan;
        };
        if is_told(offer) {
            return plan;
        }
        let mut new = offer.clone();
        let status = new.status.get_or_insert_default();
        status.default_config_references = defaults(offer);
        status.install_progressions = progressions(offer);
        plan.status(Site::Hub, offer, &new);
        plan
    }
}

/// Whether the status says what the spec says; until it does, nobody knows which configuration is whose.
pub fn is_told(offer: &ClusterManagementAddOn) -> bool {
    let nothing = ClusterManagementAddOnStatus::default();
    let status = offer.status.as_ref().unwrap_or(&nothing);
    status.default_config_references == defaults(offer) && status.install_progressions == progressions(offer)
}

fn is_named(name: &str) -> bool {
    !name.is_empty() && name != NO_DEFAULT_CONFIG
}

fn is_same(config: Option<&ConfigSpecHash>, namespace: &str, name: &str) -> bool {
    config.is_some_and(|it| it.namespace == namespace && it.name == name)
}

/// The defaults that the spec names, with the hashes that are known of them.
fn defaults(offer: &ClusterManagementAddOn) -> Vec<DefaultConfigReference> {
    let before = offer
        .status
        .as_ref()
        .map_or(&[][..], |it| &it.default_config_references);
    let wanted = offer.spec.supported_configs.iter().filter_map(|it| {
        let config = it.default_config.as_ref().filter(|it| is_named(&it.name))?;
        let known = before.iter().find(|old| {
            old.group == it.group
                && old.resource == it.resource
                && is_same(old.desired_config.as_ref(), &config.namespace, &config.name)
        });
        Some(known.cloned().unwrap_or_else(|| DefaultConfigReference {
            group: it.group.clone(),
            resource: it.resource.clone(),
            desired_config: Some(unhashed(config)),
        }))
    });
    wanted.collect()
}

fn unhashed(config: &ConfigReferent) -> ConfigSpecHash {
    ConfigSpecHash {
        namespace: config.namespace.clone(),
        name: config.name.clone(),
        spec_hash: String::new(),
    }
}

/// One entry for each placement of the spec, in its order.
fn progressions(offer: &ClusterManagementAddOn) -> Vec<InstallProgression> {
    let before = offer.status.as_ref().map_or(&[][..], |it| &it.install_progressions);
    if !facts::is_managed(offer) {
        return before.to_vec();
    }
    if !facts::follows_placements(offer) {
        return Vec::new();
    }
    let placements = offer.spec.install_strategy.placements.iter();
    placements
        .map(|it| {
            let known = before
                .iter()
                .find(|old| old.namespace == it.namespace && old.name == it.name);
            progression(offer, it, known)
        })
        .collect()
}

fn progression(
    offer: &ClusterManagementAddOn,
    placement: &PlacementStrategy,
    before: Option<&InstallProgression>,
) -> InstallProgression {
    // A kind's configurations are replaced as a whole, and the kinds are in order.
    let mut wanted: BTreeMap<(&str, &str), Vec<ConfigReferent>> = BTreeMap::new();
    for it in &offer.spec.supported_configs {
        let config = it.default_config.iter().filter(|it| is_named(&it.name));
        for config in config {
            wanted.insert((&it.group, &it.resource), vec![config.clone()]);
        }
    }
    let mut own: BTreeMap<(&str, &str), Vec<ConfigReferent>> = BTreeMap::new();
    for it in placement.configs.iter().filter(|it| is_named(&it.name)) {
        let config = ConfigReferent {
            namespace: it.namespace.clone(),
            name: it.name.clone(),
        };
        let list = own.entry((&it.group, &it.resource)).or_default();
        if !list.contains(&config) {
            list.push(config);
        }
    }
    wanted.extend(own);

    let old = |group: &str, resource: &str, config: &ConfigReferent| {
        before.into_iter().flat_map(|it| &it.config_references).find(|it| {
            it.group == group
                && it.resource == resource
                && is_same(it.desired_config.as_ref(), &config.namespace, &config.name)
        })
    };
    let all_known = wanted
        .iter()
        .all(|((group, resource), list)| list.iter().all(|it| old(group, resource, it).is_some()));
    let mut references = Vec::new();
    for ((group, resource), list) in &wanted {
        for config in list {
            let known = old(group, resource, config).cloned();
            references.push(match known {
                Some(known) if all_known => known,
                // It starts anew; a hash that is known is not forgotten, or else every cluster would be told to drop it first.
                known => InstallConfigReference {
                    group: (*group).to_owned(),
                    resource: (*resource).to_owned(),
                    desired_config: known
                        .and_then(|it| it.desired_config)
                        .or_else(|| Some(unhashed(config))),
                    last_known_good_config: None,
                    last_applied_config: None,
                },
            });
        }
    }
    InstallProgression {
        namespace: placement.namespace.clone(),
        name: placement.name.clone(),
        config_references: references,
        conditions: before
            .filter(|_| all_known)
            .map(|it| it.conditions.clone())
            .unwrap_or_default(),
    }
}

#[cfg(test)]
#[path = "progression_tests.rs"]
mod tests;
