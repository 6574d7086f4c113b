//! The policy of a dry run, out of a file: a ConfigurationPolicy, or the first one of a Policy.
//! Upstream: config-policy-controller `readPolicy`.

use std::{fs::File, io::Read, path::Path};

use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference,
    ocm_api::policy::configuration_policy::{ConfigurationPolicy, EvaluationInterval},
};
use policy_template::{read_kubernetes_yaml, type_name};
use serde_json::Value;

use super::go;
use crate::evaluate::go_types;

const API_VERSION: &str = "policy.open-cluster-management.io/v1";
/// What owns the policy; compliance is told to it.
const PARENT: &str = "cfgpol-dryrun-parent";
/// A policy that waits for a time reads objects anew.
const INTERVAL: &str = "10s";

/// A policy, and how many others are in the same file.
#[derive(Debug)]
pub struct PolicyFile {
    /// The policy, which only informs.
    pub policy: ConfigurationPolicy,
    /// ConfigurationPolicies of the same Policy that are not looked at.
    pub ignored: usize,
}

/// Reads the policy of a file.
///
/// # Errors
/// When there is none, in the words of upstream.
pub fn read(path: &Path) -> Result<PolicyFile, String> {
    let text = bytes(path)?;
    let text = String::from_utf8(text)
        .map_err(|_| "error converting YAML to JSON: yaml: invalid leading UTF-8 octet".to_owned())?;
    parse(&text)
}

fn bytes(path: &Path) -> Result<Vec<u8>, String> {
    let at = path.display();
    let mut file = File::open(path).map_err(|error| format!("open {at}: {}", go::of_system(&error)))?;
    let mut bytes = Vec::new();
    match file.read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(format!("read {at}: {}", go::of_system(&error))),
    }
}

fn parse(text: &str) -> Result<PolicyFile, String> {
    // What follows the first document is not looked at.
    let first = go::first_document(text);
    let document = read_kubernetes_yaml(first).map_err(|why| format!("error converting YAML to JSON: {why}"))?;
    if !matches!(document, Value::Object(_) | Value::Null) {
        let name = go_types::json_name(&document);
        return Err(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {name} into Go value of type \
             map[string]interface {{}}"
        ));
    }
    let text = |field: &str| document[field].as_str().unwrap_or_default().to_owned();
    let api_version = text("apiVersion");
    if api_version != API_VERSION {
        return Err(format!(
            "unsupported apiVersion: {api_version}, the input policy must be '{API_VERSION}'"
        ));
    }
    match text("kind").as_str() {
        "ConfigurationPolicy" => {
            let read = decode(&document);
            let policy = read.map_err(|why| format!("could not unmarshal input to a ConfigurationPolicy: {why}"))?;
            Ok(PolicyFile { policy, ignored: 0 })
        }
        "Policy" => of_policy(&document).map_err(|why| match why {
            Refusal::Policy(why) => format!("invalid input Policy: {why}"),
            Refusal::Template(why) => why,
        }),
        other => Err(format!(
            "unsupported input kind: {other}, must be 'Policy' or 'ConfigurationPolicy'"
        )),
    }
}

enum Refusal {
    /// The Policy is at fault.
    Policy(String),
    /// One of its templates is.
    Template(String),
}

fn of_policy(policy: &Value) -> Result<PolicyFile, Refusal> {
    let mut field = policy;
    let mut path = String::new();
    for name in ["spec", "policy-templates"] {
        if field.is_null() {
            return Err(Refusal::Policy("no policy-templates found".to_owned()));
        }
        let Some(entries) = field.as_object() else {
            return Err(unlike(&path, field, "map[string]interface{}"));
        };
        path = format!("{path}.{name}");
        let Some(value) = entries.get(name) else {
            return Err(Refusal::Policy("no policy-templates found".to_owned()));
        };
        field = value;
    }
    let Some(templates) = field.as_array() else {
        return Err(unlike(&path, field, "[]interface{}"));
    };
    let mut found: Option<ConfigurationPolicy> = None;
    let mut ignored = 0;
    for (index, template) in templates.iter().enumerate() {
        let definition = &template["objectDefinition"];
        if definition["kind"] != "ConfigurationPolicy" {
            continue;
        }
        if found.is_some() {
            ignored += 1;
            continue;
        }
        let policy = decode(definition).map_err(|why| {
            Refusal::Template(format!(
                "could not unmarshal input policy template [{index}] to a ConfigurationPolicy: {why}"
            ))
        })?;
        found = Some(policy);
    }
    match found {
        Some(policy) => Ok(PolicyFile { policy, ignored }),
        None => Err(Refusal::Policy("it must contain a ConfigurationPolicy".to_owned())),
    }
}

