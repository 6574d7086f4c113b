//! Selectors as kubectl takes them: `env=prod`, `zone in (a,b)`, `!old`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;

use crate::selector::Selector;

/// Reads a selector; an empty text selects everything.
///
/// # Errors
/// When it is none.
pub fn read(text: &str) -> Result<Selector, String> {
    if text.trim().is_empty() {
        return Ok(Selector::default());
    }
    Selector::of_expressions(&parse(text)?)
}

/// The requirements of a selector, as `matchExpressions` has them.
///
/// # Errors
/// When it is none.
pub fn parse(text: &str) -> Result<Vec<LabelSelectorRequirement>, String> {
    let mut parts = vec![String::new()];
    let mut open = false;
    for letter in text.chars() {
        open = (open || letter == '(') && letter != ')';
        match parts.last_mut() {
            Some(last) if letter != ',' || open => last.push(letter),
            _ => parts.push(String::new()),
        }
    }
    parts.iter().map(|it| requirement(it.trim())).collect()
}

fn requirement(text: &str) -> Result<LabelSelectorRequirement, String> {
    let made = |key: &str, operator: &str, values: &[&str]| {
        let key = key.trim();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(format!(
                "{text:?} is no selector: write KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY notin (A,B), KEY or !KEY"
            ));
        }
        Ok(LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values: (!values.is_empty()).then(|| values.iter().map(|it| (*it).to_owned()).collect()),
        })
    };
    for (word, operator) in [(" notin ", "NotIn"), (" in ", "In")] {
        if let Some((key, list)) = text.split_once(word) {
            let list = list.trim().strip_prefix('(').and_then(|it| it.strip_suffix(')'));
            let list = list.ok_or_else(|| format!("{text:?} is no selector: the values stand in brackets"))?;
            let values: Vec<&str> = list.split(',').map(str::trim).collect();
            return made(key, operator, &values);
        }
    }
    if let Some((key, value)) = text.split_once("!=") {
        return made(key, "NotIn", &[value.trim()]);
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return made(key, "In", &[value.trim()]);
    }
    match text.strip_prefix('!') {
        Some(key) => made(key, "DoesNotExist", &[]),
        None => made(text, "Exists", &[]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_are_written_as_for_kubectl() {
        assert_eq!(
            json!(parse("env=prod,zone in (a, b),!old,gpu,tier!=x,size notin (s)").unwrap()),
            json!([
                {"key": "env", "operator": "In", "values": ["prod"]},
                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
                {"key": "gpu", "operator": "Exists"},
                {"key": "tier", "operator": "NotIn", "values": ["x"]},
                {"key": "size", "operator": "NotIn", "values": ["s"]},
            ])
        );
        for wrong in ["", "a b", "=x", "zone in a", "env=prod,"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
