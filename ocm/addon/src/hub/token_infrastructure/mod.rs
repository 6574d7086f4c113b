//! What an add-on's agent needs on the hub when it comes with a token: a ServiceAccount,
//! and the cluster's right to ask for its tokens.
//!
//! Root: ManagedClusterAddOn. Reads: its ManagedCluster; the three objects. Writes: ServiceAccount, Role and
//! RoleBinding, which belong to the add-on; condition `TokenInfrastructureReady`, whose message carries the account's
//! UID to the agent. Never: a token; another add-on's objects, or a ServiceAccount that somebody else has made under
//! the name: the cluster would be handed whatever that may do.
//! Upstream: ocm `pkg/addon/controllers/addontokeninfra`, which takes everything away as soon as the add-on is being
//! deleted. The agent still needs its access to the hub to clean up after itself, so ours outlives the deletion
//! timestamp. Where the cluster is denied or deleted, all of it goes at once, and with the account every token
//! of it ends.

mod condition;
mod eligibility;
mod objects;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, cluster::ManagedCluster};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, StatusField, Watches, async_trait,
    cache::{key_of, split_key},
    rbac::Right,
};
use parking_lot::Mutex;

use super::{facts, rights};
use eligibility::{addon_with_token, is_concerned, is_let_in, may_have_token};
use objects::{ObjectCaches, TokenObjects, keep_all, remove_all};

/// How soon to look again for an object that was there when it was to be made: mostly the watch is about to bring it.
const UNSEEN_AGAIN: Duration = Duration::from_millis(200);

/// How soon to try again when it is somebody else's. Nothing tells when it goes.
const STRANGERS_AGAIN: Duration = Duration::from_secs(30);

/// The reconciler.
pub struct TokenInfrastructure {
    addons: Cache<ManagedClusterAddOn>,
    clusters: Cache<ManagedCluster>,
    objects: ObjectCaches,
    // The add-ons of which an object was there already in the last run.
    met: Mutex<BTreeSet<String>>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The add-on on a cluster; `None` when it is gone.
    pub addon: Option<Arc<ManagedClusterAddOn>>,
    /// Whether its cluster is accepted, and stays.
    pub is_let_in: bool,
    /// What there is for it.
    pub objects: TokenObjects,
    /// Whether an object was there already when it was to be made in the last run.
    pub met: bool,
}

#[async_trait]
impl Reconciler for TokenInfrastructure {
    const NAME: &'static str = "addon-token-infrastructure";
    const WORKERS: usize = super::WORKERS;
    const STATUS: &'static [StatusField] = condition::FIELDS;
    const RIGHTS: &'static [Right] = rights::TOKENS;
    type Seen = Seen;

    /// Add-ons, the clusters that are accepted, denied or deleted, and the objects when somebody changes them.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.addons, |old, new| {
            new.or(old).filter(|_| is_concerned(old, new)).map(key_of)
        });
        let addons = self.addons.clone();
        // Without the clusters each would be taken for one that is gone.
        watches.wakes(&self.clusters, move |old, new| {
            let changed = new.or(old).filter(|_| is_let_in(old) != is_let_in(new));
            let there = changed.map_or(Vec::new(), |it| addons.list_in(&it.name_any()));
            let concerned = there.iter().filter(|it| may_have_token(it));
            concerned.map(|it| key_of(&**it)).collect::<Vec<_>>()
        });
        self.objects.watches(watches);
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = split_key(key);
        Ok(Seen {
            now: Timestamp::now(),
            addon: self.addons.get(cluster, name),
            is_let_in: is_let_in(self.clusters.named(cluster).as_deref()),
            objects: self.objects.of(cluster, name),
            met: self.met.lock().contains(key),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(addon) = addon_with_token(seen) else {
            remove_all(&mut plan, seen);
            return plan;
        };
        keep_all(&mut plan, &seen.objects, addon);
        match seen.objects.uid().filter(|_| plan.is_empty()) {
            Some(uid) => facts::say(&mut plan, addon, condition::ready(addon, uid), seen.now),
            None => {
                plan.wait("the objects are being made");
            }
        }
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let Some(addon) = seen.addon.as_deref() else { return };
        let mut met = self.met.lock();
        if condition::objects_in_the_way(outcome).is_empty() {
            met.remove(&key_of(addon));
        } else {
            met.insert(key_of(addon));
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(addon) = addon_with_token(seen) else {
            return plan;
        };
        if !condition::objects_in_the_way(outcome).is_empty() {
            plan.look_again(if seen.met { STRANGERS_AGAIN } else { UNSEEN_AGAIN });
        }
        if let Some(failed) = condition::after(addon, outcome, seen.met) {
            facts::say(&mut plan, addon, failed, seen.now);
        }
        plan
    }
}

impl TokenInfrastructure {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            addons: caches.of(),
            clusters: caches.of(),
            objects: ObjectCaches::new(caches),
            met: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests;
