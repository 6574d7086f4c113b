//! Volumes, their classes and what attaches them.

use super::{immutable, list, supported, text};
use kube_store::{
    schema::{metadata::qualified_name_errors, quantity},
    status::FieldError,
};
use serde_json::{Value, json};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// What a volume's specification says besides where the volume is.
const NO_SOURCES: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(super) fn class(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let provisioner = text(new, "/provisioner");
    if provisioner.is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    } else {
        errors.extend(
            qualified_name_errors(&provisioner.to_lowercase())
                .iter()
                .map(|it| FieldError::invalid("provisioner", &json!(provisioner.to_lowercase()), it)),
        );
    }
    for key in new["parameters"].as_object().into_iter().flat_map(|it| it.keys()) {
        if key.is_empty() {
            errors.push(FieldError::invalid(
                "parameters",
                &json!(key),
                "field can not be empty.",
            ));
        }
    }
    one_of(new, "reclaimPolicy", &["Delete", "Retain"], errors);
    one_of(new, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"], errors);
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        immutable(new, old, &format!("/{field}"), field, errors);
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
    let spec = &new["spec"];
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
    match sources(spec).as_slice() {
        [] => errors.push(FieldError::required("spec", "must specify a volume type")),
        [only] => {
            let placed = !list(spec, "/nodeAffinity/required/nodeSelectorTerms").is_empty();
            if *only == "local" && !placed {
                errors.push(FieldError::required(
                    "spec.nodeAffinity",
                    "Local volume requires node affinity",
                ));
            }
        }
        [_, more @ ..] => {
            let detail = "may not specify more than 1 volume type";
            errors.extend(
                more.iter()
                    .map(|it| FieldError::forbidden(format!("spec.{it}"), detail)),
            );
        }
    }
    if let Some(old) = old
        && source(new) != source(old)
        && source(&without_expand_secret(new, old)) != source(old)
    {
        errors.push(FieldError::forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        ));
    }
    immutable(new, old, "/spec/volumeMode", "volumeMode", errors);
}

fn capacity(spec: &Value, errors: &mut Vec<FieldError>) {
    let given = spec["capacity"].as_object().filter(|it| !it.is_empty());
    let Some(given) = given else {
        errors.push(FieldError::required("spec.capacity", ""));
        return;
    };
    if given.len() > 1 || !given.contains_key("storage") {
        errors.push(FieldError::not_supported(
            "spec.capacity",
            &spec["capacity"],
            &["storage"],
        ));
    }
    for (name, amount) in given {
        if amount.as_str().and_then(quantity::milli).is_some_and(|it| it <= 0) {
            let field = format!("spec.capacity[{name}]");
            errors.push(FieldError::invalid(field, amount, "must be greater than zero"));
        }
    }
}

fn sources(spec: &Value) -> Vec<&str> {
    let fields = spec
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_null());
    fields
        .map(|(key, _)| key.as_str())
        .filter(|it| !NO_SOURCES.contains(it))
        .collect()
}

/// Where the volume is.
fn source(volume: &Value) -> Vec<(&str, &Value)> {
    let spec = &volume["spec"];
    sources(spec).into_iter().map(|it| (it, &spec[it])).collect()
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

pub(super) fn driver(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
    if let Some(policy) = new.pointer("/spec/fsGroupPolicy").filter(|it| !it.is_null()) {
        supported(policy, "spec.fsGroupPolicy", &POLICIES, errors);
    }
    for mode in list(new, "/spec/volumeLifecycleModes") {
        const MODES: [&str; 2] = ["Ephemeral", "Persistent"];
        supported(mode, "spec.volumeLifecycleModes", &MODES, errors);
    }
    // The first field is misspelt in Kubernetes' own answer.
    immutable(new, old, "/spec/attachRequired", "spec.attachedRequired", errors);
    immutable(
        new,
        old,
        "/spec/volumeLifecycleModes",
        "spec.volumeLifecycleModes",
        errors,
    );
}
