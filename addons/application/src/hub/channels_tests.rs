use super::*;

fn seen(kind: &str, clusters: &[&str]) -> Seen {
    let channel = json!({
        "metadata": {"name": "c", "namespace": "ch", "uid": "u"},
        "spec": {"type": kind, "pathname": "https://x", "secretRef": {"name": "s"}},
    });
    Seen {
        key: "ch/c".to_owned(),
        channel: Some(Arc::new(serde_json::from_value(channel).unwrap())),
        is_own_namespace: false,
        clusters: clusters.iter().map(|it| (*it).to_owned()).collect(),
        role: None,
        binding: None,
        serving: Vec::new(),
        is_missing_some: false,
    }
}

fn serving(annotation: Option<&str>, labels: Value, is_referenced: bool) -> ServingObject {
    let annotations = annotation.map(|it| json!({annotations::SERVING_CHANNEL: it}));
    let metadata = json!({"name": "s", "namespace": "ch", "labels": labels, "annotations": annotations});
    ServingObject {
        target: Target::namespaced::<Secret>(Site::Hub, "ch", "s"),
        metadata: serde_json::from_value(metadata).unwrap(),
        is_referenced,
    }
}

fn printed(seen: &Seen) -> String {
    format!("{:#}", ChannelAccess::plan(seen)).trim().to_owned()
}

#[test]
fn agents_of_all_clusters_may_read_a_channel() {
    let mut all = seen("Git", &["c1"]);
    let owner = r#""ownerReferences":[{"apiVersion":"apps.open-cluster-management.io/v1","blockOwnerDeletion":true,"controller":true,"kind":"Channel","name":"c","uid":"u"}]"#;
    let rules = r#"[{"apiGroups":["apps.open-cluster-management.io"],"resources":["channels"],"verbs":["get","list","watch"]},{"apiGroups":[""],"resources":["secrets","configmaps"],"verbs":["get","list","watch"]}]"#;
    let user = "system:open-cluster-management:cluster:c1:addon:application-manager:agent:application-manager";
    let group = "system:open-cluster-management:cluster:c1:addon:application-manager";
    let api = r#""apiGroup":"rbac.authorization.k8s.io","kind""#;
    let expected = format!(
        "hub: create Role ch/c {{\"metadata\":{{{owner}}},\"rules\":{rules}}}\n\
         hub: create RoleBinding ch/c {{\"metadata\":{{{owner}}},\"roleRef\":{{{api}:\"Role\",\"name\":\"c\"}},\
         \"subjects\":[{{{api}:\"User\",\"name\":\"{user}\"}},{{{api}:\"Group\",\"name\":\"{group}\"}}]}}"
    );
    assert_eq!(printed(&all), expected);
    all.role = Some(Arc::new(Role {
        rules: Some(super::rules()),
        ..Role::default()
    }));
    all.binding = Some(Arc::new(RoleBinding {
        role_ref: RoleRef {
            api_group: Some(RBAC_GROUP.to_owned()),
            kind: "Role".to_owned(),
            name: "c".to_owned(),
        },
        subjects: Some(subjects(&all.clusters)),
        ..RoleBinding::default()
    }));
    assert_eq!(printed(&all), "nothing to do");
}

#[test]
fn a_binding_of_many_clusters_names_their_group() {
    let names: BTreeSet<String> = (0..=CLUSTERS_MAX).map(|it| format!("c{it}")).collect();
    let all = subjects(&names);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].name, "system:open-cluster-management:addon:application-manager");
}

#[test]
fn a_channel_among_the_hubs_components_is_nothing_for_clusters() {
    let mut all = seen("Git", &["c1"]);
    all.is_own_namespace = true;
    assert_eq!(printed(&all), "nothing to do");
    let metadata = json!({"name": "c", "namespace": "ch", "ownerReferences": [
        {"apiVersion": "apps.open-cluster-management.io/v1", "kind": "Channel", "name": "c", "uid": "u"},
    ]});
    all.role = Some(Arc::new(serde_json::from_value(json!({"metadata": metadata})).unwrap()));
    assert_eq!(printed(&all), "hub: delete Role ch/c");
}

#[test]
fn what_a_channel_refers_to_says_so() {
    let patch = |annotation, labels, is_referenced| serving_patch(&serving(annotation, labels, is_referenced), "ch/c");
    let text = |it: Option<Value>| it.map(|it| it["metadata"].to_string());
    let none = json!({});
    let first = json!({
        "annotations": {annotations::SERVING_CHANNEL: "ch/c"},
        "labels": {labels::SERVING_CHANNEL: "true", labels::BACKUP: "app"}, "uid": null, "resourceVersion": null,
    });
    assert_eq!(text(patch(None, none, true)), Some(first.to_string()));
    let own = json!({labels::SERVING_CHANNEL: "true", labels::BACKUP: "mine"});
    assert_eq!(text(patch(Some("ch/c,x/y"), own.clone(), true)), None);
    let second = patch(Some("x/y"), own.clone(), true).unwrap();
    assert_eq!(
        second["metadata"]["annotations"][annotations::SERVING_CHANNEL],
        "ch/c,x/y"
    );
    let left = patch(Some("ch/c,x/y"), own.clone(), false).unwrap();
    assert_eq!(left["metadata"]["annotations"][annotations::SERVING_CHANNEL], "x/y");
    let last = patch(Some("ch/c"), own, false).unwrap();
    assert_eq!(
        last["metadata"]["annotations"],
        json!({annotations::SERVING_CHANNEL: null})
    );
    assert!(last["metadata"].get("labels").is_none());
}

#[test]
fn a_deleted_channel_is_forgotten() {
    let mut all = seen("Git", &[]);
    all.channel = None;
    all.serving = vec![serving(Some("ch/c"), json!({labels::SERVING_CHANNEL: "true"}), false)];
    let expected = r#"hub: patch Secret ch/s {"metadata":{"annotations":{"apps.open-cluster-management.io/serving-channel":null}}}"#;
    assert_eq!(printed(&all), expected);
}

#[test]
fn a_channel_of_a_namespace_leads_to_it() {
    let text = printed(&seen("namespace", &[]));
    assert!(
        text.contains(r#"hub: patch Channel ch/c {"spec":{"pathname":"ch"}}"#),
        "{text}"
    );
}
