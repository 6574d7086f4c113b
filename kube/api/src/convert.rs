//! The same object in another version of its resource.
//!
//! Most of it is made here and now. What a webhook makes is asked for first (`prepare`), for many objects at once, and
//! kept in each state; who cannot wait then finds it there (`ready`).

use crate::{
    content,
    conversion::{Converter, webhook},
    registry::Resource,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use kube_store::{object::Object, status::Status};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Whether the stored bytes of an object are those of a version. A resource may store another version than it did when
/// the object was written.
pub fn is_in(resource: &Resource, version: &str, object: &Object) -> bool {
    if resource.is_builtin() {
        return version == resource.storage_version() && !is_other_event_group(resource);
    }
    let head = &object.json[..object.json.len() - object.body().len()];
    let stored = head
        .strip_suffix(b"\",")
        .and_then(|it| it.strip_suffix(version.as_bytes()));
    stored.is_some_and(|it| it.ends_with(b"/"))
}

/// The bytes of an object in a version, `kind` and `apiVersion` included, if no webhook has to be asked for them. The
/// stored version is the stored buffer itself; another version of a custom resource that nobody converts differs in its
/// first bytes only. What is converted is converted once per state and version, however many read it.
pub fn ready(resource: &Resource, version: &str, object: &Object) -> Option<Bytes> {
    if is_other_event_group(resource) {
        let mut value = object.value();
        event_from_core(&mut value);
        relabel(resource, version, &mut value);
        return Some(encode(&value));
    }
    let is_in = is_in(resource, version, object);
    let asks = matches!(resource.converter(), Some(Converter::Webhook(_)));
    if let Some(since) = resource.reread_since(object.revision)
        && (is_in || !asks)
    {
        return Some(object.view(&format!("{version}@{since}"), || reread(resource, version, object)));
    }
    if is_in {
        return Some(object.json.clone());
    }
    match resource.converter() {
        Some(Converter::Plugin(_)) => Some(object.view(version, || {
            let mut value = object.value();
            between_here(resource, version, &mut value);
            encode(&value)
        })),
        Some(Converter::Webhook(webhook)) => object.kept_view(&webhook.view(version)),
        None => {
            let prefix = format!(
                "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",",
                resource.kind,
                resource.api_version(version)
            );
            let mut json = Vec::with_capacity(prefix.len() + object.body().len());
            json.extend_from_slice(prefix.as_bytes());
            json.extend_from_slice(object.body());
            Some(json.into())
        }
    }
}

/// An object that is older than its definition, without what this knows no more and with the defaults that it gives
/// since: those of the version that is stored now, as a real API server prunes and fills in when it reads.
fn reread(resource: &Resource, version: &str, object: &Object) -> Bytes {
    let storage = resource.storage_version();
    let mut value = object.value();
    if !matches!(resource.converter(), Some(Converter::Webhook(_))) {
        between_here(resource, storage, &mut value);
    }
    if value["apiVersion"] == resource.api_version(storage) {
        content::prune_converted(resource, storage, &mut value);
        content::default_stored(resource, &mut value);
        if version != storage {
            between_here(resource, version, &mut value);
        }
    }
    // In the order of what is stored, so that what did not change is seen to be the same, and kept once.
    let bytes = Object::encode(&object.resource, value, object.revision).json;
    if bytes == object.json {
        object.json.clone()
    } else {
        bytes
    }
}

/// Whether an object would be stored otherwise than it is now.
pub fn is_outdated(resource: &Resource, object: &Object) -> bool {
    resource.reread_since(object.revision).is_some()
        && ready(resource, resource.storage_version(), object).is_none_or(|it| it != object.json)
}

/// What asks the webhook of a resource for those objects that are not ready in a version; `None` when all are.
pub fn preparation<'o>(
    resource: &Arc<Resource>,
    version: &str,
    objects: impl IntoIterator<Item = &'o Arc<Object>>,
) -> Option<BoxFuture<'static, Result<(), Status>>> {
    let Some(Converter::Webhook(webhook)) = resource.converter() else {
        return None;
    };
    let view = webhook.view(version);
    let is_missing = |it: &&Arc<Object>| !is_in(resource, version, it) && it.kept_view(&view).is_none();
    let missing: Vec<Arc<Object>> = objects.into_iter().filter(is_missing).cloned().collect();
    if missing.is_empty() {
        return None;
    }
    let (webhook, resource, version) = (webhook.clone(), resource.clone(), version.to_owned());
    Some(Box::pin(async move {
        let api_version = resource.api_version(&version);
        let convert = async |batch: &[Arc<Object>]| {
            let values = batch.iter().map(|it| it.value()).collect();
            let converted = webhook.convert(values, &api_version).await?;
            for (object, mut value) in batch.iter().zip(converted) {
                content::prune_converted(&resource, &version, &mut value);
                object.view(&view, || encode(&value));
            }
            Ok(())
        };
        for batch in missing.chunks(webhook::BATCH) {
            let Err(status) = convert(batch).await else { continue };
            if batch.len() == 1 {
                return Err(status);
            }
            // One bad object does not keep those before it from a watch.
            for object in batch {
                convert(std::slice::from_ref(object)).await?;
            }
        }
        Ok(())
    }))
}

