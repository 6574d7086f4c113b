//! Looks after one add-on on this cluster: its health by its lease, and the credentials of its agent.
//!
//! Root: the ManagedClusterAddOn, or Secrets of one that is gone. Reads: the leases and Secrets of the add-on where it lives;
//! its certificate requests on the hub. Writes: certificate requests on the hub; the Secrets; deletes leases that agents have
//! left behind; the add-on's status, once per run: conditions Available (health mode Lease only), ClusterCertificateRotated and
//! TokenRefreshed, the driver, and the subject of a token.
//! Never: creates the namespace, which the add-on's manifests do; touches a credential while the add-on is being deleted, whose
//! agent still has to clean up; says Available while the hub knows nothing of the whole cluster.
//! Upstream: ocm `pkg/registration/spoke/addon`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use credential::{
    csr::new_key_and_request,
    enrol::{self, Pending},
    hub_secret::{self, Data, Proof},
};
use jiff::Timestamp;
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, coordination::v1::Lease, core::v1::Secret};
use kube::{Api, Client, ResourceExt, api::ObjectMeta};
use ocm_api::{
    addon::{HealthCheckMode, KubeClientDriver, v1alpha1::ManagedClusterAddOn},
    cluster::ManagedCluster,
    condition::{self, Condition, ConditionUpdate, Status},
    conditions::{managed_cluster, managed_cluster_add_on},
    identity, labels,
};
use ocm_reconcile::{
    Cache, Done, ObserveError, Outcome, Plan, Queue, Reconciler, Site, StepId, access, async_trait, execute::sentence,
    segment::encoded,
};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    AddOnAgentOptions, AddOns, Side, health,
    home::{Home, home},
    registration::{self, Registration, registrations},
    right::{Asked, CredentialAction, CredentialDecision, CredentialState, not_rotated},
    secrets_of, token,
    watches::Watches,
};

/// Clocks are set and machines sleep, so that no wait for the end of a credential is longer than this.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(300);
/// How soon to look again after a request turned out to be of no use.
const FORGOTTEN_AGAIN: Duration = Duration::from_millis(200);
/// How long an add-on is new: nothing is said of a lease that it cannot have yet.
const NEW: Duration = Duration::from_secs(3);
/// How soon to try again what the hub did not give.
const FAILED_AGAIN: Duration = Duration::from_secs(10);

/// The reconciler of one side.
pub(super) struct AddOnAgents {
    side: Side,
    here: Client,
    hub: Client,
    addons: AddOns,
    clusters: Cache<ManagedCluster>,
    secrets: Cache<Secret>,
    watches: Watches,
    queue: Queue,
    options: AddOnAgentOptions,
    threshold: f64,
    // The kubeconfig for a certificate and the one for a token.
    kubeconfigs: [String; 2],
    memory: Mutex<Memory>,
}

/// What only this process knows.
#[derive(Default)]
struct Memory {
    /// Requests under way, by add-on and Secret.
    asked: BTreeMap<(String, String), Asked>,
    /// Credentials that were found good, by add-on and Secret.
    good: BTreeMap<(String, String), Good>,
    /// The namespaces in which an add-on has lived, by its name: where its lease may be.
    homes: BTreeMap<String, BTreeSet<String>>,
    /// Secrets, by namespace and name, that were looked up because the watch did not show them, and were not there.
    absent: BTreeSet<(String, String)>,
    /// The add-ons that have looked at the certificate requests on the hub and got no further.
    looking: BTreeSet<String>,
}

/// A credential that was found good. Most runs of an add-on are about something else, and parse no certificate.
struct Good {
    secret: Arc<Secret>,
    registration: Registration,
    account: Option<String>,
    next: CredentialAction,
}

