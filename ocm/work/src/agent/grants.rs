//! Sees when the rights on the cluster change, so that what was said about an executor counts no longer than it is
//! true. Upstream (`ExecutorValidatingCaches`) looks who is named in what changed; here every change ends every answer,
//! which is also right for groups, aggregated roles and bindings that are gone.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::{
    Api, Client, Resource,
    core::PartialObjectMeta,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// How long an answer stands at most where changes are seen: an API server may have authorizers beside RBAC.
const HOLDS_WATCHED: Duration = Duration::from_secs(60);

/// The same where they cannot be seen. Events make us look often; asking five questions each time would be most of the
/// traffic.
const HOLDS_UNWATCHED: Duration = Duration::from_secs(5);

/// Roles and bindings, as far as it matters when they change.
#[derive(Default)]
pub(super) struct Grants {
    begun: AtomicBool,
    /// Counts the changes.
    epoch: AtomicU64,
    changed: Notify,
    watched: [AtomicBool; 4],
}

impl Grants {
    /// Begins to watch, once. Most clusters have no executors and are not asked.
    pub fn begin(self: &Arc<Self>, client: &Client, cancel: &CancellationToken) {
        if self.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        let all = |at| (self.clone(), at, cancel.clone());
        tokio::spawn(watch::<Role>(client.clone(), all(0)));
        tokio::spawn(watch::<RoleBinding>(client.clone(), all(1)));
        tokio::spawn(watch::<ClusterRole>(client.clone(), all(2)));
        tokio::spawn(watch::<ClusterRoleBinding>(client.clone(), all(3)));
    }

    /// How often they have changed.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// How long an answer stands if nothing changes.
    pub fn holds(&self) -> Duration {
        if self.watched.iter().all(|it| it.load(Ordering::Relaxed)) {
            HOLDS_WATCHED
        } else {
            HOLDS_UNWATCHED
        }
    }

    /// Returns when they have changed since the last call returned.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    fn change(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
        self.changed.notify_one();
    }
}

async fn watch<K>(client: Client, (grants, at, cancel): (Arc<Grants>, usize, CancellationToken))
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    // As in ocm_reconcile::Cache: below the idle timeout of common load balancers.
    let config = watcher::Config::default().timeout(200);
    let api: Api<PartialObjectMeta<K>> = Api::all(client);
    let stream = watcher::watcher(api, config).default_backoff();
    pin_mut!(stream);
    let mut told = false;
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = stream.next() => event,
        };
        match event {
            Some(Ok(Event::Init | Event::InitApply(_))) => {}
            // What changed while nobody looked is in no event.
            Some(Ok(Event::InitDone)) => {
                told = false;
                grants.watched[at].store(true, Ordering::Relaxed);
                grants.change();
            }
            // The watch goes on where it broke.
            Some(Ok(Event::Apply(_) | Event::Delete(_))) => {
                grants.watched[at].store(true, Ordering::Relaxed);
                grants.change();
            }
            Some(Err(error)) => {
                grants.watched[at].store(false, Ordering::Relaxed);
                if !std::mem::replace(&mut told, true) {
                    warn!(
                        kind = %K::kind(&()), seconds = HOLDS_UNWATCHED.as_secs(), %error,
                        "rights cannot be watched: what an executor may do is asked anew after this time"
                    );
                }
            }
            None => return,
        }
    }
}
