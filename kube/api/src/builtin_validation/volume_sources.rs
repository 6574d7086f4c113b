//! Where volumes are: what each kind of store needs to be found. Pods and persistent volumes share most of it.
//! Upstream: pkg/apis/core/validation/validation.go, `validate*VolumeSource`.

use super::{
    csi, label, list, supported, text,
    volumes::{needed, source as of_pod},
};
use kube_store::status::FieldError;
use regex::Regex;
use serde_json::{Value, json};
use std::sync::LazyLock;

/// What a persistent volume can be, in the order in which upstream asks.
pub(super) const KINDS: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

/// Errors of the source of a persistent volume.
pub(super) fn persistent(kind: &str, it: &Value, volume: &str, spec: &str, errors: &mut Vec<FieldError>) {
    let place = match kind {
        "gcePersistentDisk" => format!("{spec}.persistentDisk"),
        _ => format!("{spec}.{kind}"),
    };
    match kind {
        "iscsi" => iscsi(it, volume, &place, errors),
        "local" => local(it, &place, errors),
        "csi" => csi::volume(it, &place, errors),
        _ => of_pod(kind, it, &place, errors),
    }
    // Pods have their secrets beside them; a volume has to say where.
    match kind {
        "cinder" | "storageos" if it["secretRef"].is_object() => {
            needed(&it["secretRef"], "namespace", &format!("{place}.secretRef"), errors);
        }
        "azureFile" if it["secretNamespace"] == "" => needed(it, "secretNamespace", &place, errors),
        "glusterfs" if !it["endpointsNamespace"].is_null() => {
            let field = format!("{place}.endpointsNamespace");
            match text(it, "/endpointsNamespace") {
                "" => {
                    let detail = "if the endpointnamespace is set, it must be a valid namespace name";
                    errors.push(FieldError::invalid(field, &json!(""), detail));
                }
                name => label(name, &field, errors),
            }
        }
        _ => {}
    }
}

/// Errors of a source that pods and persistent volumes describe alike.
pub(super) fn shared(kind: &str, it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let needs: &[&str] = match kind {
        "gcePersistentDisk" => &["pdName"],
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => &["volumeID"],
        "flexVolume" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "azureDisk" => &["diskName", "diskURI"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        "storageos" => &["volumeName"],
        _ => &[],
    };
    needs.iter().for_each(|key| needed(it, key, place, errors));
    match kind {
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            let partition = it["partition"].as_i64().unwrap_or_default();
            if !(0..=255).contains(&partition) {
                let detail = "must be between 1 and 255, inclusive";
                errors.push(FieldError::invalid(
                    format!("{place}.partition"),
                    &json!(partition),
                    detail,
                ));
            }
        }
        "flocker" => flocker(it, place, errors),
        "quobyte" => quobyte(it, place, errors),
        "fc" => fibre_channel(it, place, errors),
        "flexVolume" => flex_options(it, place, errors),
        "azureDisk" => azure_disk(it, place, errors),
        "storageos" => {
            for key in ["volumeName", "volumeNamespace"] {
                let name = text(it, &format!("/{key}"));
                if !name.is_empty() {
                    label(name, &format!("{place}.{key}"), errors);
                }
            }
        }
        _ => {}
    }
    if matches!(kind, "cinder" | "storageos") && it["secretRef"].is_object() {
        needed(&it["secretRef"], "name", &format!("{place}.secretRef"), errors);
    }
}

fn local(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    needed(it, "path", place, errors);
    super::no_backsteps(text(it, "/path"), &format!("{place}.path"), errors);
}

fn flocker(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let (name, id) = (text(it, "/datasetName"), text(it, "/datasetUUID"));
    match (name.is_empty(), id.is_empty()) {
        (true, true) => {
            let detail = "one of datasetName and datasetUUID is required";
            errors.push(FieldError::required(place, detail));
        }
        (false, false) => {
            let detail = "datasetName and datasetUUID can not be specified simultaneously";
            errors.push(FieldError::invalid(place, &json!("resource"), detail));
        }
        _ => {}
    }
    if name.contains('/') {
        let detail = "must not contain '/'";
        errors.push(FieldError::invalid(
            format!("{place}.datasetName"),
            &json!(name),
            detail,
        ));
    }
}

