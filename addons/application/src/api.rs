//! Objects of an API server, whatever their kind, and what its errors say.

use ocm_addon_sdk::{
    kube::{
        self, Api, Client,
        core::{ApiResource, DynamicObject},
    },
    reconcile::{
        discovery::{DiscoveredKind, DiscoveredKinds},
        segment::encoded,
    },
};
use serde_json::Value;

/// The objects of one API server.
pub(crate) struct ServedObjects {
    /// The API server.
    pub client: Client,
    kinds: DiscoveredKinds,
}

impl ServedObjects {
    /// Of the API server behind this client.
    pub fn new(client: Client) -> Self {
        Self {
            kinds: DiscoveredKinds::new(client.clone()),
            client,
        }
    }

    /// How a kind is served; `None` where it is not.
    pub async fn kind(&self, api_version: &str, kind: &str) -> Result<Option<DiscoveredKind>, String> {
        self.kinds.find(api_version, kind).await.map_err(|it| message(&it))
    }

    /// Forgets which kinds an apiVersion has.
    pub fn forget_kinds(&self, api_version: &str) {
        self.kinds.forget(api_version);
    }

    /// Those of a kind in a namespace; the empty one for cluster-scoped kinds, and for all namespaces.
    pub fn of(&self, resource: &ApiResource, namespace: &str) -> Api<DynamicObject> {
        match namespace {
            "" => Api::all_with(self.client.clone(), resource),
            namespace => Api::namespaced_with(self.client.clone(), &encoded(namespace), resource),
        }
    }

    /// An object; `None` when it is not there.
    pub async fn get(&self, resource: &ApiResource, namespace: &str, name: &str) -> Result<Option<Value>, String> {
        match self.of(resource, namespace).get_opt(&encoded(name)).await {
            Ok(found) => Ok(found.and_then(|it| serde_json::to_value(it).ok())),
            Err(error) => {
                self.forget_kinds(&resource.api_version);
                Err(message(&error))
            }
        }
    }
}

/// What an error says to a person: the message of the API server alone where there is one.
pub(crate) fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => chain(other),
    }
}

/// An error and its causes, in one line; a cause that its effect tells already is not told again.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        source = cause.source();
    }
    text
}
