//! Group `about.k8s.io`: the Kubernetes project's own word for what OCM calls a claim.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The API group.
pub const GROUP: &str = "about.k8s.io";

crate::kind::kind! {
    /// One fact about a cluster, kept on the cluster.
    pub struct ClusterProperty { spec: ClusterPropertySpec, status: ClusterPropertyStatus }
    api "about.k8s.io" "v1alpha1" "clusterproperties" Cluster;
    short [];
    columns [("value", "string", ".spec.value"), ("age", "date", ".metadata.creationTimestamp")];
    flags [status];
}

/// The fact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPropertySpec {
    /// The property's value.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 1))]
    pub value: String,
}

/// Nothing yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterPropertyStatus {}
