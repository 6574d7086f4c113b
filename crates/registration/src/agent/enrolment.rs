//! Obtaining a client certificate and keeping it in the Secret.
//!
//! Root: the Secret. Reads: the cluster's certificate signing requests on the hub, and when there are too many its age. Writes: requests; the Secret. What there is
//! to say about it, condition `ClusterCertificateRotated`, goes into the one status patch of `state.rs`.
//! Never: a second request while one is under way.
//! The rules are [`credential::enrol`]; upstream: ocm `pkg/registration/register/secret_controller.go`.

use std::sync::{Arc, Mutex};

use credential::{
    Loaded,
    csr::{KeyAndRequest, Subject, new_key_and_request},
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
    condition::{Wanted, wanted},
    conditions::managed_cluster::{self, reason},
    labels,
};
use ocm_reconcile::{
    Cache, Clients, Done, ObserveError, Outcome, Plan, Queue, Reconciler, Site, StepId, async_trait, cache::Watching,
};
use tokio_util::sync::CancellationToken;

use super::drive::Agent;

const KEY: &str = "credential";
/// The one step a plan of ours has.
const STEP: StepId = StepId { stage: 0, step: 0 };
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
    // Name and key of the request under way.
    pending: Mutex<Option<(String, String)>>,
    tell: Tell,
}

/// What a plan is made from.
pub(super) struct Seen {
    rules: enrol::Seen,
    /// A key that nothing uses yet, should one be needed.
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
    let enrolment = Enrolment {
        agent: agent.clone(),
        bootstrap: bootstrap.clone(),
        refused: refused.map(<[u8]>::to_vec),
        hub: hub.clone(),
        requests,
        in_session,
        pending: Mutex::new(None),
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
    fn pending(&self) -> std::sync::MutexGuard<'_, Option<(String, String)>> {
        // What is behind a poisoned lock is a pair of strings, whole or absent.
        self.pending.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[async_trait]
impl Reconciler for Enrolment {
    const NAME: &'static str = "client-certificate";
    type Seen = Seen;

    async fn observe(&self, _: &str) -> Result<Seen, ObserveError> {
        let options = &self.agent.options;
        let pending = self.pending().clone().map(|(name, key_pem)| Pending {
            request: self.requests.named(&name).map(|it| (*it).clone()),
            name,
            key_pem,
        });
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
        let data = self.agent.data(self.refused.as_deref());
        let rules = rules(&self.agent, &self.bootstrap, DECIDED, data, pending, requests);
        let fresh = match enrol::decide(&rules) {
            Decision::Create { .. } => Some(new_key_and_request(&rules.subject)?),
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
                    let request = enrol::request(&seen.cluster_name, &fresh.request_pem, seen.expiration_seconds);
                    plan.create(Site::Hub, &request);
                }
            }
            Decision::Wait { why } => {
                plan.wait(why);
            }
            Decision::Save { data, .. } => {
                let (namespace, name) = seen.secret_name.clone();
                let desired = Secret {
                    metadata: ObjectMeta {
                        name: Some(name),
                        namespace: Some(namespace),
                        ..ObjectMeta::default()
                    },
                    data: Some(hub_secret::encoded(data)),
                    ..Secret::default()
                };
                plan.keep(Site::Cluster, seen.secret.as_deref(), &desired);
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
        if self.in_session
            && let Some(verdict) = verdict(&decision, outcome)
        {
            self.agent.rotation.send_replace(Some(verdict));
        }
        match (&decision, outcome.object(STEP)) {
            (Decision::Create { .. }, Some(object)) => {
                if let (Some(fresh), Ok(request)) =
                    (&seen.fresh, object.clone().try_parse::<CertificateSigningRequest>())
                {
                    let name = request.metadata.name.clone().unwrap_or_default();
                    // Otherwise the next look, before the watch has brought it, would take the request for gone.
                    self.requests.put(request);
                    let why = format!("the certificate signing request {name} is not approved yet");
                    (self.tell)(Word::Request(why));
                    *self.pending() = Some((name, fresh.key_pem.clone()));
                }
            }
            (Decision::Save { .. }, Some(object)) => {
                if let Ok(secret) = object.clone().try_parse::<Secret>() {
                    self.agent.secrets.put(secret);
                }
                *self.pending() = None;
            }
            (Decision::Reset { .. }, _) => *self.pending() = None,
            (Decision::Wait { why }, _) => (self.tell)(Word::Request(why.clone())),
            (Decision::Refuse { why }, _) => (self.tell)(Word::Hindrance(why.clone())),
            (Decision::Create { .. } | Decision::Save { .. }, None) => {
                (self.tell)(Word::Hindrance(outcome.error_text()))
            }
            _ => {}
        }
    }
}

// What the ManagedCluster is to say about it; nothing when nothing of note happened.
fn verdict(decision: &Decision, outcome: &Outcome) -> Option<Wanted> {
    let failed = |message: String| {
        wanted(
            managed_cluster::CERTIFICATE_ROTATED,
            false,
            reason::CLIENT_CERTIFICATE_UPDATE_FAILED,
            message,
        )
    };
    match (decision, outcome.get(STEP)) {
        (
            Decision::Save {
                not_before, not_after, ..
            },
            Some(Ok(Done::Object(_))),
        ) => Some(wanted(
            managed_cluster::CERTIFICATE_ROTATED,
            true,
            reason::CLIENT_CERTIFICATE_UPDATED,
            enrol::rotated(*not_before, *not_after),
        )),
        (Decision::Create { .. }, Some(Err(error))) => Some(failed(format!("Failed to create CSR {error}"))),
        (Decision::Refuse { why }, _) => Some(failed(why.clone())),
        _ => None,
    }
}
