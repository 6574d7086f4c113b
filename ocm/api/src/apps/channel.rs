//! Channel: where Subscriptions take applications from.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::ObjectReference;

crate::kind::kind! {
    /// A place that applications come from: a Git repository, a Helm repository or a bucket.
    pub struct Channel { spec: ChannelSpec, status: ChannelStatus }
    api "apps.open-cluster-management.io" "v1" "channels" Namespaced;
    short [];
    columns [
        ("Type", "string", ".spec.type"),
        ("Pathname", "string", ".spec.pathname"),
        ("Age", "date", ".metadata.creationTimestamp"),
    ];
    flags [spec_required];
}

/// What a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelType {
    /// A namespace of the hub.
    Namespace,
    /// A Helm repository.
    HelmRepo,
    /// A bucket of an object store.
    ObjectBucket,
    /// A Git repository.
    Git,
}

/// Where the place is and how it is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelSpec {
    /// Git, HelmRepo or ObjectBucket; GitHub is Git. The spelling in lower case is the same.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    #[schemars(extend("enum" = [
        "Namespace", "HelmRepo", "ObjectBucket", "GitHub", "Git",
        "namespace", "helmrepo", "objectbucket", "github", "git"
    ]))]
    pub r#type: String,
    /// The URL of the repository or of the bucket.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub pathname: String,
    /// The Secret with the credentials: `user` and `accessToken` or `password`, `sshKey` and `passphrase`,
    /// `clientCert` and `clientKey`, `authHeader`, or `AccessKeyID`, `SecretAccessKey` and `Region`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<ObjectReference>,
    /// The ConfigMap with `caCerts`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ObjectReference>,
    /// Which objects of a namespace are taken; without effect for the other types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gates: Option<ChannelGate>,
    /// Whether the certificate of the server is left unchecked.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "crate::null::to_default"
    )]
    pub insecure_skip_verify: bool,
    /// The namespaces that a Channel of type Namespace takes objects from.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub source_namespaces: Vec<String>,
}

/// Which objects are taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChannelGate {
    /// Their name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub name: String,
    /// Annotations that they have.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub annotations: BTreeMap<String, String>,
    /// Their labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::subscription::atomic_selector")]
    pub label_selector: Option<LabelSelector>,
}

/// Nothing is told of a Channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelStatus {}

impl ChannelSpec {
    /// What the place is; `None` when `type` is none of the known ones.
    pub fn channel_type(&self) -> Option<ChannelType> {
        match self.r#type.to_ascii_lowercase().as_str() {
            "namespace" => Some(ChannelType::Namespace),
            "helmrepo" => Some(ChannelType::HelmRepo),
            "objectbucket" => Some(ChannelType::ObjectBucket),
            "git" | "github" => Some(ChannelType::Git),
            _ => None,
        }
    }
}
