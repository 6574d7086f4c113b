//! What is done about each template, and what is said of it. Plain functions on plain data.

use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    kube::{
        ResourceExt,
        core::{ApiResource, DynamicObject},
    },
    ocm_api::policy::{self, ComplianceHistory, ComplianceState, Policy, annotations},
    reconcile::{Done, EventKind, Outcome, Plan, Reconciler, Site, Step, StepError, Target, execute::sentence},
};
use serde_json::{Value, json};

use super::{PolicyTemplateSync, Seen, TemplateSeen, deletion, target};
use crate::cluster::{
    SyncSite, counters,
    discovery::{KindName, KindOnCluster, ServedKind, of_gatekeeper},
    gatekeeper::GatekeeperKind,
    tell::{self, StateSaid},
    template::{self, Written},
};

/// The steps that write the object of a template, by its index.
const WRITTEN: &str = "template";
/// The steps that tell something of a template.
pub const TOLD: &str = "told";
/// The steps that have a controller say its state again.
pub const RESET: &str = "reset";

const REASON: &str = "PolicyTemplateSync";
/// Gatekeeper says within this time whether it has taken a ConstraintTemplate.
const GATEKEEPER_ANSWERS: SignedDuration = SignedDuration::from_secs(10);
/// How an API server that knows both fields refuses a ConfigurationPolicy with both.
const BOTH_TEMPLATES: &str = "spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives";

/// What was decided.
pub enum Decided {
    /// Two templates have this name, and nothing is done.
    Duplicate(String),
    /// About each template.
    Each(Vec<Decision>),
}

/// What is done about one template.
pub enum Decision {
    /// Nothing, because it cannot be; this is told.
    Broken {
        /// The sentence.
        why: String,
        /// The counter and its type.
        counts_as: (counters::Fault, &'static str),
        /// The name that it is told under.
        name: String,
        /// Whether its kind has no namespaces.
        scoped: bool,
        /// Whether no watch tells when it can be done.
        again: bool,
        /// The object that goes, or that is told to prune nothing before it goes.
        leaves: Option<(ApiResource, DynamicObject)>,
    },
    /// It waits for what it depends on; an object that is there goes.
    Pending {
        why: String,
        state: ComplianceState,
        name: String,
        scoped: bool,
        leaves: Option<(ApiResource, DynamicObject)>,
    },
    /// The object is made.
    Create(Making),
    /// The object is made what it has to be.
    Update(Making, Box<DynamicObject>),
    /// The object is what it has to be.
    Keep(Making, Box<DynamicObject>),
}

/// The object of a template.
pub struct Making {
    name: String,
    kind: ServedKind,
    object: Value,
    /// What is told of it besides, for it does not say its state itself.
    says: Option<String>,
}

impl Decision {
    /// Whether the Policy has to clean up what it cannot own.
    pub fn needs_finalizer(&self) -> bool {
        match self {
            Self::Create(making) | Self::Update(making, _) | Self::Keep(making, _) => !making.kind.namespaced,
            Self::Broken { .. } | Self::Pending { .. } => false,
        }
    }

