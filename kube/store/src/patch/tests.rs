use super::*;
use crate::schema::{Schema, Type};
use serde_json::json;
use std::sync::Arc;

const REFUSED: &str = "the server rejected our request due to an error in our request";

#[test]
fn json_patch_is_as_lenient_as_kubernetes() {
    let live = json!({"data": {"a": "1", "b": null}, "list": [1, 2]});
    let table = [
        (r#"[]"#, Ok(live.clone())),
        (
            r#"[{"op":"add","path":"/data/c","value":"3"}]"#,
            Ok(json!({"data": {"a": "1", "b": null, "c": "3"}, "list": [1, 2]})),
        ),
        (
            r#"[{"op":"replace","path":"/data/new","value":"3"}]"#,
            Ok(json!({"data": {"a": "1", "b": null, "new": "3"}, "list": [1, 2]})),
        ),
        (r#"[{"op":"replace","path":"/none/new","value":"3"}]"#, Err(422)),
        (r#"[{"op":"replace","path":"/list/7","value":"3"}]"#, Err(422)),
        (
            r#"[{"op":"remove","path":"/data/a"}]"#,
            Ok(json!({"data": {"b": null}, "list": [1, 2]})),
        ),
        (r#"[{"op":"remove","path":"/data/none"}]"#, Err(422)),
        (r#"[{"op":"add","path":"/none/x","value":1}]"#, Err(422)),
        (
            r#"[{"op":"add","path":"/list/-","value":3},{"op":"add","path":"/list/0","value":0}]"#,
            Ok(json!({"data": {"a": "1", "b": null}, "list": [0, 1, 2, 3]})),
        ),
        (
            r#"[{"op":"remove","path":"/list/-1"}]"#,
            Ok(json!({"data": {"a": "1", "b": null}, "list": [1]})),
        ),
        (
            r#"[{"op":"test","path":"/data/a","value":"1"},{"op":"test","path":"/list/0","value":1.0}]"#,
            Ok(live.clone()),
        ),
        (r#"[{"op":"test","path":"/data/none","value":null}]"#, Ok(live.clone())),
        (r#"[{"op":"test","path":"/data/a","value":"2"}]"#, Err(422)),
        (
            r#"[{"op":"move","from":"/data/a","path":"/data/b"}]"#,
            Ok(json!({"data": {"b": "1"}, "list": [1, 2]})),
        ),
        (r#"[{"op":"move","from":"/data","path":"/data/b"}]"#, Err(422)),
        (
            r#"[{"op":"copy","from":"/list","path":"/data/b"}]"#,
            Ok(json!({"data": {"a": "1", "b": [1, 2]}, "list": [1, 2]})),
        ),
        (
            r#"[{"op":"add","path":"/data/x~1y~0z","value":1}]"#,
            Ok(json!({"data": {"a": "1", "b": null, "x/y~z": 1}, "list": [1, 2]})),
        ),
        (r#"[{"op":"grow","path":"/data"}]"#, Err(422)),
        (r#"{"op":"add"}"#, Err(400)),
        (r#"[1]"#, Err(400)),
        (r#"["#, Err(400)),
    ];
    for (patch, expected) in table {
        let result = json::apply(&live, patch.as_bytes());
        if let Err(error) = &result
            && error.code == 422
        {
            assert_eq!(
                (error.message.as_str(), error.reason, &error.details),
                (REFUSED, "Invalid", &Some(Box::new(json!({}))))
            );
        }
        assert_eq!(result.map_err(|error| error.code), expected, "{patch}");
    }
}

#[test]
fn a_json_patch_of_over_ten_thousand_operations_is_refused() {
    let operations = |count: usize| {
        let one = r#"{"op":"test","path":"","value":{}}"#;
        format!("[{}]", vec![one; count].join(","))
    };
    assert_eq!(json::apply(&json!({}), operations(10_000).as_bytes()), Ok(json!({})));
    let error = json::apply(&json!({}), operations(10_001).as_bytes()).unwrap_err();
    assert_eq!((error.code, error.reason), (413, "RequestEntityTooLarge"));
    assert!(
        error
            .message
            .ends_with("The allowed maximum operations in a JSON patch is 10000, got 10001"),
        "{}",
        error.message
    );
}

#[test]
fn merge_patch_merges_maps_and_replaces_the_rest() {
    let live = json!({"a": {"b": 1, "c": 2}, "l": [1, 2]});
    let table = [
        (r#"{}"#, Ok(live.clone())),
        (r#"null"#, Ok(live.clone())),
        (
            r#"{"a":{"b":null,"d":{"e":1,"f":null}}}"#,
            Ok(json!({"a": {"c": 2, "d": {"e": 1}}, "l": [1, 2]})),
        ),
        (r#"{"l":[3]}"#, Ok(json!({"a": {"b": 1, "c": 2}, "l": [3]}))),
        (r#"{"l":{"x":1}}"#, Ok(json!({"a": {"b": 1, "c": 2}, "l": {"x": 1}}))),
        (
            r#"[1]"#,
            Err("error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ),
        (
            r#""x""#,
            Err("error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}"),
        ),
        (r#""#, Err("error decoding patch: unexpected end of JSON input")),
        (r#"{"a":"#, Err("error decoding patch: unexpected end of JSON input")),
        (
            r#"{"a":x}"#,
            Err("error decoding patch: invalid character 'x' looking for beginning of value"),
        ),
    ];
    for (patch, expected) in table {
        let result = merge::apply(&live, patch.as_bytes());
        assert_eq!(
            result.map_err(|error| (error.code, error.message)),
            expected.map_err(|it| (400, it.to_owned())),
            "{patch}"
        );
    }
}

/// The parts of a Deployment that strategic merge patch treats specially.
fn schema() -> Schema {
    fn object(fields: Vec<(&str, Schema)>) -> Schema {
        let properties = fields
            .into_iter()
            .map(|(name, schema)| (name.to_owned(), Arc::new(schema)))
            .collect();
        Schema {
            ty: Type::Object,
            properties,
            ..Schema::default()
        }
    }
    fn list(key: &str, item: Schema) -> Schema {
        let key = (!key.is_empty()).then(|| key.to_owned());
        Schema {
            ty: Type::Array,
            items: Some(Arc::new(item)),
            patch_merge: true,
            patch_merge_key: key,
            ..Schema::default()
        }
    }
    let text = || Schema {
        ty: Type::String,
        ..Schema::default()
    };
    let map = || Schema {
        ty: Type::Object,
        additional: Some(Arc::new(text())),
        ..Schema::default()
    };
    let container = object(vec![
        ("name", text()),
        ("image", text()),
        ("env", list("name", object(vec![("name", text()), ("value", text())]))),
        (
            "args",
            Schema {
                ty: Type::Array,
                items: Some(Arc::new(text())),
                ..Schema::default()
            },
        ),
    ]);
    let strategy = Schema {
        patch_retain_keys: true,
        ..object(vec![("type", text()), ("rollingUpdate", map())])
    };
    object(vec![(
        "spec",
        object(vec![
            ("containers", list("name", container)),
            ("strategy", strategy),
            ("selector", map()),
        ]),
    )])
}

#[test]
fn strategic_merge_patch_follows_keys_and_directives() {
    let live = json!({
        "metadata": {"finalizers": ["a", "b"], "labels": {"x": "1"}},
        "spec": {
            "containers": [{"name": "c1", "image": "i1", "args": ["1"]}, {"name": "c2", "image": "i2"}],
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "1"}},
        },
    });
    let names = |value: &Value| -> String {
        let items = value["spec"]["containers"].as_array().unwrap();
        items
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let table = [
        (
            json!({"spec": {"containers": [{"name": "c3", "image": "i3"}]}}),
            "c3 c1 c2",
        ),
        (
            json!({"spec": {"containers": [{"name": "c2", "image": "i9"}]}}),
            "c1 c2",
        ),
        (
            json!({"spec": {"containers": [{"name": "c2", "image": "i9"}, {"name": "c1"}]}}),
            "c2 c1",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "delete", "name": "c1"}]}}),
            "c2",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "only"}]}}),
            "only",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "c2"}, {"name": "c1"}]}}),
            "c2 c1",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "c1"}, {"name": "c3"}, {"name": "c2"}], "containers": [{"name": "c3"}]}}),
            "c1 c3 c2",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "c3"}], "containers": [{"name": "c3"}, {"name": "c1", "$patch": "delete"}]}}),
            "c3 c2",
        ),
        (json!({"spec": {"containers": null}, "x": 1}), "none"),
    ];
    for (patch, expected) in table {
        let result = strategic::apply(&live, patch.to_string().as_bytes(), &schema()).unwrap();
        let found = if result["spec"].get("containers").is_some() {
            names(&result)
        } else {
            "none".to_owned()
        };
        assert_eq!(found, expected, "{patch}");
    }
    let at = |patch: Value, pointer: &str| {
        let result = strategic::apply(&live, patch.to_string().as_bytes(), &schema()).unwrap();
        result.pointer(pointer).cloned().unwrap_or_default()
    };
    let merged = json!({"name": "c1", "image": "i9", "args": ["2"]});
    assert_eq!(
        at(
            json!({"spec": {"containers": [{"name": "c1", "image": "i9", "args": ["2"]}]}}),
            "/spec/containers/0"
        ),
        merged
    );
    assert_eq!(
        at(json!({"metadata": {"finalizers": ["z"]}}), "/metadata/finalizers"),
        json!(["z", "a", "b"])
    );
    assert_eq!(
        at(
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            "/metadata/finalizers"
        ),
        json!(["b"])
    );
    let reordered = json!({"metadata": {
        "$setElementOrder/finalizers": ["b", "c"], "finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"],
    }});
    assert_eq!(at(reordered, "/metadata/finalizers"), json!(["b", "c"]));
    assert_eq!(
        at(
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            "/spec/strategy"
        ),
        json!({"type": "Recreate"})
    );
    assert_eq!(
        at(
            json!({"metadata": {"labels": {"$patch": "replace", "y": "2"}}}),
            "/metadata/labels"
        ),
        json!({"y": "2"})
    );
    assert_eq!(
        at(
            json!({"metadata": {"labels": {"$patch": "delete"}}}),
            "/metadata/labels"
        ),
        json!({})
    );
    assert_eq!(
        at(
            json!({"metadata": {"labels": {"x": null, "y": "2"}}}),
            "/metadata/labels"
        ),
        json!({"y": "2"})
    );
    assert_eq!(
        at(json!({"spec": {"selector": {"a": "1", "b": null}}}), "/spec/selector"),
        json!({"a": "1"})
    );
}

