//! ClusterManager: a hub.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EndpointExposure, FeatureGate, GenerationStatus, NodePlacement, RelatedResourceMeta, ResourceRequirement};
use crate::condition::Condition;

crate::kind::kind! {
    /// A hub that the operator puts on this cluster or on another one.
    pub struct ClusterManager { spec: ClusterManagerSpec, status: ClusterManagerStatus }
    api "operator.open-cluster-management.io" "v1" "clustermanagers" Cluster;
    short [];
    columns [];
    flags [status];
}

/// How the hub is deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-default" = {"deployOption": {"mode": "Default"}}))]
pub struct ClusterManagerSpec {
    /// The image of the registration component.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "quay.io/open-cluster-management/registration"))]
    pub registration_image_pull_spec: String,
    /// The image of the work component.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "quay.io/open-cluster-management/work"))]
    pub work_image_pull_spec: String,
    /// The image of the placement component.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "quay.io/open-cluster-management/placement"))]
    pub placement_image_pull_spec: String,
    /// The image of the add-on manager.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "quay.io/open-cluster-management/addon-manager"))]
    pub add_on_manager_image_pull_spec: String,
    /// The nodes for the hub's pods.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub node_placement: NodePlacement,
    /// Here or on another cluster.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = {"mode": "Default"}))]
    pub deploy_option: ClusterManagerDeployOption,
    /// Details of registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration_configuration: Option<RegistrationHubConfiguration>,
    /// Details of work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = {"workDriver": "kube"}))]
    pub work_configuration: Option<WorkHubConfiguration>,
    /// Details of placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_configuration: Option<PlacementConfiguration>,
    /// Details of the add-on manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_manager_configuration: Option<AddOnManagerConfiguration>,
    /// Details of the servers that agents reach beside the API server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_configuration: Option<ServerConfiguration>,
    /// What the hub's containers ask for and may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_requirement: Option<ResourceRequirement>,
}

/// Details of registration on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationHubConfiguration {
    /// Users whose certificate requests are approved without a human. Replaced by registrationDrivers.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub auto_approve_users: Vec<String>,
    /// Features turned on or off.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub feature_gates: Vec<FeatureGate>,
    /// The ways agents may prove who they are.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["authType"]))]
    pub registration_drivers: Vec<RegistrationDriverHub>,
    /// How clusters that the hub knows are made to join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub importer_configuration: Option<ImporterConfiguration>,
}

/// One way agents may prove who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationDriverHub {
    /// Which way.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "csr"))]
    pub auth_type: RegistrationAuthType,
    /// Details of csr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub csr: Option<CsrConfig>,
    /// Details of awsirsa.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awsirsa: Option<AwsIrsaConfig>,
    /// Details of grpc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcRegistrationConfig>,
}

/// The ways agents may prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RegistrationAuthType {
    /// With a certificate that the hub's API server signs.
    #[default]
    Csr,
    /// With an identity of AWS.
    AwsIrsa,
    /// With a certificate for the gRPC server.
    Grpc,
}

/// Details of joining by certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CsrConfig {
    /// Users whose certificate requests are approved without a human.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub auto_approved_identities: Vec<String>,
}

/// Details of joining by an identity of AWS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AwsIrsaConfig {
    /// The hub's name in AWS.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("pattern" = crate::schema::EKS_ARN))]
    pub hub_cluster_arn: String,
    /// Patterns of the cluster names in AWS that are approved without a human.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub auto_approved_identities: Vec<String>,
    /// Tags for what is made in AWS.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub tags: Vec<String>,
}

/// Details of joining by gRPC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrpcRegistrationConfig {
    /// Users whose certificate requests are approved without a human.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub auto_approved_identities: Vec<String>,
}

/// How clusters that the hub knows are made to join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImporterConfiguration {
    /// The steps that make the agent's manifests.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub renderers: Vec<String>,
}

/// Details of work on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkHubConfiguration {
    /// Features turned on or off.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub feature_gates: Vec<FeatureGate>,
    /// How works get to agents.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "kube"))]
    pub work_driver: WorkDriverType,
}

/// How works get to agents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WorkDriverType {
    /// Through the API server.
    #[default]
    Kube,
    /// As CloudEvents over MQTT.
    Mqtt,
    /// As CloudEvents over gRPC.
    Grpc,
}

/// Details of placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementConfiguration {
    /// Features turned on or off.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub feature_gates: Vec<FeatureGate>,
}

/// Details of the add-on manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnManagerConfiguration {
    /// Features turned on or off.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub feature_gates: Vec<FeatureGate>,
}

/// Details of the servers that agents reach beside the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerConfiguration {
    /// The image.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub image_pull_spec: String,
    /// Features turned on or off.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub feature_gates: Vec<FeatureGate>,
    /// The ways in.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub endpoints_exposure: Vec<EndpointExposure>,
}

/// Where the hub runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagerDeployOption {
    /// Here, or somewhere else and reached by a kubeconfig.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-default" = "Default"))]
    pub mode: ClusterManagerInstallMode,
    /// Details of Default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<DefaultClusterManagerConfiguration>,
    /// Details of Hosted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosted: Option<HostedClusterManagerConfiguration>,
}

/// Where a hub runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ClusterManagerInstallMode {
    /// On the cluster that is the hub.
    #[default]
    Default,
    /// On another cluster.
    Hosted,
}

/// The webhooks of a hub on its own cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultClusterManagerConfiguration {
    /// Of registration.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub registration_webhook_configuration: DefaultWebhookConfiguration,
    /// Of work.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub work_webhook_configuration: DefaultWebhookConfiguration,
    /// Of add-ons.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub addon_webhook_configuration: DefaultWebhookConfiguration,
}

/// The webhooks of a hub on another cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedClusterManagerConfiguration {
    /// Of registration.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub registration_webhook_configuration: HostedWebhookConfiguration,
    /// Of work.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub work_webhook_configuration: HostedWebhookConfiguration,
}

/// A webhook on the hub's own cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DefaultWebhookConfiguration {
    /// Where it listens.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub bind_configuration: BindConfiguration,
}

/// A webhook on another cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedWebhookConfiguration {
    /// The name or address by which the hub's API server reaches it.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("pattern" = crate::schema::HOST_NAME))]
    pub address: String,
    /// The port there.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = 443, "maximum" = 65535))]
    pub port: i32,
    /// Where it listens.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub bind_configuration: BindConfiguration,
}

/// Where a webhook listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindConfiguration {
    /// The webhook's port.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = 9443, "maximum" = 65535))]
    pub port: i32,
    /// The health probe's port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 8000, "maximum" = 65535))]
    pub health_probe_port: Option<i32>,
    /// The metrics' port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 8080, "maximum" = 65535))]
    pub metrics_port: Option<i32>,
    /// Whether it uses the node's network.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub host_network: bool,
}

/// How the hub is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagerStatus {
    /// The generation that was last looked at.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub observed_generation: i64,
    /// Applied, progressing, and which parts are degraded.
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
