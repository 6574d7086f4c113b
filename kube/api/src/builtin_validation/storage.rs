//! Volumes, their classes and what attaches them.

use super::{
    changed, immutable, list, qualified_name, scheduling::node_selector, subdomain, supported, text, volume_sources,
    volumes::needed,
};
use kube_store::{schema::quantity, status::FieldError};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// How a volume may be used by several.
pub(super) const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn class(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let provisioner = text(new, "/provisioner");
    if provisioner.is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    } else {
        qualified_name(&provisioner.to_lowercase(), "provisioner", errors);
    }
    parameters(new, errors);
    one_of(new, "reclaimPolicy", &["Delete", "Retain"], errors);
    one_of(new, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], errors);
    if changed(new, old, "/allowedTopologies") {
        topologies(list(new, "/allowedTopologies"), errors);
    }
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(new, old, &format!("/{field}"), field, errors);
    }
}

fn parameters(new: &Value, errors: &mut Vec<FieldError>) {
    const COUNT_MAX: usize = 512;
    const BYTES_MAX: usize = 256 * 1024;
    let Some(parameters) = new["parameters"].as_object() else {
        return;
    };
    if parameters.len() > COUNT_MAX {
        errors.push(FieldError::too_long("parameters", COUNT_MAX));
        return;
    }
    if parameters.contains_key("") {
        let detail = "field can not be empty.";
        errors.push(FieldError::invalid("parameters", &json!(""), detail));
    }
    let bytes: usize = parameters
        .iter()
        .map(|(key, it)| key.len() + it.as_str().unwrap_or_default().len())
        .sum();
    if bytes > BYTES_MAX {
        errors.push(FieldError::too_long("parameters", BYTES_MAX));
    }
}

/// Errors of where volumes of a class may be.
fn topologies(terms: &[Value], errors: &mut Vec<FieldError>) {
    // Upstream compares with as many empty terms as there are terms, besides those before: an empty one is always a duplicate.
    let mut seen = vec![BTreeMap::new(); terms.len()];
    for (at, term) in terms.iter().enumerate() {
        let place = format!("allowedTopologies[{at}].matchLabelExpressions");
        let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (at, expression) in list(term, "/matchLabelExpressions").iter().enumerate() {
            let (key, field) = (text(expression, "/key"), format!("{place}[{at}].key"));
            let mut values = BTreeSet::new();
            needed(expression, "values", &format!("{place}[{at}]"), errors);
            for (value_at, value) in list(expression, "/values").iter().enumerate() {
                if !values.insert(value.as_str().unwrap_or_default()) {
                    errors.push(FieldError::duplicate(
                        format!("{place}[{at}].values[{value_at}]"),
                        value,
                    ));
                }
            }
            qualified_name(key, &field, errors);
            if all.insert(key, values).is_some() {
                errors.push(FieldError::duplicate(field, &json!(key)));
            }
        }
        let same = seen.iter().filter(|it| **it == all).count();
        errors.extend((0..same).map(|_| FieldError::duplicate(&place, &json!(""))));
        seen.push(all);
    }
}

fn one_of(new: &Value, field: &str, known: &[&str], errors: &mut Vec<FieldError>) {
    match new.get(field).and_then(Value::as_str) {
        Some(it) if !it.is_empty() && !known.contains(&it) => {
            errors.push(FieldError::not_supported(field, &json!(it), known));
        }
        _ => {}
    }
}

pub(super) fn volume(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if changed(new, old, "/spec") {
        volume_spec(&new["spec"], text(new, "/metadata/name"), errors);
    }
    mount_options(new, errors);
    let Some(old) = old else { return };
    if source(new) != source(old) && source(&without_expand_secret(new, old)) != source(old) {
        errors.push(FieldError::forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        ));
    }
    immutable(new, Some(old), "/spec/volumeMode", "volumeMode", errors);
    node_affinity_stays(&new["spec"]["nodeAffinity"], &old["spec"]["nodeAffinity"], errors);
    let class = |it: &Value| it["spec"]["volumeAttributesClassName"].is_null();
    if class(new) && !class(old) {
        let detail = "update from non-nil value to nil is forbidden";
        errors.push(FieldError::forbidden("spec.volumeAttributesClassName", detail));
    }
}

