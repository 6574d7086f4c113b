//! What a chart is made of.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map as JsonMap, Value as Json};

/// A file of a chart, named by its path inside it.
#[derive(Clone, Debug)]
pub struct File {
    pub name: String,
    pub data: Arc<[u8]>,
}

/// `Chart.yaml`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub home: String,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub icon: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub condition: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub tags: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    #[serde(skip_serializing_if = "is_false")]
    pub deprecated: bool,
    #[serde(deserialize_with = "list", skip_serializing_if = "JsonMap::is_empty")]
    pub annotations: JsonMap<String, Json>,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    #[serde(rename = "type", deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// Somebody who keeps a chart.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Maintainer {
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub email: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// A chart that this one needs, from `Chart.yaml` or `requirements.yaml`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Dependency {
    #[serde(deserialize_with = "text")]
    pub name: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(deserialize_with = "text")]
    pub repository: String,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub condition: String,
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub enabled: bool,
    #[serde(
        rename = "import-values",
        deserialize_with = "list",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub import_values: Vec<Json>,
    #[serde(deserialize_with = "text", skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

// Where Go decodes a null it leaves the zero value.
fn text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn list<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A chart with all that came with it. Reading one is separate from rendering it, so one is read once and kept.
#[derive(Clone, Debug, Default)]
pub struct Chart {
    pub metadata: Metadata,
    /// `values.yaml`.
    pub values: JsonMap<String, Json>,
    /// `values.schema.json`, which [`Chart::render`] holds the values against.
    pub schema: Option<Arc<[u8]>>,
    pub templates: Vec<File>,
    /// Everything else, `crds/` included.
    pub files: Vec<File>,
    /// The charts below `charts/`.
    pub dependencies: Vec<Chart>,
}

impl Chart {
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn is_library(&self) -> bool {
        self.metadata.kind.eq_ignore_ascii_case("library")
    }

    /// The files below `crds/` of this chart and of those it needs.
    pub(crate) fn crds(&self, prefix: &str, found: &mut Vec<File>) {
        let manifest = |name: &str| [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end));
        for file in &self.files {
            if file.name.starts_with("crds/") && manifest(&file.name) {
                found.push(File {
                    name: format!("{prefix}{}", file.name),
                    data: file.data.clone(),
                });
            }
        }
        for chart in &self.dependencies {
            chart.crds(&format!("{prefix}charts/{}/", chart.name()), found);
        }
    }
}
