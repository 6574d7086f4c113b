//! What runs pods, and where it is to be found.

use super::{
    immutable, label, list,
    resources::{self, Claims},
    scheduling, text,
};
use kube_store::{schema::metadata::validate_labels, status::FieldError};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Errors of a RuntimeClass. An update only keeps its handler: upstream does not look at the rest again.
pub(super) fn runtime_class(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if old.is_some() {
        immutable(new, old, "/handler", "handler", errors);
        return;
    }
    match text(new, "/handler") {
        "" => errors.push(FieldError::required("handler", "")),
        handler => label(handler, "handler", errors),
    }
    let overhead = &new["overhead"];
    if overhead.is_object() {
        // It is checked as the limits of a container, and told so.
        let limits = json!({"limits": overhead["podFixed"]});
        resources::of_container(&limits, &Claims::new(), "overhead", errors);
    }
    let scheduling = &new["scheduling"];
    errors.extend(validate_labels(&scheduling["nodeSelector"], "scheduling.nodeSelector"));
    let tolerations = list(scheduling, "/tolerations");
    scheduling::tolerations(tolerations, "scheduling.tolerations", errors);
    let mut seen = HashSet::new();
    for (at, toleration) in tolerations.iter().enumerate() {
        let key = ["key", "operator", "value", "effect"].map(|it| text(toleration, &format!("/{it}")));
        if !seen.insert(key) {
            let [key, operator, value, effect] = key;
            let seconds = &toleration["tolerationSeconds"];
            errors.push(FieldError {
                reason: "FieldValueDuplicate",
                field: format!("scheduling.tolerations[{at}]"),
                detail: format!(
                    r#"Duplicate value: {{"Key":{key:?},"Operator":{operator:?},"Value":{value:?},"Effect":{effect:?},"TolerationSeconds":{seconds}}}"#
                ),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(new: Value, old: Option<&Value>) -> Vec<String> {
        crate::builtin_validation::said(|it| runtime_class(&new, old, it))
    }

    #[test]
    fn a_runtime_class_says_what_it_takes_and_where() {
        let good = json!({
            "handler": "runsc", "overhead": {"podFixed": {"cpu": "250m", "memory": "1Gi"}},
            "scheduling": {"nodeSelector": {"ex.io/a": "b"}, "tolerations": [{"operator": "Exists"}]},
        });
        assert_eq!(said(good.clone(), None), Vec::<String>::new());
        assert_eq!(said(json!({}), None), ["handler: Required value"]);
        let with = |key: &str, value: Value| {
            let mut class = good.clone();
            class[key] = value;
            class
        };
        assert_eq!(
            said(with("overhead", json!({"podFixed": {"cpu": "-1"}})), None),
            ["overhead.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"]
        );
        assert_eq!(
            said(with("overhead", json!({"podFixed": {"foo": "1"}})), None),
            [
                "overhead.limits[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                "overhead.limits[foo]: Invalid value: \"foo\": must be a standard resource for containers",
            ]
        );
        let bad = with("scheduling", json!({"nodeSelector": {"a b": "c"}}));
        assert!(said(bad.clone(), None)[0].starts_with("scheduling.nodeSelector: Invalid value: \"a b\": name part"));
        // What was stored once may stay.
        assert_eq!(said(bad.clone(), Some(&bad)), Vec::<String>::new());
        assert_eq!(
            said(with("scheduling", json!({"tolerations": [{"operator": "X"}]})), None),
            [
                "scheduling.tolerations[0].operator: Invalid value: \"X\": operator must be Exists when `key` is empty, which means \"match \
                 all values and all keys\"",
                "scheduling.tolerations[0].operator: Unsupported value: \"X\": supported values: \"Equal\", \"Exists\"",
            ]
        );
        let twice = json!({"operator": "Exists"});
        assert_eq!(
            said(with("scheduling", json!({"tolerations": [twice, twice]})), None),
            [
                "scheduling.tolerations[1]: Duplicate value: {\"Key\":\"\",\"Operator\":\"Exists\",\"Value\":\"\",\"Effect\":\"\",\
                 \"TolerationSeconds\":null}"
            ]
        );
    }
}
