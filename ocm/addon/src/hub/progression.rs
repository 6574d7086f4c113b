//! Which configurations an add-on has by default and on the clusters of each of its placements.
//!
//! Root: ClusterManagementAddOn. Reads: nothing else. Writes: `status.defaultConfigReferences` and the entries of
//! `status.installProgressions` without their hashes (the configurations' watcher has them) and without their
//! conditions and applied configurations (the rollout has them).
//! Never: the progressions of an add-on whose own manager looks after it.
//! Upstream: ocm `pkg/addon/controllers/cmainstallprogression`.

use std::sync::Arc;

use ocm_api::addon::v1alpha1::ClusterManagementAddOn;
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};

use super::{
    config_references::{defaults, is_told, progressions},
    rights,
};

/// The reconciler.
pub struct Progression {
    cluster_management_addons: Cache<ClusterManagementAddOn>,
}

#[async_trait]
impl Reconciler for Progression {
    const NAME: &'static str = "cma-install-progression";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = &[
        StatusField::new(ClusterManagementAddOn::KIND, "defaultconfigReferences").shared(super::HASHES),
        StatusField::new(ClusterManagementAddOn::KIND, "installProgressions").shared(super::PROGRESSIONS),
    ];
    const RIGHTS: &'static [Right] = &[rights::OFFER_STATUS];
    type Seen = Option<Arc<ClusterManagementAddOn>>;

    fn watches(&self, watches: &mut Watches) {
        watches.root(&self.cluster_management_addons);
    }

    async fn observe(&self, name: &str) -> Result<Self::Seen, ObserveError> {
        Ok(self.cluster_management_addons.named(name))
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

impl Progression {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            cluster_management_addons: caches.of(),
        }
    }
}

#[cfg(test)]
#[path = "progression_tests.rs"]
mod tests;
