//! What kinds are told, in the words of kube-apiserver: `cases.json` has objects as clients send them, by what they show.

use crate::kinds::{self, validate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(serde::Deserialize)]
struct Case {
    /// `group/Kind`, or a `Kind` of the core group.
    kind: String,
    new: Value,
    /// The stored object, if it is an update.
    old: Option<Value>,
    #[serde(default)]
    said: Vec<String>,
}

#[test]
fn every_case_is_told_what_is_wrong_with_it() {
    let all: BTreeMap<String, Vec<Case>> = serde_json::from_str(include_str!("cases.json")).expect("cases");
    for (about, case) in all
        .iter()
        .flat_map(|(about, cases)| cases.iter().map(move |it| (about, it)))
    {
        let (group, kind) = case.kind.split_once('/').unwrap_or(("", &case.kind));
        let defaulted = |object: &Value| {
            let mut object = object.clone();
            kinds::default(group, kind, &mut object);
            object
        };
        let (new, old) = (defaulted(&case.new), case.old.as_ref().map(defaulted));
        let errors = validate(group, kind, &new, old.as_ref());
        let said: Vec<String> = errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect();
        assert_eq!(said, case.said, "{about}: {}", case.new);
    }
}

#[test]
fn a_config_map_that_is_too_large_is_told_of_all_of_it() {
    let errors = validate("", "ConfigMap", &json!({"data": {"a": "x".repeat(1_048_577)}}), None);
    assert_eq!((errors.len(), errors[0].field.as_str()), (1, "[]"));
    assert_eq!(errors[0].detail, "Too long: may not be more than 1048576 bytes");
}
