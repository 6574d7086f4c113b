//! Every cluster that the placements of a ManifestWorkReplicaSet choose has its work, when it is its turn.
//!
//! Reads: ManifestWorkReplicaSets, their works, Placements, PlacementDecisions, ControllerRevisions.
//! Writes: the works, the ControllerRevisions and the finalizer of the set. Never: a status; a work that does not have
//! the set's label, also if it has the name of ours; more clusters under way than the strategy allows.
//! Upstream: ocm `manifestworkreplicasetcontroller`, finalize and deploy reconcilers; [`super`] says where we differ.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use ocm_api::{
    cluster::{Placement, PlacementDecision},
    finalizers,
    work::{GROUP as WORK, ManifestWork, ManifestWorkReplicaSet},
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
    works_by_set::WorksBySet,
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
        Right::new(WORK, "manifestworks", "create delete patch", "Works of sets,"),
        Right::new(WORK, "manifestworkreplicasets", "patch", "held by a finalizer,"),
        Right::new("apps", "controllerrevisions", "create delete patch", "and templates."),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches
            .wakes(&self.sets, concerned::itself)
            .wakes(&self.works, concerned::in_whose_way(&self.statuses))
            .wakes(&self.placements, concerned::by_placement(&self.sets))
            .wakes(&self.decisions, concerned::by_decision(&self.sets))
            .wakes(&self.revisions, concerned::by_revision)
            .if_allowed(&self.revisions)
            .signal("the works of a set", concerned::by_work(&self.by_set, &self.statuses));
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
            let names = set.spec.placement_refs.iter().map(|it| it.name.as_str());
            let chosen = names.map(|it| PlacementWithDecisions::of(self.placements.get(namespace, it), &decisions, it));
            seen.placements = chosen.collect();
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
        seen.earlier.conclude(outcome)
    }
}

#[cfg(test)]
#[path = "works_tests.rs"]
mod tests;
