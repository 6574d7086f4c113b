//! A kustomization file: what it may say, and that it says nothing else.
//! Upstream: api/types. Names of fields are compared without regard to case, as Go's encoding/json does.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::{
    error::{KustomizeError, Result},
    field_spec::FieldSpec,
    identity::Gvk,
    selector::ObjectSelector,
    yaml_read,
};

/// The names under which a kustomization file is looked for.
pub(crate) const FILE_NAMES: &[&str] = &["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Fields of kustomize's that are not done here, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    (
        "crds",
        "list the definitions under `resources`, and name references in custom objects with `replacements`",
    ),
    ("openapi", "merge lists of custom objects with JSON patches"),
    (
        "configurations",
        "use `labels` with `fields`, `replacements` and patches",
    ),
    (
        "helmGlobals",
        "render the chart before, or subscribe to a Helm repository",
    ),
    (
        "helmCharts",
        "render the chart before, or subscribe to a Helm repository",
    ),
    (
        "helmChartInflationGenerator",
        "render the chart before, or subscribe to a Helm repository",
    ),
    ("generators", "only configMapGenerator and secretGenerator are built"),
    ("transformers", "use the fields of the kustomization file itself"),
    ("validators", "validate before it is committed"),
    ("vars", "use `replacements`"),
    ("buildMetadata", "take it out"),
];

const FIELDS: &[&str] = &[
    "kind",
    "apiVersion",
    "metadata",
    "namePrefix",
    "nameSuffix",
    "namespace",
    "commonLabels",
    "labels",
    "commonAnnotations",
    "patchesStrategicMerge",
    "patchesJson6902",
    "patches",
    "images",
    "imageTags",
    "replacements",
    "replicas",
    "sortOptions",
    "resources",
    "components",
    "bases",
    "configMapGenerator",
    "secretGenerator",
    "generatorOptions",
];

pub(crate) const COMPONENT: &str = "Component";

#[derive(Debug, Default)]
pub(crate) struct Kustomization {
    pub kind: String,
    pub name_prefix: String,
    pub name_suffix: String,
    pub namespace: String,
    pub common_labels: BTreeMap<String, String>,
    pub labels: Vec<LabelRule>,
    pub common_annotations: BTreeMap<String, String>,
    pub patches_strategic_merge: Vec<String>,
    pub patches_json_6902: Vec<PatchRule>,
    pub patches: Vec<PatchRule>,
    pub images: Vec<ImageRule>,
    pub replacements: Vec<ReplacementEntry>,
    pub replicas: Vec<(String, i64)>,
    pub sort: Option<SortRule>,
    /// With the field in which each is, `resources[0]` or `bases[0]`.
    pub resources: Vec<(String, String)>,
    pub components: Vec<String>,
    pub config_maps: Vec<GeneratorRule>,
    pub secrets: Vec<GeneratorRule>,
}

#[derive(Debug)]
pub(crate) struct LabelRule {
    pub pairs: BTreeMap<String, String>,
    pub include_selectors: bool,
    pub include_templates: bool,
    pub fields: Vec<FieldSpec>,
}

#[derive(Debug, Default)]
pub(crate) struct PatchRule {
    pub path: String,
    pub patch: String,
    pub target: Option<ObjectSelector>,
    /// The options, when there are any: whether names and kinds may change.
    pub allow_name_change: bool,
    pub allow_kind_change: bool,
}

#[derive(Debug)]
pub(crate) struct ImageRule {
    pub name: String,
    pub new_name: String,
    pub tag_suffix: String,
    pub new_tag: String,
    pub digest: String,
}

#[derive(Debug)]
pub(crate) struct ReplacementEntry {
    pub path: String,
    pub rule: ReplacementRule,
}

#[derive(Debug, Default)]
pub(crate) struct ReplacementRule {
    pub source: Option<ReplacementSource>,
    pub source_value: Option<String>,
    pub targets: Vec<ReplacementTarget>,
}

#[derive(Debug)]
pub(crate) struct ReplacementSource {
    pub gvk: Gvk,
    pub name: String,
    pub namespace: String,
    pub field_path: String,
    pub options: FieldOptions,
}

