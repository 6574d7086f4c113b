//! Conversion: what turns the objects of a custom resource into its other versions. A plug-in of this process, or the
//! webhook that the definition names.
//!
//! A resource that a plug-in wants is read, written and watched in each of its versions with that version's own schema,
//! defaults and field ownership, whatever conversion its definition names. Without either the versions of a resource
//! differ in their `apiVersion` only.

pub(crate) mod autoscaler;
pub(crate) mod webhook;

use crate::callout::Caller;
use serde_json::Value;
use std::{fmt, sync::Arc};
use webhook::Webhook;

/// A conversion plug-in that runs in the server's process.
pub trait Conversion: Send + Sync {
    /// Whether the plug-in converts this resource, `plural.group`.
    fn wants(&self, resource: &str) -> bool;

    /// Turns an object, whose `apiVersion` says what it is, into `api_version`. It changes nothing of the metadata but
    /// labels and annotations. It does not fail: what the server stores has a view in every version.
    fn convert(&self, object: &mut Value, api_version: &str);
}

/// Where the converters of resources come from.
#[derive(Clone)]
pub(crate) struct Converters {
    pub plugins: Vec<Arc<dyn Conversion>>,
    pub caller: Arc<Caller>,
}

impl Converters {
    /// Who converts the resource of a definition: the first plug-in that wants it, or its webhook.
    pub fn find(&self, resource: &str, crd: &Value) -> Option<Converter> {
        let plugin = self.plugins.iter().find(|it| it.wants(resource)).cloned();
        plugin
            .map(Converter::Plugin)
            .or_else(|| Webhook::read(crd, &self.caller).map(Arc::new).map(Converter::Webhook))
    }
}

/// Who converts the objects of one resource.
#[derive(Clone)]
pub enum Converter {
    Plugin(Arc<dyn Conversion>),
    Webhook(Arc<Webhook>),
}

impl fmt::Debug for Converter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Converter")
    }
}
