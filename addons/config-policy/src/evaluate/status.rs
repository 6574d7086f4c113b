//! The status of a ConfigurationPolicy, and the messages that it makes.
//! Upstream: config-policy-controller `addConditionToStatus`, `addForUpdate`, `defaultComplianceMessage`.

use jiff::Timestamp;
use ocm_addon_sdk::ocm_api::policy::configuration_policy::{
    ComplianceHistory, ConfigurationPolicy, ConfigurationPolicyStatus, PolicyCondition, TemplateCompliance,
};
use policy_template::render_message;
use serde_json::{Value, json};

use super::messages::{TemplateVerdict, reason};

/// What a policy is called when all is well.
pub const COMPLIANT: &str = "Compliant";
/// When something is not.
pub const NON_COMPLIANT: &str = "NonCompliant";
/// When it is being deleted.
pub const TERMINATING: &str = "Terminating";

/// The longest message, in bytes.
const MESSAGE_MAX: usize = 4096;
const TRUNCATED: &str = "...[truncated]";
/// How many messages are remembered.
const HISTORY_MAX: usize = 10;

/// Puts in what was found of an object template. Whether it is news.
pub fn set_condition(policy: &mut ConfigurationPolicy, index: usize, verdict: &TemplateVerdict) -> bool {
    let compliant = verdict.compliant;
    let state = match (verdict.reason.as_str(), compliant) {
        (reason::CLEANUP_ERROR, _) => TERMINATING,
        (_, true) => COMPLIANT,
        (_, false) => NON_COMPLIANT,
    };
    let interval = &policy.spec.evaluation_interval;
    let (field, interval) = match compliant {
        true => ("compliant", &interval.compliant),
        false => ("noncompliant", &interval.noncompliant),
    };
    let mut message = verdict.message.clone();
    if interval == "never" {
        message += &format!(
            ". This policy will not be evaluated again due to spec.evaluationInterval.{field} being set to \"never\"."
        );
    }
    let condition = PolicyCondition {
        r#type: if compliant { "notification" } else { "violation" }.to_owned(),
        status: "True".to_owned(),
        last_transition_time: in_seconds(Timestamp::now()),
        reason: verdict.reason.clone(),
        message,
    };
    let details = &mut status(policy).compliancy_details;
    while details.len() <= index {
        details.push(TemplateCompliance::default());
    }
    let detail = &mut details[index];
    let said = |it: &PolicyCondition| (it.r#type.clone(), it.reason.clone(), it.message.clone());
    let mut news = detail.compliant != state;
    state.clone_into(&mut detail.compliant);
    if detail.conditions.last().map(said) != Some(said(&condition)) {
        detail.conditions = vec![condition];
        news = true;
    }
    news
}

/// Puts in what concerns the whole policy: nothing else is said. Whether it is news.
pub fn set_only_condition(policy: &mut ConfigurationPolicy, verdict: &TemplateVerdict) -> bool {
    let news = set_condition(policy, 0, verdict);
    status(policy).compliancy_details.truncate(1);
    news
}

/// The status, which may not be there yet.
pub fn status(policy: &mut ConfigurationPolicy) -> &mut ConfigurationPolicyStatus {
    policy.status.get_or_insert_default()
}

/// Sums up the templates, and remembers when that was. Whether it is to be told, whatever else is news.
pub fn sum_up(policy: &mut ConfigurationPolicy) -> bool {
    let generation = policy.metadata.generation.unwrap_or_default();
    let deleted = policy.metadata.deletion_timestamp.is_some();
    let status = status(policy);
    let details = &status.compliancy_details;
    let state = if deleted {
        TERMINATING
    } else if details.is_empty() {
        ""
    } else if details.iter().any(|it| it.compliant == NON_COMPLIANT) {
        NON_COMPLIANT
    } else {
        COMPLIANT
    };
    let news = status.compliant != state || status.last_evaluated_generation != generation;
    state.clone_into(&mut status.compliant);
    status.last_evaluated = in_seconds(Timestamp::now());
    status.last_evaluated_generation = generation;
    news
}

/// Puts a message into the history, if it is told or another than the last one.
pub fn remember(status: &mut ConfigurationPolicyStatus, message: &str, told: bool, at: Timestamp) {
    if !told && status.history.first().is_some_and(|it| it.message == message) {
        return;
    }
    let entry = ComplianceHistory {
        last_timestamp: at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
        message: message.to_owned(),
    };
    status.history.insert(0, entry);
    status.history.truncate(HISTORY_MAX);
}

/// `STATE; violation - …; notification - …`.
pub fn default_message(status: &ConfigurationPolicyStatus) -> String {
    if status.compliant.is_empty() {
        return "ComplianceState is still unknown".to_owned();
    }
    let mut message = status.compliant.clone();
    for detail in &status.compliancy_details {
        // As upstream: a template about which nothing is known leaves nothing but the state.
        let Some(condition) = detail.conditions.first() else {
            return status.compliant.clone();
        };
        message += &format!("; {} - {}", condition.r#type, condition.message);
    }
    message
}

/// The message of a policy, in its own words where it has some. `objects` are the related objects, whole where they are
/// known, in the order of the status.
pub fn message(policy: &ConfigurationPolicy, objects: &[Option<Value>]) -> String {
    let Some(status) = &policy.status else {
        return String::new();
    };
    let default = default_message(status);
    let custom = &policy.spec.custom_message;
    let template = match status.compliant == COMPLIANT {
        true => &custom.compliant,
        false => &custom.noncompliant,
    };
    let text = match template.as_str() {
        "" => default,
        template => match render_message(template, &message_data(policy, objects, &default)) {
            Ok(text) if text.starts_with(&format!("{}; ", status.compliant)) => text,
            Ok(text) => format!("{}; {text}", status.compliant),
            Err(why) => format!("{default} (failure processing the custom message: {why})"),
        },
    };
    truncated(text)
}

/// What an event about the policy itself says: `STATE: MESSAGE; MESSAGE`.
pub fn in_short(status: &ConfigurationPolicyStatus) -> String {
    let messages: Vec<&str> = status
        .compliancy_details
        .iter()
        .filter_map(|it| Some(it.conditions.first()?.message.as_str()))
        .collect();
    format!("{}: {}", status.compliant, messages.join("; "))
}

fn message_data(policy: &ConfigurationPolicy, objects: &[Option<Value>], default: &str) -> Value {
    let mut document = serde_json::to_value(policy).unwrap_or_default();
    if let Some(related) = document["status"]["relatedObjects"].as_array_mut() {
        for (entry, object) in related.iter_mut().zip(objects) {
            if let Some(object) = object {
                entry["object"] = object.clone();
            }
        }
    }
    json!({"DefaultMessage": default, "Policy": document})
}

fn truncated(mut text: String) -> String {
    if text.len() > MESSAGE_MAX {
        let end = text.floor_char_boundary(MESSAGE_MAX - TRUNCATED.len());
        text.truncate(end);
        text.push_str(TRUNCATED);
    }
    text
}

fn in_seconds(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(compliant: bool, message: &str) -> TemplateVerdict {
        TemplateVerdict {
            compliant,
            reason: "R".to_owned(),
            message: message.to_owned(),
        }
    }

    fn policy(spec: Value) -> ConfigurationPolicy {
        let document = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn one_template_that_is_wrong_makes_all_wrong() {
        let mut policy = policy(json!({"remediationAction": "inform"}));
        assert!(set_condition(&mut policy, 0, &verdict(true, "good")));
        assert!(set_condition(&mut policy, 1, &verdict(false, "bad")));
        assert!(!set_condition(&mut policy, 1, &verdict(false, "bad")), "it is no news");
        assert!(sum_up(&mut policy));
        let text = message(&policy, &[]);
        assert_eq!(text, "NonCompliant; notification - good; violation - bad");
        assert!(set_only_condition(&mut policy, &verdict(true, "all")));
        sum_up(&mut policy);
        assert_eq!(message(&policy, &[]), "Compliant; notification - all");
    }

    #[test]
    fn a_policy_that_is_done_says_so() {
        let mut policy = policy(json!({"evaluationInterval": {"compliant": "never"}}));
        set_condition(&mut policy, 0, &verdict(true, "good"));
        sum_up(&mut policy);
        assert_eq!(
            message(&policy, &[]),
            "Compliant; notification - good. This policy will not be evaluated again due to \
             spec.evaluationInterval.compliant being set to \"never\"."
        );
    }

    #[test]
    fn policies_word_their_own_messages() {
        let custom = r#"{{ .Policy.metadata.name | upper }}: {{ .DefaultMessage }} {{ range .Policy.status.relatedObjects }}{{ .object.data.a }}{{ end }}"#;
        let mut policy = policy(json!({"customMessage": {"compliant": custom, "noncompliant": "{{ .x"}}));
        set_condition(&mut policy, 0, &verdict(true, "good"));
        status(&mut policy).related_objects = vec![Default::default()];
        sum_up(&mut policy);
        let object = json!({"data": {"a": "whole"}});
        assert_eq!(
            message(&policy, &[Some(object)]),
            "Compliant; P: Compliant; notification - good whole"
        );
        set_condition(&mut policy, 0, &verdict(false, "bad"));
        sum_up(&mut policy);
        let text = message(&policy, &[]);
        assert!(
            text.starts_with(
                "NonCompliant; violation - bad (failure processing the custom message: failed to parse custom template: "
            ),
            "{text}"
        );
    }

    #[test]
    fn long_messages_are_cut_between_letters() {
        let mut policy = policy(json!({}));
        set_condition(&mut policy, 0, &verdict(false, &"ä".repeat(4000)));
        sum_up(&mut policy);
        let text = message(&policy, &[]);
        assert!(text.len() <= 4096 && text.ends_with("ä...[truncated]"));
    }

    #[test]
    fn ten_messages_are_remembered() {
        let mut status = ConfigurationPolicyStatus::default();
        for at in 0..12 {
            remember(&mut status, &format!("m{at}"), false, Timestamp::UNIX_EPOCH);
        }
        remember(&mut status, "m11", false, Timestamp::UNIX_EPOCH);
        assert_eq!(status.history.len(), 10);
        assert_eq!(status.history[0].message, "m11");
        assert_eq!(status.history[0].last_timestamp, "1970-01-01T00:00:00.000000Z");
        remember(&mut status, "m11", true, Timestamp::UNIX_EPOCH);
        assert_eq!(status.history[1].message, "m11");
    }
}
