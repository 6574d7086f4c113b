//! A ManifestWorkReplicaSet says how far its works are.
//!
//! Root: ManifestWorkReplicaSets. Reads: what the last look at its clusters has found, and the counters of its works.
//! Writes: its status, ten times a second at most, however many works change. Never: a work.
//! Upstream: ocm `manifestworkreplicasetcontroller`, status reconciler.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ocm_api::{
    conditions::manifest_work_replica_set as types,
    work::{GROUP as WORK, ManifestWorkReplicaSet},
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait, cache::split_key,
    rbac::Right,
};

use super::{
    names,
    pace::Pace,
    rollout_status::{RolloutStatus, RolloutStatuses},
    status_of_set::before_and_after,
    works_by_set::{WorkCounts, WorksBySet},
};

const SET: &str = ManifestWorkReplicaSet::KIND;
const WHY: &str = "How far sets of works are.";

/// The reconciler.
pub struct ReplicaSetStatus {
    sets: Cache<ManifestWorkReplicaSet>,
    by_set: WorksBySet,
    rollouts: RolloutStatuses,
    pace: Pace,
}

/// What a report is made from.
pub struct Seen {
    /// Its namespace and name, as `namespace/name`.
    pub key: String,
    /// The time.
    pub now: Timestamp,
    /// The set; `None` when it is gone.
    pub set: Option<Arc<ManifestWorkReplicaSet>>,
    /// How the last look at its clusters went.
    pub rollout: Option<Arc<RolloutStatus>>,
    /// What there is of each placement of the set.
    pub counts: Vec<WorkCounts>,
    /// How long to hold the report back.
    pub hold: Duration,
}

impl ReplicaSetStatus {
    /// Over the caches of the process.
    pub fn new(caches: &Caches) -> Self {
        Self {
            sets: caches.of(),
            by_set: WorksBySet::beside(caches),
            rollouts: RolloutStatuses::beside(caches),
            pace: Pace::default(),
        }
    }
}

#[async_trait]
impl Reconciler for ReplicaSetStatus {
    const NAME: &'static str = "manifest-work-replica-set-status";
    const WORKERS: usize = 4;
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(SET, types::PLACEMENT_VERIFIED),
        StatusField::condition(SET, types::MANIFEST_WORK_APPLIED),
        StatusField::condition(SET, types::PLACEMENT_ROLLED_OUT),
        StatusField::new(SET, "summary"),
        StatusField::new(SET, "placementSummary"),
    ];
    const RIGHTS: &'static [Right] = &[Right::new(WORK, "manifestworkreplicasets/status", "patch", WHY)];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (by_set, rollouts) = (self.by_set.clone(), self.rollouts.clone());
        watches
            .root(&self.sets)
            .signal("the works of a set", move |queue| by_set.subscribe(queue))
            .signal("the last look at its clusters", move |queue| rollouts.subscribe(queue));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let mut seen = Seen {
            key: key.to_owned(),
            now: Timestamp::now(),
            set: self.sets.get(namespace, name),
            rollout: self.rollouts.get(key),
            counts: Vec::new(),
            hold: self.pace.hold(key, Instant::now()),
        };
        if let (Some(set), Some(rollout), true) = (&seen.set, &seen.rollout, seen.hold.is_zero()) {
            let label = names::label_value(set);
            let counts = |name: &String| self.by_set.counts(&label, name, rollout.spec);
            seen.counts = rollout.places.iter().map(|it| counts(&it.name)).collect();
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(set) = seen
            .set
            .as_deref()
            .filter(|it| it.metadata.deletion_timestamp.is_none())
        else {
            return plan;
        };
        let Some(rollout) = seen.rollout.as_deref() else {
            plan.wait("nobody has looked at its clusters yet");
            return plan;
        };
        if !seen.hold.is_zero() {
            plan.wait("it has just been reported on");
            plan.look_again(seen.hold);
            return plan;
        }
        let (old, new) = before_and_after(set, rollout, &seen.counts, seen.now);
        plan.status(Site::Hub, &old, &new);
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let Some(set) = &seen.set else {
            self.pace.forget(&seen.key);
            return;
        };
        if outcome.stages.iter().any(|it| !it.is_empty()) {
            self.pace.reported(&seen.key, Instant::now());
        }
        // Otherwise the next report would meet the resourceVersion of this one.
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let written = outcome.latest::<ManifestWorkReplicaSet>(Site::Hub, set.metadata.namespace.as_deref(), name);
        if let Some(it) = written {
            self.sets.put(it);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::model::Model;
    use super::*;

    #[test]
    fn a_report_waits_when_there_has_just_been_one() {
        let mut it = Model::new(json!([{"name": "p"}]), "1");
        it.choose("p", &["c1"]).pass();
        let mut seen = Seen {
            key: "default/web".to_owned(),
            now: it.now,
            set: Some(Arc::new(it.set.clone())),
            rollout: None,
            counts: vec![WorkCounts::default()],
            hold: Duration::from_millis(40),
        };
        let plan = ReplicaSetStatus::plan(&seen);
        assert_eq!(
            plan.to_string(),
            "nothing to do\nwaits: nobody has looked at its clusters yet\n"
        );
        seen.rollout = Some(Arc::new(it.rollout()));
        assert_eq!(ReplicaSetStatus::plan(&seen).again, Some(Duration::from_millis(40)));
        seen.hold = Duration::ZERO;
        let plan = ReplicaSetStatus::plan(&seen);
        assert_eq!(
            plan.to_string(),
            "hub: patch ManifestWorkReplicaSet default/web status\n"
        );
        // The template, which may be large, is no part of it.
        assert!(!format!("{plan:#}").contains("ConfigMap"));
    }
}
