use serde_json::json;

use ocm_api::work::ManifestWork;
use ocm_reconcile::Cache;

use super::super::{desired_state::DesiredState, model::Model, names, works_by_set::WorksBySet};
use super::*;

/// What would be reported, as a person reads it.
fn show(it: &Model) -> String {
    let works = it
        .works
        .values()
        .map(|it| serde_json::from_value::<ManifestWork>(it.clone()).unwrap());
    let by_set = WorksBySet::over(&Cache::holding(works), Timestamp::now);
    let rollout = it.rollout();
    let label = names::label_value(&it.set);
    let counts: Vec<WorkCounts> = rollout
        .places
        .iter()
        .map(|it| by_set.counts(&label, &it.name, rollout.spec))
        .collect();
    let status = status(&it.set, &rollout, &counts, it.now);
    let summary = |it: &ManifestWorkReplicaSetSummary| {
        format!(
            "{} of {}: {} applied, {} available, {} progressing, {} degraded",
            it.total, it.desired_total, it.applied, it.available, it.progressing, it.degraded
        )
    };
    let mut lines: Vec<String> = status
        .conditions
        .iter()
        .map(|it| {
            format!(
                "{}={} {} @{} {}",
                it.type_,
                it.status,
                it.reason,
                it.observed_generation.unwrap(),
                it.message
            )
            .trim_end()
            .to_owned()
        })
        .collect();
    lines.push(summary(&status.summary));
    for it in &status.placements_summary {
        lines.push(format!(
            "{}: {}; {}",
            it.name,
            it.available_decision_groups,
            summary(&it.summary)
        ));
    }
    lines.join("\n")
}

#[test]
fn conditions_and_counts_are_those_of_upstream() {
    let mut it = Model::new(json!([{"name": "p"}]), "1");
    assert_eq!(
        show(&it),
        "PlacementVerified=False PlacementDecisionNotFound @1 there is no placement p\n\
         ManifestworkApplied=False NotAsExpected @1\n\
         PlacementRolledOut=False Progressing @1\n\
         0 of 0: 0 applied, 0 available, 0 progressing, 0 degraded\n\
         p: 0 (0 / 0 clusters applied); 0 of 0: 0 applied, 0 available, 0 progressing, 0 degraded"
    );
    it.choose("p", &[]);
    assert_eq!(
        show(&it),
        "PlacementVerified=False PlacementDecisionEmpty @1\n\
         ManifestworkApplied=False PlacementDecisionEmpty @1\n\
         PlacementRolledOut=True Complete @1\n\
         0 of 0: 0 applied, 0 available, 0 progressing, 0 degraded\n\
         p: 1 (0 / 0 clusters applied); 0 of 0: 0 applied, 0 available, 0 progressing, 0 degraded"
    );
    it.choose("p", &["c1", "c2"]).pass();
    it.report(
        "c1",
        &[("Applied", "True"), ("Available", "True"), ("Progressing", "True")],
    );
    assert_eq!(
        show(&it),
        "PlacementVerified=True AsExpected @1\n\
         ManifestworkApplied=False Processing @1\n\
         PlacementRolledOut=False Progressing @1\n\
         2 of 2: 1 applied, 1 available, 1 progressing, 0 degraded\n\
         p: 1 (2 / 2 clusters applied); 2 of 2: 1 applied, 1 available, 1 progressing, 0 degraded"
    );
    it.is_well("c1").is_ill("c2");
    assert_eq!(
        show(&it).lines().nth(1),
        Some("ManifestworkApplied=False NotAsExpected @1")
    );
    it.is_well("c2");
    assert_eq!(
        show(&it),
        "PlacementVerified=True AsExpected @1\n\
         ManifestworkApplied=True AsExpected @1\n\
         PlacementRolledOut=True Complete @1\n\
         2 of 2: 2 applied, 2 available, 0 progressing, 0 degraded\n\
         p: 1 (2 / 2 clusters applied); 2 of 2: 2 applied, 2 available, 0 progressing, 0 degraded"
    );
    // What an agent said of the template before is no word on this one.
    it.change("2").pass();
    assert_eq!(
        show(&it).lines().nth(3),
        Some("2 of 2: 0 applied, 0 available, 0 progressing, 0 degraded")
    );
}

#[test]
fn states_without_an_upstream_reason_appear_in_a_message() {
    let mut it = Model::progressive(1);
    it.choose("p", &["c1", "c2"]);
    it.annotate(annotations::ROLLOUT_PAUSED, Some("true"));
    let said = show(&it);
    assert_eq!(
        said.lines().nth(2),
        Some("PlacementRolledOut=False Progressing @1 paused, as work.open-cluster-management.io/rollout-paused says")
    );
    it.annotate(annotations::ROLL_BACK, Some("true"));
    assert!(show(&it).contains("has nothing to go back to; paused"), "{}", show(&it));
    let mut seen = it.seen();
    seen.revisions = None;
    let rolled_out = rolled_out(
        &RolloutStatus::of(&DesiredState::of(&it.set, &seen), &seen),
        &WorkCounts::default(),
    );
    assert_eq!(
        rolled_out.message,
        "work.open-cluster-management.io/roll-back is held up, and nothing changes: the hub has no right to keep \
         ControllerRevisions"
    );
    it.set.metadata.name = Some("a".repeat(60));
    let rollout = it.rollout();
    let status = status(&it.set, &rollout, &[], it.now);
    assert_eq!(status.conditions.len(), 1);
    assert_eq!(status.conditions[0].reason, "InvalidManifestWorkName");
}
