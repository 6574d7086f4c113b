//! Which of several hubs a cluster joins, and when it turns to another (gate MultipleHubs).
//! Upstream: ocm `pkg/registration/spoke/registration/{hub_accept,hub_timeout}_controller.go` and
//! `pkg/registration/register/bootstrap_kubeconfig.go`. We differ in one thing: there, a hub on which the cluster waits
//! to be accepted is not chosen, so that a restart turns away from it, and from a request
//! that somebody may be about to approve.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use credential::{Connection, KubeconfigSource, Loaded};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use ocm_api::{cluster::ManagedCluster, condition, conditions::managed_cluster::HUB_ACCEPTED, namespaces};
use ocm_reconcile::access::{self, Attributes};
use registration::agent::HubSession;
use tokio::sync::watch;
use tracing::{info, warn};

/// How long a hub may take to say whether it lets us in.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How often at most the lease on the hub is looked at, as upstream does.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

/// What a bootstrap credential has to be allowed: group, resource, verbs.
const RIGHTS: [(&str, &str, &[&str]); 2] = [
    (
        "cluster.open-cluster-management.io",
        "managedclusters",
        &["create", "get"],
    ),
    (
        "certificates.k8s.io",
        "certificatesigningrequests",
        &["create", "get", "list", "watch"],
    ),
];

/// The kubeconfig of the first hub that lets the cluster in. The hub that it is joined to now goes first.
pub async fn choose(files: &[String], present: Option<&str>, cluster: Option<&str>) -> Result<PathBuf> {
    let mut hubs = Vec::new();
    for file in files {
        match KubeconfigSource::Path(file.into()).load(Timestamp::now()).await {
            Ok(loaded) => hubs.push((PathBuf::from(file), loaded)),
            Err(problem) => warn!(%problem, "this hub cannot be chosen"),
        }
    }
    // A stable sort: the others stay in the order in which they were typed.
    hubs.sort_by_key(|(_, loaded)| Some(loaded.server.as_str()) != present);
    for (file, loaded) in hubs {
        let fault = match tokio::time::timeout(ANSWER_MAX, fault(&loaded, cluster)).await {
            Ok(fault) => fault,
            Err(_) => Some("it does not answer".to_owned()),
        };
        match fault {
            None => {
                info!(server = %loaded.server, "hub chosen");
                return Ok(file);
            }
            Some(why) => info!(server = %loaded.server, %why, "this hub is not chosen"),
        }
    }
    bail!("none of the hubs of --bootstrap-kubeconfigs lets the cluster in")
}

/// Why this hub is not to be joined, if it is not.
async fn fault(loaded: &Loaded, cluster: Option<&str>) -> Option<String> {
    let client = match Connection::new(&loaded.config) {
        Ok(connection) => connection.client(),
        Err(error) => return Some(error.to_string()),
    };
    match refusal(&client, cluster).await {
        Ok(refusal) => refusal,
        Err(error) => Some(error.to_string()),
    }
}

async fn refusal(client: &Client, cluster: Option<&str>) -> kube::Result<Option<String>> {
    for (group, resource, verbs) in RIGHTS {
        for verb in verbs {
            let asked = Attributes {
                verb: (*verb).to_owned(),
                group: group.to_owned(),
                resource: resource.to_owned(),
                ..Attributes::default()
            };
            if !access::may_i(client, &asked).await? {
                return Ok(Some(format!("its credential may not {verb} {resource}")));
            }
        }
    }
    let Some(cluster) = cluster else {
        return Ok(None);
    };
    let found = Api::<ManagedCluster>::all(client.clone()).get_opt(cluster).await?;
    Ok(found
        .is_some_and(is_denied)
        .then(|| "it does not accept the cluster".to_owned()))
}

/// Whether somebody has decided against the cluster. Where nobody has decided yet, it has asked and waits.
fn is_denied(cluster: ManagedCluster) -> bool {
    let conditions = cluster.status.map(|it| it.conditions).unwrap_or_default();
    !cluster.spec.hub_accepts_client && condition::find(&conditions, HUB_ACCEPTED).is_some()
}

