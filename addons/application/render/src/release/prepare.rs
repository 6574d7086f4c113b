//! A chart with values as what is applied and what is stored.
//! Upstream: helm.sh/helm/v3 pkg/action, `renderResources` and `setMetadataVisitor`.

use gotemplate::{
    Random, TemplateClock,
    helm::{Capabilities, Chart, Document, Hook, ObjectLookup, Release, RenderError, RenderOptions},
};
use serde_json::{Map, Value};

use super::{
    changes::{MANAGED_BY, RELEASE_NAME, RELEASE_NAMESPACE},
    stored::ReleaseHook,
};
use crate::manifest;

/// How long the name of a release may be.
const NAME_LENGTH_MAX: usize = 53;
/// How large what a chart makes may be, in bytes. It has to fit into a Secret when it is packed.
const RENDERED_BYTES_MAX: usize = 32 << 20;

/// What a revision is made of.
#[derive(Clone)]
pub struct ReleaseInputs<'a> {
    /// The chart.
    pub chart: &'a Chart,
    /// What the user says over the values of the chart.
    pub values: &'a Map<String, Value>,
    /// The name of the release.
    pub name: &'a str,
    /// The namespace of the release.
    pub namespace: &'a str,
    /// The number of the revision; the first is one.
    pub revision: i64,
    /// Whether a revision is there already.
    pub is_upgrade: bool,
    /// What the cluster can do.
    pub capabilities: &'a Capabilities,
    /// Answers the template function `lookup`; without it nothing is found.
    pub lookup: Option<ObjectLookup>,
    /// Without it the system's clock.
    pub clock: Option<TemplateClock>,
    /// Without it the system's source of randomness.
    pub random: Option<Random>,
}

/// A revision that can be applied.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreparedRelease {
    /// The definitions below `crds/`. Helm creates those that are not there, with the first revision, and never
    /// touches them again.
    pub crds: Vec<Value>,
    /// The objects in the order in which they are applied, marked as those of the release.
    pub objects: Vec<Value>,
    /// What runs at moments of its life.
    pub hooks: Vec<ReleaseHook>,
    /// The objects as texts, without the marks: what `helm get manifest` shows.
    pub manifest: String,
    /// What `NOTES.txt` says.
    pub notes: String,
}

/// Why a chart with values is no release.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The name is none that Helm takes.
    #[error("release name is invalid: {0}")]
    Name(String),
    /// It is a library, or of a type that is not known.
    #[error("{0} charts are not installable")]
    Type(String),
    /// `charts/` lacks what `Chart.yaml` names.
    #[error("found in Chart.yaml, but missing in charts/ directory: {0}")]
    Dependencies(String),
    /// The chart cannot be rendered.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// It makes too much.
    #[error("the chart makes more than {RENDERED_BYTES_MAX} bytes")]
    Large,
    /// An object is none.
    #[error("{path}: {why}")]
    Object {
        /// The file that it is from.
        path: String,
        /// What is wrong.
        why: String,
    },
}

/// Makes a revision of a chart and values.
///
/// # Errors
/// When Helm would not install it.
pub fn prepare(inputs: &ReleaseInputs<'_>) -> Result<PreparedRelease, PrepareError> {
    if !is_name(inputs.name) {
        return Err(PrepareError::Name(inputs.name.to_owned()));
    }
    let metadata = &inputs.chart.metadata;
    if !matches!(metadata.kind.as_str(), "" | "application") {
        return Err(PrepareError::Type(metadata.kind.clone()));
    }
    let missing: Vec<_> = metadata
        .dependencies
        .iter()
        .filter(|wanted| !inputs.chart.dependencies.iter().any(|it| it.name() == wanted.name))
        .map(|it| it.name.as_str())
        .collect();
    if !missing.is_empty() {
        return Err(PrepareError::Dependencies(missing.join(", ")));
    }
    let release = Release {
        name: inputs.name.to_owned(),
        namespace: inputs.namespace.to_owned(),
        revision: inputs.revision,
        is_install: !inputs.is_upgrade,
        is_upgrade: inputs.is_upgrade,
    };
    let options = RenderOptions {
        strict: false,
        lookup: inputs.lookup.clone(),
        clock: inputs.clock.clone(),
        random: inputs.random.clone(),
        work_max: None,
    };
    let values = Value::Object(inputs.values.clone());
    let rendered = inputs.chart.render(&release, inputs.capabilities, values, &options)?;
    if rendered.files.values().map(String::len).sum::<usize>() > RENDERED_BYTES_MAX {
        return Err(PrepareError::Large);
    }
    let mut manifest = String::new();
    let mut objects = Vec::new();
    for document in &rendered.manifests {
        manifest.push_str(&format!("---\n# Source: {}\n{}\n", document.path, document.text));
        for mut object in unfolded(document)? {
            mark(&mut object, inputs.name, inputs.namespace);
            objects.push(object);
        }
    }
    let notes = rendered.files.get(&format!("{}/templates/NOTES.txt", metadata.name));
    let mut crds = Vec::new();
    for document in &rendered.crds {
        crds.extend(unfolded(document)?);
    }
    Ok(PreparedRelease {
        crds,
        objects,
        hooks: rendered.hooks.iter().map(hook).collect(),
        manifest,
        notes: notes.cloned().unwrap_or_default(),
    })
}

