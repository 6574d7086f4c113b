//! Doing something whenever something has changed.

use std::{fmt::Debug, future::Future, pin::Pin, time::Duration};

use futures::future::select_all;
use kube::Resource;
use ocm_reconcile::Cache;
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{AddOnAgent, Result};

/// The shortest and the longest wait before something that failed is tried again.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// What can be waited for: every [`Cache`].
pub trait Changing: Sync {
    /// A counter that moves with every change.
    fn changes(&self) -> watch::Receiver<u64>;
    /// Ends when everything that was there at the beginning has arrived.
    fn arrived(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

impl<K> Changing for Cache<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    fn changes(&self) -> watch::Receiver<u64> {
        Cache::changes(self)
    }

    fn arrived(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.synced())
    }
}

impl AddOnAgent {
    /// Calls `act` when everything watched has arrived, and again after every change, until the agent is to stop.
    /// Changes that come while it runs are one change. When it fails it is called again after a while.
    ///
    /// # Errors
    /// Never: a failure is logged and tried again. It returns a result because an agent does.
    pub async fn whenever<F>(&self, watched: &[&dyn Changing], act: impl FnMut() -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        until(&self.stop, watched, act).await
    }
}

/// The same until `stop`.
pub(super) async fn until<F>(
    stop: &CancellationToken,
    watched: &[&dyn Changing],
    mut act: impl FnMut() -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>>,
{
    let mut changes: Vec<_> = watched.iter().map(|it| it.changes()).collect();
    let arrived = async {
        for it in watched {
            it.arrived().await;
        }
    };
    tokio::select! {
        () = stop.cancelled() => return Ok(()),
        () = arrived => {}
    }
    let mut failures = 0;
    loop {
        for it in &mut changes {
            it.borrow_and_update();
        }
        let again = match act().await {
            Ok(()) => {
                failures = 0;
                None
            }
            Err(error) => {
                let again = (AGAIN.0 * 2u32.saturating_pow(failures)).min(AGAIN.1);
                failures += 1;
                warn!(error = format!("{error:#}"), ?again, "failed, will try again");
                Some(again)
            }
        };
        let changed = async {
            if changes.is_empty() {
                return std::future::pending().await;
            }
            let any = changes.iter_mut().map(|it| Box::pin(it.changed()));
            // The caches live as long as the caller lends them.
            let _ = select_all(any).await;
        };
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = changed => {}
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
        }
    }
}
