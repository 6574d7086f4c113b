//! What the ManagedCluster is to say about the renewal of the certificate.

use credential::enrol::{self, CertificateDecision};
use ocm_api::{
    condition::{ConditionUpdate, wanted},
    conditions::managed_cluster::{self, reason},
};
use ocm_reconcile::Outcome;

/// What it is to say; nothing when nothing of note happened.
pub(super) fn condition_of(decision: &CertificateDecision, outcome: &Outcome) -> Option<ConditionUpdate> {
    let (status, reason, message) = match (decision, outcome.errors().next()) {
        (
            CertificateDecision::Save {
                not_before, not_after, ..
            },
            None,
        ) => {
            let message = enrol::rotated(*not_before, *not_after);
            (true, reason::CLIENT_CERTIFICATE_UPDATED, message)
        }
        (CertificateDecision::Create { .. }, Some((_, error))) => {
            let message = format!("Failed to create CSR {error}");
            (false, reason::CLIENT_CERTIFICATE_UPDATE_FAILED, message)
        }
        (CertificateDecision::Refuse { why }, _) => (false, reason::CLIENT_CERTIFICATE_UPDATE_FAILED, why.clone()),
        _ => return None,
    };
    Some(wanted(managed_cluster::CERTIFICATE_ROTATED, status, reason, message))
}
