//! The status of an OperatorPolicy: conditions, related objects, and the message that sums them up.
//! Upstream: config-policy-controller `updateStatus`, `calculateComplianceCondition`.

use std::mem;

use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time},
    ocm_api::policy::{
        configuration_policy::ComplianceHistory,
        operator_policy::{OperatorObject, OperatorPolicy, OperatorPolicyStatus},
    },
};

use super::{
    CATALOG_SOURCE, CSV, DEFINITION, DEPLOYMENT, INSTALL_PLAN, OPERATOR_GROUP, SUBSCRIPTION,
    conditions::{COMPLIANT as OVERALL, MINOR_CHANNEL, NO_DEPRECATIONS, OperatorCondition, VALID},
};
use crate::evaluate::{COMPLIANT, NON_COMPLIANT};

/// The longest message, in bytes.
const MESSAGE_MAX: usize = 4096;
/// The longest message of a condition that the API server takes.
const CONDITION_MAX: usize = 32768;
const TRUNCATED: &str = "...[truncated]";

/// The conditions that make up the message, in its order; all have to be there.
const OF_KINDS: [&str; 7] = [
    OPERATOR_GROUP.condition,
    SUBSCRIPTION.condition,
    INSTALL_PLAN.condition,
    CSV.condition,
    DEFINITION.condition,
    DEPLOYMENT.condition,
    CATALOG_SOURCE.condition,
];

/// The status, which may not be there yet.
pub fn status(policy: &mut OperatorPolicy) -> &mut OperatorPolicyStatus {
    policy.status.get_or_insert_default()
}

/// The condition of a type, where the status has it.
pub fn condition<'p>(policy: &'p OperatorPolicy, r#type: &str) -> Option<&'p Condition> {
    let mut conditions = policy.status.iter().flat_map(|it| &it.conditions);
    conditions.find(|it| it.type_ == r#type)
}

/// Puts in a condition and the objects that it is about, all of one kind, and sums up anew. Whether something of it is
/// news. Objects replace all others of their kind; where there are none, those of before stay.
pub fn put(policy: &mut OperatorPolicy, said: OperatorCondition, objects: Vec<OperatorObject>, at: Timestamp) -> bool {
    let mut news = put_condition(status(policy), said, at);
    news |= put_objects(status(policy), objects);
    let overall = overall(policy);
    let is_compliant = overall.status == "True";
    let generation = policy.metadata.generation.unwrap_or_default();
    let status = status(policy);
    put_condition(status, overall, at);
    status.conditions.sort_by(|one, other| one.type_.cmp(&other.type_));
    status.compliant = if is_compliant { COMPLIANT } else { NON_COMPLIANT }.to_owned();
    news | (mem::replace(&mut status.observed_generation, generation) != generation)
}

