//! Says of the constraints of Gatekeeper what its audit has found.
//!
//! Root: Policy on the cluster, with a constraint among its templates. Reads: the constraints, Gatekeeper's webhook
//! configuration. Writes: events that say a state. Never: a constraint. Upstream:
//! `controllers/gatekeepersync/gatekeeper_constraint_sync.go`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration,
    kube::{ResourceExt, core::DynamicObject},
    ocm_api::policy::{ComplianceState, Policy},
    reconcile::{Cache, Done, ObserveError, Outcome, Plan, Reconciler, Step, Watches, async_trait},
};
use parking_lot::Mutex;
use serde_json::Value;

use super::{
    Caching, SyncSite,
    discovery::{KindName, KindOnCluster, KindsOnCluster},
    gatekeeper::{self, CONSTRAINTS, WEBHOOK},
    objects::{Interested, ObjectsAsked, WatchedObjects, Whereabouts},
    tell::StateSaid,
    uninstall::{LOOK_AGAIN, Uninstallation},
};

/// The webhook that refuses what a constraint denies.
const VALIDATION: &str = "validation.gatekeeper.sh";

/// The reconciler.
pub struct ConstraintStatusSync {
    policies: Cache<Policy>,
    gatekeeper: gatekeeper::Presence,
    webhook: Cache<ValidatingWebhookConfiguration>,
    objects: WatchedObjects,
    kinds: KindsOnCluster,
    uninstallation: Uninstallation,
    site: Arc<SyncSite>,
    /// What was told last of a constraint, until it is in the status of its Policy.
    told: Mutex<BTreeMap<(String, usize), String>>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The Policy; `None` when it is gone, or Gatekeeper is.
    pub policy: Option<Arc<Policy>>,
    /// Its constraints: the index of the template, and the object.
    pub constraints: Vec<(usize, Arc<DynamicObject>)>,
    /// Whether Gatekeeper's webhook refuses what constraints deny.
    pub has_webhook: bool,
    /// What was told last.
    pub told: BTreeMap<usize, String>,
    /// Where it is.
    pub site: Arc<SyncSite>,
    /// Whether the add-on is being uninstalled.
    pub uninstalling: bool,
}

impl ConstraintStatusSync {
    /// Over the caches of the cluster.
    pub fn new(caching: &Caching) -> Self {
        Self {
            policies: caching.policies(),
            gatekeeper: gatekeeper::Presence::new(caching),
            webhook: caching.cluster.watching(super::named(WEBHOOK)),
            objects: caching.objects.clone(),
            kinds: caching.kinds.clone(),
            uninstallation: caching.uninstallation.clone(),
            site: caching.site.clone(),
            told: Mutex::default(),
        }
    }

    async fn constraints(
        &self,
        policy: &Policy,
        by: &Interested,
        asked: &mut ObjectsAsked,
    ) -> Result<Vec<(usize, Arc<DynamicObject>)>, ObserveError> {
        let mut found = Vec::new();
        for (index, template) in policy.spec.policy_templates.iter().enumerate() {
            let object = &template.object_definition;
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            let kind = KindName::new(text("apiVersion"), text("kind"));
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            if kind.group != CONSTRAINTS || name.is_empty() {
                continue;
            }
            // Its kind comes with its ConstraintTemplate; template-sync makes the object then, and that wakes us.
            let KindOnCluster::Served(served) = self.kinds.find(&kind).await? else {
                continue;
            };
            let at = Whereabouts::all(&served.resource, None);
            asked.insert((at.clone(), name.to_owned()));
            if let Some(object) = self.objects.get(&at, name, by).await? {
                found.push((index, object));
            }
        }
        Ok(found)
    }
}

fn has_constraint(policy: &Policy) -> bool {
    let group = |it: &Value| {
        it["apiVersion"]
            .as_str()
            .is_some_and(|it| it.split('/').next() == Some(CONSTRAINTS))
    };
    policy
        .spec
        .policy_templates
        .iter()
        .any(|it| group(&it.object_definition))
}

fn audit_differs(old: Option<&DynamicObject>, new: Option<&DynamicObject>) -> bool {
    let of = |it: Option<&DynamicObject>| {
        it.map(|it| {
            let status = &it.data["status"];
            let action = it.data["spec"]["enforcementAction"].clone();
            (status["violations"].clone(), status["totalViolations"].clone(), action)
        })
    };
    of(old) != of(new)
}

