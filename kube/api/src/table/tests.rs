use super::*;
use serde_json::json;

fn built_in(group: &str, resource: &str) -> Printer {
    let registry = crate::kinds::registry();
    let found = registry.group(group).and_then(|it| it.get(resource));
    found.expect("a built-in resource").versions[0].printer.clone()
}

/// What is to be printed of what: `cases.json`.
fn cases<T: serde::de::DeserializeOwned>(of: &str) -> T {
    let mut all: Value = serde_json::from_str(include_str!("cases.json")).expect("cases");
    serde_json::from_value(all[of].take()).expect("cases of this form")
}

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

/// Columns as `NAME[:type]`, with `*` for wide ones.
fn headings(printer: &Printer) -> Vec<String> {
    let heading = |it: &Column| {
        let ty = if it.ty == "string" {
            String::new()
        } else {
            format!(":{}", it.ty)
        };
        format!("{}{ty}{}", it.name, if it.priority > 0 { "*" } else { "" })
    };
    printer.columns().iter().map(heading).collect()
}

#[test]
fn the_age_of_what_has_no_time_is_said_so() {
    assert_eq!(duration::since(None, now()), "<unknown>");
    assert_eq!(duration::since(Some("yesterday"), now()), "<invalid>");
}

#[test]
fn built_in_kinds_print_what_kubernetes_prints() {
    let meta = json!({"name": "a", "namespace": "n", "creationTimestamp": "2026-11-21T11:55:00Z"});
    let cases: Vec<(String, String, Value, Value)> = cases("cells");
    for (group, resource, mut object, expected) in cases {
        object["metadata"] = meta.clone();
        let printer = built_in(&group, &resource);
        assert_eq!(
            Value::from(printer.cells(&object, now())),
            expected,
            "{group}/{resource} {object}"
        );
    }
}

#[test]
fn the_default_class_of_ingresses_is_shown_as_such() {
    let class = json!({
        "metadata": {"name": "a", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "ex.io/c"},
    });
    let cells = built_in("networking.k8s.io", "ingressclasses").cells(&class, now());
    assert_eq!(cells[0], "a (default)");
}

#[test]
fn every_built_in_kind_fills_each_column_even_when_empty() {
    let registry = crate::kinds::registry();
    let kinds = registry.resources().map(|it| (&*it.id, &it.versions[0].printer));
    for (name, printer) in kinds.chain([("scales", &Printer::BuiltIn(Columns::SCALE))]) {
        assert_eq!(
            printer.cells(&json!({}), now()).len(),
            printer.columns().len(),
            "{name}"
        );
    }
    let empty = built_in("", "configmaps").cells(&json!({}), now());
    assert_eq!(empty, [json!(""), json!(0), json!("<unknown>")]);
}

#[test]
fn columns_have_the_types_and_priorities_of_kubernetes() {
    let cases: Vec<(String, String, Vec<String>)> = cases("columns");
    for (group, resource, expected) in cases {
        assert_eq!(headings(&built_in(&group, &resource)), expected, "{group}/{resource}");
    }
    assert_eq!(built_in("", "secrets").columns()[0].format, "name");
}

#[test]
fn a_pod_status_is_one_word() {
    let cases: Vec<(Value, Value, bool, [Value; 3])> = cases("pods");
    for (spec, status, deleting, expected) in cases {
        let mut object = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
        }
        let cells = built_in("", "pods").cells(&object, now());
        assert_eq!(cells[1..4], expected, "{object}");
    }
}

