//! A cluster's way through the hub: accepted, denied, deleted.
//!
//! Root: ManagedCluster. Reads: its Namespace and RBAC objects; its ManifestWorks, when it has to go. Writes:
//! Namespace, RBAC objects, the finalizer `api-resource-cleanup`, condition `HubAcceptedManagedCluster`; with the
//! finalizer, for the controllers that own them, what else a cluster is given when it comes ([`super::first`]);
//! finalizers of works ([`departure`]). Never: anything else inside the namespace but two RoleBindings;
//! the namespace itself is not deleted.

pub mod acceptance;
mod departure;
mod grants;
mod objects;

use std::sync::Arc;

use jiff::Timestamp;
use kube::api::{DynamicObject, PartialObjectMeta};
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait, rbac::Right,
};

use self::{
    acceptance::{Acceptance, acceptance},
    objects::{ClusterObjects, ObjectReader},
};
use super::{HubOptions, first, permissions, uncached, uncached::Uncached};
use crate::status;

/// The reconciler.
pub struct Lifecycle {
    clusters: Cache<ManagedCluster>,
    objects: ObjectReader,
    options: Arc<HubOptions>,
    uncached: Uncached,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster's name.
    pub name: String,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// What it has on the hub.
    pub objects: ClusterObjects,
    /// Whether the API was asked for what the caches do not show.
    pub asked_api: bool,
    /// The works in the namespace; looked at only when the cluster has to go.
    pub works: Vec<PartialObjectMeta<DynamicObject>>,
    /// The hub's options.
    pub options: Arc<HubOptions>,
}

impl Lifecycle {
    /// Over these caches.
    pub fn new(caches: &Caches, options: &Arc<HubOptions>) -> Self {
        Self {
            clusters: caches.of(),
            objects: ObjectReader::new(caches),
            options: options.clone(),
            uncached: Uncached::default(),
        }
    }
}

#[async_trait]
impl Reconciler for Lifecycle {
    const NAME: &'static str = "managed-cluster";
    const WORKERS: usize = super::WORKERS;
    const AT_ONCE: usize = 4;
    const STATUS: &'static [StatusField] = acceptance::STATUS;
    const RIGHTS: &'static [Right] = permissions::LIFECYCLE;
    type Seen = Seen;

    /// Clusters, and everything that carries a cluster's label, so that tampering is repaired.
    fn watches(&self, watches: &mut Watches) {
        self.objects.watches(watches.root(&self.clusters));
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let mut seen = Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            cluster: self.clusters.named(name),
            objects: ClusterObjects::default(),
            asked_api: self.uncached.has(name),
            works: Vec::new(),
            options: self.options.clone(),
        };
        match acceptance(seen.cluster.as_deref(), self.options.auto_accept) {
            Acceptance::ToAutoAccept => {}
            // Without the finalizer nothing was ever made for it.
            Acceptance::Waiting if !seen.cluster.as_deref().is_some_and(first::has_come) => {}
            Acceptance::Waiting | Acceptance::Denied => seen.objects = self.objects.read_rbac(name).await?,
            Acceptance::Accepted if seen.asked_api => seen.objects = self.objects.read(name).await?,
            Acceptance::Accepted => seen.objects = self.objects.cached(name),
            Acceptance::Leaving => {
                seen.objects = self.objects.read_rbac(name).await?;
                seen.works = self.objects.works(name).await?;
            }
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        match acceptance(seen.cluster.as_deref(), seen.options.auto_accept) {
            Acceptance::Leaving => departure::leave(seen),
            Acceptance::ToAutoAccept => grants::auto_accept(seen),
            Acceptance::Waiting => grants::wait(seen),
            Acceptance::Denied => grants::deny(seen),
            Acceptance::Accepted => grants::accept(seen),
        }
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        self.uncached.remember(&seen.name, seen.cluster.is_some(), outcome);
        self.objects.put_written(outcome);
        uncached::put_written(&self.clusters, outcome);
    }

    /// What was there already may say something else.
    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        uncached::is_found_out(seen.asked_api, outcome)
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = &seen.cluster else { return plan };
        // It was made since we asked for it, and no event need come.
        if uncached::already_exists(outcome) {
            plan.look_again(uncached::EXISTS_AGAIN);
            return plan;
        }
        let acceptance = acceptance(Some(cluster), seen.options.auto_accept);
        if let Some(update) = acceptance::condition_of(&acceptance, outcome) {
            // The finalizer patch of the plan has moved the resourceVersion on.
            let latest = outcome.latest::<ManagedCluster>(Site::Hub, None, &seen.name);
            let cluster = latest.as_ref().unwrap_or(cluster);
            plan.status(Site::Hub, cluster, &status::saying(cluster, update, seen.now));
        }
        plan
    }

    fn concluded(&self, outcome: &Outcome) {
        uncached::put_written(&self.clusters, outcome);
    }
}

#[cfg(test)]
#[path = "lifecycle_tests.rs"]
mod tests;
