//! Defaults of where volumes are: those of pods, and those that are there for themselves.

use super::{entry, member, set};
use serde_json::{Map, Value};

/// Fills in what a pod's volume, or the specification of a persistent volume, leaves out of its source.
pub(super) fn source(volume: &mut Map<String, Value>) {
    let defaults: [(&str, &[(&str, Value)]); 5] = [
        ("hostPath", &[("type", "".into())]),
        ("iscsi", &[("iscsiInterface", "default".into())]),
        (
            "rbd",
            &[
                ("pool", "rbd".into()),
                ("user", "admin".into()),
                ("keyring", "/etc/ceph/keyring".into()),
            ],
        ),
        (
            "azureDisk",
            &[
                ("cachingMode", "ReadWrite".into()),
                ("fsType", "ext4".into()),
                ("readOnly", false.into()),
                ("kind", "Shared".into()),
            ],
        ),
        (
            "scaleIO",
            &[("storageMode", "ThinProvisioned".into()), ("fsType", "xfs".into())],
        ),
    ];
    for (kind, members) in defaults {
        if let Some(source) = member(volume, kind) {
            for (key, value) in members {
                set(source, key, value.clone());
            }
        }
    }
}

pub(super) fn persistent(object: &mut Map<String, Value>) {
    let spec = entry(object, "spec");
    set(spec, "persistentVolumeReclaimPolicy", "Retain");
    set(spec, "volumeMode", "Filesystem");
    source(spec);
    set(entry(object, "status"), "phase", "Pending");
}

pub(super) fn claim(object: &mut Map<String, Value>) {
    claim_spec(entry(object, "spec"));
    set(entry(object, "status"), "phase", "Pending");
}

pub(super) fn claim_spec(spec: &mut Map<String, Value>) {
    set(spec, "volumeMode", "Filesystem");
    for key in SOURCES {
        if let Some(source) = member(spec, key) {
            // Go does not leave it out.
            set(source, "apiGroup", Value::Null);
        }
    }
}

/// The two fields that say what a volume is filled from.
const SOURCES: [&str; 2] = ["dataSource", "dataSourceRef"];

/// What a client says in one of the two fields, the other says too: there are clients that know only the older.
pub(super) fn data_sources(spec: &mut Map<String, Value>) {
    let [older, newer] = SOURCES.map(|it| spec.get(it).filter(|it| it.is_object()).cloned());
    match (older, newer) {
        (Some(older), None) => {
            spec.insert(SOURCES[1].to_owned(), older);
        }
        (None, Some(mut newer)) if newer["namespace"].as_str().is_none_or(str::is_empty) => {
            newer.as_object_mut().and_then(|it| it.remove("namespace"));
            spec.insert(SOURCES[0].to_owned(), newer);
        }
        _ => {}
    }
}
