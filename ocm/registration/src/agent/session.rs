//! A session with the hub: everything an agent does while it has a credential.

use std::{sync::Arc, time::Duration};

use credential::{
    Connection, Loaded,
    enrol::{self, CertificateDecision},
    hub_secret::{self, Data, TLS_CRT, Validity},
};
use jiff::Timestamp;
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::{Cache, Caches, Clients, Controller, cache::Failure, controller::start_all};
use parking_lot::Mutex;
use rand::RngExt;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    HubSession, PhaseSeen, client_configs::ClientConfigs, drive::RegistrationAgent, enrolment, lease::Heartbeat,
    own_cluster, state::StatusReporter,
};

/// Why a session is over.
pub(super) enum Ended {
    /// The hub does not take the credential.
    Refused(String),
    /// Something that the session was made from is another now.
    Changed(String),
    /// We were told to stop.
    Cancelled,
}

/// Keeps a session until it is over.
pub(super) async fn keep(
    agent: &Arc<RegistrationAgent>,
    bootstrap: &Loaded,
    data: &Data,
    cancel: &CancellationToken,
) -> Ended {
    let loaded = match hub_secret::load(data, Timestamp::now()).await {
        Ok(loaded) => loaded,
        Err(problem) => return broken(problem.to_string(), cancel).await,
    };
    let connection = match Connection::new(&loaded.config) {
        Ok(connection) => connection,
        Err(error) => return broken(error.to_string(), cancel).await,
    };
    let stop = cancel.child_token();
    let hub = agent.options.guard.over(connection.client());
    let caches = Caches::new(hub.clone(), stop.clone());
    let clusters = own_cluster::watch(&caches, agent);
    let clients = Clients::both(hub.clone(), agent.options.cluster.clone());
    let running = start_all(controllers(agent, &loaded.server, &caches), &clients, &stop);
    let rotation = tokio::spawn(rotate(agent.clone(), bootstrap.clone(), hub.clone(), stop.clone()));

    let ended = tokio::select! {
        () = cancel.cancelled() => Ended::Cancelled,
        ended = follow_hub(agent, &loaded, hub, &clusters, &stop) => ended,
        ended = follow_secret(agent, bootstrap, &connection, data) => ended,
        () = agent.options.bootstrap.changed(bootstrap) => Ended::Changed("the bootstrap kubeconfig has changed".to_owned()),
    };

    agent.options.sessions.send_replace(None);
    stop.cancel();
    // They end by the token; a panic in one of them was reported when it happened.
    for finished in running.into_iter().map(|it| it.finished).chain([rotation]) {
        let _ = finished.await;
    }
    ended
}

/// What an agent runs while it has a session with the hub.
fn controllers(agent: &Arc<RegistrationAgent>, server: &str, hub: &Caches) -> Vec<Controller> {
    let cluster = Caches::new(agent.options.cluster.clone(), hub.cancel_token().clone());
    vec![
        Controller::new(Heartbeat::new(agent, hub)),
        Controller::new(StatusReporter::new(agent, server, hub, &cluster)),
        Controller::new(ClientConfigs::new(agent, hub)),
    ]
}

// A credential that looks valid and cannot be used will not be usable in the next instant either.
async fn broken(why: String, cancel: &CancellationToken) -> Ended {
    warn!(%why, "the hub credential cannot be used");
    tokio::select! {
        () = cancel.cancelled() => Ended::Cancelled,
        () = tokio::time::sleep(own_cluster::ACCEPTANCE_RETRY_MAX) => Ended::Changed(why),
    }
}

// Either the API server said so, or its TLS did: a server that knows another CA for its clients never gets to answer.
fn is_refusal(failure: &Failure) -> bool {
    const ALERTS: [&str; 6] = [
        "UnknownCA",
        "CertificateUnknown",
        "BadCertificate",
        "CertificateExpired",
        "CertificateRevoked",
        "DecryptError",
    ];
    let alerted = |it: &str| failure.text.contains(&format!("fatal alert: {it}"));
    failure.code == Some(401) || ALERTS.iter().any(|it| alerted(it))
}

