//! Kinds of `storage.k8s.io`, on which nothing here acts.

use super::{
    defaults::{entry, set},
    strategy::{Columns, Strategy},
    validation::published,
};
use crate::{
    default_class::{self, class_title},
    table::cells,
};
use jiff::Timestamp;
use kube_store::status::FieldError;
use serde_json::{Map, Value};

/// StorageClass.
pub struct StorageClasses;

impl Strategy for StorageClasses {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age",
            class_row,
        )
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

/// CSIDriver.
pub struct CsiDrivers;

impl Strategy for CsiDrivers {
    fn columns(&self) -> Columns {
        Columns::new(
            "Name|AttachRequired:boolean|PodInfoOnMount:boolean|StorageCapacity:boolean|TokenRequests|RequiresRepublish:boolean|Modes|Age",
            driver_row,
        )
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }

    // It has none until it changes first.
    fn is_made_with_generation(&self) -> bool {
        false
    }
}

/// CSINode.
pub struct CsiNodes;

impl Strategy for CsiNodes {
    fn columns(&self) -> Columns {
        Columns::new("Name|Drivers:integer|Age", |it, now| {
            vec![
                cells::name(it),
                cells::count(it, &["spec", "drivers"]).into(),
                cells::age(it, now),
            ]
        })
    }

    fn default(&self, object: &mut Map<String, Value>) {
        // A list that Go does not leave out.
        set(entry(object, "spec"), "drivers", Value::Null);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

/// VolumeAttachment.
pub struct VolumeAttachments;

impl Strategy for VolumeAttachments {
    fn columns(&self) -> Columns {
        Columns::new("Name|Attacher|PV|Node|Attached:boolean|Age", |it, now| {
            let spec = |path: &[&str]| cells::text(it, &[&["spec"], path].concat()).to_owned().into();
            let attached = cells::at(it, &["status", "attached"]).as_bool().unwrap_or_default();
            let volume = spec(&["source", "persistentVolumeName"]);
            vec![
                cells::name(it),
                spec(&["attacher"]),
                volume,
                spec(&["nodeName"]),
                attached.into(),
                cells::age(it, now),
            ]
        })
    }

    fn default(&self, object: &mut Map<String, Value>) {
        set(entry(object, "status"), "attached", false);
    }

    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }

    fn status_metadata(&self) -> &'static [&'static str] {
        &["managedFields"]
    }
}

/// CSIStorageCapacity.
pub struct StorageCapacities;

impl Strategy for StorageCapacities {
    fn validate(&self, new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        published::object(new, old, errors);
    }
}

fn driver_row(it: &Value, now: Timestamp) -> Vec<Value> {
    let switch = |key: &str| cells::at(it, &["spec", key]).as_bool().unwrap_or_default().into();
    let words = |path: &[&str], of: fn(&Value) -> Option<&str>| {
        let all: Vec<&str> = cells::list(it, path).iter().filter_map(of).collect();
        cells::or(&all.join(","), cells::UNSET).to_owned().into()
    };
    vec![
        cells::text(it, &["metadata", "name"]).into(),
        switch("attachRequired"),
        switch("podInfoOnMount"),
        switch("storageCapacity"),
        words(&["spec", "tokenRequests"], |it| it["audience"].as_str()),
        switch("requiresRepublish"),
        words(&["spec", "volumeLifecycleModes"], Value::as_str),
        cells::age(it, now),
    ]
}

fn class_row(it: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        class_title(it, default_class::OF_STORAGE),
        cells::text(it, &["provisioner"]).into(),
        cells::or(cells::text(it, &["reclaimPolicy"]), "Delete").into(),
        cells::or(cells::text(it, &["volumeBindingMode"]), "Immediate").into(),
        cells::at(it, &["allowVolumeExpansion"])
            .as_bool()
            .unwrap_or_default()
            .into(),
        cells::age(it, now),
    ]
}
