//! Whether an add-on has arrived on its cluster with the configuration it was given.
//!
//! Root: ManagedClusterAddOn. Reads: its ClusterManagementAddOn and its works. Writes: condition `Progressing`, and
//! `lastAppliedConfig` of its configurations when it has arrived.
//! Never: an add-on whose own manager looks after it; which configuration is desired.
//! Upstream: ocm `pkg/addon/controllers/addonprogressing`. Its reason `Failed` stands for a cache that could not be read, which
//! ours always can.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ConfigReference, ManagedClusterAddOn},
    annotations,
    condition::{self, wanted},
    conditions::{
        managed_cluster_add_on::{self, progressing_reason as reason},
        manifest_work,
    },
    labels,
    work::ManifestWork,
};
use ocm_reconcile::{ObserveError, Plan, Queue, Reconciler, async_trait, cache};

use super::{Caches, caches, facts};

/// The reconciler.
pub struct Progressing {
    caches: Caches,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The add-on on a cluster; `None` when it is gone.
    pub addon: Option<Arc<ManagedClusterAddOn>>,
    /// What the hub offers under its name.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
    /// Its works, wherever they are.
    pub works: Vec<Arc<ManifestWork>>,
}

impl Progressing {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self { caches: caches.clone() }
    }
}

/// Add-ons, their works, and offers that change hands.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.addons.subscribe(queue, |old, new| {
        let new = new?;
        let same = old.is_some_and(|old| concerns(old) == concerns(new));
        (!same).then(|| cache::key_of(new))
    });
    caches
        .works
        .subscribe(queue, |old, new| new.or(old).and_then(caches::addon_of));
    let all = caches.clone();
    caches
        .cluster_management_addons
        .subscribe(queue, move |old, new| match new {
            Some(new) if old.is_none_or(|it| facts::is_managed(it) != facts::is_managed(new)) => {
                all.addon_keys(&new.name_any())
            }
            _ => Vec::new(),
        });
}

/// All that matters here of an add-on.
fn concerns(addon: &ManagedClusterAddOn) -> impl PartialEq + '_ {
    let conditions = facts::conditions(addon);
    let is_there = |r#type: &str| condition::find(conditions, r#type).is_some();
    let progressing = condition::find(conditions, managed_cluster_add_on::PROGRESSING);
    (
        (&addon.metadata.uid, &addon.spec.configs, facts::references(addon)),
        facts::hosting_cluster(addon),
        addon.status.as_ref().map(|it| &it.supported_configs),
        is_there(managed_cluster_add_on::MANIFEST_APPLIED),
        is_there(managed_cluster_add_on::HOSTING_MANIFEST_APPLIED),
        progressing,
    )
}

