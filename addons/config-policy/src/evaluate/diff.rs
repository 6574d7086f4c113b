//! How an object differs from what is wanted, for people.
//! Upstream: config-policy-controller `generateDiff`, `handleDiff`.

use ocm_addon_sdk::ocm_api::policy::configuration_policy::ObjectTemplate;
use policy_template::kubernetes_yaml_of;
use serde_json::Value;

use super::unified::unified;

/// After so many lines a difference is cut: 50 and its heading.
const LINES_MAX: usize = 53;
/// Lines around a change.
const CONTEXT: usize = 5;

const CENSORED: &str = "# The difference is redacted because it contains sensitive data. To override, the \
    spec[\"object-templates\"][].recordDiff field must be set to \"InStatus\" for the difference to be recorded in the \
    policy status. Consider existing access to the ConfigurationPolicy objects and the etcd encryption configuration \
    before you proceed with an override.";

/// What is done with a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffRecording {
    /// It is in the status.
    Status,
    /// It is logged.
    Log,
    /// Nothing.
    Nowhere,
    /// The status says that it may hold secrets.
    Censored,
}

/// What is done with the differences of an object template. `sensitive`: its templates have read a Secret.
pub fn recording(template: &ObjectTemplate, definition: &Value, sensitive: bool) -> DiffRecording {
    match template.record_diff.as_str() {
        "InStatus" => DiffRecording::Status,
        "Log" => DiffRecording::Log,
        "None" => DiffRecording::Nowhere,
        _ if sensitive || holds_secrets(definition) => DiffRecording::Censored,
        _ => DiffRecording::Status,
    }
}

fn holds_secrets(definition: &Value) -> bool {
    let text = |key: &str| definition[key].as_str().unwrap_or_default();
    let (group, _) = text("apiVersion").split_once('/').unwrap_or_default();
    match text("kind") {
        "ConfigMap" | "Secret" => group.is_empty(),
        "OAuthAccessToken" | "OAuthAuthorizeTokens" => group == "oauth.openshift.io",
        "Route" => group == "route.openshift.io",
        _ => false,
    }
}

/// The text of a difference for the status; empty where there is none.
pub fn recorded(recording: DiffRecording, existing: &Value, updated: &Value, whole: bool) -> String {
    match recording {
        DiffRecording::Nowhere => String::new(),
        DiffRecording::Censored => CENSORED.to_owned(),
        DiffRecording::Status => difference(existing, updated, whole),
        DiffRecording::Log => {
            tracing::info!("Logging the diff:\n{}", difference(existing, updated, whole));
            String::new()
        }
    }
}

/// The unified difference of two objects as YAML.
pub fn difference(existing: &Value, updated: &Value, whole: bool) -> String {
    let metadata = &existing["metadata"];
    let name = metadata["name"].as_str().unwrap_or_default();
    let name = match metadata["namespace"].as_str() {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    };
    let (before, after) = (kubernetes_yaml_of(existing), kubernetes_yaml_of(updated));
    let names = (&*format!("{name} : existing"), &*format!("{name} : updated"));
    let text = unified(&before, &after, names, CONTEXT);
    let lines: Vec<&str> = text.split('\n').collect();
    if lines.len() > LINES_MAX && !whole {
        let shown = lines[..LINES_MAX].join("\n");
        return format!("# Truncated: showing 50/{} diff lines:\n{shown}", lines.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_shown_with_its_surroundings() {
        let object =
            |value: &str| json!({"data": {"a": value, "b": "same"}, "metadata": {"name": "c", "namespace": "ns"}});
        let text = difference(&object("x"), &object("y"), false);
        let expected = "--- ns/c : existing\n+++ ns/c : updated\n@@ -1,7 +1,7 @@\n data:\n-  a: x\n+  a: \"y\"\n   b: same\n \
                        metadata:\n   name: c\n   namespace: ns\n \n";
        assert_eq!(text, expected);
    }

    #[test]
    fn long_differences_are_cut() {
        let list = |from: usize| -> Value { (from..from + 100).map(|it| format!("item {it}")).collect() };
        let text = difference(&json!({"a": list(0)}), &json!({"a": list(1000)}), false);
        assert!(text.starts_with("# Truncated: showing 50/"));
        assert_eq!(text.split('\n').count(), 54);
        assert!(
            difference(&json!({"a": list(0)}), &json!({"a": list(1000)}), true)
                .lines()
                .count()
                > 200
        );
    }

    #[test]
    fn what_may_hold_secrets_is_censored() {
        let template = |diff: &str| ObjectTemplate {
            record_diff: diff.to_owned(),
            ..ObjectTemplate::default()
        };
        let pod = json!({"apiVersion": "v1", "kind": "Pod"});
        let secret = json!({"apiVersion": "v1", "kind": "Secret"});
        let route = json!({"apiVersion": "route.openshift.io/v1", "kind": "Route"});
        assert_eq!(recording(&template(""), &pod, false), DiffRecording::Status);
        assert_eq!(recording(&template(""), &pod, true), DiffRecording::Censored);
        for it in [&secret, &route] {
            assert_eq!(recording(&template(""), it, false), DiffRecording::Censored);
            assert_eq!(recording(&template("InStatus"), it, true), DiffRecording::Status);
            assert!(!recorded(DiffRecording::Censored, it, it, false).contains("kind"));
        }
    }
}
