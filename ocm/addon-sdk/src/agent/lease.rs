//! The heartbeat of an agent: a Lease with the add-on's name in its namespace, renewed every minute or so.
//! Upstream: addon-framework `pkg/lease/lease_controller.go`.

use std::{future::Future, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{Api, api::ObjectMeta};
use ocm_reconcile::{Clients, Plan, Site, execute};
use rand::RngExt;
use tracing::{debug, warn};

use super::AddOnAgent;

/// How often, before jitter.
const PERIOD: Duration = Duration::from_secs(60);
/// How much later at most, as a fraction.
const JITTER: f64 = 0.25;
/// How soon to try again what failed.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(30);
const LEASE_SECONDS: i32 = 60;

/// Renews the agent's lease, at once and then about every minute while `healthy` says so, until the agent stops.
pub async fn renew<F>(agent: &AddOnAgent, healthy: impl Fn() -> F)
where
    F: Future<Output = bool>,
{
    let api: Api<Lease> = Api::namespaced(agent.home.clone(), &agent.namespace);
    let clients = Clients::cluster(agent.home.clone());
    let mut failures = 0;
    loop {
        let mut next = PERIOD.mul_f64(1.0 + rand::rng().random_range(0.0..JITTER));
        if healthy().await {
            let failure = match api.get_opt(&agent.add_on).await {
                Ok(lease) => execute(&clients, &renewal(agent, lease.as_ref(), Timestamp::now()))
                    .await
                    .error_text(),
                Err(error) => error.to_string(),
            };
            if failure.is_empty() {
                failures = 0;
            } else {
                // The first try may come before the rights of the agent's ServiceAccount.
                if failures > 0 {
                    warn!(error = %failure, "the lease could not be renewed");
                }
                next = (AGAIN * 2u32.saturating_pow(failures)).min(AGAIN_MAX);
                failures += 1;
            }
        } else {
            debug!("not healthy, the lease is not renewed");
        }
        tokio::select! {
            () = agent.stop.cancelled() => return,
            () = tokio::time::sleep(next) => {}
        }
    }
}

fn renewal(agent: &AddOnAgent, lease: Option<&Lease>, now: Timestamp) -> Plan {
    let mut plan = Plan::new();
    let wanted = Lease {
        metadata: ObjectMeta {
            name: Some(agent.add_on.clone()),
            namespace: Some(agent.namespace.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    };
    plan.keep(Site::Cluster, lease, &wanted);
    plan
}
