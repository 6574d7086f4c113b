//! The judgement of one OperatorPolicy: an operator that the Operator Lifecycle Manager (OLM) installs, or removes.
//!
//! ```text
//! spec ---wanted---> OperatorGroup, Subscription ---> InstallPlan ---> ClusterServiceVersion ---> Deployments
//!                          |  created, updated, deleted  | approved        | deleted                CRDs, catalog
//!                          +------------- conditions, related objects -----+
//!                                              |
//!                                   message, history, status
//! ```
//!
//! Each kind has a file of its own that puts its condition into the status; [`status`] sums them up.
//! Upstream: config-policy-controller `controllers/operatorpolicy_controller.go`, `operatorpolicy_status.go`. Ours
//! differs:
//!
//! 1. The status is written only once its message was told, and only when something in it has changed.
//! 2. A Subscription carries its marks from its creation on; upstream adds them in an update right after.
//! 3. The versions of other policies over a shared InstallPlan are read as they read them themselves, with templates.
//! 4. A PackageManifest that cannot be read makes no policy invalid that does not need it.

mod approval;
mod catalog;
mod conditions;
mod controller;
mod csv;
mod definitions;
mod deployments;
mod elsewhere;
mod group;
mod install_plan;
mod merge;
mod package;
mod related;
mod resolution;
mod spec;
mod status;
mod subscription;
#[cfg(test)]
mod tests;
mod wanted;

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::{
        policy::operator_policy::{OperatorObject, OperatorPolicy, OperatorPolicySpec, OperatorPolicyStatus},
        selector::Selector,
    },
    reconcile::async_trait,
};
use policy_template::{Answers, Delimiters, has_template};
use serde_json::Value;

use crate::{
    cluster::{Cluster, ClusterError, ServedKind},
    evaluate::{EvaluationFailure, Remedy, templates_disabled},
};
use conditions::OperatorCondition;
pub use controller::OperatorPolicies;

/// The label and the annotation of Subscriptions that an OperatorPolicy takes care of; the annotation has
/// NAMESPACE.NAME of the policy.
pub const MANAGED: &str = "operatorpolicy.policy.open-cluster-management.io/managed";

/// What holds for all OperatorPolicies of a controller.
#[derive(Clone, Debug)]
pub struct OperatorSettings {
    /// The namespace of operators whose policy names none; empty where there is no such namespace.
    pub default_namespace: String,
    /// How many messages a policy remembers.
    pub history_max: usize,
    /// Template functions whose use is an error, besides `env` and `expandenv`.
    pub denied_functions: Vec<String>,
}

/// Who hears of the evaluation of an OperatorPolicy, where the policy lives.
#[async_trait]
pub trait OperatorRecorder: Send + Sync {
    /// A compliance message, for the Policy that owns this one, and when it was made. The status is written only when
    /// this has succeeded.
    async fn tell(&self, policy: &OperatorPolicy, message: &str, at: Timestamp) -> Result<(), String>;

    /// The status is to be written as it is in `policy`.
    async fn write(&self, policy: &mut OperatorPolicy) -> Result<(), String>;
}

/// A kind that an OperatorPolicy looks at, and the condition that says so.
struct OperatorKind {
    api_version: &'static str,
    kind: &'static str,
    /// Its condition in the status; empty for kinds that have none.
    condition: &'static str,
}

const NAMESPACE: OperatorKind = kind("v1", "Namespace", "");
const OPERATOR_GROUP: OperatorKind = kind("operators.coreos.com/v1", "OperatorGroup", "OperatorGroupCompliant");
const SUBSCRIPTION: OperatorKind = kind("operators.coreos.com/v1alpha1", "Subscription", "SubscriptionCompliant");
const INSTALL_PLAN: OperatorKind = kind("operators.coreos.com/v1alpha1", "InstallPlan", "InstallPlanCompliant");
const CSV: OperatorKind = kind(
    "operators.coreos.com/v1alpha1",
    "ClusterServiceVersion",
    "ClusterServiceVersionCompliant",
);
const DEFINITION: OperatorKind = kind(
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "CustomResourceDefinitionCompliant",
);
const DEPLOYMENT: OperatorKind = kind("apps/v1", "Deployment", "DeploymentCompliant");
/// Its condition is true when something is wrong.
const CATALOG_SOURCE: OperatorKind = kind(
    "operators.coreos.com/v1alpha1",
    "CatalogSource",
    "CatalogSourcesUnhealthy",
);
const PACKAGE_MANIFEST: OperatorKind = kind("packages.operators.coreos.com/v1", "PackageManifest", "");

