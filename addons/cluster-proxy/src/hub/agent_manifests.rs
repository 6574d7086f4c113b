//! What a cluster gets. Upstream: cluster-proxy `pkg/proxyagent/agent/manifests/charts/addon-agent`.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use ocm_addon_sdk::{
    AddOnContext, UserError,
    kube::ResourceExt,
    ocm_api::{
        addon::AddOnDeploymentConfigSpec,
        proxy::{ManagedProxyConfiguration, ProxyEntryPointType},
    },
    values::resources,
};
use serde_json::{Value, json};

use super::{
    add_on::AgentOptions,
    resources::{GENERATION, generation},
};
use crate::{NAME, service_proxy_host};

/// The Deployment.
pub const DEPLOYMENT: &str = "cluster-proxy-proxy-agent";
const IMPERSONATOR: &str = "cluster-proxy-addon-agent-impersonator";
const ROLE: &str = "cluster-proxy-addon-agent";
const RBAC: &str = "rbac.authorization.k8s.io";
/// The name of the impersonator's binding has no suffix there.
const DEFAULT_NAMESPACE: &str = "open-cluster-management-agent-addon";
/// The nodeSelector of a hub that is its own cluster.
const NODE_SELECTOR: &str = "open-cluster-management/nodeSelector";
const SERVER_CERTIFICATES: &str = "cluster-proxy-service-proxy-server-certificates";

/// One agent.
pub struct RenderedAgent<'a> {
    /// Of which cluster.
    pub place: &'a AddOnContext,
    /// Its AddOnDeploymentConfig.
    pub config: &'a AddOnDeploymentConfigSpec,
    /// Its ManagedProxyConfiguration.
    pub configuration: &'a ManagedProxyConfiguration,
    /// How all are rendered.
    pub options: &'a AgentOptions,
    /// Where the proxy servers are.
    pub entry_point: String,
    /// The authority, PEM.
    pub authority: &'a [u8],
    /// Certificate and key of the service-proxy, if there is to be one.
    pub service_proxy: Option<(Vec<u8>, Vec<u8>)>,
    /// The image of proxy-agent.
    pub tunnel_image: String,
    /// The image of the other containers.
    pub image: String,
}

/// All objects.
///
/// # Errors
/// When what is configured contradicts itself.
pub fn all(agent: &RenderedAgent<'_>) -> Result<Vec<Value>, UserError> {
    let namespace = &agent.place.install_namespace;
    let impersonates = agent.requires_impersonation()?;
    let ca = agent.ca();
    let mut all = vec![
        json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": namespace,
                "annotations": {"addon.open-cluster-management.io/deletion-orphan": ""},
            },
        }),
        agent.object("v1", "ServiceAccount", NAME, json!({})),
        agent.object(
            "v1",
            "Secret",
            "cluster-proxy-ca",
            json!({"data": {"ca.crt": BASE64_STANDARD.encode(ca)}}),
        ),
    ];
    if let Some((certificate, key)) = &agent.service_proxy {
        let data = json!({"tls.crt": BASE64_STANDARD.encode(certificate), "tls.key": BASE64_STANDARD.encode(key)});
        all.push(agent.object("v1", "Secret", SERVER_CERTIFICATES, json!({"data": data})));
    }
    if agent.options.kube_api_proxy {
        let domain = agent.variable("serviceDomain").unwrap_or("svc.cluster.local");
        let spec = json!({"type": "ExternalName", "externalName": format!("kubernetes.default.{domain}")});
        all.push(agent.object("v1", "Service", agent.place.cluster_name(), json!({"spec": spec})));
    }
    all.extend(agent.rights(impersonates));
    if agent.options.network_policies {
        all.push(agent.network_policy());
    }
    all.push(agent.deployment()?);
    Ok(all)
}

