//! Looks after one add-on on this cluster: its health by its lease, and the credentials of its agent.
//!
//! Root: the ManagedClusterAddOn, or Secrets of one that is gone. Reads: the leases and Secrets of the add-on where it
//! lives; its certificate requests on the hub. Writes: certificate requests and tokens on the hub; the Secrets; deletes
//! leases that agents have left behind; the add-on's status, once per run: conditions Available (health mode Lease
//! only), ClusterCertificateRotated and TokenRefreshed, the driver, and the subject of a token.
//! Never: creates the namespace, which the add-on's manifests do; touches a credential while the add-on is being
//! deleted, whose agent still has to clean up; says Available while the hub knows nothing of the whole cluster.
//! Upstream: ocm `pkg/registration/spoke/addon`.
//!
//! A run asks what it has to know in rounds (requests on the hub, a key, a token), and writes in the last one.

use std::{sync::Arc, time::Duration};

use credential::csr::new_key_and_request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use ocm_api::{
    addon::{KubeClientDriver, v1alpha1::ManagedClusterAddOn},
    cluster::ManagedCluster,
};
use ocm_reconcile::{
    Cache, Done, ObserveError, Outcome, OwnStep, Plan, Queue, Reconciler, Site, StatusField, StepError, Watches,
    async_trait, rbac::Right,
};
use parking_lot::Mutex;

use super::{
    AddOnAgentOptions, AddOns, Side,
    credential_action::{CredentialAction, CredentialState},
    health::{is_by_lease, is_unknown},
    location::location,
    lookup::{AgentLookup, SeenLease},
    memory::AgentMemory,
    registration::{self, registrations},
    secrets, status,
};

/// The reconciler of one side.
pub(super) struct AddOnAgents {
    pub side: Side,
    pub addons: AddOns,
    pub clusters: Cache<ManagedCluster>,
    pub lookup: AgentLookup,
    pub queue: Queue,
    pub options: AddOnAgentOptions,
    /// The fraction of its life that a certificate has left when it is renewed.
    pub threshold: f64,
    pub memory: Mutex<AgentMemory>,
}

/// What a plan is made from.
pub(super) struct Seen {
    pub now: Timestamp,
    /// How long after its last word an agent counts as available.
    pub lease_grace: Duration,
    pub threshold: f64,
    pub cluster: String,
    pub name: String,
    /// `None` when it is gone.
    pub addon: Option<Arc<ManagedClusterAddOn>>,
    /// Whether it lives where this reconciler works.
    pub is_here: bool,
    /// How its agent proves who it is; `None` when it is gone.
    pub driver: Option<KubeClientDriver>,
    /// How long a token of it lives.
    pub token_seconds: i64,
    pub lease: SeenLease,
    /// The Secrets that were written for it, here.
    pub secrets: Vec<Arc<Secret>>,
    /// Its leases in namespaces where it lives no more. Nobody else would remove them:
    /// the agent that made them is gone.
    pub former: Vec<(String, SeenLease)>,
    /// What its agent is to have; empty while it is being deleted or lives elsewhere.
    pub credentials: Vec<CredentialState>,
}

#[async_trait]
impl Reconciler for AddOnAgents {
    const NAME: &'static str = "addon-agent";
    const WORKERS: usize = 4;
    const STATUS: &'static [StatusField] = status::FIELDS;
    const RIGHTS: &'static [Right] = super::RIGHTS;
    type Seen = Seen;

