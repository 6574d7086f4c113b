use super::*;
use serde_json::json;

/// Errors of `spec.v` when its schema is `node`, printed as in the message of a 422.
fn check(node: Value, value: Value) -> Vec<String> {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"v": node}}}});
    let schema = Schema::from_openapi(&schema).expect("parses");
    let errors = validate(&json!({"spec": {"v": value}}), None, &schema);
    errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect()
}

#[test]
fn invalid_values_are_refused_with_kubernetes_message() {
    let table = [
        (
            json!({"type": "integer"}),
            json!("x"),
            r#"spec.v: Invalid value: "string": spec.v in body must be of type integer: "string""#,
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(1.5),
            r#"spec.v: Invalid value: "float64": spec.v in body must be of type int32: "float64""#,
        ),
        (
            json!({"type": "integer", "format": "int32"}),
            json!(3_000_000_000u64),
            r#"<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.v"#,
        ),
        (
            json!({"type": "string", "pattern": "^[a-z]+$"}),
            json!("A"),
            r#"spec.v: Invalid value: "A": spec.v in body should match '^[a-z]+$'"#,
        ),
        (
            json!({"type": "string", "enum": ["A", "B"]}),
            json!("C"),
            r#"spec.v: Unsupported value: "C": supported values: "A", "B""#,
        ),
        (
            json!({"type": "integer", "minimum": 1}),
            json!(0),
            "spec.v: Invalid value: 0: spec.v in body should be greater than or equal to 1",
        ),
        (
            json!({"type": "integer", "maximum": 5}),
            json!(6),
            "spec.v: Invalid value: 6: spec.v in body should be less than or equal to 5",
        ),
        (
            json!({"type": "integer", "multipleOf": 5}),
            json!(6),
            "spec.v: Invalid value: 6: spec.v in body should be a multiple of 5",
        ),
        (
            json!({"type": "string", "minLength": 2}),
            json!("a"),
            r#"spec.v: Invalid value: "a": spec.v in body should be at least 2 chars long"#,
        ),
        (
            json!({"type": "string", "maxLength": 4}),
            json!("abcde"),
            "spec.v: Too long: may not be more than 4 bytes",
        ),
        (
            json!({"type": "array", "maxItems": 2, "items": {"type": "integer"}}),
            json!([1, 2, 3]),
            "spec.v: Too many: 3: must have at most 2 items",
        ),
        (
            json!({"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer"}}),
            json!({"a": 1, "b": 2}),
            "spec.v: Too many: 2: must have at most 1 item",
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!("notadate"),
            r#"spec.v: Invalid value: "notadate": spec.v in body must be of type date-time: "notadate""#,
        ),
        (
            json!({"type": "string", "not": {"enum": ["x"]}}),
            json!("x"),
            r#"<nil>: Invalid value: "": "spec.v" must not validate the schema (not)"#,
        ),
        (
            json!({"type": "integer", "oneOf": [{"minimum": 1}, {"minimum": 2}]}),
            json!(3),
            r#"<nil>: Invalid value: "": "spec.v" must validate one and only one schema (oneOf). Found 2 valid alternatives"#,
        ),
        (
            json!({"type": "array", "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}),
            json!([{}]),
            "spec.v[0].k: Required value",
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object"}}),
            json!([{"k": "a"}, {"k": "a"}]),
            r#"spec.v[1]: Duplicate value: {"k":"a"}"#,
        ),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            json!(["a", "a"]),
            r#"spec.v[1]: Duplicate value: "a""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!(true),
            r#"spec.v: Invalid value: "boolean": spec.v in body must be of type integer,string: "boolean""#,
        ),
        (
            json!({"type": "string"}),
            json!(null),
            r#"spec.v: Invalid value: "null": spec.v in body must be of type string: "null""#,
        ),
    ];
    for (node, value, want) in table {
        let found = check(node.clone(), value);
        assert_eq!(found.first().map(String::as_str), Some(want), "{node}: {found:?}");
    }
}

#[test]
fn good_values_pass() {
    let table = [
        (json!({"type": "integer"}), json!(1)),
        (json!({"type": "number"}), json!(1)),
        (json!({"type": "string", "nullable": true}), json!(null)),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!("25%"),
        ),
        (
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            json!({"any": [1, "x"]}),
        ),
        (json!({"type": "string", "format": "what-ever"}), json!("x")),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}),
        ),
    ];
    for (node, value) in table {
        assert_eq!(check(node.clone(), value), Vec::<String>::new(), "{node}");
    }
}