#[test]
fn a_custom_resource_prints_its_columns() {
    let columns = json!([
        {"name": "Hub Accepted", "type": "boolean", "jsonPath": ".spec.hubAcceptsClient"},
        {"name": "Urls", "type": "string", "jsonPath": ".spec.clientConfigs[*].url", "description": "where"},
        {"name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].status"},
        {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "priority": 1},
        {"name": "Map", "type": "string", "jsonPath": ".spec.map"},
        {"name": "Wrong", "type": "boolean", "jsonPath": ".spec.count"},
        {"name": "Renewed", "type": "date", "jsonPath": ".spec.renewed"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let printer = Printer::Custom(CustomColumns::compile(&columns));
    let object = json!({
        "metadata": {"name": "c1", "creationTimestamp": "2026-11-21T11:59:00Z"},
        "spec": {"hubAcceptsClient": true, "clientConfigs": [{"url": "u1"}, {"url": "u2"}], "count": 2.9, "map": {"a": [1]}, "renewed": "x"},
        "status": {"conditions": [{"type": "Joined", "status": "True"}, {"type": "Available", "status": "Unknown"}]},
    });
    let cells = Value::from(printer.cells(&object, now()));
    assert_eq!(
        cells,
        json!(["c1", true, "u1", "Unknown", 2, "{\"a\":[1]}", null, "<invalid>", "60s"])
    );
    let empty = json!({"metadata": {"name": "c2"}});
    assert_eq!(
        Value::from(printer.cells(&empty, now())),
        json!(["c2", null, null, null, null, null, null, null, null])
    );
    assert_eq!(
        headings(&printer)[..5],
        ["Name", "Hub Accepted:boolean", "Urls", "Available", "Count:integer*"]
    );
    let columns = printer.columns();
    assert_eq!(
        columns[1].description,
        "Custom resource definition column (in JSONPath format): .spec.hubAcceptsClient"
    );
    assert_eq!(columns[2].description, "where");
}

#[test]
fn a_custom_resource_without_columns_prints_name_and_age() {
    let printer = Printer::Custom(CustomColumns::compile(&Value::Null));
    assert_eq!(headings(&printer), ["Name", "Age:date"]);
    let object = json!({"metadata": {"name": "c1", "creationTimestamp": "2026-11-21T11:59:00Z"}});
    assert_eq!(printer.cells(&object, now()), [json!("c1"), json!("60s")]);
}

#[test]
fn a_table_wraps_rows_and_includes_objects_as_requested() {
    let printer = built_in("", "serviceaccounts");
    let object =
        json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "5"}});
    let list = json!({"resourceVersion": "9", "continue": "x", "selfLink": "gone"});
    let form = Form {
        version: "v1",
        include: IncludeObject::Metadata,
    };
    let result = table(&printer, form, &list, [&object], now());
    assert_eq!(
        (&result["kind"], &result["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(result["metadata"], json!({"resourceVersion": "9", "continue": "x"}));
    assert_eq!(
        result["rows"],
        json!([{"cells": ["a", "<unknown>"], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a", "resourceVersion": "5"}}}])
    );
    let name = &result["columnDefinitions"][0];
    assert_eq!(
        (&name["name"], &name["type"], &name["format"], &name["priority"]),
        (&json!("Name"), &json!("string"), &json!("name"), &json!(0))
    );

    let with = |include| {
        table(
            &printer,
            Form {
                version: "v1beta1",
                include,
            },
            &list,
            [&object],
            now(),
        )
    };
    assert_eq!(with(IncludeObject::None)["rows"][0]["object"], Value::Null);
    assert_eq!(with(IncludeObject::Object)["rows"][0]["object"], object);
    assert_eq!(
        with(IncludeObject::Metadata)["rows"][0]["object"]["apiVersion"],
        "meta.k8s.io/v1beta1"
    );
    assert_eq!(table(&printer, form, &list, [], now())["rows"], json!([]));
}

#[test]
fn only_the_first_event_of_a_watch_carries_the_columns() {
    let printer = built_in("", "configmaps");
    let form = Form {
        version: "v1",
        include: IncludeObject::Metadata,
    };
    let bookmark = json!({"metadata": {"resourceVersion": "7"}});
    let first = event_table(&printer, form, &bookmark, true, now());
    let later = event_table(&printer, form, &bookmark, false, now());
    assert_eq!(
        (first["columnDefinitions"].is_array(), &later["columnDefinitions"]),
        (true, &Value::Null)
    );
    assert_eq!(later["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(later["rows"][0]["cells"], json!(["", 0, "<unknown>"]));
}

#[test]
fn include_object_is_checked() {
    assert_eq!(IncludeObject::parse(""), Ok(IncludeObject::Metadata));
    let error = "Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be 'Metadata', 'Object', 'None', or empty";
    assert_eq!(IncludeObject::parse("Bad").unwrap_err(), error);
}

#[test]
fn partial_metadata_carries_its_own_kind() {
    let object = json!({"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}});
    let item = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}});
    assert_eq!(partial_metadata(&object, "v1"), item);
    let list = partial_metadata_list(&json!({"resourceVersion": "3"}), [&object], "v1");
    assert_eq!(
        list,
        json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "3"}, "items": [item]})
    );
}
