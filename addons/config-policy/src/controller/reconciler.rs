//! Evaluates ConfigurationPolicies: at once when they or what they have read changes, or by their interval.
//!
//! Root: ConfigurationPolicy. Reads: what the policy names, by [`DynamicWatches`]; Secret `policy-encryption-key`.
//! Writes: the objects that a policy enforces, its status and finalizer, Events about it and its owner. Never: objects
//! of a policy that only looks. Upstream: config-policy-controller `Reconcile`.

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Instant,
};

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::{configuration_policy::ConfigurationPolicy, finalizers::DELETE_RELATED_OBJECTS},
    reconcile::{
        Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, Site, StepError, Watches, async_trait,
        cache::{key_of, split_key},
    },
};
use parking_lot::Mutex;

use super::{
    Evaluating, EvaluationEnd, STALE_AGAIN,
    api::LiveCluster,
    counters,
    due::{Due, again, due},
    hub_templates::HubFilled,
    memory::PolicyMemory,
    recorder::{COMPONENT, PolicyRecorder, reference, remark},
};
use crate::evaluate::{evaluate, is_watching, prunes, refuse};

/// The reconciler.
pub struct ConfigurationPolicies {
    on: Evaluating,
}

/// What a plan is made from.
pub struct Seen {
    policy: Option<Arc<ConfigurationPolicy>>,
    /// The policy with its hub templates filled in, or why they are not.
    filled: HubFilled<ConfigurationPolicy>,
    uninstalling: bool,
    stale: bool,
    due: Due,
    memory: Arc<PolicyMemory>,
    ended: Mutex<Option<EvaluationEnd>>,
}

impl ConfigurationPolicies {
    /// Over what a controller has.
    pub fn new(on: &Evaluating) -> Self {
        Self { on: on.clone() }
    }

    /// Whether the policy selects other namespaces than the last time. They are watched, whatever its interval.
    fn selects_others(&self, policy: &ConfigurationPolicy, memory: &PolicyMemory) -> bool {
        let target = &policy.spec.namespace_selector;
        if target.is_empty() {
            return false;
        }
        let selected = self.on.selected_namespaces(target).unwrap_or_default();
        let others = memory.selects_others(&selected);
        memory.keep_namespaces(selected);
        others
    }

    /// Evaluates the policy, or says why that is not done.
    async fn evaluate(&self, seen: &Seen, policy: &ConfigurationPolicy, refusal: Option<&str>) -> EvaluationEnd {
        let key = key_of(policy);
        let begun = Instant::now();
        let mut policy = policy.clone();
        let watching = is_watching(&policy);
        let inquiry = self.on.reading.watches.inquiry(&key);
        let cluster = LiveCluster {
            client: self.on.clients.target.clone(),
            kinds: &self.on.reading.kinds,
            watches: &self.on.reading.watches,
            inquiry: &inquiry,
            watching,
            memory: &seen.memory,
            writes: AtomicUsize::new(0),
        };
        let recorder = PolicyRecorder {
            client: self.on.clients.home.clone(),
            policies: &self.on.policies,
            memory: seen.memory.clone(),
            instance: &self.on.site.instance,
        };
        let outcome = match refusal {
            None => evaluate(&mut policy, &cluster, &recorder, &self.on.settings).await,
            Some(why) => refuse(&mut policy, &cluster, &recorder, &self.on.settings, why).await,
        };
        let writes = cluster.written();
        inquiry.finish();
        if policy.metadata.deletion_timestamp.is_none() {
            counters::evaluated(&policy, begun.elapsed());
        }
        if seen.memory.corrected(writes) {
            let note = "Somebody changes what this policy puts right as soon as it has done so, such as another policy that \
                        wants something else; it waits longer between two evaluations";
            let about = reference(&policy);
            remark(&self.on.clients.home, &about, COMPONENT, true, "PolicyContested", note).await;
        }
        let ended = EvaluationEnd::of(outcome, again(&policy));
        self.on.reading.kinds.wait(&key, ended.waits_for_kind);
        ended
    }
}

const EVALUATE: &str = "evaluate";

