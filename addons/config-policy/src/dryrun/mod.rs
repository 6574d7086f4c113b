//! A policy is evaluated without a cluster: what it would say of the objects of files, or of those of a live cluster,
//! which is only read.
//!
//! ```text
//! policy_file --policy--+                          +--> report, compare_status --> standard output, files
//!                       +--> evaluate --> status --+
//! inputs --> files -----+                          +--> exit code
//! ```
//!
//! Upstream: config-policy-controller `cmd/dryrun`, `pkg/dryrun`.

mod compare_status;
mod files;
mod flags;
mod go;
mod inputs;
mod live;
mod mappings;
mod policy_file;
mod report;

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Mutex as StdMutex},
};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use clap::{CommandFactory, Parser};
use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::Client,
    ocm_api::policy::configuration_policy::{ConfigurationPolicy, ConfigurationPolicyStatus},
    program::Place,
    reconcile::async_trait,
};
use parking_lot::Mutex;
use policy_template::kubernetes_yaml_of;
use serde_json::Value;
use tracing_subscriber::{Layer, filter::LevelFilter, layer::SubscriberExt};

use crate::{
    cluster::{Cluster, ServedKind},
    evaluate::{COMPLIANT, EvaluationFailure, EvaluationSettings, Recorder, Remedy, evaluate, go_types},
};
use files::FileCluster;
pub use flags::{DryRun, DryRunCommand};
pub use inputs::StandardInput;
use live::LiveCluster;
use mappings::KnownKinds;

/// The name of the program.
pub const PROGRAM: &str = "dryrun";

/// The exit code for a policy that is not compliant.
const NON_COMPLIANT: u8 = 2;
/// The exit code for all that went wrong.
const FAILED: u8 = 1;

/// Why a dry run does not end well.
#[derive(Debug, thiserror::Error)]
enum DryRunError {
    #[error("policy is NonCompliant")]
    NonCompliant,
    #[error("{doing}: {why}")]
    Failed { doing: &'static str, why: String },
    #[error("{0}")]
    Bare(String),
}

fn failed(doing: &'static str) -> impl Fn(String) -> DryRunError {
    move |why| DryRunError::Failed { doing, why }
}

/// What a dry run has to say, for whoever called it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DryRunOutput {
    /// For the standard output.
    pub out: String,
    /// For the standard error; empty for nothing.
    pub error: String,
    /// The exit code: 0 for a policy that is compliant, 2 for one that is not, 1 for all that went wrong.
    pub code: u8,
}

impl DryRunOutput {
    /// Prints it. Whoever reads it may have gone, and then there is nobody to tell.
    pub fn print(&self) -> ExitCode {
        let mut out = std::io::stdout().lock();
        let _ = out.write_all(self.out.as_bytes()).and_then(|()| out.flush());
        let _ = std::io::stderr().write_all(self.error.as_bytes());
        ExitCode::from(self.code)
    }
}

/// Runs the program `dryrun` with its arguments, without its name.
pub fn run(arguments: Vec<OsString>, place: &Place) -> ExitCode {
    output(arguments, StandardInput::of_process(), place).print()
}

/// What the program `dryrun` has to say for these arguments.
pub fn output(arguments: Vec<OsString>, input: StandardInput, place: &Place) -> DryRunOutput {
    let first = arguments.first().and_then(|it| it.to_str());
    if first == Some("completion") {
        return completion(arguments.get(1));
    }
    let last = arguments.last().cloned().unwrap_or_default();
    let words = std::iter::once(PROGRAM.into()).chain(arguments);
    match flags::DryRunProgram::try_parse_from(words) {
        Ok(program) => program.arguments.output(input, async || client(place).await),
        Err(error) if !error.use_stderr() => DryRunOutput {
            out: error.to_string(),
            ..DryRunOutput::default()
        },
        Err(error) => DryRunOutput {
            out: format!("{}\n", flags::DryRunProgram::command().render_help()),
            error: format!("Error: {}\n", flags::as_cobra_says(&error, &last)),
            code: FAILED,
        },
    }
}

fn completion(shell: Option<&OsString>) -> DryRunOutput {
    let shell = shell.and_then(|it| it.to_str()?.parse::<clap_complete::Shell>().ok());
    let mut command = flags::DryRunProgram::command();
    let out = match shell {
        Some(shell) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, PROGRAM, &mut script);
            String::from_utf8_lossy(&script).into_owned()
        }
        None => format!("{}\n", command.render_help()),
    };
    DryRunOutput {
        out,
        ..DryRunOutput::default()
    }
}

