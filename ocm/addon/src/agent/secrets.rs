//! The steps for the credentials of an add-on: what is asked, what is written into its Secrets,
//! and what is deleted of it where it lives no more.

use std::{collections::BTreeMap, time::Duration};

use credential::{
    enrol,
    hub_secret::{self, Data},
};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Secret, ServiceAccount},
};
use kube::{ResourceExt, api::ObjectMeta};
use ocm_api::labels;
use ocm_reconcile::{Outcome, Plan, Site, Step, StepId, Target, execute::sentence};

use super::{
    credential_action::{CredentialAction, CredentialState},
    lookup::SeenLease,
    reconcile::Seen,
    registration,
};

/// Clocks are set and machines sleep, so that no wait for the end of a credential is longer than this.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(300);
/// How soon to look again after a request turned out to be of no use.
const FORGOTTEN_AGAIN: Duration = Duration::from_millis(200);
/// How soon to try again what the hub did not give.
const FAILED_AGAIN: Duration = Duration::from_secs(10);

/// The verb of the step that makes a key to ask with.
pub(super) const MAKE: &str = "make";

/// Plans what finds out what has to be known to decide.
pub(super) fn ask(plan: &mut Plan, seen: &Seen, credential: &CredentialState, action: &CredentialAction) {
    let step = match action {
        CredentialAction::MakeKey => plan.perform(MAKE, credential.key_to_make()),
        CredentialAction::AskToken { why } => plan.remark(why).push(request_token(seen)),
        _ => return,
    };
    plan.name(&credential.registration.secret, step);
}

fn request_token(seen: &Seen) -> Step {
    let request = TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(seen.token_seconds),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    };
    let account = registration::service_account(&seen.name);
    Step::CreateSubresource {
        target: Target::namespaced::<ServiceAccount>(Site::Hub, &seen.cluster, &account),
        subresource: "token",
        object: serde_json::to_value(request).expect("a TokenRequest serializes: its keys are strings"),
    }
}

/// Plans what is done about a credential.
pub(super) fn keep(plan: &mut Plan, seen: &Seen, credential: &CredentialState, action: &CredentialAction) {
    let secret = &credential.registration.secret;
    let step = match action {
        CredentialAction::Keep { until, .. } => {
            let left = until.duration_since(seen.now);
            // A moment already past means that another clock has ticked since: at once, but not in a circle.
            let left = if left.is_positive() {
                left.unsigned_abs()
            } else {
                FORGOTTEN_AGAIN
            };
            plan.look_again(left.min(LOOK_AT_CLOCK));
            label(plan, seen, credential)
        }
        CredentialAction::Ask { why } => {
            plan.remark(why);
            credential.fresh.as_ref().map(|fresh| {
                let signer = &credential.registration.signer;
                let request = enrol::addon_request(&seen.cluster, &seen.name, signer, &fresh.request_pem);
                plan.create(Site::Hub, &request)
            })
        }
        CredentialAction::Save { data, .. } => save(plan, seen, credential, data),
        CredentialAction::Wait { why } => {
            plan.wait(why);
            None
        }
        CredentialAction::Hindered { why } => {
            plan.wait(why).look_again(FAILED_AGAIN);
            None
        }
        CredentialAction::WaitForNamespace => {
            plan.wait(format!("the namespace for Secret {secret} does not exist yet"));
            None
        }
        CredentialAction::Forget { why } => {
            plan.remark(why).look_again(FORGOTTEN_AGAIN);
            None
        }
        CredentialAction::Fail { said, again } => {
            plan.refuse(&said.message);
            if *again {
                plan.look_again(FAILED_AGAIN);
            }
            None
        }
        _ => None,
    };
    if let Some(step) = step {
        plan.name(secret, step);
    }
}

// What the watch shows has our labels; only a Secret that upstream's agent has written lacks them.
fn label(plan: &mut Plan, seen: &Seen, credential: &CredentialState) -> Option<StepId> {
    let present = credential.secret.as_deref();
    let labels = present.and_then(|it| it.metadata.labels.as_ref());
    if labels.is_some_and(|it| it.contains_key(labels::ADDON_CREDENTIAL)) {
        return None;
    }
    plan.keep(Site::Cluster, present, &labelled(seen, credential))
}

fn save(plan: &mut Plan, seen: &Seen, credential: &CredentialState, data: &Data) -> Option<StepId> {
    let wanted = labelled(seen, credential);
    let Some(current) = credential.secret.as_deref() else {
        let wanted = Secret {
            data: Some(hub_secret::encoded(data.clone())),
            ..wanted
        };
        return Some(plan.create(Site::Cluster, &wanted));
    };
    let mut new = current.clone();
    new.data = Some(hub_secret::encoded(credential.replaced(data)));
    let labels = new.metadata.labels.get_or_insert_default();
    labels.extend(wanted.metadata.labels.unwrap_or_default());
    plan.change(Site::Cluster, current, &new)
}

// The Secret by its name and the labels by which it is found again.
fn labelled(seen: &Seen, credential: &CredentialState) -> Secret {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Secret {
        metadata: ObjectMeta {
            name: Some(credential.registration.secret.clone()),
            namespace: seen.namespace(),
            labels: Some(BTreeMap::from([
                label(labels::ADDON_CREDENTIAL, &seen.name),
                label(labels::CLUSTER_NAME, &seen.cluster),
            ])),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    }
}

/// Plans to delete the Secrets of an add-on that is gone, of registrations it no longer has, and of namespaces it no
/// longer lives in, and the leases there.
pub(super) fn clean(plan: &mut Plan, seen: &Seen) {
    // The agent of one that is being deleted still needs them to clean up.
    if seen.is_leaving() {
        return;
    }
    for (_, lease) in &seen.former {
        if let SeenLease::Found(lease) = lease {
            plan.delete(Site::Cluster, &**lease);
        }
    }
    let namespace = seen.namespace();
    for secret in &seen.secrets {
        let mut credentials = seen.credentials.iter();
        let is_wanted =
            secret.metadata.namespace == namespace && credentials.any(|it| it.registration.secret == secret.name_any());
        if !is_wanted {
            plan.delete(Site::Cluster, &**secret);
        }
    }
}

/// The namespaces of leases that were left behind and that we may not delete: upstream's role has no such right,
/// because it only looks at leases.
pub(super) fn leases_not_ours(outcome: &Outcome) -> Vec<&str> {
    let forbidden = outcome
        .results()
        .filter(|(_, it)| it.as_ref().is_err_and(|error| error.is_forbidden()));
    let targets = forbidden.filter_map(|(step, _)| step.target());
    targets
        .filter(|it| it.api_resource.kind == "Lease")
        .filter_map(|it| it.namespace.as_deref())
        .collect()
}

/// What of a round makes the run count as failed: its writes. That a question has no answer is told in the conditions,
/// and asked again after a while.
pub(super) fn failure(outcome: &Outcome) -> Option<String> {
    let is_question = |it: &Step| matches!(it, Step::CreateSubresource { .. } | Step::Own(_));
    let writes = outcome.results().filter(|(step, _)| !is_question(step));
    let errors: Vec<String> = writes.filter_map(|(_, it)| it.as_ref().err().map(sentence)).collect();
    (!errors.is_empty()).then(|| errors.join("; "))
}
