//! Who is told what of an enrolment: the user, and those who look next.

use credential::enrol::CertificateDecision;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use ocm_reconcile::Outcome;

use super::{Enrolment, JoinProgress, REQUEST, Seen, rotation};

impl Enrolment {
    /// Tells what was decided, and what came of it.
    pub(super) fn tell(&self, decision: &CertificateDecision, seen: &Seen, outcome: &Outcome) {
        if let Some(update) = rotation::condition_of(decision, outcome).filter(|_| self.in_session) {
            self.agent.rotation.send_replace(Some(update));
        }
        match decision {
            CertificateDecision::Create { .. } | CertificateDecision::Save { .. } if !outcome.succeeded() => {
                (self.report)(JoinProgress::Hindrance(outcome.error_text()));
            }
            CertificateDecision::Create { .. } => {
                let made = outcome.object_of(REQUEST).cloned();
                if let Some(Ok(request)) = made.map(|it| it.try_parse::<CertificateSigningRequest>()) {
                    let name = request.metadata.name.clone().unwrap_or_default();
                    // Otherwise the next look, before the watch has brought it, would take the request for gone.
                    self.requests.put(request);
                    let why = format!("the certificate signing request {name} is not approved yet");
                    (self.report)(JoinProgress::Request(why));
                }
            }
            CertificateDecision::Reset { .. } => {
                let of_no_use = seen.rules.pending.as_ref().map(|it| it.name.clone());
                self.given_up.lock().extend(of_no_use);
            }
            CertificateDecision::Wait { why } => (self.report)(JoinProgress::Request(why.clone())),
            CertificateDecision::Refuse { why } => (self.report)(JoinProgress::Hindrance(why.clone())),
            CertificateDecision::Save { .. } | CertificateDecision::Keep { .. } => {}
        }
    }
}
