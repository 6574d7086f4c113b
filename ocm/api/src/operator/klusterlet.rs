//! Klusterlet: an agent.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    FeatureGate, GenerationStatus, NodePlacement, RegistrationAuthType, RelatedResourceMeta, ResourceRequirement,
};
use crate::addon::KubeClientDriver;
use crate::condition::Condition;

crate::kind::kind! {
    /// An agent that the operator puts on this cluster or on another one.
    pub struct Klusterlet { spec: KlusterletSpec, status: KlusterletStatus }
    api "operator.open-cluster-management.io" "v1" "klusterlets" Cluster;
    short [];
    columns [];
    flags [status];
}

/// How the agent is deployed and which cluster it speaks for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KlusterletSpec {
    /// The agent's namespace.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("maxLength" = 57, "pattern" = "^open-cluster-management-[-a-z0-9]*[a-z0-9]$"))]
    pub namespace: String,
    /// The image of the registration agent.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub registration_image_pull_spec: String,
    /// The image of the work agent.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub work_image_pull_spec: String,
    /// The image when both agents are one process.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub image_pull_spec: String,
    /// The cluster's name on the hub; made up when empty.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("maxLength" = 63, "pattern" = crate::schema::DNS_LABEL))]
    pub cluster_name: String,
    /// How the hub could reach the cluster's API server, where that is wanted.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[serde(rename = "externalServerURLs")]
    pub external_server_urls: Vec<ServerUrl>,
    /// The nodes for the agent's pods.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub node_placement: NodePlacement,
    /// Here or on another cluster, one process or two.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub deploy_option: KlusterletDeployOption,
    /// Details of registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_configuration: Option<RegistrationConfiguration>,
    /// Details of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_configuration: Option<WorkAgentConfiguration>,
    /// An address for the hub's name, where DNS does not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hub_api_server_host_alias: Option<HubApiServerHostAlias>,
    /// What the agent's containers ask for and may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_requirement: Option<ResourceRequirement>,
    /// The priority of the agent's pods.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub priority_class_name: String,
}

/// One way to reach the cluster's API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerUrl {
    /// The https address.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub url: String,
    /// The certificates to trust there, PEM, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub ca_bundle: Option<ByteString>,
}

/// Where the agent runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KlusterletDeployOption {
    /// Default, Hosted, Singleton or SingletonHosted.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub mode: String,
}

/// An address for the hub's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubApiServerHostAlias {
    /// The address.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("pattern" = crate::schema::IPV4))]
    pub ip: String,
    /// The name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("pattern" = crate::schema::HOST_NAME))]
    pub hostname: String,
}

/// Details of registration on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationConfiguration {
    /// How long the agent's certificate should live; the signer decides when it is 0.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub client_cert_expiration_seconds: i32,
    /// Features turned on or off.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub feature_gates: Vec<FeatureGate>,
    /// Annotations for the ManagedCluster.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub cluster_annotations: BTreeMap<String, String>,
    /// Labels for the ManagedCluster.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub cluster_labels: BTreeMap<String, String>,
    /// Requests per second to the cluster's API server.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[serde(rename = "kubeAPIQPS")]
    #[schemars(extend("x-default" = 50))]
    pub kube_api_qps: i32,
    /// Requests at once to the cluster's API server.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[serde(rename = "kubeAPIBurst")]
    #[schemars(extend("x-default" = 100))]
    pub kube_api_burst: i32,
    /// The hubs to try.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub bootstrap_kube_configs: BootstrapKubeConfigs,
    /// How the agent proves who it is.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub registration_driver: RegistrationDriver,
    /// Which claims the hub gets to see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_claim_configuration: Option<ClusterClaimConfiguration>,
    /// How add-ons' agents prove who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_kube_client_registration_driver: Option<AddOnRegistrationDriver>,
}

/// The hubs to try.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BootstrapKubeConfigs {
    /// One hub, or those of several Secrets.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "None"))]
    pub r#type: BootstrapKubeConfigType,
    /// Details of LocalSecrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_secrets_config: Option<LocalSecretsConfig>,
}

/// Where bootstrap kubeconfigs come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BootstrapKubeConfigType {
    /// From the one Secret of the fixed name.
    #[default]
    None,
    /// From several Secrets.
    LocalSecrets,
}

/// Several hubs to try.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LocalSecretsConfig {
    /// One Secret per hub, the best first.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    pub kube_config_secrets: Vec<KubeConfigSecret>,
    /// After how many seconds without a hub the next one is tried.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = 600, "minimum" = 180))]
    pub hub_connection_timeout_seconds: i32,
}

/// A Secret with a bootstrap kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeConfigSecret {
    /// The Secret's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
}

/// How the agent proves who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationDriver {
    /// Which way.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "csr"))]
    pub auth_type: RegistrationAuthType,
    /// Details of awsirsa.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_irsa: Option<AwsIrsa>,
}

/// The two clusters' names in AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwsIrsa {
    /// The hub's.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1, "pattern" = crate::schema::EKS_ARN))]
    pub hub_cluster_arn: String,
    /// The cluster's.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1, "pattern" = crate::schema::EKS_ARN))]
    pub managed_cluster_arn: String,
}

/// Which claims the hub gets to see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimConfiguration {
    /// How many beside the reserved ones.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = 20))]
    pub max_custom_cluster_claims: i32,
    /// Endings of names that are reserved too.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::claim_suffixes")]
    pub reserved_cluster_claim_suffixes: Vec<String>,
}

/// How add-ons' agents prove who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnRegistrationDriver {
    /// With a certificate or with a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_type: Option<KubeClientDriver>,
    /// Details of token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<TokenConfig>,
}

/// Details of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenConfig {
    /// How long a token should live; the API server decides when it is 0.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub expiration_seconds: i64,
}

/// Details of work on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkAgentConfiguration {
    /// Features turned on or off.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub feature_gates: Vec<FeatureGate>,
    /// Requests per second to the cluster's API server.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[serde(rename = "kubeAPIQPS")]
    #[schemars(extend("x-default" = 50))]
    pub kube_api_qps: i32,
    /// Requests at once to the cluster's API server.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[serde(rename = "kubeAPIBurst")]
    #[schemars(extend("x-default" = 100))]
    pub kube_api_burst: i32,
    /// Requests per second to the hub.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[serde(rename = "hubKubeAPIQPS")]
    #[schemars(extend("x-default" = 50))]
    pub hub_kube_api_qps: i32,
    /// Requests at once to the hub.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[serde(rename = "hubKubeAPIBurst")]
    #[schemars(extend("x-default" = 100))]
    pub hub_kube_api_burst: i32,
    /// After what time the objects of a work that is missing on the hub are removed, such as 60m.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("pattern" = crate::schema::DURATION))]
    pub applied_manifest_work_eviction_grace_period: String,
    /// How often upstream's agent reads the state of applied objects, such as 10s. Ours watches.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("pattern" = crate::schema::DURATION))]
    pub status_sync_interval: String,
}

/// How the agent is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KlusterletStatus {
    /// The generation that was last looked at.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub observed_generation: i64,
    /// Applied, available, and what is degraded.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The deployments as the operator last wrote them.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub generations: Vec<GenerationStatus>,
    /// Everything the operator made.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub related_resources: Vec<RelatedResourceMeta>,
}
