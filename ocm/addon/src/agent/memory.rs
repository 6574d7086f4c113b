//! What only this process of the agent knows of add-ons: requests under way and their keys, credentials that were found
//! good, and where to look for what is left behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use credential::{csr::KeyAndRequest, enrol::Pending};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Secret};
use kube::ResourceExt;
use ocm_reconcile::{Done, Outcome, Queue};
use tracing::info;

use super::{
    credential_action::{CredentialAction, CredentialState, GoodCredential, RequestUnderWay},
    location::location,
    lookup::{AgentLookup, SeenLease},
    reconcile::Seen,
    registration::AddOnRegistration,
    secrets::leases_not_ours,
};

/// An add-on, and the Secret of one of its credentials.
type CredentialKey = (String, String);

/// The memory of one side.
#[derive(Default)]
pub(super) struct AgentMemory {
    /// Requests under way.
    pub requests: BTreeMap<CredentialKey, RequestUnderWay>,
    /// Credentials that were found good.
    pub good: BTreeMap<CredentialKey, Arc<GoodCredential>>,
    /// Keys that were made to ask with, until the plan takes them up.
    pub keys: BTreeMap<CredentialKey, KeyAndRequest>,
    /// The namespaces in which an add-on has lived, by its name: where its lease may be.
    namespaces: BTreeMap<String, BTreeSet<String>>,
    /// Secrets, by namespace and name, that were looked up because the watch did not show them, and were not there.
    pub absent: BTreeSet<(String, String)>,
    /// The add-ons that have looked at the certificate requests on the hub and got no further.
    looking: BTreeSet<String>,
}

impl AgentMemory {
    /// Keeps what came of a run.
    pub fn remember(
        &mut self,
        seen: &Seen,
        actions: &[CredentialAction],
        outcome: &Outcome,
        lookup: &AgentLookup,
        queue: &Queue,
    ) {
        self.keep_namespaces(seen, outcome);
        // What is under way for a registration that is gone is nobody's.
        let is_gone = |(addon, secret): &CredentialKey| {
            *addon == seen.name && !seen.credentials.iter().any(|it| it.registration.secret == *secret)
        };
        self.requests.retain(|key, _| !is_gone(key));
        self.good.retain(|key, _| !is_gone(key));
        for (credential, action) in seen.credentials.iter().zip(actions) {
            self.keep_credential(seen, credential, action, outcome, lookup, queue);
        }
        // Who has looked at the requests and got no further, because there are too many or the hub took none, is told
        // of their changes. Were the watch ended here and started again in the next run,
        // its beginning would cause that run.
        let is_done =
            |it: &CredentialAction| matches!(it, CredentialAction::Save { .. } | CredentialAction::Keep { .. });
        let mut looked = seen
            .credentials
            .iter()
            .zip(actions)
            .filter(|(it, _)| it.requests.is_some());
        if looked.any(|(_, action)| !is_done(action)) {
            self.looking.insert(seen.name.clone());
        } else {
            self.looking.remove(&seen.name);
        }
        if self.requests.is_empty() && self.looking.is_empty() {
            lookup.watches.drop_requests();
        }
    }

    /// The namespaces in which an add-on has lived here and does not live now; none while it is being deleted.
    pub fn former_namespaces(&self, seen: &Seen) -> BTreeSet<String> {
        if seen.is_leaving() {
            return BTreeSet::new();
        }
        let mut all = self.namespaces.get(&seen.name).cloned().unwrap_or_default();
        // After a restart it is the Secrets that tell where an add-on has lived.
        all.extend(seen.secrets.iter().filter_map(|it| it.namespace()));
        all.retain(|it| Some(it) != seen.namespace().as_ref());
        all
    }

    /// Keeps a key to ask for a certificate with. It stays here until the plan takes it up: no step shows it.
    pub fn keep_key(&mut self, addon: &str, registration: &AddOnRegistration, key: KeyAndRequest) {
        self.keys.insert((addon.to_owned(), registration.secret.clone()), key);
    }

    // Where it lives, and where its lease still is: the Secrets that told of it may be gone by then.
    fn keep_namespaces(&mut self, seen: &Seen, outcome: &Outcome) {
        if seen.is_leaving() {
            return;
        }
        let not_ours = leases_not_ours(outcome);
        for namespace in &not_ours {
            info!(addon = %seen.name, %namespace, "may not delete the lease that was left there, leaves it");
        }
        let left = seen.former.iter().filter(|(namespace, lease)| {
            !matches!(lease, SeenLease::Missing) && !not_ours.contains(&namespace.as_str())
        });
        let left = left.map(|(namespace, _)| namespace.clone());
        let namespaces: BTreeSet<String> = left.chain(seen.namespace()).collect();
        if namespaces.is_empty() {
            self.namespaces.remove(&seen.name);
        } else {
            self.namespaces.insert(seen.name.clone(), namespaces);
        }
    }

    fn keep_credential(
        &mut self,
        seen: &Seen,
        credential: &CredentialState,
        action: &CredentialAction,
        outcome: &Outcome,
        lookup: &AgentLookup,
        queue: &Queue,
    ) {
        let secret = &credential.registration.secret;
        let key = (seen.name.clone(), secret.clone());
        if let (None, None, Some(addon)) = (&credential.secret, &credential.hindrance, &seen.addon) {
            self.absent.insert((location(addon).namespace, secret.clone()));
        }
        match (action, &credential.secret) {
            (CredentialAction::Keep { .. }, Some(secret)) => {
                let good = GoodCredential {
                    secret: secret.clone(),
                    registration: credential.registration.clone(),
                    account: credential.account.clone(),
                    action: action.clone(),
                };
                self.good.insert(key.clone(), Arc::new(good));
            }
            _ => {
                self.good.remove(&key);
            }
        }
        match (action, outcome.object_of(secret).cloned()) {
            (CredentialAction::Ask { .. }, Some(object)) => {
                let (Some(fresh), Ok(request)) = (&credential.fresh, object.try_parse::<CertificateSigningRequest>())
                else {
                    return;
                };
                let pending = Pending {
                    name: request.name_any(),
                    key_pem: fresh.key_pem.clone(),
                    request: None,
                };
                // Otherwise the next look, before the watch has brought it, would take the request for gone.
                lookup.watches.keep_requests().put(request);
                let request = RequestUnderWay {
                    pending,
                    subject: credential.registration.subject.clone(),
                    signer: credential.registration.signer.clone(),
                };
                self.requests.insert(key, request);
            }
            (CredentialAction::Save { .. } | CredentialAction::Keep { .. }, Some(object)) => {
                if let Ok(secret) = object.try_parse::<Secret>() {
                    lookup.secrets.put(secret);
                }
                self.requests.remove(&key);
            }
            // It was said to be absent and is not, or it went away in between: the next look tells.
            (CredentialAction::Save { .. }, None) => {
                self.absent.clear();
                if matches!(outcome.named(secret), Some(Ok(Done::AlreadyExists))) {
                    queue.add(&*seen.name);
                }
            }
            (CredentialAction::Keep { .. } | CredentialAction::Forget { .. }, _) => {
                self.requests.remove(&key);
            }
            _ => {}
        }
    }
}
