//! What the agent's pods may be reached from and reach, with the feature gate `NetworkPolicies`.
//! Upstream: ocm `manifests/klusterlet/management/*-networkpolicy.yaml`. We differ in this: an agent that is two
//! Deployments is as free as one, and ports that the hub's and the cluster's own addresses name are let through.

use ocm_reconcile::{Site, Target};
use serde_json::{Value, json};

use super::settings::{AgentSettings, NetworkPolicies};
use crate::objects::{self, WantedObject};

const NAMES: [&str; 4] = [
    "default-deny-all",
    "allow-dns-and-api",
    "klusterlet",
    "klusterlet-agent",
];

/// Their targets, where there may be some.
pub fn targets(settings: &AgentSettings) -> Vec<Target> {
    if settings.network_policies == NetworkPolicies::None {
        return Vec::new();
    }
    let target = |name| objects::target(Site::Management, "NetworkPolicy", Some(&settings.agent_namespace), name);
    NAMES.map(target).to_vec()
}

/// The policies.
pub fn policies(settings: &AgentSettings) -> Vec<WantedObject> {
    let [deny, api, klusterlet, agent] = NAMES;
    let of_app = |app: &str| json!({"matchLabels": {"app": app}});
    let same_namespace = json!([{"from": [{"podSelector": {}}]}]);
    let to_same_namespace = json!({"to": [{"podSelector": {}}]});
    let policy = |name: &str, spec: Value| {
        let metadata = json!({"name": name, "namespace": settings.agent_namespace, "labels": settings.labels});
        WantedObject::new(
            Site::Management,
            json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata, "spec": spec}),
        )
    };
    let mut hub_ports = settings.api_ports.clone();
    hub_ports.extend([443, 6443]);
    hub_ports.sort_unstable();
    hub_ports.dedup();
    vec![
        policy(deny, json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})),
        policy(
            api,
            json!({"podSelector": {}, "policyTypes": ["Egress"], "egress": [
                {"ports": both(5353)},
                {"ports": both(53)},
                {"ports": hub_ports.into_iter().map(tcp).collect::<Vec<_>>()},
            ]}),
        ),
        policy(
            klusterlet,
            json!({
                "podSelector": of_app("klusterlet"),
                "policyTypes": ["Ingress", "Egress"],
                "ingress": same_namespace,
                "egress": [to_same_namespace, {"ports": [tcp(443)]}],
            }),
        ),
        policy(
            agent,
            json!({
                "podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": AGENTS}]},
                "policyTypes": ["Ingress", "Egress"],
                "ingress": same_namespace,
                "egress": [{"ports": [tcp(443)]}, {"ports": [tcp(9443)]}, to_same_namespace],
            }),
        ),
    ]
}

const AGENTS: [&str; 3] = [
    "klusterlet-agent",
    "klusterlet-registration-agent",
    "klusterlet-manifestwork-agent",
];

fn tcp(port: u16) -> Value {
    json!({"protocol": "TCP", "port": port})
}

fn both(port: u16) -> Value {
    json!([{"protocol": "UDP", "port": port}, tcp(port)])
}
