use super::{kinds, *};

fn created(schema: &Schema, api_version: &str, built_in: bool, mut object: Value) -> Value {
    update(None, &mut object, &ctx("m", schema, api_version, built_in));
    object
}

#[test]
fn a_created_config_map_owns_its_data_map_and_keys() {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "uid": "u", "labels": {"x": "1"}}, "data": {"k": "v"}});
    let object = created(&kinds::config_map(), "v1", true, object);
    assert_eq!(
        owners(&object),
        [r#"m Update v1 {"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{".":{},"f:x":{}}}}"#]
    );
    assert_eq!(object["metadata"]["managedFields"][0]["time"], at(0).to_string());
    assert_eq!(object["metadata"]["managedFields"][0]["fieldsType"], "FieldsV1");
}

#[test]
fn a_created_deployment_has_no_dot_entry_for_structs() {
    let object = json!({"metadata": {"name": "a"}, "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "a"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
        "template": {
            "metadata": {"creationTimestamp": null, "labels": {"app": "a"}},
            "spec": {
                "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}], "resources": {}}],
                "securityContext": {},
            },
        },
    }, "status": {}});
    let expected = concat!(
        r#"m Update apps/v1 {"f:spec":{"f:replicas":{},"f:selector":{},"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{}},"f:type":{}},"#,
        r#""f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"#,
        r#""f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"#,
        r#""f:resources":{}}},"f:securityContext":{}}}}}"#
    );
    assert_eq!(
        owners(&created(&kinds::deployment(), "apps/v1", true, object)),
        [expected]
    );
}

#[test]
fn a_created_custom_resource_has_a_dot_for_every_container() {
    let object = json!({"metadata": {"name": "a"}, "spec": {"mp": [{"k": "a", "p": "TCP"}], "st": [], "m": {}, "free": {"q": {"w": 1}}}});
    let expected = concat!(
        r#"m Update ex.io/v1 {"f:spec":{".":{},"f:free":{".":{},"f:q":{".":{},"f:w":{}}},"f:m":{},"#,
        r#""f:mp":{".":{},"k:{\"k\":\"a\",\"p\":\"TCP\"}":{".":{},"f:k":{},"f:p":{}}},"f:st":{}}}"#
    );
    assert_eq!(
        owners(&created(&kinds::custom(), "ex.io/v1", false, object)),
        [expected]
    );
}

#[test]
fn an_update_gains_what_it_changes_and_others_lose_it() {
    let schema = kinds::config_map();
    let live = created(
        &schema,
        "v1",
        true,
        json!({"metadata": {"name": "a"}, "data": {"a": "1", "b": "1", "c": "1"}}),
    );
    let mut new = live.clone();
    new["data"] = json!({"a": "2", "b": "1", "d": "1"});
    update(
        Some(&live),
        &mut new,
        &Ctx {
            now: at(5),
            ..ctx("n", &schema, "v1", true)
        },
    );
    assert_eq!(
        owners(&new),
        [
            r#"m Update v1 {"f:data":{".":{},"f:b":{}}}"#,
            r#"n Update v1 {"f:data":{"f:a":{},"f:d":{}}}"#
        ]
    );
    let times: Vec<_> = (0..2)
        .map(|it| new["metadata"]["managedFields"][it]["time"].clone())
        .collect();
    assert_eq!(times, [json!(at(0).to_string()), json!(at(5).to_string())]);
}

#[test]
fn a_status_update_has_its_own_entry_without_spec() {
    let schema = kinds::deployment();
    let live = created(
        &schema,
        "apps/v1",
        true,
        json!({"metadata": {"name": "a"}, "spec": {"replicas": 1}}),
    );
    let mut new = live.clone();
    new["spec"]["replicas"] = json!(7);
    new["metadata"]["labels"] = json!({"x": "1"});
    new["status"] = json!({"conditions": [{"type": "Available", "status": "True"}]});
    let status = Ctx {
        subresource: "status",
        reset_fields: &[&["spec"], &["metadata", "labels"]],
        ..ctx("m", &schema, "apps/v1", true)
    };
    update(Some(&live), &mut new, &status);
    assert_eq!(
        owners(&new),
        [
            r#"m Update apps/v1 {"f:spec":{"f:replicas":{}}}"#,
            r#"m Update apps/v1/status {"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Available\"}":{".":{},"f:status":{},"f:type":{}}}}}"#,
        ]
    );
}

#[test]
fn a_write_without_changes_keeps_entries_and_their_times() {
    let schema = kinds::deployment();
    let containers = json!([{"name": "a", "args": ["x"]}, {"name": "b"}]);
    let live = created(
        &schema,
        "apps/v1",
        true,
        json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": containers}}}}),
    );
    let mut new = content(&live);
    update(
        Some(&live),
        &mut new,
        &Ctx {
            now: at(9),
            ..ctx("n", &schema, "apps/v1", true)
        },
    );
    assert_eq!(new, live);
    assert!(no_op(&live, &new));
    new["metadata"]["managedFields"][0]["time"] = json!(at(99).to_string());
    assert!(no_op(&live, &new), "times do not count");
    new["metadata"]["managedFields"][0]["manager"] = json!("x");
    assert!(!no_op(&live, &new), "owners do");
    assert!(!no_op(&live, &content(&live)));
    new = live.clone();
    new["spec"]["replicas"] = json!(2);
    assert!(!no_op(&live, &new));
}

