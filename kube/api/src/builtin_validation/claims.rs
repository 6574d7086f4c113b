//! Claims of volumes: what is asked for, and what of it may change.

use super::{
    changed, immutable, label, list, scheduling::label_selector, storage::ACCESS_MODES, subdomain, supported, text,
};
use kube_store::{schema::quantity, status::FieldError};
use serde_json::{Value, json};

/// What said the class of a claim before there was a field for it.
pub(crate) const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

const STORAGE: &str = "/spec/resources/requests/storage";

pub(super) fn claim(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    // What was stored once may stay: its status is still to be written.
    if changed(new, old, "/spec") {
        claim_spec(&new["spec"], "spec", errors);
    }
    if let Some(old) = old {
        update(new, old, errors);
    }
}

/// The size of a claim, or of something like it, in thousandths of a byte.
pub(crate) fn size(claim: &Value, pointer: &str) -> i128 {
    let amount = claim.pointer(pointer).and_then(Value::as_str);
    amount.and_then(quantity::milli).unwrap_or_default()
}

/// The class that a claim names by the annotation of before.
fn beta_class(claim: &Value) -> Option<&str> {
    claim["metadata"]["annotations"][BETA_CLASS].as_str()
}

fn update(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let (before, now) = (beta_class(old), beta_class(new));
    let class = &new["spec"]["storageClassName"];
    let first_class = old["spec"]["storageClassName"].is_null() && !class.is_null();
    let as_before = before.is_some_and(|it| class == it);
    let moved_to_field = first_class && as_before && now.is_none_or(|it| class == it);
    if !moved_to_field && before != now {
        errors.push(FieldError::invalid(
            format!("metadata.annotations.{BETA_CLASS}"),
            &json!(now.unwrap_or_default()),
            "field is immutable",
        ));
    }
    let bound = old["status"]["phase"] == "Bound";
    let fixed = |claim: &Value| {
        let mut spec = claim["spec"].clone();
        if let Some(map) = spec.as_object_mut() {
            // A claim is bound to a volume once, and a class that came later takes it in.
            if old["spec"]["volumeName"].is_null() {
                map.remove("volumeName");
            }
            if first_class && (before.is_none() || as_before) {
                map.remove("storageClassName");
            }
            if bound {
                map.remove("volumeAttributesClassName");
            }
        }
        if bound && let Some(requests) = spec.pointer_mut("/resources/requests").and_then(Value::as_object_mut) {
            requests.remove("storage");
        }
        spec
    };
    if fixed(new) != fixed(old) {
        let detail =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", detail));
    }
    // What could not be grown may be asked for in less again, but for no less than there is.
    let asked = size(new, STORAGE);
    if asked < size(old, STORAGE) && asked <= size(old, "/status/capacity/storage") {
        let detail = "field can not be less than status.capacity";
        errors.push(FieldError::forbidden("spec.resources.requests.storage", detail));
    }
    immutable(new, Some(old), "/spec/volumeMode", "volumeMode", errors);
    let attributes = |it: &Value| it["spec"]["volumeAttributesClassName"].clone();
    if attributes(new) != attributes(old) && !old["status"]["currentVolumeAttributesClassName"].is_null() {
        let to = match attributes(new) {
            Value::Null => "nil",
            it if it == "" => "empty string",
            _ => return,
        };
        let detail = format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
        errors.push(FieldError::forbidden("spec.volumeAttributesClassName", detail));
    }
}

/// Errors of what is claimed of a volume.
pub(super) fn claim_spec(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let modes = list(spec, "/accessModes");
    let field = format!("{place}.accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(&field, "at least 1 access mode is required"));
    }
    label_selector(&spec["selector"], &format!("{place}.selector"), errors);
    for mode in modes {
        supported(mode, &field, &ACCESS_MODES, errors);
    }
    let alone = |it: &&Value| **it == "ReadWriteOncePod";
    let others = modes
        .iter()
        .any(|it| !alone(&it) && ACCESS_MODES.iter().any(|mode| it == mode));
    if others && modes.iter().any(|it| alone(&it)) {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(field, detail));
    }
    let field = format!("{place}.resources[storage]");
    match spec.pointer("/resources/requests/storage") {
        None => errors.push(FieldError::required(field, "")),
        Some(amount) => {
            let milli = amount.as_str().and_then(quantity::milli);
            if milli.is_some_and(|it| it <= 0) {
                errors.push(FieldError::invalid(field, amount, "must be greater than zero"));
            }
        }
    }
    let class = |key: &str, errors: &mut Vec<FieldError>| {
        let name = text(spec, &format!("/{key}"));
        if !name.is_empty() {
            subdomain(name, &format!("{place}.{key}"), errors);
        }
    };
    class("storageClassName", errors);
    if !spec["volumeMode"].is_null() {
        supported(
            &spec["volumeMode"],
            format!("{place}.volumeMode"),
            &["Block", "Filesystem"],
            errors,
        );
    }
    data_sources(spec, place, errors);
    class("volumeAttributesClassName", errors);
}