/// Some volumes are mounted with options, and could be before there was a field for them.
fn mount_options(new: &Value, errors: &mut Vec<FieldError>) {
    const KEY: &str = "volume.beta.kubernetes.io/mount-options";
    const TAKE_THEM: [&str; 13] = [
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "gcePersistentDisk",
        "glusterfs",
        "iscsi",
        "nfs",
        "photonPersistentDisk",
        "quobyte",
        "rbd",
        "vsphereVolume",
    ];
    let given = !new["metadata"]["annotations"][KEY].is_null();
    if given && TAKE_THEM.iter().all(|it| new["spec"][it].is_null()) {
        let detail = "may not specify mount options for this volume type";
        errors.push(FieldError::forbidden(format!("metadata.annotations.{KEY}"), detail));
    }
}

fn volume_spec(spec: &Value, name: &str, errors: &mut Vec<FieldError>) {
    let modes = list(spec, "/accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required("spec.accessModes", ""));
    }
    for mode in modes {
        supported(mode, "spec.accessModes", &ACCESS_MODES, errors);
    }
    let alone = |it: &Value| it == "ReadWriteOncePod";
    if modes.iter().any(alone) && !modes.iter().all(alone) {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden("spec.accessModes", detail));
    }
    capacity(spec, errors);
    let policy = text(spec, "/persistentVolumeReclaimPolicy");
    const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        let field = "spec.persistentVolumeReclaimPolicy";
        errors.push(FieldError::not_supported(field, &json!(policy), &POLICIES));
    }
    let affinity = &spec["nodeAffinity"];
    match &affinity["required"] {
        required if required.is_object() => node_selector(required, "spec.nodeAffinity.required", errors),
        _ if affinity.is_object() => errors.push(FieldError::required(
            "spec.nodeAffinity.required",
            "must specify required node constraints",
        )),
        _ => {}
    }
    sources(spec, name, errors);
    let root = text(spec, "/hostPath/path");
    if !root.is_empty() && root.split('/').all(|it| it.is_empty() || it == ".") && policy == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden("spec.persistentVolumeReclaimPolicy", detail));
    }
    let class = text(spec, "/storageClassName");
    if !class.is_empty() {
        subdomain(class, "spec.storageClassName", errors);
    }
    if !spec["volumeMode"].is_null() {
        let known = ["Block", "Filesystem"];
        supported(&spec["volumeMode"], "spec.volumeMode", &known, errors);
    }
    if let Some(class) = spec["volumeAttributesClassName"].as_str() {
        let field = "spec.volumeAttributesClassName";
        match class {
            "" => errors.push(FieldError::required(field, "an empty string is disallowed")),
            class => subdomain(class, field, errors),
        }
        if spec["csi"].is_null() {
            let detail = "has to be specified when using volumeAttributesClassName";
            errors.push(FieldError::required("spec.csi", detail));
        }
    }
}

