//! `{{NAME}}` in the manifests of a template.
//!
//! Upstream (ocm pkg/addon/templateagent/values.go) replaces text in the raw JSON: an unknown name becomes empty, a
//! value with a quote breaks the manifest or adds to it, and what another tool means by double curly brackets is
//! erased. Here only the texts inside a manifest are touched, values are never read as JSON,
//! and an unknown name is an error.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// Variables by name.
pub type Variables = BTreeMap<String, String>;

/// Replaces the variables in every text of a manifest, keys of maps included. The names
/// that nobody knows go to `unknown`.
///
/// A variable is `{{NAME}}` with a name of letters, digits and underscores. Written with spaces, `{{ NAME }}`, it is
/// one only if the name is known; everything else between double curly brackets stays as it is,
/// for the tools whose language it is.
pub fn substitute(manifest: &mut Value, variables: &Variables, unknown: &mut BTreeSet<String>) {
    match manifest {
        Value::String(text) => {
            if let Some(replaced) = replaced(text, variables, unknown) {
                *text = replaced;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|it| substitute(it, variables, unknown)),
        Value::Object(map) => {
            if map.keys().any(|key| key.contains("{{")) {
                let renamed = std::mem::take(map).into_iter().map(|(key, value)| {
                    let name = replaced(&key, variables, unknown).unwrap_or(key);
                    (name, value)
                });
                *map = renamed.collect::<Map<_, _>>();
            }
            map.values_mut().for_each(|it| substitute(it, variables, unknown));
        }
        _ => {}
    }
}

/// The text with its variables replaced; `None` when it holds nothing like one. A value is not looked at again.
fn replaced(text: &str, variables: &Variables, unknown: &mut BTreeSet<String>) -> Option<String> {
    let mut rest = text;
    let mut result = None;
    while let Some((before, name, after)) = innermost(rest) {
        let result = result.get_or_insert_with(|| String::with_capacity(text.len()));
        let value = match variables.get(name.trim()) {
            Some(value) => Some(value.as_str()),
            None if is_name(name) => {
                unknown.insert(name.to_owned());
                Some("")
            }
            None => None,
        };
        match value {
            Some(value) => {
                result.push_str(before);
                result.push_str(value);
            }
            // Not ours.
            None => result.push_str(&rest[..rest.len() - after.len()]),
        }
        rest = after;
    }
    result.map(|it| it + rest)
}

/// What stands between the first closing brackets and the last opening ones before them, and the text around both: as
/// no name holds a bracket, nothing else before can be a variable. So a text is read once,
/// however many brackets it has.
fn innermost(text: &str) -> Option<(&str, &str, &str)> {
    let first = text.find("{{")?;
    let end = first + 2 + text[first + 2..].find("}}")?;
    let start = first + text[first..end].rfind("{{")?;
    Some((&text[..start], &text[start + 2..end], &text[end + 2..]))
}

/// What an AddOnDeploymentConfig can name a variable.
fn is_name(text: &str) -> bool {
    let letter = |it: char| it.is_ascii_alphabetic() || it == '_';
    text.starts_with(letter) && text.chars().all(|it| letter(it) || it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn after(text: &str) -> (String, Vec<String>) {
        let variables = Variables::from([
            ("CLUSTER_NAME".to_owned(), "cluster1".to_owned()),
            ("TRICKY".to_owned(), "\", \"admin\": \"{{CLUSTER_NAME}}\\n".to_owned()),
        ]);
        let (mut value, mut unknown) = (Value::from(text), BTreeSet::new());
        substitute(&mut value, &variables, &mut unknown);
        (value.as_str().unwrap().to_owned(), unknown.into_iter().collect())
    }

    #[test]
    fn names_are_replaced_wherever_they_stand() {
        assert_eq!(
            after("--cluster={{CLUSTER_NAME}}/{{CLUSTER_NAME}}.").0,
            "--cluster=cluster1/cluster1."
        );
        assert_eq!(after("{{ CLUSTER_NAME }}").0, "cluster1");
        assert_eq!(after("{{{CLUSTER_NAME}}}").0, "{cluster1}");
        assert_eq!(after("é{{CLUSTER_NAME}}é").0, "écluster1é");
    }

    #[test]
    fn a_value_is_text_whatever_it_looks_like() {
        assert_eq!(after("{{TRICKY}}").0, "\", \"admin\": \"{{CLUSTER_NAME}}\\n");
    }

    #[test]
    fn a_name_that_nobody_knows_is_reported() {
        assert_eq!(after("{{CLUSTER}} {{_a1}} {{CLUSTER_NAME}}").1, ["CLUSTER", "_a1"]);
    }

    #[test]
    fn what_other_tools_mean_by_brackets_stays() {
        let texts = [
            "{{ $labels.instance }}",
            "{{workflow.name}}",
            "{{ range .Items }}{{ end }}",
            "{{ instance }}",
            "{{}}",
            "{{",
            "}}{{",
            "{{1a}}",
            "{{{{ x }}",
            "{{a b}}}",
            "{{ {{ }} }}",
        ];
        for text in texts {
            assert_eq!(after(text), (text.to_owned(), vec![]));
        }
    }

    #[test]
    fn brackets_without_end_are_read_once() {
        let many = 1_000_000;
        for text in [
            "{".repeat(many),
            "{".repeat(many) + "}}",
            "{".repeat(many) + &" ".repeat(many) + "}}",
        ] {
            assert!(after(&text) == (text, vec![]));
        }
        assert_eq!(after("{{ {{CLUSTER_NAME}} {{").0, "{{ cluster1 {{");
        assert_eq!(after("{{a-b}}}} {{CLUSTER_NAME}}").0, "{{a-b}}}} cluster1");
    }

    #[test]
    fn keys_are_texts_too_and_numbers_are_not() {
        let mut manifest = json!({"data": {"{{CLUSTER_NAME}}.yaml": ["{{CLUSTER_NAME}}", 1, true, null]}});
        let variables = Variables::from([("CLUSTER_NAME".to_owned(), "cluster1".to_owned())]);
        substitute(&mut manifest, &variables, &mut BTreeSet::new());
        assert_eq!(
            manifest,
            json!({"data": {"cluster1.yaml": ["cluster1", 1, true, null]}})
        );
    }
}
