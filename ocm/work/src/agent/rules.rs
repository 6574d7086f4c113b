//! Conditions that a work derives from the state of its objects: rules known for the kind, or CEL expressions.
//! Upstream: ocm pkg/work/spoke/conditions.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use ocm_api::{
    condition::{ConditionUpdate, Status},
    conditions::manifest_work::{COMPLETE, manifest_reason as reason},
    work::{ConditionRule, ConditionRuleType},
};
use parking_lot::Mutex;
use safe_cel::{Budget, Context, Expression, Library, Value as Cel, from_json, language::objects::Key};
use serde_json::Value;

use super::manifest::Gvk;

/// How many compiled expressions are kept before all are forgotten: an agent sees the same ones again and again.
const COMPILED_MAX: usize = 256;

/// The conditions that the rules give, in the order of the rules.
pub fn evaluate(rules: &[ConditionRule], gvk: &Gvk, object: &Value, generation: Option<i64>) -> Vec<ConditionUpdate> {
    let mut budget = Budget::of_object();
    rules
        .iter()
        .filter_map(|rule| one(rule, gvk, object, &mut budget))
        .map(|it| it.at_generation(generation))
        .collect()
}

/// The rules of an object share one budget.
fn one(rule: &ConditionRule, gvk: &Gvk, object: &Value, budget: &mut Budget) -> Option<ConditionUpdate> {
    let wanted = |condition: &str, status: Status, reason: &str, message: String| ConditionUpdate {
        r#type: condition.to_owned(),
        status,
        reason: reason.to_owned(),
        message,
        observed_generation: None,
    };
    match rule.r#type {
        ConditionRuleType::WellKnownConditions => Some(match well_known(rule, gvk, object)? {
            Ok((result, message)) => {
                let message = message_of(rule, object, result).unwrap_or(message);
                wanted(COMPLETE, result.into(), reason::CONDITION_RULE_EVALUATED, message)
            }
            Err(error) => wanted(COMPLETE, Status::False, reason::CONDITION_RULE_EXPRESSION_ERROR, error),
        }),
        ConditionRuleType::CEL => Some(match all_true(&rule.cel_expressions, object, budget) {
            Ok(result) => {
                let message = message_of(rule, object, result).unwrap_or_else(|| {
                    let not = if result { "" } else { "not " };
                    format!("Manifest is {not}{}", rule.condition)
                });
                wanted(
                    &rule.condition,
                    result.into(),
                    reason::CONDITION_RULE_EVALUATED,
                    message,
                )
            }
            Err(error) => wanted(
                &rule.condition,
                Status::False,
                reason::CONDITION_RULE_EXPRESSION_ERROR,
                error,
            ),
        }),
    }
}

/// Result and message of the built-in rule, if there is one for this kind and condition. Upstream's are expressions in
/// CEL, which fail where a field is missing.
fn well_known(rule: &ConditionRule, gvk: &Gvk, object: &Value) -> Option<Result<(bool, String), String>> {
    if rule.condition != COMPLETE {
        return None;
    }
    match (gvk.group.as_str(), gvk.version.as_str(), gvk.kind.as_str()) {
        ("batch", "v1", "Job") => {
            let finished = object["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|it| matches!(it["type"].as_str(), Some("Complete" | "Failed")) && it["status"] == "True");
            let message = if finished {
                "Job is finished"
            } else {
                "Job is not finished"
            };
            Some(Ok((finished, message.to_owned())))
        }
        ("", "v1", "Pod") => Some(match object["status"]["phase"].as_str() {
            Some(phase) => Ok((
                matches!(phase, "Succeeded" | "Failed"),
                format!("Pod is in phase {phase}"),
            )),
            None => Err("no such key: phase".to_owned()),
        }),
        _ => None,
    }
}

fn all_true(expressions: &[String], object: &Value, budget: &mut Budget) -> Result<bool, String> {
    if expressions.is_empty() {
        return Ok(true);
    }
    let context = context(object);
    for expression in expressions {
        match run(expression, &context, budget)? {
            Cel::Bool(true) => {}
            Cel::Bool(false) => return Ok(false),
            other => return Err(format!("expected bool result, got {}", other.type_of())),
        }
    }
    Ok(true)
}

fn message_of(rule: &ConditionRule, object: &Value, result: bool) -> Option<String> {
    if !rule.message_expression.is_empty() {
        match compile(&rule.message_expression) {
            Ok(expression) => {
                let mut context = context(object);
                context.add_variable_from_value("result", result);
                if let Ok(Cel::String(text)) = expression.evaluate(&context, &mut Budget::of_object())
                    && !text.is_empty()
                {
                    return Some(text.to_string());
                }
            }
            Err(error) => return Some(error),
        }
    }
    (!rule.message.is_empty()).then(|| rule.message.clone())
}

fn run(expression: &str, context: &Context<'_>, budget: &mut Budget) -> Result<Cel, String> {
    compile(expression)?
        .evaluate(context, budget)
        .map_err(|it| it.to_string())
}

/// What rules may call: Kubernetes' functions, and `hasConditions`.
fn library() -> &'static Library {
    static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
        Library::extended(|root| {
            root.add_function("hasConditions", has_conditions);
        })
    });
    &LIBRARY
}

