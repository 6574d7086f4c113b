//! PersistentVolumes and their claims, which nothing here provides.

use super::{
    defaults::{self, entry, set},
    strategy::{Columns, Strategy},
    validation::published,
};
use crate::{call::Call, object_meta, table::cells};
use jiff::Timestamp;
use kube_store::status::{FieldError, Status};
use serde_json::{Map, Value, json};

/// PersistentVolumeClaim.
pub struct PersistentVolumeClaims;

impl Strategy for PersistentVolumeClaims {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|VolumeMode*",
            claim_row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        defaults::volumes::claim(object);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }

    fn prepare_for_create(&self, _call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        protect(value, CLAIM_PROTECTION);
        Ok(())
    }

    fn added_late(&self) -> &'static [&'static str] {
        &["/metadata/finalizers"]
    }
}

/// PersistentVolume.
pub struct PersistentVolumes;

impl Strategy for PersistentVolumes {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason|Age|VolumeMode*",
            volume_row,
        )
    }

    fn default(&self, object: &mut Map<String, Value>) {
        set(entry(object, "status"), "phase", "Pending");
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }

    fn prepare_for_create(&self, _call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        protect(value, VOLUME_PROTECTION);
        Ok(())
    }

    fn added_late(&self) -> &'static [&'static str] {
        &["/metadata/finalizers"]
    }
}

/// The finalizers that keep an object while somebody uses it.
pub const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
pub const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

fn protect(value: &mut Value, finalizer: &str) {
    let finalizers = object_meta::metadata(value).entry("finalizers").or_insert(Value::Null);
    match finalizers.as_array_mut() {
        Some(all) if all.iter().any(|it| it == finalizer) => {}
        Some(all) => all.push(finalizer.into()),
        None => *finalizers = json!([finalizer]),
    }
}

/// `RWO,ROX,...` in Kubernetes' order.
fn access_modes(modes: &[Value]) -> String {
    let known = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| modes.iter().any(|it| it.as_str() == Some(mode));
    known
        .iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| *short)
        .collect::<Vec<_>>()
        .join(",")
}

/// The class, which old objects have in an annotation.
fn storage_class_of(it: &Value) -> &str {
    let annotation = cells::at(
        it,
        &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"],
    )
    .as_str();
    annotation.unwrap_or_else(|| cells::text(it, &["spec", "storageClassName"]))
}

fn phase(it: &Value) -> &str {
    match cells::at(it, &["metadata", "deletionTimestamp"]) {
        Value::Null => cells::text(it, &["status", "phase"]),
        _ => "Terminating",
    }
}

fn claim_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let volume = cells::text(it, &["spec", "volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        let capacity = cells::int_or_string(cells::at(it, &["status", "capacity", "storage"]), "0");
        (capacity, access_modes(cells::list(it, &["status", "accessModes"])))
    };
    vec![
        cells::name(it),
        phase(it).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        storage_class_of(it).into(),
        cells::or(cells::text(it, &["spec", "volumeAttributesClassName"]), cells::UNSET).into(),
        cells::age(it, now),
        cells::or(cells::text(it, &["spec", "volumeMode"]), cells::UNSET).into(),
    ]
}

fn volume_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match cells::at(it, &["spec", "claimRef"]) {
        Value::Null => String::new(),
        claim => format!(
            "{}/{}",
            cells::text(claim, &["namespace"]),
            cells::text(claim, &["name"])
        ),
    };
    vec![
        cells::name(it),
        cells::int_or_string(cells::at(it, &["spec", "capacity", "storage"]), "0").into(),
        access_modes(cells::list(it, &["spec", "accessModes"])).into(),
        cells::text(it, &["spec", "persistentVolumeReclaimPolicy"]).into(),
        phase(it).into(),
        claim.into(),
        storage_class_of(it).into(),
        cells::or(cells::text(it, &["spec", "volumeAttributesClassName"]), cells::UNSET).into(),
        cells::text(it, &["status", "reason"]).into(),
        cells::age(it, now),
        cells::or(cells::text(it, &["spec", "volumeMode"]), cells::UNSET).into(),
    ]
}
