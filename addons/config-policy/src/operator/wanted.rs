//! What an OperatorPolicy wants: its versions, Subscription and OperatorGroup, with templates rendered and defaults
//! filled in; and whether it may want that.
//! Upstream: config-policy-controller `buildResources`, `applySubscriptionDefaults`, `checkSubOverlap`.

use std::sync::Arc;

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::operator_policy::{OperatorPolicy, OperatorPolicySpec},
};
use policy_template::{Delimiters, Input, TemplateContext, TemplateSettings, has_template};
use serde_json::{Value, json};

use super::{
    NAMESPACE, OperatorEvaluation, PACKAGE_MANIFEST, SUBSCRIPTION, conditions, enforces, failed, failure,
    operator_label,
    spec::{self, PlanApproval, WantedGroup, WantedSubscription},
    status::status,
    text,
};
use crate::{
    cluster::ClusterError,
    evaluate::{EvaluationFailure, Remedy, templates::resolve},
};

/// What says for which cluster a policy is: a controller may have those of several.
const OF_CLUSTER: [&str; 2] = [
    "policy.open-cluster-management.io/cluster-name",
    "policy.open-cluster-management.io/cluster-namespace",
];

/// What a policy wants, as far as it could be read.
#[derive(Default)]
pub struct WantedOperator {
    /// The Subscription.
    pub subscription: Option<WantedSubscription>,
    /// The OperatorGroup.
    pub group: Option<WantedGroup>,
    /// What the catalogs know of the package.
    pub package: Option<Arc<Value>>,
}

/// Why nothing is wanted.
enum Unwanted {
    /// The policy says so.
    Invalid(String),
    /// The policy says so until something comes that cannot be watched.
    Waiting(String),
    /// It could not be found out.
    Failed(EvaluationFailure),
}

impl From<EvaluationFailure> for Unwanted {
    fn from(failure: EvaluationFailure) -> Self {
        Self::Failed(failure)
    }
}

