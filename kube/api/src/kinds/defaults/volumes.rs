//! Defaults of volumes and of claims of them.

use super::{entry, member, set};
use serde_json::{Map, Value};

/// Fills in what a pod's volume leaves out of its source.
pub fn source(volume: &mut Map<String, Value>) {
    if let Some(path) = member(volume, "hostPath") {
        set(path, "type", "");
    }
}

pub fn claim(object: &mut Map<String, Value>) {
    claim_spec(entry(object, "spec"));
    set(entry(object, "status"), "phase", "Pending");
}

pub fn claim_spec(spec: &mut Map<String, Value>) {
    set(spec, "volumeMode", "Filesystem");
    for key in ["dataSource", "dataSourceRef"] {
        if let Some(source) = member(spec, key) {
            // Go does not leave it out.
            set(source, "apiGroup", Value::Null);
        }
    }
}
