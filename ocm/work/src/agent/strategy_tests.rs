use ocm_api::work::{IgnoreField, IgnoreFieldsCondition, ServerSideApplyConfig, UpdateStrategy};

use super::*;

struct Case {
    manifest: Value,
    live: Live,
    strategy: UpdateStrategy,
    owned: bool,
    written: Option<LastWrite>,
    tried: Attempt,
    others: Vec<Value>,
}

fn config_map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"k": "v"}})
}

fn case() -> Case {
    Case {
        manifest: config_map(),
        live: Live::Absent,
        strategy: UpdateStrategy::default(),
        owned: true,
        written: None,
        tried: Attempt::default(),
        others: vec![],
    }
}

fn strategy(kind: UpdateStrategyType) -> UpdateStrategy {
    UpdateStrategy {
        r#type: kind,
        server_side_apply: None,
    }
}

/// The object as the API server has it after the work applied its manifest.
fn applied() -> Value {
    let mut live = config_map();
    live["metadata"]["uid"] = json!("object");
    live["metadata"]["resourceVersion"] = json!("7");
    live["metadata"]["ownerReferences"] = json!([ownership::reference("hub-work", "trace")]);
    live["metadata"]["managedFields"] = json!([{"manager": "work-agent", "operation": "Apply", "fieldsV1": {
        "f:data": {"f:k": {}},
        "f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"trace\"}": {}}}
    }}]);
    live
}

fn present(live: Value) -> Live {
    Live::Present(Arc::new(live))
}

fn show(case: Case) -> String {
    let (group, version) = super::super::manifest::split_api_version(case.manifest["apiVersion"].as_str().unwrap());
    let kind = case.manifest["kind"].as_str().unwrap().to_owned();
    let namespace = case.manifest["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let resource = Resource {
        plural: format!("{}s", kind.to_lowercase()),
        namespaced: !matches!(kind.as_str(), "ClusterRole" | "StorageClass"),
        gvk: Gvk { group, version, kind },
    };
    let key = ObjectKey {
        group: resource.gvk.group.clone(),
        version: resource.gvk.version.clone(),
        resource: resource.plural.clone(),
        namespace: if resource.namespaced { namespace } else { String::new() },
        name: case.manifest["metadata"]["name"].as_str().unwrap().to_owned(),
    };
    let config = Config {
        strategy: case.strategy,
        ..Default::default()
    };
    let decision = decide(&ManifestToApply {
        manifest: &case.manifest,
        resource: &resource,
        key: &key,
        config: &config,
        owned: case.owned,
        trace: ("hub-work", "trace"),
        former: "work-agent/hub/work",
        others: &case.others,
        live: &case.live,
        written: case.written.as_ref(),
        tried: &case.tried,
    });
    match decision {
        ApplyDecision::Agrees => "agrees".to_owned(),
        ApplyDecision::Write { step, .. } => format!("{step:#}"),
        ApplyDecision::Wait(why) => format!("waits: {why}"),
        ApplyDecision::Failed(why) => format!("failed: {why}"),
        ApplyDecision::BadIgnoreFields(why) => format!("bad ignore fields: {why}"),
    }
}

const OWNERS: &str = r#""ownerReferences":[{"apiVersion":"work.open-cluster-management.io/v1","kind":"AppliedManifestWork","name":"hub-work","uid":"trace"}]"#;

#[test]
fn update_applies_what_is_missing_or_unknown_without_asking_first() {
    let expected = format!(
        r#"cluster: apply ConfigMap default/a as work-agent, force {{"data":{{"k":"v"}},"metadata":{{{OWNERS}}}}}"#
    );
    assert_eq!(show(case()), expected);
    assert_eq!(
        show(Case {
            live: Live::Unknown,
            ..case()
        }),
        expected
    );
}

