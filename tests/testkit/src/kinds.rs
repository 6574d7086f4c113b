//! Kinds by their names, of any API server that a client reaches.

use crate::objects;
use kube::{
    Api, Client, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
    discovery::{self, ApiResource, Scope},
};

/// The resource of a kind, and whether it is namespaced.
///
/// # Panics
/// When the kind is not served.
pub async fn resource(client: &Client, api_version: &str, kind: &str) -> (ApiResource, bool) {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = GroupVersionKind::gvk(group, version, kind);
    let found = discovery::pinned_kind(client, &kind).await;
    let (resource, capabilities) = found.unwrap_or_else(|error| panic!("{kind:?} is not served: {error}"));
    (resource, capabilities.scope == Scope::Namespaced)
}

/// The API of a kind in a namespace; `namespace` means nothing for a cluster-scoped kind and is `default` when empty.
///
/// # Panics
/// When the kind is not served.
pub async fn api(client: &Client, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let (resource, namespaced) = resource(client, api_version, kind).await;
    match (namespaced, namespace) {
        (false, _) => Api::all_with(client.clone(), &resource),
        (true, "") => Api::default_namespaced_with(client.clone(), &resource),
        (true, namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

/// Applies every object of a YAML text, in order, and returns them as the server has them.
///
/// # Panics
/// When the text is no YAML or the server refuses an object; says which.
pub async fn apply(client: &Client, text: &str) -> Vec<DynamicObject> {
    let mut applied = Vec::new();
    for object in objects::read(text) {
        let types = object
            .types
            .clone()
            .expect("an object in a test has apiVersion and kind");
        let namespace = object.namespace().unwrap_or_default();
        let api = api(client, &types.api_version, &types.kind, &namespace).await;
        let parameters = PatchParams::apply("testkit").force();
        let name = object.name_any();
        let written = api.patch(&name, &parameters, &Patch::Apply(&object)).await;
        applied.push(written.unwrap_or_else(|error| panic!("{} {name}: {error}", types.kind)));
    }
    applied
}
