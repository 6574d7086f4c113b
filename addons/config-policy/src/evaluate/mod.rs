//! The judgement of one ConfigurationPolicy: which objects it means, how they differ from what it wants, what is done
//! about it, and what it says of that.
//!
//! ```text
//! object templates --desired--> objects, rendered --judge--> findings --verdict--> conditions --> message, status
//!                                                    |
//!                                      compare, create, update, delete
//! ```

pub mod compare;
mod desired;
mod diff;
pub mod go_types;
pub mod keys;
mod messages;
mod namespaces;
mod prune;
mod related;
mod single;
mod status;
pub mod templates;
mod unified;

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::{
        annotations,
        configuration_policy::{ConfigurationPolicy, ConfigurationPolicySpec, ObjectTemplate, RelatedObject},
    },
    reconcile::async_trait,
    values::settings::parse_bool,
};
use policy_template::{
    Answers, Delimiters, Input, TemplateContext, TemplateEncryption, TemplateKeys, TemplateSettings, has_template,
    read_kubernetes_yaml,
};
use serde_json::Value;

use crate::cluster::{Cluster, ServedKind};
use messages::{Finding, FindingsByObject, ObjectFindings, TemplateVerdict, batches, reason, verdict};
pub use namespaces::selected as selected_namespaces;
pub use prune::prunes;
pub use single::{STILL_THERE, WantedObject};
pub use status::{COMPLIANT, NON_COMPLIANT, TERMINATING};
use templates::resolve;

/// Whether namespaces that are being deleted are selected where a policy leaves it open
/// (`--default-terminating-namespace-inclusion`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TerminatingNamespaces {
    /// As all others.
    #[default]
    IfMatch,
    /// Never.
    Never,
}

/// What holds for all policies of a controller.
#[derive(Clone, Debug, Default)]
pub struct EvaluationSettings {
    /// Template functions whose use is an error, besides `env` and `expandenv`.
    pub denied_functions: Vec<String>,
    /// Whether differences are shown whole, and not cut at 50 lines.
    pub full_diffs: bool,
    /// Whether namespaces that are being deleted are selected where a policy leaves it open.
    pub terminating_namespaces: TerminatingNamespaces,
}

/// Who hears of an evaluation, where the policy lives: the controller writes events and the status, `dryrun` prints.
#[async_trait]
pub trait Recorder: Send + Sync {
    /// A compliance message, for the Policy that owns this one, and when it was made. The status is written only when
    /// this has succeeded.
    async fn tell(&self, policy: &ConfigurationPolicy, message: &str, at: Timestamp) -> Result<(), String>;

    /// The status is to be written as it is in `policy`.
    async fn write(&self, policy: &mut ConfigurationPolicy) -> Result<(), String>;

    /// An event about the policy itself: its reason and its note. It is a warning, or it is not.
    async fn remark(&self, policy: &ConfigurationPolicy, warning: bool, reason: &str, note: &str);

    /// The keys of encrypted values, of the Secret `policy-encryption-key` in the namespace of the policy: `key` and
    /// `previousKey`.
    async fn keys(&self, policy: &ConfigurationPolicy) -> Result<(Vec<u8>, Vec<u8>), String>;

    /// An object was compared, which took so long.
    fn compared(&self, policy: &str, object: &WantedObject<'_>, took: Duration) {
        let _ = (policy, object, took);
    }

    /// The author of a policy has made an error of this type: `invalid-template`, `no-object-CRD`.
    fn user_error(&self, policy: &ConfigurationPolicy, r#type: &'static str) {
        let _ = (policy, r#type);
    }
}

/// Why an evaluation is to be tried again, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvaluationFailure {
    /// What is wrong, for the log.
    pub message: String,
    /// What would help.
    pub remedy: Remedy,
}

/// What would help a policy that could not be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remedy {
    /// Another spec alone.
    Spec,
    /// A kind that has to come: it is looked for every 10 seconds.
    Kind,
    /// Trying again, with growing delays.
    Again,
}

