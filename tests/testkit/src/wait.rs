//! Waiting for a state, by watch.

use futures::{Stream, StreamExt};
use kube::{
    Api, Resource,
    runtime::{watcher, watcher::Config},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, time::Duration};

/// How long a state may take to come about. Nothing that works takes a second; a loaded machine must not fail a test.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `holds` of the object (`None` when there is none), and returns that state.
///
/// # Panics
/// After [`PATIENCE`], with `what` and the last state seen.
pub async fn until<K>(api: &Api<K>, name: &str, what: &str, holds: impl Fn(Option<&K>) -> bool) -> Option<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static,
    K::DynamicType: Default,
{
    until_with(api, name, what, holds).await
}

/// As [`until`], for kinds whose type is known only at run time.
///
/// # Panics
/// After [`PATIENCE`], with `what` and the last state seen.
pub async fn until_with<K>(api: &Api<K>, name: &str, what: &str, holds: impl Fn(Option<&K>) -> bool) -> Option<K>
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static,
{
    let states = watcher::watch_object(api.clone(), name);
    let mut last = None;
    let found = tokio::time::timeout(PATIENCE, first(states, &holds, &mut last)).await;
    found.unwrap_or_else(|_| {
        let state = match &last {
            Some(Some(object)) => serde_saphyr::to_string(object).unwrap_or_default(),
            Some(None) => "it does not exist".to_owned(),
            None => "it was never seen: the watch did not start".to_owned(),
        };
        panic!(
            "{name}: \"{what}\" did not come about within {} s; now:\n{state}",
            PATIENCE.as_secs()
        )
    })
}

async fn first<K: Clone>(
    states: impl Stream<Item = watcher::Result<Option<K>>>,
    holds: &impl Fn(Option<&K>) -> bool,
    last: &mut Option<Option<K>>,
) -> Option<K> {
    let mut states = std::pin::pin!(states);
    while let Some(state) = states.next().await {
        // An error is retried by the watcher itself.
        let Ok(state) = state else { continue };
        *last = Some(state.clone());
        if holds(state.as_ref()) {
            return state;
        }
    }
    std::future::pending().await
}

/// Waits until the object is gone.
///
/// # Panics
/// After [`PATIENCE`].
pub async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + Debug + Serialize + DeserializeOwned + Send + 'static,
{
    until_with(api, name, "is gone", |it| it.is_none()).await;
}

/// Waits until `holds` of all objects that the API lists, and returns them.
///
/// # Panics
/// After [`PATIENCE`], with `what` and the names seen last.
pub async fn until_all<K>(api: &Api<K>, what: &str, holds: impl Fn(&[K]) -> bool) -> Vec<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut names = Vec::new();
    let wait = async {
        let mut events = std::pin::pin!(watcher::watcher(api.clone(), Config::default()));
        loop {
            let Some(event) = events.next().await else {
                std::future::pending().await
            };
            if !matches!(
                event,
                Ok(watcher::Event::InitDone | watcher::Event::Apply(_) | watcher::Event::Delete(_))
            ) {
                continue;
            }
            // The list is read anew: an event says that something changed, the list says what is.
            let Ok(list) = api.list(&kube::api::ListParams::default()).await else {
                continue;
            };
            names = list
                .items
                .iter()
                .map(|it| it.meta().name.clone().unwrap_or_default())
                .collect();
            if holds(&list.items) {
                return list.items;
            }
        }
    };
    match tokio::time::timeout(PATIENCE, wait).await {
        Ok(items) => items,
        Err(_) => panic!(
            "\"{what}\" did not come about within {} s; now: {}",
            PATIENCE.as_secs(),
            names.join(", ")
        ),
    }
}
