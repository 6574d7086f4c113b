//! What a choice comes to: the PlacementDecisions that a Placement should have, and what its status says of them.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use ocm_api::{
    annotations,
    cluster::{DecisionGroupStatus, Placement},
    condition::{self, ConditionUpdate},
};
use ocm_reconcile::{EventStep, Outcome};

use super::{decision_events, memory::ChoiceInput, write::DecisionChanges};
use crate::select::{
    self, Choice, ChoiceOutcome,
    choice::Group,
    groups::{self, DesiredDecision},
};

/// What is to be written of a choice.
#[derive(Debug)]
pub struct Desired {
    /// What was chosen.
    pub choice: Arc<Choice>,
    /// The PlacementDecisions; `None` when those that there are stay as they are.
    pub decisions: Option<Vec<DesiredDecision>>,
    /// What the status says of the groups.
    groups: Vec<DecisionGroupStatus>,
    conditions: Vec<ConditionUpdate>,
    /// What the plan does with the decisions.
    pub changes: DecisionChanges,
}

impl Desired {
    /// What this choice comes to.
    pub fn of(input: &ChoiceInput) -> Self {
        let choice = input.choice();
        let placement = input.placement();
        let refused = matches!(choice.outcome, ChoiceOutcome::Misconfigured { .. });
        let keeps = refused && input.has_any();
        // A placement that never made sense has one empty decision, as upstream's has.
        let empty = [Group::default()];
        let groups = if refused { &empty[..] } else { &choice.groups };
        let decisions = groups::decisions(&placement.name_any(), groups);
        let status = |(index, group): (usize, &Group)| DecisionGroupStatus {
            decision_group_index: i32::try_from(index).unwrap_or(i32::MAX),
            decision_group_name: group.name.clone(),
            decisions: decisions
                .iter()
                .filter(|it| it.index == index)
                .map(|it| it.name.clone())
                .collect(),
            cluster_count: i32::try_from(group.clusters.len()).unwrap_or(i32::MAX),
        };
        Self {
            groups: groups.iter().enumerate().map(status).collect(),
            decisions: (!keeps).then_some(decisions),
            conditions: select::conditions(placement, &choice, keeps),
            changes: DecisionChanges::default(),
            choice,
        }
    }

    /// When the choice may be another even if nothing happens.
    pub fn recheck_after(&self, input: &ChoiceInput) -> Option<Duration> {
        let at = self.choice.recheck_at?;
        Some(Duration::try_from(at.duration_since(input.now())).unwrap_or_default())
    }

    /// What is not written, and why.
    pub fn refusals(&self) -> impl Iterator<Item = String> {
        let kept = self.decisions.is_none();
        let kept = kept.then(|| "the placement makes no sense; its decisions stay as they are".to_owned());
        let foreign = self.changes.foreign.iter();
        kept.into_iter()
            .chain(foreign.map(|it| format!("PlacementDecision {it} belongs to somebody else")))
    }

    /// The events about what was written.
    pub fn events(&self, input: &ChoiceInput) -> Vec<EventStep> {
        let warning = match &self.choice.outcome {
            ChoiceOutcome::Warning { plugin, message } => Some(format!("{message} in plugin {plugin}")),
            _ => None,
        };
        let (placement, scores) = (input.placement(), &self.choice.scores);
        decision_events::of_changes(placement, &self.changes, warning.as_deref(), scores, input.now())
    }

    /// The placement when its decisions are written.
    fn written(&self, input: &ChoiceInput) -> Placement {
        let mut conditions = self.conditions.clone();
        if !self.changes.foreign.is_empty() {
            conditions[0] = select::taken(&self.changes.foreign);
        }
        let mut placement = with(input, conditions);
        if self.decisions.is_some() {
            let status = placement.status.get_or_insert_default();
            status.number_of_selected_clusters = i32::try_from(self.choice.chosen).unwrap_or(i32::MAX);
            status.decision_groups = self.groups.clone();
        }
        placement
    }
}

/// The placement with what its status says now; `None` when nothing need be said.
pub fn status(input: &ChoiceInput, outcome: &Outcome) -> Option<Placement> {
    if outcome.succeeded() {
        return outcome.worked_out::<Desired>().map(|it| it.written(input));
    }
    // What failed is tried again, and nothing is claimed until it has succeeded. What was refused will mostly be
    // refused again, and somebody should know.
    let refused = refusal(outcome)?;
    Some(with(input, [select::unwritten(&refused)]))
}

/// What the API server refused for a reason that does not pass by itself: not that somebody was faster,
/// or too many ask.
fn refusal(outcome: &Outcome) -> Option<String> {
    let mut errors = outcome.errors().map(|(_, error)| error);
    let lasting = |code: u16| (400..500).contains(&code) && ![404, 408, 409, 429].contains(&code);
    errors
        .find(|it| it.code().is_some_and(lasting))
        .map(ToString::to_string)
}

fn with(input: &ChoiceInput, conditions: impl IntoIterator<Item = ConditionUpdate>) -> Placement {
    let mut placement = Placement::clone(input.placement());
    let generation = placement.metadata.generation;
    let status = placement.status.get_or_insert_default();
    for it in conditions {
        // Upstream does not say which generation it speaks of.
        condition::set(&mut status.conditions, it.at_generation(generation), input.now());
    }
    placement
}

/// Why a placement is not scheduled at all, if it is not.
pub fn unscheduled(placement: &Placement) -> Option<String> {
    if placement.metadata.deletion_timestamp.is_some() {
        let name = placement.name_any();
        return Some(format!(
            "Placement {name} is being deleted and decides nothing any more"
        ));
    }
    let key = annotations::SCHEDULING_DISABLED;
    let is_off = placement.annotations().get(key).is_some_and(|it| it == "true");
    is_off.then(|| format!("its decisions stay as they are, because it has the annotation {key}=true"))
}