#[derive(Debug)]
pub(crate) struct ReplacementTarget {
    pub select: Option<ObjectSelector>,
    pub reject: Vec<ObjectSelector>,
    pub field_paths: Vec<String>,
    pub options: FieldOptions,
}

#[derive(Debug, Default)]
pub(crate) struct FieldOptions {
    pub delimiter: String,
    pub index: i64,
    pub create: bool,
}

#[derive(Debug)]
pub(crate) struct SortRule {
    pub order: String,
    /// The kinds that come first, and last.
    pub legacy: Option<(Vec<String>, Vec<String>)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorRule {
    pub name: String,
    pub namespace: String,
    pub behavior: String,
    pub literals: Vec<String>,
    pub files: Vec<String>,
    pub envs: Vec<String>,
    /// Of a secret.
    pub secret_type: String,
    pub options: GeneratorOptions,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratorOptions {
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub disable_name_suffix_hash: bool,
    pub immutable: bool,
}

/// Reads a kustomization file.
pub(crate) fn read(content: &[u8]) -> Result<Kustomization> {
    let json = yaml_read::as_json(content)?;
    let root = Fields::of(&json, "", None)?;
    for (name, instead) in REFUSED {
        if let Some((name, value)) = root.entry(name)
            && !is_nothing(value)
        {
            return Err(KustomizeError::refused(format!("`{name}` is not built here; {instead}")).in_field(name));
        }
    }
    let known: Vec<_> = FIELDS.iter().copied().chain(REFUSED.iter().map(|it| it.0)).collect();
    root.know(&known)?;
    let said_something = root.0.is_some_and(|fields| {
        fields.iter().any(|(name, value)| {
            let is = |names: &[&str]| names.iter().any(|it| it.eq_ignore_ascii_case(name));
            // An empty list says something, except under a name that has become another one's.
            let is_empty = value.is_null() || value == "" || is(&["bases", "imageTags"]) && is_nothing(value);
            !is(&["kind", "apiVersion"]) && !is_empty
        })
    });
    if !said_something {
        return Err(KustomizeError::wrong(
            "the kustomization file is empty; list the objects under `resources`",
        ));
    }
    let (kind, version) = (root.text("kind")?, root.text("apiVersion")?);
    let wanted = match kind.as_str() {
        "" | "Kustomization" => "kustomize.config.k8s.io/v1beta1",
        COMPONENT => "kustomize.config.k8s.io/v1alpha1",
        other => {
            return Err(
                KustomizeError::wrong(format!("the kind is Kustomization or Component, and not `{other}`"))
                    .in_field("kind"),
            );
        }
    };
    if !version.is_empty() && version != wanted {
        return Err(
            KustomizeError::wrong(format!("the version is {wanted}, and not `{version}`")).in_field("apiVersion"),
        );
    }
    root.object("metadata", &["name", "namespace", "labels", "annotations"], |it| {
        it.text("name")?;
        it.text("namespace")?;
        it.text_map("labels")?;
        it.text_map("annotations").map(drop)
    })?;
    let mut resources = Vec::new();
    for field in ["resources", "bases"] {
        let entries = root.texts(field)?.into_iter().enumerate();
        resources.extend(entries.map(|(at, entry)| (format!("{field}[{at}]"), entry)));
    }
    let mut images = root.list("images", IMAGE, image)?;
    images.extend(root.list("imageTags", IMAGE, image)?);
    let global = root.object("generatorOptions", OPTIONS, generator_options)?;
    let generator = |secret: bool| {
        let global = global.clone();
        move |it: &Fields| generator(it, secret, global.as_ref())
    };
    Ok(Kustomization {
        kind,
        name_prefix: root.text("namePrefix")?,
        name_suffix: root.text("nameSuffix")?,
        namespace: root.text("namespace")?,
        common_labels: root.text_map("commonLabels")?,
        labels: root.list(
            "labels",
            &["pairs", "includeSelectors", "includeTemplates", "fields"],
            label,
        )?,
        common_annotations: root.text_map("commonAnnotations")?,
        patches_strategic_merge: root.texts("patchesStrategicMerge")?,
        patches_json_6902: root.list("patchesJson6902", PATCH, patch)?,
        patches: root.list("patches", PATCH, patch)?,
        images,
        replacements: root.list("replacements", &["path", "source", "targets", "sourceValue"], |it| {
            Ok(ReplacementEntry {
                path: it.text("path")?,
                rule: replacement(it, Strictness::Known)?,
            })
        })?,
        replicas: root.list("replicas", &["name", "count"], |it| {
            Ok((it.text("name")?, it.number("count")?))
        })?,
        sort: root.object("sortOptions", &["order", "legacySortOptions"], |it| {
            let legacy = it.object("legacySortOptions", &["orderFirst", "orderLast"], |it| {
                Ok((it.texts("orderFirst")?, it.texts("orderLast")?))
            })?;
            Ok(SortRule {
                order: it.text("order")?,
                legacy,
            })
        })?,
        resources,
        components: root.texts("components")?,
        config_maps: root.list("configMapGenerator", CONFIG_MAP, generator(false))?,
        secrets: root.list("secretGenerator", SECRET, generator(true))?,
    })
}

fn is_nothing(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.is_empty(),
        Json::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

const IMAGE: &[&str] = &["name", "newName", "tagSuffix", "newTag", "digest"];
const OPTIONS: &[&str] = &["labels", "annotations", "disableNameSuffixHash", "immutable"];
const PATCH: &[&str] = &["path", "patch", "target", "options"];
const CONFIG_MAP: &[&str] = &[
    "namespace",
    "name",
    "behavior",
    "literals",
    "files",
    "envs",
    "env",
    "options",
];
const SECRET: &[&str] = &[
    "namespace",
    "name",
    "behavior",
    "literals",
    "files",
    "envs",
    "env",
    "options",
    "type",
];
const SELECTOR: &[&str] = &[
    "group",
    "version",
    "kind",
    "name",
    "namespace",
    "annotationSelector",
    "labelSelector",
];

fn label(it: &Fields) -> Result<LabelRule> {
    Ok(LabelRule {
        pairs: it.text_map("pairs")?,
        include_selectors: it.truth("includeSelectors")?,
        include_templates: it.truth("includeTemplates")?,
        fields: it.list("fields", &["group", "version", "kind", "path", "create"], |it| {
            Ok(FieldSpec {
                gvk: gvk(it)?,
                path: it.text("path")?,
                create: it.truth("create")?,
            })
        })?,
    })
}

fn gvk(it: &Fields) -> Result<Gvk> {
    Ok(Gvk {
        group: it.text("group")?,
        version: it.text("version")?,
        kind: it.text("kind")?,
    })
}

fn image(it: &Fields) -> Result<ImageRule> {
    Ok(ImageRule {
        name: it.text("name")?,
        new_name: it.text("newName")?,
        tag_suffix: it.text("tagSuffix")?,
        new_tag: it.text("newTag")?,
        digest: it.text("digest")?,
    })
}

fn selector(it: &Fields) -> Result<ObjectSelector> {
    Ok(ObjectSelector {
        gvk: gvk(it)?,
        name: it.text("name")?,
        namespace: it.text("namespace")?,
        labels: it.text("labelSelector")?,
        annotations: it.text("annotationSelector")?,
    })
}

fn patch(it: &Fields) -> Result<PatchRule> {
    let options = it.object("options", &["allowNameChange", "allowKindChange"], |it| {
        Ok((it.truth("allowNameChange")?, it.truth("allowKindChange")?))
    })?;
    let (allow_name_change, allow_kind_change) = options.unwrap_or_default();
    Ok(PatchRule {
        path: it.text("path")?,
        patch: it.text("patch")?,
        target: it.object("target", SELECTOR, selector)?,
        allow_name_change,
        allow_kind_change,
    })
}

fn generator_options(it: &Fields) -> Result<GeneratorOptions> {
    Ok(GeneratorOptions {
        labels: it.text_map("labels")?,
        annotations: it.text_map("annotations")?,
        disable_name_suffix_hash: it.truth("disableNameSuffixHash")?,
        immutable: it.truth("immutable")?,
    })
}

fn generator(it: &Fields, secret: bool, global: Option<&GeneratorOptions>) -> Result<GeneratorRule> {
    let mut options = it.object("options", OPTIONS, generator_options)?.unwrap_or_default();
    if let Some(global) = global {
        for (own, all) in [
            (&mut options.labels, &global.labels),
            (&mut options.annotations, &global.annotations),
        ] {
            for (key, value) in all {
                own.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        options.disable_name_suffix_hash |= global.disable_name_suffix_hash;
        options.immutable |= global.immutable;
    }
    let mut envs = it.texts("envs")?;
    envs.extend(Some(it.text("env")?).filter(|it| !it.is_empty()));
    Ok(GeneratorRule {
        name: it.text("name")?,
        namespace: it.text("namespace")?,
        behavior: it.text("behavior")?,
        literals: it.texts("literals")?,
        files: it.texts("files")?,
        envs,
        secret_type: if secret { it.text("type")? } else { String::new() },
        options,
    })
}

/// Whether fields that nobody knows are an error. They are not in files that replacements are read from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    Known,
    Anything,
}

fn replacement(it: &Fields, strictness: Strictness) -> Result<ReplacementRule> {
    let known = |names: &'static [&'static str]| match strictness {
        Strictness::Known => names,
        Strictness::Anything => &[],
    };
    let options = |it: &Fields| {
        let options = it.object("options", known(&["delimiter", "index", "encoding", "create"]), |it| {
            it.text("encoding")?;
            Ok(FieldOptions {
                delimiter: it.text("delimiter")?,
                index: it.number("index")?,
                create: it.truth("create")?,
            })
        })?;
        Ok(options.unwrap_or_default())
    };
    let source = it.object(
        "source",
        known(&["group", "version", "kind", "name", "namespace", "fieldPath", "options"]),
        |it| {
            Ok(ReplacementSource {
                gvk: gvk(it)?,
                name: it.text("name")?,
                namespace: it.text("namespace")?,
                field_path: it.text("fieldPath")?,
                options: options(it)?,
            })
        },
    )?;
    let targets = it.list("targets", known(&["select", "reject", "fieldPaths", "options"]), |it| {
        Ok(ReplacementTarget {
            select: it.object("select", known(SELECTOR), selector)?,
            reject: it.list("reject", known(SELECTOR), selector)?,
            field_paths: it.texts("fieldPaths")?,
            options: options(it)?,
        })
    })?;
    let source_value = match it.entry("sourceValue") {
        Some((_, value)) if !value.is_null() => Some(it.text("sourceValue")?),
        _ => None,
    };
    Ok(ReplacementRule {
        source,
        source_value,
        targets,
    })
}

/// The replacements of a file of their own: one, or a list.
pub(crate) fn read_replacements(content: &[u8]) -> Result<Vec<ReplacementRule>> {
    match yaml_read::as_json(content)? {
        Json::Array(items) => items
            .iter()
            .enumerate()
            .map(|(at, it)| replacement(&Fields::of(it, &format!("[{at}]"), None)?, Strictness::Anything))
            .collect(),
        json @ Json::Object(_) => Ok(vec![replacement(&Fields::of(&json, "", None)?, Strictness::Anything)?]),
        _ => Err(KustomizeError::wrong(
            "a file of replacements holds one replacement, or a list of them",
        )),
    }
}

/// The fields of a map, with the path to it.
struct Fields<'a>(Option<&'a serde_json::Map<String, Json>>, String);

impl<'a> Fields<'a> {
    fn of(json: &'a Json, path: &str, known: Option<&[&str]>) -> Result<Fields<'a>> {
        let fields = match json {
            Json::Object(fields) => Fields(Some(fields), path.to_owned()),
            Json::Null => Fields(None, path.to_owned()),
            _ => return Err(KustomizeError::wrong("a map is expected").in_field(path)),
        };
        if let Some(known) = known.filter(|it| !it.is_empty()) {
            fields.know(known)?;
        }
        Ok(fields)
    }

    fn know(&self, known: &[&str]) -> Result<()> {
        for name in self.0.into_iter().flat_map(serde_json::Map::keys) {
            if !known.iter().any(|it| it.eq_ignore_ascii_case(name)) {
                return Err(KustomizeError::wrong(format!(
                    "kustomize knows no such field; there are: {}",
                    known.join(", ")
                ))
                .in_field(&self.path(name)));
            }
        }
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        if self.1.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.1)
        }
    }

    fn entry(&self, name: &str) -> Option<(&'a str, &'a Json)> {
        let fields = self.0?;
        let found = fields.get_key_value(name);
        found
            .or_else(|| fields.iter().find(|it| it.0.eq_ignore_ascii_case(name)))
            .map(|(name, value)| (name.as_str(), value))
    }

    fn value(&self, name: &str) -> &'a Json {
        self.entry(name).map_or(&Json::Null, |it| it.1)
    }