impl Good {
    // The decision, if it was made of the same and its time is not over.
    fn still(&self, right: &CredentialState, now: Timestamp) -> Option<CredentialAction> {
        let same = right.secret.as_ref().is_some_and(|it| Arc::ptr_eq(it, &self.secret))
            && right.registration == self.registration
            && right.account == self.account;
        let CredentialAction::Keep { until, .. } = &self.next else {
            return None;
        };
        (same && now < *until).then(|| self.next.clone())
    }
}

/// What is known about the lease.
pub(super) enum SeenLease {
    /// Another one judges, or the leases have not arrived.
    Unread,
    /// There is none.
    Missing,
    /// Here it is.
    Found(Arc<Lease>),
}

/// What a plan is made from.
pub(super) struct Seen {
    now: Timestamp,
    /// How long after its last word an agent counts as available.
    lease_grace: Duration,
    cluster: String,
    name: String,
    /// `None` when it is gone.
    addon: Option<Arc<ManagedClusterAddOn>>,
    /// Whether it lives where this reconciler works.
    is_here: bool,
    /// How its agent proves who it is; `None` when it is gone.
    driver: Option<KubeClientDriver>,
    lease: SeenLease,
    /// The Secrets that were written for it, here.
    secrets: Vec<Arc<Secret>>,
    /// Its leases in places where it lives no more. Nobody else would remove them: the agent that made them is gone.
    left: Vec<Lease>,
    /// What its agent is to have; empty while it is being deleted or lives elsewhere.
    rights: Vec<CredentialDecision>,
}

/// Whether the hub knows nothing of the cluster at present.
pub(super) fn is_unknown(cluster: &ManagedCluster) -> bool {
    let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::status(conditions, managed_cluster::AVAILABLE) == Some(Status::Unknown)
}

fn conditions(addon: &ManagedClusterAddOn) -> &[Condition] {
    addon.status.as_ref().map_or(&[], |it| &it.conditions)
}

