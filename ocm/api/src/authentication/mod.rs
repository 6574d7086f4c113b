//! `authentication.open-cluster-management.io`: ManagedServiceAccounts, of the add-on managed-serviceaccount.
//! Both versions have one schema, and no conversion is needed between them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;

/// The API group of the kinds here.
pub const GROUP: &str = "authentication.open-cluster-management.io";

/// The version that is served besides the stored one.
pub const DEPRECATED_VERSION: &str = "v1alpha1";

/// What a client of [`DEPRECATED_VERSION`] is told.
pub const DEPRECATION_WARNING: &str = "authentication.open-cluster-management.io/v1alpha1 ManagedServiceAccount is \
     deprecated; use authentication.open-cluster-management.io/v1beta1 ManagedServiceAccount; version v1alpha1 will be \
     removed in the next release";

crate::kind::kind! {
    /// A ServiceAccount on one managed cluster, whose token is kept in a Secret of the same name beside this object.
    /// It lives in the cluster's namespace on the hub.
    pub struct ManagedServiceAccount { spec: ManagedServiceAccountSpec, status: ManagedServiceAccountStatus }
    api "authentication.open-cluster-management.io" "v1beta1" "managedserviceaccounts" Namespaced;
    short [];
    columns [];
    flags [status];
}

/// The token, and how long the object lives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedServiceAccountSpec {
    /// How the token is renewed.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub rotation: ManagedServiceAccountRotation,
    /// Seconds after its creation until the object is deleted; without it the object stays. It needs the feature gate
    /// EphemeralIdentity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "exclusiveMinimum" = true))]
    pub ttl_seconds_after_creation: Option<i32>,
}

/// How a token is renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedServiceAccountRotation {
    /// Without effect: tokens are always renewed.
    #[serde(default = "ManagedServiceAccountRotation::enabled")]
    #[schemars(extend("x-default" = true, "x-optional" = true))]
    pub enabled: bool,
    /// How long a token is asked to be valid, as a Go duration; the cluster may give less.
    #[serde(default = "ManagedServiceAccountRotation::validity")]
    #[schemars(extend("x-default" = "8640h0m0s", "x-optional" = true))]
    pub validity: String,
}

impl ManagedServiceAccountRotation {
    fn enabled() -> bool {
        true
    }

    fn validity() -> String {
        "8640h0m0s".to_owned()
    }
}

impl Default for ManagedServiceAccountRotation {
    fn default() -> Self {
        Self {
            enabled: Self::enabled(),
            validity: Self::validity(),
        }
    }
}

/// What has become of the token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ManagedServiceAccountStatus {
    /// Whether the Secret is there, and whether the token in it is the cluster's.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(schema_with = "crate::schema::plain_conditions")]
    pub conditions: Vec<Condition>,
    /// When the token ends, as the cluster says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_timestamp: Option<Time>,
    /// The Secret with the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_secret_ref: Option<TokenSecretRef>,
}

/// A Secret with a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenSecretRef {
    /// Its name; it is in the namespace of the ManagedServiceAccount.
    pub name: String,
    /// When the token in it was written.
    pub last_refresh_timestamp: Time,
}

/// Condition types of a ManagedServiceAccount and their reasons.
pub mod conditions {
    /// The Secret is there.
    pub const SECRET_CREATED: &str = "SecretCreated";
    /// The token in the Secret is the cluster's.
    pub const TOKEN_REPORTED: &str = "TokenReported";
    /// The reason of [`TOKEN_REPORTED`] when it is False.
    pub const TOKEN_REPORT_FAILED: &str = "TokenReportFailed";
}

/// Labels of what belongs to a ManagedServiceAccount.
pub mod labels {
    /// On its ServiceAccount on the cluster and its Secret on the hub: `true`.
    pub const IS_MANAGED: &str = "authentication.open-cluster-management.io/is-managed-serviceaccount";
    /// On a ManagedServiceAccount whose token is wanted beside the ClusterProfiles of its cluster: `true`.
    pub const SYNC_TO_CLUSTER_PROFILE: &str = "authentication.open-cluster-management.io/sync-to-clusterprofile";
    /// On the copy of a Secret beside a ClusterProfile: namespace and name of the ManagedServiceAccount, joined by `-`.
    pub const SYNCED_FROM: &str = "authentication.open-cluster-management.io/synced-from";
}