fn quobyte(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(it, "/registry");
    if registry.is_empty() {
        errors.push(FieldError::required(format!("{place}.registry"), PAIRS));
    } else if text(it, "/tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(format!("{place}.tenant"), detail));
    } else {
        let is_pair = |it: &&str| match it.rsplit_once(':') {
            None => false,
            Some((host, _)) => !host.contains(':') || host.starts_with('[') && host.ends_with(']'),
        };
        for _ in registry.split(',').filter(|it| !is_pair(it)) {
            let field = format!("{place}.registry");
            errors.push(FieldError::invalid(field, &json!(registry), PAIRS));
        }
    }
    needed(it, "volume", place, errors);
}

const LUN: &str = "must be between 0 and 255, inclusive";

fn fibre_channel(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let names = format!("{place}.targetWWNs");
    let (targets, ids) = (list(it, "/targetWWNs"), list(it, "/wwids"));
    match (targets.is_empty(), ids.is_empty()) {
        (true, true) => {
            let detail = "must specify either targetWWNs or wwids, but not both";
            errors.push(FieldError::required(names, detail));
        }
        (false, false) => {
            let detail = "targetWWNs and wwids can not be specified simultaneously";
            errors.push(FieldError::invalid(names, &json!(targets), detail));
        }
        _ => {}
    }
    if targets.is_empty() {
        return;
    }
    match it["lun"].as_i64() {
        None => {
            let detail = "lun is required if targetWWNs is specified";
            errors.push(FieldError::required(format!("{place}.lun"), detail));
        }
        Some(lun) if !(0..=255).contains(&lun) => {
            errors.push(FieldError::invalid(format!("{place}.lun"), &json!(lun), LUN));
        }
        Some(_) => {}
    }
}

fn flex_options(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    for key in it["options"].as_object().into_iter().flat_map(|it| it.keys()) {
        let owner = key.split_once('/').map_or(key.as_str(), |it| it.0);
        let owner = format!(".{}", owner.to_lowercase());
        if [".kubernetes.io", ".k8s.io"].iter().any(|it| owner.ends_with(it)) {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(
                format!("{place}.options[{key}]"),
                &json!(key),
                detail,
            ));
        }
    }
}

fn azure_disk(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    const CACHES: [&str; 3] = ["None", "ReadOnly", "ReadWrite"];
    const KINDS: [&str; 3] = ["Dedicated", "Managed", "Shared"];
    for (key, known) in [("cachingMode", CACHES), ("kind", KINDS)] {
        if !it[key].is_null() {
            supported(&it[key], format!("{place}.{key}"), &known, errors);
        }
    }
    let (address, field) = (text(it, "/diskURI"), format!("{place}.diskURI"));
    let (start, shown) = match &it["kind"] {
        Value::Null => return,
        kind if kind == "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => (
            "https://",
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
        ),
    };
    if !address.starts_with(start) {
        errors.push(FieldError::not_supported(field, &json!(address), &[shown]));
    }
}

/// Whether this is the name of one that offers iSCSI volumes, or of one that asks for them.
fn is_iscsi_name(name: &str) -> bool {
    static QUALIFIED: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"iqn\.[0-9]{4}-[0-9]{2}\.([[:alnum:].-]+)(:[^,;*&$|\t\n\f\r ]+)$")
            .expect("a constant that compiles")
    });
    static BY_HARDWARE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("^(eui.[[:alnum:]]{16}|naa.[[:alnum:]]{32})$").expect("a constant that compiles"));
    match name.get(..3) {
        Some("iqn") => QUALIFIED.is_match(name),
        Some("eui" | "naa") => BY_HARDWARE.is_match(name),
        _ => false,
    }
}

