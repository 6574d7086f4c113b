//! One of several processes does the work: leader election with client-go's times and rules.

use std::{sync::Arc, time::Duration};

use anyhow::{Context, Result};
use kube::Client;
use ocm_reconcile::lead::{self, Election};
use rand::RngExt;
use tokio_util::sync::CancellationToken;

/// For what, and how fast.
#[derive(Clone, Debug)]
pub struct LeaderElection {
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// How long the others wait after a leader's last word.
    pub lease_duration: Duration,
    /// After how long without a word a leader stops.
    pub renew_deadline: Duration,
    /// How often a leader gives word, and the others look.
    pub retry_period: Duration,
}

impl LeaderElection {
    /// With the times of controller-runtime: 15, 10 and 2 seconds.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Does `work` while this process leads, until `stop`. `work` is given a client that writes only as long as this
/// process leads, and when to end.
///
/// # Errors
/// When no election can be held with these times.
pub async fn lead<F>(
    client: Client,
    election: LeaderElection,
    work: impl Fn(Client, CancellationToken) -> F + Send + Sync + 'static,
    stop: CancellationToken,
) -> Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let LeaderElection {
        namespace,
        name,
        lease_duration,
        renew_deadline,
        retry_period,
    } = election;
    lead::check(lease_duration, renew_deadline, retry_period).context("no leader can be elected with these times")?;
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".to_owned());
    let of_work = client.clone();
    let election = Election {
        client,
        namespace,
        name,
        identity: format!("{host}_{:016x}", rand::rng().random::<u64>()),
        lease_duration,
        renew_deadline,
        retry_period,
    };
    election
        .run(
            Arc::new(move |guard, end| Box::pin(work(guard.over(of_work.clone()), end))),
            |_| (),
            stop,
        )
        .await;
    Ok(())
}

/// As [`lead`]; without an election the work is done at once, until `stop`: whoever runs a program by hand is alone.
///
/// # Errors
/// As [`lead`].
pub async fn lead_if<F>(
    client: Client,
    election: Option<LeaderElection>,
    work: impl Fn(Client, CancellationToken) -> F + Send + Sync + 'static,
    stop: CancellationToken,
) -> Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    match election {
        Some(election) => lead(client, election, work, stop).await,
        None => {
            work(client, stop).await;
            Ok(())
        }
    }
}
