//! ClusterClaim: something a cluster says about itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::kind::kind! {
    /// One fact about a cluster, such as its id or platform, kept on the cluster and shown
    /// in the ManagedCluster's status.
    pub struct ClusterClaim { spec: ClusterClaimSpec }
    api "cluster.open-cluster-management.io" "v1alpha1" "clusterclaims" Cluster;
    short [];
    columns [];
    flags [];
}

/// The fact.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterClaimSpec {
    /// The claim's value.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("minLength" = 1, "maxLength" = 1024))]
    pub value: String,
}

/// Claims that are always shown on the hub, before all others.
pub const RESERVED_CLAIMS: [&str; 4] = [
    "id.k8s.io",
    "kubeversion.open-cluster-management.io",
    "platform.open-cluster-management.io",
    "product.open-cluster-management.io",
];