/// Takes a condition out that does not apply any more.
pub fn drop_condition(policy: &mut OperatorPolicy, r#type: &str) {
    status(policy).conditions.retain(|it| it.type_ != r#type);
}

/// A condition that says the same stays as it is.
fn put_condition(status: &mut OperatorPolicyStatus, said: OperatorCondition, at: Timestamp) -> bool {
    let existing = status.conditions.iter_mut().find(|it| it.type_ == said.r#type);
    let condition = Condition {
        type_: said.r#type.to_owned(),
        status: said.status.to_owned(),
        reason: said.reason,
        message: truncated(said.message, CONDITION_MAX),
        last_transition_time: Time(Timestamp::from_second(at.as_second()).unwrap_or(at)),
        observed_generation: None,
    };
    match existing {
        Some(existing) => {
            let same = existing.status == condition.status
                && existing.reason == condition.reason
                && existing.message == condition.message;
            if !same {
                *existing = condition;
            }
            !same
        }
        None => {
            status.conditions.push(condition);
            true
        }
    }
}

fn put_objects(status: &mut OperatorPolicyStatus, mut objects: Vec<OperatorObject>) -> bool {
    let Some(kind) = objects.first().map(|it| it.object.kind.clone()) else {
        return false;
    };
    let place = |it: &OperatorObject| (it.object.kind.clone(), it.object.metadata.name.clone());
    objects.sort_by_key(place);
    let is_of_kind = |it: &OperatorObject| it.object.kind == kind;
    let before: Vec<OperatorObject> = status
        .related_objects
        .iter()
        .filter(|it| is_of_kind(it))
        .cloned()
        .collect();
    for object in &mut objects {
        let Some(properties) = &mut object.properties else {
            continue;
        };
        // The same object that the policy has created once is still its own.
        let same = before.iter().filter(|it| it.object.metadata == object.object.metadata);
        let same = same.filter_map(|it| it.properties.as_ref());
        for known in same.filter(|it| it.uid == properties.uid) {
            properties.created_by_policy = known.created_by_policy.or(properties.created_by_policy);
        }
    }
    if objects == before {
        return false;
    }
    status.related_objects.retain(|it| !is_of_kind(it));
    status.related_objects.extend(objects);
    status.related_objects.sort_by_key(place);
    true
}

/// All conditions in one. One that is not there is as bad as one that is bad.
fn overall(policy: &OperatorPolicy) -> OperatorCondition {
    let mut messages = Vec::new();
    let mut compliant = true;
    match condition(policy, VALID) {
        Some(valid) => {
            messages.push(valid.message.as_str());
            if valid.status != "True" {
                compliant = false;
                // A namespace that is missing says nothing against the spec: it can be made.
                if !valid.message.to_lowercase().starts_with("the operator namespace") {
                    return summed_up(false, &messages);
                }
            }
        }
        None => compliant = false,
    }
    for r#type in OF_KINDS {
        let good = if r#type == CATALOG_SOURCE.condition {
            "False"
        } else {
            "True"
        };
        match condition(policy, r#type) {
            Some(it) => {
                messages.push(&it.message);
                compliant &= it.status == good;
            }
            None => compliant = false,
        }
    }
    let config = &policy.spec.compliance_config;
    let must_have = !policy.spec.compliance_type.eq_ignore_ascii_case("mustnothave");
    if must_have && config.deprecations_present == NON_COMPLIANT {
        match condition(policy, NO_DEPRECATIONS) {
            Some(it) => {
                messages.push(&it.message);
                compliant &= it.status == "True";
            }
            None => compliant = false,
        }
    }
    // Later channels are told where they matter alone.
    if must_have && let Some(it) = condition(policy, MINOR_CHANNEL).filter(|it| it.status != "True") {
        messages.push(&it.message);
        compliant = false;
    }
    summed_up(compliant, &messages)
}

fn summed_up(compliant: bool, messages: &[&str]) -> OperatorCondition {
    let state = if compliant { COMPLIANT } else { NON_COMPLIANT };
    let message = match messages {
        [] => format!("{state};"),
        messages => format!("{state}; {}", messages.join(", ")),
    };
    OperatorCondition {
        r#type: OVERALL,
        status: if compliant { "True" } else { "False" },
        reason: state.to_owned(),
        message: truncated(message, MESSAGE_MAX),
    }
}

fn truncated(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = text.floor_char_boundary(max - TRUNCATED.len());
        text.truncate(end);
        text.push_str(TRUNCATED);
    }
    text
}

/// What the policy says of itself: `STATE; MESSAGE, MESSAGE`.
pub fn message(policy: &OperatorPolicy) -> String {
    condition(policy, OVERALL).map_or_else(|| overall(policy).message, |it| it.message.clone())
}

/// Puts a message into the history, if it is another than the last one.
pub fn remember(policy: &mut OperatorPolicy, message: &str, at: Timestamp, history_max: usize) {
    const HISTORY_DEFAULT: usize = 10;
    let history = &mut status(policy).history;
    if history.first().is_some_and(|it| it.message == message) {
        return;
    }
    let entry = ComplianceHistory {
        last_timestamp: at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        message: message.to_owned(),
    };
    history.insert(0, entry);
    history.truncate(if history_max == 0 { HISTORY_DEFAULT } else { history_max });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::conditions;

    #[test]
    fn long_messages_are_cut_between_letters() {
        let mut policy = OperatorPolicy::default();
        put(
            &mut policy,
            conditions::invalid(&"ä".repeat(20_000)),
            Vec::new(),
            Timestamp::UNIX_EPOCH,
        );
        let told = message(&policy);
        assert!(told.len() <= MESSAGE_MAX && told.ends_with("ä...[truncated]"));
        let valid = condition(&policy, VALID).unwrap();
        assert!(valid.message.len() <= CONDITION_MAX && valid.message.ends_with("ä...[truncated]"));
    }
}
