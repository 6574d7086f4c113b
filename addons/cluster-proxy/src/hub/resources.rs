//! What proxy servers are deployed with. Upstream: cluster-proxy `pkg/proxyserver/controllers/manifests.go`.

use std::collections::BTreeMap;

use ocm_addon_sdk::{
    kube::{ResourceExt, core::ApiResource},
    ocm_api::proxy::ManagedProxyConfiguration,
    reconcile::{Site, Target},
    spec_hash,
};
use serde_json::{Value, json};

use super::{HubOptions, identities, owner};
use crate::NAME;

/// Of what configuration an object was rendered.
pub const GENERATION: &str = "proxy.open-cluster-management.io/configuration-generation";
/// From what it was rendered.
pub const RENDERED_HASH: &str = "proxy.open-cluster-management.io/rendered-hash";
/// Of what TLS profile a Deployment was rendered.
pub const TLS_HASH: &str = "proxy.open-cluster-management.io/tls-config-hash";
const COMPONENT: &str = "proxy.open-cluster-management.io/component-name";
/// The Secret with the authority's certificate alone.
pub const CA_SECRET: &str = "proxy-server-ca";
const PORT_FORWARD: &str = "cluster-proxy-addon-agent:portforward";

/// The labels of the proxy servers' pods.
pub fn selector() -> BTreeMap<String, String> {
    [(COMPONENT.to_owned(), "proxy-server".to_owned())].into()
}

/// One object.
pub struct ServerObject {
    /// Where it is.
    pub target: Target,
    /// What it says.
    pub object: Value,
}

/// All of them, in the order in which they are written.
pub fn all(configuration: &ManagedProxyConfiguration, ca: &[u8], options: &HubOptions) -> Vec<ServerObject> {
    let server = &configuration.spec.proxy_server;
    let core = ("", "v1");
    let rbac = ("rbac.authorization.k8s.io", "v1");
    let ca = serde_json::to_value(super::bytes(ca)).unwrap_or_default();
    let mut all = vec![(core, "ServiceAccount", "serviceaccounts", NAME, json!({}))];
    let service = json!({
        "spec": {
            "selector": selector(),
            "type": "ClusterIP",
            "ports": [
                {"name": "proxy-server", "port": 8090, "protocol": "TCP", "targetPort": 8090},
                {"name": "agent-server", "port": 8091, "protocol": "TCP", "targetPort": 8091},
            ],
        },
    });
    if options.deploys_servers {
        all.push((core, "Service", "services", &server.in_cluster_service_name, service));
    }
    all.push((core, "Secret", "secrets", CA_SECRET, json!({"data": {"ca.crt": ca}})));
    let name = configuration.name_any();
    if options.deploys_servers {
        let deployment = deployment(configuration, options);
        all.push((("apps", "v1"), "Deployment", "deployments", &name, deployment));
        let rules = json!({"rules": [
            {"apiGroups": [""], "resources": ["pods", "pods/portforward"], "verbs": ["*"]},
        ]});
        all.push((rbac, "Role", "roles", PORT_FORWARD, rules));
        let binding = json!({
            "roleRef": {"apiGroup": rbac.0, "kind": "Role", "name": PORT_FORWARD},
            "subjects": [{"apiGroup": rbac.0, "kind": "Group", "name": identities::GROUP}],
        });
        all.push((rbac, "RoleBinding", "rolebindings", PORT_FORWARD, binding));
    }
    let all = all
        .into_iter()
        .map(|((group, version), kind, plural, name, mut object)| {
            let api_version = if group.is_empty() {
                version.to_owned()
            } else {
                format!("{group}/{version}")
            };
            let hash = spec_hash::of(&object);
            let mut annotations = BTreeMap::from([
                (GENERATION.to_owned(), generation(configuration).to_string()),
                (RENDERED_HASH.to_owned(), hash),
            ]);
            if kind == "Deployment" {
                annotations.insert(TLS_HASH.to_owned(), options.tls.hash());
            }
            object["apiVersion"] = api_version.clone().into();
            object["kind"] = kind.into();
            object["metadata"]["name"] = name.into();
            object["metadata"]["namespace"] = server.namespace.clone().into();
            object["metadata"]["ownerReferences"] = json!([owner(configuration)]);
            object["metadata"]["annotations"] = json!(annotations);
            let api_resource = ApiResource {
                group: group.to_owned(),
                version: version.to_owned(),
                api_version,
                kind: kind.to_owned(),
                plural: plural.to_owned(),
            };
            let target = Target {
                site: Site::Hub,
                api_resource,
                namespace: Some(server.namespace.clone()),
                name: name.to_owned(),
            };
            ServerObject { target, object }
        });
    all.collect()
}