#[test]
fn managed_fields_from_a_client_are_used_kept_or_cleared() {
    let schema = kinds::config_map();
    let live = created(
        &schema,
        "v1",
        true,
        json!({"metadata": {"name": "a"}, "data": {"a": "1"}}),
    );
    let stored = owners(&live);
    let moved = json!([{"manager": "other", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}}]);
    let table = [
        (json!([]), "", Vec::new()),
        (Value::Null, "", stored.clone()),
        (json!([{"manager": "x", "operation": "Grow"}]), "", stored.clone()),
        (
            json!([{"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"bad": {}}}]),
            "",
            stored.clone(),
        ),
        (json!("nonsense"), "", stored.clone()),
        (
            moved.clone(),
            "",
            vec![r#"other Apply v1 {"f:data":{"f:a":{}}}"#.to_owned()],
        ),
        (moved, "status", stored.clone()),
        (json!([{}]), "", Vec::new()),
        (json!([{}]), "status", stored),
    ];
    for (given, subresource, expected) in table {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = given.clone();
        update(
            Some(&live),
            &mut new,
            &Ctx {
                subresource,
                ..ctx("n", &schema, "v1", true)
            },
        );
        assert_eq!(owners(&new), expected, "{given} {subresource}");
        assert!(!expected.is_empty() || new["metadata"].get("managedFields").is_none());
    }
}

#[test]
fn an_untracked_object_stays_untracked_on_update() {
    let schema = kinds::config_map();
    let live = json!({"metadata": {"name": "a"}, "data": {"a": "1"}});
    let mut new = json!({"metadata": {"name": "a"}, "data": {"a": "2"}});
    update(Some(&live), &mut new, &ctx("n", &schema, "v1", true));
    assert_eq!(new, json!({"metadata": {"name": "a"}, "data": {"a": "2"}}));
}

#[test]
fn a_reset_field_leaves_a_created_object_without_an_entry() {
    let mut csr = json!({"metadata": {"name": "a"}, "spec": {"d": "x"}});
    let schema = kinds::custom();
    update(
        None,
        &mut csr,
        &Ctx {
            reset_fields: &[&["spec"]],
            ..ctx("n", &schema, "v1", true)
        },
    );
    assert_eq!(csr, json!({"metadata": {"name": "a"}, "spec": {"d": "x"}}));
}

#[test]
fn more_than_ten_updaters_are_merged_into_ancient_changes() {
    let schema = kinds::config_map();
    let mut live = created(
        &schema,
        "v1",
        true,
        json!({"metadata": {"name": "a"}, "data": {"m": "1"}}),
    );
    for step in 1..14 {
        let mut new = live.clone();
        new["data"][format!("k{step:02}")] = json!("1");
        update(
            Some(&live),
            &mut new,
            &Ctx {
                now: at(step),
                ..ctx(&format!("m{step:02}"), &schema, "v1", true)
            },
        );
        live = new;
    }
    let owners = owners(&live);
    assert_eq!(owners.len(), 10);
    assert_eq!(
        owners[0],
        r#"ancient-changes Update v1 {"f:data":{".":{},"f:k01":{},"f:k02":{},"f:k03":{},"f:k04":{},"f:m":{}}}"#
    );
    assert_eq!(owners[1], r#"m05 Update v1 {"f:data":{"f:k05":{}}}"#);
}

#[test]
fn entries_of_a_version_no_longer_served_are_dropped() {
    let schema = kinds::config_map();
    let mut live = created(
        &schema,
        "v1beta1",
        true,
        json!({"metadata": {"name": "a"}, "data": {"a": "1"}}),
    );
    let stored = live.clone();
    live["data"]["b"] = json!("2");
    update(
        Some(&stored),
        &mut live,
        &Ctx {
            served: &["v1"],
            ..ctx("n", &schema, "v1", true)
        },
    );
    assert_eq!(owners(&live), [r#"n Update v1 {"f:data":{"f:b":{}}}"#]);
}

#[test]
fn many_managed_fields_entries_are_merged_quickly() {
    let entries: Vec<_> = (0..20_000)
        .map(|at| {
            json!({
                "manager": format!("m{}", at % 15_000), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
                "fieldsV1": {"f:data": {format!("f:k{at}"): {}}}, "time": "2020-01-01T00:00:00Z",
            })
        })
        .collect();
    let entries = json!(entries);
    let decoded = entry::decode(Some(&entries)).unwrap();
    assert_eq!(decoded.len(), 15_000);
    let mut capped = decoded;
    entry::cap(&mut capped);
    assert_eq!(capped.len(), 10);
    let fields: usize = capped.iter().map(|it| it.set().paths().len()).sum();
    assert_eq!(fields, 15_000);
}
