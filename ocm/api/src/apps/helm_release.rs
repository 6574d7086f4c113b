//! HelmRelease: a chart on a cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::ObjectReference;

crate::kind::kind! {
    /// A chart that is installed on a cluster, as Helm does.
    pub struct HelmRelease { repo: HelmReleaseRepo, spec: Value, status: HelmReleaseStatus }
    api "apps.open-cluster-management.io" "v1" "helmreleases" Namespaced;
    short [];
    columns [];
    flags [status];
}

/// Which chart, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseRepo {
    /// Where the chart is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ChartSource>,
    /// Where it is when the first place cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alt_source: Option<AlternativeChartSource>,
    /// The name of the chart.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub chart_name: String,
    /// The version of the chart.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub version: String,
    /// The digest of the chart's archive.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub digest: String,
    /// The Secret with the credentials of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::subscription::plain_reference")]
    pub secret_ref: Option<ObjectReference>,
    /// The ConfigMap with the settings of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::subscription::plain_reference")]
    pub config_map_ref: Option<ObjectReference>,
    /// Whether the certificate of the server is left unchecked.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "crate::null::to_default"
    )]
    pub insecure_skip_verify: bool,
    /// Whether objects that the chart makes in namespaces are watched.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "crate::null::to_default"
    )]
    pub watch_namespace_scoped_resources: bool,
}

/// Where a chart is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartSource {
    /// `git`, `github` or `helmrepo`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub r#type: String,
    /// A Git repository, as older objects say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<GitChartSource>,
    /// A Git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitChartSource>,
    /// A Helm repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm_repo: Option<HelmRepositoryUrls>,
}

/// Where else a chart is, and how that is reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AlternativeChartSource {
    /// `git`, `github` or `helmrepo`.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub r#type: String,
    /// A Git repository, as older objects say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub github: Option<GitChartSource>,
    /// A Git repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub git: Option<GitChartSource>,
    /// A Helm repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub helm_repo: Option<HelmRepositoryUrls>,
    /// The Secret with the credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::subscription::plain_reference")]
    pub secret_ref: Option<ObjectReference>,
    /// The ConfigMap with the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::subscription::plain_reference")]
    pub config_map_ref: Option<ObjectReference>,
    /// Whether the certificate of the server is left unchecked.
    #[serde(
        default,
        skip_serializing_if = "std::ops::Not::not",
        deserialize_with = "crate::null::to_default"
    )]
    pub insecure_skip_verify: bool,
}

/// A chart in a Git repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitChartSource {
    /// The repository; the first that can be read.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub urls: Vec<String>,
    /// The folder of the chart.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub chart_path: String,
    /// The branch; that of HEAD when it is empty.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub branch: String,
}

/// A chart in a Helm repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepositoryUrls {
    /// The archive of the chart; the first that can be read.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "crate::null::to_list"
    )]
    pub urls: Vec<String>,
}

/// What became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseStatus {
    /// Initialized, Deployed, ReleaseFailed and Irreconcilable.
    #[serde(default, deserialize_with = "crate::null::to_list")]
    pub conditions: Vec<HelmReleaseCondition>,
    /// What is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployed_release: Option<DeployedRelease>,
}

/// One observation of a HelmRelease.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelmReleaseCondition {
    /// What is observed.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub r#type: String,
    /// True, False or Unknown.
    #[serde(default, deserialize_with = "crate::null::to_default")]
    pub status: String,
    /// Why, as one word for programs.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub reason: String,
    /// Details for people.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub message: String,
    /// When the status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// A release as it is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployedRelease {
    /// Its name.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub name: String,
    /// Its objects as YAML.
    #[serde(
        default,
        skip_serializing_if = "String::is_empty",
        deserialize_with = "crate::null::to_default"
    )]
    pub manifest: String,
}
