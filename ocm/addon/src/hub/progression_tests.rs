use ocm_api::addon::v1alpha1::ClusterManagementAddOnStatus;
use serde_json::{Value, json};

use super::*;

fn offer(spec: Value, status: Value) -> ClusterManagementAddOn {
    let offer = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
    serde_json::from_value(offer).unwrap()
}

fn after(offer: &ClusterManagementAddOn) -> Value {
    let status = ClusterManagementAddOnStatus {
        default_config_references: defaults(offer),
        install_progressions: progressions(offer),
    };
    serde_json::to_value(status).unwrap()
}

fn reference(resource: &str, name: &str, hash: &str) -> Value {
    json!({"group": "g", "resource": resource, "desiredConfig": {"name": name, "specHash": hash}})
}

fn spec(placements: Value) -> Value {
    json!({
        "supportedConfigs": [
            {"group": "g", "resource": "b", "defaultConfig": {"name": "b0"}},
            {"group": "g", "resource": "a", "defaultConfig": {"name": "a0"}},
            {"group": "g", "resource": "c"},
            {"group": "g", "resource": "d", "defaultConfig": {"name": "__reserved_no_default__"}},
        ],
        "installStrategy": {"type": "Placements", "placements": placements},
    })
}

#[test]
fn placements_override_the_default_configurations_kind_by_kind() {
    let own = json!([
        {"group": "g", "resource": "b", "name": "b2"}, {"group": "g", "resource": "b", "name": "b1"},
        {"group": "g", "resource": "b", "name": "b2"}, {"group": "g", "resource": "c", "name": "c1"},
    ]);
    let placements = json!([{"namespace": "n", "name": "p1"}, {"namespace": "n", "name": "p2", "configs": own}]);
    assert_eq!(
        after(&offer(spec(placements), json!({}))),
        json!({
            "defaultconfigReferences": [reference("b", "b0", ""), reference("a", "a0", "")],
            "installProgressions": [
                {"namespace": "n", "name": "p1", "configReferences": [reference("a", "a0", ""), reference("b", "b0", "")]},
                {"namespace": "n", "name": "p2", "configReferences": [
                    reference("a", "a0", ""), reference("b", "b2", ""), reference("b", "b1", ""), reference("c", "c1", "")
                ]},
            ],
        })
    );
}

#[test]
fn a_progression_keeps_its_state_while_its_configurations_stay() {
    let mut applied = reference("a", "a0", "h1");
    applied["lastAppliedConfig"] = json!({"name": "a0", "specHash": "h1"});
    let condition = json!({"type": "Progressing", "status": "False", "reason": "Completed", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let before = json!({
        "defaultconfigReferences": [reference("b", "b0", "h2"), reference("a", "a0", "h1")],
        "installProgressions": [{
            "namespace": "n", "name": "p1", "configReferences": [applied, reference("b", "b0", "h2")], "conditions": [condition],
        }],
    });
    let same = offer(spec(json!([{"namespace": "n", "name": "p1"}])), before.clone());
    assert_eq!(after(&same), before);
    assert!(is_told(&same));
    assert!(Progression::plan(&Some(Arc::new(same))).is_empty());

    let changed = json!([{"namespace": "n", "name": "p1", "configs": [{"group": "g", "resource": "b", "name": "b9"}]}]);
    assert_eq!(
        after(&offer(spec(changed), before))["installProgressions"],
        json!([{"namespace": "n", "name": "p1", "configReferences": [reference("a", "a0", "h1"), reference("b", "b9", "")]}])
    );
}

#[test]
fn a_manually_installed_add_on_has_no_progressions() {
    let mut by_hand = spec(json!([]));
    by_hand["installStrategy"] = json!({"type": "Manual"});
    let before = json!({"installProgressions": [{"namespace": "n", "name": "p1"}]});
    assert_eq!(
        after(&offer(by_hand, before)),
        json!({"defaultconfigReferences": [reference("b", "b0", ""), reference("a", "a0", "")]})
    );
}

#[test]
fn an_add_on_that_manages_itself_keeps_its_progressions() {
    let before = json!({"installProgressions": [{"namespace": "n", "name": "p1"}]});
    let mut own = offer(spec(json!([])), before);
    own.metadata.annotations = Some(
        [(
            "addon.open-cluster-management.io/lifecycle".to_owned(),
            "self".to_owned(),
        )]
        .into(),
    );
    assert_eq!(progressions(&own).len(), 1);
}
