//! Conversion in process: plug-ins that turn the objects of a custom resource into its other versions.
//!
//! A resource that a plug-in wants is read, written and watched in each of its versions with that version's own schema,
//! defaults and field ownership, whatever conversion its definition names. Without a plug-in the versions of a resource
//! differ in their `apiVersion` only.

use serde_json::Value;
use std::{fmt, sync::Arc};

/// A conversion plug-in that runs in the server's process.
pub trait Conversion: Send + Sync {
    /// Whether the plug-in converts this resource, `plural.group`.
    fn wants(&self, resource: &str) -> bool;

    /// Turns an object, whose `apiVersion` says what it is, into `api_version`. It changes nothing of the metadata but
    /// labels and annotations. It does not fail: what the server stores has a view in every version.
    fn convert(&self, object: &mut Value, api_version: &str);
}

/// The plug-in of one resource.
#[derive(Clone)]
pub struct Converter(Arc<dyn Conversion>);

impl Converter {
    /// The first plug-in that wants a resource.
    pub fn find(plugins: &[Arc<dyn Conversion>], resource: &str) -> Option<Self> {
        plugins.iter().find(|it| it.wants(resource)).cloned().map(Self)
    }

    /// Turns an object into `api_version`.
    pub fn convert(&self, object: &mut Value, api_version: &str) {
        self.0.convert(object, api_version);
    }
}

impl fmt::Debug for Converter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Converter")
    }
}