impl AddOnAgents {
    pub fn new(
        side: Side,
        here: Client,
        addons: AddOns,
        options: &AddOnAgentOptions,
        threshold: f64,
        queue: &Queue,
        stop: &CancellationToken,
    ) -> Self {
        let secrets = Cache::<Secret>::start_with(Api::all(here.clone()), secrets_of(&addons.cluster), stop.clone());
        secrets.subscribe(queue, |old, new| {
            new.or(old)?.labels().get(labels::ADDON_CREDENTIAL).cloned()
        });
        let (arriving, all, waking, until) = (secrets.clone(), addons.clone(), queue.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = until.cancelled() => {}
                () = arriving.synced() => all.names().into_iter().for_each(|it| waking.add(it)),
            }
        });
        let proofs = [Proof::Certificate, Proof::Token];
        Self {
            side,
            hub: options.hub.clone(),
            clusters: options.clusters.clone(),
            watches: Watches::new(
                options.hub.clone(),
                here.clone(),
                addons.clone(),
                queue.clone(),
                stop.clone(),
            ),
            here,
            addons,
            secrets,
            queue: queue.clone(),
            options: options.clone(),
            threshold,
            kubeconfigs: proofs.map(|it| hub_secret::kubeconfig_for(&options.hub_kubeconfig, it)),
            memory: Mutex::default(),
        }
    }

    // Whether this add-on's health is ours to judge, and what we know.
    fn lease(&self, name: &str, addon: &ManagedClusterAddOn, home: &Home) -> SeenLease {
        let mode = addon.status.as_ref().map(|it| it.health_check.mode).unwrap_or_default();
        let unknown = self
            .clusters
            .named(&self.addons.cluster)
            .is_some_and(|it| is_unknown(&it));
        if mode == HealthCheckMode::Customized || unknown {
            return SeenLease::Unread;
        }
        let leases = self.watches.leases(&home.namespace);
        match leases.get(&home.namespace, name) {
            Some(lease) => SeenLease::Found(lease),
            None if leases.is_synced() => SeenLease::Missing,
            None => SeenLease::Unread,
        }
    }

    async fn right(
        &self,
        name: &str,
        addon: &ManagedClusterAddOn,
        home: &Home,
        registration: Registration,
        now: Timestamp,
    ) -> CredentialDecision {
        let asked = (name.to_owned(), registration.secret.clone());
        let mut right = CredentialState {
            secret: None,
            additional: self.additional(&registration),
            pending: self.memory.lock().asked.get(&asked).cloned(),
            requests: None,
            fresh: None,
            account: account(addon),
            token: None,
            homeless: false,
            hindrance: None,
            registration,
        };
        if let Some(secret) = self.secrets.get(&home.namespace, &right.registration.secret) {
            right.secret = Some(secret);
            let memory = self.memory.lock();
            if let Some(next) = memory.good.get(&asked).and_then(|it| it.still(&right, now)) {
                return CredentialDecision { right, next };
            }
        }
        // That one credential cannot be looked at now must not hide the others, nor the add-on's health.
        if let Err(error) = self.look(&mut right, name, addon, home, now).await {
            right.hindrance = Some(error.to_string());
        }
        let decided = right.decided(self.threshold, now);
        let mut memory = self.memory.lock();
        match (&decided.next, &decided.right.secret) {
            (CredentialAction::Keep { .. }, Some(secret)) => {
                let good = Good {
                    secret: secret.clone(),
                    registration: decided.right.registration.clone(),
                    account: decided.right.account.clone(),
                    next: decided.next.clone(),
                };
                memory.good.insert(asked, good);
            }
            _ => {
                memory.good.remove(&asked);
            }
        }
        decided
    }

    // Looks at what the next step depends on, and only at that: a credential that is as it should be costs no request.
    async fn look(
        &self,
        right: &mut CredentialState,
        name: &str,
        addon: &ManagedClusterAddOn,
        home: &Home,
        now: Timestamp,
    ) -> Result<(), ObserveError> {
        right.secret = self.secret(&home.namespace, &right.registration.secret).await?;
        let mut next = right.next(self.threshold, now);
        if right.pending.is_some() || matches!(next, CredentialAction::Ask { .. }) {
            let requests = self.watches.requests().await?;
            let born = addon.metadata.creation_timestamp.as_ref();
            let ours = |it: &Arc<CertificateSigningRequest>| {
                it.labels().get(labels::ADDON_NAME).is_some_and(|it| it == name) && enrol::is_of_life(it, born)
            };
            right.requests = Some(requests.list().iter().filter(|it| ours(it)).count());
            if let Some(asked) = &mut right.pending {
                asked.pending.request = requests.named(&asked.pending.name).map(|it| (*it).clone());
            }
            next = right.next(self.threshold, now);
        }
        let needs_home = matches!(next, CredentialAction::Save { .. } | CredentialAction::AskToken { .. });
        if needs_home && right.secret.is_none() {
            right.homeless = self.watches.is_missing(&home.namespace).await?;
        }
        match next {
            CredentialAction::Ask { .. } => right.fresh = Some(new_key_and_request(&right.registration.subject)?),
            // A token that could not be kept would be asked for in vain.
            CredentialAction::AskToken { .. } if !right.homeless => {
                let account = registration::service_account(name);
                let seconds = registration::token_seconds(self.options.token_seconds, addon);
                let token = access::token(&self.hub, &self.addons.cluster, &account, seconds).await;
                right.token = Some(token.map_err(|error| sentence(&error.into())));
            }
            _ => {}
        }
        Ok(())
    }

    // The leases of an add-on in namespaces that it has lived in and does not live in now.
    async fn left(&self, seen: &Seen) -> Result<Vec<Lease>, kube::Error> {
        let now = match seen.addon.as_deref() {
            Some(addon) if addon.metadata.deletion_timestamp.is_some() => return Ok(Vec::new()),
            Some(addon) => seen.is_here.then(|| home(addon).namespace),
            None => None,
        };
        let places = {
            let mut memory = self.memory.lock();
            if let Some(now) = &now {
                memory.homes.entry(seen.name.clone()).or_default().insert(now.clone());
            }
            // After a restart it is the Secrets that tell where an add-on has lived. That is remembered too: they may be gone
            // while the lease is still there.
            let told: Vec<String> = seen.secrets.iter().filter_map(|it| it.namespace()).collect();
            if !told.is_empty() {
                memory.homes.entry(seen.name.clone()).or_default().extend(told);
            }
            memory.homes.get(&seen.name).cloned().unwrap_or_default()
        };
        let mut left = Vec::new();
        for place in places.iter().filter(|it| Some(*it) != now.as_ref()) {
            let api: Api<Lease> = Api::namespaced(self.here.clone(), &encoded(place));
            match api.get_opt(&seen.name).await? {
                Some(lease) => left.push(lease),
                None => self.forget(&seen.name, place),
            }
        }
        Ok(left)
    }

    fn forget(&self, name: &str, place: &str) {
        let mut memory = self.memory.lock();
        if let Some(homes) = memory.homes.get_mut(name) {
            homes.remove(place);
            if homes.is_empty() {
                memory.homes.remove(name);
            }
        }
    }

    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Arc<Secret>>, kube::Error> {
        if let Some(secret) = self.secrets.get(namespace, name) {
            return Ok(Some(secret));
        }
        let key = (namespace.to_owned(), name.to_owned());
        if self.memory.lock().absent.contains(&key) {
            return Ok(None);
        }
        // One that upstream's agent has written carries no label and is not watched until we have put ours on it.
        let api: Api<Secret> = Api::namespaced(self.here.clone(), &encoded(namespace));
        let found = api.get_opt(&encoded(name)).await?;
        if found.is_none() {
            self.memory.lock().absent.insert(key);
        }
        Ok(found.map(Arc::new))
    }

    fn additional(&self, registration: &Registration) -> Data {
        let mut data = Data::from([(
            hub_secret::CLUSTER_NAME.to_owned(),
            self.addons.cluster.clone().into_bytes(),
        )]);
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

// The uid of the ServiceAccount that the hub has made for the add-on.
fn account(addon: &ManagedClusterAddOn) -> Option<String> {
    let all = conditions(addon);
    let ready = condition::find(all, managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY)?;
    let is_ready = condition::is_true(all, managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY);
    token::uid_in(&ready.message).filter(|_| is_ready).map(str::to_owned)
}

#[async_trait]
impl Reconciler for AddOnAgents {
    const NAME: &'static str = "addon-agent";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let now = Timestamp::now();
        let addon = self.addons.get(name);
        let all = self.secrets.list();
        let of_it = |it: &&Arc<Secret>| it.labels().get(labels::ADDON_CREDENTIAL).is_some_and(|it| it == name);
        let mut seen = Seen {
            now,
            lease_grace: self.options.lease_grace,
            cluster: self.addons.cluster.clone(),
            name: name.to_owned(),
            is_here: addon.as_deref().is_some_and(|it| self.side.is_home_of(it)),
            driver: addon.as_deref().map(|it| registration::driver(self.options.driver, it)),
            lease: SeenLease::Unread,
            secrets: all.iter().filter(of_it).cloned().collect(),
            left: Vec::new(),
            rights: Vec::new(),
            addon: addon.clone(),
        };
        // What cannot be looked at now is looked at again with the next event; the add-on's health must not wait for it.
        seen.left = self.left(&seen).await.unwrap_or_else(|error| {
            warn!(%error, "could not look for leases left behind");
            Vec::new()
        });
        self.watches.keep_leases_of(&self.addons.namespaces());
        let Some(addon) = addon.filter(|_| seen.is_here) else {
            return Ok(seen);
        };
        let home = home(&addon);
        seen.lease = self.lease(name, &addon, &home);
        if addon.metadata.deletion_timestamp.is_none() && self.secrets.is_synced() {
            let driver = registration::driver(self.options.driver, &addon);
            for registration in registrations(&addon, name, &self.addons.cluster, driver) {
                seen.rights
                    .push(self.right(name, &addon, &home, registration, now).await);
            }
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        steps(seen).0
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let (plan, steps) = steps(seen);
        for place in not_ours_to_clean(&plan, outcome) {
            info!(addon = %seen.name, namespace = %place, "may not delete the lease that was left there, leaves it");
            self.forget(&seen.name, place);
        }
        let mut memory = self.memory.lock();
        // What is under way for a registration that is gone is nobody's.
        let wanted = |secret: &str| seen.rights.iter().any(|it| it.right.registration.secret == secret);
        memory
            .asked
            .retain(|(addon, secret), _| *addon != seen.name || wanted(secret));
        memory
            .good
            .retain(|(addon, secret), _| *addon != seen.name || wanted(secret));
        for (CredentialDecision { right, next }, step) in seen.rights.iter().zip(steps) {
            let key = (seen.name.clone(), right.registration.secret.clone());
            let object = step.and_then(|it| outcome.object(it)).cloned();
            match (next, object) {
                (CredentialAction::Ask { .. }, Some(object)) => {
                    let (Some(fresh), Ok(request)) = (&right.fresh, object.try_parse::<CertificateSigningRequest>())
                    else {
                        continue;
                    };
                    let pending = Pending {
                        name: request.name_any(),
                        key_pem: fresh.key_pem.clone(),
                        request: None,
                    };
                    // Otherwise the next look, before the watch has brought it, would take the request for gone.
                    self.watches.keep_requests().put(request);
                    let asked = Asked {
                        pending,
                        subject: right.registration.subject.clone(),
                        signer: right.registration.signer.clone(),
                    };
                    memory.asked.insert(key, asked);
                }
                (CredentialAction::Save { .. } | CredentialAction::Keep { .. }, Some(object)) => {
                    if let Ok(secret) = object.try_parse::<Secret>() {
                        self.secrets.put(secret);
                    }
                    memory.asked.remove(&key);
                }
                // It was said to be absent and is not, or it went away in between: the next look tells.
                (CredentialAction::Save { .. }, None) => {
                    memory.absent.clear();
                    if matches!(step.and_then(|it| outcome.get(it)), Some(Ok(Done::AlreadyExists))) {
                        self.queue.add(&*seen.name);
                    }
                }
                (CredentialAction::Keep { .. } | CredentialAction::Forget { .. }, _) => {
                    memory.asked.remove(&key);
                }
                _ => {}
            }
        }
        // Who has looked at the requests and got no further, because there are too many or the hub took none, is told of
        // their changes. Were the watch ended here and started again in the next run, its beginning would cause that run.
        let looked_in_vain = seen.rights.iter().any(|it| {
            it.right.requests.is_some()
                && !matches!(it.next, CredentialAction::Save { .. } | CredentialAction::Keep { .. })
        });
        if looked_in_vain {
            memory.looking.insert(seen.name.clone());
        } else {
            memory.looking.remove(&seen.name);
        }
        if memory.asked.is_empty() && memory.looking.is_empty() {
            self.watches.drop_requests();
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(addon) = seen.addon.as_deref().filter(|_| seen.is_here) else {
            return plan;
        };
        let mut new = addon.clone();
        let status = new.status.get_or_insert_default();
        let lease = match &seen.lease {
            SeenLease::Unread => None,
            SeenLease::Missing if is_new(addon, seen.now) => {
                plan.look_again(NEW);
                None
            }
            SeenLease::Missing => Some(health::verdict(
                &seen.name,
                &home(addon),
                None,
                seen.lease_grace,
                seen.now,
            )),
            SeenLease::Found(lease) => Some(health::verdict(
                &seen.name,
                &home(addon),
                Some(lease),
                seen.lease_grace,
                seen.now,
            )),
        };
        if let Some((said, again)) = lease {
            condition::set(&mut status.conditions, said, seen.now);
            again.into_iter().for_each(|it| {
                plan.look_again(it);
            });
        }
        for said in words(seen, outcome) {
            condition::set(&mut status.conditions, said, seen.now);
        }
        if addon.metadata.deletion_timestamp.is_none() {
            let first = status
                .registrations
                .iter_mut()
                .find(|it| it.signer_name == identity::CLIENT_SIGNER);
            if let Some(registration) = first {
                // The hub acts on a token and on a change. That it is certificates from the start, as it took for granted, can
                // go with the next word; but an add-on's manager that has not said who the agent is may wait to hear it.
                let subject = &registration.subject;
                let can_wait = seen.driver != Some(KubeClientDriver::Token)
                    && status.kube_client_driver.is_none()
                    && !(subject.user.is_empty() && subject.groups.is_empty());
                let is_alone = status.conditions == conditions(addon);
                let is_near = seen
                    .rights
                    .iter()
                    .any(|it| !matches!(it.next, CredentialAction::Keep { .. }));
                if !(can_wait && is_alone && is_near) {
                    status.kube_client_driver = seen.driver;
                }
                if seen.driver == Some(KubeClientDriver::Token) {
                    registration.subject.user = registration::token_user(&seen.cluster, &seen.name);
                    registration.subject.groups.clear();
                }
            }
        }
        // Comparing is cheap; writing both out to find that there is nothing to write is not.
        if new.status != addon.status {
            plan.status(Site::Hub, addon, &new);
        }
        plan
    }
}

/// Whether an add-on was made a moment ago, so that no agent of it can have a lease yet and nobody has said anything of its
/// health. Clocks differ: one that seems to be made in the future is not new for ever.
fn is_new(addon: &ManagedClusterAddOn, now: Timestamp) -> bool {
    let made = addon.metadata.creation_timestamp.as_ref();
    let age = made.map(|it| now.duration_since(it.0).unsigned_abs());
    age.is_some_and(|it| it < NEW) && condition::find(conditions(addon), managed_cluster_add_on::AVAILABLE).is_none()
}

// The plan, and for each right the step that is taken for it.
fn steps(seen: &Seen) -> (Plan, Vec<Option<StepId>>) {
    let mut plan = Plan::new();
    let mut steps = Vec::new();
    for CredentialDecision { right, next } in &seen.rights {
        steps.push(match next {
            CredentialAction::Keep { until, .. } => {
                let left = until.duration_since(seen.now);
                // A moment already past means that another clock has ticked since: at once, but not in a circle.
                let left = if left.is_positive() {
                    left.unsigned_abs()
                } else {
                    FORGOTTEN_AGAIN
                };
                plan.look_again(left.min(LOOK_AT_CLOCK));
                // What the watch shows has our labels; only a Secret that upstream's agent has written lacks them.
                let present = right.secret.as_deref().and_then(|it| it.metadata.labels.as_ref());
                if present.is_some_and(|it| it.contains_key(labels::ADDON_CREDENTIAL)) {
                    None
                } else {
                    plan.keep(Site::Cluster, right.secret.as_deref(), &labelled(seen, right))
                }
            }
            CredentialAction::Ask { why } => {
                plan.remark(why);
                right.fresh.as_ref().map(|fresh| {
                    let signer = &right.registration.signer;
                    let request = enrol::addon_request(&seen.cluster, &seen.name, signer, &fresh.request_pem);
                    plan.create(Site::Hub, &request)
                })
            }
            CredentialAction::AskToken { why } | CredentialAction::Wait { why } => {
                plan.wait(why);
                None
            }
            CredentialAction::Hindered { why } => {
                plan.wait(why).look_again(FAILED_AGAIN);
                None
            }
            CredentialAction::WaitForNamespace => {
                let secret = &right.registration.secret;
                plan.wait(format!("the namespace for Secret {secret} does not exist yet"));
                None
            }
            CredentialAction::Save { data, .. } => save(&mut plan, seen, right, data),
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
        });
    }
    clean(&mut plan, seen);
    (plan, steps)
}

fn save(plan: &mut Plan, seen: &Seen, right: &CredentialState, data: &Data) -> Option<StepId> {
    let wanted = labelled(seen, right);
    let Some(current) = right.secret.as_deref() else {
        let wanted = Secret {
            data: Some(hub_secret::encoded(data.clone())),
            ..wanted
        };
        return Some(plan.create(Site::Cluster, &wanted));
    };
    let mut new = current.clone();
    new.data = Some(hub_secret::encoded(right.replaced(data)));
    let labels = new.metadata.labels.get_or_insert_default();
    labels.extend(wanted.metadata.labels.unwrap_or_default());
    plan.change(Site::Cluster, current, &new)
}

// The Secret by its name and the labels by which it is found again.
fn labelled(seen: &Seen, right: &CredentialState) -> Secret {
    let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    Secret {
        metadata: ObjectMeta {
            name: Some(right.registration.secret.clone()),
            namespace: seen.addon.as_deref().map(|it| home(it).namespace),
            labels: Some(BTreeMap::from([
                label(labels::ADDON_CREDENTIAL, &seen.name),
                label(labels::CLUSTER_NAME, &seen.cluster),
            ])),
            ..ObjectMeta::default()
        },
        ..Secret::default()
    }
}

// Deletes the Secrets of an add-on that is gone, of registrations it no longer has, and of places it no longer lives in.
fn clean(plan: &mut Plan, seen: &Seen) {
    let namespace = match seen.addon.as_deref() {
        None => None,
        // Its agent still needs them to clean up.
        Some(addon) if addon.metadata.deletion_timestamp.is_some() => return,
        Some(addon) => seen.is_here.then(|| home(addon).namespace),
    };
    for lease in &seen.left {
        plan.delete(Site::Cluster, lease);
    }
    for secret in &seen.secrets {
        let wanted = secret.metadata.namespace == namespace
            && seen
                .rights
                .iter()
                .any(|it| it.right.registration.secret == secret.name_any());
        if !wanted {
            plan.delete(Site::Cluster, &**secret);
        }
    }
}

// Where a lease was left that we may not delete: upstream's role has no such right, because it only looks at leases.
fn not_ours_to_clean<'p>(plan: &'p Plan, outcome: &Outcome) -> Vec<&'p str> {
    let forbidden = outcome.errors().filter(|(_, error)| error.is_forbidden());
    let targets = forbidden.filter_map(|(id, _)| plan.stages.get(id.stage)?.get(id.step)?.target());
    targets
        .filter(|it| it.api_resource.kind == "Lease")
        .filter_map(|it| it.namespace.as_deref())
        .collect()
}

// What to say about the credentials: of each condition one word, and of several the first that tells of a failure.
fn words(seen: &Seen, outcome: &Outcome) -> Vec<ConditionUpdate> {
    let (_, steps) = steps(seen);
    let mut all: Vec<ConditionUpdate> = Vec::new();
    for (CredentialDecision { next, .. }, step) in seen.rights.iter().zip(steps) {
        let result = step.and_then(|it| outcome.get(it));
        let said = match (next, result) {
            (CredentialAction::Keep { said, .. } | CredentialAction::Fail { said, .. }, _)
            | (CredentialAction::Save { said, .. }, Some(Ok(Done::Object(_)))) => said.clone(),
            (CredentialAction::Ask { .. }, Some(Err(error))) => {
                not_rotated(format!("Failed to create CSR {}", sentence(error)))
            }
            _ => continue,
        };
        match all.iter_mut().find(|it| it.r#type == said.r#type) {
            Some(before) if before.status == Status::True && said.status != Status::True => *before = said,
            Some(_) => {}
            None => all.push(said),
        }
    }
    all
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
