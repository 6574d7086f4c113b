//! AppliedManifestWork: what a work left on a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::kind::kind! {
    /// The trace of a ManifestWork on its cluster: the owner of what was applied, so that all of it can be found and
    /// removed even when the hub is gone.
    pub struct AppliedManifestWork { spec: AppliedManifestWorkSpec, status: AppliedManifestWorkStatus }
    api "work.open-cluster-management.io" "v1" "appliedmanifestworks" Cluster;
    short [];
    columns [];
    flags [status];
}

/// Which work this is the trace of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkSpec {
    /// Hex SHA-256 of the hub's address.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub hub_hash: String,
    /// The agent that applies the work; another agent leaves this object alone.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    #[serde(rename = "agentID")]
    pub agent_id: String,
    /// The ManifestWork's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub manifest_work_name: String,
}

/// What the work left.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestWorkStatus {
    /// Every object that was applied and is not yet gone.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub applied_resources: Vec<AppliedManifestResourceMeta>,
    /// Since when the work is missing on the hub; after a grace period its objects are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_start_time: Option<Time>,
}

/// One applied object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppliedManifestResourceMeta {
    /// The API group; empty for the core group.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub group: String,
    /// The plural name of its resource.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub resource: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// Its namespace; empty when it has none.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-optional" = true))]
    pub namespace: String,
    /// The API version it was applied with.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub version: String,
    /// Its uid, to never delete a successor of the same name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub uid: String,
}
