//! What the reconciler of add-ons' agents looks at: caches, and the API where a cache will not do.

use std::{collections::BTreeSet, sync::Arc};

use credential::{
    enrol,
    hub_secret::{self, Data, Proof},
};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, coordination::v1::Lease, core::v1::Secret};
use kube::{Api, Client, ResourceExt};
use ocm_api::{
    Condition,
    addon::{KubeClientDriver, v1alpha1::ManagedClusterAddOn},
    condition,
    conditions::managed_cluster_add_on,
    labels,
};
use ocm_reconcile::{Cache, Caches, ObserveError, Outcome, Queue, Watches, execute::sentence, segment::encoded};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    AddOnAgentOptions, AddOns,
    credential_action::{CredentialAction, CredentialState},
    location::location,
    memory::AgentMemory,
    registration::AddOnRegistration,
    temporary_watches::TemporaryWatches,
    token,
};

/// What is known about a lease.
pub(super) enum SeenLease {
    /// Nobody has looked, or it could not be looked at.
    Unread,
    /// There is none.
    Missing,
    /// Here it is.
    Found(Arc<Lease>),
}

/// Where one side looks.
pub(super) struct AgentLookup {
    here: Client,
    cluster: String,
    stop: CancellationToken,
    pub secrets: Cache<Secret>,
    pub watches: TemporaryWatches,
    // The kubeconfig for a certificate and the one for a token.
    kubeconfigs: [String; 2],
}

impl AgentLookup {
    /// `here` is the cluster of the caches, `queue` is told what temporary watches see.
    pub fn new(caches: &Caches, here: Client, addons: &AddOns, options: &AddOnAgentOptions, queue: &Queue) -> Self {
        let cluster = addons.cluster.clone();
        let ours = format!("{},{}={cluster}", labels::ADDON_CREDENTIAL, labels::CLUSTER_NAME);
        let (hub, stop) = (options.hub.clone(), caches.cancel_token().clone());
        let proofs = [Proof::Certificate, Proof::Token];
        Self {
            watches: TemporaryWatches::new(hub, here.clone(), addons.clone(), queue.clone(), stop),
            here,
            cluster,
            secrets: caches.labelled(&ours),
            stop: caches.cancel_token().clone(),
            kubeconfigs: proofs.map(|it| hub_secret::kubeconfig_for(&options.hub_kubeconfig, it)),
        }
    }

