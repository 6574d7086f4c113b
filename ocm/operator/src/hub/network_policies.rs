//! The network of a hub's pods, closed but for what they need (gate `NetworkPolicies`).
//! Upstream: ocm `manifests/cluster-manager/hub/networkpolicies`, of the release after the one that is installed.

use serde_json::{Value, json};

use super::{
    deployments::{self, ADD_ON_MANAGER_APP, PLACEMENT_APP, REGISTRATION_APP},
    wanted::HubObjects,
};

/// All of them.
pub const NAMES: [&str; 5] = [
    "default-deny-all",
    "allow-egress",
    "allow-intra-namespace",
    "allow-hub-ingress",
    "allow-prometheus-ingress",
];

/// The policies, if the ClusterManager asks for them.
pub fn wanted(hub: &HubObjects<'_>) -> Vec<Value> {
    if !hub.has_network_policies() {
        return Vec::new();
    }
    let of = |name: &str| format!("{}-{name}", hub.name);
    let all = [
        REGISTRATION_APP.to_owned(),
        of(deployments::REGISTRATION_WEBHOOK),
        of(deployments::WORK),
        of(deployments::WORK_WEBHOOK),
        PLACEMENT_APP.to_owned(),
        ADD_ON_MANAGER_APP.to_owned(),
        of(deployments::ADD_ON_WEBHOOK),
        of(deployments::GRPC),
    ];
    let mut answering = vec![
        of(deployments::REGISTRATION_WEBHOOK),
        of(deployments::WORK_WEBHOOK),
        of(deployments::ADD_ON_WEBHOOK),
        of(deployments::GRPC),
        PLACEMENT_APP.to_owned(),
    ];
    // In one process it answers webhooks itself.
    answering.extend(hub.is_compact().then(|| REGISTRATION_APP.to_owned()));
    let pods = |apps: &[String]| json!({"matchExpressions": [{"key": "app", "operator": "In", "values": apps}]});
    let tcp = |ports: &[i32]| -> Value { ports.iter().map(|it| json!({"port": it, "protocol": "TCP"})).collect() };
    let dns: Value = [53, 5353]
        .iter()
        .flat_map(|port| ["UDP", "TCP"].map(|protocol| json!({"port": port, "protocol": protocol})))
        .collect();

    let mut webhooks = vec![
        hub.registration_webhook.port,
        hub.work_webhook.port,
        hub.add_on_webhook.port,
        8090,
        443,
        9443,
    ];
    webhooks.extend((hub.is_compact() && hub.has_debug_server()).then(|| deployments::debug_port(hub)));
    let specs = [
        json!({"podSelector": pods(&all), "policyTypes": ["Ingress", "Egress"]}),
        json!({"podSelector": pods(&all), "policyTypes": ["Egress"], "egress": [{"ports": dns}, {"ports": tcp(&[443, 6443])}]}),
        json!({
            "podSelector": pods(&all), "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [{"podSelector": pods(&all)}]}], "egress": [{"to": [{"podSelector": pods(&all)}]}],
        }),
        json!({"podSelector": pods(&answering), "policyTypes": ["Ingress"], "ingress": [{"ports": tcp(&webhooks)}]}),
        json!({"podSelector": pods(&all), "policyTypes": ["Ingress"], "ingress": [{"ports": tcp(&[8080, 8443])}]}),
    ];
    let policies = NAMES.iter().zip(specs).map(|(name, spec)| {
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": hub.namespace}, "spec": spec,
        })
    });
    policies.collect()
}
