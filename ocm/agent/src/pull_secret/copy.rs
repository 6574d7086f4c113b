//! A copy of the Secret, in the namespace of an add-on. Upstream: ocm
//! `pkg/operator/operators/klusterlet/controllers/addonsecretcontroller`. There the operator does it, from its own
//! namespace; the ConfigMap with a TLS profile that it copies as well is for programs that read one, and ours do not.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::{ResourceExt, api::ObjectMeta};
use ocm_api::namespaces::PULL_SECRET;
use ocm_reconcile::{
    Plan, Site,
    install::{DROVER, MANAGED_BY},
};

/// Keeps it as it is to be, the data whole: a key that the source has no longer goes from the copy, too.
pub fn keep(plan: &mut Plan, present: Option<&Secret>, copy: &Secret) {
    match present {
        None => {
            plan.create(Site::Cluster, copy);
        }
        Some(present) => {
            let mut next = present.clone();
            next.data = copy.data.clone();
            plan.change(Site::Cluster, present, &next);
        }
    }
}

/// Whether it is one, and not what somebody else has made.
pub fn is_ours(secret: &Secret) -> bool {
    secret.labels().get(MANAGED_BY).is_some_and(|it| it == DROVER)
}

/// As it is to be.
pub fn copy_of(source: &Secret, namespace: &str) -> Secret {
    Secret {
        metadata: ObjectMeta {
            name: Some(PULL_SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), DROVER.to_owned())])),
            ..ObjectMeta::default()
        },
        data: source.data.clone(),
        type_: source.type_.clone(),
        ..Secret::default()
    }
}
