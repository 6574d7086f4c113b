use serde_json::{Value, json};

use super::*;

fn rule(spec: Value, decided: &[&str]) -> PlacementRule {
    let decisions: Vec<_> = decided
        .iter()
        .map(|it| json!({"clusterName": it, "clusterNamespace": it}))
        .collect();
    let status = (!decided.is_empty()).then(|| json!({"decisions": decisions}));
    serde_json::from_value(json!({
        "metadata": {"name": "r", "namespace": "ns", "uid": "u"}, "spec": spec, "status": status,
    }))
    .unwrap()
}

fn cluster(name: &str, labels: Value, conditions: Value, cpu: &str) -> Arc<ManagedCluster> {
    let conditions: Vec<_> = conditions
        .as_object()
        .unwrap()
        .iter()
        .map(|(kind, status)| {
            json!({
                "type": kind, "status": status, "reason": "r", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        })
        .collect();
    let status = json!({"conditions": conditions, "allocatable": {"cpu": cpu, "memory": "1Gi"}});
    Arc::new(
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}))
            .unwrap(),
    )
}

fn fleet() -> Vec<Arc<ManagedCluster>> {
    let available = "ManagedClusterConditionAvailable";
    vec![
        cluster("a", json!({"env": "dev"}), json!({available: "True"}), "500m"),
        cluster("b", json!({"env": "dev"}), json!({available: "False"}), "2"),
        cluster("c", json!({"env": "prod"}), json!({}), "2"),
        cluster("d", json!({"env": "dev"}), json!({available: "True"}), "3"),
    ]
}

fn chosen(spec: Value, decided: &[&str]) -> Vec<String> {
    choose(&rule(spec, decided), &fleet()).unwrap()
}

#[test]
fn names_count_before_labels() {
    assert_eq!(chosen(json!({}), &[]), ["a", "b", "c", "d"]);
    let dev = json!({"matchLabels": {"env": "dev"}});
    assert_eq!(chosen(json!({"clusterSelector": dev}), &[]), ["a", "b", "d"]);
    let named = json!({"clusters": [{"name": "c"}, {"name": "x"}], "clusterSelector": dev});
    assert_eq!(chosen(named, &[]), ["c"]);
}

#[test]
fn decisions_stay_while_they_may() {
    assert_eq!(chosen(json!({"clusterReplicas": 2}), &["d", "x"]), ["a", "d"]);
    assert_eq!(chosen(json!({"clusterReplicas": 1}), &["d", "c"]), ["d"]);
    assert!(chosen(json!({"clusterReplicas": 0}), &["d"]).is_empty());
    assert_eq!(chosen(json!({"clusterReplicas": 9}), &[]).len(), 4);
}

#[test]
fn a_condition_excludes_who_has_it_otherwise() {
    let conditions = json!([{"type": "ManagedClusterConditionAvailable", "status": "True"}]);
    assert_eq!(chosen(json!({"clusterConditions": conditions}), &[]), ["a", "c", "d"]);
}

#[test]
fn a_resource_orders_clusters_whatever_was_decided() {
    let hint = |order: &str| json!({"resourceHint": {"type": "cpu", "order": order}, "clusterReplicas": 3});
    assert_eq!(chosen(hint("desc"), &["a"]), ["d", "b", "c"]);
    assert_eq!(chosen(hint(""), &["a"]), ["d", "b", "c"]);
    assert_eq!(chosen(hint("asc"), &[]), ["a", "b", "c"]);
    assert_eq!(
        chosen(json!({"resourceHint": {"type": "memory"}}), &[]),
        ["a", "b", "c", "d"]
    );
}

fn printed(seen: &Seen) -> String {
    format!("{:#}", PlacementRuleDecisions::plan(seen)).trim().to_owned()
}

#[test]
fn decisions_are_said_in_both_kinds() {
    let spec = json!({"clusters": [{"name": "a"}]});
    let mut seen = Seen {
        rule: Some(Arc::new(rule(spec.clone(), &[]))),
        clusters: fleet(),
        decisions: Vec::new(),
        visible: VisibleClusters::All,
    };
    let status = r#"{"status":{"decisions":[{"clusterName":"a","clusterNamespace":"a"}]}}"#;
    let owner = r#"{"apiVersion":"apps.open-cluster-management.io/v1","blockOwnerDeletion":true,"controller":true,"kind":"PlacementRule","name":"r","uid":"u"}"#;
    let expected = format!(
        "hub: patch PlacementRule ns/r status {status}\n\
         hub: create PlacementDecision ns/r-decision-1 {{\"metadata\":{{\"labels\":{{\"{PLACEMENT_RULE_LABEL}\":\"r\"}},\
         \"ownerReferences\":[{owner}]}}}}"
    );
    assert_eq!(printed(&seen), expected);
    let mut said = decision(seen.rule.as_deref().unwrap(), "r-decision-1");
    seen.rule = Some(Arc::new(rule(spec, &["a"])));
    seen.decisions = vec![
        Arc::new(said.clone()),
        Arc::new(decision(seen.rule.as_deref().unwrap(), "r-decision-2")),
    ];
    let expected = r#"hub: patch PlacementDecision ns/r-decision-1 status {"status":{"decisions":[{"clusterName":"a","reason":""}]}}
hub: delete PlacementDecision ns/r-decision-2 "#;
    assert_eq!(printed(&seen), expected.trim());
    said.status = serde_json::from_value(json!({"decisions": [{"clusterName": "a"}]})).unwrap();
    seen.decisions = vec![Arc::new(said)];
    assert_eq!(printed(&seen), "nothing to do");
}

#[test]
fn a_rule_of_another_scheduler_is_left_alone() {
    let seen = Seen {
        rule: Some(Arc::new(rule(json!({"schedulerName": "mine"}), &["a"]))),
        clusters: fleet(),
        decisions: Vec::new(),
        visible: VisibleClusters::All,
    };
    assert_eq!(printed(&seen), "nothing to do\nnote: another scheduler decides");
}

#[test]
fn an_author_gets_only_clusters_that_they_may_look_at() {
    let mut rule = rule(json!({}), &[]);
    let author = (
        ocm_addon_sdk::ocm_api::apps::annotations::USER_IDENTITY.to_owned(),
        "Ym9i".to_owned(),
    );
    rule.metadata.annotations = Some([author].into());
    let seen = Seen {
        rule: Some(Arc::new(rule)),
        clusters: fleet(),
        decisions: Vec::new(),
        visible: VisibleClusters::Named(["b".to_owned(), "x".to_owned()].into()),
    };
    let text = printed(&seen);
    assert!(
        text.contains(r#"{"decisions":[{"clusterName":"b","clusterNamespace":"b"}]}"#),
        "{text}"
    );
    assert!(text.ends_with("again in 60s"), "{text}");
}
