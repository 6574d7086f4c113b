//! Cells of nodes and of storage.

use super::cells::{NONE, UNSET, age, at, int_or_string, list, name, or, text};
use crate::default_class;
use jiff::Timestamp;
use serde_json::Value;

const UNKNOWN: &str = "<unknown>";

pub(super) fn node(it: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(it, &["status", "conditions"])
        .iter()
        .find(|it| text(it, &["type"]) == "Ready");
    let ready = match ready {
        None => "Unknown",
        Some(it) if text(it, &["status"]) == "True" => "Ready",
        Some(_) => "NotReady",
    };
    let cordoned = at(it, &["spec", "unschedulable"]).as_bool().unwrap_or_default();
    let status = format!("{ready}{}", if cordoned { ",SchedulingDisabled" } else { "" });
    let labels = at(it, &["metadata", "labels"]).as_object();
    let role = |(key, value): (&String, &Value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) if !role.is_empty() => Some(role.to_owned()),
        None if key == "kubernetes.io/role" => value.as_str().filter(|it| !it.is_empty()).map(str::to_owned),
        _ => None,
    };
    let mut roles: Vec<String> = labels.into_iter().flatten().filter_map(role).collect();
    roles.sort();
    roles.dedup();
    let address = |ty: &str| {
        let found = list(it, &["status", "addresses"])
            .iter()
            .find(|it| text(it, &["type"]) == ty);
        Value::from(found.map_or(NONE, |it| text(it, &["address"])))
    };
    let info = |field: &str| Value::from(or(text(it, &["status", "nodeInfo", field]), UNKNOWN));
    vec![
        name(it),
        status.into(),
        or(&roles.join(","), NONE).into(),
        age(it, now),
        text(it, &["status", "nodeInfo", "kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
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
    let annotation = at(
        it,
        &["metadata", "annotations", "volume.beta.kubernetes.io/storage-class"],
    )
    .as_str();
    annotation.unwrap_or_else(|| text(it, &["spec", "storageClassName"]))
}

fn phase(it: &Value) -> &str {
    match at(it, &["metadata", "deletionTimestamp"]) {
        Value::Null => text(it, &["status", "phase"]),
        _ => "Terminating",
    }
}

pub(super) fn volume_claim(it: &Value, now: Timestamp) -> Vec<Value> {
    let volume = text(it, &["spec", "volumeName"]);
    let (capacity, modes) = if volume.is_empty() {
        (String::new(), String::new())
    } else {
        let capacity = int_or_string(at(it, &["status", "capacity", "storage"]), "0");
        (capacity, access_modes(list(it, &["status", "accessModes"])))
    };
    vec![
        name(it),
        phase(it).into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        storage_class_of(it).into(),
        or(text(it, &["spec", "volumeAttributesClassName"]), UNSET).into(),
        age(it, now),
        or(text(it, &["spec", "volumeMode"]), UNSET).into(),
    ]
}

pub(super) fn volume(it: &Value, now: Timestamp) -> Vec<Value> {
    let claim = match at(it, &["spec", "claimRef"]) {
        Value::Null => String::new(),
        claim => format!("{}/{}", text(claim, &["namespace"]), text(claim, &["name"])),
    };
    vec![
        name(it),
        int_or_string(at(it, &["spec", "capacity", "storage"]), "0").into(),
        access_modes(list(it, &["spec", "accessModes"])).into(),
        text(it, &["spec", "persistentVolumeReclaimPolicy"]).into(),
        phase(it).into(),
        claim.into(),
        storage_class_of(it).into(),
        or(text(it, &["spec", "volumeAttributesClassName"]), UNSET).into(),
        text(it, &["status", "reason"]).into(),
        age(it, now),
        or(text(it, &["spec", "volumeMode"]), UNSET).into(),
    ]
}

pub(super) fn csi_driver(it: &Value, now: Timestamp) -> Vec<Value> {
    let switch = |key: &str| at(it, &["spec", key]).as_bool().unwrap_or_default().into();
    let words = |path: &[&str], of: fn(&Value) -> Option<&str>| {
        let all: Vec<&str> = list(it, path).iter().filter_map(of).collect();
        or(&all.join(","), UNSET).to_owned().into()
    };
    vec![
        text(it, &["metadata", "name"]).into(),
        switch("attachRequired"),
        switch("podInfoOnMount"),
        switch("storageCapacity"),
        words(&["spec", "tokenRequests"], |it| it["audience"].as_str()),
        switch("requiresRepublish"),
        words(&["spec", "volumeLifecycleModes"], Value::as_str),
        age(it, now),
    ]
}

/// The name of a class, and whether it is the default one.
pub(super) fn class_title(it: &Value, keys: &[&str]) -> Value {
    let mark = if default_class::is_default(it, keys) {
        " (default)"
    } else {
        ""
    };
    format!("{}{mark}", text(it, &["metadata", "name"])).into()
}

pub(super) fn storage_class(it: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        class_title(it, default_class::OF_STORAGE),
        text(it, &["provisioner"]).into(),
        or(text(it, &["reclaimPolicy"]), "Delete").into(),
        or(text(it, &["volumeBindingMode"]), "Immediate").into(),
        at(it, &["allowVolumeExpansion"]).as_bool().unwrap_or_default().into(),
        age(it, now),
    ]
}
