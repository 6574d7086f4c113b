//! What templates have said: events and their objects' own history become `status.details` of a Policy. Plain functions
//! on plain data. Upstream: `controllers/statussync/policy_status_sync.go`.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    k8s_openapi::{api::core::v1::Event, apimachinery::pkg::apis::meta::v1::Time},
    kube::{ResourceExt, core::DynamicObject},
    ocm_api::policy::{self, ComplianceEvent, ComplianceHistory, ComplianceState, Policy, PolicyTemplateStatus},
};
use serde_json::{Value, json};

use super::tell::whole_seconds;

/// So many are kept.
const KEPT: usize = 10;
/// The same text within this time is said once.
const SAME: Duration = Duration::from_micros(5);
/// What Kubernetes puts in front of events that it has drawn together.
const COMBINED: &str = "(combined from similar events):";

/// The template that the reason of an event names: `policy: NAMESPACE/TEMPLATE`, or without a namespace.
pub fn template_of(reason: &str) -> Option<&str> {
    const PREFIX: &str = "policy:";
    let rest = reason.get(PREFIX.len()..)?;
    if !reason[..PREFIX.len()].eq_ignore_ascii_case(PREFIX) {
        return None;
    }
    let rest = rest.trim_start().lines().next().filter(|it| !it.is_empty())?;
    let is_namespace = |it: &str| {
        !it.is_empty()
            && it
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || it == b'.' || it == b'-')
    };
    let split = rest.split_once('/');
    let named = split.filter(|(namespace, name)| is_namespace(namespace.trim_end()) && !name.is_empty());
    Some(named.map_or(rest, |(_, name)| name))
}

/// What an event says.
pub fn of_event(event: &Event) -> ComplianceHistory {
    let message = event.message.as_deref().unwrap_or_default();
    ComplianceHistory {
        last_timestamp: event.last_timestamp.clone(),
        message: message.strip_prefix(COMBINED).unwrap_or(message).trim().to_owned(),
        event_name: event.name_any(),
    }
}

/// What the object of a template says of itself: `status.history`.
pub fn of_object(object: &DynamicObject, policy: &str) -> Vec<ComplianceHistory> {
    let history = object.data["status"]["history"].as_array();
    let entry = |it: &Value| {
        let at: Timestamp = it.get("lastTimestamp")?.as_str()?.parse().ok()?;
        let message = it.get("message")?.as_str().filter(|it| !it.is_empty())?;
        Some(ComplianceHistory {
            last_timestamp: Some(Time(at)),
            message: message.trim().to_owned(),
            event_name: ComplianceEvent::name_at(policy, at),
        })
    };
    history.into_iter().flatten().filter_map(entry).collect()
}

/// Whether the object of a template is that of this Policy, and not of another one.
pub fn is_of(object: &DynamicObject, policy: &str) -> bool {
    let owners = object.owner_references();
    let owner = owners
        .iter()
        .find(|it| it.kind == Policy::KIND)
        .map(|it| it.name.as_str());
    let label = object.labels().get(policy::labels::POLICY).map(String::as_str);
    owner
        .filter(|it| !it.is_empty())
        .or(label)
        .is_some_and(|it| it == policy)
}

/// What a template has said: the new and what was known before, newest first.
pub fn merge(
    mut said: Vec<ComplianceHistory>,
    before: &[PolicyTemplateStatus],
    template: &str,
) -> PolicyTemplateStatus {
    let mut details = before.iter().find(|it| it.name() == template).cloned();
    let details = details.get_or_insert_with(|| PolicyTemplateStatus {
        template_meta: json!({"name": template}),
        ..PolicyTemplateStatus::default()
    });
    for old in std::mem::take(&mut details.history) {
        if !said.iter().any(|it| it.event_name == old.event_name) {
            said.push(old);
        }
    }
    let mut said: Vec<(Option<Timestamp>, ComplianceHistory)> = said
        .into_iter()
        .map(|it| {
            let precise = time_in_name(&it.event_name);
            (precise.or(it.last_timestamp.as_ref().map(|it| it.0)), it)
        })
        .collect();
    // Stable: of two that are equally old the one that was found first stays first.
    said.sort_by(|(a, _), (b, _)| b.cmp(a));
    let mut kept: Vec<ComplianceHistory> = Vec::new();
    for (index, (at, entry)) in said.iter().enumerate() {
        if kept.len() == KEPT {
            break;
        }
        let again = index.checked_sub(1).is_some_and(|it| {
            let (before, earlier) = &said[it];
            earlier.message == entry.message && is_near(*before, *at)
        });
        if !again {
            kept.push(ComplianceHistory {
                last_timestamp: at.map(|it| Time(whole_seconds(it))),
                ..entry.clone()
            });
        }
    }
    if let Some(newest) = kept.first() {
        details.compliant = Some(state_of(&newest.message));
    }
    details.history = kept;
    std::mem::take(details)
}

fn is_near(a: Option<Timestamp>, b: Option<Timestamp>) -> bool {
    let limit = SignedDuration::try_from(SAME).unwrap_or_default();
    match (a, b) {
        (Some(a), Some(b)) => a.duration_since(b).abs() < limit,
        (None, None) => true,
        _ => false,
    }
}

fn time_in_name(event: &str) -> Option<Timestamp> {
    let nanoseconds = i64::from_str_radix(event.rsplit('.').next()?, 16).ok()?;
    Timestamp::from_nanosecond(i128::from(nanoseconds)).ok()
}

