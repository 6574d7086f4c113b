//! Watches where that is allowed, and lists again and again where it is not: upstream's roles let its controller list
//! Secrets and namespaces, and not watch them.

use std::{fmt::Debug, hash::Hash, time::Duration};

use ocm_addon_sdk::{
    kube::{Api, Resource},
    reconcile::{Cache, cache::Watching},
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;
use tracing::info;

/// Feeds the cache until `stop`; with a list after each `every`, as long as a watch is forbidden.
pub fn follow<K>(cache: &Cache<K>, api: Api<K>, watching: Watching, every: Duration, stop: &CancellationToken)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
{
    let (cache, stop) = (cache.clone(), stop.clone());
    tokio::spawn(async move {
        let mut said = false;
        while !stop.is_cancelled() {
            // It begins with a list.
            let round = stop.child_token();
            let feeding = tokio::spawn(cache.clone().feed(api.clone(), watching.clone(), round.clone()));
            tokio::select! {
                () = stop.cancelled() => {}
                () = refused(&cache, every) => {
                    if !said {
                        let kind = K::kind(&K::DynamicType::default()).into_owned();
                        info!(kind, ?every, "the watch is forbidden, so all are listed again and again");
                        said = true;
                    }
                }
            }
            round.cancel();
            let _ = feeding.await;
        }
    });
}

/// Ends when the watch of what was listed has been forbidden for so long.
async fn refused<K>(cache: &Cache<K>, long: Duration)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
{
    let is_refused = |it: &Cache<K>| it.is_synced() && it.failure().is_some_and(|it| it.code == Some(403));
    loop {
        cache.until(|it| is_refused(it).then_some(())).await;
        tokio::time::sleep(long).await;
        if is_refused(cache) {
            return;
        }
    }
}