#[test]
fn update_leaves_alone_what_agrees_and_what_others_added() {
    let mut live = applied();
    assert_eq!(
        show(Case {
            live: present(live.clone()),
            ..case()
        }),
        "agrees"
    );
    live["metadata"]["labels"] = json!({"added": "by hand"});
    live["data"]["foreign"] = json!("x");
    live["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(json!({"kind": "Other", "uid": "9"}));
    assert_eq!(
        show(Case {
            live: present(live),
            ..case()
        }),
        "agrees"
    );
}

#[test]
fn update_repairs_what_was_changed_by_hand() {
    let mut live = applied();
    live["data"]["k"] = json!("changed");
    assert!(
        show(Case {
            live: present(live),
            ..case()
        })
        .starts_with("cluster: apply ConfigMap default/a")
    );
    let mut live = applied();
    live["metadata"]["ownerReferences"] = json!([]);
    assert!(
        show(Case {
            live: present(live),
            ..case()
        })
        .starts_with("cluster: apply ConfigMap default/a")
    );
}

#[test]
fn update_applies_again_when_the_manifest_dropped_a_field() {
    let mut live = applied();
    live["data"]["dropped"] = json!("x");
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:data"]["f:dropped"] = json!({});
    assert!(
        show(Case {
            live: present(live),
            ..case()
        })
        .starts_with("cluster: apply ConfigMap default/a")
    );
}

#[test]
fn what_upstreams_agent_has_written_is_not_written_again() {
    let mut live = applied();
    live["metadata"]["managedFields"][0]["operation"] = json!("Update");
    let same = Case {
        live: present(live.clone()),
        ..case()
    };
    assert_eq!(show(same), "agrees");
    live["data"]["k"] = json!("other");
    let changed = Case {
        live: present(live),
        ..case()
    };
    assert!(show(changed).starts_with("cluster: apply ConfigMap default/a"));
}

#[test]
fn update_does_not_rewrite_what_the_api_server_normalises() {
    let mut live = applied();
    live["data"]["k"] = json!("normalised");
    let written = |version: &str| {
        let mut body = config_map();
        body["metadata"]["ownerReferences"] = json!([ownership::reference("hub-work", "trace")]);
        Some(LastWrite {
            hash: hash(&body),
            resource_version: version.into(),
        })
    };
    assert_eq!(
        show(Case {
            live: present(live.clone()),
            written: written("7"),
            ..case()
        }),
        "agrees"
    );
    assert!(
        show(Case {
            live: present(live),
            written: written("6"),
            ..case()
        })
        .starts_with("cluster: apply")
    );
}

#[test]
fn an_orphaned_object_loses_our_reference_and_keeps_its_content() {
    let mut live = applied();
    live["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:data": {"f:k": {}}});
    assert_eq!(
        show(Case {
            live: present(live),
            owned: false,
            ..case()
        }),
        r#"cluster: patch ConfigMap default/a {"metadata":{"ownerReferences":[]}}"#
    );
    assert_eq!(
        show(Case { owned: false, ..case() }),
        r#"cluster: apply ConfigMap default/a as work-agent, force {"data":{"k":"v"}}"#
    );
}