#[test]
fn a_patch_directive_without_a_target_removes_its_map() {
    let live = json!({"metadata": {"labels": {}}});
    for directive in ["replace", "delete", "merge", "bad"] {
        let patch =
            json!({"metadata": {"labels": {"$patch": directive, "y": "2"}}, "data": {"$patch": directive, "y": "2"}});
        let result = strategic::apply(&live, patch.to_string().as_bytes(), &schema()).unwrap();
        assert_eq!(result, json!({"metadata": {}}), "{directive}");
    }
}

#[test]
fn a_strategic_merge_patch_that_makes_no_sense_is_refused() {
    let live = json!({"spec": {"containers": [{"name": "c1"}], "strategy": {"type": "x"}}, "data": {"a": "1"}});
    let table = [
        (
            json!({"data": {"$patch": "bad"}}),
            500,
            "unknown patch type: bad in map: map[$patch:bad]",
        ),
        (
            json!({"spec": {"containers": [{"image": "noname"}]}}),
            500,
            "map: map[image:noname] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}),
            400,
            "invalid patch format of retainKeys",
        ),
        (
            json!({"spec": {"$setElementOrder/containers": {}}}),
            400,
            "invalid patch format of setElementOrder list",
        ),
        (
            json!([1]),
            400,
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ];
    for (patch, code, message) in table {
        let error = strategic::apply(&live, patch.to_string().as_bytes(), &schema()).unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (code, message), "{patch}");
    }
    let order = json!({"spec": {"$setElementOrder/containers": [{"name": "c1"}], "containers": [{"name": "c9"}]}});
    let error = strategic::apply(&live, order.to_string().as_bytes(), &schema()).unwrap_err();
    assert!(
        error.message.contains("doesn't match $setElementOrder list"),
        "{}",
        error.message
    );
}

