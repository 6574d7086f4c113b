//! What an AppliedManifestWork has on record of the objects that its work has applied.

use ocm_api::work::{AppliedManifestResourceMeta, AppliedManifestWork};
use ocm_reconcile::{Site, Target};

use super::{manifest::ObjectKey, seen::Item};

/// All of it.
pub fn of(trace: Option<&AppliedManifestWork>) -> impl Iterator<Item = &AppliedManifestResourceMeta> {
    let status = trace.into_iter().filter_map(|it| it.status.as_ref());
    status.flat_map(|it| &it.applied_resources)
}

/// Where a recorded object is.
pub fn key_of(record: &AppliedManifestResourceMeta) -> ObjectKey {
    ObjectKey {
        group: record.group.clone(),
        version: record.version.clone(),
        resource: record.resource.clone(),
        namespace: record.namespace.clone(),
        name: record.name.clone(),
    }
}

/// What the trace has on record and this work does not want any more. A manifest that cannot be resolved at present
/// still counts as wanted: an object is not removed because discovery failed.
pub fn unwanted<'a>(
    trace: &'a AppliedManifestWork,
    items: &'a [Item],
) -> impl Iterator<Item = &'a AppliedManifestResourceMeta> {
    of(Some(trace)).filter(move |record| !items.iter().any(|it| wants(it, record)))
}

/// Whether a manifest is of the object on record.
pub fn wants(item: &Item, record: &AppliedManifestResourceMeta) -> bool {
    if let Some(key) = &item.key {
        return key.same_object(&key_of(record));
    }
    let (gvk, namespace, name) = match &item.manifest {
        Ok(it) => (&it.gvk, &it.namespace, &it.name),
        Err(it) => (&it.gvk, &it.namespace, &it.name),
    };
    gvk.group == record.group && *name == record.name && (record.namespace.is_empty() || *namespace == record.namespace)
}

/// The record of an object.
pub fn of_object(key: &ObjectKey, uid: String) -> AppliedManifestResourceMeta {
    AppliedManifestResourceMeta {
        group: key.group.clone(),
        resource: key.resource.clone(),
        name: key.name.clone(),
        namespace: key.namespace.clone(),
        version: key.version.clone(),
        uid,
    }
}

/// In the order in which they are listed.
pub fn sort(records: &mut [AppliedManifestResourceMeta]) {
    records.sort_by(|left, right| {
        let order = |it: &AppliedManifestResourceMeta| {
            [&it.group, &it.version, &it.resource, &it.namespace, &it.name].map(String::clone)
        };
        order(left).cmp(&order(right))
    });
}

/// Where a step of ours went, if it went to an object of a work.
pub fn key_of_target(target: &Target) -> Option<ObjectKey> {
    let resource = &target.api_resource;
    is_object(target).then(|| ObjectKey {
        group: resource.group.clone(),
        version: resource.version.clone(),
        resource: resource.plural.clone(),
        namespace: target.namespace.clone().unwrap_or_default(),
        name: target.name.clone(),
    })
}

/// Whether it is an object of a work that is written, rather than the work or its trace.
pub fn is_object(target: &Target) -> bool {
    let resource = &target.api_resource;
    let is_trace = resource.group == ocm_api::work::GROUP && resource.plural == AppliedManifestWork::PLURAL;
    target.site == Site::Cluster && !is_trace
}
