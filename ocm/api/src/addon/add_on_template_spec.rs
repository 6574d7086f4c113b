//! What an AddOnTemplate says, in both versions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::work::ManifestWorkSpec;

/// An add-on made of a template alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddOnTemplateSpec {
    /// The add-on's name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub addon_name: String,
    /// The work for every cluster; its manifests may hold variables in double curly brackets.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub agent_spec: ManifestWorkSpec,
    /// How the add-on's agent is let into the hub.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub registration: Vec<TemplateRegistration>,
}

/// One way an add-on's agent is let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateRegistration {
    /// As a client of the hub's API server or with a certificate of another signer.
    pub r#type: TemplateRegistrationType,
    /// Details of KubeClient.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kube_client: Option<TemplateKubeClient>,
    /// Details of CustomSigner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_signer: Option<TemplateCustomSigner>,
}

/// The ways an add-on's agent is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TemplateRegistrationType {
    /// As a client of the hub's API server.
    KubeClient,
    /// With a certificate of another signer.
    CustomSigner,
}

/// What an add-on's agent may do on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateKubeClient {
    /// Its permissions.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub hub_permissions: Vec<HubPermission>,
}

/// One permission of an add-on's agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HubPermission {
    /// Where it holds.
    pub r#type: HubPermissionType,
    /// Details of CurrentCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_cluster: Option<CurrentClusterBinding>,
    /// Details of SingleNamespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub single_namespace: Option<SingleNamespaceBinding>,
}

/// Where a permission holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HubPermissionType {
    /// In the agent's own cluster namespace.
    CurrentCluster,
    /// In one namespace for the agents of all clusters.
    SingleNamespace,
}

/// A permission in the agent's own cluster namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CurrentClusterBinding {
    /// The ClusterRole that lists the rights.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub cluster_role_name: String,
}

/// A permission in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SingleNamespaceBinding {
    /// The namespace.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub namespace: String,
    /// The role that lists the rights.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    pub role_ref: RoleRef,
}

/// Names a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoleRef {
    /// Always rbac.authorization.k8s.io.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub api_group: String,
    /// Role or ClusterRole.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub kind: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
}

/// A certificate of another signer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateCustomSigner {
    /// The signer's name, a domain and a path.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("minLength" = 5, "maxLength" = 571, "pattern" = crate::schema::SIGNER_NAME))]
    pub signer_name: String,
    /// Who the certificate is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<TemplateSubject>,
    /// The Secret with the signer's key.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[serde(rename = "signingCA")]
    pub signing_ca: SigningCaRef,
}

/// Who a certificate is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateSubject {
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

/// A Secret with a signer's key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SigningCaRef {
    /// Its namespace; the hub's when empty.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
}
