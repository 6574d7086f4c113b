use serde_json::json;

use super::*;

fn at(hour: u8) -> Timestamp {
    format!("2026-01-01T{hour:02}:00:00Z").parse().unwrap()
}

fn looked(ordinal: i32, name: &str, applied: Applied, found: ObservedObject) -> ObservedManifest {
    let meta = ManifestResourceMeta {
        ordinal,
        version: "v1".into(),
        kind: "ConfigMap".into(),
        resource: "configmaps".into(),
        name: name.into(),
        namespace: "default".into(),
        ..Default::default()
    };
    ObservedManifest {
        meta,
        applied,
        found,
        feedback: vec![],
        conditions: vec![],
    }
}

fn present() -> ObservedObject {
    ObservedObject::Present(json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}}))
}

fn show(conditions: &[Condition]) -> String {
    let line = |it: &Condition| {
        let generation = it.observed_generation.map(|it| format!(" @{it}")).unwrap_or_default();
        let hour = it.last_transition_time.0.to_string();
        format!(
            "{}={} {} {:?}{generation} {}",
            it.type_,
            it.status,
            it.reason,
            it.message,
            &hour[11..13]
        )
    };
    conditions.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn status(old: &ManifestWorkStatus, looked: &[ObservedManifest], generation: i64, hour: u8) -> ManifestWorkStatus {
    report(old, looked, Some(generation), RawJson::Refused, at(hour))
}

#[test]
fn a_successful_work_has_upstreams_conditions() {
    let new = status(&Default::default(), &[looked(0, "a", Applied::Yes, present())], 1, 12);
    assert_eq!(
        show(&new.conditions),
        "Applied=True AppliedManifestWorkComplete \"Apply manifest work complete\" @1 12\n\
         Available=True ResourcesAvailable \"All resources are available\" @1 12"
    );
    assert_eq!(
        show(&new.resource_status.manifests[0].conditions),
        "Applied=True AppliedManifestComplete \"Apply manifest complete\" @1 12\n\
         Available=True ResourceAvailable \"Resource is available\" 12\n\
         StatusFeedbackSynced=True NoStatusFeedbackSynced \"\" 12"
    );
}

#[test]
fn nothing_changes_when_nothing_changed() {
    let looked = [looked(0, "a", Applied::Yes, present())];
    let first = status(&Default::default(), &looked, 1, 12);
    assert_eq!(status(&first, &looked, 1, 13), first);
}

#[test]
fn one_failed_manifest_fails_the_work_and_not_the_others() {
    let both = [
        looked(0, "a", Applied::Yes, present()),
        looked(1, "b", Applied::No("boom".into()), ObservedObject::Absent),
    ];
    let new = status(&Default::default(), &both, 1, 12);
    assert_eq!(
        show(&new.conditions),
        "Applied=False AppliedManifestWorkFailed \"Failed to apply manifest work\" @1 12\n\
         Available=False ResourcesNotAvailable \"1 of 2 resources are not available\" @1 12"
    );
    assert_eq!(
        show(&new.resource_status.manifests[1].conditions),
        "Applied=False AppliedManifestFailed \"Failed to apply manifest: boom\" @1 12\n\
         Available=False ResourceNotAvailable \"Resource is not available\" 12"
    );
}

#[test]
fn a_new_generation_restarts_the_time_of_applied_only() {
    let looked = [looked(0, "a", Applied::Yes, present())];
    let first = status(&Default::default(), &looked, 1, 12);
    let second = status(&first, &looked, 2, 13);
    assert_eq!(
        show(&second.resource_status.manifests[0].conditions),
        "Available=True ResourceAvailable \"Resource is available\" 12\n\
         StatusFeedbackSynced=True NoStatusFeedbackSynced \"\" 12\n\
         Applied=True AppliedManifestComplete \"Apply manifest complete\" @2 13"
    );
    assert!(
        show(&second.conditions)
            .contains("Applied=True AppliedManifestWorkComplete \"Apply manifest work complete\" @2 12")
    );
}

#[test]
fn a_manifest_that_moved_keeps_its_conditions() {
    let first = status(&Default::default(), &[looked(0, "a", Applied::Yes, present())], 1, 12);
    let both = [
        looked(0, "new", Applied::Yes, present()),
        looked(1, "a", Applied::Yes, present()),
    ];
    let second = status(&first, &both, 2, 13);
    let available = |it: usize| {
        condition::find(&second.resource_status.manifests[it].conditions, "Available")
            .unwrap()
            .last_transition_time
            .0
    };
    assert_eq!((available(0), available(1)), (at(13), at(12)));
}

#[test]
fn an_object_that_cannot_be_read_is_unknown() {
    let table = [
        (
            ObservedObject::Unknowable,
            "Available=Unknown ResourcesStatusUnknown \"1 of 1 resources have unknown status\"",
        ),
        (
            ObservedObject::Unreadable("no".into()),
            "Available=Unknown ResourcesStatusUnknown \"1 of 1 resources have unknown status\"",
        ),
    ];
    for (found, expected) in table {
        let new = status(&Default::default(), &[looked(0, "a", Applied::Yes, found)], 1, 12);
        assert!(show(&new.conditions).contains(expected));
    }
    let empty = status(&Default::default(), &[], 1, 12);
    assert_eq!(
        show(&empty.conditions),
        "Available=Unknown ResourcesStatusUnknown \"cannot get any available resource \" @1 12"
    );
}

#[test]
fn rule_conditions_are_aggregated_and_go_with_their_rules() {
    let rule = |condition: &str, expression: &str| ConditionRule {
        condition: condition.into(),
        r#type: ocm_api::work::ConditionRuleType::CEL,
        cel_expressions: vec![expression.into()],
        message: String::new(),
        message_expression: String::new(),
    };
    let with = |ordinal, name, value: &str| ObservedManifest {
        conditions: vec![
            rule("Ready", "object.data.a == '1'"),
            rule("Progressing", "object.data.a == '1'"),
        ],
        ..looked(
            ordinal,
            name,
            Applied::Yes,
            ObservedObject::Present(json!({"data": {"a": value}})),
        )
    };
    let first = status(&Default::default(), &[with(0, "a", "1"), with(1, "b", "2")], 1, 12);
    assert_eq!(
        show(&first.conditions),
        "Applied=True AppliedManifestWorkComplete \"Apply manifest work complete\" @1 12\n\
         Available=True ResourcesAvailable \"All resources are available\" @1 12\n\
         Progressing=True ConditionRulesAggregated \"Aggregated from 2 manifest conditions\" @1 12\n\
         Ready=False ConditionRulesAggregated \"Aggregated from 2 manifest conditions\" @1 12"
    );
    let without = [
        looked(0, "a", Applied::Yes, present()),
        looked(1, "b", Applied::Yes, present()),
    ];
    let second = status(&first, &without, 2, 13);
    assert!(!show(&second.conditions).contains("Ready"));
    assert!(!show(&second.resource_status.manifests[0].conditions).contains("Ready"));
}

#[test]
fn what_is_finished_and_gone_stays_finished_whatever_is_edited() {
    let with = |found| ObservedManifest {
        conditions: vec![ConditionRule {
            condition: "Complete".into(),
            r#type: ocm_api::work::ConditionRuleType::CEL,
            cel_expressions: vec!["object.data.a == '1'".into()],
            message: String::new(),
            message_expression: String::new(),
        }],
        ..looked(0, "a", Applied::AsBefore, found)
    };
    let first = status(&Default::default(), &[with(present())], 1, 12);
    for found in [ObservedObject::Absent, ObservedObject::Unreadable("no".into())] {
        let second = status(&first, &[with(found)], 2, 13);
        let complete = |of: &[Condition]| condition::is_true(of, "Complete");
        assert!(complete(&second.resource_status.manifests[0].conditions));
        assert!(complete(&second.conditions), "{}", show(&second.conditions));
    }
}

#[test]
fn where_nothing_was_tried_no_generation_counts_as_applied() {
    let first = status(&Default::default(), &[looked(0, "a", Applied::Yes, present())], 1, 12);
    let second = status(&first, &[looked(0, "a", Applied::AsBefore, present())], 2, 13);
    assert!(
        show(&second.conditions)
            .contains("Applied=True AppliedManifestWorkComplete \"Apply manifest work complete\" @1 12")
    );
}

#[test]
fn feedback_that_changed_renews_the_time_of_its_condition() {
    let rule = FeedbackRule {
        r#type: ocm_api::work::FeedbackRuleType::JSONPaths,
        json_paths: vec![ocm_api::work::JsonPath {
            name: "a".into(),
            path: ".data.a".into(),
            ..Default::default()
        }],
    };
    let with = |value: &str| ObservedManifest {
        feedback: vec![rule.clone()],
        ..looked(
            0,
            "a",
            Applied::Yes,
            ObservedObject::Present(json!({"data": {"a": value}})),
        )
    };
    let first = status(&Default::default(), &[with("1")], 1, 12);
    let second = status(&first, &[with("2")], 1, 13);
    let synced = |it: &ManifestWorkStatus| {
        condition::find(&it.resource_status.manifests[0].conditions, "StatusFeedbackSynced")
            .unwrap()
            .last_transition_time
            .0
    };
    assert_eq!((synced(&first), synced(&second)), (at(12), at(13)));
    let gone = ObservedManifest {
        found: ObservedObject::Absent,
        ..with("2")
    };
    let third = status(&second, &[gone], 1, 14);
    assert_eq!(
        third.resource_status.manifests[0].status_feedback,
        second.resource_status.manifests[0].status_feedback
    );
}
