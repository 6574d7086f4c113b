//! The status of a work: the conditions of each manifest, what of the old status they inherit, and the conditions of
//! the whole.
//! Upstream: ocm pkg/work/spoke/controllers/{manifestcontroller,statuscontroller}. There two controllers write this
//! status and meet in conflicts; here it has one author.

use std::collections::BTreeMap;

use jiff::Timestamp;
use ocm_api::{
    condition::{self, Condition, ConditionUpdate, Status, wanted},
    conditions::manifest_work::{self as types, manifest_reason, reason},
    work::{
        ConditionRule, FeedbackRule, ManifestCondition, ManifestResourceMeta, ManifestResourceStatus,
        ManifestWorkStatus, StatusFeedbackResult,
    },
};
use serde_json::Value;

use super::{
    feedback::{self, RawJson},
    manifest::Gvk,
    rules,
};

/// What became of applying one manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is on the cluster as the work says.
    Yes,
    /// It is not, and why.
    No(String),
    /// The fields to ignore could not be worked out.
    BadIgnoreFields(String),
    /// Nothing was tried this time: what was said before still holds.
    AsBefore,
}

/// What was found on the cluster.
#[derive(Clone, Debug, PartialEq)]
pub enum ObservedObject {
    /// The manifest does not say what to look for.
    Unknowable,
    Absent,
    Present(Value),
    /// Looking for it failed.
    Unreadable(String),
}

/// One manifest, looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedManifest {
    pub meta: ManifestResourceMeta,
    pub applied: Applied,
    pub found: ObservedObject,
    pub feedback: Vec<FeedbackRule>,
    pub conditions: Vec<ConditionRule>,
}

/// The status of the work, from what was seen and what the status was.
pub fn report(
    old: &ManifestWorkStatus,
    looked: &[ObservedManifest],
    generation: Option<i64>,
    raw: RawJson,
    now: Timestamp,
) -> ManifestWorkStatus {
    let manifests: Vec<ManifestCondition> = looked
        .iter()
        .map(|it| manifest(&old.resource_status.manifests, it, generation, raw, now))
        .collect();
    let mut conditions = old.conditions.clone();
    // Where nothing was tried, this generation was not applied, and the condition stays with the one that was.
    let tried = looked.iter().any(|it| it.applied != Applied::AsBefore);
    if let Some(applied) = applied_of_work(&manifests).filter(|_| tried) {
        condition::set(&mut conditions, applied.at_generation(generation), now);
    }
    for wanted in aggregate(&manifests) {
        condition::set(&mut conditions, wanted.at_generation(generation), now);
    }
    conditions.retain(|it| !is_stale_rule(it, generation) || is_aggregated(&manifests, it));
    conditions.sort_by(|left, right| left.type_.cmp(&right.type_));
    ManifestWorkStatus {
        conditions,
        resource_status: ManifestResourceStatus { manifests },
    }
}

fn manifest(
    old: &[ManifestCondition],
    looked: &ObservedManifest,
    generation: Option<i64>,
    raw: RawJson,
    now: Timestamp,
) -> ManifestCondition {
    let inherited = inherit(old, &looked.meta);
    let mut next = ManifestCondition {
        resource_meta: looked.meta.clone(),
        status_feedback: inherited.map(|it| it.status_feedback.clone()).unwrap_or_default(),
        conditions: inherited.map(|it| it.conditions.clone()).unwrap_or_default(),
    };
    if let Some(applied) = applied_of_manifest(&looked.applied) {
        // At a new generation the condition starts anew, so that its time says since when this generation is applied.
        if condition::find(&next.conditions, types::APPLIED).is_some_and(|it| it.observed_generation != generation) {
            condition::remove(&mut next.conditions, types::APPLIED);
        }
        condition::set(&mut next.conditions, applied.at_generation(generation), now);
    }
    condition::set(&mut next.conditions, available(&looked.found), now);
    if let ObservedObject::Present(object) = &looked.found {
        let meta = &looked.meta;
        let gvk = Gvk {
            group: meta.group.clone(),
            version: meta.version.clone(),
            kind: meta.kind.clone(),
        };
        feed_back(&mut next, &looked.feedback, &gvk, object, raw, now);
        for wanted in rules::evaluate(&looked.conditions, &gvk, object, generation) {
            condition::set(&mut next.conditions, wanted, now);
        }
        // Only an object that is there can prove a rule gone: a finished Job that Kubernetes has removed stays
        // finished.
        next.conditions.retain(|it| !is_stale_rule(it, generation));
    }
    next
}

/// The old entry of the same manifest; one that only moved in the list counts if there is just one.
fn inherit<'a>(old: &'a [ManifestCondition], meta: &ManifestResourceMeta) -> Option<&'a ManifestCondition> {
    if let Some(same) = old.iter().find(|it| it.resource_meta == *meta) {
        return Some(same);
    }
    let anywhere = |it: &ManifestResourceMeta| ManifestResourceMeta {
        ordinal: meta.ordinal,
        ..it.clone()
    };
    let mut moved = old.iter().filter(|it| anywhere(&it.resource_meta) == *meta);
    moved.next().filter(|_| moved.next().is_none())
}

fn applied_of_manifest(applied: &Applied) -> Option<ConditionUpdate> {
    use manifest_reason as r;
    Some(match applied {
        Applied::AsBefore => return None,
        Applied::Yes => wanted(types::APPLIED, true, r::APPLIED_COMPLETE, "Apply manifest complete"),
        Applied::No(why) => wanted(
            types::APPLIED,
            false,
            r::APPLIED_FAILED,
            format!("Failed to apply manifest: {why}"),
        ),
        Applied::BadIgnoreFields(why) => wanted(
            types::APPLIED,
            false,
            r::SSA_IGNORE_FIELD_ERROR,
            format!("Failed to process ignoreFields: {why}"),
        ),
    })
}