const fn kind(api_version: &'static str, kind: &'static str, condition: &'static str) -> OperatorKind {
    OperatorKind {
        api_version,
        kind,
        condition,
    }
}

/// Evaluates a policy: looks at its operator, installs or removes it where it is enforced, and tells `recorder`. The
/// status of `policy` is what was found. `others` are the OperatorPolicies of the controller; this one may be among
/// them. Hub templates have been filled in before.
///
/// Returns after which time it has to be looked at again, whatever changes.
///
/// # Errors
/// When it has to be tried again; what was found until then is told all the same.
pub async fn evaluate_operator(
    policy: &mut OperatorPolicy,
    cluster: &dyn Cluster,
    recorder: &dyn OperatorRecorder,
    settings: &OperatorSettings,
    others: &[Arc<OperatorPolicy>],
) -> Result<Option<Duration>, EvaluationFailure> {
    let before = policy.status.clone();
    let mut evaluation = OperatorEvaluation::new(policy, cluster, settings, others);
    let outcome = evaluation.run().await;
    let (told, trouble) = (evaluation.told(), evaluation.trouble);
    conclude(policy, before, told, recorder, settings).await?;
    outcome?;
    match trouble {
        Some(trouble) => Err(trouble),
        None => Ok(resolution::wait(policy, Timestamp::now())),
    }
}

/// Says that a policy is not evaluated, because its hub templates could not be filled in.
///
/// # Errors
/// Always: it has to be tried again.
pub async fn refuse_operator(
    policy: &mut OperatorPolicy,
    recorder: &dyn OperatorRecorder,
    settings: &OperatorSettings,
    why: &str,
) -> Result<(), EvaluationFailure> {
    let before = policy.status.clone();
    let mut told = Vec::new();
    if status::put(policy, conditions::invalid(why), Vec::new(), Timestamp::now()) || is_unknown(before.as_ref()) {
        told.push(OperatorMessage::of(policy));
    }
    conclude(policy, before, told, recorder, settings).await?;
    Err(failure(Remedy::Again, why))
}

/// What a policy says at one moment of an evaluation.
struct OperatorMessage {
    text: String,
    at: Timestamp,
}

impl OperatorMessage {
    fn of(policy: &OperatorPolicy) -> Self {
        Self {
            text: status::message(policy),
            at: Timestamp::now(),
        }
    }
}

/// Tells what there is to tell, and writes the status if it has changed.
async fn conclude(
    policy: &mut OperatorPolicy,
    before: Option<OperatorPolicyStatus>,
    told: Vec<OperatorMessage>,
    recorder: &dyn OperatorRecorder,
    settings: &OperatorSettings,
) -> Result<(), EvaluationFailure> {
    let mut last: Option<&str> = None;
    for OperatorMessage { text, at } in &told {
        // What failed is still as it was said to be before it was tried.
        if last == Some(text) {
            continue;
        }
        recorder
            .tell(policy, text, *at)
            .await
            .map_err(|why| failure(Remedy::Again, why))?;
        status::remember(policy, text, *at, settings.history_max);
        last = Some(text);
    }
    if policy.status != before {
        recorder
            .write(policy)
            .await
            .map_err(|why| failure(Remedy::Again, why))?;
    }
    Ok(())
}

fn failure(remedy: Remedy, message: impl Into<String>) -> EvaluationFailure {
    EvaluationFailure {
        message: message.into(),
        remedy,
    }
}

/// The failure of an operation on an object.
fn failed(operation: &str, error: &ClusterError) -> EvaluationFailure {
    failure(Remedy::Again, format!("error {operation}: {error}"))
}

