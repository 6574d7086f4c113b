//! `rbac.open-cluster-management.io`: ClusterPermissions, of the add-on cluster-permission.

use k8s_openapi::{
    api::rbac::v1::{PolicyRule, RoleRef, Subject},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

mod schema;

/// The API group of the kinds here.
pub const GROUP: &str = "rbac.open-cluster-management.io";

crate::kind::kind! {
    /// Roles and bindings that a managed cluster is to have.
    /// It lives in the cluster's namespace on the hub.
    pub struct ClusterPermission { spec: ClusterPermissionSpec, status: ClusterPermissionStatus }
    api "rbac.open-cluster-management.io" "v1alpha1" "clusterpermissions" Namespaced;
    short [];
    columns [];
    flags [status];
}

/// What the cluster is to have. At least one binding is needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPermissionSpec {
    /// Whether the roles that bindings refer to are looked for on the cluster, and what is missing is said in status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub validate: Option<bool>,
    /// A ClusterRole of the object's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_role: Option<PermissionClusterRole>,
    /// A ClusterRoleBinding; it counts only where clusterRoleBindings is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = [{
        "message": "Either subject or subjects has to exist in clusterRoleBinding",
        "rule": "has(self.subject) || has(self.subjects)",
    }]))]
    pub cluster_role_binding: Option<PermissionClusterRoleBinding>,
    /// ClusterRoleBindings.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-validations" = [{
        "message": "Either subject or subjects has to exist in every clusterRoleBinding",
        "rule": "self.all(i, has(i.subject) || has(i.subjects))",
    }]))]
    pub cluster_role_bindings: Vec<PermissionClusterRoleBinding>,
    /// Roles of the object's name, each in a namespace or in several.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub roles: Vec<PermissionRole>,
    /// RoleBindings, each in a namespace or in several.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-validations" = [{
        "message": "Either subject or subjects has to exist in every roleBinding",
        "rule": "self.all(i, has(i.subject) || has(i.subjects))",
    }]))]
    pub role_bindings: Vec<PermissionRoleBinding>,
}

/// A ClusterRole without its name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionClusterRole {
    /// What it allows.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(schema_with = "schema::rules")]
    pub rules: Vec<PolicyRule>,
}

/// A ClusterRoleBinding. A subject of kind ManagedServiceAccount in group `authentication.open-cluster-management.io`
/// stands for the ServiceAccount of that ManagedServiceAccount on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionClusterRoleBinding {
    /// Its name; without it the object's.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub name: String,
    /// The ClusterRole; without it the one of the object's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::role_ref")]
    pub role_ref: Option<RoleRef>,
    /// Who; it counts only where subjects is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::subject")]
    pub subject: Option<Subject>,
    /// Who.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "schema::subjects")]
    pub subjects: Vec<Subject>,
}

/// Roles. Exactly one of namespace and namespaceSelector is needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRole {
    /// The namespace on the cluster.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// Namespaces by the labels that they have on the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// What they allow.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    #[schemars(schema_with = "schema::rules")]
    pub rules: Vec<PolicyRule>,
}

/// RoleBindings. Exactly one of namespace and namespaceSelector is needed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRoleBinding {
    /// The name where a namespace is named; without it the object's. With namespaceSelector the name is always the
    /// object's.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub name: String,
    /// The namespace on the cluster.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub namespace: String,
    /// Namespaces by the labels that they have on the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::label_selector")]
    pub namespace_selector: Option<LabelSelector>,
    /// The role.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub role_ref: PermissionRoleRef,
    /// Who; it counts only where subjects is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::subject")]
    pub subject: Option<Subject>,
    /// Who.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "schema::subjects")]
    pub subjects: Vec<Subject>,
}

/// A role that a RoleBinding refers to. Without group and name it is the one of the object's name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionRoleRef {
    /// `Role` or `ClusterRole`.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub kind: String,
    /// The API group of the role.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub api_group: String,
    /// The name of the role.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub name: String,
}

/// What has become of the roles and bindings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPermissionStatus {
    /// Whether the object can be carried out, was, and what is missing.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::plain_conditions")]
    pub conditions: Vec<Condition>,
    /// Each role and binding on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_status: Option<PermissionResources>,
}

/// Roles and bindings, in the order of the manifests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PermissionResources {
    /// ClusterRoles.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub cluster_roles: Vec<ClusterPermissionResource>,
    /// ClusterRoleBindings.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub cluster_role_bindings: Vec<ClusterPermissionResource>,
    /// Roles.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub roles: Vec<NamespacePermissionResource>,
    /// RoleBindings.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub role_bindings: Vec<NamespacePermissionResource>,
}

/// What has become of one ClusterRole or ClusterRoleBinding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterPermissionResource {
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// Whether it was applied. The field is a list, and its name is not.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::plain_conditions")]
    pub condition: Vec<Condition>,
}

/// What has become of one Role or RoleBinding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespacePermissionResource {
    /// Its name.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub name: String,
    /// Its namespace on the cluster.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub namespace: String,
    /// Whether it was applied. The field is a list, and its name is not.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::plain_conditions")]
    pub condition: Vec<Condition>,
}

/// Condition types of a ClusterPermission and their reasons.
pub mod conditions {
    /// Whether the object can be carried out.
    pub const VALIDATION: &str = "Validation";
    /// Whether its ManifestWork was applied.
    pub const APPLIED_WORK: &str = "AppliedRBACManifestWork";
    /// Whether the Roles that it refers to are on the cluster.
    pub const ROLES_EXIST: &str = "ValidateRolesExist";
    /// Whether the ClusterRoles that it refers to are on the cluster.
    pub const CLUSTER_ROLES_EXIST: &str = "ValidateClusterRolesExist";
    /// Of one resource: whether it was applied.
    pub const APPLIED: &str = "Applied";

    /// Their reasons.
    pub mod reason {
        /// There is no binding.
        pub const NO_BINDINGS: &str = "FailedValidationNoBindingsDefined";
        /// The namespace is not a cluster's.
        pub const NO_CLUSTER: &str = "FailedValidationNotInManagedClusterNamespace";
        /// Nothing is wrong any more. Upstream never says so.
        pub const VALID: &str = "Validated";
        /// The manifests cannot be made.
        pub const BUILD_FAILED: &str = "FailedBuildManifestWork";
        /// The ManifestWork was not applied yet.
        pub const NOT_COMPLETE: &str = "ApplyRBACManifestWorkNotComplete";
        /// All Roles are there.
        pub const ALL_ROLES: &str = "AllRolesFound";
        /// Some Role is missing.
        pub const ROLES_MISSING: &str = "RolesNotFound";
        /// All ClusterRoles are there.
        pub const ALL_CLUSTER_ROLES: &str = "AllClusterRolesFound";
        /// Some ClusterRole is missing.
        pub const CLUSTER_ROLES_MISSING: &str = "ClusterRolesNotFound";
        /// One resource was applied.
        pub const APPLIED: &str = "AppliedManifestComplete";
        /// One resource was not applied.
        pub const NOT_APPLIED: &str = "FailedApplyManifest";
        /// Nothing is known of one resource.
        pub const UNKNOWN: &str = "FailedGetManifestCondition";
    }
}
