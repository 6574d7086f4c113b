//! How many pods may be missing at a time.

use super::{
    defaults::{entry, set},
    strategy::{Columns, Strategy},
    validation::{
        changed,
        fields::{FieldRule::*, FieldRules},
        int_or_percent, invalid_shown, not_more_than_all,
        scheduling::label_selector,
    },
};
use crate::table::cells;
use kube_store::status::FieldError;
use serde_json::{Map, Value};

/// PodDisruptionBudget.
pub struct DisruptionBudgets;

impl Strategy for DisruptionBudgets {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Min Available|Max Unavailable|Allowed Disruptions:integer|Age",
            |it, now| {
                let bound = |field: &str| Value::from(cells::int_or_string(cells::at(it, &["spec", field]), "N/A"));
                let allowed = cells::number(it, &["status", "disruptionsAllowed"]).into();
                vec![
                    cells::name(it),
                    bound("minAvailable"),
                    bound("maxUnavailable"),
                    allowed,
                    cells::age(it, now),
                ]
            },
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let status = entry(object, "status");
        for counter in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            set(status, counter, 0);
        }
    }

    fn fields(&self) -> FieldRules {
        &[
            (
                "spec.unhealthyPodEvictionPolicy",
                OneOf(&["AlwaysAllow", "IfHealthyBudget"]),
            ),
            (
                "status.disruptionsAllowed|currentHealthy|desiredHealthy|expectedPods",
                AtLeast(0),
            ),
        ]
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if changed(new, old, "/spec") {
            let spec = &new["spec"];
            let (least, most) = (&spec["minAvailable"], &spec["maxUnavailable"]);
            let policy = &spec["unhealthyPodEvictionPolicy"];
            if !least.is_null() && !most.is_null() {
                let shown = format!(
                    r#"{{"MinAvailable":{least},"Selector":{},"MaxUnavailable":{most},"UnhealthyPodEvictionPolicy":{policy}}}"#,
                    spec["selector"]
                );
                let detail = "minAvailable and maxUnavailable cannot be both set";
                errors.push(invalid_shown("spec", &shown, detail));
            }
            for (field, value) in [("spec.minAvailable", least), ("spec.maxUnavailable", most)] {
                int_or_percent(value, field, errors);
                not_more_than_all(value, field, errors);
            }
            if changed(new, old, "/spec/selector") {
                label_selector(&spec["selector"], "spec.selector", errors);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(new: &Value, old: Option<&Value>) -> Vec<String> {
        let errors = crate::kinds::validate("policy", "PodDisruptionBudget", new, old);
        errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
    }

    #[test]
    fn a_budget_bounds_one_side() {
        let budget = |spec: Value| said(&json!({"spec": spec}), None);
        let selector = json!({"matchLabels": {"a": "b"}});
        let good = json!({"minAvailable": "50%", "selector": selector, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
        assert_eq!(budget(good), Vec::<String>::new());
        assert_eq!(
            budget(json!({"minAvailable": 1, "maxUnavailable": 1, "selector": selector})),
            [
                "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":{\"matchLabels\":{\"a\":\"b\"}},\"MaxUnavailable\":1,\
                 \"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set"
            ]
        );
        assert_eq!(budget(json!({"minAvailable": "half"})).len(), 1);
        assert_eq!(
            budget(json!({"maxUnavailable": "101%", "unhealthyPodEvictionPolicy": "X"})),
            [
                "spec.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
                "spec.unhealthyPodEvictionPolicy: Unsupported value: \"X\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
            ]
        );
        let old = json!({"spec": {"selector": {"matchLabels": {"a b": "c"}}}});
        assert!(said(&old, None)[0].starts_with("spec.selector.matchLabels: Invalid value: \"a b\": name part"));
        // What was stored once may stay.
        let mut new = old.clone();
        new["spec"]["minAvailable"] = json!(1);
        assert_eq!(said(&new, Some(&old)), Vec::<String>::new());
        new["status"] = json!({"currentHealthy": -1});
        assert_eq!(
            said(&new, Some(&old)),
            ["status.currentHealthy: Invalid value: -1: must be greater than or equal to 0"]
        );
    }
}
