//! A Placement gets the PlacementDecisions it should have.
//!
//! Root: Placement. Reads: its namespace's set bindings, their sets, all ManagedClusters, the AddOnPlacementScores it
//! asks for, all PlacementDecisions. Writes: its PlacementDecisions and their status; its own status.
//! Never: anything of a placement that is being deleted or has scheduling switched off; the decisions of a placement
//! that makes no sense, when it has some; a decision that somebody else owns.
//! Upstream: ocm `pkg/placement/controllers/scheduling/scheduling_controller.go`;
//! it takes a failed write for a success.

use std::sync::Arc;

use jiff::Timestamp;
use ocm_api::{
    cluster::{Placement, PlacementDecision},
    conditions::placement::{MISCONFIGURED, SATISFIED},
};
use ocm_reconcile::{
    Cache, Caches, Note, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait,
    cache::split_key, rbac::Right,
};

use super::{
    desired::{self, Desired, unscheduled},
    events::PendingEvents,
    memory::{ChoiceInput, Memory},
    rbac,
    triggers::{self, SharedIndex},
    write,
};

/// The reconciler.
pub struct Scheduling {
    caches: Caches,
    placements: Cache<Placement>,
    index: SharedIndex,
    memory: Arc<Memory>,
    events: PendingEvents,
}

/// What a plan is made from.
pub struct Seen {
    /// Namespace and name.
    pub key: String,
    /// The root; `None` when it is gone.
    pub placement: Option<Arc<Placement>>,
    /// What its choice depends on; `None` when it is gone or left alone.
    pub input: Option<ChoiceInput>,
    /// The decisions of its namespace that have its label or a name that one of its own could have.
    pub decisions: Vec<Arc<PlacementDecision>>,
}

impl Scheduling {
    /// Over these caches; leaves events to be sent with the others.
    pub fn new(caches: &Caches, events: PendingEvents) -> Self {
        Self {
            caches: caches.clone(),
            placements: caches.of(),
            // Both listen before the runner subscribes, so that they know of a change before anybody is woken by it.
            index: SharedIndex::over(caches),
            memory: Memory::beside(caches),
            events,
        }
    }
}