fn is_unknown(status: Option<&OperatorPolicyStatus>) -> bool {
    status.is_none_or(|it| it.compliant.is_empty())
}

fn enforces(policy: &OperatorPolicySpec) -> bool {
    policy.remediation_action.eq_ignore_ascii_case("enforce")
}

/// One evaluation of one policy.
struct OperatorEvaluation<'a> {
    policy: &'a mut OperatorPolicy,
    spec: OperatorPolicySpec,
    /// The versions of the policy, with their templates rendered.
    versions: Vec<String>,
    /// The version that it begins with, which is approved besides; empty where it names none.
    starting: String,
    cluster: &'a dyn Cluster,
    settings: &'a OperatorSettings,
    others: &'a [Arc<OperatorPolicy>],
    answers: Answers,
    now: Timestamp,
    /// Whether there is something new to tell at the end.
    news: bool,
    /// What was said before something was done about it.
    early: Vec<OperatorMessage>,
    /// What went wrong without ending the evaluation.
    trouble: Option<EvaluationFailure>,
}

impl<'a> OperatorEvaluation<'a> {
    fn new(
        policy: &'a mut OperatorPolicy,
        cluster: &'a dyn Cluster,
        settings: &'a OperatorSettings,
        others: &'a [Arc<OperatorPolicy>],
    ) -> Self {
        Self {
            spec: policy.spec.clone(),
            // Somebody has reset it: it is told whatever it says.
            news: is_unknown(policy.status.as_ref()),
            policy,
            versions: Vec::new(),
            starting: String::new(),
            cluster,
            settings,
            others,
            answers: Answers::default(),
            now: Timestamp::now(),
            early: Vec::new(),
            trouble: None,
        }
    }
}