impl RenderedAgent<'_> {
    fn object(&self, api_version: &str, kind: &str, name: &str, mut object: Value) -> Value {
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": name, "namespace": self.place.install_namespace});
        object
    }

    /// A variable of the AddOnDeploymentConfig.
    fn variable(&self, name: &str) -> Option<&str> {
        let found = self.config.customized_variables.iter().rfind(|it| it.name == name);
        found.map(|it| it.value.as_str())
    }

    fn ca(&self) -> Vec<u8> {
        let proxy = &self.config.proxy_config;
        let mut ca = Vec::new();
        if proxy.https_proxy.starts_with("https")
            && let Some(bundle) = proxy.ca_bundle.as_ref().filter(|it| !it.0.is_empty())
        {
            ca.extend_from_slice(&bundle.0);
            if !ca.ends_with(b"\n") {
                ca.push(b'\n');
            }
        }
        ca.extend_from_slice(self.authority);
        ca
    }

    /// The list that a variable with commas has.
    fn list(&self, name: &str) -> Vec<&str> {
        let text = self.variable(name).unwrap_or_default();
        text.split(',').map(str::trim).filter(|it| !it.is_empty()).collect()
    }

    fn impersonation(&self) -> &str {
        self.variable("enableImpersonation").unwrap_or("true")
    }

    /// Whether the service-proxy may stand in for others.
    fn requires_impersonation(&self) -> Result<bool, UserError> {
        if self.service_proxy.is_none() {
            return Ok(false);
        }
        let more = &self.configuration.spec.proxy_agent.additional_service_proxy_args;
        let is = |it: &str, flag: &str| it == flag || it.starts_with(&format!("{flag}="));
        if more.iter().any(|it| is(it, "--enable-impersonation")) {
            return Err(UserError::new(
                "additionalServiceProxyArgs must not set --enable-impersonation; use enableImpersonation instead",
            ));
        }
        let issuers: Vec<_> = more.iter().filter(|it| is(it, "--oidc-issuer-url")).collect();
        if issuers.len() > 1 {
            return Err(UserError::new(
                "additionalServiceProxyArgs must set --oidc-issuer-url at most once",
            ));
        }
        let issuer = self.variable("oidcIssuerURL").unwrap_or_default();
        if !issuer.is_empty() && !issuers.is_empty() {
            return Err(UserError::new(
                "configure the OIDC issuer with either oidcIssuerURL or --oidc-issuer-url in additionalServiceProxyArgs, not both",
            ));
        }
        let of_args = issuers.iter().any(|it| **it != "--oidc-issuer-url=");
        let of_hub = matches!(self.impersonation(), "1" | "t" | "T" | "TRUE" | "true" | "True");
        Ok(of_hub || !issuer.is_empty() || of_args)
    }

    fn rights(&self, impersonates: bool) -> Vec<Value> {
        let namespace = &self.place.install_namespace;
        let mut rules = Vec::new();
        if impersonates {
            rules.push(json!({"apiGroups": [""], "resources": ["users", "groups"], "verbs": ["impersonate"]}));
        }
        rules.push(json!({
            "apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"],
        }));
        let binding = if namespace == DEFAULT_NAMESPACE {
            IMPERSONATOR.to_owned()
        } else {
            format!("{IMPERSONATOR}:{namespace}")
        };
        let account = json!([{"kind": "ServiceAccount", "name": NAME, "namespace": namespace}]);
        let version = format!("{RBAC}/v1");
        let leases = json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]});
        let maps = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]});
        vec![
            json!({
                "apiVersion": version, "kind": "ClusterRole", "metadata": {"name": IMPERSONATOR}, "rules": rules,
            }),
            json!({
                "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": binding},
                "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": IMPERSONATOR},
                "subjects": account,
            }),
            self.object(&version, "Role", ROLE, json!({"rules": [leases, maps]})),
            self.object(
                &version,
                "RoleBinding",
                ROLE,
                json!({
                    "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": ROLE},
                    "subjects": account,
                }),
            ),
        ]
    }

    fn deployment(&self) -> Result<Value, UserError> {
        let agent = &self.configuration.spec.proxy_agent;
        let cluster = self.place.cluster_name();
        let annotations = BTreeMap::from([(GENERATION, generation(self.configuration).to_string())]);
        let mut of_pod = json!(annotations);
        of_pod["target.workload.openshift.io/management"] = r#"{"effect": "PreferredDuringScheduling"}"#.into();
        let labels = json!({
            "open-cluster-management.io/addon": NAME,
            "proxy.open-cluster-management.io/component-name": "proxy-agent",
        });
        let mut containers = vec![self.proxy_agent(), self.addon_agent()];
        let secret = |name: &str, secret: &str| json!({"name": name, "secret": {"secretName": secret}});
        let mut volumes = vec![
            secret("ca", "cluster-proxy-ca"),
            secret(
                "hub",
                "cluster-proxy-open-cluster-management.io-proxy-agent-signer-client-cert",
            ),
            secret("hub-kubeconfig", "cluster-proxy-hub-kubeconfig"),
        ];
        if self.service_proxy.is_some() {
            containers.push(self.service_proxy()?);
            let map = &agent.additional_service_ca_config_map;
            if !map.is_empty() {
                volumes.push(json!({"name": "additional-service-ca", "configMap": {"name": map, "optional": true}}));
            }
            volumes.push(secret("service-proxy-server-cert", SERVER_CERTIFICATES));
        }
        let mut pod = json!({
            "hostAliases": [{"ip": "127.0.0.1", "hostnames": [service_proxy_host(cluster)]}],
            "serviceAccount": NAME,
            "serviceAccountName": NAME,
            "terminationGracePeriodSeconds": 40,
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "tolerations": self.tolerations(),
            "containers": containers,
            "volumes": volumes,
        });
        let selector = self.node_selector()?;
        if !selector.is_empty() {
            pod["nodeSelector"] = json!(selector);
        }
        if !agent.image_pull_secrets.is_empty() {
            let secrets = agent.image_pull_secrets.iter();
            pod["imagePullSecrets"] = secrets.map(|it| json!({"name": it})).collect();
        }
        let replicas = match self.variable("replicas") {
            Some(text) => text
                .parse()
                .map_err(|_| UserError::new(format!("invalid replicas: {text:?} is no number")))?,
            None => agent.replicas,
        };
        let mut deployment = self.object(
            "apps/v1",
            "Deployment",
            DEPLOYMENT,
            json!({
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {"metadata": {"annotations": of_pod, "labels": labels}, "spec": pod},
                },
            }),
        );
        deployment["metadata"]["annotations"] = json!(annotations);
        Ok(deployment)
    }

    fn tolerations(&self) -> Value {
        if let Some(placement) = &self.config.node_placement {
            return json!(placement.tolerations);
        }
        json!([
            {"key": "dedicated", "operator": "Equal", "value": "infra", "effect": "NoSchedule"},
            {"key": "node-role.kubernetes.io/infra", "operator": "Exists", "effect": "NoSchedule"},
        ])
    }

    fn node_selector(&self) -> Result<BTreeMap<String, String>, UserError> {
        if let Some(placement) = &self.config.node_placement {
            return Ok(placement.node_selector.clone());
        }
        let cluster = &self.place.cluster;
        let is_hub = cluster.labels().get("local-cluster").is_some_and(|it| it == "true");
        let Some(text) = cluster.annotations().get(NODE_SELECTOR).filter(|_| is_hub) else {
            return Ok(BTreeMap::new());
        };
        serde_json::from_str(text).map_err(|error| {
            UserError::new(format!(
                "failed to unmarshal nodeSelector annotation of cluster {}, {error}",
                cluster.name_any()
            ))
        })
    }

    fn container(&self, name: &str, image: &str, command: &str, args: Vec<String>) -> Value {
        let mut container = json!({
            "name": name,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": [command],
            "args": args,
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "privileged": false,
                "runAsNonRoot": true,
                "readOnlyRootFilesystem": true,
            },
        });
        let requirements = &self.config.resource_requirements;
        if let Some(of_it) = resources::of_container(requirements, "deployments", DEPLOYMENT, name) {
            container["resources"] = json!(of_it);
        }
        container
    }

    fn proxy_agent(&self) -> Value {
        let agent = &self.configuration.spec.proxy_agent;
        let cluster = self.place.cluster_name();
        let mut hosts = vec![service_proxy_host(cluster)];
        if self.options.kube_api_proxy {
            hosts.extend([
                cluster.to_owned(),
                format!("{cluster}.{}", self.place.install_namespace),
            ]);
        }
        let hosts: Vec<_> = hosts.into_iter().map(|it| format!("host={it}")).collect();
        let entry = self.configuration.spec.proxy_server.entrypoint.as_ref();
        let host = self.variable("serviceEntryPoint").unwrap_or(&self.entry_point);
        let port = entry.map_or(8091, |it| it.port).to_string();
        let port = self.variable("serviceEntryPointPort").unwrap_or(&port);
        let mut args = vec![
            format!("--proxy-server-host={host}"),
            format!("--proxy-server-port={port}"),
            format!("--agent-identifiers={}", hosts.join("&")),
            "--ca-cert=/etc/ca/ca.crt".to_owned(),
            "--agent-cert=/etc/tls/tls.crt".to_owned(),
            "--agent-key=/etc/tls/tls.key".to_owned(),
        ];
        args.extend(agent.additional_args.iter().cloned());
        let mut container = self.container("proxy-agent", &self.tunnel_image, "/proxy-agent", args);
        container["livenessProbe"] = json!({
            "httpGet": {"path": "/healthz", "scheme": "HTTP", "port": 8888},
            "initialDelaySeconds": 10, "failureThreshold": 1, "periodSeconds": 10,
        });
        let proxy = &self.config.proxy_config;
        let variables = [
            ("HTTP_PROXY", proxy.http_proxy.as_str()),
            ("HTTPS_PROXY", &proxy.https_proxy),
            ("NO_PROXY", &proxy.no_proxy),
            ("ROOT_CA_CERT", "/etc/ca/ca.crt"),
        ];
        let variables = variables.iter().filter(|(_, value)| !value.is_empty());
        container["env"] = variables
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        container["volumeMounts"] = json!([mount("ca", "/etc/ca"), mount("hub", "/etc/tls")]);
        container
    }

    fn addon_agent(&self) -> Value {
        let server = &self.configuration.spec.proxy_server;
        let mut args = vec![
            "--v=2".to_owned(),
            "--hub-kubeconfig=/etc/kubeconfig/kubeconfig".to_owned(),
            format!("--cluster-name={}", self.place.cluster_name()),
            format!("--proxy-server-namespace={}", server.namespace),
        ];
        let entry = server.entrypoint.as_ref().map(|it| it.kind).unwrap_or_default();
        if entry == ProxyEntryPointType::PortForward {
            args.push("--enable-port-forward-proxy=true".to_owned());
        }
        let mut container = self.container("addon-agent", &self.image, "/agent", args);
        container["volumeMounts"] = json!([mount("hub-kubeconfig", "/etc/kubeconfig/"), mount("hub", "/etc/tls")]);
        container["env"] = pod_namespace();
        container
    }

    fn service_proxy(&self) -> Result<Value, UserError> {
        let agent = &self.configuration.spec.proxy_agent;
        let has_services_ca = !agent.additional_service_ca_config_map.is_empty();
        let mut args = vec!["service-proxy".to_owned()];
        if has_services_ca {
            args.push("--additional-service-ca=/additional-service-ca/service-ca.crt".to_owned());
        }
        args.extend([
            format!("--enable-impersonation={}", self.impersonation()),
            "--cert=/server-cert/tls.crt".to_owned(),
            "--key=/server-cert/tls.key".to_owned(),
            "--hub-kubeconfig=/etc/kubeconfig/kubeconfig".to_owned(),
        ]);
        args.extend(self.oidc()?);
        args.extend(agent.additional_service_proxy_args.iter().cloned());
        let mut container = self.container("service-proxy", &self.image, "/cluster-proxy", args);
        let probe = |path: &str, first: Option<u8>, period: u8| {
            let mut probe = json!({"httpGet": {"path": path, "port": 8000}, "periodSeconds": period});
            if let Some(first) = first {
                probe["initialDelaySeconds"] = first.into();
            }
            probe
        };
        container["livenessProbe"] = probe("/healthz", Some(2), 10);
        container["readinessProbe"] = probe("/readyz", None, 2);
        let mut mounts = vec![mount("hub-kubeconfig", "/etc/kubeconfig/"), mount("hub", "/etc/tls")];
        if has_services_ca {
            mounts.push(mount("additional-service-ca", "/additional-service-ca"));
        }
        mounts.push(mount("service-proxy-server-cert", "/server-cert"));
        container["volumeMounts"] = mounts.into();
        container["env"] = pod_namespace();
        Ok(container)
    }

    /// The flags for tokens of an OIDC issuer.
    fn oidc(&self) -> Result<Vec<String>, UserError> {
        let text = |name: &str| self.variable(name).unwrap_or_default();
        let (issuer, client) = (text("oidcIssuerURL"), text("oidcClientID"));
        if issuer.is_empty() != client.is_empty() {
            return Err(UserError::new(
                "oidcIssuerURL and oidcClientID must be specified together",
            ));
        }
        if issuer.is_empty() {
            return Ok(Vec::new());
        }
        let mut flags = vec![
            format!("--oidc-issuer-url={issuer}"),
            format!("--oidc-client-id={client}"),
        ];
        for (flag, name) in [
            ("username-claim", "oidcUsernameClaim"),
            ("username-prefix", "oidcUsernamePrefix"),
            ("groups-claim", "oidcGroupsClaim"),
            ("groups-prefix", "oidcGroupsPrefix"),
        ] {
            if !text(name).is_empty() {
                flags.push(format!("--oidc-{flag}={}", text(name)));
            }
        }
        let reserved = match self.variable("oidcReservedNamePrefixes") {
            None => vec!["system:"],
            Some(_) => self.list("oidcReservedNamePrefixes"),
        };
        flags.push(format!("--oidc-reserved-name-prefixes={}", reserved.join(",")));
        let algorithms = self.list("oidcSigningAlgs");
        if !algorithms.is_empty() {
            flags.push(format!("--oidc-signing-algs={}", algorithms.join(",")));
        }
        if !text("oidcRequiredClaimsJSON").is_empty() {
            let claims: BTreeMap<String, Value> = serde_json::from_str(text("oidcRequiredClaimsJSON"))
                .map_err(|_| UserError::new("oidcRequiredClaimsJSON must be a JSON object"))?;
            for (claim, value) in claims {
                let value = value
                    .as_str()
                    .ok_or_else(|| UserError::new("oidcRequiredClaimsJSON values must be strings"))?;
                flags.push(format!("--oidc-required-claim={claim}={value}"));
            }
        }
        if !text("oidcCAConfigMap").is_empty() {
            flags.push(format!("--oidc-ca-configmap={}", text("oidcCAConfigMap")));
        }
        Ok(flags)
    }

    fn network_policy(&self) -> Value {
        let port = |protocol: &str, port: i32| json!({"protocol": protocol, "port": port});
        let entry = self.configuration.spec.proxy_server.entrypoint.as_ref();
        let labels = json!({
            "open-cluster-management.io/addon": NAME,
            "proxy.open-cluster-management.io/component-name": "proxy-agent",
        });
        let mut egress = vec![
            json!({"ports": [port("UDP", 53), port("TCP", 53), port("UDP", 5353), port("TCP", 5353)]}),
            json!({"ports": [port("TCP", 443), port("TCP", 6443), port("TCP", entry.map_or(8091, |it| it.port))]}),
        ];
        if self.service_proxy.is_some() {
            // It reaches any Service.
            egress.push(json!({}));
        }
        let mut policy = self.object(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "cluster-proxy-proxy-agent-network-policy",
            json!({
                "spec": {
                    "podSelector": {"matchLabels": labels},
                    "policyTypes": ["Ingress", "Egress"],
                    "ingress": [{"ports": [port("TCP", 8000), port("TCP", 7443)]}],
                    "egress": egress,
                },
            }),
        );
        policy["metadata"]["labels"] = labels;
        policy
    }
}

fn mount(name: &str, path: &str) -> Value {
    json!({"name": name, "mountPath": path, "readOnly": true})
}

fn pod_namespace() -> Value {
    json!([{"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}])
}

#[cfg(test)]
#[path = "agent_manifests_tests.rs"]
mod tests;
