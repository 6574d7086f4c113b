//! A revision of a release in its Secret.
//! Upstream: helm.sh/helm/v3 pkg/release, and pkg/storage/driver, `Secrets`.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use gotemplate::helm::{Chart, File};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

/// The type of the Secrets.
const SECRET_TYPE: &str = "helm.sh/release.v1";
/// How large the data of a Secret may be, in bytes.
const SECRET_BYTES_MAX: usize = 1 << 20;
/// How large an unpacked release may be, in bytes. Text packs to a tenth; what packs better than to a hundredth is no
/// release.
const UNPACKED_BYTES_MAX: u64 = 100 << 20;
/// Labels that Helm sets itself.
const SYSTEM_LABELS: [&str; 6] = ["name", "owner", "status", "version", "createdAt", "modifiedAt"];

/// What has become of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReleaseStatus {
    /// It is what is deployed.
    Deployed,
    /// It is gone, and its history is kept.
    Uninstalled,
    /// A later revision is deployed.
    Superseded,
    /// It was not deployed as a whole.
    Failed,
    /// It is being taken away.
    Uninstalling,
    /// The first revision is being deployed.
    PendingInstall,
    /// A later revision is being deployed.
    PendingUpgrade,
    /// An earlier revision is being deployed again.
    PendingRollback,
    /// Nobody knows.
    #[default]
    #[serde(other)]
    Unknown,
}

impl ReleaseStatus {
    /// The word of the label and of `helm list`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ReleaseStatus::Unknown => "unknown",
            ReleaseStatus::Deployed => "deployed",
            ReleaseStatus::Uninstalled => "uninstalled",
            ReleaseStatus::Superseded => "superseded",
            ReleaseStatus::Failed => "failed",
            ReleaseStatus::Uninstalling => "uninstalling",
            ReleaseStatus::PendingInstall => "pending-install",
            ReleaseStatus::PendingUpgrade => "pending-upgrade",
            ReleaseStatus::PendingRollback => "pending-rollback",
        }
    }

    /// Reads the word; another one is unknown.
    #[must_use]
    pub fn of_word(word: &str) -> Self {
        Self::deserialize(serde::de::value::StrDeserializer::<serde::de::value::Error>::new(word)).unwrap_or_default()
    }

    /// Whether somebody is deploying it, or has died doing so.
    #[must_use]
    pub fn is_pending(self) -> bool {
        matches!(
            self,
            ReleaseStatus::PendingInstall | ReleaseStatus::PendingUpgrade | ReleaseStatus::PendingRollback
        )
    }
}

/// A revision of a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoredRelease {
    /// The name of the release.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// When it was deployed, and what became of it.
    #[serde(deserialize_with = "or_default")]
    pub info: ReleaseInfo,
    /// The chart as Helm writes it, with the charts below left out: [`StoredRelease::chart_value`].
    pub chart: Value,
    /// What the user says over the values of the chart.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// The objects as texts, each with the file that it is from.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub manifest: String,
    /// What runs at moments of its life.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<ReleaseHook>,
    /// The number of the revision; the first is one.
    #[serde(deserialize_with = "or_default")]
    pub version: i64,
    /// The namespace of the release and of its Secrets.
    #[serde(deserialize_with = "or_default")]
    pub namespace: String,
    /// Labels of the Secret that are not Helm's own.
    #[serde(skip)]
    pub labels: BTreeMap<String, String>,
}

/// When a revision was deployed, and what became of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReleaseInfo {
    /// When the first revision was deployed.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub first_deployed: Option<Timestamp>,
    /// When this one was.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub last_deployed: Option<Timestamp>,
    /// When it was taken away.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub deleted: Option<Timestamp>,
    /// A sentence about it, `Install complete`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What became of it.
    #[serde(deserialize_with = "or_default")]
    pub status: ReleaseStatus,
    /// What the chart's `NOTES.txt` says.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "String::is_empty")]
    pub notes: String,
}

/// An object that is created at a moment of a release's life.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReleaseHook {
    /// The object's name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// The object's kind.
    #[serde(deserialize_with = "or_default")]
    pub kind: String,
    /// The file that it is from.
    #[serde(deserialize_with = "or_default")]
    pub path: String,
    /// The object as a text.
    #[serde(deserialize_with = "or_default")]
    pub manifest: String,
    /// The moments, `pre-install` and so on.
    #[serde(deserialize_with = "or_default")]
    pub events: Vec<String>,
    /// When it ran.
    #[serde(deserialize_with = "or_default")]
    pub last_run: HookRun,
    /// Lower ones run first.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// When the object is deleted: `before-hook-creation`, `hook-succeeded`, `hook-failed`.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub delete_policies: Vec<String>,
    /// When the logs of its pods are shown.
    #[serde(deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub output_log_policies: Vec<String>,
}

