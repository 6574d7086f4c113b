//! Renders a chart with values: Helm's engine and what `helm template` does around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::chart::Chart;
use super::documents::{self, Document, Hook};
use super::values::{Values, coalesce};
use super::{Capabilities, dependencies, objects, schema};
use crate::engine::{Engine, MissingKey, Random, TemplateClock, read};
use crate::exec::{Call, Run, execute};
use crate::functions::Functions;
use crate::parse::Trees;
use crate::value::{Map, Numbers, Value};

/// `.Release`.
#[derive(Clone, Debug)]
pub struct Release {
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub is_install: bool,
    pub is_upgrade: bool,
}

impl Release {
    /// The first installation under this name.
    pub fn install(name: impl Into<String>, namespace: impl Into<String>) -> Self {
        Release {
            name: name.into(),
            namespace: namespace.into(),
            revision: 1,
            is_install: true,
            is_upgrade: false,
        }
    }
}

/// Answers the template function `lookup`: api version, kind, namespace, name; what is not there is an empty object.
pub type ObjectLookup = Arc<dyn Fn(&str, &str, &str, &str) -> Result<Json, String> + Send + Sync>;

/// How to render. The default is what `helm template` does.
#[derive(Clone, Default)]
pub struct RenderOptions {
    /// A value that is not there is an error rather than nothing.
    pub strict: bool,
    /// Without it `lookup` finds nothing.
    pub lookup: Option<ObjectLookup>,
    /// Without it the system's clock.
    pub clock: Option<TemplateClock>,
    /// Without it the system's source of randomness.
    pub random: Option<Random>,
    /// How much work the whole chart may be, as [`Engine::work_max`] has it.
    pub work_max: Option<u64>,
}

/// What a chart made.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The objects below `crds/`, which are not templates and go first.
    pub crds: Vec<Document>,
    /// The objects of the templates in the order in which Helm installs them.
    pub manifests: Vec<Document>,
    pub hooks: Vec<Hook>,
    /// Every rendered file as a text, by path; `NOTES.txt` among them.
    pub files: BTreeMap<String, String>,
}

/// Why a chart could not be rendered, in Helm's words.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    #[error("{0}")]
    Values(String),
    /// The values are not what `values.schema.json` of the chart or of a subchart allows.
    #[error("{0}")]
    Schema(String),
    #[error("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {found}")]
    KubeVersion { wanted: String, found: String },
    #[error("{0}")]
    Template(String),
    #[error("YAML parse error on {path}: {message}")]
    Yaml { path: String, message: String },
}

impl Chart {
    /// Renders the chart. `values` lie over those of the chart, and together they have to be what its
    /// `values.schema.json` allows.
    pub fn render(
        &self,
        release: &Release,
        capabilities: &Capabilities,
        values: Json,
        options: &RenderOptions,
    ) -> Result<Rendered, RenderError> {
        let (chart, files) = self.prepared(release, capabilities, values, options)?;
        let mut found = Vec::new();
        for (path, text) in &files {
            if path.ends_with("NOTES.txt") {
                continue;
            }
            found.extend(documents::read(path, text).map_err(|message| RenderError::Yaml {
                path: path.clone(),
                message,
            })?);
        }
        let (manifests, hooks) = documents::sort(found);
        Ok(Rendered {
            crds: crds(&chart)?,
            manifests,
            hooks,
            files,
        })
    }

    /// The text of every file that the chart renders, by path, not yet read as YAML.
    pub fn render_files(
        &self,
        release: &Release,
        capabilities: &Capabilities,
        values: Json,
        options: &RenderOptions,
    ) -> Result<BTreeMap<String, String>, RenderError> {
        self.prepared(release, capabilities, values, options)
            .map(|(_, files)| files)
    }

    /// The chart with its subcharts resolved, and what its files are rendered to.
    fn prepared(
        &self,
        release: &Release,
        capabilities: &Capabilities,
        values: Json,
        options: &RenderOptions,
    ) -> Result<(Chart, BTreeMap<String, String>), RenderError> {
        let values = match values {
            Json::Object(values) => values,
            Json::Null => Values::new(),
            other => {
                let message = format!(
                    "the values are no table: {}",
                    crate::json::write(&other, crate::json::COMPACT)
                );
                return Err(RenderError::Values(message));
            }
        };
        let wanted = &self.metadata.kube_version;
        let found = &capabilities.kube_version.version;
        if !wanted.is_empty() && !fits(wanted, found) {
            return Err(RenderError::KubeVersion {
                wanted: wanted.clone(),
                found: found.clone(),
            });
        }
        let chart = dependencies::process(self, &values).map_err(RenderError::Values)?;
        let values = coalesce(&chart, &values, false).map_err(RenderError::Values)?;
        schema::check(&chart, &values).map_err(RenderError::Schema)?;
        let files = render_files(&chart, release, capabilities, values, options)?;
        Ok((chart, files))
    }
}

fn fits(range: &str, version: &str) -> bool {
    use crate::sprig::semver::{SemanticVersion, VersionConstraints};
    match (VersionConstraints::parse(range), SemanticVersion::parse(version)) {
        (Ok(range), Ok(version)) => range.allow(&version),
        _ => false,
    }
}

fn crds(chart: &Chart) -> Result<Vec<Document>, RenderError> {
    let mut files = Vec::new();
    chart.crds(&format!("{}/", chart.name()), &mut files);
    let mut crds = Vec::new();
    for file in files {
        let text = String::from_utf8_lossy(&file.data);
        crds.extend(documents::read(&file.name, &text).map_err(|message| RenderError::Yaml {
            path: file.name.clone(),
            message,
        })?);
    }
    Ok(crds)
}

