//! Evaluates OperatorPolicies: at once when they or what they have read changes.
//!
//! Root: OperatorPolicy. Reads: what the policy names, by watches of its own; PackageManifests, which cannot be
//! watched. Writes: OperatorGroups, Subscriptions, InstallPlans, ClusterServiceVersions and CustomResourceDefinitions
//! of a policy that enforces, its status, Events about its owner. Never: objects of a policy that only looks.
//! Upstream: config-policy-controller `OperatorPolicyReconciler.Reconcile`. Ours differs in one thing: a policy that is
//! evaluated very often waits, as ConfigurationPolicies do.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::{
        annotations::{DISABLE_TEMPLATES, ENCRYPTION_IV},
        operator_policy::OperatorPolicy,
    },
    reconcile::{
        Cache, Caches, Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, StepError, Watches, async_trait,
        cache::{key_of, split_key},
    },
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{OperatorSettings, evaluate_operator, refuse_operator};
use crate::controller::{
    Evaluating, EvaluationEnd, LiveCluster, PolicyMemory, PolicyReading, STALE_AGAIN, counters,
    hub_templates::HubFilled, policies, recorder::PolicyRecorder,
};

/// The reconciler.
pub struct OperatorPolicies {
    on: Evaluating,
    policies: Cache<OperatorPolicy>,
    reading: PolicyReading,
    settings: Arc<OperatorSettings>,
}

/// What a plan is made from.
pub struct SeenOperator {
    policy: Option<Arc<OperatorPolicy>>,
    filled: HubFilled<OperatorPolicy>,
    /// How long it has to wait; `None` when it is due.
    wait: Option<Duration>,
    memory: Arc<PolicyMemory>,
    ended: Mutex<Option<EvaluationEnd>>,
}

impl OperatorPolicies {
    /// Over what a controller has.
    pub fn new(on: &Evaluating, settings: OperatorSettings, stop: &CancellationToken) -> Self {
        let (clients, site) = (&on.clients, &on.site);
        let home = Caches::new(clients.home.clone(), stop.clone());
        Self {
            policies: policies(clients, &site.namespaces, &home, stop),
            reading: PolicyReading::new(clients, &site.cluster, settings.denied_functions.clone(), stop),
            settings: Arc::new(settings),
            on: on.clone(),
        }
    }

    async fn evaluate(&self, seen: &SeenOperator, policy: &OperatorPolicy) -> EvaluationEnd {
        let key = key_of(policy);
        let mut policy = policy.clone();
        let inquiry = self.reading.watches.inquiry(&key);
        let cluster = LiveCluster {
            client: self.on.clients.target.clone(),
            kinds: &self.reading.kinds,
            watches: &self.reading.watches,
            inquiry: &inquiry,
            watching: true,
            memory: &seen.memory,
            writes: AtomicUsize::new(0),
        };
        let recorder = PolicyRecorder {
            client: self.on.clients.home.clone(),
            policies: &self.policies,
            memory: seen.memory.clone(),
            instance: &self.on.site.instance,
        };
        let outcome = match &seen.filled {
            HubFilled::Failed(why) => {
                let refused = refuse_operator(&mut policy, &recorder, &self.settings, why).await;
                refused.map(|()| None)
            }
            HubFilled::Nothing | HubFilled::Policy(_) => {
                let others = self.policies.list();
                evaluate_operator(&mut policy, &cluster, &recorder, &self.settings, &others).await
            }
        };
        inquiry.finish();
        let state = policy.status.as_ref().map_or("", |it| it.compliant.as_str());
        let (name, namespace) = (policy.name_any(), policy.namespace().unwrap_or_default());
        counters::state_of(OperatorPolicy::KIND, &name, &namespace, &policy.spec.severity, state);
        let (outcome, again) = match outcome {
            Ok(again) => (Ok(()), again),
            Err(failure) => (Err(failure), None),
        };
        let ended = EvaluationEnd::of(outcome, again);
        self.reading.kinds.wait(&key, ended.waits_for_kind);
        ended
    }
}

const EVALUATE: &str = "evaluate";

