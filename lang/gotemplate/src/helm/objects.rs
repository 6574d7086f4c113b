//! What a chart's templates find beside their values: `.Chart`, `.Files`, `.Capabilities`.

use std::any::Any;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::chart::{Chart, File, Metadata};
use crate::value::{Elem, List, Map, Object, Value};

/// What the cluster that a chart is rendered for can do: `.Capabilities`.
#[derive(Clone, Debug)]
pub struct Capabilities {
    pub kube_version: KubeVersion,
    /// `v1`, `apps/v1`, `apps/v1/Deployment`.
    pub api_versions: Vec<String>,
    /// What `.Capabilities.HelmVersion.Version` says.
    pub helm_version: String,
}

/// `.Capabilities.KubeVersion`.
#[derive(Clone, Debug, Default)]
pub struct KubeVersion {
    /// With its `v`.
    pub version: String,
    pub major: String,
    pub minor: String,
}

impl KubeVersion {
    /// Takes a version such as `v1.31.2+k3s1` apart.
    pub fn parse(version: &str) -> KubeVersion {
        let mut numbers = version.trim_start_matches('v').split('.').map(|it| {
            let digits = it.find(|it: char| !it.is_ascii_digit()).unwrap_or(it.len());
            it[..digits].to_owned()
        });
        KubeVersion {
            version: version.to_owned(),
            major: numbers.next().unwrap_or_default(),
            minor: numbers.next().unwrap_or_default(),
        }
    }
}

impl Default for Capabilities {
    /// What Helm assumes when it is not told: an old Kubernetes with the groups that are built in.
    fn default() -> Self {
        const GROUPS: &str = "v1 admissionregistration.k8s.io/v1 apps/v1 authentication.k8s.io/v1 \
            authorization.k8s.io/v1 autoscaling/v2 autoscaling/v1 batch/v1 certificates.k8s.io/v1 \
            coordination.k8s.io/v1 discovery.k8s.io/v1 events.k8s.io/v1 flowcontrol.apiserver.k8s.io/v1 \
            networking.k8s.io/v1 node.k8s.io/v1 policy/v1 rbac.authorization.k8s.io/v1 resource.k8s.io/v1 \
            scheduling.k8s.io/v1 storage.k8s.io/v1 apiextensions.k8s.io/v1";
        Capabilities {
            kube_version: KubeVersion::parse("v1.20.0"),
            api_versions: GROUPS.split_whitespace().map(str::to_owned).collect(),
            helm_version: "v3.21.4".to_owned(),
        }
    }
}

impl Capabilities {
    pub(crate) fn value(&self) -> Value {
        Value::Object(Rc::new(CapabilitiesObject(self.clone())))
    }
}

struct CapabilitiesObject(Capabilities);