fn unlike(path: &str, value: &Value, wanted: &str) -> Refusal {
    // Go has read it without knowing about whole numbers.
    let is = match value {
        Value::Number(_) => "float64",
        other => type_name(other),
    };
    let value = policy_template::printed(value);
    Refusal::Policy(format!(
        "{path} accessor error: {value} is of the type {is}, expected {wanted}"
    ))
}

fn decode(document: &Value) -> Result<ConfigurationPolicy, String> {
    let whole = |why: String| format!("error unmarshaling JSON: while decoding JSON: {why}");
    let document = go_types::policy(document).map_err(whole)?;
    let mut policy: ConfigurationPolicy = serde_json::from_value(document).map_err(|why| whole(why.to_string()))?;
    // As upstream, which writes the policy before it reads it again: what is empty is left out.
    let selector = &mut policy.spec.namespace_selector;
    selector.match_labels = selector.match_labels.take().filter(|it| !it.is_empty());
    selector.match_expressions = selector.match_expressions.take().filter(|it| !it.is_empty());
    policy.spec.remediation_action = "Inform".to_owned();
    policy.spec.evaluation_interval = EvaluationInterval {
        compliant: INTERVAL.to_owned(),
        noncompliant: INTERVAL.to_owned(),
    };
    policy.metadata.owner_references = Some(vec![OwnerReference {
        name: PARENT.to_owned(),
        ..OwnerReference::default()
    }]);
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: policy.open-cluster-management.io/v1\nkind: ";

    fn refused(text: &str) -> String {
        parse(text).unwrap_err()
    }

    #[test]
    fn a_policy_only_informs() {
        let text = format!("{HEAD}ConfigurationPolicy\nmetadata: {{name: p}}\nspec: {{remediationAction: enforce}}\n");
        let read = parse(&text).unwrap();
        assert_eq!(read.policy.spec.remediation_action, "Inform");
        assert_eq!(read.policy.spec.evaluation_interval.compliant, "10s");
        assert_eq!(read.ignored, 0);
    }

    #[test]
    fn the_first_policy_of_a_policy_is_taken() {
        let template = |name: &str| {
            format!("  - objectDefinition: {{kind: ConfigurationPolicy, metadata: {{name: {name}}}, spec: {{}}}}\n")
        };
        let text = format!(
            "{HEAD}Policy\nspec:\n  policy-templates:\n  - {{}}\n{}{}",
            template("a"),
            template("b")
        );
        let read = parse(&text).unwrap();
        assert_eq!((read.policy.metadata.name.as_deref(), read.ignored), (Some("a"), 1));
    }

    #[test]
    fn what_is_no_policy_is_refused() {
        assert_eq!(
            refused("apiVersion: v1"),
            "unsupported apiVersion: v1, the input policy must be 'policy.open-cluster-management.io/v1'"
        );
        assert_eq!(
            refused(&format!("{HEAD}Foo")),
            "unsupported input kind: Foo, must be 'Policy' or 'ConfigurationPolicy'"
        );
        assert!(refused("- a").ends_with("json: cannot unmarshal array into Go value of type map[string]interface {}"));
        let policy = |spec: &str| refused(&format!("{HEAD}Policy\nspec: {spec}"));
        assert_eq!(policy("{}"), "invalid input Policy: no policy-templates found");
        assert_eq!(
            policy("{policy-templates: 5}"),
            "invalid input Policy: .spec.policy-templates accessor error: 5 is of the type float64, expected []interface{}"
        );
        assert_eq!(
            policy("{policy-templates: []}"),
            "invalid input Policy: it must contain a ConfigurationPolicy"
        );
        assert_eq!(
            policy("{policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, foo: 1}}]}"),
            "could not unmarshal input policy template [0] to a ConfigurationPolicy: error unmarshaling JSON: while \
             decoding JSON: json: unknown field \"foo\""
        );
    }
}