/// The cluster of `$KUBECONFIG`, of the kubeconfig that people have at home, or of the pod.
async fn client(place: &Place) -> anyhow::Result<Client> {
    let at_home = || std::env::home_dir().map(|it| it.join(".kube/config"));
    let kubeconfig: Option<PathBuf> = match std::env::var_os("KUBECONFIG") {
        Some(path) if !path.is_empty() => None,
        _ => at_home().filter(|it| it.exists()),
    };
    place.client(kubeconfig.as_deref()).await
}

impl DryRun {
    /// What comes of what was typed; `connect` makes a client of the live cluster, if one is needed.
    pub fn output(self, input: StandardInput, connect: impl AsyncFnOnce() -> anyhow::Result<Client>) -> DryRunOutput {
        let mut out = String::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = match runtime {
            Ok(runtime) => runtime.block_on(self.execute(input, connect, &mut out)),
            Err(error) => Err(DryRunError::Bare(error.to_string())),
        };
        let (error, code) = match done {
            Ok(()) => (String::new(), 0),
            Err(error) => {
                let code = match error {
                    DryRunError::NonCompliant => NON_COMPLIANT,
                    _ => FAILED,
                };
                (format!("Error: {error}\n"), code)
            }
        };
        DryRunOutput { out, error, code }
    }

    async fn execute(
        &self,
        input: StandardInput,
        connect: impl AsyncFnOnce() -> anyhow::Result<Client>,
        out: &mut String,
    ) -> Result<(), DryRunError> {
        if let Some(DryRunCommand::Generate) = self.command {
            let chain = |error: anyhow::Error| DryRunError::Bare(format!("{error:#}"));
            *out += &mappings::generate(&connect().await.map_err(chain)?)
                .await
                .map_err(chain)?;
            return Ok(());
        }
        let file = policy_file::read(self.policy()).map_err(failed("unable to read input policy"))?;
        for _ in 0..file.ignored {
            *out += "Ignoring additional ConfigurationPolicy in input policy\n";
        }
        let mut policy = file.policy;
        let _log = self
            .log()
            .map_err(failed("unable to setup the logging configuration"))?;
        let setup = failed("unable to setup the dryrun reconciler");
        let collector = Collector::default();
        let status = match self.is_from_cluster() {
            true => {
                let client = connect().await.map_err(|error| setup(format!("{error:#}")))?;
                let cluster = LiveCluster::new(client);
                self.evaluate(&mut policy, &cluster, collector).await?
            }
            false => {
                let cluster = Arc::new(FileCluster::new(self.kinds().map_err(setup)?));
                let objects = inputs::read(&self.inputs, input).map_err(failed("unable to read input resources"))?;
                for object in objects {
                    cluster.put(object).map_err(failed("unable to apply input resources"))?;
                }
                let collector = Collector {
                    files: Some(Arc::clone(&cluster)),
                    ..collector
                };
                self.evaluate(&mut policy, &*cluster, collector).await?
            }
        };
        self.report(&status, out)
    }

    fn kinds(&self) -> Result<KnownKinds, String> {
        match self.mappings_file() {
            None => Ok(KnownKinds::built_in()),
            Some(path) => KnownKinds::read(&read_text(path)?),
        }
    }

    async fn evaluate(
        &self,
        policy: &mut ConfigurationPolicy,
        cluster: &dyn Cluster,
        collector: Collector,
    ) -> Result<Evaluated, DryRunError> {
        let doing = failed("unable to complete the dryrun reconcile");
        check_definitions(policy).map_err(&doing)?;
        *collector.status.lock() = policy.status.clone().unwrap_or_default();
        let settings = EvaluationSettings {
            full_diffs: self.full_diffs(),
            ..EvaluationSettings::default()
        };
        match evaluate(policy, cluster, &collector, &settings).await {
            Err(failure) if !is_told(&failure) => Err(doing(failure.message)),
            _ => Ok(Evaluated {
                status: collector.status.into_inner(),
                messages: collector.messages.into_inner(),
            }),
        }
    }

    fn report(&self, evaluated: &Evaluated, out: &mut String) -> Result<(), DryRunError> {
        let status = &evaluated.status;
        let document = serde_json::to_value(status).unwrap_or_default();
        if let Some(path) = self.desired_status() {
            let doing = failed("unable to compare desired status");
            let expected = read_text(path).map_err(&doing)?;
            let expected = inputs::documents(&expected).map_err(|why| doing(format!("yaml: {why}")))?;
            let expected = match expected.into_iter().next() {
                Some(Value::Object(entries)) => entries,
                None | Some(Value::Null) => serde_json::Map::new(),
                Some(_) => return Err(doing("yaml: it is no map".to_owned())),
            };
            let nothing = serde_json::Map::new();
            let actual = document.as_object().unwrap_or(&nothing);
            *out += &compare_status::compare(&expected, actual, self.colors());
            out.push('\n');
        }
        if let Some(path) = self.status_path() {
            write(path, &kubernetes_yaml_of(&document)).map_err(failed("unable to save the resulting policy state"))?;
        }
        if self.prints_diffs() {
            *out += &report::differences(status, self.colors());
        }
        let messages = report::messages(&evaluated.messages);
        match self.messages_path() {
            Some(path) => write(path, &messages).map_err(failed("unable to save or print the compliance messages"))?,
            None => *out += &format!("# Compliance messages:\n{messages}"),
        }
        match status.compliant == COMPLIANT {
            true => Ok(()),
            false => Err(DryRunError::NonCompliant),
        }
    }

