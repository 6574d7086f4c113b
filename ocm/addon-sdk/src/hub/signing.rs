//! Signs the approved certificate requests of add-ons whose signer is an authority of their own.
//!
//! Root: CertificateSigningRequest. Reads: the cluster and the add-on that its labels name, the Secret with the
//! authority. Writes: `status.certificate`; an event at the add-on while there is no authority.
//! Never: signs for the hub's own signers, which the hub's API server serves; signs because somebody has approved (see
//! `custom_signer`); keeps or logs a key.
//! Upstream: addon-framework `pkg/addonmanager/controllers/certificate/csrsign.go`.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use ocm_reconcile::{
    Done, ObserveError, Outcome, OwnStep, Plan, Reconciler, StatusField, StepError, Watches, async_trait, rbac::Right,
};

use super::{
    Context, Look, WORKERS,
    authorities::Authorities,
    custom_signer::{LastWarning, NoAuthority, SigningDecision, concluded, signature, with_certificate},
    open_requests::OpenRequests,
    request, rights,
};

/// The step that makes a certificate.
const SIGN: &str = "sign";

/// The reconciler.
pub struct Signer {
    context: Context,
    open: OpenRequests,
    authorities: Authorities,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The name of the request.
    pub name: String,
    /// The request; `None` when it is gone.
    pub request: Option<Arc<CertificateSigningRequest>>,
    /// The add-on that its labels name.
    pub look: Look,
    /// The user that asks on behalf of agents on the gRPC transport.
    pub grpc_user: String,
    /// The namespace where authorities are by default.
    pub namespace: String,
    /// What was told last about it.
    pub told: Option<LastWarning>,
}

impl Seen {
    fn signature(&self) -> SigningDecision {
        signature(self.request.as_deref(), &self.look, &self.grpc_user, &self.namespace)
    }
}

impl Signer {
    /// Over this context.
    pub fn new(context: &Context) -> Self {
        Self {
            open: OpenRequests::of(&context.caches),
            authorities: Authorities::of(&context.caches),
            context: context.clone(),
        }
    }
}

#[async_trait]
impl Reconciler for Signer {
    const NAME: &'static str = "addon-csr-signing";
    const WORKERS: usize = WORKERS;
    const STATUS: &'static [StatusField] = &[
        StatusField::new("CertificateSigningRequest", "certificate"),
        StatusField::new("CertificateSigningRequest", "conditions").shared("they are put back as they are"),
    ];
    const RIGHTS: &'static [Right] = rights::SIGNING;
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        self.open.watches(&self.context, watches);
        let authorities = self.authorities.clone();
        watches.signal("Secrets with authorities", move |queue| authorities.wakes(queue));
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let request = self.open.requests.named(name);
        let key = request.as_deref().and_then(request::key);
        Ok(Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            look: key.map_or(Look::NotOurs, |key| self.context.look(&key)),
            request,
            grpc_user: self.context.options.grpc_user.clone(),
            namespace: self.context.hub.namespace.clone(),
            told: self.authorities.told(name),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        match seen.signature() {
            SigningDecision::NotOurs => {}
            SigningDecision::Waits(why) => drop(plan.wait(why)),
            SigningDecision::Refused(why) => drop(plan.refuse(why)),
            SigningDecision::Due(certificate) => {
                let step = plan.perform(SIGN, format!("CertificateSigningRequest {}", seen.name));
                plan.name(SIGN, step).work_out(*certificate);
            }
        }
        plan
    }

    /// Signs, and answers with the request as it is to be put back.
    async fn perform(&self, seen: &Seen, own: &OwnStep) -> Result<Done, StepError> {
        let (Some(request), SigningDecision::Due(due)) = (&seen.request, seen.signature()) else {
            return Err(StepError::NobodyPerforms(own.verb));
        };
        let object = with_certificate(request, &self.authorities.sign(&due).await?);
        let object = serde_json::from_value(object).map_err(StepError::Malformed)?;
        Ok(Done::Object(Box::new(object)))
    }

    /// That there is no authority is told, and tried again when there is one.
    fn failure(_: &Seen, outcome: &Outcome) -> Option<String> {
        let is_told = matches!(outcome.named(SIGN), Some(Err(StepError::Own(_))));
        (!is_told && !outcome.succeeded()).then(|| outcome.error_text())
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        match (&seen.request, outcome.worked_out(), outcome.named(SIGN)) {
            (Some(request), Some(due), Some(signed)) => concluded(request, due, signed, seen.told.as_ref(), seen.now),
            _ => Plan::new(),
        }
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        if !matches!(outcome.named(SIGN), Some(Err(_))) {
            self.authorities.done(&seen.name);
        }
    }

    fn concluded(&self, outcome: &Outcome) {
        if let Some(it) = outcome.worked_out::<NoAuthority>() {
            self.authorities.wait(it);
        }
    }
}

#[cfg(test)]
#[path = "signing_tests.rs"]
mod tests;
