//! Obtaining a client certificate and keeping it in the Secret.
//!
//! Root: the Secret. Reads: the cluster's certificate signing requests on the hub. Writes: requests; the Secret; condition
//! `ClusterCertificateRotated`, once there is a ManagedCluster to write it to.
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
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Secret};
use kube::{Api, Client, api::ObjectMeta, runtime::watcher};
use ocm_api::{
    cluster::ManagedCluster,
    condition::wanted,
    conditions::managed_cluster::{self, reason},
    labels,
};
use ocm_reconcile::{
    Cache, Clients, Done, ObserveError, Outcome, Plan, Queue, Reconciler, Site, StepId, async_trait, cache::Watching,
};
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use super::drive::Agent;
use crate::status;

const KEY: &str = "credential";
/// The one step a plan of ours has.
const STEP: StepId = StepId { stage: 0, step: 0 };
/// How soon to look again after a request turned out to be of no use.
const AGAIN: std::time::Duration = std::time::Duration::from_millis(200);

/// Told what the request waits for; `None` when there is none.
pub(super) type Tell = Arc<dyn Fn(Option<String>) + Send + Sync>;

struct Enrolment {
    agent: Arc<Agent>,
    bootstrap: Loaded,
    refused: Option<Vec<u8>>,
    requests: Cache<CertificateSigningRequest>,
    clusters: Option<Cache<ManagedCluster>>,
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
    cluster: Option<Arc<ManagedCluster>>,
    expiration_seconds: Option<i32>,
}

/// Asks the hub behind `hub` for a certificate, and ends when the Secret holds one that will do.
pub(super) async fn obtain(
    agent: &Arc<Agent>,
    bootstrap: &Loaded,
    hub: Client,
    clusters: Option<Cache<ManagedCluster>>,
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
    };
    let requests = Cache::start_watching(Api::all(hub.clone()), watching, stop.clone());
    tokio::select! {
        () = stop.cancelled() => return,
        () = requests.synced() => {}
    }
    let queue = Queue::new();
    requests.subscribe(&queue, |_, _| [KEY.to_owned()]);
    agent.secrets.subscribe(&queue, |_, _| [KEY.to_owned()]);
    queue.add(KEY);
    let enrolment = Enrolment {
        agent: agent.clone(),
        bootstrap: bootstrap.clone(),
        refused: refused.map(<[u8]>::to_vec),
        requests,
        clusters,
        pending: Mutex::new(None),
        tell,
    };
    let clients = Clients::both(hub, agent.options.management.clone());
    let running = ocm_reconcile::spawn(enrolment, clients, queue, 1, stop.clone());
    agent
        .secrets
        .until(|_| {
            let data = agent.data(refused);
            enrol::reason_to_ask(&rules(agent, bootstrap, data, None, 0))
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
    data: hub_secret::Data,
    pending: Option<Pending>,
    requests: usize,
) -> enrol::Seen {
    enrol::Seen {
        now: Timestamp::now(),
        threshold: rand::rng().random_range(enrol::THRESHOLD),
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
        let of_ours = |it: &Arc<CertificateSigningRequest>| enrol::is_of_cluster(it, &self.agent.cluster);
        let requests = self.requests.list().iter().filter(|it| of_ours(it)).count();
        let data = self.agent.data(self.refused.as_deref());
        let rules = rules(&self.agent, &self.bootstrap, data, pending, requests);
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
            cluster: self.clusters.as_ref().and_then(|it| it.named(&self.agent.cluster)),
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
        match (&decision, outcome.object(STEP)) {
            (Decision::Create { .. }, Some(object)) => {
                if let (Some(fresh), Ok(request)) =
                    (&seen.fresh, object.clone().try_parse::<CertificateSigningRequest>())
                {
                    let name = request.metadata.name.clone().unwrap_or_default();
                    // Otherwise the next look, before the watch has brought it, would take the request for gone.
                    self.requests.put(request);
                    (self.tell)(Some(format!(
                        "the certificate signing request {name} is not approved yet"
                    )));
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
            (Decision::Wait { why } | Decision::Refuse { why }, _) => (self.tell)(Some(why.clone())),
            _ => {}
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(cluster) = seen.cluster.as_deref() else {
            return plan;
        };
        let failed = |message: String| {
            wanted(
                managed_cluster::CERTIFICATE_ROTATED,
                false,
                reason::CLIENT_CERTIFICATE_UPDATE_FAILED,
                message,
            )
        };
        let verdict = match (enrol::decide(&seen.rules), outcome.get(STEP)) {
            (
                Decision::Save {
                    not_before, not_after, ..
                },
                Some(Ok(Done::Object(_))),
            ) => wanted(
                managed_cluster::CERTIFICATE_ROTATED,
                true,
                reason::CLIENT_CERTIFICATE_UPDATED,
                format!("client certificate rotated starting from {not_before} to {not_after}"),
            ),
            (Decision::Create { .. }, Some(Err(error))) => failed(format!("Failed to create CSR {error}")),
            (Decision::Refuse { why }, _) => failed(why),
            _ => return plan,
        };
        plan.status(Site::Hub, cluster, &status::saying(cluster, verdict, seen.rules.now));
        plan
    }
}
