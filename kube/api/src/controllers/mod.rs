//! The few controllers that Kubernetes itself supplies, without which its clients hang: namespaces empty themselves,
//! orphans are collected, certificates are signed, every namespace has its ServiceAccount and root CA.
//!
//! All of them hang on one subscription to the store's events. An event only names keys; what to do with a key is
//! decided from the state at that moment, so that a lost or repeated event does no harm. There are no controllers for
//! Deployments, ReplicaSets or Jobs: they come with the nodes that run their pods, and are no part of the server.

mod bootstrap;
mod bootstrap_token;
mod cluster_role;
mod compaction;
mod controller;
mod crd;
mod csr;
mod event_ttl;
mod garbage;
mod namespace;
mod queue;
mod root_ca;
mod service_account;
mod token_secret;
mod volume_protection;

#[cfg(test)]
mod tests;

pub use bootstrap::{Bootstrap, bootstrap};
pub use controller::{ServerAccess, TokenClaims, Unsignable};

use crate::local::Local;
use controller::ServerController;
use futures::FutureExt;
use kube_store::status::Status;
use queue::Queue;
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use volume_protection::VolumeProtection;

/// How often every controller looks at everything again. Events carry the work; this only bounds the harm of a bug.
const SURVEY_INTERVAL: Duration = Duration::from_secs(600);

/// Starts all controllers; they end when `stop` is cancelled. Events live for `event_ttl` after their last write.
/// Call it after [`bootstrap`].
pub fn run(
    local: Local,
    ground: Arc<dyn ServerAccess>,
    event_ttl: Duration,
    stop: CancellationToken,
) -> tokio::task::JoinHandle<()> {
    let controllers: Vec<Arc<dyn ServerController>> = vec![
        Arc::new(namespace::Namespaces::new(local.clone())),
        Arc::new(garbage::GarbageCollector::new(local.clone())),
        Arc::new(crd::Definitions::new(local.clone())),
        Arc::new(service_account::DefaultServiceAccounts { local: local.clone() }),
        Arc::new(root_ca::RootCa {
            local: local.clone(),
            ground: ground.clone(),
        }),
        Arc::new(token_secret::TokenSecrets {
            local: local.clone(),
            ground: ground.clone(),
        }),
        Arc::new(bootstrap_token::BootstrapTokens { local: local.clone() }),
        Arc::new(csr::CertificateRequests {
            local: local.clone(),
            ground,
        }),
        Arc::new(cluster_role::Aggregation::new(local.clone())),
        Arc::new(VolumeProtection::new(local.clone(), volume_protection::CLAIMS)),
        Arc::new(VolumeProtection::new(local.clone(), volume_protection::VOLUMES)),
        Arc::new(event_ttl::EventTtl {
            local: local.clone(),
            ttl: event_ttl,
        }),
    ];
    tokio::spawn(compaction::run(local.store().clone(), stop.clone()));
    tokio::spawn(drive(local, controllers, stop))
}

async fn drive(local: Local, controllers: Vec<Arc<dyn ServerController>>, stop: CancellationToken) {
    let queues: Vec<_> = controllers.into_iter().map(|it| (it, Queue::default())).collect();
    let mut workers = tokio::task::JoinSet::new();
    for (controller, queue) in &queues {
        for _ in 0..controller.parallel() {
            workers.spawn(work(controller.clone(), queue.clone(), stop.clone()));
        }
    }
    'subscribed: while !stop.is_cancelled() {
        // Subscribed before the survey, so that nothing falls between the two.
        let mut events = local.subscribe();
        let mut survey = tokio::time::interval(SURVEY_INTERVAL);
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break 'subscribed,
                _ = survey.tick() => queues.iter().for_each(|(it, queue)| it.survey(queue)),
                event = events.next() => match event {
                    Some(event) => queues.iter().for_each(|(it, queue)| it.notice(&event, queue)),
                    // Fell behind: start again from the state, which the survey reads.
                    None => break,
                },
            }
        }
        // A store that is shutting down ends every subscription at once; do not spin until `stop` is cancelled too.
        tokio::select! {
            () = stop.cancelled() => {}
            () = tokio::time::sleep(Duration::from_millis(100)) => {}
        }
    }
    workers.shutdown().await;
}

/// A failure that is tried again sooner is one of the first of its key, and may well be the last.
const WORTH_A_WORD: Duration = Duration::from_millis(20);

async fn work(controller: Arc<dyn ServerController>, queue: Queue, stop: CancellationToken) {
    loop {
        let key = tokio::select! {
            () = stop.cancelled() => return,
            key = queue.next() => key,
        };
        // One object that nobody has thought of must not end the care for all others.
        let looked = AssertUnwindSafe(controller.reconcile(&key, &queue))
            .catch_unwind()
            .await;
        let looked = looked.unwrap_or_else(|_| Err(Status::internal("the controller panicked")));
        match looked {
            Ok(again) => queue.done(&key, again),
            Err(error) => {
                let (resource, namespace, name) = (&key.resource, &key.namespace, &key.name);
                let delay = queue.failed(&key);
                // A conflict is everyday: someone else wrote in between, and the next look sees it.
                if error.is_conflict() || delay < WORTH_A_WORD {
                    tracing::debug!(controller = controller.name(), %resource, %namespace, %name, %error, "will try again");
                } else {
                    tracing::warn!(controller = controller.name(), %resource, %namespace, %name, %error, ?delay, "keeps failing");
                }
            }
        }
    }
}