    /// Add-ons; the cluster, when the hub loses or finds it; the Secrets. Leases,
    /// requests and namespaces are watched while they are needed.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.addons.cache, |old, new| new.or(old).map(|it| it.name_any()));
        let addons = self.addons.clone();
        watches.wakes(&self.clusters, move |old, new| {
            let same = old.map(is_unknown) == new.map(is_unknown);
            if same { Vec::new() } else { addons.names() }
        });
        watches.not_awaited();
        self.lookup.watches(watches, &self.addons);
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let addon = self.addons.get(name);
        let mut seen = Seen {
            now: Timestamp::now(),
            lease_grace: self.options.lease_grace,
            threshold: self.threshold,
            cluster: self.addons.cluster.clone(),
            name: name.to_owned(),
            is_here: addon.as_deref().is_some_and(|it| self.side.is_home_of(it)),
            driver: addon.as_deref().map(|it| registration::driver(self.options.driver, it)),
            token_seconds: addon
                .as_deref()
                .map_or(0, |it| registration::token_seconds(self.options.token_seconds, it)),
            lease: SeenLease::Unread,
            secrets: self.lookup.secrets_of(name),
            former: Vec::new(),
            credentials: Vec::new(),
            addon: addon.clone(),
        };
        let former = self.memory.lock().former_namespaces(&seen);
        seen.former = self.lookup.former_leases(name, former).await;
        let (Some(addon), Some(driver), true) = (addon, seen.driver, seen.is_here) else {
            return Ok(seen);
        };
        if is_by_lease(&addon, self.clusters.named(&seen.cluster).as_deref()) {
            seen.lease = self.lookup.lease(name, &location(&addon).namespace);
        }
        if !seen.is_leaving() && self.lookup.secrets.is_synced() {
            for registration in registrations(&addon, name, &seen.cluster, driver) {
                seen.credentials
                    .push(self.lookup.credential(&addon, registration, &self.memory).await);
            }
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let actions = seen.credentials.iter().map(|it| it.next(seen.threshold, seen.now));
        let actions: Vec<CredentialAction> = actions.collect();
        let asks = actions.iter().any(CredentialAction::is_question);
        for (credential, action) in seen.credentials.iter().zip(&actions) {
            if asks {
                secrets::ask(&mut plan, seen, credential, action);
            } else {
                secrets::keep(&mut plan, seen, credential, action);
            }
        }
        if !asks {
            secrets::clean(&mut plan, seen);
        }
        plan.work_out(actions);
        plan
    }

    async fn perform(&self, seen: &Seen, own: &OwnStep) -> Result<Done, StepError> {
        let mut credentials = seen.credentials.iter();
        let asking = credentials.find(|it| own.verb == secrets::MAKE && own.what == it.key_to_make());
        let asking = asking.ok_or(StepError::NobodyPerforms(own.verb))?;
        // To make a key takes a while, in which nobody else has to wait for the memory.
        let key = new_key_and_request(&asking.registration.subject).map_err(|it| StepError::Own(it.to_string()))?;
        self.memory.lock().keep_key(&seen.name, &asking.registration, key);
        Ok(Done::Performed)
    }

    fn goes_on(_: &Seen, outcome: &Outcome) -> bool {
        actions(outcome).iter().any(CredentialAction::is_question)
    }

    async fn observe_again(&self, _: &str, mut seen: Seen, outcome: &Outcome) -> Result<Seen, ObserveError> {
        for (credential, action) in seen.credentials.iter_mut().zip(actions(outcome)) {
            let addon = seen
                .addon
                .as_deref()
                .ok_or("an add-on that is gone has no credentials")?;
            if let Err(error) = self
                .lookup
                .answer(addon, credential, action, outcome, &self.memory)
                .await
            {
                credential.hindrance = Some(error.to_string());
            }
        }
        Ok(seen)
    }

    fn failure(_: &Seen, outcome: &Outcome) -> Option<String> {
        secrets::failure(outcome)
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        if !Self::goes_on(seen, outcome) {
            self.lookup.watches.keep_leases_of(&self.addons.namespaces());
            let mut memory = self.memory.lock();
            memory.remember(seen, actions(outcome), outcome, &self.lookup, &self.queue);
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        if let Some(addon) = seen.addon.as_deref().filter(|_| seen.is_here) {
            let (new, again) = status::saying(seen, addon, actions(outcome), outcome);
            plan.status(Site::Hub, addon, &new);
            if let Some(again) = again {
                plan.look_again(again);
            }
        }
        plan
    }
}

/// What the plan has decided about each credential.
fn actions(outcome: &Outcome) -> &[CredentialAction] {
    outcome.worked_out::<Vec<CredentialAction>>().map_or(&[], Vec::as_slice)
}

impl Seen {
    /// Whether somebody is removing the add-on.
    pub fn is_leaving(&self) -> bool {
        let addon = self.addon.as_deref();
        addon.is_some_and(|it| it.metadata.deletion_timestamp.is_some())
    }

    /// The namespace in which the add-on lives here.
    pub fn namespace(&self) -> Option<String> {
        let addon = self.addon.as_deref().filter(|_| self.is_here);
        addon.map(|it| location(it).namespace)
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
