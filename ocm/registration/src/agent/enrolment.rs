//! Obtaining a client certificate and keeping it in the Secret.
//!
//! Root: the Secret. Reads: the cluster's certificate signing requests on the hub, and when there are too many its age. Writes: requests; the Secret. What there is
//! to say about it, condition `ClusterCertificateRotated`, goes into the one status patch of `state.rs`.
//! Never: a second request while one is under way, also after a restart: the key of a request stands in the Secret before the hub is
//! asked, and the request is known by it.
//! The rules are [`credential::enrol`]; upstream: ocm `pkg/registration/register/secret_controller.go`.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use credential::{
    Loaded,
    csr::{self, KeyAndRequest, Subject},
    enrol::{self, Decision, Pending},
    hub_secret,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{certificates::v1::CertificateSigningRequest, core::v1::Secret},
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{Api, Client, api::ObjectMeta, runtime::watcher};
use ocm_api::{
    cluster::ManagedCluster,
    condition::{ConditionUpdate, wanted},
    conditions::managed_cluster::{self, reason},
    labels,
};
use ocm_reconcile::{
    Cache, Clients, Done, ObserveError, Outcome, Plan, Queue, Reconciler, Site, async_trait, cache::Watching,
};
use tokio_util::sync::CancellationToken;

use super::drive::Agent;

const KEY: &str = "credential";
/// Whoever calls [`obtain`] has decided that a certificate is needed. With the upper end of the range the rules cannot come to
/// another mind on the way and leave the caller waiting.
const DECIDED: f64 = enrol::THRESHOLD.end;
/// How soon to look again after a request turned out to be of no use.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(200);

/// What there is to tell the user.
pub(super) enum Word {
    /// What the request waits for.
    Request(String),
    /// What stands in the way of joining.
    Hindrance(String),
}

/// Told it.
pub(super) type Tell = Arc<dyn Fn(Word) + Send + Sync>;

struct Enrolment {
    agent: Arc<Agent>,
    bootstrap: Loaded,
    refused: Option<Vec<u8>>,
    hub: Client,
    requests: Cache<CertificateSigningRequest>,
    in_session: bool,
    // Requests of which nothing will come: those that were denied before we began, and what was issued badly.
    given_up: Mutex<BTreeSet<String>>,
    tell: Tell,
}

/// What a plan is made from.
pub(super) struct Seen {
    rules: enrol::Seen,
    /// What to ask for, should it be needed: with the key that the Secret keeps for it, or with a new one.
    fresh: Option<KeyAndRequest>,
    secret: Option<Arc<Secret>>,
    secret_name: (String, String),
    cluster_name: String,
    expiration_seconds: Option<i32>,
}

