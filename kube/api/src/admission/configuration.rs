//! Webhook configurations and policies, compiled once per revision and kept beside the store.

use super::{
    attributes::AdmissionAttributes,
    expressions::{CONDITION_VARIABLES, MatchCondition},
    failure_policy::FailurePolicy,
    policy::{Policy, PolicyBinding},
    rules::{Constraints, texts},
};
use crate::callout::WebhookTarget;
use kube_store::{
    Object, Store,
    store::{Change, Event},
};
use serde_json::Value;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The version of `AdmissionReview` that a webhook reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    pub fn text(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// One webhook of a configuration.
#[derive(Debug)]
pub struct AdmissionWebhook {
    pub name: String,
    pub constraints: Constraints,
    pub conditions: Vec<MatchCondition>,
    pub failure: FailurePolicy,
    pub timeout: Duration,
    /// Whether it asks to be called again when a later one changed the object.
    pub reinvocation: bool,
    pub allows_dry_run: bool,
    pub review_version: ReviewVersion,
    pub target: Result<WebhookTarget, String>,
}

impl AdmissionWebhook {
    fn read(webhook: &Value) -> Self {
        let known = |it: &String| match it.as_str() {
            "v1" => Some(ReviewVersion::V1),
            "v1beta1" => Some(ReviewVersion::V1beta1),
            _ => None,
        };
        Self {
            name: webhook["name"].as_str().unwrap_or_default().to_owned(),
            constraints: Constraints::of_webhook(webhook),
            conditions: MatchCondition::read_all(&webhook["matchConditions"], CONDITION_VARIABLES),
            failure: FailurePolicy::read(webhook),
            timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10)),
            reinvocation: webhook["reinvocationPolicy"] == "IfNeeded",
            allows_dry_run: matches!(webhook["sideEffects"].as_str(), Some("None" | "NoneOnDryRun")),
            review_version: texts(&webhook["admissionReviewVersions"])
                .iter()
                .find_map(known)
                .unwrap_or(ReviewVersion::V1),
            target: WebhookTarget::read(&webhook["clientConfig"]),
        }
    }
}

type Webhooks = BTreeMap<Box<str>, Vec<Arc<AdmissionWebhook>>>;

/// Everything that is configured, in the order in which it is asked. Swapped as a whole when something changes.
#[derive(Clone, Debug, Default)]
pub struct Hooks {
    mutating: Webhooks,
    validating: Webhooks,
    pub policies: BTreeMap<Box<str>, Arc<Policy>>,
    pub bindings: BTreeMap<Box<str>, Arc<PolicyBinding>>,
}

const MUTATING: &str = "mutatingwebhookconfigurations.admissionregistration.k8s.io";
const VALIDATING: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

impl Hooks {
    /// What a store holds.
    pub fn load(store: &Store) -> Self {
        let mut hooks = Self::default();
        for resource in [MUTATING, VALIDATING, POLICIES, BINDINGS] {
            for object in store.list(resource, "").0 {
                hooks.set(&object, false);
            }
        }
        hooks
    }

    /// Whether an event changes what is configured.
    pub fn concerns(event: &Event) -> bool {
        matches!(&*event.object.resource, MUTATING | VALIDATING | POLICIES | BINDINGS)
    }

    /// What is configured after an event.
    pub fn after(&self, event: &Event) -> Self {
        let mut next = self.clone();
        next.set(&event.object, event.change == Change::Deleted);
        next
    }

    fn set(&mut self, object: &Object, deleted: bool) {
        let name = object.name.clone();
        match &*object.resource {
            MUTATING | VALIDATING => {
                let webhooks = if &*object.resource == MUTATING {
                    &mut self.mutating
                } else {
                    &mut self.validating
                };
                let value = object.value();
                let read = value["webhooks"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(AdmissionWebhook::read);
                let read: Vec<_> = read.map(Arc::new).collect();
                if deleted || read.is_empty() {
                    webhooks.remove(&name);
                } else {
                    webhooks.insert(name, read);
                }
            }
            POLICIES if deleted => {
                self.policies.remove(&name);
            }
            POLICIES => {
                self.policies.insert(name, Arc::new(Policy::read(&object.value())));
            }
            BINDINGS if deleted => {
                self.bindings.remove(&name);
            }
            BINDINGS => {
                self.bindings
                    .insert(name, Arc::new(PolicyBinding::read(&object.value())));
            }
            _ => {}
        }
    }

    /// Whether nothing is configured.
    pub fn is_empty(&self) -> bool {
        self.mutating.is_empty() && self.validating.is_empty() && self.policies.is_empty()
    }

    /// Whether some mutating webhook may want to see a write.
    pub fn may_mutate(&self, write: &AdmissionAttributes<'_>) -> bool {
        self.mutating().any(|it| it.constraints.version(write).is_some())
    }

    /// Whether some validating webhook or policy may want to see a write.
    pub fn may_validate(&self, write: &AdmissionAttributes<'_>) -> bool {
        let is_policy = || self.policies.values().any(|it| it.constraints.version(write).is_some());
        self.validating().any(|it| it.constraints.version(write).is_some()) || !self.bindings.is_empty() && is_policy()
    }

    /// In the order of the names of their configurations.
    pub fn mutating(&self) -> impl Iterator<Item = &Arc<AdmissionWebhook>> {
        self.mutating.values().flatten()
    }

    /// In the order of the names of their configurations.
    pub fn validating(&self) -> impl Iterator<Item = &Arc<AdmissionWebhook>> {
        self.validating.values().flatten()
    }
}

/// Whether writes to this resource go past webhooks and policies: those that configure them, so that nobody locks
/// himself out.
pub fn is_exempt(resource: &str) -> bool {
    resource.ends_with(".admissionregistration.k8s.io")
}