#[async_trait]
impl Reconciler for ConstraintStatusSync {
    const NAME: &'static str = "gatekeeper-constraint-status-sync";
    const WORKERS: usize = 2;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let objects = self.objects.clone();
        let with_constraints = |policies: &Cache<Policy>| {
            let all = policies.list();
            let with = all.iter().filter(|it| has_constraint(it));
            with.map(|it| it.name_any()).collect::<Vec<_>>()
        };
        let (of_gatekeeper, of_webhook) = (self.policies.clone(), self.policies.clone());
        watches
            .wakes(&self.policies, |old, new| {
                let concerned = [old, new].into_iter().flatten().any(has_constraint);
                old.or(new).filter(|_| concerned).map(|it| it.name_any())
            })
            .wakes(&self.gatekeeper.definition, move |_, _| {
                with_constraints(&of_gatekeeper)
            })
            .wakes(&self.webhook, move |_, _| with_constraints(&of_webhook))
            .not_awaited()
            .signal("constraints", move |queue| {
                objects.subscribe(Self::NAME, queue.clone(), audit_differs);
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let policy = self.policies.get(&self.site.namespace, key);
        let is_there = self.gatekeeper.templates().is_some();
        let policy = policy.filter(|it| is_there && has_constraint(it));
        let by = Interested {
            who: Self::NAME,
            policy: key.to_owned(),
        };
        let mut asked = BTreeSet::new();
        let mut constraints = Vec::new();
        match &policy {
            Some(policy) => constraints = self.constraints(policy, &by, &mut asked).await?,
            None => self.told.lock().retain(|(it, _), _| it != key),
        }
        self.objects.keep_only(&by, &asked);
        let webhook = self.webhook.named(WEBHOOK);
        let webhooks = webhook.iter().flat_map(|it| it.webhooks.iter().flatten());
        let told = self.told.lock();
        let of_key = told.iter().filter(|((it, _), _)| it == key);
        Ok(Seen {
            now: Timestamp::now(),
            has_webhook: webhooks.into_iter().any(|it| it.name == VALIDATION),
            told: of_key.map(|((_, index), it)| (*index, it.clone())).collect(),
            uninstalling: self.uninstallation.is_on(),
            site: self.site.clone(),
            policy,
            constraints,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(policy) = seen.policy.as_deref() else {
            return plan;
        };
        if seen.uninstalling {
            plan.wait("the add-on is being uninstalled").look_again(LOOK_AGAIN);
            return plan;
        }
        for (count, (index, constraint)) in (0i64..).zip(&seen.constraints) {
            let Some((state, why)) = judge(constraint, seen.has_webhook) else {
                plan.wait("Gatekeeper's audit has not run yet");
                continue;
            };
            let said = StateSaid {
                policy,
                about: &policy.spec.policy_templates[*index].object_definition,
                template: &constraint.name_any(),
                cluster_scoped: true,
                state,
                why: &why,
                at: seen
                    .now
                    .checked_add(SignedDuration::from_nanos(count))
                    .unwrap_or(seen.now),
                component: Self::NAME,
                instance: &seen.site.instance,
            };
            let message = said.message();
            if is_recorded(policy, *index, &message) || seen.told.get(index) == Some(&message) {
                continue;
            }
            let step = plan.push(said.step());
            plan.name(index.to_string(), step);
        }
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let Some(policy) = &seen.policy else { return };
        let mut told = self.told.lock();
        // What is in the status may be told again when something else has been said since.
        told.retain(|(name, index), message| *name != policy.name_any() || !is_recorded(policy, *index, message));
        for (name, step) in &outcome.plan().names {
            if let (Ok(index), Some(Ok(Done::Object(_))), Some(Step::Create { object, .. })) =
                (name.parse(), outcome.get(*step), outcome.plan().get(*step))
            {
                let message = object["message"].as_str().unwrap_or_default();
                told.insert((policy.name_any(), index), message.to_owned());
            }
        }
    }
}

fn is_recorded(policy: &Policy, index: usize, message: &str) -> bool {
    let details = policy.status.as_ref().and_then(|it| it.details.get(index));
    details
        .and_then(|it| it.history.first())
        .is_some_and(|it| it.message == message)
}

/// The state of a constraint, and why; `None` before the first audit.
fn judge(constraint: &DynamicObject, has_webhook: bool) -> Option<(ComplianceState, String)> {
    let status = &constraint.data["status"];
    status["totalViolations"].as_i64()?;
    let (mut state, mut why) = match &status["violations"] {
        Value::Null => (ComplianceState::Compliant, NO_VIOLATIONS.to_owned()),
        Value::Array(all) if all.is_empty() => (ComplianceState::Compliant, NO_VIOLATIONS.to_owned()),
        Value::Array(all) => {
            let violations = all.iter().filter_map(Value::as_object);
            let texts: Vec<String> = violations
                .map(|it| {
                    let text = |field: &str| match it.get(field) {
                        Some(Value::String(text)) => text.clone(),
                        Some(other) => other.to_string(),
                        // As Go prints what is not there.
                        None => "%!s(<nil>)".to_owned(),
                    };
                    let name = match it.contains_key("namespace") {
                        true => format!("{}/{}", text("namespace"), text("name")),
                        false => text("name"),
                    };
                    let (action, message, kind) = (text("enforcementAction"), text("message"), text("kind"));
                    format!("{action} - {message} (on {kind} {name})")
                })
                .collect();
            (ComplianceState::NonCompliant, texts.join("; "))
        }
        _ => (
            ComplianceState::NonCompliant,
            "The constraint status is invalid".to_owned(),
        ),
    };
    let denies = match constraint.data["spec"].get("enforcementAction") {
        None => true,
        Some(action) => action == "deny",
    };
    if denies && !has_webhook {
        state = ComplianceState::NonCompliant;
        why = format!(
            "The Gatekeeper validating webhook is disabled but the constraint's spec.enforcementAction is deny. {why}"
        );
    }
    Some((state, why))
}

const NO_VIOLATIONS: &str = "The constraint has no violations";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(spec: Value, status: Value, has_webhook: bool) -> Option<(ComplianceState, String)> {
        let object = json!({"metadata": {"name": "c"}, "spec": spec, "status": status});
        judge(&serde_json::from_value(object).unwrap(), has_webhook)
    }

    #[test]
    fn a_constraint_says_nothing_before_its_first_audit() {
        assert_eq!(judged(json!({}), json!({"violations": []}), true), None);
    }

    #[test]
    fn violations_are_told_one_after_the_other() {
        let violations = json!([
            {"enforcementAction": "warn", "message": "no label", "kind": "Pod", "namespace": "a", "name": "b"},
            {"enforcementAction": "warn", "message": "no label", "kind": "Namespace", "name": "a"},
        ]);
        let status = json!({"totalViolations": 2, "violations": violations});
        let (state, why) = judged(json!({"enforcementAction": "warn"}), status, true).unwrap();
        assert_eq!(state, ComplianceState::NonCompliant);
        assert_eq!(why, "warn - no label (on Pod a/b); warn - no label (on Namespace a)");
    }

    #[test]
    fn a_constraint_that_cannot_deny_is_told() {
        let clean = json!({"totalViolations": 0});
        let compliant = (
            ComplianceState::Compliant,
            "The constraint has no violations".to_owned(),
        );
        assert_eq!(judged(json!({}), clean.clone(), true), Some(compliant.clone()));
        assert_eq!(
            judged(json!({"enforcementAction": "warn"}), clean.clone(), false),
            Some(compliant)
        );
        let (state, why) = judged(json!({"enforcementAction": "deny"}), clean, false).unwrap();
        assert_eq!(state, ComplianceState::NonCompliant);
        assert_eq!(
            why,
            "The Gatekeeper validating webhook is disabled but the constraint's spec.enforcementAction is deny. The \
             constraint has no violations"
        );
    }

    #[test]
    fn a_status_that_cannot_be_read_is_told() {
        let status = json!({"totalViolations": 1, "violations": "x"});
        let (_, why) = judged(json!({"enforcementAction": "warn"}), status, true).unwrap();
        assert_eq!(why, "The constraint status is invalid");
    }
}
