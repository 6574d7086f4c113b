//! Looks at the certificates that a policy is about, and says what it finds.
//!
//! Root: CertificatePolicy. Reads: Secrets and Namespaces of the target. Writes: the policy's status, Events about it
//! and the Policy that owns it. Never: anything on the target. Upstream: cert-policy-controller `ProcessPolicies`.

use std::{sync::Arc, time::Instant};

use jiff::Timestamp;
use ocm_addon_sdk::{
    ocm_api::policy::certificate_policy::CertificatePolicy,
    reconcile::{
        ObserveError, Outcome, Plan, Reconciler, StatusField, Watches, async_trait, cache::split_key,
        caches::put_written,
    },
};
use tracing::warn;

use super::{CertificateSite, Certificates, counters, telling::tell};
use crate::{
    evaluate::{CertificateReport, SelectedSecrets, evaluate},
    namespaces::NamespaceSelection,
};

/// The reconciler.
pub struct CertificatePolicies {
    on: Certificates,
}

/// What a plan is made from.
pub struct Seen {
    policy: Option<Arc<CertificatePolicy>>,
    secrets: SelectedSecrets,
    site: Arc<CertificateSite>,
    now: Timestamp,
    begun: Instant,
}

impl CertificatePolicies {
    /// Over what the controller sees.
    pub fn new(on: &Certificates) -> Self {
        Self { on: on.clone() }
    }

    /// The Secrets with certificates in the namespaces that the policy selects.
    fn selected(&self, policy: &CertificatePolicy) -> SelectedSecrets {
        let selection = match NamespaceSelection::of(&policy.spec.namespace_selector) {
            Ok(selection) => selection,
            Err(why) => {
                warn!(why, "the namespace selector selects nothing, because it cannot be read");
                return SelectedSecrets::new();
            }
        };
        let namespaces = self.on.namespaces.list().into_iter().filter(|it| selection.has(it));
        let names = namespaces.filter_map(|it| it.metadata.name.clone());
        let secrets = |namespace: &str| {
            let all = self.on.secrets.list_in(namespace).into_iter();
            all.filter(|it| it.certificate.is_some()).collect()
        };
        names.map(|it| (it.clone(), secrets(&it))).collect()
    }
}

#[async_trait]
impl Reconciler for CertificatePolicies {
    const NAME: &'static str = "certificate-policy-controller";
    const STATUS: &'static [StatusField] = &[
        StatusField::new(CertificatePolicy::KIND, "compliant")
            .shared("template-sync of the policy framework takes it away, for the state to be told again"),
        StatusField::new(CertificatePolicy::KIND, "compliancyDetails"),
        StatusField::new(CertificatePolicy::KIND, "history"),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        for cache in self.on.policies.iter() {
            // Of several namespaces one may be none of ours.
            watches.root(cache).if_allowed(cache);
        }
        let on = self.on.clone();
        watches.wakes(&self.on.secrets, move |old, new| {
            let changed = match (old, new) {
                (Some(old), Some(new)) => old.differs(new),
                (one, other) => one.or(other).is_some_and(|it| it.certificate.is_some()),
            };
            let namespace = old
                .or(new)
                .filter(|_| changed)
                .and_then(|it| it.metadata.namespace.as_deref());
            // A namespace that is not there yet wakes them itself.
            let namespace = namespace.and_then(|it| on.namespaces.named(it));
            namespace.map(|it| on.selecting(&it)).unwrap_or_default()
        });
        let on = self.on.clone();
        watches.wakes(&self.on.namespaces, move |old, new| {
            if let (Some(old), Some(new)) = (old, new)
                && old.metadata.labels == new.metadata.labels
            {
                return Vec::new();
            }
            let mut keys: Vec<String> = [old, new]
                .into_iter()
                .flatten()
                .flat_map(|it| on.selecting(it))
                .collect();
            keys.dedup();
            keys
        });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let begun = Instant::now();
        let (namespace, name) = split_key(key);
        let policy = self.on.policy(namespace, name);
        if policy.is_none() {
            counters::forget(namespace, name);
        }
        Ok(Seen {
            secrets: policy.as_deref().map(|it| self.selected(it)).unwrap_or_default(),
            policy,
            site: self.on.site.clone(),
            now: Timestamp::now(),
            begun,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(policy) = &seen.policy else {
            return plan;
        };
        let report = evaluate(&policy.spec, seen.site.default_minimum, &seen.secrets, seen.now);
        tell(&mut plan, policy, &report, &seen.site.instance, seen.now);
        plan.look_again(report.next.unwrap_or(seen.site.frequency).min(seen.site.frequency));
        plan.work_out(report);
        plan
    }

    fn planned(&self, seen: &Seen, plan: &Plan) {
        if let (Some(policy), Some(report)) = (&seen.policy, plan.worked_out::<CertificateReport>()) {
            counters::evaluated(policy, report.state, seen.begun.elapsed());
        }
    }

    fn stage_done(&self, seen: &Seen, so_far: &Outcome) {
        // Whoever looks next is not to tell it again.
        let namespace = seen.policy.as_ref().and_then(|it| it.metadata.namespace.as_deref());
        let name = seen.policy.as_ref().and_then(|it| it.metadata.name.as_deref());
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let of_policy = self.on.policies.iter().find(|it| it.get(namespace, name).is_some());
        if let Some(cache) = of_policy {
            put_written(cache, so_far);
        }
    }
}