    /// Adds what it writes.
    pub fn write(&self, plan: &mut Plan, index: usize) {
        let step = match self {
            Self::Keep(..) => return,
            Self::Create(making) => Step::Create {
                target: Target {
                    site: Site::Cluster,
                    api_resource: making.kind.resource.clone(),
                    namespace: making.object["metadata"]["namespace"].as_str().map(str::to_owned),
                    name: making.name.clone(),
                },
                object: making.object.clone(),
            },
            Self::Update(making, existing) => Step::Replace {
                target: target(&making.kind.resource, existing),
                subresource: None,
                object: updated(making, existing),
            },
            Self::Broken { leaves, .. } => match leaves {
                Some((resource, object)) => {
                    prune_nothing(resource, object).unwrap_or_else(|| deletion(resource, object))
                }
                None => return,
            },
            Self::Pending { leaves, .. } => match leaves {
                Some((resource, object)) => deletion(resource, object),
                None => return,
            },
        };
        let step = plan.push(step);
        plan.name(format!("{WRITTEN}/{index}"), step);
    }
}

/// Before a ConfigurationPolicy goes for an error that is not its own, it is told to leave what it has made; when that
/// is written, it goes in the next run.
fn prune_nothing(resource: &ApiResource, object: &DynamicObject) -> Option<Step> {
    let prunes = object.data["spec"]["pruneObjectBehavior"]
        .as_str()
        .is_some_and(|it| it != "None");
    if resource.group != policy::GROUP || resource.kind != "ConfigurationPolicy" || !prunes {
        return None;
    }
    Some(Step::MergePatch {
        target: target(resource, object),
        subresource: None,
        patch: json!({"spec": {"pruneObjectBehavior": "None"}}),
    })
}

/// The object as it is, with what the template decides.
fn updated(making: &Making, existing: &DynamicObject) -> Value {
    let mut object = serde_json::to_value(existing).unwrap_or_default();
    object["apiVersion"] = making.kind.resource.api_version.clone().into();
    object["kind"] = making.kind.resource.kind.clone().into();
    object["spec"] = making.object["spec"].clone();
    for field in ["annotations", "labels", "ownerReferences"] {
        object["metadata"][field] = making.object["metadata"][field].clone();
    }
    object
}

/// Whether objects of a kind are made for templates at all.
pub fn is_carried(site: &SyncSite, kind: &KindName, served: &ServedKind) -> bool {
    match of_gatekeeper(kind) {
        Some(_) => site.gatekeeper,
        None => served.is_template,
    }
}

/// Decides about all templates of a Policy.
pub fn decide(seen: &Seen, policy: &Policy) -> Decided {
    if let Some(name) = template::duplicate(policy) {
        return Decided::Duplicate(name);
    }
    let all = seen.templates.iter().enumerate();
    Decided::Each(all.map(|(index, it)| of_template(seen, policy, index, it)).collect())
}

fn of_template(seen: &Seen, policy: &Policy, index: usize, template: &TemplateSeen) -> Decision {
    let unnamed = || format!("template-{index}");
    let (kind, name) = match &template.written {
        Written::Object { kind, name, .. } => (kind, name.as_str()),
        Written::Broken {
            why,
            counts_as,
            cluster_scoped,
        } => {
            return Decision::Broken {
                why: why.clone(),
                counts_as: (counters::Fault::User, counts_as),
                name: unnamed(),
                scoped: *cluster_scoped,
                again: false,
                leaves: None,
            };
        }
    };
    let broken =
        |why: String, counts_as: (counters::Fault, &'static str), scoped: bool, again: bool| Decision::Broken {
            why,
            counts_as,
            name: name.to_owned(),
            scoped,
            again,
            leaves: None,
        };
    let gatekeepers = of_gatekeeper(kind);
    const CRD: (counters::Fault, &str) = (counters::Fault::User, "crd-error");
    let served = match &template.kind {
        Some(KindOnCluster::Served(served)) => served,
        missing => {
            let detail = match missing {
                Some(KindOnCluster::Missing(detail)) => detail.as_str(),
                _ => "its kind was not looked for",
            };
            return broken(
                unmapped(&seen.site, gatekeepers, detail),
                CRD,
                gatekeepers.is_some(),
                true,
            );
        }
    };
    let scoped = !served.namespaced;
    if !is_carried(&seen.site, kind, served) {
        let why = match gatekeepers {
            Some(_) => format!("not syncing kind {kind} because the Gatekeeper integration is disabled"),
            None => format!("policy-template kind is not supported: {kind}"),
        };
        return broken(why, CRD, scoped, false);
    }
    if let Some(why) = &template.unknown {
        let why = format!("Failed to get the object in the policy template: {why}");
        return broken(why, (counters::Fault::System, "get-error"), scoped, true);
    }
    let existing = template.existing.as_deref();
    let mut says = None;
    if let (Some(GatekeeperKind::Template), Some(existing)) = (gatekeepers, existing) {
        match of_constraint_template(name, existing, seen.now) {
            Ok(text) => says = text,
            Err(why) => return broken(why, (counters::Fault::User, "format-error"), scoped, false),
        }
    }
    let leaves = existing.map(|it| (served.resource.clone(), it.clone()));
    if !template.unmet.is_empty() {
        let ignored = policy.spec.policy_templates[index].ignore_pending;
        let why = template::pending_text(&template.unmet);
        return Decision::Pending {
            why: if ignored {
                format!("{why} but ignorePending is true")
            } else {
                why
            },
            state: if ignored {
                ComplianceState::Compliant
            } else {
                ComplianceState::Pending
            },
            name: name.to_owned(),
            scoped,
            leaves,
        };
    }
    let written = &policy.spec.policy_templates[index].object_definition;
    let hub_error = written["metadata"]["annotations"][annotations::HUB_TEMPLATES_ERROR].as_str();
    if let Some(why) = hub_error.filter(|it| !it.is_empty()) {
        return Decision::Broken {
            why: why.to_owned(),
            counts_as: (counters::Fault::User, "format-error"),
            name: name.to_owned(),
            scoped,
            again: false,
            leaves,
        };
    }
    let namespace = served.namespaced.then(|| policy.namespace().unwrap_or_default());
    let mut object = template::wanted(policy, written, namespace.as_deref(), &seen.site.namespace);
    template::fill_defaults(&mut object, &kind.version, served.definition.as_deref());
    let mut making = Making {
        name: name.to_owned(),
        kind: served.clone(),
        object,
        says,
    };
    let own = json!([template::owner(policy)]);
    let Some(existing) = existing else {
        if !scoped {
            making.object["metadata"]["ownerReferences"] = own;
        }
        return Decision::Create(making);
    };
    let belongs_to = template::belongs_to(existing);
    if belongs_to != Some(policy.name_any().as_str()) {
        let kind = &kind.kind;
        let of = match belongs_to {
            None => "outside of a Policy".to_owned(),
            Some(other) => format!("in policy {other}"),
        };
        let why =
            format!("Template name must be unique. Policy template with kind: {kind} name: {name} already exists {of}");
        return broken(why, (counters::Fault::User, "format-error"), scoped, false);
    }
    let has_no_owner = existing.owner_references().is_empty();
    let lost_its_owner = !scoped && has_no_owner;
    making.object["metadata"]["ownerReferences"] = match lost_its_owner {
        true => own,
        false => json!(existing.owner_references()),
    };
    match template::is_as_wanted(existing, &making.object) && !lost_its_owner {
        true => Decision::Keep(making, Box::new(existing.clone())),
        false => Decision::Update(making, Box::new(existing.clone())),
    }
}

fn unmapped(site: &SyncSite, gatekeepers: Option<GatekeeperKind>, detail: &str) -> String {
    let check = match gatekeepers {
        Some(_) if !site.gatekeeper => {
            return format!(
                "A Gatekeeper policy-template was provided, but the Gatekeeper integration is disabled: {detail}"
            );
        }
        Some(GatekeeperKind::Template) => "check if Gatekeeper is installed",
        Some(GatekeeperKind::Constraint) => "check if the required ConstraintTemplate has been deployed",
        None => "check if you have the CRD deployed",
    };
    format!("Mapping not found, {check}: {detail}")
}

/// What Gatekeeper has said of a ConstraintTemplate: that it took it, nothing yet, or why it did not.
fn of_constraint_template(name: &str, existing: &DynamicObject, now: Timestamp) -> Result<Option<String>, String> {
    match existing.data["status"]["created"].as_bool() {
        Some(true) => Ok(Some(format!("ConstraintTemplate {name} was created successfully"))),
        Some(false) => Err(format!(
            "Failed to create Gatekeeper ConstraintTemplate. Check the status of {name}."
        )),
        None => {
            let since = existing.creation_timestamp().map(|it| now.duration_since(it.0));
            match since.is_some_and(|it| it > GATEKEEPER_ANSWERS) {
                true => Err(format!(
                    "Failed to retrieve status.created from ConstraintTemplate {name}: <nil>"
                )),
                false => Ok(None),
            }
        }
    }
}

/// The newest thing that was said of a template.
pub fn newest(policy: &Policy, index: usize) -> Option<&ComplianceHistory> {
    policy.status.as_ref()?.details.get(index)?.history.first()
}

/// Counts what hinders templates, as upstream's metrics do.
pub fn count(policy: &Policy, decided: &Decided, outcome: &Outcome) {
    let Decided::Each(decisions) = decided else { return };
    let of = policy.name_any();
    for (index, decision) in decisions.iter().enumerate() {
        let failed = failure(outcome, index);
        let (template, fault, what) = match (decision, failed) {
            (
                Decision::Broken {
                    counts_as: (fault, what),
                    name,
                    ..
                },
                _,
            ) => (name, *fault, *what),
            (Decision::Pending { name, .. }, Some(_)) => (name, counters::Fault::System, "delete-error"),
            (Decision::Create(making) | Decision::Update(making, _), Some(error)) if error.code() == Some(422) => {
                (&making.name, counters::Fault::User, "format-error")
            }
            (Decision::Create(making), Some(_)) => (&making.name, counters::Fault::System, "create-error"),
            (Decision::Update(making, _), Some(error)) if !error.is_conflict() => {
                (&making.name, counters::Fault::System, "patch-error")
            }
            _ => continue,
        };
        // Upstream does not know the name of a template that it cannot read.
        let template = if template.starts_with("template-") {
            ""
        } else {
            template
        };
        counters::add(fault, &of, template, what);
    }
}

fn failure(outcome: &Outcome, index: usize) -> Option<&StepError> {
    outcome.named(&format!("{WRITTEN}/{index}"))?.as_ref().err()
}

/// Says what came of each template.
pub fn conclude(seen: &Seen, policy: &Policy, decided: &Decided, outcome: &Outcome) -> Plan {
    let mut telling = Telling {
        plan: Plan::new(),
        seen,
        policy,
        count: 0,
    };
    match decided {
        Decided::Duplicate(name) => {
            for index in 0..policy.spec.policy_templates.len() {
                telling.error(
                    index,
                    name,
                    false,
                    "All policy-template names must be unique within a policy",
                );
            }
        }
        Decided::Each(decisions) => {
            for (index, decision) in decisions.iter().enumerate() {
                telling.of(index, decision, outcome);
            }
        }
    }
    telling.plan
}

struct Telling<'a> {
    plan: Plan,
    seen: &'a Seen,
    policy: &'a Policy,
    count: i64,
}