#[test]
fn an_embedded_resource_needs_its_type_and_a_good_name() {
    // What a name may be is for its own kind to say: a ClusterRole's has colons.
    let node =
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "example:viewer"}});
    assert_eq!(check(node.clone(), role), Vec::<String>::new());
    let found = check(node, json!({"kind": "ConfigMap", "metadata": {"name": "a/b"}}));
    assert_eq!(
        found,
        [
            "spec.v.apiVersion: Required value: must not be empty",
            r#"spec.v.metadata.name: Invalid value: "a/b": may not contain '/'"#,
        ]
    );
}

#[test]
fn what_was_wrong_before_may_stay_but_not_change() {
    let schema = Schema::from_openapi(&json!({
        "type": "object",
        "properties": {
            "a": {"type": "string", "maxLength": 1},
            "b": {"type": "integer"},
            "m": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string", "maxLength": 1}}},
            },
            "l": {"type": "array", "items": {"type": "string", "maxLength": 1}},
        },
    }))
    .expect("parses");
    let old = json!({"a": "long", "b": 1, "m": [{"k": "x", "v": "long"}], "l": ["long"]});
    let table = [
        (
            json!({"a": "long", "b": 2, "m": [{"k": "x", "v": "long"}], "l": ["long"]}),
            0,
        ),
        (
            json!({"a": "longer", "b": 1, "m": [{"k": "x", "v": "long"}], "l": ["long"]}),
            1,
        ),
        (
            json!({"a": "long", "b": 1, "m": [{"k": "y", "v": "1"}, {"k": "x", "v": "long"}], "l": ["long"]}),
            0,
        ),
        (
            json!({"a": "long", "b": 1, "m": [{"k": "x", "v": "other"}], "l": ["long"]}),
            1,
        ),
        (
            json!({"a": "long", "b": 1, "m": [{"k": "x", "v": "long"}], "l": ["long", "x"]}),
            1,
        ),
    ];
    for (new, want) in table {
        assert_eq!(validate(&new, Some(&old), &schema).len(), want, "{new}");
    }
}

#[test]
fn skipped_rules_of_an_invalid_object_are_reported() {
    let schema = Schema::from_openapi(&json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.a == 'x'"}],
        "properties": {"a": {"type": "string", "enum": ["x"]}},
    }))
    .expect("parses");
    let errors = validate(&json!({"a": "y"}), None, &schema);
    assert_eq!(errors.len(), 2);
    assert_eq!(errors[1].field, NO_FIELD);
    assert!(
        errors[1]
            .detail
            .starts_with("Invalid value: null: some validation rules were not checked")
    );
}

#[test]
fn validation_errors_of_a_large_object_stay_short() {
    let node = json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}});
    let said = |value| check(node.clone(), value).iter().map(String::len).sum::<usize>();
    let long = "k".repeat(1 << 20);
    assert!(said(json!({long: vec![1; 100_000]})) < 5 << 20);
    assert!(said(json!({"k": vec![1; 100_000]})) < 2 << 20);
    let set = json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}});
    assert!(check(set, json!(vec![1; 100_000])).len() < 100_000);
}

#[test]
fn items_of_a_long_list_are_correlated_quickly() {
    let schema = json!({"type": "object", "properties": {"list": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer", "maximum": 1}},
                  "required": ["name"], "x-kubernetes-validations": [{"rule": "oldSelf.n <= self.n"}]},
    }}});
    let schema = Schema::from_openapi(&schema).expect("parses");
    let list = |count: i64, n: i64| {
        let items = (0..count).map(|at| json!({"name": at.to_string(), "n": n}));
        json!({"list": items.collect::<Vec<_>>()})
    };
    assert_eq!(validate(&list(30, 0), Some(&list(30, 1)), &schema).len(), 30);
    assert_eq!(validate(&list(20_000, 1), Some(&list(20_000, 1)), &schema).len(), 0);
    assert_eq!(values(&list(20_000, 2), Some(&list(20_000, 2)), &schema).len(), 0);
    assert!(!values(&list(20_000, 2), Some(&list(20_000, 1)), &schema).is_empty());
}