/// Whether the policy waits for changes of what it has read, and not for a time.
pub fn is_watching(policy: &ConfigurationPolicy) -> bool {
    let interval = &policy.spec.evaluation_interval;
    let state = policy.status.as_ref().map(|it| it.compliant.as_str());
    let interval = match state {
        Some(COMPLIANT) => &interval.compliant,
        _ => &interval.noncompliant,
    };
    matches!(interval.as_str(), "" | "watch")
}

/// Evaluates a policy: looks at its objects, puts right what it enforces, and tells `recorder`. The status of `policy`
/// is what was found. What a policy with a deletionTimestamp leaves behind is pruned. Hub templates have been filled in
/// before.
///
/// # Errors
/// When it has to be tried again; what was found until then is told all the same.
pub async fn evaluate(
    policy: &mut ConfigurationPolicy,
    cluster: &dyn Cluster,
    recorder: &dyn Recorder,
    settings: &EvaluationSettings,
) -> Result<(), EvaluationFailure> {
    let seen = policy.clone();
    let mut evaluation = Evaluation::new(&seen, cluster, recorder, settings);
    let outcome = if seen.metadata.deletion_timestamp.is_some() {
        evaluation.let_go(policy).await
    } else {
        match evaluation.prepare().await {
            Ok(templates) => {
                evaluation.run(policy, &templates).await;
                Ok(())
            }
            Err(problem) => Err(problem),
        }
    };
    if let Err(Problem {
        reason,
        message,
        failure,
    }) = outcome
    {
        evaluation.say_only(policy, reason, message).await;
        // That it could not be told weighs more.
        return Err(evaluation.failure.unwrap_or(failure));
    }
    evaluation.failure.map_or(Ok(()), Err)
}

/// Says that a policy is not evaluated, because its hub templates could not be filled in.
///
/// # Errors
/// Always: it has to be tried again.
pub async fn refuse(
    policy: &mut ConfigurationPolicy,
    cluster: &dyn Cluster,
    recorder: &dyn Recorder,
    settings: &EvaluationSettings,
    why: &str,
) -> Result<(), EvaluationFailure> {
    let seen = policy.clone();
    let mut evaluation = Evaluation::new(&seen, cluster, recorder, settings);
    evaluation.say_only(policy, HUB_TEMPLATES, why.to_owned()).await;
    evaluation.fail(Remedy::Again, why);
    evaluation.failure.map_or(Ok(()), Err)
}

/// Why a policy was not evaluated at all: what it says, and what would help.
struct Problem {
    reason: &'static str,
    message: String,
    failure: EvaluationFailure,
}

impl Problem {
    fn new(reason: &'static str, message: impl Into<String>, remedy: Remedy) -> Self {
        let message = message.into();
        let failure = EvaluationFailure {
            message: message.clone(),
            remedy,
        };
        Self {
            reason,
            message,
            failure,
        }
    }
}

/// One evaluation of one policy.
pub struct Evaluation<'a> {
    policy: &'a ConfigurationPolicy,
    policy_spec: &'a ConfigurationPolicySpec,
    cluster: &'a dyn Cluster,
    recorder: &'a dyn Recorder,
    settings: &'a EvaluationSettings,
    encryption: TemplateEncryption,
    answers: Answers,
    /// Whether it waits for changes of what it reads.
    watching: bool,
    /// Whether templates of object templates are rendered.
    renders: bool,
    related_before: Vec<RelatedObject>,
    failure: Option<EvaluationFailure>,
    /// What went wrong, each once.
    failures: Vec<String>,
}

/// The object templates of a policy.
struct ObjectTemplates {
    templates: Vec<ObjectTemplate>,
    /// Whether they were rendered from secrets.
    sensitive: bool,
}

impl<'a> Evaluation<'a> {
    fn new(
        policy: &'a ConfigurationPolicy,
        cluster: &'a dyn Cluster,
        recorder: &'a dyn Recorder,
        settings: &'a EvaluationSettings,
    ) -> Self {
        let status = policy.status.as_ref();
        Self {
            policy,
            policy_spec: &policy.spec,
            cluster,
            recorder,
            settings,
            encryption: TemplateEncryption::Off,
            answers: Answers::default(),
            watching: is_watching(policy),
            renders: !templates_disabled(policy),
            related_before: status.map(|it| it.related_objects.clone()).unwrap_or_default(),
            failure: None,
            failures: Vec::new(),
        }
    }
}

