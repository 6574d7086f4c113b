//! ManagedClusterAddOn: an add-on on one cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::addon::{
    AddOnConfig, AddOnMeta, ConfigCoordinates, ConfigGroupResource, ConfigSpecHash, HealthCheck, KubeClientDriver,
    ObjectReference,
};
use crate::condition::Condition;

crate::kind::kind! {
    /// An add-on on one cluster. It lives in the cluster's namespace on the hub and has the add-on's name.
    pub struct ManagedClusterAddOn { spec: ManagedClusterAddOnSpec, status: ManagedClusterAddOnStatus }
    api "addon.open-cluster-management.io" "v1alpha1" "managedclusteraddons" Namespaced;
    short ["mca", "mcas"];
    columns [
        ("Available", "string", ".status.conditions[?(@.type==\"Available\")].status"),
        ("Degraded", "string", ".status.conditions[?(@.type==\"Degraded\")].status"),
        ("Progressing", "string", ".status.conditions[?(@.type==\"Progressing\")].status"),
    ];
    flags [status, spec_required];
}

/// What is special about the add-on on this cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterAddOnSpec {
    /// The namespace on the cluster. Deprecated in favour of AddOnDeploymentConfig.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend(
        "x-default" = "open-cluster-management-agent-addon", "maxLength" = 63,
        "pattern" = crate::schema::DNS_LABEL
    ))]
    pub install_namespace: String,
    /// Configurations for this cluster.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub configs: Vec<AddOnConfig>,
}

/// How the add-on is on this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterAddOnStatus {
    /// Available, progressing, registered and what else there is to say.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Objects on the hub that belong to the add-on.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub related_objects: Vec<ObjectReference>,
    /// What the add-on is called.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub add_on_meta: AddOnMeta,
    /// A custom resource that configures it. Deprecated.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub add_on_configuration: ConfigCoordinates,
    /// The kinds of configuration it understands.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub supported_configs: Vec<ConfigGroupResource>,
    /// The configurations it has and gets.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub config_references: Vec<ConfigReference>,
    /// The namespace on the cluster.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// How its agent is let into the hub.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub registrations: Vec<RegistrationConfig>,
    /// How its health is known.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub health_check: HealthCheck,
    /// How its agent proves who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_client_driver: Option<KubeClientDriver>,
}

/// A configuration that the add-on has and gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigReference {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-default" = ""))]
    pub group: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub resource: String,
    /// Its namespace. Deprecated in favour of desiredConfig.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// Its name. Deprecated in favour of desiredConfig.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub name: String,
    /// The generation that was last looked at.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub last_observed_generation: i64,
    /// What is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_config: Option<ConfigSpecHash>,
    /// What was last applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_applied_config: Option<ConfigSpecHash>,
}

/// One way the add-on's agent is let in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistrationConfig {
    /// The signer's name, a domain and a path.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 5, "maxLength" = 571, "pattern" = crate::schema::SIGNER_NAME))]
    pub signer_name: String,
    /// Who the certificate is for.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub subject: Subject,
}

/// Who a certificate is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// The user.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub user: String,
    /// The groups.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub groups: Vec<String>,
    /// The organizational units.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub organization_unit: Vec<String>,
}