/// When a hook ran, and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HookRun {
    /// When it began.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub started_at: Option<Timestamp>,
    /// When it ended.
    #[serde(serialize_with = "write_time", deserialize_with = "read_time")]
    pub completed_at: Option<Timestamp>,
    /// `Succeeded`, `Failed`, `Running`, `Unknown`, or nothing.
    #[serde(deserialize_with = "or_default")]
    pub phase: String,
}

impl ReleaseHook {
    /// Whether it has to wait for pods that run to their end, or starts some.
    #[must_use]
    pub fn needs_pods(&self) -> bool {
        matches!(
            self.kind.as_str(),
            "Pod"
                | "Job"
                | "CronJob"
                | "Deployment"
                | "DaemonSet"
                | "StatefulSet"
                | "ReplicaSet"
                | "ReplicationController"
        )
    }

    /// Whether the object is deleted at this moment. A definition never is: its objects would go with it.
    #[must_use]
    pub fn is_deleted_at(&self, policy: &str) -> bool {
        let said = if self.delete_policies.is_empty() {
            policy == "before-hook-creation"
        } else {
            self.delete_policies.iter().any(|it| it == policy)
        };
        said && self.kind != "CustomResourceDefinition"
    }
}

/// The hooks of a moment in the order in which they run.
#[must_use]
pub fn hooks_of_event<'a>(hooks: &'a [ReleaseHook], event: &str) -> Vec<&'a ReleaseHook> {
    let mut found: Vec<_> = hooks
        .iter()
        .filter(|it| it.events.iter().any(|it| it == event))
        .collect();
    found.sort_by(|a, b| a.weight.cmp(&b.weight).then_with(|| a.name.cmp(&b.name)));
    found
}

/// Why a release cannot be stored or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It does not fit into a Secret.
    #[error(
        "release {name}: its Secret would have {bytes} bytes, and {SECRET_BYTES_MAX} is the most; make the chart smaller"
    )]
    Large {
        /// The name of the release.
        name: String,
        /// How large it is.
        bytes: usize,
    },
    /// It is no Secret of a release.
    #[error("Secret {secret}: it holds no release of Helm: {why}")]
    Invalid {
        /// The name of the Secret.
        secret: String,
        /// What is wrong.
        why: String,
    },
}

impl StoredRelease {
    /// The name of the Secret.
    #[must_use]
    pub fn secret_name(&self) -> String {
        secret_name(&self.name, self.version)
    }