fn capacity(spec: &Value, errors: &mut Vec<FieldError>) {
    let given = spec["capacity"].as_object().filter(|it| !it.is_empty());
    if given.is_none() {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    if given.is_none_or(|it| it.len() > 1 || !it.contains_key("storage")) {
        let known = ["storage"];
        errors.push(FieldError::not_supported("spec.capacity", &spec["capacity"], &known));
    }
    for (name, amount) in given.into_iter().flatten() {
        let field = format!("spec.capacity[{name}]");
        let Some(milli) = amount.as_str().and_then(quantity::milli) else {
            continue;
        };
        if milli < 0 {
            // Parts of one are rounded away from zero, as a whole number of bytes.
            let whole = json!((milli - 999) / 1000);
            errors.push(FieldError::invalid(&field, &whole, "must be a valid resource quantity"));
        }
        if milli <= 0 {
            errors.push(FieldError::invalid(field, amount, "must be greater than zero"));
        }
    }
}

/// Errors of where a volume is: in exactly one place.
fn sources(spec: &Value, name: &str, errors: &mut Vec<FieldError>) {
    let mut given = volume_sources::KINDS.into_iter().filter(|it| !spec[it].is_null());
    let Some(first) = given.next() else {
        errors.push(FieldError::required("spec", "must specify a volume type"));
        return;
    };
    volume_sources::persistent(first, &spec[first], name, "spec", errors);
    if first == "local" && spec["nodeAffinity"].is_null() {
        let detail = "Local volume requires node affinity";
        errors.push(FieldError::required("spec.nodeAffinity", detail));
    }
    for more in given {
        // Of this kind alone upstream does not count.
        if more == "flexVolume" {
            volume_sources::persistent(more, &spec[more], name, "spec", errors);
            continue;
        }
        let field = if more == "cephfs" { "cephFS" } else { more };
        let detail = "may not specify more than 1 volume type";
        errors.push(FieldError::forbidden(format!("spec.{field}"), detail));
    }
}

/// Where the volume is.
fn source(volume: &Value) -> Vec<(&str, &Value)> {
    let spec = &volume["spec"];
    let kinds = volume_sources::KINDS.into_iter().filter(|it| !spec[it].is_null());
    kinds.map(|it| (it, &spec[it])).collect()
}

/// Labels of nodes that had other names once.
const RENAMED: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
];

/// Where a volume can be reached from does not change; only the names of labels may follow their time.
fn node_affinity_stays(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    if old.is_null() || new == old {
        return;
    }
    let mut renamed = old.clone();
    if let Some(terms) = renamed
        .pointer_mut("/required/nodeSelectorTerms")
        .and_then(Value::as_array_mut)
    {
        for (at, term) in terms.iter_mut().enumerate() {
            for list in ["matchExpressions", "matchFields"] {
                let asked = |place| new.pointer(&format!("/required/nodeSelectorTerms/{at}/{list}/{place}/key"));
                let expressions = term.get_mut(list).and_then(Value::as_array_mut);
                for (place, expression) in expressions.into_iter().flatten().enumerate() {
                    let wanted = asked(place);
                    let pair = |it: &&(&str, &str)| expression["key"] == it.0 && wanted.is_some_and(|key| key == it.1);
                    if let Some((_, name)) = RENAMED.iter().find(pair) {
                        expression["key"] = (*name).into();
                    }
                }
            }
        }
    }
    if *new != renamed {
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.push(FieldError::invalid("nodeAffinity", new, detail));
    }
}

/// A volume of a driver may be told later with which secret it grows.
fn without_expand_secret(new: &Value, old: &Value) -> Value {
    let mut new = new.clone();
    let had_none = old.pointer("/spec/csi/controllerExpandSecretRef").is_none();
    if let Some(csi) = new.pointer_mut("/spec/csi").and_then(Value::as_object_mut)
        && had_none
    {
        csi.remove("controllerExpandSecretRef");
    }
    new
}

