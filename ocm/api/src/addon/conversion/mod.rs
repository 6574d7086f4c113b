//! The add-on kinds in their other version: `v1alpha1`, which is stored, and `v1beta1`, which is served beside it.
//!
//! ClusterManagementAddOn and ManagedClusterAddOn say the same with other words in each version, and each version can
//! say something that the other cannot. A conversion loses none of it: what the target has no word for travels in one
//! annotation of the target, [`KEPT_OF_V1ALPHA1`] or [`KEPT_OF_V1BETA1`], and the conversion back takes it off again.
//! So an object that nobody changed comes back as it was, whichever version it started from.
//! The annotation is there only when there is something to keep, which for objects of today's tools is never; an entry
//! of a list is taken from it only while it still says what the entry beside it says, so an edit always wins. Upstream
//! (ocm pkg/addon/webhook) loses these things instead.
//!
//! AddOnDeploymentConfig and AddOnTemplate are the same in both versions.

mod cluster_management_add_on;
mod kept;
mod managed_cluster_add_on;
mod review;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{GROUP, v1alpha1, v1beta1};
pub use kept::{KEPT_OF_V1ALPHA1, KEPT_OF_V1BETA1};
pub use review::review;

/// A version of the add-on kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The stored one.
    V1Alpha1,
    /// The one served beside it.
    V1Beta1,
}

impl Version {
    /// The version's name.
    pub fn name(self) -> &'static str {
        match self {
            Version::V1Alpha1 => "v1alpha1",
            Version::V1Beta1 => "v1beta1",
        }
    }

    /// Reads `group/version`.
    fn of(api_version: &str) -> Option<Self> {
        match api_version.strip_prefix(GROUP)? {
            "/v1alpha1" => Some(Version::V1Alpha1),
            "/v1beta1" => Some(Version::V1Beta1),
            _ => None,
        }
    }
}

/// Why an object has no other version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is of another group, or of a version that does not exist.
    #[error("{kind} of {api_version:?} is none of the versions of the add-on kinds")]
    Version {
        /// The version it has or is to have.
        api_version: String,
        /// Its kind.
        kind: String,
    },
    /// It is of a kind that the group does not have.
    #[error("{kind:?} is no kind of {GROUP}")]
    Kind {
        /// Its kind.
        kind: String,
    },
    /// It is no object as Kubernetes has them.
    #[error("{field} of a {kind} is {found} where a map belongs")]
    NoMap {
        /// The field.
        field: &'static str,
        /// What it is instead.
        found: &'static str,
        /// Its kind.
        kind: String,
    },
}

/// Turns an object into another version; `api_version` is `group/version`. An object of that version stays as it is.
///
/// # Errors
/// When the object, or the version, is not one of the add-on group.
///
/// ```
/// use serde_json::json;
///
/// let mut addon = json!({
///     "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
///     "metadata": {"name": "helloworld", "namespace": "cluster1"}, "spec": {"installNamespace": "hello"},
/// });
/// let before = addon.clone();
/// ocm_api::addon::conversion::convert(&mut addon, "addon.open-cluster-management.io/v1beta1").unwrap();
/// let annotations = &addon["metadata"]["annotations"];
/// assert_eq!(annotations["addon.open-cluster-management.io/v1alpha1-install-namespace"], "hello");
///
/// ocm_api::addon::conversion::convert(&mut addon, "addon.open-cluster-management.io/v1alpha1").unwrap();
/// assert_eq!(addon, before);
/// ```
pub fn convert(object: &mut Value, api_version: &str) -> Result<(), Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, from) = (text(&object["kind"]), text(&object["apiVersion"]));
    let unknown = |api_version: &str| Error::Version {
        api_version: api_version.to_owned(),
        kind: kind.clone(),
    };
    let source = Version::of(&from).ok_or_else(|| unknown(&from))?;
    let target = Version::of(api_version).ok_or_else(|| unknown(api_version))?;
    // A schema has looked at what comes from an API server; what comes straight to a webhook nobody has.
    for (field, place) in [
        ("metadata", "/metadata"),
        ("metadata.annotations", "/metadata/annotations"),
        ("spec", "/spec"),
    ] {
        if let Some(found) = object.pointer(place).and_then(other_than_map) {
            return Err(Error::NoMap { field, found, kind });
        }
    }
    let changes = source != target;
    match kind.as_str() {
        "ClusterManagementAddOn" if changes => cluster_management_add_on::convert(object, target),
        "ManagedClusterAddOn" if changes => managed_cluster_add_on::convert(object, target),
        "ClusterManagementAddOn" | "ManagedClusterAddOn" | "AddOnDeploymentConfig" | "AddOnTemplate" => {}
        _ => return Err(Error::Kind { kind }),
    }
    object["apiVersion"] = api_version.into();
    Ok(())
}

/// What a value is when it is no map; nothing when it is one, or null.
fn other_than_map(value: &Value) -> Option<&'static str> {
    match value {
        Value::Null | Value::Object(_) => None,
        Value::Bool(_) => Some("a boolean"),
        Value::Number(_) => Some("a number"),
        Value::String(_) => Some("a string"),
        Value::Array(_) => Some("a list"),
    }
}

fn typed<From: Serialize, To: DeserializeOwned>(object: &From, target: Version) -> To {
    let mut value = serde_json::to_value(object).expect("the kinds serialize");
    let api_version = format!("{GROUP}/{}", target.name());
    convert(&mut value, &api_version).expect("the kinds of the group have both versions");
    serde_json::from_value(value).expect("a conversion writes what the other version reads")
}

macro_rules! both_ways {
    ($($kind:ident)*) => {$(
        impl From<&v1alpha1::$kind> for v1beta1::$kind {
            fn from(it: &v1alpha1::$kind) -> Self {
                typed(it, Version::V1Beta1)
            }
        }

        impl From<&v1beta1::$kind> for v1alpha1::$kind {
            fn from(it: &v1beta1::$kind) -> Self {
                typed(it, Version::V1Alpha1)
            }
        }
    )*};
}
both_ways!(ClusterManagementAddOn ManagedClusterAddOn AddOnDeploymentConfig AddOnTemplate);
