//! A Placement gets the PlacementDecisions it should have.
//!
//! Root: Placement. Reads: its namespace's set bindings, their sets, all ManagedClusters, the AddOnPlacementScores it asks for,
//! all PlacementDecisions. Writes: its PlacementDecisions and their status; its own status; events.
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
    condition::{self, Wanted},
};
use ocm_reconcile::{
    EventKind, EventStep, ObserveError, Outcome, Plan, Reconciler, Site, Step, async_trait, cache::split_key,
};
use serde_json::json;

use super::{
    Caches,
    load::{Load, all_clusters, belongs_to},
    write::{self, Page, Written},
};
use crate::select::{self, Needs, Scores, Selection, World, groups};

/// Upstream cuts the list of scores in an event here.
const SCORES_LENGTH_MAX: usize = 1000;

/// The reconciler.
pub struct Scheduling {
    caches: Caches,
    load: Load,
}

/// What a plan is made from.
pub struct Seen {
    /// What the placement depends on; `None` when it is gone, going, or not to be scheduled.
    pub world: Option<World>,
    /// The decisions of its namespace that have its label or a name that one of its own could have.
    pub decisions: Vec<Arc<PlacementDecision>>,
    decided: OnceLock<Decided>,
}

/// A choice, ready to be written.
#[derive(Debug)]
struct Decided {
    /// `None` when the decisions stay as they are.
    pages: Option<Vec<Page>>,
    conditions: Vec<Wanted>,
    groups: Vec<DecisionGroupStatus>,
    chosen: usize,
    warning: Option<String>,
    scores: String,
    again: Option<Duration>,
}

impl Seen {
    /// What was seen.
    pub fn new(world: Option<World>, decisions: Vec<Arc<PlacementDecision>>) -> Self {
        Self {
            world,
            decisions,
            decided: OnceLock::new(),
        }
    }

    /// Decided once, for the plan and its conclusion.
    fn decided(&self, world: &World) -> &Decided {
        self.decided.get_or_init(|| decide(world))
    }
}

impl Scheduling {
    /// Over these caches.
    pub fn new(caches: &Caches, load: Load) -> Self {
        Self {
            caches: caches.clone(),
            load,
        }
    }

    /// Everything the choice of this placement depends on.
    fn world(&self, placement: Arc<Placement>, own: &[Arc<PlacementDecision>]) -> World {
        let caches = &self.caches;
        let needs = Needs::of(&placement);
        let bindings = caches.set_bindings.list_in(&placement.namespace().unwrap_or_default());
        let sets = bindings
            .iter()
            .filter_map(|it| caches.sets.named(&it.name_any()))
            .collect();
        let clusters = caches.clusters.list();
        let (load, load_max) = if needs.load {
            self.load.besides(own, &clusters)
        } else {
            (Vec::new(), 0)
        };
        let asked = |name: &str| needs.any_score || needs.scores.contains(name);
        let scores = if needs.any_score || !needs.scores.is_empty() {
            Scores::of_all(caches.scores.list().into_iter().filter(|it| asked(&it.name_any())))
        } else {
            Scores::default()
        };
        World {
            now: Timestamp::now(),
            placement,
            bindings,
            sets,
            clusters,
            has: all_clusters(own),
            load,
            load_max,
            scores: Arc::new(scores),
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
            return Ok(Seen::new(None, Vec::new()));
        };
        let prefix = format!("{name}-decision-");
        let mut decisions = self.caches.decisions.list_in(namespace);
        decisions.retain(|it| belongs_to(it, name) || it.name_any().starts_with(&prefix));
        let own: Vec<_> = decisions.iter().filter(|it| belongs_to(it, name)).cloned().collect();
        Ok(Seen::new(Some(self.world(placement, &own)), decisions))
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(world) = &seen.world else { return plan };
        let decided = seen.decided(world);
        if let Some(again) = decided.again {
            plan.look_again(again);
        }
        let Some(pages) = &decided.pages else {
            plan.refuse("the placement makes no sense; its decisions stay as they are");
            return plan;
        };
        let written = write::pages(&world.placement, pages, &seen.decisions, &mut plan);
        for it in write::foreign(&world.placement, pages, &seen.decisions) {
            plan.refuse(format!("PlacementDecision {it} belongs to somebody else"));
        }
        tell(world, decided, &written, &mut plan);
        plan
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(world) = seen.world.as_ref().filter(|_| outcome.succeeded()) else {
            // What failed is tried again, and nothing is claimed until it has succeeded.
            return plan;
        };
        let decided = seen.decided(world);
        let placement = &*world.placement;
        let mut new = placement.clone();
        let status = new.status.get_or_insert_default();
        let mut conditions = decided.conditions.clone();
        if let Some(pages) = &decided.pages {
            status.number_of_selected_clusters = i32::try_from(decided.chosen).unwrap_or(i32::MAX);
            status.decision_groups = decided.groups.clone();
            let foreign = write::foreign(placement, pages, &seen.decisions);
            if !foreign.is_empty() {
                conditions[0] = select::taken(&foreign);
            }
        }
        for it in conditions {
            // Upstream does not say which generation it speaks of.
            condition::set(
                &mut status.conditions,
                it.at_generation(placement.metadata.generation),
                world.now,
            );
        }
        plan.status(Site::Hub, placement, &new);
        plan
    }
}

