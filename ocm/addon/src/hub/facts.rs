//! Small questions about add-ons that several controllers ask.

use std::sync::Arc;

use jiff::Timestamp;
use ocm_api::{
    Condition,
    addon::{
        ConfigSpecHash, InstallStrategyType,
        v1alpha1::{ClusterManagementAddOn, ConfigReference, ManagedClusterAddOn},
    },
    annotations,
    condition::{self, ConditionUpdate},
};
use ocm_reconcile::{Plan, Site};

/// Whether the controllers of this crate look after an add-on, by the annotation `lifecycle` of its
/// ClusterManagementAddOn: absent or `addon-manager`. Anything else, even an empty text,
/// means that its own manager does.
pub fn is_managed(addon: &ClusterManagementAddOn) -> bool {
    let annotations = addon.metadata.annotations.as_ref();
    annotations
        .and_then(|it| it.get(annotations::ADDON_LIFECYCLE))
        .is_none_or(|it| it == "addon-manager")
}

/// The new object, if it is not for somebody the same as the old one. They are compared where they are: every change
/// of any object comes by here, and few concern anybody.
pub fn changed<'a, K>(old: Option<&K>, new: Option<&'a K>, is_same: impl Fn(&K, &K) -> bool) -> Option<&'a K> {
    new.filter(|new| !old.is_some_and(|old| is_same(old, new)))
}

/// Which ClusterManagementAddOn it is, and whether it is looked after: what else it says matters to fewer.
pub fn identity(addon: &ClusterManagementAddOn) -> (Option<&str>, bool) {
    (addon.metadata.uid.as_deref(), is_managed(addon))
}

/// The ClusterManagementAddOn, if there is one to look after.
pub fn looked_after(addon: &Option<Arc<ClusterManagementAddOn>>) -> Option<&ClusterManagementAddOn> {
    addon
        .as_deref()
        .filter(|it| it.metadata.deletion_timestamp.is_none() && is_managed(it))
}

/// The ClusterManagementAddOn, if it is to be looked after and goes where placements say.
pub fn installed_by_placements(addon: &Option<Arc<ClusterManagementAddOn>>) -> Option<&ClusterManagementAddOn> {
    looked_after(addon).filter(|it| follows_placements(it))
}

/// Whether the add-on goes where placements say.
pub fn follows_placements(addon: &ClusterManagementAddOn) -> bool {
    addon.spec.install_strategy.r#type == InstallStrategyType::Placements
}

/// What is said about an add-on.
pub fn conditions(addon: &ManagedClusterAddOn) -> &[Condition] {
    addon.status.as_ref().map_or(&[], |it| &it.conditions)
}

/// The configurations an add-on has and gets.
pub fn references(addon: &ManagedClusterAddOn) -> &[ConfigReference] {
    addon.status.as_ref().map_or(&[], |it| &it.config_references)
}

/// The cluster the add-on is for.
pub fn cluster(addon: &ManagedClusterAddOn) -> &str {
    addon.metadata.namespace.as_deref().unwrap_or_default()
}

/// The cluster that hosts the add-on's agent instead, if the annotation names one. Empty counts as named,
/// as upstream has it.
pub fn hosting_cluster(addon: &ManagedClusterAddOn) -> Option<&str> {
    let annotations = addon.metadata.annotations.as_ref()?;
    annotations.get(annotations::ADDON_HOSTING_CLUSTER).map(String::as_str)
}

/// Whether somebody is removing it.
pub fn is_leaving(addon: &ManagedClusterAddOn) -> bool {
    addon.metadata.deletion_timestamp.is_some()
}

/// The add-on with this said about it.
pub fn saying(addon: &ManagedClusterAddOn, wanted: ConditionUpdate, now: Timestamp) -> ManagedClusterAddOn {
    let mut addon = addon.clone();
    condition::set(&mut addon.status.get_or_insert_default().conditions, wanted, now);
    addon
}

/// The add-on with nothing said about it under this type.
pub fn saying_nothing_of(addon: &ManagedClusterAddOn, r#type: &str) -> ManagedClusterAddOn {
    let mut addon = addon.clone();
    if let Some(status) = &mut addon.status {
        condition::remove(&mut status.conditions, r#type);
    }
    addon
}

/// `namespace/name`, or the name alone.
pub fn named(config: &ConfigSpecHash) -> String {
    if config.namespace.is_empty() {
        config.name.clone()
    } else {
        format!("{}/{}", config.namespace, config.name)
    }
}

/// Writes this down about an add-on, if it is anything new.
pub fn say(plan: &mut Plan, addon: &ManagedClusterAddOn, wanted: ConditionUpdate, now: Timestamp) {
    tell(plan, addon, &saying(addon, wanted, now));
}

/// Writes down what is said about an add-on now, if that is anything new. Most of the time it is not, and comparing is
/// cheaper than writing both down.
pub fn tell(plan: &mut Plan, before: &ManagedClusterAddOn, now: &ManagedClusterAddOn) {
    if before.status != now.status {
        plan.status(Site::Hub, before, now);
    }
}
