//! Obtaining a client certificate and keeping it in the Secret.
//!
//! Root: the Secret. Reads: the cluster's certificate signing requests on the hub, and when there are too many its age.
//! Writes: requests; the Secret. Condition `ClusterCertificateRotated` goes into the one status patch of `state.rs`.
//! Never: a second request while one is under way, also after a restart: the key of a request stands in the Secret
//! before the hub is asked, and the request is known by it.

mod obtain;
mod report;
mod requests;
mod rotation;
mod secret;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use credential::{
    Loaded,
    csr::KeyAndRequest,
    enrol::{self, CertificateDecision},
    hub_secret,
};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Secret};
use ocm_reconcile::{
    Cache, Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, Site, StepError, Watches, async_trait, rbac::Right,
};
use parking_lot::Mutex;

pub(super) use self::obtain::{JoinProgress, ReportProgress, obtain, rules};
use super::{drive::RegistrationAgent, permissions};
use crate::api_reader::ApiReader;

const KEY: &str = "credential";
/// The names of the steps that make a key, and the request for it.
const MADE: &str = "key";
const MAKE: &str = "a key and a request for its certificate";
const REQUEST: &str = "request";
/// Whoever calls [`obtain`] has decided that a certificate is needed. With the upper end of the range the rules cannot
/// come to another mind on the way and leave the caller waiting.
const DECIDED: f64 = enrol::THRESHOLD.end;
/// How soon to look again after a request turned out to be of no use.
const AGAIN: Duration = Duration::from_millis(200);

/// The reconciler.
struct Enrolment {
    agent: Arc<RegistrationAgent>,
    bootstrap: Loaded,
    refused: Option<Vec<u8>>,
    hub: ApiReader,
    requests: Cache<CertificateSigningRequest>,
    in_session: bool,
    /// Requests of which nothing will come: those that were denied before we began, and what was issued badly.
    given_up: Mutex<BTreeSet<String>>,
    /// What was made in this run.
    made: Mutex<Option<KeyAndRequest>>,
    report: ReportProgress,
}

/// What a plan is made from.
struct Seen {
    rules: enrol::Seen,
    /// What to ask for, once it is made.
    made: Option<KeyAndRequest>,
    secret: Option<Arc<Secret>>,
    secret_name: (String, String),
    cluster_name: String,
    expiration_seconds: Option<i32>,
}

#[async_trait]
impl Reconciler for Enrolment {
    const NAME: &'static str = "client-certificate";
    const RIGHTS: &'static [Right] = permissions::ENROLMENT;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        watches
            .signal("the start", |queue| queue.add(KEY))
            .wakes(&self.requests, |_, _| [KEY.to_owned()])
            .wakes(&self.agent.secrets, |_, _| [KEY.to_owned()]);
    }

    async fn observe(&self, _: &str) -> Result<Seen, ObserveError> {
        let (agent, options) = (&self.agent, &self.agent.options);
        let (namespace, name) = (&options.component_namespace, &options.hub_kubeconfig_secret);
        let data = agent.data(self.refused.as_deref());
        let pending = hub_secret::text(&data, hub_secret::PENDING_KEY).and_then(|it| self.pending(it));
        Ok(Seen {
            rules: rules(agent, &self.bootstrap, DECIDED, data, pending, self.count().await?),
            made: None,
            secret: agent.secrets.get(namespace, name),
            secret_name: (namespace.clone(), name.clone()),
            cluster_name: agent.cluster.clone(),
            expiration_seconds: options.client_cert_expiration_seconds,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let decision = enrol::decide(&seen.rules);
        match (&decision, &seen.made) {
            (CertificateDecision::Keep { .. }, _) => {}
            (CertificateDecision::Create { why }, None) => {
                let step = plan.remark(why).perform("make", MAKE);
                plan.name(MADE, step);
            }
            (CertificateDecision::Create { .. }, Some(made)) => secret::ask(&mut plan, seen, made),
            (CertificateDecision::Save { data, .. }, _) => secret::save(&mut plan, seen, data),
            (CertificateDecision::Wait { why }, _) => {
                plan.wait(why);
            }
            (CertificateDecision::Reset { why }, _) => {
                plan.remark(why).look_again(AGAIN);
            }
            (CertificateDecision::Refuse { why }, _) => {
                plan.refuse(why);
            }
        }
        plan.work_out(decision);
        plan
    }

    /// Makes the request with the key that the Secret keeps for it, or with a new one.
    async fn perform(&self, seen: &Seen, _: &OwnStep) -> Result<Done, StepError> {
        let made = requests::make(&seen.rules).map_err(|error| StepError::Own(error.to_string()))?;
        *self.made.lock() = Some(made);
        Ok(Done::Performed)
    }

    fn goes_on(_: &Seen, outcome: &Outcome) -> bool {
        matches!(outcome.named(MADE), Some(Ok(_)))
    }

    /// What was made is for what was seen.
    async fn observe_again(&self, _: &str, before: Seen, _: &Outcome) -> Result<Seen, ObserveError> {
        let made = self.made.lock().take();
        Ok(Seen { made, ..before })
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let (namespace, name) = &seen.secret_name;
        if let Some(secret) = outcome.latest::<Secret>(Site::Cluster, Some(namespace), name) {
            // Otherwise the next look, before the watch has brought it, would know nothing of the key.
            self.agent.secrets.put(secret);
        }
        if let Some(decision) = outcome.worked_out() {
            self.tell(decision, seen, outcome);
        }
    }
}

#[cfg(test)]
#[path = "enrolment_tests.rs"]
mod tests;
