//! The steps that write an enrolment down: the key, the request, the certificate.

use credential::{csr::KeyAndRequest, enrol, hub_secret};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use ocm_reconcile::{Plan, Site};

use super::{REQUEST, Seen};

/// Asks for a certificate. First the key goes into the Secret, with the name that it was made for: whatever becomes of
/// us then, the request is not lost.
pub(super) fn ask(plan: &mut Plan, seen: &Seen, made: &KeyAndRequest) {
    let mut kept: hub_secret::Data = seen.rules.additional.clone();
    kept.remove(hub_secret::KUBECONFIG);
    kept.insert(hub_secret::PENDING_KEY.to_owned(), made.key_pem.clone().into_bytes());
    plan.keep(Site::Cluster, seen.secret.as_deref(), &secret_with(seen, kept));
    plan.stage();
    let request = enrol::request(&seen.cluster_name, &made.request_pem, seen.expiration_seconds);
    let step = plan.create(Site::Hub, &request);
    plan.name(REQUEST, step);
}

/// Keeps a certificate.
pub(super) fn save(plan: &mut Plan, seen: &Seen, data: &hub_secret::Data) {
    match seen.secret.as_deref() {
        None => plan.keep(Site::Cluster, None, &secret_with(seen, data.clone())),
        Some(secret) => {
            let mut new = secret.clone();
            new.data = Some(hub_secret::encoded(data.clone()));
            plan.change(Site::Cluster, secret, &new)
        }
    };
}

fn secret_with(seen: &Seen, data: hub_secret::Data) -> Secret {
    let (namespace, name) = seen.secret_name.clone();
    Secret {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace),
            ..ObjectMeta::default()
        },
        data: Some(hub_secret::encoded(data)),
        ..Secret::default()
    }
}
