use std::{collections::BTreeMap, sync::Arc};

use ocm_reconcile::Site;
use serde_json::{Value, json};

use super::{
    super::{Options, hosted::Way, install::HubSources, wanted::Facts},
    *,
};
use crate::{
    Layout,
    objects::{Apis, Current, WantedObject},
};

fn seen(manager: Value, layout: Layout) -> Seen {
    let options = Options {
        layout,
        ..Options::default()
    };
    Seen {
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
        options: Arc::new(options),
        manager: Some(Arc::new(serde_json::from_value(manager).unwrap())),
        elder: None,
        facts: Facts {
            replicas: 1,
            authorities: "authorities".to_owned(),
            ..Facts::default()
        },
        obstacle: None,
        way: None,
        sources: HubSources::default(),
        pods: Vec::new(),
        current: Current::default(),
        holders: Vec::new(),
        tokens: BTreeMap::new(),
        apis: Apis::default(),
    }
}

fn manager(spec: Value) -> Value {
    json!({
        "apiVersion": "operator.open-cluster-management.io/v1", "kind": "ClusterManager",
        "metadata": {"name": "cm", "uid": "u", "generation": 1, "finalizers": [FINALIZER]}, "spec": spec,
    })
}

fn printed(seen: &Seen) -> String {
    ClusterManagers::plan(seen).to_string()
}

/// The lines of a plan with the CRDs and the RBAC taken together.
fn outline(seen: &Seen) -> String {
    let lines = printed(seen);
    let mut outline: Vec<String> = Vec::new();
    for line in lines.lines() {
        let line = match line.split_once("CustomResourceDefinition") {
            Some((verb, _)) => format!("{verb}CRDs"),
            None => line.to_owned(),
        };
        if line.contains("ClusterRole") || outline.last() == Some(&line) {
            continue;
        }
        outline.push(line);
    }
    outline.join("\n")
}

#[test]
fn a_hub_in_one_deployment_is_made_in_order() {
    assert_eq!(
        outline(&seen(manager(json!({})), Layout::Compact)),
        "stage 1
hub: create Namespace open-cluster-management-hub
stage 2
hub: create CRDs
stage 3
hub: create ServiceAccount open-cluster-management-hub/registration-controller-sa
stage 4
hub: create Service open-cluster-management-hub/cluster-manager-registration-webhook
hub: create Service open-cluster-management-hub/cluster-manager-work-webhook
hub: create Service open-cluster-management-hub/cluster-manager-addon-webhook
stage 5
management: create Deployment open-cluster-management-hub/cm-registration-controller
waits: Deployments cm-registration-controller are still rolling
again in 600s"
    );
}

#[test]
fn without_certificates_nothing_that_trusts_them_is_made() {
    let mut seen = seen(manager(json!({})), Layout::Upstream);
    seen.facts.authorities.clear();
    assert_eq!(
        printed(&seen),
        "hub: create Namespace open-cluster-management-hub\nwaits: the certificates of webhooks are being made\nagain in 600s\n"
    );
}

#[test]
fn a_finalizer_comes_before_everything_else() {
    let mut manager = manager(json!({}));
    manager["metadata"]["finalizers"] = json!([]);
    let page = printed(&seen(manager, Layout::Upstream));
    assert!(
        page.starts_with("stage 1\nmanagement: patch ClusterManager cm\nstage 2\n"),
        "{page}"
    );
}

#[test]
fn a_hosted_hub_asks_for_tokens_before_its_pods() {
    let hosted = json!({"deployOption": {"mode": "Hosted", "hosted": {
        "registrationWebhookConfiguration": {"address": "hooks.example", "port": 30443},
        "workWebhookConfiguration": {"address": "10.0.0.1", "port": 31443},
    }}});
    let mut seen = seen(manager(hosted), Layout::Compact);
    seen.way = Some(Way::default());
    let page = outline(&seen);
    assert!(
        page.contains("hub: create token of ServiceAccount cm/registration-controller-sa"),
        "{page}"
    );
    assert!(!page.contains("Deployment"), "{page}");
    assert!(
        page.contains("hub: create Endpoints cm/cluster-manager-work-webhook"),
        "{page}"
    );
    assert!(page.contains("management: create Namespace cm"), "{page}");
}

#[test]
fn what_is_not_possible_is_refused_in_a_sentence() {
    let check = |spec: Value, layout: Layout, sentence: &str| {
        let page = printed(&seen(manager(spec), layout));
        assert_eq!(page.lines().nth(1).unwrap(), format!("refuses: {sentence}"));
    };
    check(
        json!({"workConfiguration": {"workDriver": "mqtt", "featureGates": [{"feature": "CloudEventsDrivers", "mode": "Enable"}]}}),
        Layout::Compact,
        "spec.workConfiguration.workDriver: mqtt is not supported; write kube",
    );
    check(
        json!({"deployOption": {"mode": "Hosted"}}),
        Layout::Upstream,
        "spec.deployOption.hosted.registrationWebhookConfiguration.address is missing: write the name or IPv4 address by \
         which the API server of the hub reaches the webhook",
    );
    let mut seen = seen(manager(json!({})), Layout::Upstream);
    seen.elder = Some("first".to_owned());
    assert!(
        printed(&seen).contains("refuses: ClusterManager first is older"),
        "{}",
        printed(&seen)
    );
}

#[test]
fn a_refused_cluster_manager_leaves_the_hub_of_the_other() {
    let mut manager = manager(json!({}));
    manager["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    let mut seen = seen(manager, Layout::Upstream);
    seen.elder = Some("first".to_owned());
    seen.current = Current::holding([WantedObject::new(
        Site::Hub,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "open-cluster-management-hub"}}),
    )]);
    assert_eq!(printed(&seen), "management: patch ClusterManager cm\n");
}

#[test]
fn an_unreachable_hub_holds_a_deletion_for_five_minutes() {
    let mut manager = manager(json!({"deployOption": {"mode": "Hosted"}}));
    manager["metadata"]["deletionTimestamp"] = "2025-12-31T23:58:00Z".into();
    let mut seen = seen(manager, Layout::Upstream);
    seen.obstacle = Some(("HubUnreachable", "no route".to_owned()));
    assert_eq!(
        printed(&seen),
        "nothing to do\nwaits: the hub cannot be reached: no route\nagain in 30s\n"
    );
    seen.now = "2026-01-01T00:03:01Z".parse().unwrap();
    assert_eq!(printed(&seen), "management: patch ClusterManager cm\n");
}