    /// The log, for as long as this is kept.
    fn log(&self) -> Result<Option<tracing::subscriber::DefaultGuard>, String> {
        let Some(path) = self.log_path() else {
            return Ok(None);
        };
        let file = File::create(path).map_err(|error| format!("open {}: {}", path.display(), go::of_system(&error)))?;
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(false)
            .with_writer(StdMutex::new(file))
            .with_filter(LevelFilter::DEBUG);
        let log = tracing_subscriber::registry().with(lines);
        Ok(Some(tracing::subscriber::set_default(log)))
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("open {}: {}", path.display(), go::of_system(&error)))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("open {}: {}", path.display(), go::of_system(&error)))
}

/// Whether a policy is at fault in one of the ways of which upstream tells in its status alone.
fn is_told(failure: &EvaluationFailure) -> bool {
    let faults = ["Error parsing object-templates-raw YAML: ", "initialization vector"];
    failure.remedy == Remedy::Spec && faults.iter().any(|it| failure.message.contains(it))
}

/// Object templates without a definition, which an API server does not let in.
fn check_definitions(policy: &ConfigurationPolicy) -> Result<(), String> {
    if !policy.spec.object_templates_raw.is_empty() {
        return Ok(());
    }
    for template in &policy.spec.object_templates {
        let definition = &template.object_definition.0;
        match definition {
            Value::Object(_) => {}
            Value::Null => return Err("unexpected end of JSON input".to_owned()),
            other => {
                let name = go_types::json_name(other);
                return Err(format!(
                    "json: cannot unmarshal {name} into Go value of type controllers.minimumMetadata"
                ));
            }
        }
        let metadata = &definition["metadata"];
        let texts = [
            (&definition["apiVersion"], "minimumMetadata.apiVersion"),
            (&definition["kind"], "minimumMetadata.kind"),
            (&metadata["name"], ".metadata.name"),
            (&metadata["namespace"], ".metadata.namespace"),
        ];
        if let Some((value, field)) = texts.iter().find(|(it, _)| !it.is_null() && !it.is_string()) {
            let name = go_types::json_name(value);
            return Err(format!(
                "json: cannot unmarshal {name} into Go struct field {field} of type string"
            ));
        }
    }
    Ok(())
}

/// What came of an evaluation.
struct Evaluated {
    status: ConfigurationPolicyStatus,
    messages: Vec<String>,
}

/// Keeps what an evaluation tells.
#[derive(Default)]
struct Collector {
    /// The status as it was written last.
    status: Mutex<ConfigurationPolicyStatus>,
    messages: Mutex<Vec<String>>,
    /// The cluster where the policy lives, if it lives in one.
    files: Option<Arc<FileCluster>>,
}

const ENCRYPTION_KEY: &str = "policy-encryption-key";

#[async_trait]
impl Recorder for Collector {
    async fn tell(&self, _: &ConfigurationPolicy, message: &str, _: Timestamp) -> Result<(), String> {
        self.messages.lock().push(message.to_owned());
        Ok(())
    }

    async fn write(&self, policy: &mut ConfigurationPolicy) -> Result<(), String> {
        // As upstream: what has no name is not found again.
        if policy.metadata.name.as_deref().unwrap_or_default().is_empty() {
            return Ok(());
        }
        *self.status.lock() = policy.status.clone().unwrap_or_default();
        Ok(())
    }

    async fn remark(&self, _: &ConfigurationPolicy, _: bool, _: &str, _: &str) {}

    async fn keys(&self, policy: &ConfigurationPolicy) -> Result<(Vec<u8>, Vec<u8>), String> {
        let missing = || format!("secrets {ENCRYPTION_KEY:?} not found");
        let files = self.files.as_ref().ok_or_else(missing)?;
        let kind = ServedKind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            plural: "secrets".to_owned(),
            namespaced: true,
            watchable: true,
        };
        let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
        let secret = files.get(&kind, namespace, ENCRYPTION_KEY).await;
        let secret = secret.map_err(|error| error.message)?.ok_or_else(missing)?;
        let of = |field: &str| {
            let text = secret["data"][field].as_str().unwrap_or_default();
            BASE64.decode(text).context("no base64").unwrap_or_default()
        };
        Ok((of("key"), of("previousKey")))
    }
}
