//! ManagedCluster: a cluster as the hub sees it.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// How long a lease lasts when the object does not say.
const LEASE_SECONDS_DEFAULT: i32 = 60;

crate::kind::kind! {
    /// A cluster that a hub manages or is asked to manage.
    /// The cluster's agent creates it; an administrator of the hub accepts it by setting `hubAcceptsClient`. The two
    /// together make the cluster joined.
    pub struct ManagedCluster { spec: ManagedClusterSpec, status: ManagedClusterStatus }
    api "cluster.open-cluster-management.io" "v1" "managedclusters" Cluster;
    short ["mcl", "mcls"];
    columns [
        ("Hub Accepted", "boolean", ".spec.hubAcceptsClient"),
        ("Managed Cluster URLs", "string", ".spec.managedClusterClientConfigs[*].url"),
        ("Joined", "string", ".status.conditions[?(@.type==\"ManagedClusterJoined\")].status"),
        ("Available", "string", ".status.conditions[?(@.type==\"ManagedClusterConditionAvailable\")].status"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    flags [status];
}

/// What is wanted of a managed cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterSpec {
    /// How the hub could reach the cluster's API server, where that is wanted.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub managed_cluster_client_configs: Vec<ClientConfig>,
    /// Whether the hub lets the cluster's agent in. Setting it needs the right `accept` on the cluster.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub hub_accepts_client: bool,
    /// How many seconds may pass between two heartbeats of the agent; the hub allows for five of them.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = 60))]
    pub lease_duration_seconds: i32,
    /// Marks that keep placements away from the cluster unless they tolerate them.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub taints: Vec<Taint>,
}

impl ManagedClusterSpec {
    /// The lease duration that holds: 60 seconds when the object does not say.
    pub fn lease_seconds(&self) -> i32 {
        if self.lease_duration_seconds == 0 {
            LEASE_SECONDS_DEFAULT
        } else {
            self.lease_duration_seconds
        }
    }
}

/// One way to reach a cluster's API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClientConfig {
    /// The https address.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub url: String,
    /// The certificates to trust there, PEM, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub ca_bundle: Option<ByteString>,
}

/// A mark that keeps placements away.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// The taint's name, a label key.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("maxLength" = 316, "pattern" = crate::schema::QUALIFIED_NAME))]
    pub key: String,
    /// The taint's value.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("maxLength" = 1024))]
    pub value: String,
    /// What the taint does to placements that do not tolerate it.
    pub effect: TaintEffect,
    /// When the taint was added; the hub sets it.
    #[serde(default)]
    #[schemars(extend("x-optional" = true))]
    #[schemars(extend("x-nullable" = true))]
    pub time_added: Option<Time>,
}

/// What a taint does to placements that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// They may not choose the cluster, and leave it when they have.
    NoSelect,
    /// They choose it only when no other is left.
    PreferNoSelect,
    /// They may keep it but not newly choose it.
    NoSelectIfNew,
}

impl Taint {
    /// The hub has not heard from the cluster.
    pub const UNREACHABLE: &'static str = "cluster.open-cluster-management.io/unreachable";
    /// The cluster says that it is not well.
    pub const UNAVAILABLE: &'static str = "cluster.open-cluster-management.io/unavailable";
}

/// What is known of a managed cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterStatus {
    /// Accepted, joined, available, clock in step, and what else there is to say.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// What all nodes together have.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "crate::schema::quantities")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What the schedulable nodes together can give.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(schema_with = "crate::schema::quantities")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// The cluster's Kubernetes version.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub version: ManagedClusterVersion,
    /// What the cluster says about itself.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub cluster_claims: Vec<ManagedClusterClaim>,
    /// Namespaces that the cluster's sets want managed.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["clusterSet", "name"]))]
    pub managed_namespaces: Vec<ClusterSetManagedNamespace>,
}

/// Versions of what runs a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterVersion {
    /// The API server's version, such as `v1.34.1`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub kubernetes: String,
}

/// A claim as the hub shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedClusterClaim {
    /// The name of the ClusterClaim or ClusterProperty.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("minLength" = 1, "maxLength" = 253))]
    pub name: String,
    /// Its value.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("minLength" = 1, "maxLength" = 1024))]
    pub value: String,
}

/// A namespace that a cluster set wants managed on this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSetManagedNamespace {
    /// The namespace's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("maxLength" = 63, "pattern" = crate::schema::DNS_LABEL))]
    pub name: String,
    /// The cluster set that wants it.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub cluster_set: String,
    /// Whether the namespace is there.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::conditions")]
    pub conditions: Vec<Condition>,
}
