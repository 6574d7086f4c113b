//! `proxy.open-cluster-management.io`: ManagedProxyConfigurations, of the add-on cluster-proxy.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{condition::Condition, operator::NodePlacement};

/// The API group of the kinds here.
pub const GROUP: &str = "proxy.open-cluster-management.io";

crate::kind::kind! {
    /// How the hub's proxy servers and the agents of the add-on cluster-proxy run. The add-on reads the one that is
    /// named `cluster-proxy`.
    pub struct ManagedProxyConfiguration {
        spec: ManagedProxyConfigurationSpec,
        status: ManagedProxyConfigurationStatus,
    }
    api "proxy.open-cluster-management.io" "v1alpha1" "managedproxyconfigurations" Cluster;
    short [];
    columns [];
    flags [status];
}

/// The servers, their agents and their certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedProxyConfigurationSpec {
    /// How certificates are made, and where they are kept.
    pub authentication: ProxyAuthentication,
    /// The proxy servers on the hub.
    pub proxy_server: ProxyServerSpec,
    /// The agents on the clusters.
    pub proxy_agent: ProxyAgentSpec,
    /// Without effect, as upstream: the servers listen on the default ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deploy: Option<ProxyDeploy>,
    /// Where it is given, a certificate for the user-server is kept in Secret `cluster-proxy-user-serving-cert`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_server: Option<UserServerSpec>,
}

/// How certificates are made, and where they are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyAuthentication {
    /// Who signs.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub signer: ProxySigner,
    /// Where certificates are kept.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub dump: ProxyDump,
}

/// Who signs certificates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxySigner {
    /// The kind of signer. All are served as SelfSigned.
    #[serde(default, rename = "type")]
    #[schemars(extend("x-default" = "SelfSigned", "x-optional" = true))]
    pub kind: ProxySignerType,
    /// Of a signer that is an authority of the add-on's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_signed: Option<ProxySelfSigned>,
}

/// Kinds of signers.
#[allow(missing_docs)] // A variant with a text of its own would be an alternative of its own in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProxySignerType {
    #[default]
    SelfSigned,
    Provided,
    CertManager,
}

/// An authority of the add-on's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxySelfSigned {
    /// Host names and addresses that the certificates of the proxy servers have besides their own.
    #[serde(
        default,
        rename = "additionalSANs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub additional_sans: Vec<String>,
}

/// Where certificates are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyDump {
    /// Secrets in the namespace of the proxy servers.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub secrets: ProxySecrets,
}

/// Names of the Secrets with certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxySecrets {
    /// What the proxy servers show to clients.
    #[schemars(extend("x-default" = "proxy-server", "x-optional" = true))]
    pub signing_proxy_server_secret_name: String,
    /// What clients show to the proxy servers.
    #[schemars(extend("x-default" = "proxy-client", "x-optional" = true))]
    pub signing_proxy_client_secret_name: String,
    /// What the proxy servers show to agents.
    #[schemars(extend("x-default" = "agent-server", "x-optional" = true))]
    pub signing_agent_server_secret_name: String,
}

impl Default for ProxySecrets {
    fn default() -> Self {
        Self {
            signing_proxy_server_secret_name: "proxy-server".to_owned(),
            signing_proxy_client_secret_name: "proxy-client".to_owned(),
            signing_agent_server_secret_name: "agent-server".to_owned(),
        }
    }
}

/// The proxy servers on the hub.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyServerSpec {
    /// Their image.
    pub image: String,
    /// How many there are; each tells its agents, so that they connect to all.
    #[serde(default = "three")]
    #[schemars(extend("x-default" = 3, "x-optional" = true))]
    pub replicas: i32,
    /// The Service by which clients in the hub reach them.
    #[serde(default = "in_cluster_service_name")]
    #[schemars(extend("x-default" = "proxy-entrypoint", "x-optional" = true))]
    pub in_cluster_service_name: String,
    /// Their namespace, where the Secrets are, too.
    #[serde(default = "namespace")]
    #[schemars(extend("x-default" = "open-cluster-management-cluster-proxy", "x-optional" = true))]
    pub namespace: String,
    /// How agents reach them; without it by PortForward.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<ProxyEntryPoint>,
    /// More arguments.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub additional_args: Vec<String>,
    /// Their nodes.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub node_placement: NodePlacement,
}

fn three() -> i32 {
    3
}

fn in_cluster_service_name() -> String {
    "proxy-entrypoint".to_owned()
}

fn namespace() -> String {
    "open-cluster-management-cluster-proxy".to_owned()
}

impl Default for ProxyServerSpec {
    fn default() -> Self {
        Self {
            image: String::new(),
            replicas: three(),
            in_cluster_service_name: in_cluster_service_name(),
            namespace: namespace(),
            entrypoint: None,
            additional_args: Vec::new(),
            node_placement: NodePlacement::default(),
        }
    }
}