/// Asks the webhook of a resource, if it has one, for the objects in a version, so that all of them are ready.
///
/// # Errors
/// 500 when the webhook fails.
pub async fn prepare(resource: &Arc<Resource>, version: &str, objects: &[Arc<Object>]) -> Result<(), Status> {
    match preparation(resource, version, objects) {
        Some(work) => work.await,
        None => Ok(()),
    }
}

/// The bytes of an object in a version.
///
/// # Errors
/// 500 when a webhook has to be asked and fails.
pub async fn bytes(resource: &Arc<Resource>, version: &str, object: &Arc<Object>) -> Result<Bytes, Status> {
    if let Some(ready) = ready(resource, version, object) {
        return Ok(ready);
    }
    prepare(resource, version, std::slice::from_ref(object)).await?;
    Ok(ready_or_stored(resource, version, object))
}

/// The bytes of an object that is prepared.
pub fn ready_or_stored(resource: &Resource, version: &str, object: &Object) -> Bytes {
    ready(resource, version, object).unwrap_or_else(|| object.json.clone())
}

/// An object that is prepared.
pub fn ready_value(resource: &Resource, version: &str, object: &Object) -> Value {
    let bytes = ready_or_stored(resource, version, object);
    serde_json::from_slice(&bytes).expect("the bytes were serialized from a value")
}

/// An object in a version.
///
/// # Errors
/// 500 when a webhook has to be asked and fails.
pub async fn value(resource: &Arc<Resource>, version: &str, object: &Arc<Object>) -> Result<Value, Status> {
    let bytes = bytes(resource, version, object).await?;
    Ok(serde_json::from_slice(&bytes).expect("the bytes were serialized from a value"))
}

fn encode(value: &Value) -> Bytes {
    serde_json::to_vec(value).expect("a JSON value serializes").into()
}

fn relabel(resource: &Resource, version: &str, value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        map.insert("apiVersion".into(), resource.api_version(version).into());
    }
}

/// Turns a value of any version of a resource into `version` as far as this process can, without what that version's
/// schema does not know.
pub fn between_here(resource: &Resource, version: &str, value: &mut Value) {
    let api_version = resource.api_version(version);
    if let Some(Converter::Plugin(plugin)) = resource.converter()
        && value["apiVersion"] != api_version
    {
        plugin.convert(value, &api_version);
        content::prune_converted(resource, version, value);
    }
    relabel(resource, version, value);
}

/// Turns a value of any version of a resource into `version`, without what that version's schema does not know.
///
/// # Errors
/// 500 when a webhook has to be asked and fails.
pub async fn between(resource: &Resource, version: &str, value: &mut Value) -> Result<(), Status> {
    let api_version = resource.api_version(version);
    if let Some(Converter::Webhook(webhook)) = resource.converter()
        && value["apiVersion"] != api_version
    {
        let converted = webhook.convert(vec![value.take()], &api_version).await?;
        *value = converted.into_iter().next().unwrap_or_default();
        content::prune_converted(resource, version, value);
        return Ok(());
    }
    between_here(resource, version, value);
    Ok(())
}

/// Turns a value that a client sent in `version` into the storage version. What that version defaults is filled in
/// here, where a real API server does so each time it reads.
///
/// # Errors
/// 500 when a webhook has to be asked and fails.
pub async fn to_storage(resource: &Resource, value: &mut Value) -> Result<(), Status> {
    if is_other_event_group(resource) {
        event_to_core(value);
        if let Some(map) = value.as_object_mut() {
            map.insert("apiVersion".into(), "v1".into());
        }
        return Ok(());
    }
    let version = resource.storage_version();
    let differs = value["apiVersion"] != resource.api_version(version);
    between(resource, version, value).await?;
    if differs && resource.converter().is_some() {
        content::default_stored(resource, value);
    }
    Ok(())
}

/// `events.k8s.io` shows the objects of the core group's events under other field names.
fn is_other_event_group(resource: &Resource) -> bool {
    resource.group == "events.k8s.io"
}

const EVENT_FIELDS: [(&str, &str); 7] = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn rename(map: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = map.remove(from) {
        map.insert(to.into(), value);
    }
}

fn event_from_core(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        for (core, other) in EVENT_FIELDS {
            rename(map, core, other);
        }
    }
}

fn event_to_core(value: &mut Value) {
    if let Some(map) = value.as_object_mut() {
        for (core, other) in EVENT_FIELDS {
            rename(map, other, core);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_is_unchanged_after_conversion_to_core_and_back() {
        let event =
            json!({"note": "n", "regarding": {"kind": "Pod"}, "reportingController": "c", "deprecatedCount": 2});
        let mut value = event.clone();
        event_to_core(&mut value);
        assert_eq!(value["message"], "n");
        event_from_core(&mut value);
        assert_eq!(value, event);
    }
}
