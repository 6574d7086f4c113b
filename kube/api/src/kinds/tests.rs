//! What kinds are given, told and warned of, in the words of kube-apiserver: `tests` has objects as clients send them,
//! by what they show.

use super::{default, validate, warnings};
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// `group/Kind`, or a `Kind` of the core group.
    kind: String,
    new: Value,
    /// The stored object, if it is an update.
    old: Option<Value>,
    #[serde(default)]
    said: Vec<String>,
    /// What is where afterwards, by JSON pointers; what is `null` may be absent.
    #[serde(default)]
    wanted: BTreeMap<String, Value>,
}

fn each(cases: &str, check: impl Fn(&str, (&str, &str), Case)) {
    let all: BTreeMap<String, Vec<Case>> = serde_json::from_str(cases).expect("cases");
    assert!(!all.is_empty());
    for (about, cases) in all {
        assert!(!cases.is_empty(), "{about}");
        for it in cases {
            let name = it.kind.clone();
            check(&about, name.split_once('/').unwrap_or(("", &name)), it);
        }
    }
}

#[test]
fn every_case_is_given_its_defaults_once() {
    each(include_str!("tests/defaults.json"), |about, (group, kind), it| {
        assert!(!it.wanted.is_empty(), "{about}: {}", it.new);
        let mut found = it.new.clone();
        default(group, kind, &mut found);
        let once = found.clone();
        default(group, kind, &mut found);
        assert_eq!(found, once, "{about}: defaults of {kind} are idempotent");
        for (pointer, wanted) in &it.wanted {
            let found = found.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, wanted, "{about}: {pointer} of {}", it.new);
        }
    });
}

#[test]
fn every_invalid_case_has_its_exact_error() {
    each(include_str!("tests/cases.json"), |about, (group, kind), it| {
        let defaulted = |object: &Value| {
            let mut object = object.clone();
            default(group, kind, &mut object);
            object
        };
        let errors = validate(
            group,
            kind,
            &defaulted(&it.new),
            it.old.as_ref().map(defaulted).as_ref(),
        );
        let said: Vec<String> = errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect();
        assert_eq!(said, it.said, "{about}: {}", it.new);
    });
}

#[test]
fn every_case_gets_its_warnings() {
    each(include_str!("tests/warnings.json"), |about, (group, kind), it| {
        let said = warnings(group, kind, &it.new, it.old.as_ref());
        assert_eq!(said, it.said, "{about}: {}", it.new);
    });
}

#[test]
fn an_oversized_config_map_gets_one_error_without_a_field() {
    let errors = validate("", "ConfigMap", &json!({"data": {"a": "x".repeat(1_048_577)}}), None);
    assert_eq!((errors.len(), errors[0].field.as_str()), (1, "[]"));
    assert_eq!(errors[0].detail, "Too long: may not be more than 1048576 bytes");
}

#[test]
fn every_defaulted_kind_still_decodes_and_stays_the_same() {
    for (group, version, kind) in crate::builtin_schemas::kinds().filter(|it| it.2 != "DeleteOptions") {
        let schema = crate::builtin_schemas::schema(group, version, kind).expect("listed");
        let api_version = crate::group_version::api_version(group, version);
        let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}});
        default(group, kind, &mut value);
        let mut again = value.clone();
        let unknown = kube_store::schema::decode::decode(&mut again, &schema, kind);
        assert_eq!(unknown, Ok(vec![]), "{kind}: {value}");
        default(group, kind, &mut again);
        assert_eq!(again, value, "{kind}");
    }
}
