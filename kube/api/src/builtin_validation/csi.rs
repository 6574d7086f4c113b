//! What drivers of volumes say of themselves, of the nodes they run on and of the room that is left.

use super::{
    changed, immutable, label, list, non_negative, qualified_name, scheduling::label_selector, subdomain, supported,
    text, volumes::needed,
};
use kube_store::{
    schema::{metadata::subdomain_errors, quantity},
    status::FieldError,
};
use serde_json::{Value, json};
use std::collections::HashSet;

/// How long the life of a token may be.
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// Errors of the name of a driver: as that of a host, in large or small letters.
fn driver_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    const BYTES_MAX: usize = 63;
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    if name.len() > BYTES_MAX {
        errors.push(FieldError::too_long(field, BYTES_MAX));
    }
    let wrong = subdomain_errors(&name.to_lowercase());
    errors.extend(wrong.iter().map(|it| FieldError::invalid(field, &json!(name), it)));
}

/// Errors of a persistent volume of a driver.
pub(super) fn volume(it: &Value, place: &str, errors: &mut Vec<FieldError>) {
    driver_name(text(it, "/driver"), &format!("{place}.driver"), errors);
    needed(it, "volumeHandle", place, errors);
    for key in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let (secret, field) = (&it[key], format!("{place}.{key}"));
        if !secret.is_object() {
            continue;
        }
        match text(secret, "/name") {
            "" => errors.push(FieldError::required(format!("{field}.name"), "")),
            name => subdomain(name, &format!("{field}.name"), errors),
        }
        match text(secret, "/namespace") {
            "" => errors.push(FieldError::required(format!("{field}.namespace"), "")),
            name => label(name, &format!("{field}.namespace"), errors),
        }
    }
}

pub(super) fn driver(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if changed(new, old, "/spec") {
        driver_spec(&new["spec"], errors);
    }
    // The first field is misspelt in Kubernetes' own answer.
    for (key, field) in [
        ("attachRequired", "spec.attachedRequired"),
        ("volumeLifecycleModes", "spec.volumeLifecycleModes"),
    ] {
        immutable(new, old, &format!("/spec/{key}"), field, errors);
    }
}

fn driver_spec(spec: &Value, errors: &mut Vec<FieldError>) {
    const POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
    const SECONDS_MIN: i64 = 10;
    if !spec["fsGroupPolicy"].is_null() {
        supported(&spec["fsGroupPolicy"], "spec.fsGroupPolicy", &POLICIES, errors);
    }
    let requests = list(spec, "/tokenRequests");
    let mut audiences = HashSet::new();
    for (at, request) in requests.iter().enumerate() {
        let field = |key: &str| format!("spec.tokenRequests[{at}].{key}");
        let audience = text(request, "/audience");
        if !audiences.insert(audience) {
            errors.push(FieldError::duplicate(field("audience"), &json!(audience)));
            continue;
        }
        let wrong = match request["expirationSeconds"].as_i64() {
            Some(it) if it < TOKEN_SECONDS_MIN => "may not specify a duration less than 10 minutes",
            Some(it) if it > TOKEN_SECONDS_MAX => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        let seconds = &request["expirationSeconds"];
        errors.push(FieldError::invalid(field("expirationSeconds"), seconds, wrong));
    }
    for mode in list(spec, "/volumeLifecycleModes") {
        const MODES: [&str; 2] = ["Persistent", "Ephemeral"];
        supported(mode, "spec.volumeLifecycleModes", &MODES, errors);
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|it| it < SECONDS_MIN) {
        let detail = format!("must be greater than or equal to {SECONDS_MIN} seconds");
        errors.push(FieldError::invalid(
            "spec.nodeAllocatableUpdatePeriodSeconds",
            period,
            detail,
        ));
    }
    let in_secrets = &spec["serviceAccountTokenInSecrets"];
    if !in_secrets.is_null() && requests.is_empty() {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.push(FieldError::invalid(
            "spec.serviceAccountTokenInSecrets",
            in_secrets,
            detail,
        ));
    }
}

pub(super) fn node(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let drivers = list(new, "/spec/drivers");
    if changed(new, old, "/spec") {
        let mut names = HashSet::new();
        for (at, driver) in drivers.iter().enumerate() {
            node_driver(driver, &format!("spec.drivers[{at}]"), &mut names, errors);
        }
    }
    for before in old.map(|it| list(it, "/spec/drivers")).unwrap_or_default() {
        let same = drivers.iter().filter(|it| it["name"] == before["name"]);
        // How much the node can take is all that may change.
        for now in same.filter(|it| ["nodeID", "topologyKeys"].iter().any(|key| it[key] != before[key])) {
            let (name, id, keys) = (&now["name"], &now["nodeID"], &now["topologyKeys"]);
            errors.push(FieldError {
                reason: "FieldValueInvalid",
                field: "spec.drivers".to_owned(),
                // As Go prints its struct, in the order of its members.
                detail: format!(
                    r#"Invalid value: {{"Name":{name},"NodeID":{id},"TopologyKeys":{keys},"Allocatable":null}}: field is immutable"#
                ),
            });
        }
    }
}

fn node_driver<'v>(driver: &'v Value, place: &str, names: &mut HashSet<&'v str>, errors: &mut Vec<FieldError>) {
    const ID_BYTES_MAX: usize = 256;
    let (name, id) = (text(driver, "/name"), text(driver, "/nodeID"));
    driver_name(name, &format!("{place}.name"), errors);
    needed(driver, "nodeID", place, errors);
    if id.len() > ID_BYTES_MAX {
        let detail = format!("must be {ID_BYTES_MAX} characters or less");
        errors.push(FieldError::invalid(format!("{place}.nodeID"), &json!(id), detail));
    }
    let field = format!("{place}.allocatable.count");
    non_negative(driver, "/allocatable/count", &field, errors);
    if !names.insert(name) {
        errors.push(FieldError::duplicate(format!("{place}.name"), &json!(name)));
    }
    // Upstream does not say which of the keys it is.
    let mut keys = HashSet::new();
    for key in list(driver, "/topologyKeys").iter().filter_map(Value::as_str) {
        if key.is_empty() {
            errors.push(FieldError::required(place, ""));
        }
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(place, &json!(key)));
        }
        qualified_name(key, place, errors);
    }
}

