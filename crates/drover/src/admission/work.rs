//! Work's rules for those who write ManifestWorks.

use kube_api::admission::{Admission, Operation as Verb, Review};
use kube_store::status::Status;
use serde_json::Value;
use work::hub::admission::{self, Operation, Rules};

use super::{asked_of, refusal};

const WORKS: &str = "manifestworks.work.open-cluster-management.io";

/// The name that upstream's webhook has.
const WEBHOOK: &str = "manifestworkvalidators.admission.work.open-cluster-management.io";

/// The rules.
pub struct Work;

impl Admission for Work {
    fn wants(&self, resource: &str) -> bool {
        resource == WORKS
    }

    fn admit(&self, review: &Review<'_>, object: &mut Value) -> Result<Vec<String>, Status> {
        let operation = match review.operation {
            _ if !review.subresource.is_empty() => return Ok(vec![]),
            Verb::Create => Operation::Create,
            Verb::Update => Operation::Update,
            Verb::Delete => return Ok(vec![]),
        };
        let may = |asked: &ocm_reconcile::access::Attributes| (review.may)(&asked_of(asked));
        admission::review(
            &Rules::default(),
            &review.user.username,
            operation,
            object,
            review.old,
            may,
        )
        .map(|()| vec![])
        .map_err(|denial| refusal(WEBHOOK, denial.code, &denial.message))
    }
}
