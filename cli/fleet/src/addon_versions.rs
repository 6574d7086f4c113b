//! The add-on kinds in both versions, inside the embedded API server. On a real Kubernetes the same function is a
//! webhook.

use kube_api::conversion::Conversion;
use ocm_api::addon::{GROUP, conversion};
use serde_json::Value;

/// Converts the add-on kinds.
pub struct AddOnVersions;

impl Conversion for AddOnVersions {
    fn wants(&self, resource: &str) -> bool {
        let of_group = resource.split_once('.').filter(|(_, group)| *group == GROUP);
        matches!(of_group, Some(("clustermanagementaddons" | "managedclusteraddons", _)))
    }

    fn convert(&self, object: &mut Value, api_version: &str) {
        if let Err(error) = conversion::convert(object, api_version) {
            tracing::error!(%error, "an add-on object has no other version");
        }
    }
}