pub(super) fn attachment(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    for field in ["attacher", "nodeName"] {
        if text(new, &format!("/spec/{field}")).is_empty() {
            errors.push(FieldError::required(format!("spec.{field}"), ""));
        }
    }
    let source = &new["spec"]["source"];
    let (inline, named) = (
        !source["inlineVolumeSpec"].is_null(),
        source.get("persistentVolumeName"),
    );
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (inline, named) {
        (false, None) => errors.push(FieldError::required("spec.source", detail)),
        (true, Some(_)) => errors.push(FieldError::forbidden("spec.source", detail)),
        (false, Some(name)) if name == "" => errors.push(FieldError::required(
            "spec.source.persistentVolumeName",
            "must specify non empty persistentVolumeName",
        )),
        _ => {}
    }
    immutable(new, old, "/spec", "spec", errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_validation::said_of;

    /// A volume of 1 GiB with one member more, or without one.
    fn disk(key: &str, value: Value) -> Value {
        let mut spec =
            json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/x"}});
        spec[key] = value;
        json!({"metadata": {"name": "v"}, "spec": spec})
    }

    #[test]
    fn a_persistent_volume_is_somewhere() {
        let table: [(Value, &[&str]); 11] = [
            (disk("volumeMode", json!("Block")), &[]),
            (
                disk("capacity", json!({"storage": "-1Gi"})),
                &[
                    "spec.capacity[storage]: Invalid value: -1073741824: must be a valid resource quantity",
                    "spec.capacity[storage]: Invalid value: \"-1Gi\": must be greater than zero",
                ],
            ),
            (
                disk("capacity", Value::Null),
                &[
                    "spec.capacity: Required value",
                    "spec.capacity: Unsupported value: null: supported values: \"storage\"",
                ],
            ),
            (
                disk("hostPath", json!({"path": ""})),
                &["spec.hostPath.path: Required value"],
            ),
            (
                disk("hostPath", Value::Null),
                &["spec: Required value: must specify a volume type"],
            ),
            (
                disk("csi", json!({"driver": ""})),
                &["spec.csi: Forbidden: may not specify more than 1 volume type"],
            ),
            (
                disk("nodeAffinity", json!({})),
                &["spec.nodeAffinity.required: Required value: must specify required node constraints"],
            ),
            (
                disk("nodeAffinity", json!({"required": {"nodeSelectorTerms": []}})),
                &[
                    "spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term",
                ],
            ),
            (
                disk("volumeMode", json!("X")),
                &["spec.volumeMode: Unsupported value: \"X\": supported values: \"Block\", \"Filesystem\""],
            ),
            (
                disk("volumeAttributesClassName", json!("")),
                &[
                    "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
                    "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
                ],
            ),
            (
                with_options(disk("volumeMode", json!("Block"))),
                &[
                    "metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this \
                   volume type",
                ],
            ),
        ];
        for (new, want) in table {
            assert_eq!(said_of(volume, &new, None), want, "{new}");
            // What was stored once may stay, but for what is not of its specification.
            if new["metadata"]["annotations"].is_null() {
                assert_eq!(said_of(volume, &new, Some(&new)), Vec::<String>::new(), "{new}");
            }
        }
    }

    fn with_options(mut volume: Value) -> Value {
        volume["metadata"]["annotations"] = json!({"volume.beta.kubernetes.io/mount-options": "ro"});
        volume
    }

    #[test]
    fn labels_of_a_volumes_nodes_may_take_their_new_names() {
        let on = |key: &str, zone: &str| {
            let expression = json!({"key": key, "operator": "In", "values": [zone]});
            let terms = json!([{"matchExpressions": [expression]}]);
            disk("nodeAffinity", json!({"required": {"nodeSelectorTerms": terms}}))
        };
        let old = on("failure-domain.beta.kubernetes.io/zone", "a");
        let change = |new: &Value| said_of(volume, new, Some(&old)).len();
        assert_eq!(change(&old), 0);
        assert_eq!(change(&on("topology.kubernetes.io/zone", "a")), 0);
        assert_eq!(change(&on("topology.kubernetes.io/zone", "b")), 1);
        assert_eq!(change(&on("topology.kubernetes.io/region", "a")), 1);
        let anywhere = disk("nodeAffinity", Value::Null);
        assert_eq!(said_of(volume, &old, Some(&anywhere)), Vec::<String>::new());
    }

    #[test]
    fn a_class_says_each_place_once() {
        let topologies = |terms: Value| {
            let new = json!({"provisioner": "p", "allowedTopologies": terms});
            said_of(class, &new, None)
        };
        let place = "allowedTopologies[0].matchLabelExpressions";
        let zone = |zones: Value| json!({"key": "zone", "values": zones});
        assert_eq!(
            topologies(json!([{"matchLabelExpressions": [zone(json!(["a", "b"]))]}])),
            Vec::<String>::new()
        );
        assert_eq!(
            topologies(json!([{"matchLabelExpressions": []}])),
            [format!("{place}: Duplicate value: \"\"")]
        );
        assert_eq!(
            topologies(json!([{"matchLabelExpressions": [zone(json!(["x", "x"])), zone(json!(["y"]))]}])),
            [
                format!("{place}[0].values[1]: Duplicate value: \"x\""),
                format!("{place}[1].key: Duplicate value: \"zone\""),
            ]
        );
        assert_eq!(
            topologies(json!([{"matchLabelExpressions": [zone(json!([]))]}])),
            [format!("{place}[0].values: Required value")]
        );
    }
}