/// The objects of a manifest that is stored, with the marks of the release.
///
/// # Errors
/// When a document of it cannot be read.
pub fn manifest_objects(manifest: &str, name: &str, namespace: &str) -> Result<Vec<Value>, PrepareError> {
    let mut objects = readable(manifest, &format!("manifest of release {name}"))?;
    for object in &mut objects {
        mark(object, name, namespace);
    }
    Ok(objects)
}

/// The objects of a hook. They are not of the release, and have no marks.
///
/// # Errors
/// When a document of it cannot be read.
pub fn hook_objects(hook: &ReleaseHook) -> Result<Vec<Value>, PrepareError> {
    readable(&hook.manifest, &hook.path)
}

fn readable(text: &str, path: &str) -> Result<Vec<Value>, PrepareError> {
    let read = manifest::read(text.as_bytes());
    match read.unreadable.into_iter().next() {
        None => Ok(read.objects),
        Some(why) => Err(PrepareError::Object {
            path: path.to_owned(),
            why,
        }),
    }
}

fn is_name(name: &str) -> bool {
    let part = |it: &str| {
        !it.is_empty()
            && it.bytes().all(|it| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            && !it.starts_with('-')
            && !it.ends_with('-')
    };
    name.len() <= NAME_LENGTH_MAX && name.split('.').all(part)
}

/// The objects of a document, with lists taken apart.
fn unfolded(document: &Document) -> Result<Vec<Value>, PrepareError> {
    let objects = manifest::objects(document.json.clone());
    let objects = objects.and_then(|objects| {
        let named = |it: &Value| it["metadata"]["name"].as_str().is_some_and(|it| !it.is_empty());
        if objects.iter().all(named) {
            Ok(objects)
        } else {
            Err("an object has no name")
        }
    });
    objects.map_err(|why| PrepareError::Object {
        path: document.path.clone(),
        why: why.to_owned(),
    })
}

fn mark(object: &mut Value, name: &str, namespace: &str) {
    let (label, helm) = MANAGED_BY;
    let marks = [
        ("labels", label, helm),
        ("annotations", RELEASE_NAME, name),
        ("annotations", RELEASE_NAMESPACE, namespace),
    ];
    let Some(object) = object.as_object_mut() else { return };
    for (field, key, value) in marks {
        let metadata = table(object, "metadata");
        table(metadata, field).insert(key.to_owned(), Value::String(value.to_owned()));
    }
}

/// The table under a key; something else there makes way, as it would for the server.
fn table<'a>(object: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let there = object.entry(key).or_insert_with(|| Value::Object(Map::new()));
    if !there.is_object() {
        *there = Value::Object(Map::new());
    }
    there.as_object_mut().expect("it has just been made one")
}

fn hook(hook: &Hook) -> ReleaseHook {
    let metadata = &hook.document.json["metadata"];
    let words = |text: &str| -> Vec<String> {
        let words = text.split(',').map(|it| it.trim().to_lowercase());
        words.filter(|it| !it.is_empty()).collect()
    };
    let log_policies = metadata["annotations"]["helm.sh/hook-output-log-policy"].as_str();
    ReleaseHook {
        name: metadata["name"].as_str().unwrap_or_default().to_owned(),
        kind: hook.document.kind().to_owned(),
        path: hook.document.path.clone(),
        manifest: hook.document.text.clone(),
        events: hook
            .events
            .iter()
            .map(|it| {
                if it == "test-success" {
                    "test".to_owned()
                } else {
                    it.clone()
                }
            })
            .collect(),
        weight: hook.weight,
        delete_policies: hook.delete_policies.clone(),
        output_log_policies: log_policies.map(words).unwrap_or_default(),
        ..ReleaseHook::default()
    }
}
