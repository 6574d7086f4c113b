//! Who owns which field of an object: `metadata.managedFields`, as the store keeps them for one call.

use crate::{
    call::Call, conversion::Converter, convert, group_version::split_api_version, object_meta::ResetFields,
    options::WriteOptions, registry::Resource,
};
use kube_store::{managed, schema::Schema};
use serde_json::Value;
use std::sync::Arc;

/// Records in `metadata.managedFields` who wrote what.
pub fn track(call: &Call<'_>, reset: ResetFields, old: Option<&Value>, new: &mut Value, options: &WriteOptions) {
    with_context(call, reset, &options.field_manager, |context| {
        managed::update(old, new, context)
    });
}

/// Runs `f` with the context of field ownership for this call.
pub fn with_context<T>(
    call: &Call<'_>,
    reset: ResetFields,
    manager: &str,
    f: impl FnOnce(&managed::Ctx<'_>) -> T,
) -> T {
    let schema = call.resource.schema(&call.version).unwrap_or_default();
    let served: Vec<String> = call
        .resource
        .versions
        .iter()
        .filter(|it| it.served)
        .map(|it| call.resource.api_version(&it.name))
        .collect();
    let served: Vec<&str> = served.iter().map(String::as_str).collect();
    let versions = OtherVersions(&call.resource);
    f(&managed::Ctx {
        manager,
        api_version: &call.resource.api_version(&call.version),
        subresource: &call.subresource,
        schema: &schema,
        now: call.now,
        reset_fields: reset,
        built_in: call.resource.is_builtin(),
        served: &served,
        // Fields have the same names in all versions where a webhook converts: ownership is settled on this machine.
        versions: matches!(call.resource.converter(), Some(Converter::Plugin(_))).then_some(&versions as _),
    })
}

/// The versions of a custom resource that a plug-in converts.
#[derive(Debug)]
struct OtherVersions<'a>(&'a Resource);

impl managed::Versions for OtherVersions<'_> {
    fn schema(&self, api_version: &str) -> Option<Arc<Schema>> {
        let (group, version) = split_api_version(api_version);
        self.0.version(version).filter(|_| group == self.0.group)?;
        self.0.schema(version)
    }

    fn convert(&self, object: &mut Value, api_version: &str) {
        convert::between_here(self.0, split_api_version(api_version).1, object);
    }
}