/// How agents reach the proxy servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyEntryPoint {
    /// The kind of entry point.
    #[serde(rename = "type")]
    pub kind: ProxyEntryPointType,
    /// Of type LoadBalancerService.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_service: Option<LoadBalancerEntryPoint>,
    /// Of type Hostname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<HostnameEntryPoint>,
    /// The port that agents connect to.
    #[serde(default = "agent_port")]
    #[schemars(extend("x-default" = 8091, "x-optional" = true, "minimum" = 1))]
    pub port: i32,
}

fn agent_port() -> i32 {
    8091
}

/// Kinds of entry points.
#[allow(missing_docs)] // A variant with a text of its own would be an alternative of its own in the schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ProxyEntryPointType {
    Hostname,
    LoadBalancerService,
    #[default]
    PortForward,
}

/// A Service of type LoadBalancer, which the add-on makes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoadBalancerEntryPoint {
    /// Its name; it is in the namespace of the proxy servers.
    #[serde(default = "load_balancer_name")]
    #[schemars(extend("x-default" = "proxy-agent-entrypoint", "x-optional" = true))]
    pub name: String,
    /// Its annotations.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub annotations: Vec<AnnotationVar>,
}

fn load_balancer_name() -> String {
    "proxy-agent-entrypoint".to_owned()
}

impl Default for LoadBalancerEntryPoint {
    fn default() -> Self {
        Self {
            name: load_balancer_name(),
            annotations: Vec::new(),
        }
    }
}

/// One annotation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnnotationVar {
    /// Its key.
    pub key: String,
    /// Its value.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub value: String,
}

/// A host that leads to the proxy servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostnameEntryPoint {
    /// A name or an address.
    pub value: String,
}

/// The agents on the clusters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyAgentSpec {
    /// Their image.
    pub image: String,
    /// How many there are on each cluster.
    #[serde(default = "three")]
    #[schemars(extend("x-default" = 3, "x-optional" = true))]
    pub replicas: i32,
    /// More arguments of proxy-agent.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub additional_args: Vec<String>,
    /// More arguments of service-proxy.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub additional_service_proxy_args: Vec<String>,
    /// Secrets on the cluster with which the image is pulled.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub image_pull_secrets: Vec<String>,
    /// A ConfigMap on the cluster with certificates of Services under the key `service-ca.crt`.
    #[serde(
        default,
        rename = "additionalServiceCAConfigMap",
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub additional_service_ca_config_map: String,
}

impl Default for ProxyAgentSpec {
    fn default() -> Self {
        Self {
            image: String::new(),
            replicas: three(),
            additional_args: Vec::new(),
            additional_service_proxy_args: Vec::new(),
            image_pull_secrets: Vec::new(),
            additional_service_ca_config_map: String::new(),
        }
    }
}

/// Details that no component reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyDeploy {
    /// Ports.
    pub ports: ProxyPorts,
}

/// The ports of a proxy server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ProxyPorts {
    /// For clients.
    #[schemars(extend("x-default" = 8090, "x-optional" = true))]
    pub proxy_server: i32,
    /// For agents.
    #[schemars(extend("x-default" = 8091, "x-optional" = true))]
    pub agent_server: i32,
    /// For probes.
    #[schemars(extend("x-default" = 8092, "x-optional" = true))]
    pub health_server: i32,
    /// For debugging.
    #[schemars(extend("x-default" = 8095, "x-optional" = true))]
    pub admin_server: i32,
}

impl Default for ProxyPorts {
    fn default() -> Self {
        Self {
            proxy_server: 8090,
            agent_server: 8091,
            health_server: 8092,
            admin_server: 8095,
        }
    }
}

/// The certificate of the user-server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UserServerSpec {
    /// Host names and addresses that it has besides its own.
    #[serde(
        default,
        rename = "additionalSANs",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub additional_sans: Vec<String>,
}

/// What has come of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedProxyConfigurationStatus {
    /// The generation that was seen last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", extend("x-optional" = true))]
    pub last_observed_generation: Option<i64>,
    /// Whether the servers run, and until when their certificates are good.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::plain_conditions")]
    pub conditions: Vec<Condition>,
}

impl LoadBalancerEntryPoint {
    /// Its annotations as a map; of two with one key the last counts.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let pairs = self.annotations.iter().map(|it| (it.key.clone(), it.value.clone()));
        pairs.collect()
    }
}

/// Condition types of a ManagedProxyConfiguration and their reasons.
pub mod conditions {
    /// The Deployment of the proxy servers is there.
    pub const PROXY_SERVER_DEPLOYED: &str = "ProxyServerDeployed";
    /// There is a certificate for clients to see.
    pub const PROXY_SERVER_SECRET_SIGNED: &str = "ProxyServerSecretSigned";
    /// There is a certificate for agents to see.
    pub const AGENT_SERVER_SECRET_SIGNED: &str = "AgentServerSecretSigned";
    /// There is a certificate of the user-server.
    pub const USER_SERVER_SECRET_SIGNED: &str = "UserServerSecretSigned";
}

/// Annotations of a ManagedProxyConfiguration.
pub mod annotations {
    /// Where the user-server is reached from outside of the hub: an https URL. Whoever exposes the user-server says it
    /// here; `drover proxy` reads it.
    pub const USER_SERVER_URL: &str = "proxy.open-cluster-management.io/user-server-url";
}