#[test]
fn values_print_as_go_prints_them() {
    assert_eq!(
        go_format(&json!({"b": ["x", 1, null], "a": {"c": true}})),
        "map[a:map[c:true] b:[x 1 <nil>]]"
    );
}

#[test]
fn json_patch_makes_nothing_that_nobody_could_read() {
    // Each operation nests what there is a little deeper.
    let live = json!({"a": {}});
    let moves = [
        r#"{"op":"add","path":"/b","value":{}}"#,
        r#"{"op":"move","from":"/a","path":"/b/a"}"#,
        r#"{"op":"move","from":"/b","path":"/a"}"#,
    ];
    let patch = |times: usize| format!("[{}]", vec![moves.join(","); times].join(","));
    assert!(json::apply(&live, patch(100).as_bytes()).is_ok());
    assert_eq!(json::apply(&live, patch(150).as_bytes()).unwrap_err().code, 422);
    let copy = r#"{"op":"copy","from":"","path":"/a"}"#;
    let copies = format!("[{}]", vec![copy; 200].join(","));
    assert_eq!(json::apply(&live, copies.as_bytes()).unwrap_err().code, 422);
    let far = format!(r#"[{{"op":"add","path":"{}","value":1}}]"#, "/a".repeat(200));
    assert_eq!(json::apply(&live, far.as_bytes()).unwrap_err().code, 422);
}

#[test]
fn operations_at_the_beginning_of_a_long_list_end_soon() {
    let live = json!({"list": vec![0; 500_000]});
    let patch = format!(
        "[{}]",
        vec![r#"{"op":"add","path":"/list/0","value":1}"#; 10_000].join(",")
    );
    assert_eq!(json::apply(&live, patch.as_bytes()).unwrap_err().code, 422);
    let live = json!({"list": vec![0; 10_000]});
    assert!(json::apply(&live, patch.as_bytes()).is_ok());
}

#[test]
fn long_lists_are_merged_soon() {
    let names: Vec<String> = (0..20_000).map(|at| format!("x/{at}")).collect();
    let schema = json!({"type": "object", "properties": {
        "texts": {"type": "array", "x-kubernetes-patch-strategy": "merge", "items": {"type": "string"}},
        "named": {
            "type": "array", "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}},
        },
    }});
    let schema = Schema::from_openapi(&schema).unwrap();
    let named = |n: i64| names.iter().map(|it| json!({"name": it, "n": n})).collect::<Vec<_>>();
    let live = json!({"texts": names, "named": named(1)});
    let patch = json!({"texts": names, "named": named(2)});
    let merged = strategic::apply(&live, patch.to_string().as_bytes(), &schema).unwrap();
    assert_eq!(merged, patch);
    let gone: Vec<_> = names.iter().map(|it| json!({"name": it, "$patch": "delete"})).collect();
    let patch = json!({"$deleteFromPrimitiveList/texts": names, "named": gone});
    let merged = strategic::apply(&live, patch.to_string().as_bytes(), &schema).unwrap();
    assert_eq!(merged, json!({"texts": [], "named": []}));
}