#[async_trait]
impl Reconciler for Progressing {
    const NAME: &'static str = "addon-progressing";
    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = cache::split_key(key);
        Ok(Seen {
            now: Timestamp::now(),
            addon: self.caches.addons.get(cluster, name),
            cluster_management_addon: self.caches.cluster_management_addons.named(name),
            works: self.caches.works_of(cluster, name),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(addon) = seen.addon.as_deref() else {
            return plan;
        };
        if facts::looked_after(&seen.cluster_management_addon).is_none() {
            return plan;
        }
        let (progressing, reason, message) = judge(addon, &seen.works);
        let condition = wanted(managed_cluster_add_on::PROGRESSING, progressing, reason, message);
        let mut new = facts::saying(addon, condition, seen.now);
        if reason == reason::COMPLETED {
            let status = new.status.get_or_insert_default();
            for it in &mut status.config_references {
                it.last_applied_config = it.desired_config.clone();
            }
        }
        facts::tell(&mut plan, addon, &new);
        plan
    }
}

fn judge(addon: &ManagedClusterAddOn, works: &[Arc<ManifestWork>]) -> (bool, &'static str, String) {
    if let Some((group, resource)) = unsupported(addon) {
        let message = format!("Configuration with gvr {group}/{resource} is not supported for this addon");
        return (false, reason::UNSUPPORTED, message);
    }
    let lacks = |r#type: &str| condition::find(facts::conditions(addon), r#type).is_none();
    if lacks(managed_cluster_add_on::MANIFEST_APPLIED) {
        let message = "Waiting for ManagedClusterAddOn ManifestApplied condition".to_owned();
        return (false, reason::WAITING_FOR_MANIFEST_APPLIED, message);
    }
    let host = facts::hosting_cluster(addon);
    if host.is_some() && lacks(managed_cluster_add_on::HOSTING_MANIFEST_APPLIED) {
        let message = "Waiting for ManagedClusterAddOn HostingManifestApplied condition".to_owned();
        return (false, reason::WAITING_FOR_HOSTING_MANIFEST_APPLIED, message);
    }
    let under_way = |what: &str| (true, reason::PROGRESSING, format!("progressing... {what}"));
    let works: Vec<&ManifestWork> = works
        .iter()
        .map(|it| &**it)
        .filter(|it| is_of(it, addon, host))
        .collect();
    if works.is_empty() {
        return under_way("no addon works");
    }
    let hook = format!("addon-{}-pre-delete", addon.name_any());
    for work in works.iter().filter(|it| !it.name_any().starts_with(&hook)) {
        if !is_configured(work, facts::references(addon)) {
            return under_way("mca and work configs mismatch");
        }
        if !is_ready(work) {
            return under_way("work is not ready");
        }
    }
    (false, reason::COMPLETED, "completed with no errors.".to_owned())
}

/// A configuration of the add-on's own that its manager does not understand.
fn unsupported(addon: &ManagedClusterAddOn) -> Option<(&str, &str)> {
    let supported = addon.status.as_ref().map_or(&[][..], |it| &it.supported_configs);
    let strange = addon.spec.configs.iter().find(|it| {
        !supported
            .iter()
            .any(|known| known.group == it.group && known.resource == it.resource)
    })?;
    Some((&strange.group, &strange.resource))
}

/// Whether a work labelled with the add-on belongs to it where its agent runs now.
fn is_of(work: &ManifestWork, addon: &ManagedClusterAddOn, host: Option<&str>) -> bool {
    let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
    match work.labels().contains_key(labels::ADDON_NAMESPACE) {
        true => host == Some(namespace),
        false => namespace == facts::cluster(addon),
    }
}

/// Whether a work was made from the configurations that are desired.
fn is_configured(work: &ManifestWork, references: &[ConfigReference]) -> bool {
    let Some(text) = work.annotations().get(annotations::CONFIG_SPEC_HASH) else {
        return references.is_empty();
    };
    let Ok(used) = serde_json::from_str::<BTreeMap<String, String>>(text) else {
        return false;
    };
    used.values().all(|it| !it.is_empty()) && used == hashes(references)
}

/// `<resource>.<group>/<namespace>/<name>` and the hash of each configuration that is desired.
fn hashes(references: &[ConfigReference]) -> BTreeMap<String, String> {
    let one = |it: &ConfigReference| {
        let config = it.desired_config.as_ref()?;
        let group = if it.group.is_empty() {
            String::new()
        } else {
            format!(".{}", it.group)
        };
        let key = format!("{}{group}/{}/{}", it.resource, config.namespace, config.name);
        Some((key, config.spec_hash.clone()))
    };
    references.iter().filter_map(one).collect()
}

/// Whether the agent has applied the work as it is now, and found its objects.
fn is_ready(work: &ManifestWork) -> bool {
    let conditions = work.status.as_ref().map_or(&[][..], |it| &it.conditions);
    [manifest_work::APPLIED, manifest_work::AVAILABLE]
        .into_iter()
        .all(|it| {
            condition::find(conditions, it)
                .is_some_and(|it| it.status == "True" && it.observed_generation == work.metadata.generation)
        })
}

#[cfg(test)]
#[path = "progressing_tests.rs"]
mod tests;
