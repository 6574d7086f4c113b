//! Work's rules for those who write ManifestWorks and ManifestWorkReplicaSets.

use kube_api::admission::{Admission, AdmissionOperation as Verb, Review};
use kube_store::status::Status;
use ocm_reconcile::access;
use serde_json::Value;
use work::hub::admission::{self, AdmissionOptions, WorkOperation};

use super::{asked_of, refusal};

const WORKS: &str = "manifestworks.work.open-cluster-management.io";
const REPLICA_SETS: &str = "manifestworkreplicasets.work.open-cluster-management.io";

/// The name that upstream's webhook has.
const WEBHOOK: &str = "manifestworkvalidators.admission.work.open-cluster-management.io";
/// Upstream's program serves this one, and no configuration of upstream's names it; the name follows the other's.
const REPLICA_SET_WEBHOOK: &str = "manifestworkreplicasetvalidators.admission.work.open-cluster-management.io";

/// The rules.
pub struct WorkAdmission {
    rules: AdmissionOptions,
}

impl WorkAdmission {
    /// The same inside the server.
    pub fn new(rules: AdmissionOptions) -> Self {
        Self { rules }
    }
}

impl Admission for WorkAdmission {
    fn wants(&self, resource: &str) -> bool {
        resource == WORKS || resource == REPLICA_SETS
    }

    fn admit(&self, _: &Review<'_>, _: &mut Value) -> Result<Vec<String>, Status> {
        Ok(vec![])
    }

    fn validate(&self, review: &Review<'_>, object: &Value) -> Result<Vec<String>, Status> {
        let operation = match review.operation {
            _ if !review.subresource.is_empty() => return Ok(vec![]),
            Verb::Create => WorkOperation::Create,
            Verb::Update => WorkOperation::Update,
            Verb::Delete | Verb::Connect => return Ok(vec![]),
        };
        let may = |asked: &access::Attributes| (review.may)(&asked_of(asked));
        let (rules, user) = (&self.rules, &review.user.username);
        let (webhook, said) = if review.resource == REPLICA_SETS {
            let said = admission::review_replica_set(rules, user, operation, object, review.old, may);
            (REPLICA_SET_WEBHOOK, said)
        } else {
            let agents = admission::check_finalizers(user, &review.user.groups, object, review.old);
            (
                WEBHOOK,
                agents.and_then(|()| admission::review(rules, user, operation, object, review.old, may)),
            )
        };
        said.map(|()| vec![])
            .map_err(|denial| refusal(webhook, denial.code, &denial.message))
    }
}
