use super::{kinds, *};

fn set(fields: Value) -> FieldSet {
    FieldSet::from_json(&fields).unwrap()
}

#[test]
fn fields_v1_is_written_as_kubernetes_writes_it() {
    let fields = json!({"f:ports": {
        "k:{\"containerPort\":443,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}},
        "k:{\"protocol\":\"TCP\",\"containerPort\":80}": {},
        ".": {},
    }, "f:set": {"v:\"b\"": {}, "v:\"a\"": {}, "v:10": {}, "v:9": {}}, "f:a": {}});
    let expected = concat!(
        r#"{"f:a":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{},"#,
        r#""k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{},"f:name":{}}},"#,
        r#""f:set":{"v:9":{},"v:10":{},"v:\"a\"":{},"v:\"b\"":{}}}"#
    );
    assert_eq!(set(fields.clone()).to_string(), expected);
    assert_eq!(set(fields).to_json(), serde_json::from_str::<Value>(expected).unwrap());
}

#[test]
fn a_path_and_what_is_below_it_are_recognized_unread() {
    for (fields, other) in [
        (json!({"f:a": {}}), json!({"f:a": {".": {}, "f:b": {}}})),
        (json!({"f:a": {".": {}, "f:b": {}}}), json!({"f:a": {"f:b": {}}})),
        (json!({"f:a": {}, "f:b": {}}), json!({"f:a": {}, "f:c": {}})),
        (json!({"f:a": {"v:\"\\\"\"": {}}}), json!({"f:a": {"v:\"\\\\\"": {}}})),
        (
            json!({"f:a": {"k:{\"n\":1,\"p\":\"x\"}": {}}}),
            json!({"f:a": {"k:{\"n\":1,\"p\":\"y\"}": {}}}),
        ),
    ] {
        let read = set(fields.clone());
        assert!(read.is_written_as(&fields), "{fields}");
        assert!(!read.is_written_as(&other), "{other}");
    }
}

#[test]
fn malformed_fields_are_not_read() {
    for fields in [
        json!({"x:a": {}}),
        json!({"a": {}}),
        json!({"f:a": 1}),
        json!({"k:{": {}}),
        json!({"v:x": {}}),
        json!({"i:x": {}}),
        json!([]),
    ] {
        assert_eq!(FieldSet::from_json(&fields), None, "{fields}");
    }
}

#[test]
fn set_operations_distinguish_a_path_from_its_children() {
    let left = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
    let right = set(json!({"f:a": {}, "f:d": {}}));
    assert_eq!(
        left.union(&right),
        set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}, "f:d": {}}))
    );
    assert_eq!(left.intersection(&right), set(json!({"f:a": {}})));
    assert_eq!(left.difference(&right), set(json!({"f:a": {"f:b": {}}, "f:c": {}})));
    assert_eq!(left.recursive_difference(&right), set(json!({"f:c": {}})));
    assert!(left.intersects(&right) && !right.intersects(&set(json!({"f:c": {}}))));
    assert_eq!(left.paths(), [".a", ".c", ".a.b"]);
    assert!(left.contains(&[PathElement::Field("a".into()), PathElement::Field("b".into())]));
}

#[test]
fn an_applied_configuration_owns_its_leaves_but_no_server_fields() {
    let table = [
        (
            kinds::config_map(),
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b", "labels": {"x": "1"}}, "data": {"k": "v"}}),
            r#"{"f:data":{"f:k":{}},"f:metadata":{"f:labels":{"f:x":{}}}}"#,
        ),
        (
            kinds::config_map(),
            json!({"metadata": {"generateName": "a-", "finalizers": ["x/y"], "ownerReferences": [{"uid": "u", "name": "n"}]}, "data": {}}),
            r#"{"f:data":{},"f:metadata":{"f:finalizers":{"v:\"x/y\"":{}},"f:generateName":{},"f:ownerReferences":{"k:{\"uid\":\"u\"}":{}}}}"#,
        ),
        (
            kinds::deployment(),
            json!({"spec": {"selector": {"matchLabels": {"a": "1"}}, "template": {"spec": {"containers": [
                {"name": "c", "image": "i", "args": [], "env": [], "ports": [{"containerPort": 80}], "resources": {}},
            ]}}}}),
            concat!(
                r#"{"f:spec":{"f:selector":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"#,
                r#""f:args":{},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"#,
                r#""f:resources":{}}}}}}}"#
            ),
        ),
        (
            kinds::custom(),
            json!({"spec": {"d": null, "free": {"q": {"w": 1, "l": [{"x": 1}]}}, "mp": [{"k": "a"}], "st": ["a"], "at": ["x"], "am": {"a": "1"}, "m": {"x": "1"}}}),
            concat!(
                r#"{"f:spec":{"f:am":{},"f:at":{},"f:d":{},"f:free":{"f:q":{".":{},"f:l":{},"f:w":{}}},"f:m":{"f:x":{}},"#,
                r#""f:mp":{"k:{\"k\":\"a\",\"p\":\"TCP\"}":{".":{},"f:k":{}}},"f:st":{"v:\"a\"":{}}}}"#
            ),
        ),
        (
            kinds::custom(),
            json!({"metadata": {"name": "a"}, "spec": {}}),
            r#"{"f:spec":{}}"#,
        ),
        (kinds::custom(), json!({"metadata": {"name": "a"}}), "{}"),
    ];
    for (schema, config, expected) in table {
        assert_eq!(field_set(&config, &schema).to_string(), expected, "{config}");
    }
}
