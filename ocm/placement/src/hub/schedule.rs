//! A Placement gets the PlacementDecisions it should have.
//!
//! Root: Placement. Reads: its namespace's set bindings, their sets, all ManagedClusters, the AddOnPlacementScores it asks for,
//! all PlacementDecisions. Writes: its PlacementDecisions and their status; its own status.
//! Never: anything of a placement that is being deleted or has scheduling switched off; the decisions of a placement that makes
//! no sense, when it has some; a decision that somebody else owns.
//! Upstream: ocm `pkg/placement/controllers/scheduling/scheduling_controller.go`. We differ as [`crate::select`] and
//! [`super::write`] say, and in that a failed write is not taken for a success.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    annotations,
    cluster::{DecisionGroupStatus, Placement, PlacementDecision},
    condition::{self, ConditionUpdate},
};
use ocm_reconcile::{ObserveError, Outcome, Plan, Reconciler, Site, async_trait, cache::split_key};

use super::{
    Caches,
    load::belongs_to,
    memory::{Input, Memory},
    tell::{self, News},
    write::{self, Page, Written},
};
use crate::select::{
    self, Choice,
    choice::Group,
    groups::{self, DecidedGroup},
};

/// The reconciler.
pub struct Scheduling {
    caches: Caches,
    memory: Arc<Memory>,
    news: News,
}

/// What a plan is made from.
pub struct Seen {
    /// What the placement depends on; `None` when it is gone, going, or not to be scheduled.
    pub input: Option<Input>,
    /// The decisions of its namespace that have its label or a name that one of its own could have.
    pub decisions: Vec<Arc<PlacementDecision>>,
    decided: OnceLock<Decided>,
    written: OnceLock<Written>,
}

/// A choice, ready to be written.
#[derive(Debug)]
struct Decided {
    /// `None` when the decisions stay as they are.
    pages: Option<Vec<Page>>,
    conditions: Vec<ConditionUpdate>,
    groups: Vec<DecisionGroupStatus>,
    warning: Option<String>,
    again: Option<Duration>,
    choice: Choice,
}

impl Seen {
    /// What was seen.
    pub fn new(input: Option<Input>, decisions: Vec<Arc<PlacementDecision>>) -> Self {
        Self {
            input,
            decisions,
            decided: OnceLock::new(),
            written: OnceLock::new(),
        }
    }

    /// Decided once, for the plan and its conclusion.
    fn decided(&self, input: &Input) -> &Decided {
        self.decided.get_or_init(|| decide(input))
    }
}

impl Scheduling {
    /// Over these caches.
    pub fn new(caches: &Caches, memory: Arc<Memory>, news: News) -> Self {
        Self {
            caches: caches.clone(),
            memory,
            news,
        }
    }
}

/// Whether somebody wants the placement left alone.
fn is_switched_off(placement: &Placement) -> bool {
    let annotation = placement.annotations().get(annotations::SCHEDULING_DISABLED);
    annotation.is_some_and(|it| it == "true")
}