fn decide(world: &World) -> Decided {
    let selection = select::select(world);
    let refused = matches!(selection.outcome, select::Outcome::Misconfigured { .. });
    let keeps = refused && !world.has.is_empty();
    // A placement that never made sense has one empty decision, as upstream's has.
    let empty = [groups::DecidedGroup::default()];
    let decided_groups = if refused { &empty[..] } else { &selection.groups };
    let pages = groups::pages(&world.placement.name_any(), decided_groups);
    let groups = decided_groups
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
        conditions: select::conditions(&world.placement, &selection, keeps),
        groups,
        chosen: selection.chosen,
        warning: match &selection.outcome {
            select::Outcome::Warning { plugin, message } => Some(format!("{message} in plugin {plugin}")),
            _ => None,
        },
        scores: scores(&selection),
        again: selection
            .recheck_at
            .map(|it| Duration::try_from(it.duration_since(world.now)).unwrap_or_default()),
    }
}

/// `cluster:score ` for every cluster that fits, by name, as upstream's event has it.
fn scores(selection: &Selection<'_>) -> String {
    let mut text = String::new();
    for it in &selection.candidates {
        let select::Fate::Fits { place, .. } = it.fate else {
            continue;
        };
        let name = it.cluster.metadata.name.as_deref().unwrap_or_default();
        text.push_str(&format!("{name}:{} ", selection.ranking.totals[place]));
        if text.len() > SCORES_LENGTH_MAX {
            text.truncate(SCORES_LENGTH_MAX);
            text.push_str("......");
            break;
        }
    }
    text
}

/// Upstream's events, when everything is written.
fn tell(world: &World, decided: &Decided, written: &Written, plan: &mut Plan) {
    plan.stage();
    let placement = &world.placement;
    let (name, namespace) = (placement.name_any(), placement.namespace().unwrap_or_default());
    let mut event = |kind, reason: &str, action: &str, note: String| {
        plan.push(Step::Event(EventStep {
            site: Site::Hub,
            namespace: namespace.clone(),
            regarding: json!({
                "apiVersion": Placement::API_VERSION,
                "kind": Placement::KIND,
                "name": name,
                "namespace": namespace,
                "uid": placement.metadata.uid,
            }),
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note,
            reporting_controller: "placement-controller".to_owned(),
            at: world.now,
        }));
    };
    let sentence = |decision: &str, what: &str| {
        format!("Decision {decision} is {what} with placement {name} in namespace {namespace}")
    };
    for it in &written.created {
        event(
            EventKind::Normal,
            "DecisionCreate",
            "DecisionCreated",
            sentence(it, "created"),
        );
    }
    for it in &written.updated {
        let (kind, suffix) = match &decided.warning {
            Some(warning) => (EventKind::Warning, format!(": {warning}")),
            None => (EventKind::Normal, String::new()),
        };
        let note = sentence(it, "updated") + &suffix;
        event(kind, "DecisionUpdate", "DecisionUpdated", note);
    }
    if !written.updated.is_empty() && !decided.scores.is_empty() {
        event(EventKind::Normal, "ScoreUpdate", "ScoreUpdated", decided.scores.clone());
    }
    for it in &written.deleted {
        event(
            EventKind::Normal,
            "DecisionDelete",
            "DecisionDeleted",
            sentence(it, "deleted"),
        );
    }
}