fn compile(text: &str) -> Result<Expression, String> {
    static COMPILED: LazyLock<Mutex<HashMap<Arc<str>, Expression>>> = LazyLock::new(Mutex::default);
    if let Some(found) = COMPILED.lock().get(text) {
        return Ok(found.clone());
    }
    let expression = library()
        .compile(text, &["object", "result"])
        .map_err(|it| it.to_string())?;
    let mut kept = COMPILED.lock();
    if kept.len() >= COMPILED_MAX {
        kept.clear();
    }
    kept.insert(expression.shared_text().clone(), expression.clone());
    Ok(expression)
}

fn context(object: &Value) -> Context<'static> {
    let mut context = library().scope();
    context.add_variable_from_value("object", from_json(object));
    context
}

/// Whether a status map has a list of conditions with anything in it.
fn has_conditions(status: Cel) -> bool {
    let Cel::Map(status) = status else { return false };
    matches!(status.map.get(&Key::from("conditions")), Some(Cel::List(items)) if !items.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(condition: &str, expressions: &[&str]) -> ConditionRule {
        ConditionRule {
            condition: condition.into(),
            r#type: ConditionRuleType::CEL,
            cel_expressions: expressions.iter().map(|it| it.to_string()).collect(),
            message: String::new(),
            message_expression: String::new(),
        }
    }

    fn show(rule: ConditionRule, kind: &str, object: Value) -> String {
        let (group, version) = match kind {
            "Job" => ("batch", "v1"),
            _ => ("", "v1"),
        };
        let gvk = Gvk {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        };
        let shown = |it: ConditionUpdate| format!("{}={} {} {}", it.r#type, it.status, it.reason, it.message);
        evaluate(&[rule], &gvk, &object, Some(2))
            .into_iter()
            .map(shown)
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn all_expressions_have_to_be_true() {
        let object = json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 3, "conditions": [{"type": "A", "status": "True"}]}});
        let table = [
            (
                vec!["object.status.readyReplicas == object.spec.replicas"],
                "Ready=True ConditionRuleEvaluated Manifest is Ready",
            ),
            (
                vec!["object.spec.replicas == 3", "object.spec.replicas > 3"],
                "Ready=False ConditionRuleEvaluated Manifest is not Ready",
            ),
            (
                vec!["hasConditions(object.status)"],
                "Ready=True ConditionRuleEvaluated Manifest is Ready",
            ),
            (
                vec!["object.status.conditions.exists(c, c.type == 'A' && c.status == 'True')"],
                "Ready=True ConditionRuleEvaluated Manifest is Ready",
            ),
            (vec![], "Ready=True ConditionRuleEvaluated Manifest is Ready"),
            (
                vec!["object.spec.replicas"],
                "Ready=False ConditionRuleExpressionError expected bool result, got int",
            ),
        ];
        for (expressions, expected) in table {
            assert_eq!(show(rule("Ready", &expressions), "ConfigMap", object.clone()), expected);
        }
        let broken = show(rule("Ready", &["object."]), "ConfigMap", object.clone());
        assert!(
            broken.starts_with("Ready=False ConditionRuleExpressionError "),
            "{broken}"
        );
        let missing = show(rule("Ready", &["object.absent.x == 1"]), "ConfigMap", object);
        assert!(
            missing.starts_with("Ready=False ConditionRuleExpressionError "),
            "{missing}"
        );
    }

    #[test]
    fn expression_errors_appear_in_the_condition() {
        let deep = format!("{}1{}", "[".repeat(3000), "]".repeat(3000));
        let list = "[1,2,3,4,5,6,7,8,9]";
        let mut slow = "true".to_owned();
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            slow = format!("{list}.all({name}, {slow})");
        }
        for (expression, message) in [
            ("Thing{a: 1} == 1", "undeclared reference to 'Thing'"),
            ("lists.range(1000000000).size() > 0", "cost limit exceeded"),
            (deep.as_str(), "nests deeper than"),
            (slow.as_str(), "cost limit exceeded"),
        ] {
            let said = show(rule("Ready", &[expression]), "ConfigMap", json!({}));
            assert!(
                said.starts_with("Ready=False ConditionRuleExpressionError ") && said.contains(message),
                "{said}"
            );
        }
    }

    #[test]
    fn the_message_may_be_an_expression() {
        let with = |message: &str, expression: &str| ConditionRule {
            message: message.into(),
            message_expression: expression.into(),
            ..rule("Ready", &["object.a == 1"])
        };
        let object = || json!({"a": 1});
        assert_eq!(
            show(
                with("said", "result ? 'yes ' + string(object.a) : 'no'"),
                "ConfigMap",
                object()
            ),
            "Ready=True ConditionRuleEvaluated yes 1"
        );
        assert_eq!(
            show(with("said", "''"), "ConfigMap", object()),
            "Ready=True ConditionRuleEvaluated said"
        );
    }

    #[test]
    fn jobs_and_pods_are_known() {
        let known = |kind, object| {
            let rule = ConditionRule {
                r#type: ConditionRuleType::WellKnownConditions,
                ..rule("Complete", &[])
            };
            show(rule, kind, object)
        };
        assert_eq!(
            known(
                "Job",
                json!({"status": {"conditions": [{"type": "Failed", "status": "True"}]}})
            ),
            "Complete=True ConditionRuleEvaluated Job is finished"
        );
        assert_eq!(
            known("Job", json!({})),
            "Complete=False ConditionRuleEvaluated Job is not finished"
        );
        assert_eq!(
            known("Pod", json!({"status": {"phase": "Running"}})),
            "Complete=False ConditionRuleEvaluated Pod is in phase Running"
        );
        assert_eq!(
            known("Pod", json!({})),
            "Complete=False ConditionRuleExpressionError no such key: phase"
        );
        assert_eq!(known("ConfigMap", json!({})), "");
        let nameless = ConditionRule {
            r#type: ConditionRuleType::WellKnownConditions,
            ..rule("", &[])
        };
        assert_eq!(show(nameless, "Job", json!({})), "");
    }

    #[test]
    fn the_rules_of_one_object_share_a_budget() {
        let gvk = Gvk {
            group: String::new(),
            version: "v1".into(),
            kind: "ConfigMap".into(),
        };
        let costly = rule("Ready", &["[1, 2, 3].all(it, it > 0)"]);
        let mut budget = Budget::new(100, 30);
        let mut status = || one(&costly, &gvk, &json!({}), &mut budget).unwrap().reason;
        assert_eq!(status(), reason::CONDITION_RULE_EVALUATED);
        let spent = (0..5).any(|_| status() == reason::CONDITION_RULE_EXPRESSION_ERROR);
        assert!(spent);
    }
}