fn available(found: &ObservedObject) -> ConditionUpdate {
    use manifest_reason as r;
    match found {
        ObservedObject::Unknowable => wanted(
            types::AVAILABLE,
            Status::Unknown,
            r::INCOMPLETE_RESOURCE_META,
            "Resource meta is incomplete",
        ),
        ObservedObject::Absent => wanted(
            types::AVAILABLE,
            false,
            r::RESOURCE_NOT_AVAILABLE,
            "Resource is not available",
        ),
        ObservedObject::Unreadable(why) => wanted(
            types::AVAILABLE,
            Status::Unknown,
            r::FETCHING_RESOURCE_FAILED,
            format!("Failed to fetch resource: {why}"),
        ),
        ObservedObject::Present(_) => wanted(types::AVAILABLE, true, r::RESOURCE_AVAILABLE, "Resource is available"),
    }
}

fn feed_back(
    next: &mut ManifestCondition,
    rules: &[FeedbackRule],
    gvk: &Gvk,
    object: &Value,
    raw: RawJson,
    now: Timestamp,
) {
    use manifest_reason as r;
    let synced = types::STATUS_FEEDBACK_SYNCED;
    let (values, said) = if rules.is_empty() {
        (vec![], wanted(synced, true, r::NO_STATUS_FEEDBACK_SYNCED, ""))
    } else {
        let (values, errors) = feedback::read(rules, gvk, object, raw);
        let said = if errors.is_empty() {
            wanted(synced, true, r::STATUS_FEEDBACK_SYNCED, "")
        } else {
            let message = format!("Sync status feedback failed with error {}", go_aggregate(&errors));
            wanted(synced, false, r::STATUS_FEEDBACK_SYNC_FAILED, message)
        };
        (values, said)
    };
    if next.status_feedback.values != values {
        next.status_feedback = StatusFeedbackResult { values };
        condition::remove(&mut next.conditions, synced);
    }
    condition::set(&mut next.conditions, said, now);
}

/// Several errors as Go's aggregate prints them.
fn go_aggregate(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

fn is_stale_rule(it: &Condition, generation: Option<i64>) -> bool {
    it.reason.starts_with(manifest_reason::CONDITION_RULE_PREFIX) && it.observed_generation != generation
}

fn is_aggregated(manifests: &[ManifestCondition], it: &Condition) -> bool {
    manifests
        .iter()
        .any(|manifest| condition::find(&manifest.conditions, &it.type_).is_some_and(is_rule))
}

fn is_rule(it: &Condition) -> bool {
    it.reason.starts_with(manifest_reason::CONDITION_RULE_PREFIX)
}

fn applied_of_work(manifests: &[ManifestCondition]) -> Option<ConditionUpdate> {
    if !manifests
        .iter()
        .any(|it| condition::find(&it.conditions, types::APPLIED).is_some())
    {
        return None;
    }
    let failed = manifests
        .iter()
        .any(|it| condition::is_false(&it.conditions, types::APPLIED));
    Some(if failed {
        wanted(
            types::APPLIED,
            false,
            reason::APPLIED_FAILED,
            "Failed to apply manifest work",
        )
    } else {
        wanted(
            types::APPLIED,
            true,
            reason::APPLIED_COMPLETE,
            "Apply manifest work complete",
        )
    })
}

fn aggregate(manifests: &[ManifestCondition]) -> Vec<ConditionUpdate> {
    let mut all = vec![available_of_work(manifests)];
    let mut by_type: BTreeMap<&str, Vec<&Condition>> = BTreeMap::new();
    for it in manifests.iter().flat_map(|it| &it.conditions).filter(|it| is_rule(it)) {
        by_type.entry(&it.type_).or_default().push(it);
    }
    for (r#type, conditions) in by_type {
        let any = |status: Status| conditions.iter().any(|it| it.status == status.as_str());
        let order = match r#type {
            types::PROGRESSING => [Status::True, Status::Unknown, Status::False],
            _ => [Status::False, Status::Unknown, Status::True],
        };
        let status = order.into_iter().find(|it| any(*it)).unwrap_or(Status::Unknown);
        let message = match conditions.as_slice() {
            [one] if !one.message.is_empty() => one.message.clone(),
            many => format!("Aggregated from {} manifest conditions", many.len()),
        };
        all.push(wanted(r#type, status, reason::CONDITION_RULES_AGGREGATED, message));
    }
    all
}

fn available_of_work(manifests: &[ManifestCondition]) -> ConditionUpdate {
    let count = |status: Status| {
        manifests
            .iter()
            .filter(|it| condition::status(&it.conditions, types::AVAILABLE) == Some(status))
            .count()
    };
    let all = manifests.len();
    let (not_there, unknown) = (count(Status::False), count(Status::Unknown));
    if not_there > 0 {
        let message = format!("{not_there} of {all} resources are not available");
        wanted(types::AVAILABLE, false, reason::RESOURCES_NOT_AVAILABLE, message)
    } else if unknown > 0 {
        let message = format!("{unknown} of {all} resources have unknown status");
        wanted(
            types::AVAILABLE,
            Status::Unknown,
            reason::RESOURCES_STATUS_UNKNOWN,
            message,
        )
    } else if count(Status::True) == 0 {
        // The space at the end is upstream's.
        let message = "cannot get any available resource ";
        wanted(
            types::AVAILABLE,
            Status::Unknown,
            reason::RESOURCES_STATUS_UNKNOWN,
            message,
        )
    } else {
        wanted(
            types::AVAILABLE,
            true,
            reason::RESOURCES_AVAILABLE,
            "All resources are available",
        )
    }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