#[async_trait]
impl Reconciler for Scheduling {
    const NAME: &'static str = "placement";
    const AT_ONCE: usize = 8;
    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let placement = self.caches.placements.get(namespace, name);
        let placement = placement.filter(|it| it.metadata.deletion_timestamp.is_none() && !is_switched_off(it));
        let Some(placement) = placement else {
            self.memory.forget(key);
            return Ok(Seen::new(None, Vec::new()));
        };
        let decisions = self.memory.decisions(key);
        let own: Vec<_> = decisions.iter().filter(|it| belongs_to(it, name)).cloned().collect();
        let input = self.memory.look(placement, &own, Timestamp::now());
        let seen = Seen::new(Some(input), decisions);
        let decided = seen.input.as_ref().map(|it| seen.decided(it));
        if let Some(pages) = decided.and_then(|it| it.pages.as_ref()) {
            self.memory.expect(key, pages);
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(input) = &seen.input else { return plan };
        let decided = seen.decided(input);
        if let Some(again) = decided.again {
            plan.look_again(again);
        }
        let Some(pages) = &decided.pages else {
            plan.refuse("the placement makes no sense; its decisions stay as they are");
            return plan;
        };
        let placement = input.placement();
        let written = write::pages(placement, pages, &seen.decisions, &mut plan);
        for it in write::foreign(placement, pages, &seen.decisions) {
            plan.refuse(format!("PlacementDecision {it} belongs to somebody else"));
        }
        let _ = seen.written.set(written);
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let (Some(input), Some(written), true) = (&seen.input, seen.written.get(), outcome.succeeded()) else {
            return;
        };
        let decided = seen.decided(input);
        let (warning, scores) = (decided.warning.as_deref(), &decided.choice.scores);
        let events = tell::events(input.placement(), written, warning, scores, input.now());
        self.news.add(input.placement(), events);
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(input) = &seen.input else { return plan };
        let (placement, now) = (&**input.placement(), input.now());
        let mut new = placement.clone();
        let status = new.status.get_or_insert_default();
        let mut set = |it: ConditionUpdate| {
            // Upstream does not say which generation it speaks of.
            let it = it.at_generation(placement.metadata.generation);
            condition::set(&mut status.conditions, it, now);
        };
        if !outcome.succeeded() {
            // What failed is tried again, and nothing is claimed until it has succeeded. What was refused will mostly be
            // refused again, and somebody should know.
            let Some(refused) = refusal(outcome) else { return plan };
            set(select::unwritten(&refused));
            plan.status(Site::Hub, placement, &new);
            return plan;
        }
        let decided = seen.decided(input);
        let mut conditions = decided.conditions.clone();
        if let Some(pages) = &decided.pages {
            let foreign = write::foreign(placement, pages, &seen.decisions);
            if !foreign.is_empty() {
                conditions[0] = select::taken(&foreign);
            }
        }
        conditions.into_iter().for_each(&mut set);
        if decided.pages.is_some() {
            status.number_of_selected_clusters = i32::try_from(decided.choice.chosen).unwrap_or(i32::MAX);
            status.decision_groups = decided.groups.clone();
        }
        plan.status(Site::Hub, placement, &new);
        plan
    }
}

/// What the API server refused for a reason that does not pass by itself: not that somebody was faster, or too many ask.
fn refusal(outcome: &Outcome) -> Option<String> {
    let mut errors = outcome.errors().map(|(_, error)| error);
    let lasting = |code: u16| (400..500).contains(&code) && ![404, 408, 409, 429].contains(&code);
    errors
        .find(|it| it.code().is_some_and(lasting))
        .map(ToString::to_string)
}

fn decide(input: &Input) -> Decided {
    let choice = input.choice();
    let placement = input.placement();
    let refused = matches!(choice.outcome, select::Outcome::Misconfigured { .. });
    let keeps = refused && input.has_any();
    // A placement that never made sense has one empty decision, as upstream's has.
    let empty = [Group::default()];
    let decided_groups = if refused { &empty[..] } else { &choice.groups };
    let names: Vec<Vec<&str>> = decided_groups
        .iter()
        .map(|it| it.clusters.iter().map(String::as_str).collect())
        .collect();
    let borrowed: Vec<DecidedGroup<'_>> = decided_groups
        .iter()
        .zip(names)
        .map(|(group, clusters)| DecidedGroup {
            name: &group.name,
            clusters,
        })
        .collect();
    let pages = groups::pages(&placement.name_any(), &borrowed);
    let groups = borrowed
        .iter()
        .enumerate()
        .map(|(index, group)| DecisionGroupStatus {
            decision_group_index: i32::try_from(index).unwrap_or(i32::MAX),
            decision_group_name: group.name.to_owned(),
            decisions: pages
                .iter()
                .filter(|it| it.index == index)
                .map(|it| it.name.clone())
                .collect(),
            cluster_count: i32::try_from(group.clusters.len()).unwrap_or(i32::MAX),
        })
        .collect();
    let pages = pages.iter().map(|it| Page {
        name: it.name.clone(),
        group: it.group.to_owned(),
        index: it.index,
        clusters: it.clusters.iter().map(|it| (*it).to_owned()).collect(),
    });
    Decided {
        pages: (!keeps).then(|| pages.collect()),
        conditions: select::conditions(placement, &choice, keeps),
        groups,
        warning: match &choice.outcome {
            select::Outcome::Warning { plugin, message } => Some(format!("{message} in plugin {plugin}")),
            _ => None,
        },
        again: choice
            .recheck_at
            .map(|it| Duration::try_from(it.duration_since(input.now())).unwrap_or_default()),
        choice,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use ocm_reconcile::{Step, StepError};
    use serde_json::json;

    use super::*;
    use crate::select::tests::world;

    fn said(code: u16) -> Option<(String, String)> {
        let seen = Seen::new(Some(Input::World(Box::new(world(json!({}))))), Vec::new());
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
}