/// Whether the hub of this kubeconfig can be reached. A proxy may answer for one that cannot, and one that does not
/// know the credential will never let the cluster in.
async fn answers(bootstrap: &KubeconfigSource) -> bool {
    let Ok(loaded) = bootstrap.read().await else {
        return false;
    };
    let Ok(connection) = Connection::new(&loaded.config) else {
        return false;
    };
    match tokio::time::timeout(ANSWER_MAX, connection.client().apiserver_version()).await {
        Ok(Err(kube::Error::Api(status))) => status.code < 500 && status.code != 401,
        answer => matches!(answer, Ok(Ok(_))),
    }
}

/// Ends when the cluster is to turn to another hub: this one has denied it, has not taken its heartbeat for so long,
/// or, before it has let the cluster in, could not be reached for so long. It may take as long as it likes
/// to let the cluster in.
pub async fn lost(bootstrap: KubeconfigSource, mut sessions: watch::Receiver<Option<HubSession>>, patience: Duration) {
    let mut last = Timestamp::now();
    let mut was_let_in = false;
    let period = LOOK_AGAIN.min(patience / 4).max(Duration::from_millis(100));
    loop {
        let session = sessions.borrow_and_update().clone();
        match &session {
            None if was_let_in => {
                info!("the hub lets the cluster in no longer");
                return;
            }
            None => {
                if answers(&bootstrap).await {
                    last = Timestamp::now();
                }
            }
            Some(session) => {
                was_let_in = true;
                let leases: Api<Lease> = Api::namespaced(session.client.clone(), &session.cluster);
                let lease = tokio::time::timeout(ANSWER_MAX, leases.get_opt(namespaces::CLUSTER_LEASE)).await;
                if let Ok(Ok(Some(lease))) = lease {
                    let renewed = lease.spec.and_then(|it| it.renew_time).map(|it| it.0);
                    // The hub creates it before we have renewed it.
                    last = renewed.map_or(last, |it| it.max(last));
                }
            }
        }
        let silent = Timestamp::now().duration_since(last);
        if silent.is_positive() && silent.unsigned_abs() > patience {
            info!(
                seconds = patience.as_secs(),
                "the hub has not been reached for too long"
            );
            return;
        }
        tokio::select! {
            changed = sessions.changed() => if changed.is_err() { return std::future::pending().await },
            () = tokio::time::sleep(period) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// A hub that tells its version so many times, and then no more.
    async fn answering(times: usize) -> (KubeconfigSource, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = tokio::spawn(async move {
            for _ in 0..times {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut asked = Vec::new();
                while !asked.ends_with(b"\r\n\r\n") {
                    asked.push(stream.read_u8().await.unwrap());
                }
                let body =
                    r#"{"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": 403}"#;
                let head = format!("HTTP/1.1 403 Forbidden\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}],
              clusters: [{{name: a, cluster: {{server: 'http://{address}'}}}}], users: [{{name: a, user: {{token: word}}}}]}}"
        );
        (KubeconfigSource::Inline(text), answers)
    }

    #[tokio::test]
    async fn a_hub_that_keeps_answering_is_not_considered_lost() {
        let patience = Duration::from_millis(400);
        // It is asked at least every hundred milliseconds, so these are three times the patience.
        let (bootstrap, mut answers) = answering(12).await;
        let sessions = watch::Sender::new(None);
        let lost = lost(bootstrap, sessions.subscribe(), patience);
        tokio::pin!(lost);
        tokio::select! {
            () = &mut lost => panic!("it was given up while it answered"),
            answered = &mut answers => answered.unwrap(),
        }
        // Nobody listens there any more.
        lost.await;
    }

    #[test]
    fn a_hub_that_has_not_decided_has_not_denied() {
        let cluster = |accepts: bool, conditions: serde_json::Value| -> ManagedCluster {
            serde_json::from_value(serde_json::json!({
                "metadata": {"name": "edge"}, "spec": {"hubAcceptsClient": accepts}, "status": {"conditions": conditions}
            }))
            .unwrap()
        };
        let accepted = |status: &str| {
            serde_json::json!([{"type": HUB_ACCEPTED, "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        assert!(!is_denied(cluster(false, serde_json::json!([]))));
        assert!(!is_denied(cluster(true, accepted("False"))));
        assert!(is_denied(cluster(false, accepted("True"))));
        assert!(is_denied(cluster(false, accepted("False"))));
    }
}