#[async_trait]
impl Reconciler for Scheduling {
    const NAME: &'static str = "placement";
    /// Upstream has 1; placements share nothing but the count of each other's decisions.
    const WORKERS: usize = 4;
    const AT_ONCE: usize = 8;
    const STATUS: &'static [StatusField] = &[
        StatusField::condition("Placement", SATISFIED),
        StatusField::condition("Placement", MISCONFIGURED),
        StatusField::new("Placement", "numberOfSelectedClusters"),
        StatusField::new("Placement", "decisionGroups"),
        StatusField::new("PlacementDecision", "decisions"),
    ];
    const RIGHTS: &'static [Right] = rbac::PLACEMENTS;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (it, index) = (&self.caches, &self.index);
        watches
            .wakes(&it.of(), triggers::of_placement)
            .wakes(&it.of(), triggers::of_decision(&self.memory))
            .wakes(&it.of(), triggers::of_binding(index))
            .wakes(&it.of(), triggers::of_set(index))
            .wakes(&it.of(), triggers::of_cluster(index, &it.of()))
            .wakes(&it.of(), triggers::of_score(index, &it.of(), &it.of()));
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let placement = self.placements.get(namespace, name);
        let decisions = self.memory.decisions(key);
        // Nobody looks at a fleet for a placement that is left alone.
        let scheduled = placement.clone().filter(|it| unscheduled(it).is_none());
        Ok(Seen {
            key: key.to_owned(),
            placement,
            input: scheduled.map(|it| self.memory.look(it, &decisions, Timestamp::now())),
            decisions,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(input) = &seen.input else {
            let why = seen.placement.as_deref().and_then(unscheduled);
            plan.notes.extend(why.map(Note::Remark));
            return plan;
        };
        let mut desired = Desired::of(input);
        plan.again = desired.recheck_after(input);
        if let Some(it) = &desired.decisions {
            desired.changes = write::decisions(input.placement(), it, &seen.decisions, &mut plan);
        }
        plan.notes.extend(desired.refusals().map(Note::Refuse));
        plan.work_out(desired);
        plan
    }

    fn planned(&self, seen: &Seen, plan: &Plan) {
        match plan.worked_out::<Desired>() {
            None => self.memory.forget(&seen.key),
            Some(desired) => desired
                .decisions
                .iter()
                .for_each(|it| self.memory.expect(&seen.key, it)),
        }
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let desired = outcome.worked_out::<Desired>().filter(|_| outcome.succeeded());
        if let (Some(input), Some(desired)) = (&seen.input, desired) {
            self.events.add(input.placement(), desired.events(input));
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(input) = &seen.input else { return plan };
        if let Some(new) = desired::status(input, outcome) {
            plan.status(Site::Hub, &**input.placement(), &new);
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use ocm_api::annotations;
    use ocm_reconcile::{Step, StepError};
    use serde_json::{Value, json};

    use super::*;
    use crate::select::tests::world;

    fn said(code: u16) -> Option<(String, String)> {
        let seen = Seen {
            key: String::new(),
            input: Some(ChoiceInput::Everything(Box::new(world(json!({}))))),
            placement: None,
            decisions: Vec::new(),
        };
        assert!(!Scheduling::plan(&seen).is_empty());
        let refused = Status::failure("no room for decisions", "Refused").with_code(code);
        let mut outcome = Outcome::default();
        outcome
            .stages
            .push(vec![Err(StepError::Kube(kube::Error::Api(Box::new(refused))))]);
        let plan = Scheduling::conclude(&seen, &outcome);
        let step = plan.stages.into_iter().flatten().next()?;
        let Step::MergePatch { patch, .. } = step else {
            panic!("{step}");
        };
        let condition = &patch["status"]["conditions"][0];
        let text = |it: &str| condition[it].as_str().unwrap().to_owned();
        Some((text("reason"), text("message")))
    }

    #[test]
    fn decisions_that_cannot_be_written_are_not_called_a_success() {
        let (reason, message) = said(403).unwrap();
        assert_eq!(reason, "NotAllDecisionsScheduled");
        assert!(
            message.starts_with("PlacementDecisions could not be written: ") && message.contains("no room"),
            "{message}"
        );
        // Somebody was faster, or the server was busy: that passes, and nobody need know.
        assert_eq!(said(409), None);
        assert_eq!(said(500), None);
    }

    #[test]
    fn a_placement_with_scheduling_disabled_only_gets_a_note() {
        let notes = |metadata: Value| {
            let placement = serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
            let plan = Scheduling::plan(&Seen {
                key: String::new(),
                placement: Some(Arc::new(placement)),
                input: None,
                decisions: Vec::new(),
            });
            assert!(plan.is_empty());
            plan.notes
        };
        let key = annotations::SCHEDULING_DISABLED;
        let off = format!("its decisions stay as they are, because it has the annotation {key}=true");
        assert_eq!(
            notes(json!({"name": "p", "annotations": {key: "true"}})),
            [Note::Remark(off)]
        );
        let going = "Placement p is being deleted and decides nothing any more".to_owned();
        assert_eq!(
            notes(json!({"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"})),
            [Note::Remark(going)]
        );
    }

    #[test]
    fn a_decision_of_somebody_else_is_named_and_left_alone() {
        let input = ChoiceInput::Everything(Box::new(world(json!({}))));
        let name = format!("{}-decision-1", input.placement().metadata.name.as_deref().unwrap());
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b", "controller": true});
        let theirs = json!({"metadata": {"name": name, "namespace": "default", "ownerReferences": [owner]}});
        let plan = Scheduling::plan(&Seen {
            key: String::new(),
            placement: Some(input.placement().clone()),
            input: Some(input),
            decisions: vec![Arc::new(serde_json::from_value(theirs).unwrap())],
        });
        assert_eq!(
            plan.notes,
            [Note::Refuse(format!(
                "PlacementDecision {name} belongs to somebody else"
            ))]
        );
        assert!(plan.is_empty(), "{plan}");
    }
}
