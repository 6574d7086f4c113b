//! Every cluster that the placements of a ManifestWorkReplicaSet choose has its work, when it is its turn.
//!
//! Reads: ManifestWorkReplicaSets, their works, Placements, PlacementDecisions, ControllerRevisions.
//! Writes: the works, the ControllerRevisions and the finalizer of the set. Never: a status; a work that does not have the
//! set's label, also if it has the name of ours; more clusters under way than the strategy allows.
//! Upstream: ocm `manifestworkreplicasetcontroller`, finalize and deploy reconcilers; [`super`] says where we differ.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use ocm_api::{
    cluster::{Placement, PlacementDecision},
    finalizers,
    work::{ManifestWork, ManifestWorkReplicaSet},
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, Watches, async_trait, cache::split_key, rbac::Right,
};

use super::{
    concerned,
    desired_state::{DesiredState, PlacementWithDecisions, Seen},
    names, revision,
    rollout_status::{RolloutStatus, RolloutStatuses},
    rounds,
    works_by_set::{WorkChange, WorksBySet},
    writes,
};

/// The reconciler.
pub struct ReplicaSetWorks {
    pub(super) sets: Cache<ManifestWorkReplicaSet>,
    pub(super) works: Cache<ManifestWork>,
    pub(super) placements: Cache<Placement>,
    pub(super) decisions: Cache<PlacementDecision>,
    /// The templates that sets had; it never arrives where nobody may look at them.
    pub(super) revisions: Cache<ControllerRevision>,
    pub(super) by_set: WorksBySet,
    pub(super) statuses: RolloutStatuses,
}

impl ReplicaSetWorks {
    /// Over the caches of the process.
    pub fn new(caches: &Caches) -> Self {
        Self {
            sets: caches.of(),
            works: caches.of(),
            placements: caches.of(),
            decisions: caches.of(),
            revisions: revision::watch(caches),
            by_set: WorksBySet::beside(caches),
            statuses: RolloutStatuses::beside(caches),
        }
    }
}

#[async_trait]
impl Reconciler for ReplicaSetWorks {
    const NAME: &'static str = "manifest-work-replica-set";
    const WORKERS: usize = 4;
    const AT_ONCE: usize = 64;
    const RIGHTS: &'static [Right] = &[
        Right::new(
            ManifestWork::GROUP,
            "manifestworks",
            "create delete patch",
            "Works of sets,",
        ),
        Right::new(
            ManifestWork::GROUP,
            "manifestworkreplicasets",
            "patch",
            "held by a finalizer,",
        ),
        Right::new(
            "apps",
            "controllerrevisions",
            "create delete patch",
            "and what they said before.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (of_placement, of_decision) = (self.sets.clone(), self.sets.clone());
        let (met, waiting, by_set) = (self.statuses.clone(), self.statuses.clone(), self.by_set.clone());
        watches
            .wakes(&self.sets, concerned::itself)
            .wakes(&self.works, move |old, new| concerned::in_whose_way(&met, old, new))
            .wakes(&self.placements, move |old, new| {
                concerned::of_placement(&of_placement, old, new)
            })
            .wakes(&self.decisions, move |old, new| {
                concerned::of_decision(&of_decision, old, new)
            })
            .wakes(&self.revisions, concerned::of_revision)
            .if_allowed(&self.revisions)
            .signal(
                "a work that is not as its set wants it, or lets the next one begin",
                move |queue| {
                    let queue = queue.clone();
                    by_set.listen(move |key, change| {
                        if change == WorkChange::Content || change == WorkChange::Rollout && waiting.waits(key) {
                            queue.add(key);
                        }
                    });
                },
            );
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let mut seen = Seen {
            key: key.to_owned(),
            now: Timestamp::now(),
            set: self.sets.get(namespace, name),
            ..Seen::default()
        };
        if let Some(set) = seen.set.as_deref() {
            let decisions = self.decisions.list_in(namespace);
            let chosen =
                |name: &String| PlacementWithDecisions::of(self.placements.get(namespace, name), &decisions, name);
            seen.placements = set.spec.placement_refs.iter().map(|it| chosen(&it.name)).collect();
            seen.members = self.by_set.members(&names::label_value(set));
            seen.revisions = self.revisions.is_synced().then(|| self.revisions.list_in(namespace));
            seen.strangers = self
                .statuses
                .strangers(key, |cluster, name| self.works.get(cluster, name));
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(set) = seen.set.as_deref() else {
            return plan;
        };
        if set.metadata.deletion_timestamp.is_some() {
            writes::leave(&mut plan, set, seen);
            return plan;
        }
        let desired = DesiredState::of(set, seen);
        if let Some(why) = names::refusal(set) {
            plan.refuse(why);
        } else if plan
            .add_finalizer(Site::Hub, set, finalizers::MANIFEST_WORK_REPLICA_SET)
            .is_none()
        {
            if let Some(revisions) = &seen.revisions {
                revision::record(&mut plan, set, &desired.template, revisions);
            }
            writes::deliver(&mut plan, &desired, seen);
        } // Otherwise the works come with the next run, which the finalizer's own change asks for.
        plan.work_out(RolloutStatus::of(&desired, seen));
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        self.see_what_is_written(seen, outcome);
    }

    fn goes_on(_: &Seen, outcome: &Outcome) -> bool {
        writes::has_more(outcome.plan())
    }

    async fn observe_again(&self, key: &str, before: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        let mut seen = self.observe(key).await?;
        seen.earlier = before.earlier.and(outcome);
        Ok(seen)
    }

    fn failure(_: &Seen, outcome: &Outcome) -> Option<String> {
        rounds::failures(outcome)
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        seen.earlier.clone().and(outcome).conclude()
    }
}

#[cfg(test)]
#[path = "works_tests.rs"]
mod tests;