#[async_trait]
impl Reconciler for ConfigurationPolicies {
    const NAME: &'static str = "configuration-policy-controller";
    const WORKERS: usize = 2;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.on.policies, |old, new| {
            let changed = match (old, new) {
                (Some(old), Some(new)) => matters(old, new),
                _ => true,
            };
            old.or(new).filter(|_| changed).map(key_of)
        });
        let on = self.on.clone();
        watches.signal("what policies have read", move |queue| on.wake(queue));
        watches.reads(&self.on.namespaces);
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let policy = self.on.policies.get(namespace, name);
        let memory = self.on.reading.memories.of(key);
        let uninstalling = self.on.uninstallation.is_on();
        let mut seen = Seen {
            filled: HubFilled::Nothing,
            stale: false,
            due: Due::Now,
            uninstalling,
            memory: memory.clone(),
            ended: Mutex::default(),
            policy: policy.clone(),
        };
        let Some(policy) = policy else {
            self.on.reading.forget(key);
            counters::forget(namespace, name);
            return Ok(seen);
        };
        if uninstalling {
            return Ok(seen);
        }
        memory.begin(
            policy.metadata.uid.as_deref().unwrap_or_default(),
            policy.metadata.generation.unwrap_or_default(),
        );
        seen.stale = memory.is_stale(policy.metadata.resource_version.as_deref());
        if seen.stale {
            return Ok(seen);
        }
        let others = self.selects_others(&policy, &memory);
        seen.due = due(&policy, others, Timestamp::now());
        if seen.due == Due::Now {
            let now = Instant::now();
            memory.is_calm(now);
            if policy.metadata.deletion_timestamp.is_none()
                && let Err(wait) = memory.admit(now, self.on.site.back_off)
            {
                seen.due = Due::After(wait);
                return Ok(seen);
            }
            // A policy that goes needs nothing filled in to know what it has made.
            if policy.metadata.deletion_timestamp.is_none() {
                seen.filled = self.on.reading.hub_templates.fill(key, &*policy).await;
            }
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(policy) = &seen.policy else {
            return plan;
        };
        if seen.uninstalling {
            plan.remove_finalizer(Site::Cluster, &**policy, DELETE_RELATED_OBJECTS);
            return plan;
        }
        if seen.stale {
            plan.look_again(STALE_AGAIN);
            return plan;
        }
        let deleted = policy.metadata.deletion_timestamp.is_some();
        let spec = match &seen.filled {
            HubFilled::Policy(filled) => &filled.spec,
            _ => &policy.spec,
        };
        if prunes(spec) && !deleted {
            plan.add_finalizer(Site::Cluster, &**policy, DELETE_RELATED_OBJECTS);
        } else if !prunes(spec) {
            plan.remove_finalizer(Site::Cluster, &**policy, DELETE_RELATED_OBJECTS);
        }
        match seen.due {
            // It leaves behind what it has made.
            Due::Now if deleted && !prunes(spec) => {}
            Due::Now if deleted && !policy.finalizers().iter().any(|it| it == DELETE_RELATED_OBJECTS) => {}
            Due::Now => {
                plan.stage();
                plan.perform(EVALUATE, key_of(&**policy));
            }
            Due::After(wait) => drop(plan.look_again(wait)),
            Due::OnChange => {}
        }
        plan
    }

    async fn perform(&self, seen: &Seen, own: &OwnStep) -> Result<Done, StepError> {
        let Some(policy) = seen.policy.as_deref().filter(|_| own.verb == EVALUATE) else {
            return Err(StepError::NobodyPerforms(own.verb));
        };
        let ended = match &seen.filled {
            HubFilled::Policy(filled) => self.evaluate(seen, filled, None).await,
            HubFilled::Nothing => self.evaluate(seen, policy, None).await,
            HubFilled::Failed(why) => self.evaluate(seen, policy, Some(why)).await,
        };
        *seen.ended.lock() = Some(ended);
        Ok(Done::Performed)
    }

    fn failure(seen: &Seen, outcome: &Outcome) -> Option<String> {
        let ended = seen.ended.lock();
        let failure = ended.as_ref().and_then(|it| it.failure.clone());
        failure.or_else(|| (!outcome.succeeded()).then(|| outcome.error_text()))
    }

    fn conclude(seen: &Seen, _: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let ended = seen.ended.lock();
        let Some(ended) = ended.as_ref().filter(|it| it.failure.is_none()) else {
            return plan;
        };
        if let Some(policy) = &seen.policy
            && policy.metadata.deletion_timestamp.is_some()
        {
            plan.remove_finalizer(Site::Cluster, &**policy, DELETE_RELATED_OBJECTS);
        }
        if let Some(wait) = ended.again {
            plan.look_again(wait);
        }
        plan
    }
}

/// Whether a change of a policy is one that it is evaluated for.
fn matters(old: &ConfigurationPolicy, new: &ConfigurationPolicy) -> bool {
    use ocm_addon_sdk::ocm_api::policy::annotations::{DISABLE_TEMPLATES, ENCRYPTION_IV, UNINSTALLING};
    let state = |it: &ConfigurationPolicy| it.status.as_ref().map(|it| it.compliant.clone()).unwrap_or_default();
    let annotation = |name: &str| old.annotations().get(name) != new.annotations().get(name);
    old.metadata.generation != new.metadata.generation
        || old.metadata.uid != new.metadata.uid
        || new.metadata.deletion_timestamp.is_some()
        || [ENCRYPTION_IV, DISABLE_TEMPLATES, UNINSTALLING]
            .into_iter()
            .any(annotation)
        || !state(old).is_empty() && state(new).is_empty()
}