    fn expected(&self, name: &str, what: &str) -> KustomizeError {
        let hint = match self.value(name) {
            Json::Bool(_) | Json::Number(_) if what.contains("string") => "; put quotes around it",
            _ => "",
        };
        KustomizeError::wrong(format!("{what} is expected{hint}")).in_field(&self.path(name))
    }

    fn text(&self, name: &str) -> Result<String> {
        match self.value(name) {
            Json::Null => Ok(String::new()),
            Json::String(text) => Ok(text.clone()),
            _ => Err(self.expected(name, "a string")),
        }
    }

    fn truth(&self, name: &str) -> Result<bool> {
        match self.value(name) {
            Json::Null => Ok(false),
            Json::Bool(it) => Ok(*it),
            _ => Err(self.expected(name, "true or false")),
        }
    }

    fn number(&self, name: &str) -> Result<i64> {
        match self.value(name) {
            Json::Null => Ok(0),
            it => it.as_i64().ok_or_else(|| self.expected(name, "a whole number")),
        }
    }

    fn texts(&self, name: &str) -> Result<Vec<String>> {
        let items = match self.value(name) {
            Json::Null => return Ok(Vec::new()),
            Json::Array(items) => items,
            _ => return Err(self.expected(name, "a list of strings")),
        };
        let text = |it: &Json| match it {
            Json::String(text) => Ok(text.clone()),
            Json::Null => Ok(String::new()),
            _ => Err(self.expected(name, "a list of strings")),
        };
        items.iter().map(text).collect()
    }