/// The configuration's generation.
pub fn generation(configuration: &ManagedProxyConfiguration) -> i64 {
    configuration.metadata.generation.unwrap_or_default()
}

fn deployment(configuration: &ManagedProxyConfiguration, options: &HubOptions) -> Value {
    let server = &configuration.spec.proxy_server;
    let secrets = &configuration.spec.authentication.dump.secrets;
    let generation = generation(configuration).to_string();
    let mut args = vec![
        format!("--server-count={}", server.replicas),
        "--proxy-strategies=destHost".to_owned(),
        "--server-ca-cert=/etc/server-ca-pki/ca.crt".to_owned(),
        "--server-cert=/etc/server-pki/tls.crt".to_owned(),
        "--server-key=/etc/server-pki/tls.key".to_owned(),
        "--cluster-ca-cert=/etc/server-ca-pki/ca.crt".to_owned(),
        "--cluster-cert=/etc/agent-pki/tls.crt".to_owned(),
        "--cluster-key=/etc/agent-pki/tls.key".to_owned(),
    ];
    args.extend(server.additional_args.iter().cloned());
    args.extend(options.tls.flags());
    let volumes = [
        ("proxy-server-ca-certs", CA_SECRET, "/etc/server-ca-pki/"),
        (
            "proxy-server-certs",
            &secrets.signing_proxy_server_secret_name,
            "/etc/server-pki/",
        ),
        (
            "proxy-agent-certs",
            &secrets.signing_agent_server_secret_name,
            "/etc/agent-pki/",
        ),
    ];
    let mounts = volumes.map(|(name, _, path)| json!({"name": name, "readOnly": true, "mountPath": path}));
    let volumes = volumes.map(|(name, secret, _)| json!({"name": name, "secret": {"secretName": secret}}));
    let mut pod = json!({
        "serviceAccountName": NAME,
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "proxy-server",
            "image": server.image,
            "imagePullPolicy": options.image_pull_policy,
            "command": ["/proxy-server"],
            "args": args,
            "securityContext": {
                "capabilities": {"drop": ["ALL"]},
                "privileged": false,
                "runAsNonRoot": true,
                "readOnlyRootFilesystem": true,
                "allowPrivilegeEscalation": false,
            },
            "volumeMounts": mounts,
        }],
        "volumes": volumes,
    });
    let placement = &server.node_placement;
    if !placement.node_selector.is_empty() {
        pod["nodeSelector"] = json!(placement.node_selector);
    }
    if !placement.tolerations.is_empty() {
        pod["tolerations"] = json!(placement.tolerations);
    }
    json!({
        "metadata": {"labels": {GENERATION: generation}},
        "spec": {
            "replicas": server.replicas,
            "selector": {"matchLabels": selector()},
            "strategy": {"type": "Recreate"},
            "template": {
                // A change of the configuration starts the servers anew.
                "metadata": {"labels": selector(), "annotations": {GENERATION: generation}},
                "spec": pod,
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(replicas: i32) -> ManagedProxyConfiguration {
        serde_json::from_value(json!({
            "metadata": {"name": "cluster-proxy", "uid": "u", "generation": 2},
            "spec": {
                "authentication": {},
                "proxyServer": {"image": "i", "namespace": "ns", "replicas": replicas, "additionalArgs": ["--v=2"]},
                "proxyAgent": {"image": "i"},
            },
        }))
        .unwrap()
    }

    #[test]
    fn proxy_servers_are_rendered_as_upstreams() {
        let all = all(&configuration(2), b"ca", &HubOptions::default());
        let names: Vec<_> = all
            .iter()
            .map(|it| format!("{} {}", it.target.api_resource.kind, it.target.name))
            .collect();
        assert_eq!(
            names,
            [
                "ServiceAccount cluster-proxy",
                "Service proxy-entrypoint",
                "Secret proxy-server-ca",
                "Deployment cluster-proxy",
                "Role cluster-proxy-addon-agent:portforward",
                "RoleBinding cluster-proxy-addon-agent:portforward",
            ]
        );
        let deployment = &all[3].object;
        let args = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
        assert_eq!(args[0], "--server-count=2");
        assert_eq!(args[8], "--v=2");
        assert_eq!(args[9], "--tls-min-version=VersionTLS12");
        assert_eq!(deployment["metadata"]["annotations"][GENERATION], "2");
        assert!(deployment["metadata"]["annotations"][TLS_HASH].is_string());
        assert_eq!(all[2].object["data"]["ca.crt"], "Y2E=");
    }

    #[test]
    fn servers_of_this_process_are_not_deployed() {
        let options = HubOptions {
            deploys_servers: false,
            ..HubOptions::default()
        };
        assert_eq!(all(&configuration(1), b"ca", &options).len(), 2);
    }
}