fn iscsi(it: &Value, volume: &str, place: &str, errors: &mut Vec<FieldError>) {
    const FORMAT: &str = "must be valid format";
    let portal = text(it, "/targetPortal");
    needed(it, "targetPortal", place, errors);
    let initiator = it["initiatorName"].as_str();
    if initiator.is_some() && volume.len() + 1 + portal.len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.push(FieldError::invalid(
            format!("{place}.targetportal"),
            &json!(portal),
            detail,
        ));
    }
    let name = text(it, "/iqn");
    needed(it, "iqn", place, errors);
    if !name.is_empty() && !is_iscsi_name(name) {
        errors.push(FieldError::invalid(format!("{place}.iqn"), &json!(name), FORMAT));
    }
    let lun = it["lun"].as_i64().unwrap_or_default();
    if !(0..=255).contains(&lun) {
        errors.push(FieldError::invalid(format!("{place}.lun"), &json!(lun), LUN));
    }
    let proves = ["chapAuthDiscovery", "chapAuthSession"]
        .iter()
        .any(|key| it[key] == true);
    match it["secretRef"].is_object() {
        true => needed(&it["secretRef"], "name", &format!("{place}.secretRef"), errors),
        false if proves => needed(it, "secretRef", place, errors),
        false => {}
    }
    if let Some(initiator) = initiator.filter(|it| !is_iscsi_name(it)) {
        let field = format!("{place}.initiatorname");
        errors.push(FieldError::invalid(field, &json!(initiator), FORMAT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_store_needs_something_else() {
        let table: [(&str, Value, &[&str]); 13] = [
            ("nfs", json!({"server": "s", "path": "/x"}), &[]),
            (
                "gcePersistentDisk",
                json!({}),
                &["spec.persistentDisk.pdName: Required value"],
            ),
            (
                "csi",
                json!({"driver": "a b"}),
                &[
                    "spec.csi.driver: Invalid value: \"a b\": a lowercase RFC 1123 subdomain must consist of",
                    "spec.csi.volumeHandle: Required value",
                ],
            ),
            (
                "csi",
                json!({"driver": "Ex.io", "volumeHandle": "x", "nodePublishSecretRef": {"name": "s"}}),
                &["spec.csi.nodePublishSecretRef.namespace: Required value"],
            ),
            (
                "iscsi",
                json!({"iqn": "x"}),
                &[
                    "spec.iscsi.targetPortal: Required value",
                    "spec.iscsi.iqn: Invalid value: \"x\": must be valid format",
                ],
            ),
            (
                "iscsi",
                json!({"targetPortal": "1.2.3.4", "iqn": "iqn.2001-04.com.example:storage.disk1", "chapAuthSession": true}),
                &["spec.iscsi.secretRef: Required value"],
            ),
            (
                "azureDisk",
                json!({"diskName": "x", "diskURI": "y", "kind": "Shared"}),
                &["spec.azureDisk.diskURI: Unsupported value: \"y\": supported values: \"https://{account-name}.blob"],
            ),
            (
                "azureFile",
                json!({"secretName": "x", "shareName": "y", "secretNamespace": ""}),
                &["spec.azureFile.secretNamespace: Required value"],
            ),
            (
                "cinder",
                json!({"volumeID": "x", "secretRef": {}}),
                &[
                    "spec.cinder.secretRef.name: Required value",
                    "spec.cinder.secretRef.namespace: Required value",
                ],
            ),
            (
                "fc",
                json!({"targetWWNs": ["a"]}),
                &["spec.fc.lun: Required value: lun is required if targetWWNs is specified"],
            ),
            (
                "flexVolume",
                json!({"driver": "d", "options": {"a.k8s.io/x": "", "x": ""}}),
                &[
                    "spec.flexVolume.options[a.k8s.io/x]: Invalid value: \"a.k8s.io/x\": kubernetes.io and k8s.io namespaces",
                ],
            ),
            ("quobyte", json!({"registry": "a:1,[::1]:2", "volume": "v"}), &[]),
            (
                "flocker",
                json!({"datasetName": "a/b"}),
                &["spec.flocker.datasetName: Invalid value: \"a/b\": must not contain '/'"],
            ),
        ];
        for (kind, it, want) in table {
            let mut errors = Vec::new();
            persistent(kind, &it, "v", "spec", &mut errors);
            let said: Vec<_> = errors.iter().map(|it| format!("{}: {}", it.field, it.detail)).collect();
            assert_eq!(said.len(), want.len(), "{said:?}");
            for (said, want) in said.iter().zip(want) {
                assert!(said.starts_with(want), "{said}");
            }
        }
    }
}