    /// The Secret of the release. `created` is the second in which the revision was stored first, and `modified` the
    /// one in which it is stored again; Helm sets the one that it knows.
    ///
    /// # Errors
    /// When it is too large.
    pub fn secret(&self, created: Option<Timestamp>, modified: Option<Timestamp>) -> Result<Value, StoreError> {
        let text = serde_json::to_vec(self).expect("a release is plain data");
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&text).expect("writing to memory does not fail");
        let packed = packed.finish().expect("writing to memory does not fail");
        let encoded = BASE64.encode(packed);
        if encoded.len() > SECRET_BYTES_MAX {
            return Err(StoreError::Large {
                name: self.name.clone(),
                bytes: encoded.len(),
            });
        }
        let mut labels = self.labels.clone();
        labels.retain(|key, _| !SYSTEM_LABELS.contains(&key.as_str()));
        let seconds = |it: Timestamp| it.as_second().to_string();
        labels.extend(created.map(|it| ("createdAt".to_owned(), seconds(it))));
        labels.extend(modified.map(|it| ("modifiedAt".to_owned(), seconds(it))));
        for (key, value) in [
            ("name", self.name.clone()),
            ("owner", "helm".to_owned()),
            ("status", self.info.status.as_str().to_owned()),
            ("version", self.version.to_string()),
        ] {
            labels.insert(key.to_owned(), value);
        }
        Ok(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": SECRET_TYPE,
            "metadata": {"name": self.secret_name(), "namespace": self.namespace, "labels": labels},
            "data": {"release": BASE64.encode(encoded)},
        }))
    }

    /// Reads the Secret of a release.
    ///
    /// # Errors
    /// When it is none, or too large.
    pub fn from_secret(secret: &Value) -> Result<Self, StoreError> {
        let named = secret["metadata"]["name"].as_str().unwrap_or_default();
        let invalid = |why: &dyn std::fmt::Display| StoreError::Invalid {
            secret: named.to_owned(),
            why: why.to_string(),
        };
        if secret["type"] != SECRET_TYPE {
            return Err(invalid(&format!("its type is not {SECRET_TYPE}")));
        }
        let data = secret["data"]["release"]
            .as_str()
            .ok_or_else(|| invalid(&"it has no data `release`"))?;
        let encoded = BASE64.decode(data).map_err(|it| invalid(&it))?;
        let mut release = Self::decode(&encoded).map_err(|it| invalid(&it))?;
        if secret_name(&release.name, release.version) != named {
            return Err(invalid(&"the release in it is another one"));
        }
        if let Some(labels) = secret["metadata"]["labels"].as_object() {
            let own = labels.iter().filter(|it| !SYSTEM_LABELS.contains(&it.0.as_str()));
            release.labels = own
                .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
                .collect();
        }
        Ok(release)
    }

    fn decode(encoded: &[u8]) -> Result<Self, String> {
        let packed = BASE64.decode(encoded).map_err(|it| it.to_string())?;
        // The first releases of Helm 3 did not pack.
        let text = if packed.starts_with(&[0x1f, 0x8b, 0x08]) {
            let mut text = Vec::new();
            GzDecoder::new(&packed[..])
                .take(UNPACKED_BYTES_MAX + 1)
                .read_to_end(&mut text)
                .map_err(|it| it.to_string())?;
            if text.len() as u64 > UNPACKED_BYTES_MAX {
                return Err(format!("it has more than {UNPACKED_BYTES_MAX} bytes unpacked"));
            }
            text
        } else {
            packed
        };
        serde_json::from_slice(&text).map_err(|it| it.to_string())
    }

    /// Whether it was made of this chart, as far as charts are stored: not of the charts below.
    #[must_use]
    pub fn has_chart(&self, chart: &Chart) -> bool {
        plain_chart(&self.chart) == plain_chart(&Self::chart_value(chart))
    }

    /// A chart as Helm stores it. The charts below are not stored.
    #[must_use]
    pub fn chart_value(chart: &Chart) -> Value {
        let files = |files: &[File]| -> Value {
            let file = |it: &File| json!({"name": it.name, "data": BASE64.encode(&it.data)});
            files.iter().map(file).collect()
        };
        let mut metadata = serde_json::to_value(&chart.metadata).unwrap_or_default();
        // Helm reads texts there and nothing else.
        if let Some(annotations) = metadata["annotations"].as_object_mut() {
            for value in annotations.values_mut().filter(|it| !it.is_string()) {
                *value = Value::String(value.to_string());
            }
        }
        json!({
            "metadata": metadata,
            "lock": null,
            "templates": files(&chart.templates),
            "values": chart.values,
            "schema": chart.schema.as_ref().map(|it| BASE64.encode(it)),
            "files": files(&chart.files),
        })
    }
}

/// A chart as it is compared: files by their names, and without what Helm notes in it while it works.
fn plain_chart(chart: &Value) -> Value {
    let by_name = |files: &Value| -> Map<String, Value> {
        let files = files.as_array().into_iter().flatten();
        let named = files.map(|it| (it["name"].as_str().unwrap_or_default().to_owned(), it["data"].clone()));
        named.collect()
    };
    let mut metadata = chart["metadata"].clone();
    if let Some(dependencies) = metadata["dependencies"].as_array_mut() {
        for dependency in dependencies.iter_mut().filter_map(Value::as_object_mut) {
            dependency.remove("enabled");
        }
    }
    if let Some(fields) = metadata.as_object_mut() {
        let is_empty = |it: &Value| match it {
            Value::Null => true,
            Value::String(it) => it.is_empty(),
            Value::Array(it) => it.is_empty(),
            Value::Object(it) => it.is_empty(),
            _ => false,
        };
        fields.retain(|_, it| !is_empty(it));
    }
    json!({
        "metadata": metadata,
        "templates": by_name(&chart["templates"]),
        "values": chart["values"].as_object().cloned().unwrap_or_default(),
        "schema": chart["schema"],
        "files": by_name(&chart["files"]),
    })
}

pub(super) fn secret_name(release: &str, version: i64) -> String {
    format!("sh.helm.release.v1.{release}.v{version}")
}

fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

// No time is an empty text, and so is one that is none: it is only shown.
fn read_time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text: Option<String> = Option::deserialize(from)?;
    Ok(text.and_then(|it| it.parse().ok()))
}

fn write_time<S: Serializer>(time: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => to.collect_str(time),
        None => to.serialize_str(""),
    }
}
