//! Which configuration is whose: the add-on's own for a kind, or else its placement's, or else the default.

use std::{borrow::Cow, collections::BTreeMap};

use ocm_api::addon::{
    ConfigSpecHash, InstallProgression,
    v1alpha1::{ClusterManagementAddOn, ConfigReference, ManagedClusterAddOn},
    v1beta1::NO_DEFAULT_CONFIG,
};

use crate::hub::facts;

/// Group and resource of a kind of configuration.
pub type GroupResource = (String, String);

/// Configurations by kind. Those of one kind are in the order in which they were named.
pub type Desired = BTreeMap<GroupResource, Vec<ConfigSpecHash>>;

/// The defaults.
pub fn defaults(offer: &ClusterManagementAddOn) -> Desired {
    let references = offer.status.iter().flat_map(|it| &it.default_config_references);
    collect(references.filter_map(|it| Some((&it.group, &it.resource, it.desired_config.as_ref()?))))
}

/// What holds on the clusters of a placement.
pub fn of_placement(defaults: &Desired, progression: &InstallProgression) -> Desired {
    let references = progression.config_references.iter();
    let own = collect(references.filter_map(|it| Some((&it.group, &it.resource, it.desired_config.as_ref()?))));
    let mut desired = defaults.clone();
    desired.extend(own);
    desired
}

/// What holds for one add-on. Its hashes of its own configurations are in its own status.
pub fn of_addon<'a>(inherited: &'a Desired, addon: &ManagedClusterAddOn) -> Cow<'a, Desired> {
    if addon.spec.configs.is_empty() {
        return Cow::Borrowed(inherited);
    }
    let known = facts::references(addon);
    let mut own = Desired::new();
    for it in addon.spec.configs.iter().filter(|it| is_named(&it.name)) {
        let hash = known
            .iter()
            .filter(|old| old.group == it.group && old.resource == it.resource)
            .filter_map(|old| old.desired_config.as_ref())
            .find(|old| old.namespace == it.namespace && old.name == it.name)
            .map(|old| old.spec_hash.clone())
            .unwrap_or_default();
        let config = ConfigSpecHash {
            namespace: it.namespace.clone(),
            name: it.name.clone(),
            spec_hash: hash,
        };
        push(&mut own, &it.group, &it.resource, config);
    }
    let mut desired = inherited.clone();
    desired.extend(own);
    Cow::Owned(desired)
}

fn is_named(name: &str) -> bool {
    !name.is_empty() && name != NO_DEFAULT_CONFIG
}

fn collect<'a>(all: impl Iterator<Item = (&'a String, &'a String, &'a ConfigSpecHash)>) -> Desired {
    let mut desired = Desired::new();
    for (group, resource, config) in all.filter(|(_, _, it)| is_named(&it.name)) {
        push(&mut desired, group, resource, config.clone());
    }
    desired
}

fn push(desired: &mut Desired, group: &str, resource: &str, config: ConfigSpecHash) {
    let list = desired.entry((group.to_owned(), resource.to_owned())).or_default();
    if !list
        .iter()
        .any(|it| it.namespace == config.namespace && it.name == config.name)
    {
        list.push(config);
    }
}

/// The references as they should be: sorted by kind, what is known of those that stay kept.
pub fn references(desired: &Desired, before: &[ConfigReference]) -> Vec<ConfigReference> {
    let mut references = Vec::new();
    for ((group, resource), list) in desired {
        for config in list {
            let old = before.iter().find(|it| is_reference(it, group, resource, config));
            references.push(ConfigReference {
                group: group.clone(),
                resource: resource.clone(),
                namespace: config.namespace.clone(),
                name: config.name.clone(),
                last_observed_generation: old.map_or(0, |it| it.last_observed_generation),
                desired_config: Some(config.clone()),
                last_applied_config: old.and_then(|it| it.last_applied_config.clone()),
            });
        }
    }
    references
}

/// Whether a reference is to this object, in whatever state.
fn is_reference(reference: &ConfigReference, group: &str, resource: &str, config: &ConfigSpecHash) -> bool {
    let to = reference.desired_config.as_ref();
    reference.group == group
        && reference.resource == resource
        && to.is_some_and(|it| it.namespace == config.namespace && it.name == config.name)
}

/// Whether the add-on has been told all of this and nothing else.
pub fn is_told(desired: &Desired, references: &[ConfigReference]) -> bool {
    let wanted: usize = desired.values().map(Vec::len).sum();
    references.len() == wanted
        && desired.iter().all(|((group, resource), list)| {
            list.iter().all(|config| {
                let told = references.iter().find(|it| is_reference(it, group, resource, config));
                told.is_some_and(|it| it.desired_config.as_ref() == Some(config))
            })
        })
}
