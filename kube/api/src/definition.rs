//! What a CustomResourceDefinition says of itself, and the registry that follows it.

use crate::{
    conversion::Converters,
    registry::{Registry, Resource},
    resource_ids::CRDS,
};
use kube_store::Object;
use serde_json::Value;
use std::sync::Arc;

/// Brings a registry up to date with a definition that was written or deleted (`deleted`).
pub fn register(registry: &mut Registry, converters: &Converters, object: &Object, deleted: bool) {
    let value = object.value();
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
    match Resource::from_crd(&value) {
        Some(mut resource) if !deleted => {
            let before = registry.by_id(&resource.id).and_then(|it| it.crd.as_ref());
            let before = before.map(|it| (it.shape, it.since));
            if let Some(crd) = resource.crd.as_mut() {
                crd.converter = converters.find(&resource.id, &value);
                // What is written to its status is no reason to read its objects anew.
                crd.since = match before {
                    Some((shape, since)) if shape == crd.shape => since,
                    _ => object.revision,
                };
            }
            registry.insert(Arc::new(resource));
        }
        _ => registry.remove(text("/spec/group"), text("/spec/names/plural")),
    }
}

/// Whether the object is a definition.
pub fn is_definition(object: &Object) -> bool {
    &*object.resource == CRDS
}
