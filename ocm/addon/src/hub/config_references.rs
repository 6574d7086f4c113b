//! Which configurations the status of a ClusterManagementAddOn names: its defaults,
//! and those of each of its placements.

use std::collections::BTreeMap;

use ocm_api::addon::{
    ConfigReferent, ConfigSpecHash, DefaultConfigReference, InstallConfigReference, InstallProgression,
    PlacementStrategy,
    v1alpha1::{ClusterManagementAddOn, ClusterManagementAddOnStatus},
    v1beta1::NO_DEFAULT_CONFIG,
};

use super::facts;

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
pub fn defaults(offer: &ClusterManagementAddOn) -> Vec<DefaultConfigReference> {
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
pub fn progressions(offer: &ClusterManagementAddOn) -> Vec<InstallProgression> {
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
                // It starts anew; a hash that is known is not forgotten, or else every cluster would be told
                // to drop it first.
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
