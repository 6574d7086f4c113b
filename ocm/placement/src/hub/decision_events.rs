//! What upstream's events say about the PlacementDecisions that were written.
//! Upstream: ocm `pkg/placement/controllers/scheduling/scheduling_controller.go`, its recorder.

use jiff::Timestamp;
use kube::{Resource, ResourceExt};
use ocm_api::cluster::{Placement, PlacementDecision};
use ocm_reconcile::{EventKind, EventStep, Site};
use serde_json::json;

use super::write::DecisionChanges;

/// The events about what was written.
pub fn of_changes(
    placement: &Placement,
    written: &DecisionChanges,
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
pub(crate) mod tests {
    use super::*;

    pub(crate) fn placement() -> Placement {
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "default", "uid": "u1"}, "spec": {}}))
            .unwrap()
    }

    pub(crate) fn written(created: &[&str], updated: &[&str], deleted: &[&str]) -> DecisionChanges {
        let owned = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        DecisionChanges {
            created: owned(created),
            updated: owned(updated),
            deleted: owned(deleted),
            foreign: Vec::new(),
        }
    }

    #[test]
    fn events_are_upstreams() {
        let told = |warning: Option<&str>| {
            let written = written(&["p-decision-1"], &["p-decision-1"], &["p-decision-2"]);
            let events = of_changes(&placement(), &written, warning, "c1:100 ", Timestamp::UNIX_EPOCH);
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
}
