//! Label selectors, read once and asked often. Claims are asked with them too.
//! Upstream: apimachinery `labels.Selector`: what it refuses, we refuse.
//!
//! ```
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
//! use ocm_api::selector::Selector;
//!
//! let prod = LabelSelector { match_labels: Some([("env".into(), "prod".into())].into()), ..Default::default() };
//! let prod = Selector::of(&prod).unwrap();
//! assert!(prod.matches(|key| (key == "env").then_some("prod")));
//! assert!(!prod.matches(|_| None));
//! ```

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// A selector that was read. Without requirements it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Reads a label selector.
    pub fn of(selector: &LabelSelector) -> Result<Self, String> {
        let labels = selector.match_labels.iter().flatten().map(|(key, value)| Requirement {
            key: key.clone(),
            operator: Operator::In,
            values: vec![value.clone()],
        });
        let mut requirements: Vec<_> = labels.collect();
        let expressions = selector.match_expressions.iter().flatten();
        requirements.extend(Self::of_expressions(expressions)?.requirements);
        requirements.iter().try_for_each(Requirement::check)?;
        Ok(Self { requirements })
    }

    /// Reads requirements alone, as claims have them.
    pub fn of_expressions<'a>(
        expressions: impl IntoIterator<Item = &'a LabelSelectorRequirement>,
    ) -> Result<Self, String> {
        let requirements = expressions
            .into_iter()
            .map(|it| {
                let operator = match it.operator.as_str() {
                    "In" => Operator::In,
                    "NotIn" => Operator::NotIn,
                    "Exists" => Operator::Exists,
                    "DoesNotExist" => Operator::DoesNotExist,
                    other => return Err(format!("{other:?} is not a valid label selector operator")),
                };
                let requirement = Requirement {
                    key: it.key.clone(),
                    operator,
                    values: it.values.clone().unwrap_or_default(),
                };
                requirement.check()?;
                Ok(requirement)
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { requirements })
    }

    /// Whether all requirements hold of what `value` finds.
    pub fn matches<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.unmet(value).is_none()
    }

    /// The first requirement that does not hold.
    pub fn unmet<'v>(&self, value: impl Fn(&str) -> Option<&'v str>) -> Option<&Requirement> {
        self.requirements.iter().find(|it| !it.holds(value(&it.key)))
    }

    /// The keys that must be there with one of these values.
    pub fn listed(&self) -> impl Iterator<Item = (&str, &[String])> {
        let listed = self.requirements.iter().filter(|it| it.operator == Operator::In);
        listed.map(|it| (it.key.as_str(), it.values.as_slice()))
    }

    /// The keys it asks for.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|it| it.key.as_str())
    }
}

impl Requirement {
    /// What it asks for.
    pub fn key(&self) -> &str {
        &self.key
    }

    fn holds(&self, value: Option<&str>) -> bool {
        let listed = || value.is_some_and(|value| self.values.iter().any(|it| it == value));
        match self.operator {
            Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }

    fn check(&self) -> Result<(), String> {
        if !is_qualified_name(&self.key) {
            return Err(format!(
                "key: Invalid value: {:?}: name part must consist of alphanumeric characters, '-', '_' or '.', and must \
                 start and end with an alphanumeric character",
                self.key
            ));
        }
        match self.operator {
            Operator::In | Operator::NotIn if self.values.is_empty() => {
                Err("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty".to_owned())
            }
            Operator::Exists | Operator::DoesNotExist if !self.values.is_empty() => Err(format!(
                "values: Invalid value: {:?}: values set must be empty for exists and does not exist",
                self.values
            )),
            _ => match self.values.iter().position(|it| !is_label_value(it)) {
                Some(bad) => Err(format!(
                    "values[{bad}][{}]: Invalid value: {:?}: a valid label must be an empty string or at most 63 \
                     alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                    self.key, self.values[bad]
                )),
                None => Ok(()),
            },
        }
    }
}

/// As kubectl prints requirements.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, values, .. } = self;
        match self.operator {
            Operator::In if values.len() == 1 => write!(f, "{key}={}", values[0]),
            Operator::In => write!(f, "{key} in ({})", values.join(",")),
            Operator::NotIn => write!(f, "{key} notin ({})", values.join(",")),
            Operator::Exists => write!(f, "{key} exists"),
            Operator::DoesNotExist => write!(f, "{key} does not exist"),
        }
    }
}

/// As kubectl prints selectors; nothing for the one that matches everything.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<_> = self.requirements.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(","))
    }
}

fn is_qualified_name(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let is_subdomain = |it: &str| {
        it.len() <= 253
            && it.split('.').all(|part| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-')
                    && !part.starts_with('-')
                    && !part.ends_with('-')
            })
    };
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

fn is_label_value(text: &str) -> bool {
    let ends_well = |it: Option<u8>| it.is_none_or(|it| it.is_ascii_alphanumeric());
    let bytes = text.as_bytes();
    text.len() <= 63
        && ends_well(bytes.first().copied())
        && ends_well(bytes.last().copied())
        && bytes
            .iter()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn check(selector: serde_json::Value, labels: &[(&str, &str)]) -> Result<Option<String>, String> {
        let selector = Selector::of(&serde_json::from_value(selector).unwrap())?;
        let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
        Ok(selector.unmet(|key| labels.get(key).copied()).map(ToString::to_string))
    }

    #[test]
    fn requirements_hold_as_in_kubernetes() {
        let expression = |operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": "env", "operator": operator, "values": values}]});
        let prod = [("env", "prod")];
        assert_eq!(check(json!({}), &[]), Ok(None));
        assert_eq!(check(json!({"matchLabels": {"env": "prod"}}), &prod), Ok(None));
        assert_eq!(
            check(json!({"matchLabels": {"env": "prod"}}), &[]),
            Ok(Some("env=prod".into()))
        );
        assert_eq!(
            check(expression("In", &["a", "b"]), &prod),
            Ok(Some("env in (a,b)".into()))
        );
        assert_eq!(check(expression("NotIn", &["a"]), &[]), Ok(None));
        assert_eq!(
            check(expression("NotIn", &["prod"]), &prod),
            Ok(Some("env notin (prod)".into()))
        );
        assert_eq!(check(expression("Exists", &[]), &[]), Ok(Some("env exists".into())));
        assert_eq!(
            check(expression("DoesNotExist", &[]), &prod),
            Ok(Some("env does not exist".into()))
        );
    }

    #[test]
    fn what_kubernetes_refuses_is_refused() {
        let expression = |key: &str, operator: &str, values: &[&str]| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        for (selector, text) in [
            (
                expression("env", "Gt", &["1"]),
                "\"Gt\" is not a valid label selector operator",
            ),
            (expression("env", "In", &[]), "values set can't be empty"),
            (expression("env", "Exists", &["a"]), "values set must be empty"),
            (expression("", "Exists", &[]), "key: Invalid value: \"\""),
            (expression("A.b/env/x", "Exists", &[]), "key: Invalid value"),
            (expression("UPPER.io/env", "Exists", &[]), "key: Invalid value"),
            (
                expression("env", "In", &["-a"]),
                "values[0][env]: Invalid value: \"-a\"",
            ),
            (json!({"matchLabels": {"env": "a b"}}), "values[0][env]"),
        ] {
            let refused = check(selector.clone(), &[]).unwrap_err();
            assert!(refused.contains(text), "{selector}: {refused}");
        }
    }
}
