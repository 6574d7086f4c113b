//! `apps.open-cluster-management.io`: GitOpsClusters, of the add-on argocd-pull.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    condition::Condition,
    object::{ObjectReference, RawObject},
};

pub mod conditions;

/// The API group of the kinds here.
pub const GROUP: &str = "apps.open-cluster-management.io";

crate::kind::kind! {
    /// Clusters of a Placement that an Argo CD on the hub deploys to by the agents of Argo CD.
    pub struct GitOpsCluster { spec: GitOpsClusterSpec, status: GitOpsClusterStatus }
    api "apps.open-cluster-management.io" "v1alpha1" "gitopsclusters" Namespaced;
    short ["gitopscluster", "goc"];
    columns [("Age", "date", ".metadata.creationTimestamp")];
    flags [status];
}

/// Which clusters, and how their agents are set up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitOpsClusterSpec {
    /// The Placement in the object's namespace that chooses the clusters.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub placement_ref: ObjectReference,
    /// The agents of Argo CD.
    #[serde(default, rename = "argoCDAgentAddon", deserialize_with = "crate::null::to_default")]
    pub argo_cd_agent_addon: ArgoCdAgentAddonSpec,
}

/// How the agents of Argo CD are set up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArgoCdAgentAddonSpec {
    /// The host name or address by which agents reach the principal on the hub. Where it is empty it is found by the
    /// Service of the principal and written here.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub principal_server_address: String,
    /// The port of the principal, found as the address is.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub principal_server_port: String,
    /// `managed`: Applications are managed on the hub; or `autonomous`: on the clusters. Empty is managed.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    #[schemars(extend("x-default" = "managed"))]
    pub mode: String,
    /// The namespace of Argo CD's operator on the clusters.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub operator_namespace: String,
    /// The namespace of the agent on the clusters.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub agent_namespace: String,
    /// What clusters get in the place of the ArgoCD that the controller makes.
    #[serde(default, rename = "argoCDCRManifestWork", skip_serializing_if = "Option::is_none")]
    pub argo_cd_cr_manifest_work: Option<ArgoCdManifestWorkSpec>,
}

/// Objects for clusters, an ArgoCD among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArgoCdManifestWorkSpec {
    /// The objects. At least one is of kind ArgoCD in `argoproj.io/v1beta1`.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(length(min = 1))]
    pub manifests: Vec<RawObject>,
}

/// How far the clusters are set up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitOpsClusterStatus {
    /// One condition for each step.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::plain_conditions")]
    pub conditions: Vec<Condition>,
}