impl Object for CapabilitiesObject {
    fn type_name(&self) -> &str {
        "*chartutil.Capabilities"
    }
    fn kind(&self) -> &'static str {
        "ptr"
    }
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "KubeVersion" => Some(Value::Object(Rc::new(KubeVersionObject(self.0.kube_version.clone())))),
            "APIVersions" => Some(Value::Object(Rc::new(VersionSet(self.0.api_versions.clone())))),
            "HelmVersion" => Some(Value::Object(Rc::new(Plain {
                type_name: "version.BuildInfo",
                fields: vec![
                    ("Version", "version", Value::from(self.0.helm_version.as_str())),
                    ("GitCommit", "git_commit", Value::from("")),
                    ("GitTreeState", "git_tree_state", Value::from("")),
                    ("GoVersion", "go_version", Value::from("go1.26.8")),
                ],
            }))),
            _ => None,
        }
    }
    fn display(&self) -> String {
        format!(
            "&{{{} {:?} {{{}   }}}}",
            self.0.kube_version.version, self.0.api_versions, self.0.helm_version
        )
    }
    fn to_json(&self) -> Json {
        let version = &self.0.kube_version;
        json!({
            "KubeVersion": {"Version": version.version, "Major": version.major, "Minor": version.minor},
            "APIVersions": self.0.api_versions,
            "HelmVersion": {"version": self.0.helm_version, "go_version": "go1.26.8"},
        })
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct KubeVersionObject(KubeVersion);

impl Object for KubeVersionObject {
    fn type_name(&self) -> &str {
        "chartutil.KubeVersion"
    }
    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Version" => Some(Value::from(self.0.version.as_str())),
            "Major" => Some(Value::from(self.0.major.as_str())),
            "Minor" => Some(Value::from(self.0.minor.as_str())),
            _ => None,
        }
    }
    fn method(&self, name: &str) -> Option<&'static str> {
        matches!(name, "String" | "GitVersion").then_some("")
    }
    fn call(&self, _name: &str, _args: &[Value]) -> Result<Value, String> {
        Ok(Value::from(self.0.version.as_str()))
    }
    fn display(&self) -> String {
        self.0.version.clone()
    }
    fn to_json(&self) -> Json {
        json!({"Version": self.0.version, "Major": self.0.major, "Minor": self.0.minor})
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct VersionSet(Vec<String>);

impl Object for VersionSet {
    fn type_name(&self) -> &str {
        "chartutil.VersionSet"
    }
    fn kind(&self) -> &'static str {
        "slice"
    }
    fn method(&self, name: &str) -> Option<&'static str> {
        (name == "Has").then_some("string")
    }
    fn call(&self, _name: &str, args: &[Value]) -> Result<Value, String> {
        let wanted = args[0].as_str().unwrap_or_default();
        Ok(Value::Bool(self.0.iter().any(|it| it == wanted)))
    }
    fn items(&self) -> Option<Value> {
        Some(Value::strings(self.0.iter().map(String::as_str)))
    }
    fn display(&self) -> String {
        format!("[{}]", self.0.join(" "))
    }
    fn to_json(&self) -> Json {
        json!(self.0)
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A Go struct that has fields and nothing else.
struct Plain {
    type_name: &'static str,
    /// The Go name, the JSON name, the value.
    fields: Vec<(&'static str, &'static str, Value)>,
}

impl Object for Plain {
    fn type_name(&self) -> &str {
        self.type_name
    }
    fn field(&self, name: &str) -> Option<Value> {
        self.fields
            .iter()
            .find(|(it, ..)| *it == name)
            .map(|(.., value)| value.clone())
    }
    fn display(&self) -> String {
        let shown: Vec<_> = self.fields.iter().map(|(.., it)| crate::gofmt::display(it)).collect();
        format!("{{{}}}", shown.join(" "))
    }
    fn to_json(&self) -> Json {
        let fields = self.fields.iter().filter(|(.., it)| it.is_true());
        Json::Object(
            fields
                .map(|(_, name, it)| ((*name).to_owned(), it.to_json().unwrap_or_default()))
                .collect(),
        )
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `.Chart`.
pub(crate) struct ChartObject {
    metadata: Metadata,
    is_root: bool,
}

pub(crate) fn chart(chart: &Chart, is_root: bool) -> Value {
    Value::Object(Rc::new(ChartObject {
        metadata: chart.metadata.clone(),
        is_root,
    }))
}

fn plain(type_name: &'static str, fields: Vec<(&'static str, &'static str, Value)>) -> Value {
    Value::Object(Rc::new(Plain { type_name, fields }))
}

impl Object for ChartObject {
    fn type_name(&self) -> &str {
        "struct { chart.Metadata; IsRoot bool }"
    }
    fn field(&self, name: &str) -> Option<Value> {
        let it = &self.metadata;
        let text = |text: &String| Value::from(text.as_str());
        Some(match name {
            "Name" => text(&it.name),
            "Home" => text(&it.home),
            "Sources" => Value::strings(it.sources.iter().map(String::as_str)),
            "Version" => text(&it.version),
            "Description" => text(&it.description),
            "Keywords" => Value::strings(it.keywords.iter().map(String::as_str)),
            "Maintainers" => {
                let person = |it: &super::Maintainer| {
                    plain(
                        "*chart.Maintainer",
                        vec![
                            ("Name", "name", text(&it.name)),
                            ("Email", "email", text(&it.email)),
                            ("URL", "url", text(&it.url)),
                        ],
                    )
                };
                Value::list(it.maintainers.iter().map(person).collect())
            }
            "Icon" => text(&it.icon),
            "APIVersion" => text(&it.api_version),
            "Condition" => text(&it.condition),
            "Tags" => text(&it.tags),
            "AppVersion" => text(&it.app_version),
            "Deprecated" => Value::Bool(it.deprecated),
            "Annotations" => {
                let entries = it.annotations.iter().map(|(key, value)| {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    (Arc::from(key.as_str()), Value::from(value))
                });
                Value::Map(Map::new(entries.collect(), Elem::Str))
            }
            "KubeVersion" => text(&it.kube_version),
            "Dependencies" => {
                let dependency = |it: &super::Dependency| {
                    plain(
                        "*chart.Dependency",
                        vec![
                            ("Name", "name", text(&it.name)),
                            ("Version", "version", text(&it.version)),
                            ("Repository", "repository", text(&it.repository)),
                            ("Condition", "condition", text(&it.condition)),
                            ("Enabled", "enabled", Value::Bool(it.enabled)),
                            ("Alias", "alias", text(&it.alias)),
                        ],
                    )
                };
                Value::list(it.dependencies.iter().map(dependency).collect())
            }
            "Type" => text(&it.kind),
            "IsRoot" => Value::Bool(self.is_root),
            "Metadata" => {
                return Some(Value::Object(Rc::new(ChartObject {
                    metadata: self.metadata.clone(),
                    is_root: self.is_root,
                })));
            }
            _ => return None,
        })
    }
    fn display(&self) -> String {
        format!(
            "{{{{{} {}}} {}}}",
            self.metadata.name, self.metadata.version, self.is_root
        )
    }
    fn to_json(&self) -> Json {
        let mut json = serde_json::to_value(&self.metadata).unwrap_or_default();
        json["IsRoot"] = Json::Bool(self.is_root);
        json
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// `.Files`: the chart's files that are neither templates nor known to Helm.
pub(crate) struct Files(BTreeMap<Arc<str>, Arc<[u8]>>);

pub(crate) fn files(files: &[File]) -> Value {
    let entries = files.iter().map(|it| (Arc::from(it.name.as_str()), it.data.clone()));
    Value::Object(Rc::new(Files(entries.collect())))
}

impl Files {
    fn bytes(&self, name: &Value) -> &[u8] {
        self.0.get(name.as_str().unwrap_or_default()).map_or(&[], |it| it)
    }

    fn as_map(&self, text: impl Fn(&[u8]) -> String) -> Value {
        let entries: serde_json::Map<String, Json> = self
            .0
            .iter()
            .map(|(name, data)| {
                let base = name.rsplit('/').next().unwrap_or(name);
                (base.to_owned(), Json::String(text(data)))
            })
            .collect();
        let text = crate::yaml::write(&Json::Object(entries), crate::yaml::Dialect::Sigs);
        Value::from(text.strip_suffix('\n').unwrap_or(&text))
    }
}

impl Object for Files {
    fn type_name(&self) -> &str {
        "engine.files"
    }
    fn kind(&self) -> &'static str {
        "map"
    }
    // A file that is not there is an empty one.
    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::Bytes(self.bytes(&Value::from(name)).into()))
    }
    fn method(&self, name: &str) -> Option<&'static str> {
        match name {
            "Get" | "GetBytes" | "Glob" | "Lines" => Some("string"),
            "AsConfig" | "AsSecrets" => Some(""),
            _ => None,
        }
    }
    fn call(&self, name: &str, args: &[Value]) -> Result<Value, String> {
        Ok(match name {
            "Get" => Value::string_of_bytes(self.bytes(&args[0]).to_vec()),
            "GetBytes" => Value::Bytes(self.bytes(&args[0]).into()),
            "Glob" => {
                let pattern = args[0].as_str().unwrap_or_default();
                let glob = super::functions::Glob::parse(pattern);
                let found = self.0.iter().filter(|(name, _)| glob.matches(name));
                Value::Object(Rc::new(Files(
                    found.map(|(name, data)| (name.clone(), data.clone())).collect(),
                )))
            }
            "Lines" => {
                let bytes = self.bytes(&args[0]);
                let text = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(bytes));
                if bytes.is_empty() {
                    Value::List(List::new(Vec::new(), Elem::Str))
                } else {
                    Value::strings(text.split('\n'))
                }
            }
            "AsConfig" => self.as_map(|data| String::from_utf8_lossy(data).into_owned()),
            _ => self.as_map(crate::base64_of),
        })
    }
    fn items(&self) -> Option<Value> {
        let entries = self
            .0
            .iter()
            .map(|(name, data)| (name.clone(), Value::Bytes(data.clone())));
        Some(Value::Map(Map::new(entries.collect(), Elem::Any)))
    }
    fn display(&self) -> String {
        self.items().map_or_else(String::new, |it| crate::gofmt::display(&it))
    }
    fn to_json(&self) -> Json {
        self.items().and_then(|it| it.to_json().ok()).unwrap_or_default()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