/// Errors of what a volume is to be filled from. There are two fields for it, which say the same unless only the newer is used.
fn data_sources(spec: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let (older, newer) = (&spec["dataSource"], &spec["dataSourceRef"]);
    for (key, source) in [("dataSource", older), ("dataSourceRef", newer)] {
        if source.is_object() {
            data_source(source, &format!("{place}.{key}"), errors);
        }
    }
    if !older.is_object() || !newer.is_object() {
        return;
    }
    // Upstream means to show the field, of which nothing is to be seen.
    let mut wrong = |detail: &str| errors.push(FieldError::invalid(place, &json!({}), detail));
    if !text(newer, "/namespace").is_empty() {
        wrong("may not be specified when dataSourceRef.namespace is specified");
    } else if ["apiGroup", "kind", "name"].iter().any(|key| older[key] != newer[key]) {
        wrong("must match dataSourceRef");
    }
}

fn data_source(source: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let (group, kind) = (text(source, "/apiGroup"), text(source, "/kind"));
    for key in ["name", "kind"] {
        if text(source, &format!("/{key}")).is_empty() {
            errors.push(FieldError::required(format!("{place}.{key}"), ""));
        }
    }
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(place, &json!(kind), detail));
    }
    if !group.is_empty() {
        subdomain(group, &format!("{place}.apiGroup"), errors);
    }
    let namespace = text(source, "/namespace");
    if !namespace.is_empty() {
        label(namespace, &format!("{place}.namespace"), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(new: &Value, old: Option<&Value>) -> Vec<String> {
        crate::builtin_validation::said(|it| claim(new, old, it))
    }

    /// A claim of an amount with more in its specification.
    fn of(amount: &str, more: &Value) -> Value {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": amount}}});
        for (key, value) in more.as_object().expect("an object") {
            spec[key] = value.clone();
        }
        json!({"spec": spec, "status": {"phase": "Pending"}})
    }

    const FIXED: &str = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

    #[test]
    fn a_claim_says_how_it_is_used_and_what_fills_it() {
        let source = |it: Value| of("1Gi", &json!({"dataSourceRef": it}));
        let table: [(Value, &[&str]); 6] = [
            (of("1Gi", &json!({})), &[]),
            (
                source(json!({"apiGroup": "a.b", "kind": "F", "name": "x", "namespace": "y"})),
                &[],
            ),
            (
                of("1Gi", &json!({"accessModes": ["ReadWriteTwice"]})),
                &[
                    "spec.accessModes: Unsupported value: \"ReadWriteTwice\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \
                   \"ReadWriteOnce\", \"ReadWriteOncePod\"",
                ],
            ),
            (
                source(json!({"kind": "F"})),
                &[
                    "spec.dataSourceRef.name: Required value",
                    "spec.dataSourceRef: Invalid value: \"F\": must be 'PersistentVolumeClaim' when referencing the default apiGroup",
                ],
            ),
            (
                of(
                    "1Gi",
                    &json!({"dataSource": {"kind": "PersistentVolumeClaim", "name": "a"},
                        "dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "b"}}),
                ),
                &["spec: Invalid value: {}: must match dataSourceRef"],
            ),
            (
                of("0", &json!({})),
                &["spec.resources[storage]: Invalid value: \"0\": must be greater than zero"],
            ),
        ];
        for (new, want) in table {
            assert_eq!(said(&new, None), want, "{new}");
            assert_eq!(said(&new, Some(&new)), Vec::<String>::new());
        }
    }

    #[test]
    fn only_the_size_of_a_bound_claim_changes() {
        let pending = of("2Gi", &json!({}));
        let mut bound = of("2Gi", &json!({"volumeName": "v"}));
        bound["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
        let more = of("3Gi", &json!({"volumeName": "v"}));
        let none: [&str; 0] = [];
        assert_eq!(said(&more, Some(&bound)), none);
        assert_eq!(said(&of("3Gi", &json!({})), Some(&pending)), [FIXED]);
        assert_eq!(said(&of("2Gi", &json!({"volumeName": "v"})), Some(&pending)), none);
        assert_eq!(said(&of("2Gi", &json!({"volumeName": "w"})), Some(&bound)), [FIXED]);
        // After a growth that failed.
        assert_eq!(said(&of("1.5Gi", &json!({"volumeName": "v"})), Some(&bound)), none);
        assert_eq!(
            said(&of("1Gi", &json!({"volumeName": "v"})), Some(&bound)),
            ["spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"]
        );
        let with_limits =
            json!({"volumeName": "v", "resources": {"requests": {"storage": "2Gi"}, "limits": {"storage": "9Gi"}}});
        assert_eq!(said(&of("", &with_limits), Some(&bound)), [FIXED]);
    }

    #[test]
    fn a_claim_without_a_class_may_get_one() {
        let plain = of("1Gi", &json!({}));
        let classed = of("1Gi", &json!({"storageClassName": "c"}));
        let none: [&str; 0] = [];
        assert_eq!(said(&classed, Some(&plain)), none);
        assert_eq!(said(&plain, Some(&classed)), [FIXED]);
        let annotated = |class: &str, mut claim: Value| {
            claim["metadata"] = json!({"annotations": {BETA_CLASS: class}});
            claim
        };
        assert_eq!(said(&classed, Some(&annotated("c", plain.clone()))), none);
        assert_eq!(
            said(&annotated("d", plain.clone()), Some(&plain)),
            ["metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: \"d\": field is immutable"]
        );
        assert_eq!(said(&classed, Some(&annotated("d", plain))).len(), 2);
    }
}
