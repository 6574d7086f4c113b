//! What an AddOnDeploymentConfig says, in both versions.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an add-on's agent is deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnDeploymentConfigSpec {
    /// Variables for the add-on's manifests.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub customized_variables: Vec<CustomizedVariable>,
    /// The nodes for its pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,
    /// Where its images come from.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub registries: Vec<ImageMirror>,
    /// The proxy for its connections.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub proxy_config: ProxyConfig,
    /// The namespace on the cluster; empty leaves it to the add-on.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend(
        "x-default" = "open-cluster-management-agent-addon", "maxLength" = 63,
        "pattern" = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$"
    ))]
    pub agent_install_namespace: String,
    /// What its containers ask for and may use.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["containerID"]))]
    pub resource_requirements: Vec<ContainerResourceRequirements>,
}

/// A variable for an add-on's manifests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CustomizedVariable {
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("maxLength" = 255, "pattern" = "^[a-zA-Z_][_a-zA-Z0-9]*$"))]
    pub name: String,
    /// Its value.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("maxLength" = 1024))]
    pub value: String,
}

/// The nodes for pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodePlacement {
    /// Labels the nodes must have.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub node_selector: BTreeMap<String, String>,
    /// Taints the nodes may have.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::node_tolerations")]
    pub tolerations: Vec<Toleration>,
}

/// Takes images from somewhere else.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageMirror {
    /// The beginning of the names to replace; all when empty.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub source: String,
    /// What to replace it by.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub mirror: String,
}

/// The proxy for connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProxyConfig {
    /// For http.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub http_proxy: String,
    /// For https.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub https_proxy: String,
    /// The certificates to trust there, PEM, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "caBundle")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub ca_bundle: Option<ByteString>,
    /// Addresses to reach without it, separated by commas.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub no_proxy: String,
}

/// What some containers ask for and may use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerResourceRequirements {
    /// Which containers: type, workload and container with colons between them; each may be an asterisk.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[serde(rename = "containerID")]
    #[schemars(extend("pattern" = "^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\\*):.+:.+$"))]
    pub container_id: String,
    /// The amounts.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(schema_with = "crate::schema::container_resources")]
    pub resources: ResourceRequirements,
}