pub(super) fn capacity(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    if old.is_none() {
        label_selector(&new["nodeTopology"], "nodeTopology", errors);
        subdomain(text(new, "/storageClassName"), "storageClassName", errors);
    }
    let room = &new["capacity"];
    if room.as_str().and_then(quantity::milli).is_some_and(|it| it < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("capacity", room, detail));
    }
    for key in ["nodeTopology", "storageClassName"] {
        immutable(new, old, &format!("/{key}"), key, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_validation::said_of;

    #[test]
    fn a_driver_asks_for_tokens_of_a_useful_life() {
        let asked = |spec: Value| said_of(driver, &json!({"spec": spec}), None);
        let good = json!({"tokenRequests": [{"audience": "a", "expirationSeconds": 600}, {}], "serviceAccountTokenInSecrets": true});
        assert_eq!(asked(good), Vec::<String>::new());
        assert_eq!(
            asked(json!({"tokenRequests": [{"audience": "a"}, {"audience": "a"}]})),
            ["spec.tokenRequests[1].audience: Duplicate value: \"a\""]
        );
        assert_eq!(
            asked(json!({"tokenRequests": [{"expirationSeconds": 5}]})),
            [
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes"
            ]
        );
        assert_eq!(
            asked(json!({"nodeAllocatableUpdatePeriodSeconds": 5})),
            ["spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 5: must be greater than or equal to 10 seconds"]
        );
        assert_eq!(
            asked(json!({"serviceAccountTokenInSecrets": true, "volumeLifecycleModes": ["X"]})),
            [
                "spec.volumeLifecycleModes: Unsupported value: \"X\": supported values: \"Persistent\", \"Ephemeral\"",
                "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests \
                 are specified",
            ]
        );
        let stored = json!({"spec": {"nodeAllocatableUpdatePeriodSeconds": 5}});
        assert_eq!(said_of(driver, &stored, Some(&stored)), Vec::<String>::new());
    }

    #[test]
    fn a_driver_on_a_node_changes_only_in_how_much_it_takes() {
        let on = |drivers: Value| json!({"spec": {"drivers": drivers}});
        let good =
            on(json!([{"name": "Ex.io", "nodeID": "n", "topologyKeys": ["ex.io/zone"], "allocatable": {"count": 1}}]));
        assert_eq!(said_of(node, &good, None), Vec::<String>::new());
        let wrong = on(json!([
            {"name": "a", "nodeID": "", "topologyKeys": ["c", "c"], "allocatable": {"count": -1}},
            {"name": "a", "nodeID": "x"},
        ]));
        let want = [
            "spec.drivers[0].nodeID: Required value",
            "spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
            "spec.drivers[0]: Duplicate value: \"c\"",
            "spec.drivers[1].name: Duplicate value: \"a\"",
        ];
        assert_eq!(said_of(node, &wrong, None), want);
        let grown =
            on(json!([{"name": "Ex.io", "nodeID": "n", "topologyKeys": ["ex.io/zone"], "allocatable": {"count": 9}}]));
        assert_eq!(said_of(node, &grown, Some(&good)), Vec::<String>::new());
        let moved = on(json!([{"name": "Ex.io", "nodeID": "m"}]));
        let want = r#"spec.drivers: Invalid value: {"Name":"Ex.io","NodeID":"m","TopologyKeys":null,"Allocatable":null}: field is immutable"#;
        assert_eq!(said_of(node, &moved, Some(&good)), [want]);
    }

    #[test]
    fn room_is_of_a_class_and_not_below_nothing() {
        let room = |class: &str, amount: &str| json!({"storageClassName": class, "capacity": amount});
        assert_eq!(said_of(capacity, &room("c", "0"), None), Vec::<String>::new());
        assert_eq!(
            said_of(capacity, &room("c", "-1"), None),
            ["capacity: Invalid value: \"-1\": must be greater than or equal to 0"]
        );
        assert_eq!(said_of(capacity, &room("", "1"), None).len(), 1);
        assert_eq!(
            said_of(capacity, &room("d", "1"), Some(&room("c", "1"))),
            ["storageClassName: Invalid value: \"d\": field is immutable"]
        );
    }
}