// Tells the phase, and publishes the session while the cluster is accepted.
async fn follow_hub(
    agent: &Arc<RegistrationAgent>,
    loaded: &Loaded,
    hub: kube::Client,
    clusters: &Cache<ManagedCluster>,
    stop: &CancellationToken,
) -> Ended {
    let mut changes = clusters.changes();
    let mut published: Option<CancellationToken> = None;
    // The hub takes our rights at once when it deletes the cluster: its last word may be followed
    // by others before we look.
    let leaving = Arc::new(Mutex::new(CancellationToken::new()));
    let of_session = leaving.clone();
    clusters.listen(move |_, new| {
        if new.is_some_and(|it| is_going(it)) {
            of_session.lock().cancel();
        }
    });
    loop {
        changes.borrow_and_update();
        let failure = clusters.failure();
        if let Some(failure) = failure.as_ref().filter(|it| is_refusal(it)) {
            return Ended::Refused(failure.text.clone());
        }
        let cluster = clusters.named(&agent.cluster);
        let accepted = cluster.as_deref().map(own_cluster::is_accepted);
        agent.say(&PhaseSeen {
            accepted,
            hindrance: failure.filter(|_| cluster.is_none()).map(|it| it.text),
            ..PhaseSeen::default()
        });
        // Another cluster has the name of the one that was deleted: nothing of that one's end is its.
        let is_another = cluster.as_deref().is_some_and(|it| !is_going(it)) && leaving.lock().is_cancelled();
        if is_another && let Some(ended) = published.take() {
            ended.cancel();
            agent.options.sessions.send_replace(None);
        }
        let has_left = cluster.is_none() && published.is_some() && leaving.lock().is_cancelled();
        match (accepted == Some(true) || has_left, published.take()) {
            (true, None) => {
                let ended = stop.child_token();
                published = Some(ended.clone());
                let token = CancellationToken::new();
                *leaving.lock() = token.clone();
                // Looked at when the listener has the new token, so that no deletion is lost in between.
                if clusters.named(&agent.cluster).is_some_and(|it| is_going(&it)) {
                    token.cancel();
                }
                agent.options.sessions.send_replace(Some(HubSession {
                    client: hub.clone(),
                    cluster: agent.cluster.clone(),
                    agent: agent.id.clone(),
                    server: loaded.server.clone(),
                    kubeconfig: Arc::new(loaded.clone()),
                    clusters: clusters.clone(),
                    leaving: token,
                    ended,
                }));
            }
            (true, before) => published = before,
            (false, Some(ended)) => {
                ended.cancel();
                agent.options.sessions.send_replace(None);
            }
            (false, None) => {}
        }
        if changes.changed().await.is_err() {
            return Ended::Changed("the watch of our ManagedCluster has ended".to_owned());
        }
    }
}

fn is_going(cluster: &ManagedCluster) -> bool {
    cluster.metadata.deletion_timestamp.is_some()
}

// Follows the Secret: a renewed certificate goes into the connection, anything else that changed ends the session.
async fn follow_secret(agent: &RegistrationAgent, bootstrap: &Loaded, connection: &Connection, data: &Data) -> Ended {
    let mut certificate = data.get(TLS_CRT).cloned();
    let mut changes = agent.secrets.changes();
    loop {
        changes.borrow_and_update();
        let now = Timestamp::now();
        let data = agent.data(None);
        let chain = match hub_secret::validity(&data, bootstrap, &agent.cluster, &agent.id, now) {
            Validity::Valid(chain) => chain,
            Validity::Invalid(why) => return Ended::Changed(why),
        };
        if data.get(TLS_CRT) != certificate.as_ref() {
            let loaded = match hub_secret::load(&data, now).await {
                Ok(loaded) => loaded,
                Err(problem) => return Ended::Changed(problem.to_string()),
            };
            if let Err(error) = connection.reload(&loaded.config) {
                return Ended::Changed(error.to_string());
            }
            info!(until = %chain.not_after, "the connection to the hub uses the new certificate");
            certificate = data.get(TLS_CRT).cloned();
        }
        let left = chain.not_after.duration_since(now).unsigned_abs();
        let left = left.min(agent.options.intervals.certificate);
        tokio::select! {
            _ = changes.changed() => {}
            () = tokio::time::sleep(left) => {}
        }
    }
}

// Renews the certificate in time, over and over.
async fn rotate(agent: Arc<RegistrationAgent>, bootstrap: Loaded, hub: kube::Client, stop: CancellationToken) {
    let mut changes = agent.secrets.changes();
    while !stop.is_cancelled() {
        changes.borrow_and_update();
        let threshold = rand::rng().random_range(enrol::THRESHOLD);
        let rules = enrolment::rules(&agent, &bootstrap, threshold, agent.data(None), None, 0);
        let CertificateDecision::Keep { until } = enrol::decide(&rules) else {
            info!(cluster = %agent.cluster, "the certificate is renewed");
            let silent: enrolment::ReportProgress = Arc::new(|_| ());
            tokio::select! {
                () = stop.cancelled() => {}
                () = enrolment::obtain(&agent, &bootstrap, hub.clone(), true, None, silent, &stop) => {}
            }
            continue;
        };
        let left = until.duration_since(rules.now);
        // A moment already past means that the threshold drawn last was the higher one: draw again a little later.
        let left = if left.is_positive() {
            left.unsigned_abs().min(agent.options.intervals.renewal)
        } else {
            Duration::from_secs(1)
        };
        tokio::select! {
            () = stop.cancelled() => {}
            _ = changes.changed() => {}
            () = tokio::time::sleep(left) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_refuses_by_its_answer_or_by_its_tls() {
        let refused = |code, text: &str| {
            is_refusal(&Failure {
                code,
                text: text.to_owned(),
            })
        };
        assert!(refused(Some(401), "Unauthorized"));
        assert!(refused(None, "connection error: received fatal alert: UnknownCA"));
        assert!(!refused(Some(403), "forbidden"));
        assert!(!refused(None, "connection refused"));
    }
}
