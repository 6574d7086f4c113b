//! Asking a hub for a certificate until there is one: an enrolment that begins, and ends.
//! The rules are [`credential::enrol`]; upstream: ocm `pkg/registration/register/secret_controller.go`.

use std::{sync::Arc, time::Duration};

use credential::{
    Loaded,
    csr::CertificateSubject,
    enrol::{self, Pending},
    hub_secret,
};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Client, runtime::watcher};
use ocm_api::labels;
use ocm_reconcile::{Cache, Caches, Clients, Controller, cache::Watching};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::{DECIDED, Enrolment};
use crate::{agent::drive::RegistrationAgent, api_reader::ApiReader};

/// What there is to tell the user.
pub(in crate::agent) enum JoinProgress {
    /// What the request waits for.
    Request(String),
    /// What stands in the way of joining.
    Hindrance(String),
}

/// Who is told of it.
pub(in crate::agent) type ReportProgress = Arc<dyn Fn(JoinProgress) + Send + Sync>;

/// Asks the hub behind `hub` for a certificate, and ends when the Secret holds one that will do.
pub(in crate::agent) async fn obtain(
    agent: &Arc<RegistrationAgent>,
    bootstrap: &Loaded,
    hub: Client,
    in_session: bool,
    refused: Option<&[u8]>,
    report: ReportProgress,
    stop: &CancellationToken,
) {
    // However this ends, its watch and its reconciler end with it.
    let stop = stop.child_token();
    let _guard = stop.clone().drop_guard();
    let caches = Caches::new(hub.clone(), stop.clone());
    let requests = requests_of_cluster(&caches, &agent.cluster);
    let hindered = async {
        let mut changes = requests.changes();
        while changes.changed().await.is_ok() {
            if let Some(failure) = requests.failure() {
                report(JoinProgress::Hindrance(failure.text));
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => return,
        () = requests.synced() => {}
        () = hindered => {}
    }
    let denied = requests.list().into_iter().filter(|it| enrol::is_denied(it));
    let denied = denied.filter_map(|it| it.metadata.name.clone()).collect();
    let enrolment = Enrolment {
        agent: agent.clone(),
        bootstrap: bootstrap.clone(),
        refused: refused.map(<[u8]>::to_vec),
        hub: ApiReader::of(&caches),
        requests,
        in_session,
        given_up: Mutex::new(denied),
        made: Mutex::new(None),
        report,
    };
    let clients = Clients::both(hub, agent.options.management.clone());
    let running = Controller::new(enrolment).start(clients, stop.clone());
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

fn requests_of_cluster(caches: &Caches, cluster: &str) -> Cache<CertificateSigningRequest> {
    let selector = format!("{}={cluster},!{}", labels::CLUSTER_NAME, labels::ADDON_NAME);
    caches.watching(Watching {
        selection: watcher::Config::default().labels(&selector),
        retry_max: Duration::from_secs(5),
        ..Watching::default()
    })
}

/// What the rules of enrolment are asked with.
pub(in crate::agent) fn rules(
    agent: &RegistrationAgent,
    bootstrap: &Loaded,
    threshold: f64,
    data: hub_secret::Data,
    pending: Option<Pending>,
    requests: usize,
) -> enrol::Seen {
    enrol::Seen {
        now: Timestamp::now(),
        threshold,
        subject: CertificateSubject::agent(&agent.cluster, &agent.id),
        additional: hub_secret::additional_data(bootstrap, &agent.cluster, &agent.id),
        data,
        pending,
        requests,
    }
}