impl OperatorEvaluation<'_> {
    /// What the policy wants. What is wrong with that is put into the status.
    pub(super) async fn wanted(&mut self) -> Result<WantedOperator, EvaluationFailure> {
        let mut wanted = WantedOperator::default();
        match self.fill(&mut wanted).await {
            Ok(()) => {
                self.say(conditions::valid(), Vec::new());
                Ok(wanted)
            }
            Err(Unwanted::Invalid(why)) => {
                self.say(conditions::invalid(&why), Vec::new());
                Ok(wanted)
            }
            Err(Unwanted::Waiting(why)) => {
                self.say(conditions::invalid(&why), Vec::new());
                Err(failure(Remedy::Again, why))
            }
            Err(Unwanted::Failed(failure)) => Err(failure),
        }
    }

    async fn fill(&mut self, wanted: &mut WantedOperator) -> Result<(), Unwanted> {
        let spec = self.spec.clone();
        self.versions = self
            .versions_of(&spec)
            .await
            .map_err(|why| Unwanted::Invalid(format!("unable to create template resolver: {why}")))?;
        let mut subscription = self.described_subscription().await.map_err(Unwanted::Invalid)?;
        subscription.field("startingCSV").clone_into(&mut self.starting);
        wanted.package = self.fill_defaults(&mut subscription).await?;
        if subscription.namespace.is_empty() {
            let default = &self.settings.default_namespace;
            if default.is_empty() {
                return Err(Unwanted::Invalid(
                    "namespace is required in spec.subscription".to_owned(),
                ));
            }
            subscription.namespace.clone_from(default);
        }
        let namespace = subscription.namespace.clone();
        let label = operator_label(subscription.name(), &namespace);
        wanted.subscription = Some(subscription);
        let described = match &self.spec.operator_group {
            Some(described) => {
                let rendered = self.rendered(&described.clone()).await;
                Some(rendered.map_err(|why| Unwanted::Invalid(format!("could not build operator group: {why}")))?)
            }
            None => None,
        };
        wanted.group = Some(spec::group(described.as_ref(), &namespace).map_err(Unwanted::Invalid)?);
        let found = self.find(&NAMESPACE, "", &namespace).await?;
        if found.is_none() && !self.must_not_have() {
            return Err(Unwanted::Invalid(format!(
                "the operator namespace ('{namespace}') does not exist"
            )));
        }
        if let Some(overlap) = self.overlap(label) {
            wanted.subscription = None;
            wanted.group = None;
            return Err(Unwanted::Invalid(overlap));
        }
        Ok(())
    }

    /// A value with its templates rendered.
    async fn rendered(&mut self, value: &Value) -> Result<Value, String> {
        if !self.renders() || !has_template(&value.to_string(), Delimiters::Managed, false) {
            return Ok(value.clone());
        }
        let settings = TemplateSettings {
            denied: self.settings.denied_functions.clone(),
            ..TemplateSettings::managed()
        };
        let context = TemplateContext::none();
        let resolved = resolve(self.cluster, &mut self.answers, &settings, Input::Json(value), &context).await;
        resolved.map(|it| it.value).map_err(|it| it.error.message)
    }

    /// The versions of a policy: rendered, one by one.
    pub(super) async fn versions_of(&mut self, policy: &OperatorPolicySpec) -> Result<Vec<String>, String> {
        let rendered = self.rendered(&json!(policy.versions)).await;
        let rendered = rendered.map_err(|why| format!("could not resolve the version template: {why}"))?;
        let versions: Vec<String> = serde_json::from_value(rendered)
            .map_err(|why| format!("failed to unmarshal the spec.versions field after template resolution: {why}"))?;
        let versions = versions.iter().flat_map(|it| it.split(',')).map(str::trim);
        Ok(versions.filter(|it| !it.is_empty()).map(str::to_owned).collect())
    }

    async fn described_subscription(&mut self) -> Result<WantedSubscription, String> {
        let described = self.spec.subscription.clone();
        let described = self.rendered(&described).await;
        let described = described.map_err(|why| format!("could not build subscription: {why}"))?;
        // OLM approves by itself only what the policy would always approve.
        let always = self.enforces() && self.spec.upgrade_approval == "Automatic" && self.versions.is_empty();
        let approval = match always {
            true => PlanApproval::Automatic,
            false => PlanApproval::Manual,
        };
        spec::subscription(&described, approval)
    }

    /// Fills in what the policy leaves open, from what the catalogs know of the package, which is returned.
    async fn fill_defaults(&mut self, wanted: &mut WantedSubscription) -> Result<Option<Arc<Value>>, Unwanted> {
        const UNDETERMINED: &str = "the subscription defaults could not be determined because the";
        let needed = wanted.namespace.is_empty()
            || ["channel", "source", "sourceNamespace"]
                .iter()
                .any(|it| wanted.field(it).is_empty());
        let package = match self.package_manifest(wanted.name()).await {
            Ok(package) => package,
            Err(_) if needed => {
                let why = format!("{UNDETERMINED} PackageManifest API returned an error");
                return Err(Unwanted::Waiting(why));
            }
            Err(error) => {
                self.trouble = Some(failed("getting the PackageManifest", &error));
                None
            }
        };
        if !needed {
            return Ok(package);
        }
        let Some(package) = package else {
            return match self.fill_from_existing(wanted).await? {
                true => Ok(None),
                // Nothing tells when it comes.
                false => Err(Unwanted::Waiting(format!(
                    "{UNDETERMINED} PackageManifest was not found"
                ))),
            };
        };
        let (catalog, catalog_namespace) = (
            text(&package, "/status/catalogSource"),
            text(&package, "/status/catalogSourceNamespace"),
        );
        if catalog.is_empty() || catalog_namespace.is_empty() {
            let why = format!("{UNDETERMINED} PackageManifest didn't specify a catalog");
            return Err(Unwanted::Invalid(why));
        }
        let differs = |field: &str, value: &str| !matches!(wanted.field(field), it if it.is_empty() || it == value);
        if differs("source", catalog) || differs("sourceNamespace", catalog_namespace) {
            return Err(Unwanted::Invalid(format!(
                "{UNDETERMINED} catalog specified in the policy does not match what was found in the PackageManifest on \
                 the cluster"
            )));
        }
        wanted.fill("channel", text(&package, "/status/defaultChannel"));
        if wanted.field("channel").is_empty() {
            let why = "the default channel could not be determined because the PackageManifest didn't specify one";
            return Err(Unwanted::Invalid(why.to_owned()));
        }
        wanted.fill("source", catalog);
        wanted.fill("sourceNamespace", catalog_namespace);
        if wanted.namespace.is_empty() {
            wanted.namespace = match self.known_namespace() {
                Some(known) => known,
                None => suggested_namespace(&package, wanted.field("channel")),
            };
        }
        Ok(Some(package))
    }

    /// What the catalogs know of a package. It comes from an aggregated API that cannot be watched.
    async fn package_manifest(&self, package: &str) -> Result<Option<Arc<Value>>, ClusterError> {
        let kind = &PACKAGE_MANIFEST;
        let Some(kind) = self.cluster.served(kind.api_version, kind.kind).await? else {
            return Ok(None);
        };
        // They are the same in all namespaces.
        self.cluster.get_now(&kind, "default", package).await
    }

    /// The namespace of the Subscription that the policy has looked at before, if it was one.
    fn known_namespace(&self) -> Option<String> {
        let related = self.policy.status.iter().flat_map(|it| &it.related_objects);
        let mut known = related.filter(|it| it.object.kind == SUBSCRIPTION.kind);
        let one = known.next()?;
        known.next().is_none().then(|| one.object.metadata.namespace.clone())
    }

    /// Fills in what the policy leaves open from the Subscription that is there; whether there is one.
    async fn fill_from_existing(&mut self, wanted: &mut WantedSubscription) -> Result<bool, EvaluationFailure> {
        if wanted.namespace.is_empty() {
            wanted.namespace = self.known_namespace().unwrap_or_default();
        }
        if wanted.namespace.is_empty() {
            return Ok(false);
        }
        let existing = self.find(&SUBSCRIPTION, &wanted.namespace, wanted.name()).await?;
        let Some(existing) = existing else {
            return Ok(false);
        };
        for field in ["channel", "source", "sourceNamespace"] {
            wanted.fill(field, text(&existing, &format!("/spec/{field}")));
        }
        Ok(true)
    }

    /// Remembers which Subscription the policy is about, by its label; what is wrong if other policies that enforce are
    /// about the same one.
    fn overlap(&mut self, label: String) -> Option<String> {
        let mut overlapping = Vec::new();
        if self.enforces() {
            let mine = place(self.policy);
            let of_cluster = |it: &OperatorPolicy| OF_CLUSTER.map(|label| it.labels().get(label).cloned());
            let same = self.others.iter().filter(|it| {
                let resolved = it.status.as_ref().map(|it| it.resolved_subscription_label.as_str());
                resolved == Some(&label)
                    && enforces(&it.spec)
                    && of_cluster(it) == of_cluster(self.policy)
                    && place(it) != mine
            });
            overlapping.extend(same.map(|it| place(it)));
            if !overlapping.is_empty() {
                overlapping.push(mine);
                overlapping.sort();
            }
        }
        let said = (!overlapping.is_empty()).then(|| {
            let names = overlapping.join(", ");
            format!("the specified operator is managed by multiple enforced policies ({names})")
        });
        let status = status(self.policy);
        self.news |= status.resolved_subscription_label != label || status.overlapping_policies != overlapping;
        status.resolved_subscription_label = label;
        status.overlapping_policies = overlapping;
        said
    }
}

/// NAME.NAMESPACE, as policies name each other.
pub fn place(policy: &OperatorPolicy) -> String {
    format!("{}.{}", policy.name_any(), policy.namespace().unwrap_or_default())
}

/// Where the author of a package would have it.
fn suggested_namespace(package: &Value, channel: &str) -> String {
    let channels = package.pointer("/status/channels").and_then(Value::as_array);
    let channel = channels.into_iter().flatten().find(|it| it["name"] == channel);
    let annotations = channel.map(|it| &it["currentCSVDesc"]["annotations"]);
    let suggested = annotations.and_then(|it| it["operatorframework.io/suggested-namespace"].as_str());
    suggested.unwrap_or_default().to_owned()
}