    fn text_map(&self, name: &str) -> Result<BTreeMap<String, String>> {
        let fields = match self.value(name) {
            Json::Null => return Ok(BTreeMap::new()),
            Json::Object(fields) => fields,
            _ => return Err(self.expected(name, "a map of strings")),
        };
        let text = |(key, value): (&String, &Json)| match value {
            Json::String(text) => Ok((key.clone(), text.clone())),
            Json::Null => Ok((key.clone(), String::new())),
            _ => Err(KustomizeError::wrong("a string is expected; put quotes around it")
                .in_field(&format!("{}.{key}", self.path(name)))),
        };
        fields.iter().map(text).collect()
    }

    fn object<T>(&self, name: &str, known: &[&str], read: impl Fn(&Fields) -> Result<T>) -> Result<Option<T>> {
        match self.value(name) {
            Json::Null => Ok(None),
            json => read(&Fields::of(json, &self.path(name), Some(known))?).map(Some),
        }
    }

    fn list<T>(&self, name: &str, known: &[&str], read: impl Fn(&Fields) -> Result<T>) -> Result<Vec<T>> {
        let items = match self.value(name) {
            Json::Null => return Ok(Vec::new()),
            Json::Array(items) => items,
            _ => return Err(self.expected(name, "a list")),
        };
        let path = self.path(name);
        let item = |(at, it)| read(&Fields::of(it, &format!("{path}[{at}]"), Some(known))?);
        items.iter().enumerate().map(item).collect()
    }
}
