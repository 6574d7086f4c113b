//! One object, followed: the ConfigMaps of the allow-list, of the TLS profile and of an issuer's certificates, and the
//! Secrets of servers that run in the hub's process.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::ConfigMap,
    kube::{
        Api, Client, Resource,
        core::NamespaceResourceScope,
        runtime::{
            WatchStreamExt,
            watcher::{self, Event},
        },
    },
};
use serde::de::DeserializeOwned;
use tracing::warn;

/// What a ConfigMap says.
pub type ConfigMapData = BTreeMap<String, String>;

/// The data of a ConfigMap, first what it is now, then each change; `None` while it is not there.
pub fn states(
    client: Client,
    namespace: &str,
    name: &str,
) -> impl Stream<Item = Option<ConfigMapData>> + Send + Unpin + use<> {
    of::<ConfigMap>(client, namespace, name).map(|it| it.map(|it| it.data.unwrap_or_default()))
}

/// An object, first as it is now, then each change; `None` while it is not there.
pub fn of<K>(client: Client, namespace: &str, name: &str) -> impl Stream<Item = Option<K>> + Send + Unpin + use<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned
        + Send
        + 'static,
{
    let selection = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let api: Api<K> = Api::namespaced(client, namespace);
    let what = format!("{} {namespace}/{name}", K::kind(&()));
    let events = watcher::watcher(api, selection).default_backoff();
    // What a list has brought counts when the list is whole.
    let states = events.scan(None, move |listed: &mut Option<K>, event| {
        let state = match event {
            Ok(Event::Init) => {
                *listed = None;
                None
            }
            Ok(Event::InitApply(it)) => {
                *listed = Some(it);
                None
            }
            Ok(Event::InitDone) => Some(listed.take()),
            Ok(Event::Apply(it)) => Some(Some(it)),
            Ok(Event::Delete(_)) => Some(None),
            Err(error) => {
                warn!("{what} cannot be watched: {error}");
                None
            }
        };
        std::future::ready(Some(state))
    });
    Box::pin(states.filter_map(std::future::ready))
}
