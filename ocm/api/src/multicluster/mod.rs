//! Group `multicluster.x-k8s.io`: the multicluster SIG's own word for a managed cluster.

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::object::RawObject;

/// The API group.
pub const GROUP: &str = "multicluster.x-k8s.io";

crate::kind::kind! {
    /// A cluster as consumers in one namespace see it.
    pub struct ClusterProfile { spec: ClusterProfileSpec, status: ClusterProfileStatus }
    api "multicluster.x-k8s.io" "v1alpha1" "clusterprofiles" Namespaced;
    short [];
    columns [];
    flags [status, spec_required];
}

/// Which cluster, and who manages it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileSpec {
    /// The cluster's name for people.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub display_name: String,
    /// Who manages the cluster; never changes.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "ClusterManager is immutable"}]))]
    pub cluster_manager: ClusterManagerReference,
}

/// Who manages a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterManagerReference {
    /// The manager's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
}

/// What is known of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterProfileStatus {
    /// Whether the cluster has joined and is well.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::plain_conditions")]
    pub conditions: Vec<Condition>,
    /// The cluster's versions.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub version: ClusterVersion,
    /// What the cluster says about itself.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub properties: Vec<Property>,
    /// Ways to reach the cluster; the old name of accessProviders.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub credential_providers: Vec<AccessProvider>,
    /// Ways to reach the cluster.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub access_providers: Vec<AccessProvider>,
}

/// Versions of what runs a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersion {
    /// The API server's version.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub kubernetes: String,
}

/// One fact about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Property {
    /// The fact's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1, "maxLength" = 253))]
    pub name: String,
    /// Its value.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1, "maxLength" = 1024))]
    pub value: String,
    /// When it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_observed_time: Option<Time>,
}

/// A way to reach a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessProvider {
    /// The kind of credential that opens it.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// The cluster, as a kubeconfig would say it.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub cluster: ConnectionTarget,
}

/// A cluster as a kubeconfig would say it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ConnectionTarget {
    /// The API server's address.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub server: String,
    /// The name to expect in the server's certificate, when it is not the address's.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub tls_server_name: String,
    /// Whether not to check the server's certificate.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub insecure_skip_tls_verify: bool,
    /// A file with the certificates to trust.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub certificate_authority: String,
    /// The certificates to trust, PEM, base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::bytes")]
    pub certificate_authority_data: Option<ByteString>,
    /// A proxy on the way.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub proxy_url: String,
    /// Whether not to compress answers.
    #[serde(
        default,
        skip_serializing_if = "crate::null::is_default",
        deserialize_with = "crate::null::to_default"
    )]
    pub disable_compression: bool,
    /// Anything else, by name.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub extensions: Vec<NamedExtension>,
}

/// Anything else about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamedExtension {
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// An object of any shape.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub extension: RawObject,
}