impl Evaluation<'_> {
    fn policy_name(&self) -> &str {
        self.policy.metadata.name.as_deref().unwrap_or_default()
    }

    fn enforces(&self) -> bool {
        self.policy_spec.remediation_action.eq_ignore_ascii_case("enforce")
    }

    /// Remembers that something is to be tried again; what needs it soonest decides.
    fn fail(&mut self, remedy: Remedy, message: impl Into<String>) {
        let message = message.into();
        if !self.failures.contains(&message) {
            self.failures.push(message);
        }
        let before = self.failure.as_ref().map_or(remedy, |it| it.remedy);
        // As apimachinery words several errors.
        let message = match self.failures.as_slice() {
            [only] => only.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        self.failure = Some(EvaluationFailure {
            message,
            remedy: before.max(remedy),
        });
    }

    fn object_settings(&self) -> TemplateSettings {
        TemplateSettings {
            denied: self.settings.denied_functions.clone(),
            encryption: self.encryption.clone(),
            skip_object: true,
            ..TemplateSettings::managed()
        }
    }

    /// The object templates, once nothing of the policy stands against them.
    async fn prepare(&mut self) -> Result<ObjectTemplates, Problem> {
        let spec = self.policy_spec;
        if spec.remediation_action.is_empty() {
            self.recorder.user_error(self.policy, "invalid-template");
            let message = "Policy does not have a RemediationAction specified";
            return Err(Problem::new("Invalid spec", message, Remedy::Spec));
        }
        if !self.renders {
            return Ok(ObjectTemplates {
                templates: spec.object_templates.clone(),
                sensitive: false,
            });
        }
        let text = serde_json::to_string(spec).unwrap_or_default();
        if has_template(&text, Delimiters::Hub, false) {
            let message = "the governance-standalone-hub-templating addon must be enabled to resolve hub templates on the \
                           managed cluster";
            return Err(Problem::new(HUB_TEMPLATES, message, Remedy::Spec));
        }
        self.encryption = self.encryption_keys().await?;
        match spec.object_templates_raw.as_str() {
            "" => Ok(ObjectTemplates {
                templates: spec.object_templates.clone(),
                sensitive: false,
            }),
            raw => {
                // They are rendered as a whole, and not once more.
                self.renders = false;
                self.raw_templates(raw).await
            }
        }
    }

    async fn encryption_keys(&self) -> Result<TemplateEncryption, Problem> {
        const REASON: &str = "Template encryption configuration error";
        let iv = self.policy.annotations().get(annotations::ENCRYPTION_IV);
        let Some(iv) = iv.filter(|it| !it.is_empty()) else {
            return Ok(TemplateEncryption::Off);
        };
        let iv = BASE64.decode(iv).map_err(|_| {
            let annotation = annotations::ENCRYPTION_IV;
            let message = format!(
                "the policy annotation of \"{annotation}\" is not Base64: {}",
                illegal_base64(iv)
            );
            Problem::new(REASON, message, Remedy::Spec)
        })?;
        let (key, previous) = self.recorder.keys(self.policy).await.map_err(|why| {
            let namespace = self.policy.namespace().unwrap_or_default();
            let message =
                format!("failed to get the encryption key from Secret {namespace}/policy-encryption-key: {why}");
            Problem::new(REASON, message, Remedy::Again)
        })?;
        Ok(TemplateEncryption::Decrypt(TemplateKeys { key, previous, iv }))
    }

    async fn raw_templates(&mut self, raw: &str) -> Result<ObjectTemplates, Problem> {
        let (document, sensitive) = if has_template(raw, Delimiters::Managed, true) {
            let mut settings = self.object_settings();
            settings.skip_object = false;
            let context = TemplateContext::none();
            let resolved = resolve(self.cluster, &mut self.answers, &settings, Input::Yaml(raw), &context).await;
            match resolved {
                Ok(resolved) => (resolved.value, resolved.sensitive),
                Err(unresolved) => {
                    let message = self.template_failure(&unresolved);
                    let remedy = self.failure.take().map_or(Remedy::Again, |it| it.remedy);
                    return Err(Problem::new(reason::TEMPLATE_ERROR, message, remedy));
                }
            }
        } else {
            let document = read_kubernetes_yaml(raw)
                .map_err(|why| unreadable_raw(&format!("error converting YAML to JSON: yaml: {why}")))?;
            let document = go_types::object_templates(&document, true)
                .map_err(|why| unreadable_raw(&format!("error unmarshaling JSON: while decoding JSON: {why}")))?;
            (document, false)
        };
        let document = go_types::object_templates(&document, false);
        let templates = document.and_then(|it| serde_json::from_value(it).map_err(|why| why.to_string()));
        let templates: Option<Vec<ObjectTemplate>> = templates.map_err(|why| {
            let message = format!("failed unmarshalling resolved object-templates-raw template: {why}");
            Problem::new(reason::TEMPLATE_ERROR, message, Remedy::Spec)
        })?;
        Ok(ObjectTemplates {
            templates: templates.unwrap_or_default(),
            sensitive,
        })
    }

    async fn run(&mut self, policy: &mut ConfigurationPolicy, of_policy: &ObjectTemplates) {
        let templates = &of_policy.templates;
        status::status(policy).compliancy_details.truncate(templates.len());
        if templates.is_empty() {
            let message = format!(
                "{} contains no object templates to check, and thus has no violations",
                self.policy_name()
            );
            let verdict = TemplateVerdict {
                compliant: true,
                reason: "No object templates".to_owned(),
                message,
            };
            let news = status::set_only_condition(policy, &verdict);
            if news {
                self.remark_default(policy, false).await;
            }
            self.relate(policy, Vec::new(), true).await;
            self.update(policy, news).await;
            return;
        }
        let mut related = Vec::new();
        let mut news = false;
        for (index, template) in templates.iter().enumerate() {
            let mut desired = self.desired(index, template).await;
            desired.sensitive |= of_policy.sensitive;
            desired.related.drain(..).for_each(|it| related::put(&mut related, it));
            let mut findings = FindingsByObject::new();
            if let Some(finding) = desired.finding.take() {
                let findings_of_template = ObjectFindings {
                    names: Vec::new(),
                    findings: vec![finding],
                };
                findings.insert("ns".to_owned(), findings_of_template);
            }
            let resource = desired.kind.as_ref().map_or("", |it| it.plural.as_str()).to_owned();
            for object in &desired.objects {
                let Some(kind) = desired.kind.clone() else { continue };
                let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let place = format!("{}/{}", of("namespace"), of("name"));
                let (of_object, entries) = self.look_at(index, template, &kind, object, desired.sensitive).await;
                findings.insert(place, of_object);
                entries.into_iter().for_each(|it| related::put(&mut related, it));
            }
            news |= self.conclude_template(policy, index, &resource, &findings).await;
        }
        let may_prune = self.failure.is_none();
        self.relate(policy, related, may_prune).await;
        self.update(policy, news).await;
    }

    /// Puts what was found of an object template into the status; whether there is news that is not told yet.
    async fn conclude_template(
        &mut self,
        policy: &mut ConfigurationPolicy,
        index: usize,
        resource: &str,
        findings: &FindingsByObject,
    ) -> bool {
        let batches = batches(findings);
        let Some(last) = batches.last().map(|it| verdict(resource, it)) else {
            return false;
        };
        // What was wrong before and still is was told before: telling it in two steps would never end.
        if batches.len() > 1 && !last.compliant && !status::set_condition(&mut policy.clone(), index, &last) {
            return false;
        }
        let mut news = false;
        for (at, batch) in batches.iter().enumerate() {
            if !status::set_condition(policy, index, &verdict(resource, batch)) {
                continue;
            }
            news = true;
            if at + 1 < batches.len() {
                self.update(policy, true).await;
            }
        }
        news
    }

    /// Looks at one wanted object, or at all that fit one without a name.
    async fn look_at(
        &mut self,
        index: usize,
        template: &ObjectTemplate,
        kind: &Arc<ServedKind>,
        wanted: &Value,
        sensitive: bool,
    ) -> (ObjectFindings, Vec<RelatedObject>) {
        let of = |field: &str| wanted["metadata"][field].as_str().unwrap_or_default();
        let (name, namespace) = (of("name"), of("namespace"));
        let mut object = WantedObject {
            kind,
            name,
            namespace,
            wanted,
            existing: None,
            template,
            sensitive,
            enforce: self.enforces(),
        };
        if !name.is_empty() {
            match self.cluster.get(kind, namespace, name).await {
                Ok(existing) => object.existing = existing,
                Err(error) if error.is_unwatchable() => {
                    let finding = self.unwatchable(index, error);
                    return (one(vec![name.to_owned()], finding), Vec::new());
                }
                Err(error) => {
                    let finding = self.unreadable(index, error.message);
                    return (one(vec![name.to_owned()], finding), Vec::new());
                }
            }
            return self.judge_one(object).await;
        }
        let existing = match self.cluster.list(kind, namespace, None).await {
            Ok(existing) => existing,
            Err(error) => {
                let finding = self.unreadable(index, error.message);
                return (one(Vec::new(), finding), Vec::new());
            }
        };
        let only = template.compliance_type.eq_ignore_ascii_case("mustonlyhave");
        let any = !existing.is_empty();
        let matching: Vec<Arc<Value>> = existing
            .into_iter()
            .filter(|it| keys::matches_unnamed(wanted, it, only))
            .collect();
        // What has no name is only looked at.
        object.enforce = false;
        if let [only] = matching.as_slice() {
            let name = only["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            object.existing = Some(Arc::clone(only));
            object.name = &name;
            return self.judge_one(object).await;
        }
        let names: Vec<String> = matching
            .iter()
            .filter_map(|it| it["metadata"]["name"].as_str().map(str::to_owned))
            .collect();
        let wanted = !template.compliance_type.eq_ignore_ascii_case("mustnothave");
        let finding = match (wanted, names.is_empty()) {
            (true, false) => Finding::of(true, reason::FOUND_AS_EXPECTED),
            (true, true) if any => Finding::of(false, reason::NO_MATCH),
            (true, true) => Finding::of(false, reason::NOT_FOUND),
            (false, false) => Finding::of(false, reason::UNWANTED),
            (false, true) => Finding::of(true, reason::MISSING_AS_EXPECTED),
        };
        let entry = |name: &str| related::related(kind, namespace, name, finding.compliant, &finding.reason, None);
        let related = match names.is_empty() {
            true => vec![entry(related::ALL)],
            false => names.iter().map(|it| entry(it)).collect(),
        };
        (one(names, finding), related)
    }

    async fn judge_one(&mut self, object: WantedObject<'_>) -> (ObjectFindings, Vec<RelatedObject>) {
        let (kind, namespace, name) = (object.kind, object.namespace, object.name.to_owned());
        let (findings, properties) = self.judge(object).await;
        let related = findings.findings.last().map(|last| {
            let (compliant, reason) = (last.compliant, last.reason.as_str());
            related::related(kind, namespace, &name, compliant, reason, properties)
        });
        (findings, related.into_iter().collect())
    }

    fn unreadable(&mut self, index: usize, why: String) -> Finding {
        let message = format!("Error retrieving an object for object-template at index [{index}]: {why}");
        self.fail(Remedy::Again, why);
        Finding::new(false, "api error", message)
    }

    /// Puts the related objects into the status, and removes those that are none any more.
    async fn relate(&self, policy: &mut ConfigurationPolicy, related: Vec<RelatedObject>, may_prune: bool) {
        let related = related::completed(related, &self.related_before);
        if related != self.related_before {
            if may_prune {
                self.prune(&related).await;
            }
            status::status(policy).related_objects = related;
        }
    }

    /// A policy that is being deleted removes what it leaves behind.
    async fn let_go(&self, _: &ConfigurationPolicy) -> Result<(), Problem> {
        let left = self.prune(&[]).await;
        if left.is_empty() {
            return Ok(());
        }
        let message = format!("Failed to delete objects: {}", left.join(", "));
        Err(Problem::new(reason::CLEANUP_ERROR, message, Remedy::Again))
    }

    /// The policy says this, and nothing else.
    async fn say_only(&mut self, policy: &mut ConfigurationPolicy, reason: &str, message: String) {
        let verdict = TemplateVerdict {
            compliant: false,
            reason: reason.to_owned(),
            message,
        };
        let news = status::set_only_condition(policy, &verdict);
        if news {
            self.remark_default(policy, true).await;
        }
        self.update(policy, news).await;
    }

    async fn remark_default(&self, policy: &ConfigurationPolicy, warning: bool) {
        if let Some(status) = &policy.status {
            let note = status::default_message(status);
            self.recorder.remark(policy, warning, "PolicyInfo", &note).await;
        }
    }

    /// Tells and writes the status as it is now. `news`: it is told even if it sounds the same.
    async fn update(&mut self, policy: &mut ConfigurationPolicy, news: bool) {
        let told = status::sum_up(policy) || news;
        let objects = self.objects_of_message(policy).await;
        let message = status::message(policy, &objects);
        let at = Timestamp::now();
        if told && let Err(why) = self.recorder.tell(policy, &message, at).await {
            // It is told the next time, as long as the status does not say it.
            tracing::warn!(policy = self.policy_name(), %why, "could not tell the compliance");
            self.fail(Remedy::Again, why);
            return;
        }
        status::remember(status::status(policy), &message, told, at);
        if let Err(why) = self.recorder.write(policy).await {
            tracing::warn!(policy = self.policy_name(), %why, "could not write the status");
            self.fail(Remedy::Again, why);
            return;
        }
        if told && let Some(status) = &policy.status {
            let note = format!("Policy status is {}", status::in_short(status));
            let warning = status.compliant == NON_COMPLIANT;
            self.recorder.remark(policy, warning, "PolicyUpdate", &note).await;
        }
    }

    /// The related objects for a message in the policy's own words, which may say more about them.
    async fn objects_of_message(&self, policy: &ConfigurationPolicy) -> Vec<Option<Value>> {
        let custom = &policy.spec.custom_message;
        if !self.watching || custom.compliant.is_empty() && custom.noncompliant.is_empty() {
            return Vec::new();
        }
        let mut objects = Vec::new();
        for entry in policy.status.iter().flat_map(|it| &it.related_objects) {
            let reference = &entry.object;
            let object = match self.cluster.served(&reference.api_version, &reference.kind).await {
                Ok(Some(kind)) => {
                    let metadata = &reference.metadata;
                    self.cluster.get(&kind, &metadata.namespace, &metadata.name).await
                }
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            };
            objects.push(object.ok().flatten().map(|it| (*it).clone()));
        }
        objects
    }
}

fn unreadable_raw(why: &str) -> Problem {
    let message = format!("Error parsing object-templates-raw YAML: {why}");
    Problem::new(reason::TEMPLATE_ERROR, message, Remedy::Spec)
}

const HUB_TEMPLATES: &str = "Hub template resolution failure";

fn one(names: Vec<String>, finding: Finding) -> ObjectFindings {
    ObjectFindings {
        names,
        findings: vec![finding],
    }
}

/// Whether the templates of a policy stay as they are, as Go's ParseBool reads the annotation.
pub fn templates_disabled(policy: &impl ResourceExt) -> bool {
    let said = policy.annotations().get(annotations::DISABLE_TEMPLATES);
    said.is_some_and(|it| parse_bool(it) == Some(true))
}

/// What Go says of a text that is no base64.
fn illegal_base64(text: &str) -> String {
    let at = policy_template::base64_error(text);
    format!("illegal base64 data at input byte {at}")
}