/// One file to render and what it is rendered with.
struct Job {
    text: String,
    data: Value,
    base: String,
}

fn render_files(
    chart: &Chart,
    release: &Release,
    capabilities: &Capabilities,
    values: Values,
    options: &RenderOptions,
) -> Result<BTreeMap<String, String>, RenderError> {
    let mut engine = Engine::new(Functions::helm()).missing_key(if options.strict {
        MissingKey::Error
    } else {
        MissingKey::Zero
    });
    engine.settings.helm = true;
    engine.settings.lookup.clone_from(&options.lookup);
    if let Some(clock) = &options.clock {
        engine.settings.clock = clock.clone();
    }
    if let Some(random) = &options.random {
        engine.settings.random = random.clone();
    }
    if let Some(work) = options.work_max {
        engine.settings.work_max = work;
    }
    let release = Value::map([
        ("Name", Value::from(release.name.as_str())),
        ("Namespace", Value::from(release.namespace.as_str())),
        ("IsUpgrade", Value::Bool(release.is_upgrade)),
        ("IsInstall", Value::Bool(release.is_install)),
        ("Revision", Value::int(release.revision)),
        ("Service", Value::from("Helm")),
    ]);
    let mut jobs = BTreeMap::new();
    let top = Value::from_json(&Json::Object(values), Numbers::Float);
    let top = match top {
        Value::Map(map) => Value::Map(Map::named(map.entries().into_iter().collect(), "chartutil.Values")),
        other => other,
    };
    collect(
        chart,
        chart.name(),
        true,
        top,
        &release,
        &capabilities.value(),
        &mut jobs,
    );

    let mut names: Vec<&String> = jobs.keys().collect();
    // What lies nearer to the root is read later, so that a parent's definitions win.
    names.sort_by(|a, b| (b.matches('/').count(), b).cmp(&(a.matches('/').count(), a)));
    let mut trees = Trees::new();
    for name in &names {
        let made = read(&engine, name, &jobs[*name].text)
            .map_err(|message| RenderError::Template(parse_error(name, &message)))?;
        crate::parse::add(&mut trees, made);
    }
    let run = Run::new(&engine.settings, &engine.functions, None);
    let call = Call {
        run: &run,
        trees: &trees,
    };
    let mut rendered = BTreeMap::new();
    for name in names {
        if name.rsplit('/').next().is_some_and(|it| it.starts_with('_')) {
            continue;
        }
        let job = &jobs[name];
        if let Value::Map(data) = &job.data {
            let entries = [
                (Arc::from("Name"), Value::from(name.as_str())),
                (Arc::from("BasePath"), Value::from(job.base.as_str())),
            ];
            let template = Map::named(entries.into_iter().collect(), "chartutil.Values");
            data.set("Template", Value::Map(template))
                .map_err(RenderError::Template)?;
        }
        let Some(tree) = trees.get(name.as_str()) else {
            continue;
        };
        let text = execute(call, tree, job.data.clone())
            .map_err(|message| RenderError::Template(execution_error(name, message)))?;
        rendered.insert(name.clone(), text.replace("<no value>", ""));
    }
    Ok(rendered)
}

/// The templates of a chart and of all below it, with the values that each sees.
fn collect(
    chart: &Chart,
    path: &str,
    is_root: bool,
    values: Value,
    release: &Value,
    capabilities: &Value,
    jobs: &mut BTreeMap<String, Job>,
) -> Value {
    let subcharts = Map::default();
    let data = Value::map([
        ("Chart", objects::chart(chart, is_root)),
        ("Files", objects::files(&chart.files)),
        ("Release", release.clone()),
        ("Capabilities", capabilities.clone()),
        ("Values", values.clone()),
        ("Subcharts", Value::Map(subcharts.clone())),
    ]);
    for subchart in &chart.dependencies {
        let name = subchart.name();
        let below = match &values {
            Value::Map(values) => values.get(name),
            _ => None,
        };
        // The map is the parent's own: what a subchart's template sets, the parent sees.
        let below = below
            .filter(|it| matches!(it, Value::Map(_)))
            .unwrap_or_else(|| Value::Map(Map::default()));
        let path = format!("{path}/charts/{name}");
        let made = collect(subchart, &path, false, below, release, capabilities, jobs);
        // It is a new map that holds no other, so it cannot contain this one.
        let _ = subcharts.set(name, made);
    }
    for file in &chart.templates {
        let base = file.name.rsplit('/').next().unwrap_or(&file.name);
        if chart.is_library() && !base.starts_with('_') {
            continue;
        }
        let job = Job {
            text: String::from_utf8_lossy(&file.data).into_owned(),
            data: data.clone(),
            base: format!("{path}/templates"),
        };
        jobs.insert(format!("{path}/{}", file.name), job);
    }
    data
}

fn parse_error(name: &str, message: &str) -> String {
    let tokens: Vec<&str> = message.split(": ").collect();
    match tokens.as_slice() {
        [_, location, .., last] => format!("parse error at ({location}): {last}"),
        [_, last] => format!("parse error at ({last}): {last}"),
        _ => format!("parse error in ({name}): {message}"),
    }
}

fn execution_error(name: &str, message: String) -> String {
    use super::functions::{WARNING_END, WARNING_START};
    let mut tokens = message.splitn(3, ": ");
    let (Some(_), Some(location), Some(rest)) = (tokens.next(), tokens.next(), tokens.next()) else {
        return format!("execution error in ({name}): {message}");
    };
    if let (Some(start), Some(end)) = (rest.find(WARNING_START), rest.rfind(WARNING_END))
        && start + WARNING_START.len() <= end
    {
        return format!(
            "execution error at ({location}): {}",
            &rest[start + WARNING_START.len()..end]
        );
    }
    message
}
