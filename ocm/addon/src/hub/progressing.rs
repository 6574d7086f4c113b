//! Whether an add-on has arrived on its cluster with the configuration it was given.
//!
//! Root: ManagedClusterAddOn. Reads: its ClusterManagementAddOn and its works. Writes: condition `Progressing`, and
//! `lastAppliedConfig` of its configurations when it has arrived.
//! Never: an add-on whose own manager looks after it; which configuration is desired.
//! Upstream: ocm `pkg/addon/controllers/addonprogressing`. Its reason `Failed` stands for a cache
//! that could not be read, which ours always can.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    condition::{self, wanted},
    conditions::managed_cluster_add_on::{self, progressing_reason as reason},
    work::ManifestWork,
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, StatusField, Watches, async_trait,
    cache::{key_of, split_key},
    rbac::Right,
};

use super::{
    arrival::judge,
    facts,
    indexes::{AddOnWorks, AddOns, add_on_of},
    rights,
};

/// The reconciler.
pub struct Progressing {
    addons: AddOns,
    cluster_management_addons: Cache<ClusterManagementAddOn>,
    works: AddOnWorks,
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

#[async_trait]
impl Reconciler for Progressing {
    const NAME: &'static str = "addon-progressing";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(ManagedClusterAddOn::KIND, managed_cluster_add_on::PROGRESSING),
        StatusField::new(ManagedClusterAddOn::KIND, "configReferences").shared(super::REFERENCES),
    ];
    const RIGHTS: &'static [Right] = &[rights::ADD_ON_STATUS];
    type Seen = Seen;

    /// Add-ons, their works, and offers that change hands.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.addons.cache, |old, new| {
            let same = matches!((old, new), (Some(old), Some(new)) if concerns(old) == concerns(new));
            new.filter(|_| !same).map(key_of)
        });
        watches.wakes(&self.works.cache, |old, new| new.or(old).and_then(add_on_of));
        let addons = self.addons.clone();
        watches.wakes(&self.cluster_management_addons, move |old, new| {
            let changed = new.filter(|it| old.map(facts::is_managed) != Some(facts::is_managed(it)));
            changed.map_or(Vec::new(), |it| addons.keys(&it.name_any()))
        });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = split_key(key);
        Ok(Seen {
            now: Timestamp::now(),
            addon: self.addons.cache.get(cluster, name),
            cluster_management_addon: self.cluster_management_addons.named(name),
            works: self.works.of_add_on(cluster, name),
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

impl Progressing {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            addons: AddOns::of(caches),
            cluster_management_addons: caches.of(),
            works: AddOnWorks::of(caches),
        }
    }
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

#[cfg(test)]
#[path = "progressing_tests.rs"]
mod tests;
