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