/// Asks the hub behind `hub` for a certificate, and ends when the Secret holds one that will do.
pub(super) async fn obtain(
    agent: &Arc<Agent>,
    bootstrap: &Loaded,
    hub: Client,
    in_session: bool,
    refused: Option<&[u8]>,
    tell: Tell,
    stop: &CancellationToken,
) {
    // However this ends, its watch and its reconciler end with it.
    let stop = stop.child_token();
    let _guard = stop.clone().drop_guard();
    let selection = watcher::Config::default().labels(&format!(
        "{}={},!{}",
        labels::CLUSTER_NAME,
        agent.cluster,
        labels::ADDON_NAME
    ));
    let watching = Watching {
        selection,
        retry_max: std::time::Duration::from_secs(5),
        ..Watching::default()
    };
    let requests = Cache::start_watching(Api::all(hub.clone()), watching, stop.clone());
    let hindered = async {
        let mut changes = requests.changes();
        while changes.changed().await.is_ok() {
            if let Some(failure) = requests.failure() {
                tell(Word::Hindrance(failure.text));
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => return,
        () = requests.synced() => {}
        () = hindered => {}
    }
    let queue = Queue::new();
    requests.subscribe(&queue, |_, _| [KEY.to_owned()]);
    agent.secrets.subscribe(&queue, |_, _| [KEY.to_owned()]);
    queue.add(KEY);
    let denied = requests.list().into_iter().filter(|it| enrol::is_denied(it));
    let denied = denied.filter_map(|it| it.metadata.name.clone()).collect();
    let enrolment = Enrolment {
        agent: agent.clone(),
        bootstrap: bootstrap.clone(),
        refused: refused.map(<[u8]>::to_vec),
        hub: hub.clone(),
        requests,
        in_session,
        given_up: Mutex::new(denied),
        tell,
    };
    let clients = Clients::both(hub, agent.options.management.clone());
    let running = ocm_reconcile::spawn(enrolment, clients, queue, 1, stop.clone());
    agent
        .secrets
        .until(|_| {
            let data = agent.data(refused);
            enrol::reason_to_ask(&rules(agent, bootstrap, DECIDED, data, None, 0))
                .is_none()
                .then_some(())
        })
        .await;
    stop.cancel();
    // It ends early only by a panic, and then the Secret is what counts.
    let _ = running.finished.await;
}

/// What the rules of enrolment are asked with.
pub(super) fn rules(
    agent: &Agent,
    bootstrap: &Loaded,
    threshold: f64,
    data: hub_secret::Data,
    pending: Option<Pending>,
    requests: usize,
) -> enrol::Seen {
    enrol::Seen {
        now: Timestamp::now(),
        threshold,
        subject: Subject::agent(&agent.cluster, &agent.id),
        additional: hub_secret::additional_data(bootstrap, &agent.cluster, &agent.id),
        data,
        pending,
        requests,
    }
}

impl Enrolment {
    fn given_up(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        // What is behind a poisoned lock is a set of names, each whole or absent.
        self.given_up.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The request that the hub has for this key, the latest if there are several.
    fn pending(&self, key_pem: &str, subject: &Subject) -> Option<Pending> {
        let given_up = self.given_up();
        let ours = |it: &Arc<CertificateSigningRequest>| {
            enrol::is_of_cluster(it, &self.agent.cluster)
                && !it.metadata.name.as_ref().is_some_and(|it| given_up.contains(it))
                && csr::asks_for(&it.spec.request.0, key_pem, subject)
        };
        let found = self.requests.list().into_iter().filter(ours);
        let found = found.max_by_key(|it| it.metadata.creation_timestamp.clone())?;
        Some(Pending {
            name: found.metadata.name.clone().unwrap_or_default(),
            key_pem: key_pem.to_owned(),
            request: Some((*found).clone()),
        })
    }

    /// A request with this key, or with a new one where there is none.
    fn ask(key_pem: Option<&str>, subject: &Subject) -> Result<KeyAndRequest, csr::CsrError> {
        match key_pem.and_then(|it| csr::request_with_key(it, subject)) {
            Some(asked) => asked,
            None => csr::new_key_and_request(subject),
        }
    }
}

#[async_trait]
impl Reconciler for Enrolment {
    const NAME: &'static str = "client-certificate";
    type Seen = Seen;

    async fn observe(&self, _: &str) -> Result<Seen, ObserveError> {
        let options = &self.agent.options;
        let data = self.agent.data(self.refused.as_deref());
        let key_pem = hub_secret::text(&data, hub_secret::PENDING_KEY).map(str::to_owned);
        let subject = Subject::agent(&self.agent.cluster, &self.agent.id);
        let pending = key_pem.as_deref().and_then(|it| self.pending(it, &subject));
        let count = |born: Option<&Time>| {
            let of_ours = |it: &Arc<CertificateSigningRequest>| {
                enrol::is_of_cluster(it, &self.agent.cluster) && enrol::is_of_life(it, born)
            };
            self.requests.list().iter().filter(|it| of_ours(it)).count()
        };
        let mut requests = count(None);
        if requests >= enrol::REQUESTS_MAX {
            // Some may be of a cluster of this name that is gone.
            let cluster = Api::<ManagedCluster>::all(self.hub.clone())
                .get_opt(&self.agent.cluster)
                .await;
            let born = cluster.ok().flatten().and_then(|it| it.metadata.creation_timestamp);
            requests = count(born.as_ref());
        }
        let rules = rules(&self.agent, &self.bootstrap, DECIDED, data, pending, requests);
        let fresh = match enrol::decide(&rules) {
            Decision::Create { .. } => Some(Self::ask(key_pem.as_deref(), &rules.subject)?),
            _ => None,
        };
        Ok(Seen {
            rules,
            fresh,
            secret: self
                .agent
                .secrets
                .get(&options.component_namespace, &options.hub_kubeconfig_secret),
            secret_name: (
                options.component_namespace.clone(),
                options.hub_kubeconfig_secret.clone(),
            ),
            cluster_name: self.agent.cluster.clone(),
            expiration_seconds: options.client_cert_expiration_seconds,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        match enrol::decide(&seen.rules) {
            Decision::Keep { .. } => {}
            Decision::Create { why } => {
                plan.remark(why);
                if let Some(fresh) = &seen.fresh {
                    // First the key, with the name that it was made for: whatever becomes of us then, the request is not lost.
                    let mut kept: hub_secret::Data = seen.rules.additional.clone();
                    kept.remove(hub_secret::KUBECONFIG);
                    kept.insert(hub_secret::PENDING_KEY.to_owned(), fresh.key_pem.clone().into_bytes());
                    plan.keep(Site::Cluster, seen.secret.as_deref(), &seen.secret_with(kept));
                    plan.stage();
                    let request = enrol::request(&seen.cluster_name, &fresh.request_pem, seen.expiration_seconds);
                    plan.create(Site::Hub, &request);
                }
            }
            Decision::Wait { why } => {
                plan.wait(why);
            }
            Decision::Save { data, .. } => {
                match seen.secret.as_deref() {
                    None => plan.keep(Site::Cluster, None, &seen.secret_with(data)),
                    Some(secret) => {
                        let mut new = secret.clone();
                        new.data = Some(hub_secret::encoded(data));
                        plan.change(Site::Cluster, secret, &new)
                    }
                };
            }
            Decision::Reset { why } => {
                plan.remark(why).look_again(AGAIN);
            }
            Decision::Refuse { why } => {
                plan.refuse(why);
            }
        }
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let decision = enrol::decide(&seen.rules);
        let (namespace, name) = &seen.secret_name;
        if let Some(secret) = outcome.latest::<Secret>(Site::Cluster, Some(namespace), name) {
            // Otherwise the next look, before the watch has brought it, would know nothing of the key.
            self.agent.secrets.put(secret);
        }
        if self.in_session
            && let Some(verdict) = verdict(&decision, outcome)
        {
            self.agent.rotation.send_replace(Some(verdict));
        }
        match &decision {
            Decision::Create { .. } | Decision::Save { .. } if !outcome.succeeded() => {
                (self.tell)(Word::Hindrance(outcome.error_text()));
            }
            Decision::Create { .. } => {
                let made = outcome.stages.last().and_then(|it| it.last());
                if let Some(Ok(Done::Object(object))) = made
                    && let Ok(request) = object.clone().try_parse::<CertificateSigningRequest>()
                {
                    let name = request.metadata.name.clone().unwrap_or_default();
                    // Otherwise the next look, before the watch has brought it, would take the request for gone.
                    self.requests.put(request);
                    let why = format!("the certificate signing request {name} is not approved yet");
                    (self.tell)(Word::Request(why));
                }
            }
            Decision::Reset { .. } => {
                let of_no_use = seen.rules.pending.as_ref().map(|it| it.name.clone());
                self.given_up().extend(of_no_use);
            }
            Decision::Wait { why } => (self.tell)(Word::Request(why.clone())),
            Decision::Refuse { why } => (self.tell)(Word::Hindrance(why.clone())),
            Decision::Save { .. } | Decision::Keep { .. } => {}
        }
    }
}

impl Seen {
    fn secret_with(&self, data: hub_secret::Data) -> Secret {
        let (namespace, name) = self.secret_name.clone();
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
}

// What the ManagedCluster is to say about it; nothing when nothing of note happened.
fn verdict(decision: &Decision, outcome: &Outcome) -> Option<ConditionUpdate> {
    let failed = |message: String| {
        wanted(
            managed_cluster::CERTIFICATE_ROTATED,
            false,
            reason::CLIENT_CERTIFICATE_UPDATE_FAILED,
            message,
        )
    };
    match (decision, outcome.errors().next()) {
        (
            Decision::Save {
                not_before, not_after, ..
            },
            None,
        ) => Some(wanted(
            managed_cluster::CERTIFICATE_ROTATED,
            true,
            reason::CLIENT_CERTIFICATE_UPDATED,
            enrol::rotated(*not_before, *not_after),
        )),
        (Decision::Create { .. }, Some((_, error))) => Some(failed(format!("Failed to create CSR {error}"))),
        (Decision::Refuse { why }, _) => Some(failed(why.clone())),
        _ => None,
    }
}
