//! Brings the works of one add-on on one cluster to what its author wants, and says how far they are
//! and how the add-on is.
//!
//! Root: ManagedClusterAddOn. Reads: its ManagedCluster, the hosting one, its configurations, its works. Writes: its
//! works, three finalizers of the add-on, its conditions. What exactly, and what never, is in the header of `plan.rs`,
//! which decides; `rendering.rs` asks the author, `conclude.rs` says what came of it.
//! Health is judged in the same run: it follows from the same works, and a status that is written once wakes half as
//! many readers as one that is written twice.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Api, ResourceExt};
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn, annotations, conditions::managed_cluster_add_on as condition,
    work::ManifestWork,
};
use ocm_reconcile::{
    Done, Index, ObserveError, Outcome, Plan, Reconciler, StatusField, Watches, async_trait, cache, rbac::Right,
};

use super::{
    conclude,
    index::{AddOnWorks, WorkIndex, keys_of_work, keys_on_hosting_cluster},
    memory::{self, Fingerprints, RenderedMemory},
    plan::{self, AddOnPhase, Here, Root, Seen},
    rendering::Rendered,
    works::name_of,
    written::{catch_up, was_there_already},
};
use crate::hub::{Context, Look, WORKERS, rights};

const ADDON: &str = "ManagedClusterAddOn";

/// How soon to look again for a work that is there and that neither the watch nor a look at it has shown.
const UNSEEN_AGAIN: Duration = Duration::from_millis(100);

/// The reconciler.
pub struct Deploy {
    ctx: Context,
    works: AddOnWorks,
    of_addon: WorkIndex,
    hosted: Index<ManagedClusterAddOn>,
    memory: Arc<RenderedMemory>,
}

impl Deploy {
    /// Over this context. Who makes `memory` forget a key has its manifests rendered anew in its next run.
    pub fn new(ctx: &Context, memory: &Arc<RenderedMemory>) -> Self {
        let works = AddOnWorks::of(&ctx.caches);
        let host = |it: &ManagedClusterAddOn| it.annotations().get(annotations::ADDON_HOSTING_CLUSTER).cloned();
        Self {
            of_addon: WorkIndex::over(&works.0),
            works,
            hosted: Index::over(&ctx.addons, host),
            ctx: ctx.clone(),
            memory: memory.clone(),
        }
    }
}

#[async_trait]
impl Reconciler for Deploy {
    const NAME: &'static str = "addon-deploy";
    const WORKERS: usize = WORKERS;
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(ADDON, condition::MANIFEST_APPLIED),
        StatusField::condition(ADDON, condition::HOSTING_MANIFEST_APPLIED),
        StatusField::condition(ADDON, condition::HOSTING_CLUSTER_VALIDITY),
        StatusField::condition(ADDON, condition::HOOK_MANIFEST_COMPLETED),
        StatusField::condition(ADDON, condition::AVAILABLE)
            .shared("the cluster's agent says it of an add-on with a lease, the hub of a cluster that is not heard of"),
    ];
    const RIGHTS: &'static [Right] = rights::DEPLOY;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        self.ctx.watches(watches);
        watches.wakes(&self.works.0, keys_of_work(&self.ctx.registry));
        watches.wakes(&self.ctx.clusters, keys_on_hosting_cluster(&self.hosted));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let epoch = self.memory.epoch();
        let (cluster, name) = cache::split_key(key);
        let root = match self.ctx.look(key) {
            Look::NotOurs => Root::NotOurs,
            Look::Gone => Root::Gone,
            Look::Waits(why) => match self.ctx.addons.get(cluster, name) {
                Some(addon) if self.ctx.clusters.named(cluster).is_none() => Root::ClusterGone(addon),
                _ => Root::Waits(why),
            },
            Look::Here(it) => Root::Here(Box::new(Here::of(it.add_on, it.place, self.memory.of(key), epoch))),
        };
        Ok(Seen {
            now: Timestamp::now(),
            key: key.to_owned(),
            root,
            works: self.of_addon.of(cluster, name),
            is_second_look: false,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        plan::plan(seen)
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let here = match &seen.root {
            Root::Here(here) => here,
            Root::Waits(_) => return,
            Root::NotOurs | Root::Gone | Root::ClusterGone(_) => return self.memory.forget(&seen.key),
        };
        let rendered = here.rendered(&seen.works);
        if here.phase() == AddOnPhase::Serving && matches!(rendered, Rendered::Works(_)) && outcome.succeeded() {
            // One that was there already when we made it is known when it was looked at.
            if let Some(after) = conclude::all_deployed(seen, here, outcome) {
                let fingerprints = Fingerprints {
                    inputs: here.inputs,
                    works: memory::works(&after),
                };
                self.memory.keep(&seen.key, fingerprints, here.epoch);
            }
        }
    }

    /// A work that was to be made may be there although the watch, which goes by its label, does not show it: mostly it
    /// has not caught up, or else somebody has taken the label away.
    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        !seen.is_second_look && was_there_already(outcome)
    }

    async fn observe_again(&self, key: &str, _: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        let mut seen = catch_up(self.observe(key).await?, outcome);
        for (step, result) in outcome.results() {
            let (Some(it), Ok(Done::AlreadyExists)) = (step.target(), result) else {
                continue;
            };
            let namespace = it.namespace.as_deref().unwrap_or_default();
            let api = Api::<ManifestWork>::namespaced(self.ctx.client()?, namespace);
            if let Some(work) = api.get_opt(&it.name).await? {
                seen.works.retain(|other| name_of(other) != (namespace, &it.name));
                seen.works.push(Arc::new(work));
            }
        }
        seen.is_second_look = true;
        Ok(seen)
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut page = conclude::conclude(seen, outcome);
        if was_there_already(outcome) {
            page.look_again(UNSEEN_AGAIN);
        }
        page
    }
}
