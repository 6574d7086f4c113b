//! Whether the status of a policy has what somebody expects of it.
//! Upstream: config-policy-controller `compareStatus`.

use policy_template::{printed, type_name};
use serde_json::{Map, Value};

use super::report::Colors;

/// Compares: the lines that say where they differ, and which do not.
pub fn compare(expected: &Map<String, Value>, actual: &Map<String, Value>, colors: Colors) -> String {
    let mut comparison = StatusComparison {
        out: "# Status compare:\n".to_owned(),
        colors,
    };
    let verdict = match comparison.maps("", expected, actual) {
        true => colors.good(&colors.bold(" Expected status matches the actual status")),
        false => colors.bad(&colors.bold(" Expected status does not match the actual status")),
    };
    comparison.line(&verdict);
    comparison.out
}

struct StatusComparison {
    out: String,
    colors: Colors,
}

/// Whether a path leads into an element of a list, of which nothing is told: every element is tried.
fn is_inside(path: &str) -> bool {
    path.split('.').rev().skip(1).any(|part| {
        let Some((name, index)) = part.split_once('[') else {
            return false;
        };
        let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let index = index.strip_suffix(']').unwrap_or_default();
        name.ends_with(is_word) && !index.is_empty() && index.chars().all(|it| it.is_ascii_digit())
    })
}

impl StatusComparison {
    fn line(&mut self, text: &str) {
        self.out += text;
        self.out.push('\n');
    }

    fn good(&mut self, path: &str, text: &str) {
        if !is_inside(path) {
            self.line(&self.colors.good(text));
        }
    }

    fn bad(&mut self, path: &str, text: &str) {
        if !is_inside(path) {
            self.line(&self.colors.bad(text));
        }
    }

    fn maps(&mut self, parent: &str, expected: &Map<String, Value>, actual: &Map<String, Value>) -> bool {
        let mut matches = true;
        for (key, value) in expected {
            let Some(found) = actual.get(key) else {
                self.bad(parent, &format!("Key '{key}' not found in result at path '{parent}'"));
                matches = false;
                continue;
            };
            let path = format!("{parent}.{key}");
            matches &= match value {
                Value::Array(items) => match found {
                    Value::Array(actual) => self.lists(&path, items, actual),
                    _ => {
                        self.line(&self.colors.doubtful(&format!("skip {key}, {path} is not array,")));
                        false
                    }
                },
                Value::Object(entries) => match found {
                    Value::Object(actual) => self.maps(&path, entries, actual),
                    other => {
                        self.unlike(&path, other);
                        false
                    }
                },
                // Upstream does not go on here.
                Value::Null => {
                    self.unlike(&path, found);
                    true
                }
                scalar => self.scalars(&path, scalar, found),
            };
        }
        matches
    }

    fn unlike(&mut self, path: &str, found: &Value) {
        let is = read_again(found);
        let text = format!("The input status field '{path}' is not the right type - expected '{is}'");
        self.line(&self.colors.bad(&text));
    }

    fn scalars(&mut self, path: &str, expected: &Value, actual: &Value) -> bool {
        let (expected, actual) = (printed(expected), printed(actual));
        let matches = expected == actual;
        self.verdict(path, matches, &expected, &actual);
        matches
    }

    fn verdict(&mut self, path: &str, matches: bool, expected: &str, actual: &str) {
        match matches {
            true => self.good(path, &format!("{path}: '{expected}' does match '{actual}'")),
            false => self.bad(path, &format!("{path}: '{expected}' does not match '{actual}'")),
        }
    }

    fn lists(&mut self, path: &str, expected: &[Value], actual: &[Value]) -> bool {
        if !expected.first().is_some_and(Value::is_object) {
            let text = |items: &[Value]| printed(&Value::Array(items.to_vec()));
            let matches = expected == actual;
            self.verdict(path, matches, &text(expected), &text(actual));
            return matches;
        }
        for (index, item) in expected.iter().enumerate() {
            let of_item = format!("{path}[{index}]");
            let Value::Object(entries) = item else {
                self.line(&self.colors.bad(&format!("failed to parse, skip {path}")));
                continue;
            };
            if !self.any(path, &of_item, entries, actual) {
                self.bad(&of_item, &format!("{of_item} does not match any elements"));
                self.bad(path, &format!("{path} does not match the elements"));
                return false;
            }
            self.good(&of_item, &format!("{of_item} matches"));
        }
        self.good(path, &format!("{path} matches"));
        true
    }

    fn any(&mut self, path: &str, of_item: &str, expected: &Map<String, Value>, actual: &[Value]) -> bool {
        for found in actual {
            let Value::Object(found) = found else {
                self.unlike(path, found);
                continue;
            };
            if self.maps(of_item, expected, found) {
                return true;
            }
        }
        false
    }
}

/// The type of a value that Go has read of its own JSON.
fn read_again(value: &Value) -> &'static str {
    match value {
        Value::Number(_) => "float64",
        other => type_name(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compared(expected: Value, actual: Value) -> String {
        compare(
            expected.as_object().unwrap(),
            actual.as_object().unwrap(),
            Colors::Plain,
        )
    }

    #[test]
    fn a_status_is_compared_by_its_keys_in_order() {
        let actual = json!({"compliant": "Compliant", "n": 1, "deep": {"a": {"b": true}}});
        assert_eq!(
            compared(
                json!({"n": 1, "compliant": "NonCompliant", "x": 1, "deep": {"a": {"b": true}}}),
                actual.clone()
            ),
            "# Status compare:\n.compliant: 'NonCompliant' does not match 'Compliant'\n.deep.a.b: 'true' does match 'true'\n\
             .n: '1' does match '1'\nKey 'x' not found in result at path ''\n Expected status does not match the actual \
             status\n"
        );
        assert_eq!(
            compared(json!({"deep": {"a": "x"}, "n": []}), actual),
            "# Status compare:\n.deep.a: 'x' does not match 'map[b:true]'\nskip n, .n is not array,\n Expected status does \
             not match the actual status\n"
        );
    }

    #[test]
    fn any_element_of_a_list_may_match() {
        let actual = json!({"list": [{"a": 1, "o": {"x": 1}}, {"a": 2, "o": {"x": 2}}]});
        assert_eq!(
            compared(json!({"list": [{"o": {"x": 2}}, {"a": 1}]}), actual.clone()),
            "# Status compare:\n.list[0] matches\n.list[1] matches\n.list matches\n Expected status matches the actual \
             status\n"
        );
        assert_eq!(
            compared(json!({"list": [{"b": 2}]}), actual),
            "# Status compare:\nKey 'b' not found in result at path '.list[0]'\nKey 'b' not found in result at path \
             '.list[0]'\n.list[0] does not match any elements\n.list does not match the elements\n Expected status does not \
             match the actual status\n"
        );
    }
}