#[test]
fn marked_labels_are_removed_and_never_applied() {
    let mut manifest = config_map();
    manifest["metadata"]["labels"] = json!({"old-": "", "new": "1"});
    assert!(
        show(Case {
            manifest: manifest.clone(),
            ..case()
        })
        .contains(r#""labels":{"new":"1"}"#)
    );
    let mut live = applied();
    live["metadata"]["labels"] = json!({"old": "x", "new": "1"});
    assert_eq!(
        show(Case {
            manifest,
            live: present(live),
            ..case()
        }),
        r#"cluster: patch ConfigMap default/a {"metadata":{"labels":{"old":null}}}"#
    );
}

#[test]
fn immutable_objects_are_recreated() {
    let secret = |kind: &str| json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": "s", "namespace": "default"}});
    let live = |kind: &str| {
        let mut live = secret(kind);
        live["metadata"]["uid"] = json!("object");
        present(live)
    };
    assert_eq!(
        show(Case {
            manifest: secret("kubernetes.io/tls"),
            live: live("Opaque"),
            ..case()
        }),
        "cluster: delete Secret default/s uid object background"
    );
    let immutable = Attempt {
        failure: Some(WriteFailure {
            code: Some(422),
            message: "data: Forbidden: field is immutable when `immutable` is set".into(),
        }),
        failures: 1,
        ..Default::default()
    };
    assert_eq!(
        show(Case {
            manifest: secret("Opaque"),
            live: live("Opaque"),
            tried: immutable.clone(),
            ..case()
        }),
        "cluster: delete Secret default/s uid object background"
    );
    assert!(
        show(Case {
            live: present(applied()),
            tried: immutable,
            ..case()
        })
        .starts_with("failed: data: Forbidden")
    );
}

#[test]
fn a_recreated_storage_class_stays_the_clusters_default() {
    const DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
    let class = |parameters: Value, default: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "p", "parameters": parameters,
            "metadata": {"name": "s", "annotations": {DEFAULT: default}}
        })
    };
    let live = |parameters: Value, default: &str| {
        let mut live = applied();
        for (field, value) in class(parameters, default).as_object().unwrap() {
            match field.as_str() {
                "metadata" => live["metadata"]["annotations"] = value["annotations"].clone(),
                _ => live[field] = value.clone(),
            }
        }
        live["metadata"]["managedFields"] = json!([{"manager": "work-agent", "operation": "Apply", "fieldsV1": {}}]);
        present(live)
    };
    let shown = |manifest: Value, live: Live| {
        show(Case {
            manifest,
            live,
            ..case()
        })
    };
    assert_eq!(
        shown(
            class(json!({"a": "1"}), "true"),
            live(json!({"a": "1", "b": "2"}), "true")
        ),
        "cluster: delete StorageClass s uid object background"
    );
    let one = || json!({"a": "1"});
    assert_eq!(shown(class(one(), "true"), live(one(), "false")), "agrees");
    let absent = shown(class(one(), "true"), Live::Absent);
    assert!(absent.contains(&format!(r#""{DEFAULT}":"true""#)), "{absent}");
    // What is written for another reason leaves the cluster's word as it is.
    let mut labelled = class(one(), "true");
    labelled["metadata"]["labels"] = json!({"new": "1"});
    let written = shown(labelled, live(one(), "false"));
    assert!(written.contains(&format!(r#""{DEFAULT}":"false""#)), "{written}");
}

#[test]
fn a_secrets_text_becomes_data() {
    let manifest = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
        "data": {"a": "MQ=="}, "stringData": {"a": "1", "b": "two"}
    });
    let mut body = manifest.clone();
    fold_string_data(&mut body).unwrap();
    assert_eq!(
        (&body["data"], body.get("stringData")),
        (&json!({"a": "MQ==", "b": "dHdv"}), None)
    );
    let mut conflict = manifest;
    conflict["stringData"]["a"] = json!("2");
    assert_eq!(
        show(Case {
            manifest: conflict,
            ..case()
        }),
        "failed: Secret has both data.a and stringData.a, and they differ"
    );
}

#[test]
fn what_has_to_be_made_anew_is_deleted_once() {
    let secret = |kind: &str| json!({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": "s", "namespace": "default"}});
    let mut live = secret("kubernetes.io/basic-auth");
    live["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
    live["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let waits = "waits: secrets default/s has to be made anew and waits for its finalizers";
    let by_type = Case {
        manifest: secret("Opaque"),
        live: present(live.clone()),
        ..case()
    };
    assert_eq!(show(by_type), waits);
    let refused = Attempt {
        failure: Some(WriteFailure {
            code: Some(422),
            message: "data: field is immutable when `immutable` is set".into(),
        }),
        failures: 1,
        plain: false,
    };
    let by_refusal = Case {
        manifest: secret("kubernetes.io/basic-auth"),
        live: present(live),
        tried: refused,
        ..case()
    };
    assert_eq!(show(by_refusal), waits);
}

#[test]
fn an_aggregated_role_keeps_the_rules_the_server_wrote() {
    let manifest = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"},
        "aggregationRule": {"clusterRoleSelectors": []}, "rules": [{"verbs": ["get"]}]
    });
    let shown = show(Case { manifest, ..case() });
    assert!(
        shown.contains("aggregationRule") && !shown.contains("rules\":[{"),
        "{shown}"
    );
}

#[test]
fn without_typed_fields_an_object_is_created_or_replaced() {
    let plain = Attempt {
        plain: true,
        ..Default::default()
    };
    assert!(
        show(Case {
            tried: plain.clone(),
            ..case()
        })
        .starts_with("cluster: create ConfigMap default/a")
    );
    let mut live = applied();
    live["data"] = json!({"k": "changed", "foreign": "x"});
    assert_eq!(
        show(Case {
            live: present(live),
            tried: plain,
            ..case()
        }),
        format!(r#"cluster: replace ConfigMap default/a {{"data":{{"foreign":"x","k":"v"}},"metadata":{{{OWNERS}}}}}"#)
    );
}

#[test]
fn create_only_never_touches_content() {
    let only = |live| Case {
        strategy: strategy(UpdateStrategyType::CreateOnly),
        live,
        ..case()
    };
    assert!(show(only(Live::Unknown)).starts_with("cluster: create ConfigMap default/a"));
    let mut live = applied();
    live["data"]["k"] = json!("changed");
    assert_eq!(show(only(present(live.clone()))), "agrees");
    live["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(
        show(only(present(live))),
        format!(r#"cluster: patch ConfigMap default/a {{"metadata":{{{OWNERS}}}}}"#)
    );
}

#[test]
fn read_only_writes_nothing() {
    let only = |live| Case {
        strategy: strategy(UpdateStrategyType::ReadOnly),
        live,
        ..case()
    };
    assert_eq!(show(only(Live::Absent)), "agrees");
    assert_eq!(show(only(present(config_map()))), "agrees");
}

fn server_side(force: bool, ignore_fields: Vec<IgnoreField>) -> UpdateStrategy {
    UpdateStrategy {
        r#type: UpdateStrategyType::ServerSideApply,
        server_side_apply: Some(ServerSideApplyConfig {
            force,
            field_manager: String::new(),
            ignore_fields,
        }),
    }
}

#[test]
fn server_side_apply_puts_the_owner_on_afterwards() {
    assert_eq!(
        show(Case {
            strategy: server_side(false, vec![]),
            live: Live::Unknown,
            ..case()
        }),
        r#"cluster: apply ConfigMap default/a as work-agent {"data":{"k":"v"}}"#
    );
    let mut live = applied();
    live["metadata"]["ownerReferences"] = json!([]);
    live["metadata"]["managedFields"] =
        json!([{"manager": "work-agent", "operation": "Apply", "fieldsV1": {"f:data": {"f:k": {}}}}]);
    assert_eq!(
        show(Case {
            strategy: server_side(true, vec![]),
            live: present(live),
            ..case()
        }),
        format!(r#"cluster: patch ConfigMap default/a {{"metadata":{{{OWNERS}}}}}"#)
    );
}

#[test]
fn a_conflict_is_reported_and_not_retried() {
    let tried = Attempt {
        failure: Some(WriteFailure {
            code: Some(409),
            message: "Apply failed with 1 conflict".into(),
        }),
        failures: 1,
        ..Default::default()
    };
    assert_eq!(
        show(Case {
            strategy: server_side(false, vec![]),
            live: present(applied()),
            tried,
            ..case()
        }),
        "failed: Apply failed with 1 conflict"
    );
}

#[test]
fn ignored_fields_are_written_once_and_then_left_alone() {
    let entry = IgnoreField {
        condition: IgnoreFieldsCondition::OnSpokePresent,
        json_paths: vec![".data.k".into()],
        ..Default::default()
    };
    let with = |live| Case {
        strategy: server_side(false, vec![entry.clone()]),
        live,
        ..case()
    };
    let first = show(with(Live::Absent));
    assert!(
        first.contains(r#""data":{"k":"v"}"#) && first.contains("config-spec-hash"),
        "{first}"
    );
    let mut live = applied();
    live["data"]["k"] = json!("changed");
    let second = show(with(present(live.clone())));
    assert!(
        second.contains(r#""data":{}"#) && second.contains("config-spec-hash"),
        "{second}"
    );
    let hash = ignore::ignoring(&config_map(), std::slice::from_ref(&entry))
        .unwrap()
        .hash;
    live["metadata"]["annotations"] = json!({"open-cluster-management.io/config-spec-hash": hash});
    assert_eq!(show(with(present(live))), "agrees");
    let bad = IgnoreField {
        jq_path_expressions: vec!["map(.)".into()],
        ..Default::default()
    };
    assert_eq!(
        show(Case {
            strategy: server_side(false, vec![bad]),
            ..case()
        }),
        r#"bad ignore fields: JQ expression error in 'map(.)': "map(.)" is no path"#
    );
}

#[test]
fn an_object_without_its_namespace_is_refused() {
    let mut manifest = config_map();
    manifest["metadata"] = json!({"name": "a"});
    assert_eq!(
        show(Case { manifest, ..case() }),
        "failed: an empty namespace may not be set during creation"
    );
}

#[test]
fn the_managers_of_earlier_releases_are_known_by_their_names() {
    assert_eq!(former_manager("0123456789abcdef", "web"), "work-agent/01234567/web");
    let long = former_manager("0123456789abcdef", &"x".repeat(200));
    assert!(long.starts_with("work-agent/") && long.len() <= 128);
}

#[test]
fn an_apply_includes_the_fields_of_other_works() {
    let mut live = applied();
    live["data"]["other"] = json!("1");
    live["data"]["dropped"] = json!("1");
    live["metadata"]["ownerReferences"] = json!([
        ownership::reference("hub-work", "trace"),
        ownership::reference("hub-other", "2")
    ]);
    live["metadata"]["managedFields"][0]["fieldsV1"] = json!({
        "f:data": {"f:k": {}, "f:other": {}, "f:dropped": {}},
        "f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"trace\"}": {}, "k:{\"uid\":\"2\"}": {}}}
    });
    let other = || json!({"data": {"other": "1"}});
    let shown = show(Case {
        live: present(live.clone()),
        others: vec![other()],
        ..case()
    });
    assert!(shown.contains(r#""data":{"k":"v","other":"1"}"#), "{shown}");
    assert!(
        shown.contains(r#""uid":"trace""#) && shown.contains(r#""uid":"2""#),
        "{shown}"
    );
    live["data"].as_object_mut().unwrap().remove("dropped");
    live["metadata"]["managedFields"][0]["fieldsV1"]["f:data"] = json!({"f:k": {}, "f:other": {}});
    let shown = show(Case {
        live: present(live),
        others: vec![other()],
        ..case()
    });
    assert_eq!(shown, "agrees");
}

#[test]
fn a_finalizer_is_set_at_creation_and_kept_while_present() {
    let mut manifest = config_map();
    manifest["metadata"]["finalizers"] = json!(["a/b"]);
    let with = |live: Live| {
        show(Case {
            manifest: manifest.clone(),
            live,
            ..case()
        })
    };
    assert!(with(Live::Absent).contains(r#""finalizers":["a/b"]"#));
    assert_eq!(with(present(applied())), "agrees");
    let mut held = applied();
    held["metadata"]["finalizers"] = json!(["a/b"]);
    held["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"]["f:finalizers"] = json!({"v:\"a/b\"": {}});
    assert_eq!(with(present(held.clone())), "agrees");
    held["data"]["k"] = json!("changed");
    assert!(with(present(held)).contains(r#""finalizers":["a/b"]"#));
}