    /// The Secrets wake the add-on that they were written for, and their first list all:
    /// those that have none are woken by no Secret.
    pub fn watches(&self, watches: &mut Watches, addons: &AddOns) {
        watches.wakes(&self.secrets, |old, new| {
            new.or(old)?.labels().get(labels::ADDON_CREDENTIAL).cloned()
        });
        watches.not_awaited();
        let (secrets, addons, stop) = (self.secrets.clone(), addons.clone(), self.stop.clone());
        watches.signal("the first list of Secrets", move |queue| {
            let queue = queue.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = secrets.synced() => addons.names().into_iter().for_each(|it| queue.add(it)),
                }
            });
        });
    }

    /// The Secrets that were written for an add-on, in whatever namespace.
    pub fn secrets_of(&self, addon: &str) -> Vec<Arc<Secret>> {
        let mut all = self.secrets.list();
        all.retain(|it| it.labels().get(labels::ADDON_CREDENTIAL).is_some_and(|it| it == addon));
        all
    }

    /// The lease of an add-on's agent.
    pub fn lease(&self, addon: &str, namespace: &str) -> SeenLease {
        let leases = self.watches.leases(namespace);
        match leases.get(namespace, addon) {
            Some(lease) => SeenLease::Found(lease),
            None if leases.is_synced() => SeenLease::Missing,
            None => SeenLease::Unread,
        }
    }

    /// The leases of this name in these namespaces.
    pub async fn former_leases(&self, name: &str, namespaces: BTreeSet<String>) -> Vec<(String, SeenLease)> {
        let mut all = Vec::new();
        for namespace in namespaces {
            let api: Api<Lease> = Api::namespaced(self.here.clone(), &encoded(&namespace));
            let lease = match api.get_opt(name).await {
                Ok(found) => found.map_or(SeenLease::Missing, |it| SeenLease::Found(Arc::new(it))),
                // It is looked at again with the next event; the add-on's health must not wait for it.
                Err(error) => {
                    warn!(%error, %namespace, "could not look for a lease left behind");
                    SeenLease::Unread
                }
            };
            all.push((namespace, lease));
        }
        all
    }

    /// What is known of a credential without a question.
    pub async fn credential(
        &self,
        addon: &ManagedClusterAddOn,
        registration: AddOnRegistration,
        memory: &Mutex<AgentMemory>,
    ) -> CredentialState {
        let namespace = location(addon).namespace;
        let key = (addon.name_any(), registration.secret.clone());
        let secret = match self.secrets.get(&namespace, &registration.secret) {
            Some(secret) => Ok(Some(secret)),
            None if memory
                .lock()
                .absent
                .contains(&(namespace.clone(), registration.secret.clone())) =>
            {
                Ok(None)
            }
            // One that upstream's agent has written carries no label and is not watched until we have put ours on it.
            None => {
                let api: Api<Secret> = Api::namespaced(self.here.clone(), &encoded(&namespace));
                let found = api.get_opt(&encoded(&registration.secret)).await;
                found.map(|it| it.map(Arc::new))
            }
        };
        let memory = memory.lock();
        CredentialState {
            // That one credential cannot be looked at now must not hide the others, nor the add-on's health.
            hindrance: secret.as_ref().err().map(ToString::to_string),
            secret: secret.unwrap_or_default(),
            additional: self.additional(&registration),
            pending: memory.requests.get(&key).cloned(),
            requests: None,
            fresh: None,
            account: account(addon),
            token: None,
            namespace_is_missing: None,
            known_good: memory.good.get(&key).cloned(),
            registration,
        }
    }

    /// Answers what had to be known before the next action.
    pub async fn answer(
        &self,
        addon: &ManagedClusterAddOn,
        credential: &mut CredentialState,
        action: &CredentialAction,
        outcome: &Outcome,
        memory: &Mutex<AgentMemory>,
    ) -> Result<(), ObserveError> {
        let (name, secret) = (addon.name_any(), credential.registration.secret.clone());
        match action {
            CredentialAction::LookAtRequests => {
                let requests = self.watches.requests().await?;
                let born = addon.metadata.creation_timestamp.as_ref();
                let ours = |it: &Arc<CertificateSigningRequest>| {
                    it.labels().get(labels::ADDON_NAME) == Some(&name) && enrol::is_of_life(it, born)
                };
                credential.requests = Some(requests.list().iter().filter(|it| ours(it)).count());
                if let Some(asked) = &mut credential.pending {
                    asked.pending.request = requests.named(&asked.pending.name).map(|it| (*it).clone());
                }
            }
            CredentialAction::LookForNamespace => {
                credential.namespace_is_missing = Some(self.watches.is_missing(&location(addon).namespace).await?);
            }
            CredentialAction::MakeKey => {
                credential.fresh = memory.lock().keys.remove(&(name, secret.clone()));
                if let Some(Err(error)) = outcome.named(&secret) {
                    return Err(sentence(error).into());
                }
            }
            CredentialAction::AskToken { .. } => {
                let token = outcome
                    .object_of(&secret)
                    .and_then(|it| it.data.pointer("/status/token"));
                let failure = outcome.named(&secret).and_then(|it| it.as_ref().err());
                credential.token = Some(match failure {
                    Some(error) => Err(sentence(error)),
                    None => Ok(token.and_then(|it| it.as_str()).unwrap_or_default().to_owned()),
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn additional(&self, registration: &AddOnRegistration) -> Data {
        let mut data = Data::from([(hub_secret::CLUSTER_NAME.to_owned(), self.cluster.clone().into_bytes())]);
        if registration.is_kube_client() {
            let [certificate, token] = &self.kubeconfigs;
            let kubeconfig = match registration.driver {
                KubeClientDriver::Csr => certificate,
                KubeClientDriver::Token => token,
            };
            data.insert(hub_secret::KUBECONFIG.to_owned(), kubeconfig.clone().into_bytes());
        }
        data
    }
}

/// The uid of the ServiceAccount that the hub has made for the add-on.
pub(super) fn account(addon: &ManagedClusterAddOn) -> Option<String> {
    let all: &[Condition] = addon.status.as_ref().map_or(&[], |it| &it.conditions);
    let ready = condition::find(all, managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY)?;
    let is_ready = condition::is_true(all, managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY);
    token::uid_in(&ready.message).filter(|_| is_ready).map(str::to_owned)
}
