//! Upstream's events about a placement, sent a moment after the decisions were written: a decision that changes ten times in that
//! moment is told of once, and nobody's decisions wait for them.
//!
//! Root: Placement. Reads: what the scheduler wants told. Writes: events.
//! Never: anything else.
//! Upstream: ocm `pkg/placement/controllers/scheduling/scheduling_controller.go`, its recorder.

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use ocm_api::cluster::{Placement, PlacementDecision};
use ocm_reconcile::{
    EventKind, EventStep, ObserveError, Plan, Queue, Reconciler, Site, Step, async_trait, cache::key_of,
};
use parking_lot::Mutex;
use serde_json::json;

use super::write::Written;

/// How long what is to be told is gathered.
const GATHER: Duration = Duration::from_millis(250);

/// What is to be told. Cloning shares it.
#[derive(Clone, Default)]
pub struct News {
    pending: Arc<Mutex<HashMap<String, Vec<EventStep>>>>,
    queue: Queue,
}

impl News {
    /// What asks for the events to be sent.
    pub fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Adds what is to be told of a placement. The newest of two events for one reason and one decision is told.
    pub fn add(&self, placement: &Placement, events: Vec<EventStep>) {
        if events.is_empty() {
            return;
        }
        let key = key_of(placement);
        {
            let mut pending = self.pending.lock();
            let of_it = pending.entry(key.clone()).or_default();
            for event in events {
                of_it.retain(|it| it.reason != event.reason || it.related != event.related);
                of_it.push(event);
            }
        }
        self.queue.add_after(key, GATHER);
    }
}

/// The reconciler.
pub struct Telling {
    news: News,
}

impl Telling {
    /// Of these news.
    pub fn new(news: News) -> Self {
        Self { news }
    }
}

#[async_trait]
impl Reconciler for Telling {
    const NAME: &'static str = "placement-events";
    type Seen = Vec<EventStep>;

    async fn observe(&self, key: &str) -> Result<Vec<EventStep>, ObserveError> {
        Ok(self.news.pending.lock().remove(key).unwrap_or_default())
    }

    fn plan(seen: &Vec<EventStep>) -> Plan {
        let mut plan = Plan::new();
        for it in seen {
            plan.push(Step::Event(it.clone()));
        }
        plan
    }
}

/// The events about what was written.
pub fn events(
    placement: &Placement,
    written: &Written,
    warning: Option<&str>,
    scores: &str,
    now: Timestamp,
) -> Vec<EventStep> {
    let (name, namespace) = (placement.name_any(), placement.namespace().unwrap_or_default());
    let event = |decision: Option<&String>, kind, reason: &str, action: &str, note: String| EventStep {
        site: Site::Hub,
        namespace: namespace.clone(),
        regarding: json!({
            "apiVersion": Placement::API_VERSION,
            "kind": Placement::KIND,
            "name": name,
            "namespace": namespace,
            "uid": placement.metadata.uid,
        }),
        related: decision.map(|it| {
            json!({
                "apiVersion": PlacementDecision::api_version(&()),
                "kind": PlacementDecision::kind(&()),
                "name": it,
                "namespace": namespace,
            })
        }),
        kind,
        reason: reason.to_owned(),
        action: action.to_owned(),
        note,
        reporting_controller: "placement-controller".to_owned(),
        at: now,
    };
    let sentence = |decision: &str, what: &str| {
        format!("Decision {decision} is {what} with placement {name} in namespace {namespace}")
    };
    let mut events = Vec::new();
    for it in &written.created {
        let note = sentence(it, "created");
        events.push(event(
            Some(it),
            EventKind::Normal,
            "DecisionCreate",
            "DecisionCreated",
            note,
        ));
    }
    for it in &written.updated {
        let (kind, suffix) = match warning {
            Some(warning) => (EventKind::Warning, format!(": {warning}")),
            None => (EventKind::Normal, String::new()),
        };
        let note = sentence(it, "updated") + &suffix;
        events.push(event(Some(it), kind, "DecisionUpdate", "DecisionUpdated", note));
    }
    if let Some(first) = written.updated.first().filter(|_| !scores.is_empty()) {
        let note = scores.to_owned();
        events.push(event(
            Some(first),
            EventKind::Normal,
            "ScoreUpdate",
            "ScoreUpdated",
            note,
        ));
    }
    for it in &written.deleted {
        let note = sentence(it, "deleted");
        events.push(event(
            Some(it),
            EventKind::Normal,
            "DecisionDelete",
            "DecisionDeleted",
            note,
        ));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement() -> Placement {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default", "uid": "u1"}, "spec": {}}))
            .unwrap()
    }

    fn written(created: &[&str], updated: &[&str], deleted: &[&str]) -> Written {
        let owned = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        Written {
            created: owned(created),
            updated: owned(updated),
            deleted: owned(deleted),
        }
    }

    #[test]
    fn events_are_upstreams() {
        let told = |warning: Option<&str>| {
            let written = written(&["p-decision-1"], &["p-decision-1"], &["p-decision-2"]);
            let events = events(&placement(), &written, warning, "c1:100 ", Timestamp::UNIX_EPOCH);
            let lines = events.iter().map(|it| {
                let related = it.related.as_ref().unwrap()["name"].as_str().unwrap();
                format!("{:?} {} {} {related}: {}", it.kind, it.reason, it.action, it.note)
            });
            lines.collect::<Vec<_>>()
        };
        let all = [
            "Normal DecisionCreate DecisionCreated p-decision-1: Decision p-decision-1 is created with placement p in namespace default",
            "Normal DecisionUpdate DecisionUpdated p-decision-1: Decision p-decision-1 is updated with placement p in namespace default",
            "Normal ScoreUpdate ScoreUpdated p-decision-1: c1:100 ",
            "Normal DecisionDelete DecisionDeleted p-decision-2: Decision p-decision-2 is deleted with placement p in namespace default",
        ];
        assert_eq!(told(None), all);
        let warned = told(Some("AddOnPlacementScores c1/load expired in plugin AddOn/load/cpu"));
        assert_eq!(
            warned[1],
            "Warning DecisionUpdate DecisionUpdated p-decision-1: Decision p-decision-1 is updated with placement p in \
             namespace default: AddOnPlacementScores c1/load expired in plugin AddOn/load/cpu"
        );
    }

    #[tokio::test]
    async fn what_changes_often_is_told_once() {
        let news = News::default();
        let placement = placement();
        for scores in ["c1:1 ", "c1:2 "] {
            let updated = written(&[], &["p-decision-1", "p-decision-2"], &[]);
            news.add(
                &placement,
                events(&placement, &updated, None, scores, Timestamp::UNIX_EPOCH),
            );
        }
        let telling = Telling::new(news);
        let seen = telling.observe("default/p").await.unwrap();
        let told: Vec<_> = seen.iter().map(|it| it.note.as_str()).collect();
        assert_eq!(told.len(), 3);
        assert_eq!(told[2], "c1:2 ");
        assert!(telling.observe("default/p").await.unwrap().is_empty());
    }
}