#[async_trait]
impl Reconciler for OperatorPolicies {
    const NAME: &'static str = "operator-policy-controller";
    const WORKERS: usize = 2;
    type Seen = SeenOperator;

    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.policies, woken);
        let (reading, definitions) = (self.reading.clone(), self.on.definitions.clone());
        watches.signal("what policies have read", move |queue| {
            reading.wake(&definitions, queue)
        });
    }

    async fn observe(&self, key: &str) -> Result<SeenOperator, ObserveError> {
        let (namespace, name) = split_key(key);
        let memory = self.reading.memories.of(key);
        let mut seen = SeenOperator {
            policy: self.policies.get(namespace, name),
            filled: HubFilled::Nothing,
            wait: None,
            memory: memory.clone(),
            ended: Mutex::default(),
        };
        let Some(policy) = &seen.policy else {
            self.reading.forget(key);
            counters::forget_state(OperatorPolicy::KIND, namespace, name);
            return Ok(seen);
        };
        let meta = &policy.metadata;
        if meta.deletion_timestamp.is_some() {
            return Ok(seen);
        }
        memory.begin(
            meta.uid.as_deref().unwrap_or_default(),
            meta.generation.unwrap_or_default(),
        );
        seen.wait = match memory.is_stale(meta.resource_version.as_deref()) {
            true => Some(STALE_AGAIN),
            false => memory.admit(Instant::now(), self.on.site.back_off).err(),
        };
        if seen.wait.is_none() {
            seen.filled = self.reading.hub_templates.fill(key, &**policy).await;
        }
        Ok(seen)
    }

    fn plan(seen: &SeenOperator) -> Plan {
        let mut plan = Plan::new();
        let policy = seen.policy.as_ref();
        let Some(policy) = policy.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
            return plan;
        };
        match seen.wait {
            Some(wait) => drop(plan.look_again(wait)),
            None => drop(plan.perform(EVALUATE, key_of(&**policy))),
        }
        plan
    }

    async fn perform(&self, seen: &SeenOperator, own: &OwnStep) -> Result<Done, StepError> {
        let Some(policy) = seen.policy.as_deref().filter(|_| own.verb == EVALUATE) else {
            return Err(StepError::NobodyPerforms(own.verb));
        };
        let ended = match &seen.filled {
            HubFilled::Policy(filled) => self.evaluate(seen, filled).await,
            HubFilled::Nothing | HubFilled::Failed(_) => self.evaluate(seen, policy).await,
        };
        *seen.ended.lock() = Some(ended);
        Ok(Done::Performed)
    }

    fn failure(seen: &SeenOperator, outcome: &Outcome) -> Option<String> {
        let ended = seen.ended.lock();
        let failure = ended.as_ref().and_then(|it| it.failure.clone());
        failure.or_else(|| (!outcome.succeeded()).then(|| outcome.error_text()))
    }

    fn conclude(seen: &SeenOperator, _: &Outcome) -> Plan {
        let mut plan = Plan::new();
        if let Some(wait) = seen.ended.lock().as_ref().and_then(|it| it.again) {
            plan.look_again(wait);
        }
        plan
    }
}

/// The policies that a change of one wakes: itself, and those over the same Subscription.
fn woken(old: Option<&OperatorPolicy>, new: Option<&OperatorPolicy>) -> Vec<String> {
    let itself = match (old, new) {
        (Some(old), Some(new)) => matters(old, new).then(|| key_of(new)),
        (old, new) => old.or(new).map(key_of),
    };
    let overlapping = |it: Option<&OperatorPolicy>| {
        let status = it.and_then(|it| it.status.as_ref());
        status.map(|it| it.overlapping_policies.clone()).unwrap_or_default()
    };
    let mine = old.or(new).map(key_of);
    let mut woken = Vec::from_iter(itself);
    for place in overlapping(old).into_iter().chain(overlapping(new)) {
        // Namespaces have no dots.
        let key = place
            .rsplit_once('.')
            .map(|(name, namespace)| format!("{namespace}/{name}"));
        woken.extend(key.filter(|it| Some(it) != mine.as_ref() && !woken.contains(it)));
    }
    woken
}

/// Whether a change of a policy is one that it is evaluated for.
fn matters(old: &OperatorPolicy, new: &OperatorPolicy) -> bool {
    let state = |it: &OperatorPolicy| it.status.as_ref().map(|it| it.compliant.clone()).unwrap_or_default();
    let annotation = |name: &str| old.annotations().get(name) != new.annotations().get(name);
    old.metadata.generation != new.metadata.generation
        || old.metadata.uid != new.metadata.uid
        || [ENCRYPTION_IV, DISABLE_TEMPLATES].into_iter().any(annotation)
        || !state(old).is_empty() && state(new).is_empty()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn policy(status: serde_json::Value) -> OperatorPolicy {
        let document = json!({"metadata": {"name": "a.b", "namespace": "n", "generation": 1}, "status": status});
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn policies_over_one_subscription_wake_each_other() {
        let alone = policy(json!({"compliant": "Compliant"}));
        let overlapping = policy(json!({"compliant": "NonCompliant", "overlappingPolicies": ["a.b.n", "c.d.m"]}));
        assert_eq!(woken(Some(&alone), Some(&overlapping)), ["m/c.d"]);
        assert_eq!(woken(Some(&overlapping), None), ["n/a.b", "m/c.d"]);
        assert!(
            woken(Some(&alone), Some(&alone)).is_empty(),
            "a status alone wakes nobody"
        );
    }

    #[test]
    fn a_status_that_was_emptied_wakes_the_policy() {
        let known = policy(json!({"compliant": "Compliant"}));
        assert_eq!(woken(Some(&known), Some(&policy(json!({})))), ["n/a.b"]);
    }
}