fn state_of(message: &str) -> ComplianceState {
    let text = message.strip_prefix(COMBINED).unwrap_or(message).trim().to_lowercase();
    match text.as_str() {
        it if it.starts_with("compliant") => ComplianceState::Compliant,
        it if it.starts_with("pending") => ComplianceState::Pending,
        _ => ComplianceState::NonCompliant,
    }
}

/// The state of a Policy by those of its templates; that of before where one of them has none yet.
pub fn overall(details: &[PolicyTemplateStatus], before: Option<ComplianceState>) -> Option<ComplianceState> {
    let (mut all, mut state) = (true, before);
    for it in details {
        match it.compliant {
            Some(ComplianceState::NonCompliant) => return Some(ComplianceState::NonCompliant),
            Some(ComplianceState::Pending) => (all, state) = (false, Some(ComplianceState::Pending)),
            Some(ComplianceState::Compliant) => {}
            None => all = false,
        }
    }
    if all { Some(ComplianceState::Compliant) } else { state }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(nanoseconds: i64, message: &str) -> ComplianceHistory {
        ComplianceHistory {
            last_timestamp: None,
            message: message.to_owned(),
            event_name: format!("ns.p.{nanoseconds:x}"),
        }
    }

    fn messages(it: &PolicyTemplateStatus) -> Vec<&str> {
        it.history.iter().map(|it| it.message.as_str()).collect()
    }

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn reasons_name_templates_as_upstream_reads_them() {
        for (reason, template) in [
            ("policy: c1/t", Some("t")),
            ("POLICY:c1 /t", Some("t")),
            ("policy: t", Some("t")),
            ("policy: c1/a/b", Some("a/b")),
            ("policy: c_1/t", Some("c_1/t")),
            ("policy: c1/", Some("c1/")),
            ("policy:", None),
            ("PolicyStatusSync", None),
            ("polizeiß", None),
        ] {
            assert_eq!(template_of(reason), template, "{reason}");
        }
    }

    #[test]
    fn history_is_newest_first_and_has_ten_entries() {
        let said = (1..=12)
            .map(|it| entry(it * SECOND, &format!("Compliant; {it}")))
            .collect();
        let details = merge(said, &[], "t");
        assert_eq!(details.history.len(), 10);
        assert_eq!(messages(&details)[..2], ["Compliant; 12", "Compliant; 11"]);
        assert_eq!(details.compliant, Some(ComplianceState::Compliant));
        let times = serde_json::to_value(&details.history[0]).unwrap();
        assert_eq!(times["lastTimestamp"], "1970-01-01T00:00:12Z");
    }

    #[test]
    fn what_was_known_stays_when_its_event_is_gone() {
        let first = merge(vec![entry(SECOND, "NonCompliant; a")], &[], "t");
        let second = merge(vec![entry(2 * SECOND, "Compliant; b")], &[first], "t");
        assert_eq!(messages(&second), ["Compliant; b", "NonCompliant; a"]);
        let third = merge(
            vec![entry(2 * SECOND, "Compliant; b")],
            std::slice::from_ref(&second),
            "t",
        );
        assert_eq!(third, second);
    }

    #[test]
    fn the_same_text_within_five_microseconds_is_kept_once() {
        let at = |nanoseconds, text| entry(SECOND + nanoseconds, text);
        let details = merge(
            vec![at(0, "a"), at(4_999, "a"), at(9_999, "a"), at(10_000, "b")],
            &[],
            "t",
        );
        assert_eq!(messages(&details), ["b", "a", "a"]);
    }

    #[test]
    fn objects_and_events_say_the_same_thing_once() {
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": {"name": "t", "labels": {"policy.open-cluster-management.io/policy": "ns.p"}},
            "status": {"history": [
                {"lastTimestamp": "1970-01-01T00:00:01.000001Z", "message": "Compliant; x"},
                {"message": "without a time"},
            ]},
        }))
        .unwrap();
        assert!(is_of(&object, "ns.p") && !is_of(&object, "ns.q"));
        let mut said = vec![entry(SECOND + 1000, "Compliant; x")];
        said.extend(of_object(&object, "ns.p"));
        assert_eq!(merge(said, &[], "t").history.len(), 1);
    }

    #[test]
    fn a_policy_is_as_the_worst_of_its_templates() {
        use ComplianceState::{Compliant, NonCompliant, Pending};
        let of = |all: &[Option<ComplianceState>], before| {
            let details: Vec<_> = all
                .iter()
                .map(|it| PolicyTemplateStatus {
                    compliant: *it,
                    ..PolicyTemplateStatus::default()
                })
                .collect();
            overall(&details, before)
        };
        assert_eq!(of(&[Some(Compliant), Some(Compliant)], None), Some(Compliant));
        assert_eq!(of(&[Some(Pending), None, Some(NonCompliant)], None), Some(NonCompliant));
        assert_eq!(of(&[Some(Compliant), Some(Pending), None], None), Some(Pending));
        assert_eq!(of(&[Some(Compliant), None], Some(NonCompliant)), Some(NonCompliant));
        assert_eq!(of(&[Some(Compliant), None], None), None);
        assert_eq!(of(&[], None), Some(Compliant));
    }

    #[test]
    fn states_are_read_from_the_beginning_of_a_message() {
        assert_eq!(state_of("compliant; x"), ComplianceState::Compliant);
        assert_eq!(
            state_of("(combined from similar events): Pending; y"),
            ComplianceState::Pending
        );
        assert_eq!(state_of("whatever"), ComplianceState::NonCompliant);
    }
}