impl Telling<'_> {
    fn of(&mut self, index: usize, decision: &Decision, outcome: &Outcome) {
        let failed = failure(outcome, index);
        match decision {
            Decision::Broken { why, name, scoped, .. } => self.error(index, name, *scoped, why),
            Decision::Pending {
                why,
                state,
                name,
                scoped,
                ..
            } => self.state(index, name, *scoped, *state, why),
            Decision::Create(making) => match (failed, outcome.named(&format!("{WRITTEN}/{index}"))) {
                (Some(error), _) => {
                    let why = match sentence(error) {
                        text if text.ends_with(BOTH_TEMPLATES) => format!(
                            "ConfigurationPolicy.policy.open-cluster-management.io \"{}\" is invalid: spec may only \
                             contain one of object-templates and object-templates-raw",
                            making.name
                        ),
                        text => text,
                    };
                    let why = format!("Failed to create policy template: {why}");
                    self.error(index, &making.name, !making.kind.namespaced, &why);
                }
                (None, Some(Ok(Done::Object(_)))) => {
                    self.people(
                        format!("Policy template {} created successfully", making.name),
                        EventKind::Normal,
                    );
                }
                (None, _) => {}
            },
            Decision::Update(making, existing) => match failed {
                Some(error) if error.is_conflict() => {}
                Some(error) => {
                    let why = format!("Failed to update policy template {}: {}", making.name, sentence(error));
                    self.error(index, &making.name, !making.kind.namespaced, &why);
                }
                None => {
                    let object = outcome.object_of(&format!("{WRITTEN}/{index}"));
                    if object.is_none_or(|it| it.resource_version() == existing.resource_version()) {
                        // Only what the API server fills in had made the difference.
                        return self.kept(index, making, existing);
                    }
                    let name = &making.name;
                    self.people(
                        format!("Policy template {name} was updated successfully"),
                        EventKind::Normal,
                    );
                    if of_gatekeeper(&kind_of(making)) == Some(GatekeeperKind::Template) {
                        let why = format!("ConstraintTemplate {name} was updated successfully");
                        self.state(index, name, true, ComplianceState::Compliant, &why);
                    }
                    self.reset(index, making, existing);
                }
            },
            Decision::Keep(making, existing) => self.kept(index, making, existing),
        }
    }

    /// What is told of an object that is as it has to be.
    fn kept(&mut self, index: usize, making: &Making, existing: &DynamicObject) {
        let already = newest(self.policy, index).is_some_and(|it| {
            // That it was updated since says that it was created, too.
            let of = format!("ConstraintTemplate {} was", making.name);
            it.message.contains(&format!("{}; {of}", ComplianceState::Compliant))
        });
        if let (Some(why), false) = (&making.says, already) {
            self.state(index, &making.name, true, ComplianceState::Compliant, why);
        }
        self.reset(index, making, existing);
    }

    fn error(&mut self, index: usize, name: &str, scoped: bool, why: &str) {
        let why = format!("template-error; {why}");
        self.state(index, name, scoped, ComplianceState::NonCompliant, &why);
    }

    /// Tells a state, unless that is what was said last.
    fn state(&mut self, index: usize, name: &str, scoped: bool, state: ComplianceState, why: &str) {
        let about = &self.policy.spec.policy_templates[index].object_definition;
        let said = StateSaid {
            policy: self.policy,
            about,
            template: name,
            cluster_scoped: scoped,
            state,
            why,
            at: self.at(),
            component: PolicyTemplateSync::NAME,
            instance: &self.seen.site.instance,
        };
        let message = said.message();
        let newest = newest(self.policy, index);
        if newest.is_some_and(|it| it.message.contains(&message)) {
            return;
        }
        if self
            .remembered(index)
            .is_some_and(|it| it.told.as_deref() == Some(message.as_str()))
        {
            return;
        }
        let kind = match state {
            ComplianceState::Compliant => EventKind::Normal,
            _ => EventKind::Warning,
        };
        let step = said.step();
        self.people(why.to_owned(), kind);
        let step = self.plan.push(step);
        self.plan.name(format!("{TOLD}/{index}"), step);
    }

    /// What was done about a template since the newest entry of its history.
    fn remembered(&self, index: usize) -> Option<&super::Remembered> {
        let newest = newest(self.policy, index).map(|it| it.event_name.as_str());
        let remembered = self.seen.remembered.get(&index)?;
        (remembered.newest.as_deref() == newest).then_some(remembered)
    }

    fn people(&mut self, note: String, kind: EventKind) {
        let by = (REASON, PolicyTemplateSync::NAME);
        let at = self.at();
        self.plan
            .push(tell::for_people(Site::Cluster, self.policy, by, kind, note, at));
    }

    /// Has the controller of an object say its state again, where something else was said last.
    fn reset(&mut self, index: usize, making: &Making, existing: &DynamicObject) {
        let newest = newest(self.policy, index)
            .map(|it| it.message.as_str())
            .unwrap_or_default();
        let hindered = newest.contains("template-error;") || newest.contains("Pending;");
        let is_said = existing.data["status"]["compliant"]
            .as_str()
            .is_some_and(|it| !it.is_empty());
        let is_done = self.remembered(index).is_some_and(|it| it.reset);
        if making.kind.resource.group != policy::GROUP || !hindered || !is_said || is_done {
            return;
        }
        let step = self.plan.perform(RESET, format!("the state of template {index}"));
        self.plan.name(format!("{RESET}/{index}"), step);
    }

    /// Each event has a time of its own, for its name.
    fn at(&mut self) -> Timestamp {
        self.count += 1;
        let later = SignedDuration::from_nanos(self.count);
        self.seen.now.checked_add(later).unwrap_or(self.seen.now)
    }
}

fn kind_of(making: &Making) -> KindName {
    KindName::new(&making.kind.resource.api_version, &making.kind.resource.kind)
}
