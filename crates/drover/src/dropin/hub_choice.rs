//! Which of several hubs a cluster joins, and when it turns to another (gate MultipleHubs).
//! Upstream: ocm `pkg/registration/spoke/registration/{hub_accept,hub_timeout}_controller.go` and
//! `pkg/registration/register/bootstrap_kubeconfig.go`.

use std::{path::PathBuf, time::Duration};

use anyhow::{Result, bail};
use credential::{Connection, KubeconfigSource, Loaded};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use ocm_api::{cluster::ManagedCluster, namespaces};
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
    let is_denied = found.is_some_and(|it| !it.spec.hub_accepts_client);
    Ok(is_denied.then(|| "it does not accept the cluster".to_owned()))
}

/// Ends when the cluster is to turn to another hub: this one has denied it, or has not taken its heartbeat for so long.
pub async fn lost(mut sessions: watch::Receiver<Option<HubSession>>, patience: Duration) {
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
            None => {}
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