impl OperatorEvaluation<'_> {
    async fn run(&mut self) -> Result<(), EvaluationFailure> {
        let text = serde_json::to_string(&self.spec).unwrap_or_default();
        if self.renders() && has_template(&text, Delimiters::Hub, false) {
            let why = "the governance-standalone-hub-templating addon must be enabled to resolve hub templates on the \
                       managed cluster";
            self.say(conditions::invalid(why), Vec::new());
            return Err(failure(Remedy::Spec, why));
        }
        let wanted = self.wanted().await?;
        if let Some(copied) = self.copied_version(&wanted).await? {
            return self.installed_elsewhere(&wanted, &copied).await;
        }
        let group_is_right = self.group(&wanted).await?;
        let subscription = self.subscription(&wanted, group_is_right).await?;
        let subscription = subscription.as_ref();
        self.install_plan(subscription).await?;
        let version = self.service_version(subscription).await?;
        self.package(subscription, version.as_deref(), wanted.package.as_ref());
        self.definitions(subscription).await?;
        self.deployments(version.as_deref()).await?;
        self.catalog(subscription).await
    }

    /// Puts a condition into the status, and the objects that it is about; whether they are news. The objects replace
    /// all others of their kind; where there are none, those of before stay.
    fn say(&mut self, condition: OperatorCondition, objects: Vec<OperatorObject>) -> bool {
        let news = status::put(self.policy, condition, objects, self.now);
        self.news |= news;
        news
    }

    /// What the policy says now is told, though something is about to be done about it; if it is news.
    fn say_early(&mut self, news: bool) {
        if news {
            self.early.push(OperatorMessage::of(self.policy));
        }
    }

    /// All that is to be told.
    fn told(&mut self) -> Vec<OperatorMessage> {
        let mut told = std::mem::take(&mut self.early);
        if self.news {
            told.push(OperatorMessage::of(self.policy));
        }
        told
    }

    fn enforces(&self) -> bool {
        enforces(&self.spec)
    }

    fn must_not_have(&self) -> bool {
        self.spec.compliance_type.eq_ignore_ascii_case("mustnothave")
    }

    /// Whether templates are rendered, as Go's ParseBool reads the annotation.
    fn renders(&self) -> bool {
        !templates_disabled(self.policy)
    }

    /// NAMESPACE.NAME, as the annotation of Subscriptions has it.
    fn mark(&self) -> String {
        format!(
            "{}.{}",
            self.policy.namespace().unwrap_or_default(),
            self.policy.name_any()
        )
    }

    async fn served(&self, of: &OperatorKind) -> Result<Arc<ServedKind>, EvaluationFailure> {
        match self.cluster.served(of.api_version, of.kind).await {
            Ok(Some(kind)) => Ok(kind),
            Ok(None) => {
                let message = format!("the cluster has no kind {} of {}", of.kind, of.api_version);
                Err(failure(Remedy::Kind, message))
            }
            Err(error) => Err(failed(&format!("looking for kind {}", of.kind), &error)),
        }
    }

    async fn find(
        &self,
        of: &OperatorKind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Value>>, EvaluationFailure> {
        let kind = self.served(of).await?;
        let found = self.cluster.get(&kind, namespace, name).await;
        found.map_err(|error| failed(&format!("getting the {} {name}", of.kind), &error))
    }

    async fn all(
        &self,
        of: &OperatorKind,
        namespace: &str,
        selector: Option<&Selector>,
    ) -> Result<Vec<Arc<Value>>, EvaluationFailure> {
        let kind = self.served(of).await?;
        let found = self.cluster.list(&kind, namespace, selector).await;
        found.map_err(|error| failed(&format!("listing {}s", of.kind), &error))
    }

    /// Creates an object, and its namespace where that is missing; what the server made of it.
    async fn create(&self, of: &OperatorKind, object: &Value) -> Result<Value, EvaluationFailure> {
        let kind = self.served(of).await?;
        let operation = format!("creating the {}", of.kind);
        match self.cluster.create(&kind, object).await {
            Ok(created) => return Ok(created),
            Err(error) if error.code == 404 && error.about == "namespaces" => {}
            Err(error) => return Err(failed(&operation, &error)),
        }
        let namespaces = self.served(&NAMESPACE).await?;
        let name = &object["metadata"]["namespace"];
        let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        match self.cluster.create(&namespaces, &namespace).await {
            Ok(_) => {}
            Err(error) if error.reason == "AlreadyExists" => {}
            Err(error) => return Err(failed("creating the namespace of the operator", &error)),
        }
        let created = self.cluster.create(&kind, object).await;
        created.map_err(|error| failed(&operation, &error))
    }

    async fn delete(&self, of: &OperatorKind, object: &Value) -> Result<(), EvaluationFailure> {
        let kind = self.served(of).await?;
        match self.cluster.delete(&kind, namespace(object), name(object)).await {
            Ok(()) => Ok(()),
            Err(error) if error.code == 404 => Ok(()),
            Err(error) => Err(failed(&format!("deleting the {}", of.kind), &error)),
        }
    }
}

fn of_metadata<'v>(object: &'v Value, field: &str) -> &'v str {
    object["metadata"][field].as_str().unwrap_or_default()
}

fn name(object: &Value) -> &str {
    of_metadata(object, "name")
}

fn namespace(object: &Value) -> &str {
    of_metadata(object, "namespace")
}

fn is_going(object: &Value) -> bool {
    object["metadata"]
        .get("deletionTimestamp")
        .is_some_and(|it| !it.is_null())
}

fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Selects what OLM says belongs to the operator of a Subscription.
fn of_operator(subscription: &Value) -> Result<Selector, EvaluationFailure> {
    let label = operator_label(name(subscription), namespace(subscription));
    let selector = ocm_addon_sdk::ocm_api::selector_text::read(&format!("operators.coreos.com/{label}"));
    selector.map_err(|why| failure(Remedy::Spec, why))
}

/// The name of the label that OLM puts on what belongs to an operator, after the slash. Upstream: OLM
/// `pkg/controller/operators/decorators/operator.go`, `ComponentLabelKey`.
fn operator_label(name: &str, namespace: &str) -> String {
    const LABEL_MAX: usize = 63;
    let label = format!("{name}.{namespace}");
    if label.len() <= LABEL_MAX {
        return label;
    }
    let end = label.floor_char_boundary(LABEL_MAX);
    label[..end].trim_end_matches(['.', '_', '-']).to_owned()
}
