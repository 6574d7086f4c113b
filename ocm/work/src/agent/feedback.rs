//! What of an object's state is reported on the work: well-known fields, or fields named by JSONPath.
//! Upstream: ocm pkg/work/spoke/statusfeedback.

use std::io::{self, Write};

use ocm_api::work::{FeedbackRule, FeedbackRuleType, FeedbackValue, FieldValue, JsonPath};
use serde::Serialize;
use serde_json::Value;

use super::{jsonpath, manifest::Gvk};

/// How values that are neither number, text nor boolean are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RawJson {
    /// They are an error (feature gate `RawFeedbackJsonString` off, the default).
    Refused,
    /// They are reported as JSON text of at most this length.
    UpTo(usize),
}

/// The values that could be read, and what went wrong with the others.
pub fn read(rules: &[FeedbackRule], gvk: &Gvk, object: &Value, raw: RawJson) -> (Vec<FeedbackValue>, Vec<String>) {
    let (mut values, mut errors) = (Vec::<FeedbackValue>::new(), Vec::new());
    for rule in rules {
        let paths = match rule.r#type {
            FeedbackRuleType::JSONPaths => rule.json_paths.clone(),
            FeedbackRuleType::WellKnownStatus => match well_known(gvk) {
                Some(paths) => paths,
                None => {
                    errors.push(format!(
                        "cannot find the wellknown statuses for resource with gvk {gvk}"
                    ));
                    continue;
                }
            },
        };
        for path in &paths {
            match value_at(path, object, raw) {
                // The list is keyed by name, and the first rule that names a value wins.
                Ok(Some(_)) if values.iter().any(|it| it.name == path.name) => {}
                Ok(Some(value)) => values.push(FeedbackValue {
                    name: path.name.clone(),
                    field_value: value,
                }),
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
    }
    (values, errors)
}

fn well_known(gvk: &Gvk) -> Option<Vec<JsonPath>> {
    let paths: &[(&str, &str)] = match (gvk.group.as_str(), gvk.version.as_str(), gvk.kind.as_str()) {
        ("apps", "v1", "Deployment") => &[
            ("ReadyReplicas", ".status.readyReplicas"),
            ("Replicas", ".status.replicas"),
            ("AvailableReplicas", ".status.availableReplicas"),
        ],
        ("apps", "v1", "DaemonSet") => &[
            ("NumberReady", ".status.numberReady"),
            ("DesiredNumberScheduled", ".status.desiredNumberScheduled"),
            ("NumberAvailable", ".status.numberAvailable"),
        ],
        ("batch", "v1", "Job") => &[
            ("JobComplete", r#".status.conditions[?(@.type=="Complete")].status"#),
            ("JobSucceeded", ".status.succeeded"),
        ],
        ("", "v1", "Pod") => &[
            ("PodReady", r#".status.conditions[?(@.type=="Ready")].status"#),
            ("PodPhase", ".status.phase"),
        ],
        _ => return None,
    };
    let path = |(name, path): &(&str, &str)| JsonPath {
        name: (*name).into(),
        path: (*path).into(),
        ..Default::default()
    };
    Some(paths.iter().map(path).collect())
}

fn value_at(path: &JsonPath, object: &Value, raw: RawJson) -> Result<Option<FieldValue>, String> {
    let (_, version) = super::manifest::split_api_version(object["apiVersion"].as_str().unwrap_or_default());
    if !path.version.is_empty() && path.version != version {
        return Err(format!(
            "version set in the path {} is not matched for the related resource",
            path.name
        ));
    }
    let parsed = jsonpath::parse(&path.path).map_err(|error| {
        format!(
            "failed to parse json path {} of {} with error: {error}",
            path.path, path.name
        )
    })?;
    let found = parsed
        .find(object)
        .map_err(|error| format!("failed to find value for {} with error: {error}", path.name))?;
    let value = match (found.as_slice(), raw) {
        ([] | [Value::Null], _) | ([Value::Null, ..], RawJson::Refused) => return Ok(None),
        ([_, _, ..], RawJson::UpTo(length_max)) => return raw_json(path, &found, length_max).map(Some),
        ([first, ..], _) => *first,
    };
    match (value, raw) {
        (Value::String(it), _) => Ok(Some(FieldValue::string(it))),
        (Value::Bool(it), _) => Ok(Some(FieldValue::boolean(*it))),
        (Value::Number(it), _) if it.is_i64() => Ok(Some(FieldValue::integer(it.as_i64().unwrap_or_default()))),
        (other, RawJson::Refused) => {
            let name = &path.name;
            Err(format!(
                "the type {} of the value for {name} is not found",
                go_type(other)
            ))
        }
        (other, RawJson::UpTo(length_max)) => raw_json(path, other, length_max).map(Some),
    }
}

/// Values as JSON text. It is not made longer than it may be: a path may find a large object many times.
fn raw_json(path: &JsonPath, value: &impl Serialize, length_max: usize) -> Result<FieldValue, String> {
    let mut text = UpTo(length_max, Vec::new());
    let written = serde_json::to_writer(&mut text, value).ok();
    let text = written.and_then(|()| String::from_utf8(text.1).ok());
    text.map(FieldValue::json_raw).ok_or_else(|| {
        let name = &path.name;
        format!("the length of returned json raw string for name {name} is larger than the maximum length {length_max}")
    })
}

/// Bytes that take no more than so many.
struct UpTo(usize, Vec<u8>);

impl Write for UpTo {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 - self.1.len() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.1.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(it) if it.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn show(rules: &[FeedbackRule], raw: RawJson) -> String {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 3, "paused": false, "ratio": 0.5},
            "status": {"readyReplicas": 2, "replicas": 3, "conditions": [{"type": "A"}, {"type": "B"}]}
        });
        let gvk = Gvk {
            group: "apps".into(),
            version: "v1".into(),
            kind: "Deployment".into(),
        };
        let (values, errors) = read(rules, &gvk, &deployment, raw);
        format!("{} {errors:?}", serde_json::to_string(&values).unwrap())
    }

    fn paths(paths: &[(&str, &str)]) -> Vec<FeedbackRule> {
        let path = |(name, path): &(&str, &str)| JsonPath {
            name: (*name).into(),
            path: (*path).into(),
            ..Default::default()
        };
        vec![FeedbackRule {
            r#type: FeedbackRuleType::JSONPaths,
            json_paths: paths.iter().map(path).collect(),
        }]
    }

    #[test]
    fn well_known_fields_that_are_there_are_reported() {
        let rules = [FeedbackRule {
            r#type: FeedbackRuleType::WellKnownStatus,
            json_paths: vec![],
        }];
        assert_eq!(
            show(&rules, RawJson::Refused),
            r#"[{"name":"ReadyReplicas","fieldValue":{"type":"Integer","integer":2}},{"name":"Replicas","fieldValue":{"type":"Integer","integer":3}}] []"#
        );
        let gvk = Gvk {
            group: "x".into(),
            version: "v1".into(),
            kind: "Y".into(),
        };
        assert_eq!(
            read(&rules, &gvk, &json!({}), RawJson::Refused).1,
            ["cannot find the wellknown statuses for resource with gvk x/v1, Kind=Y"]
        );
    }

    #[test]
    fn only_texts_whole_numbers_and_booleans_have_a_type() {
        assert_eq!(
            show(
                &paths(&[
                    ("p", ".spec.paused"),
                    ("t", ".status.conditions[0].type"),
                    ("n", ".absent")
                ]),
                RawJson::Refused
            ),
            r#"[{"name":"p","fieldValue":{"type":"Boolean","boolean":false}},{"name":"t","fieldValue":{"type":"String","string":"A"}}] []"#
        );
        assert_eq!(
            show(&paths(&[("r", ".spec.ratio"), ("s", ".spec")]), RawJson::Refused),
            r#"[] ["the type float64 of the value for r is not found", "the type map[string]interface {} of the value for s is not found"]"#
        );
    }

    #[test]
    fn raw_json_is_reported_up_to_its_length() {
        assert_eq!(
            show(
                &paths(&[("c", ".status.conditions[*].type"), ("r", ".spec.ratio")]),
                RawJson::UpTo(9)
            ),
            r#"[{"name":"c","fieldValue":{"type":"JsonRaw","jsonRaw":"[\"A\",\"B\"]"}},{"name":"r","fieldValue":{"type":"JsonRaw","jsonRaw":"0.5"}}] []"#
        );
        assert!(
            show(&paths(&[("s", ".spec")]), RawJson::UpTo(9))
                .contains("the length of returned json raw string for name s is larger than the maximum length 9")
        );
    }

    #[test]
    fn a_first_null_result_is_allowed_when_all_are_reported() {
        let object = json!({"items": [{"a": null}, {"a": 1}]});
        let several = |raw| {
            let (values, _) = read(&paths(&[("a", ".items[*].a")]), &Gvk::default(), &object, raw);
            serde_json::to_string(&values).unwrap()
        };
        assert_eq!(
            several(RawJson::UpTo(99)),
            r#"[{"name":"a","fieldValue":{"type":"JsonRaw","jsonRaw":"[null,1]"}}]"#
        );
        assert_eq!(several(RawJson::Refused), "[]");
    }

    #[test]
    fn a_path_without_a_value_differs_from_an_invalid_path() {
        let said = |path| show(&paths(&[("n", path)]), RawJson::Refused);
        assert!(
            said(".status.conditions[7].type").contains("failed to find value for n with error: "),
            "{}",
            said(".status.conditions[7].type")
        );
        assert!(said(".status[").contains("failed to parse json path .status[ of n with error: "));
    }

    #[test]
    fn a_large_object_found_often_is_not_serialized_each_time() {
        let object = json!({"apiVersion": "v1", "list": vec![0; 10_000], "text": "x".repeat(1_000_000)});
        let again = JsonPath {
            name: "all".into(),
            path: ".list[*]$".into(),
            ..Default::default()
        };
        let error = value_at(&again, &object, RawJson::UpTo(1024)).unwrap_err();
        assert!(
            error.ends_with("for name all is larger than the maximum length 1024"),
            "{error}"
        );
    }

    #[test]
    fn a_path_for_another_version_is_an_error() {
        let mut rules = paths(&[("n", ".spec.replicas")]);
        rules[0].json_paths[0].version = "v1beta1".into();
        assert!(
            show(&rules, RawJson::Refused)
                .contains("version set in the path n is not matched for the related resource")
        );
    }
}
