//! A whole object against its definition, key by key.
//! Upstream: config-policy-controller `handleKeys`, `handleSingleKey`.

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use policy_template::{printed, type_name};
use serde_json::{Map, Value};

use super::compare::{Comparing, Likeness, equivalent, merge_lists, merge_maps};

/// What kubectl keeps in an object: it says nothing about it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// What OpenShift puts on Namespaces, and nobody wants away.
const SECURITY_CONTEXT: &str = "openshift.io/sa.scc.";

/// How the keys of an object are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRules {
    /// `mustonlyhave`, for everything but metadata.
    pub only: bool,
    /// `mustonlyhave`, for labels and annotations.
    pub only_metadata: bool,
}

/// What came of a comparison of all keys.
#[derive(Clone, Debug, PartialEq)]
pub struct KeysCompared {
    /// The object as it would be.
    pub merged: Value,
    /// Whether something but the status differs.
    pub differs: bool,
    /// Whether the status differs.
    pub status_differs: bool,
    /// Whether only the API server can tell.
    pub missing: bool,
}

/// What of one key.
struct KeyCompared {
    merged: Value,
    likeness: Likeness,
}

/// Compares an object with its definition. `existing` is as the cluster has it.
///
/// # Errors
/// What is wrong with the definition, or with the object.
pub fn compare_keys(wanted: &Value, existing: &Value, rules: KeyRules) -> Result<KeysCompared, String> {
    let seen = without_noise(existing);
    let mut compared = KeysCompared {
        merged: existing.clone(),
        differs: false,
        status_differs: false,
        missing: false,
    };
    let wanted_keys = wanted.as_object().into_iter().flatten();
    for (key, value) in wanted_keys.filter(|(key, _)| !is_identity(key)) {
        let how = Comparing {
            only: if key == "metadata" {
                rules.only_metadata
            } else {
                rules.only
            },
            zero_is_missing: false,
        };
        let of_key = compare_key(key, value, wanted, &seen, how)?;
        compared.missing |= of_key.likeness.missing;
        if key == "metadata" {
            put_metadata(&mut compared.merged, &of_key.merged)?;
        } else {
            compared.merged[key] = of_key.merged;
        }
        match (of_key.likeness.equal, key.as_str()) {
            (true, _) => {}
            (false, "status") => compared.status_differs = true,
            (false, _) => compared.differs = true,
        }
    }
    if rules.only {
        compared.differs |= remove_unwanted(&mut compared.merged, wanted);
    }
    Ok(compared)
}

/// Whether an object has all that a definition without a name wants: zero values count as missing ones.
pub fn matches_unnamed(wanted: &Value, existing: &Value, only: bool) -> bool {
    let how = Comparing {
        only,
        zero_is_missing: true,
    };
    let keys = wanted.as_object().into_iter().flatten();
    keys.filter(|(key, _)| !is_identity(key))
        .all(|(key, value)| compare_key(key, value, wanted, existing, how).is_ok_and(|it| it.likeness.equal))
}

/// The object without what changes by itself, or is not its own.
pub fn without_noise(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        metadata.remove("generation");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
            if annotations.is_empty() {
                metadata.remove("annotations");
            }
        }
    }
    object
}

fn is_identity(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind")
}

fn compare_key(
    key: &str,
    value: &Value,
    wanted: &Value,
    existing: &Value,
    how: Comparing,
) -> Result<KeyCompared, String> {
    let is_metadata = key == "metadata";
    let value = if is_metadata {
        Value::Object(labels_and_annotations(value.as_object()))
    } else {
        value.clone()
    };
    let has = existing.get(key).unwrap_or(&Value::Null);
    let mut missing = existing.get(key).is_none();
    let merged = match (value, has) {
        (Value::Array(wanted), Value::Array(has)) => {
            let (merged, lacks) = merge_lists(wanted, has, how);
            missing |= lacks;
            Value::Array(merged)
        }
        (Value::Object(wanted), Value::Object(has)) => {
            let (merged, lacks) = merge_maps(wanted, has, how);
            missing |= lacks;
            Value::Object(merged)
        }
        (wanted @ (Value::Array(_) | Value::Object(_)), Value::Null) => wanted,
        (Value::Array(_) | Value::Object(_), _) => {
            return Err(format!(
                "Error merging changes into key \"{key}\": object type of template and existing do not match"
            ));
        }
        (wanted, _) => wanted,
    };
    let (merged, has) = if is_metadata {
        let is_namespace = wanted["kind"] == "Namespace" && wanted["apiVersion"] == "v1";
        let (merged, has) = comparable_metadata(&merged, has, is_namespace);
        (Value::Object(merged), Value::Object(has))
    } else if key == "stringData" && existing["kind"] == "Secret" {
        (merged, decoded_data(existing)?)
    } else {
        (merged, has.clone())
    };
    let mut likeness = equivalent(&merged, &has, how.zero_is_missing);
    likeness.missing |= missing;
    Ok(KeyCompared { merged, likeness })
}

/// The part of metadata that policies care for.
fn labels_and_annotations(metadata: Option<&Map<String, Value>>) -> Map<String, Value> {
    let mut kept = Map::new();
    let Some(metadata) = metadata else { return kept };
    if let Some(labels) = metadata.get("labels") {
        kept.insert("labels".to_owned(), labels.clone());
    }
    if let Some(annotations) = metadata.get("annotations") {
        let mut annotations = annotations.clone();
        if let Some(annotations) = annotations.as_object_mut() {
            annotations.remove(LAST_APPLIED);
        }
        kept.insert("annotations".to_owned(), annotations);
    }
    kept
}

/// Both metadata with nothing that is not wanted; what OpenShift puts on Namespaces is wanted.
fn comparable_metadata(
    merged: &Value,
    existing: &Value,
    is_namespace: bool,
) -> (Map<String, Value>, Map<String, Value>) {
    let mut merged = labels_and_annotations(merged.as_object());
    let mut existing = labels_and_annotations(existing.as_object());
    existing.retain(|key, _| merged.contains_key(key));
    if is_namespace
        && let Some(Value::Object(wanted)) = merged.get_mut("annotations")
        && let Some(Value::Object(has)) = existing.get("annotations")
    {
        for (key, value) in has.iter().filter(|(key, _)| key.starts_with(SECURITY_CONTEXT)) {
            wanted.entry(key).or_insert_with(|| value.clone());
        }
    }
    (merged, existing)
}

/// What a Secret has, as `stringData` would say it.
fn decoded_data(secret: &Value) -> Result<Value, String> {
    let mut decoded = Map::new();
    for (key, value) in secret["data"].as_object().into_iter().flatten() {
        let text = value.as_str().ok_or("Error accessing encoded data")?;
        let name = secret["metadata"]["name"].as_str().unwrap_or_default();
        let bytes = BASE64
            .decode(text)
            .map_err(|_| format!("Error decoding secret: {name}"))?;
        decoded.insert(key.clone(), String::from_utf8_lossy(&bytes).into_owned().into());
    }
    Ok(Value::Object(decoded))
}

fn put_metadata(object: &mut Value, merged: &Value) -> Result<(), String> {
    for (field, one) in [("annotations", "annotation"), ("labels", "label")] {
        let Some(value) = merged.get(field) else { continue };
        let strings = strings(value).map_err(|why| format!("invalid {one}, error: {why}"))?;
        object["metadata"][field] = Value::Object(strings);
    }
    Ok(())
}

/// The map, if all of it is strings. The words are those of apimachinery's `NestedStringMap`.
fn strings(value: &Value) -> Result<Map<String, Value>, String> {
    let Value::Object(entries) = value else {
        let type_name = type_name(value);
        return Err(format!(
            "{} is of the type {type_name}, expected map[string]interface{{}}",
            printed(value)
        ));
    };
    match entries.iter().find(|(_, it)| !it.is_string()) {
        Some((key, value)) => Err(format!(
            "contains non-string value in the map under key {key:?}: {} is of the type {}, expected string",
            printed(value),
            type_name(value)
        )),
        None => Ok(entries.clone()),
    }
}

/// Takes away what `mustonlyhave` does not want; whether there was something.
fn remove_unwanted(object: &mut Value, wanted: &Value) -> bool {
    let is_service_account = object["kind"] == "ServiceAccount" && object["apiVersion"] == "v1";
    let Some(entries) = object.as_object_mut() else {
        return false;
    };
    let before = entries.len();
    entries.retain(|key, _| {
        // Kubernetes fills these in.
        let of_account = is_service_account && matches!(key.as_str(), "secrets" | "imagePullSecrets");
        wanted.get(key).is_some() || is_identity(key) || matches!(key.as_str(), "status" | "metadata") || of_account
    });
    entries.len() != before
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HAVE: KeyRules = KeyRules {
        only: false,
        only_metadata: false,
    };
    const ONLY: KeyRules = KeyRules {
        only: true,
        only_metadata: true,
    };

    #[test]
    fn only_labels_and_annotations_of_metadata_count() {
        let existing =
            json!({"kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "1"}, "finalizers": ["f"]}});
        let wanted = json!({"kind": "ConfigMap", "metadata": {"name": "a", "finalizers": ["g"], "labels": {"y": "2"}}});
        let compared = compare_keys(&wanted, &existing, HAVE).unwrap();
        assert!(compared.differs);
        assert_eq!(compared.merged["metadata"]["labels"], json!({"x": "1", "y": "2"}));
        assert_eq!(compared.merged["metadata"]["finalizers"], json!(["f"]));
        let compared = compare_keys(&wanted, &existing, ONLY).unwrap();
        assert_eq!(compared.merged["metadata"]["labels"], json!({"y": "2"}));
    }

    #[test]
    fn labels_that_are_no_strings_are_refused() {
        let existing = json!({"metadata": {"labels": {"x": "1"}}});
        let wanted = json!({"metadata": {"labels": {"y": 1}}});
        let error = compare_keys(&wanted, &existing, HAVE).unwrap_err();
        assert_eq!(
            error,
            "invalid label, error: contains non-string value in the map under key \"y\": 1 is of the type int64, \
             expected string"
        );
    }

    #[test]
    fn a_status_that_differs_is_no_change() {
        let existing = json!({"metadata": {}, "status": {"phase": "Running"}});
        let compared = compare_keys(&json!({"status": {"phase": "Done"}}), &existing, HAVE).unwrap();
        assert!(compared.status_differs && !compared.differs);
    }

    #[test]
    fn a_secret_is_compared_decoded() {
        let existing = json!({"kind": "Secret", "metadata": {}, "data": {"a": "Yg=="}});
        let same = compare_keys(&json!({"stringData": {"a": "b"}}), &existing, HAVE).unwrap();
        assert!(!same.differs);
        let other = compare_keys(&json!({"stringData": {"a": "c"}}), &existing, HAVE).unwrap();
        assert!(other.differs);
    }

    #[test]
    fn unwanted_keys_go_but_tokens_of_accounts_stay() {
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {}, "secrets": [], "x": 1});
        let wanted = json!({"apiVersion": "v1", "kind": "ServiceAccount"});
        let compared = compare_keys(&wanted, &account, ONLY).unwrap();
        assert!(compared.differs && compared.merged.get("x").is_none() && compared.merged.get("secrets").is_some());
    }

    #[test]
    fn types_that_clash_are_an_error() {
        let error = compare_keys(&json!({"spec": {"a": 1}}), &json!({"spec": [1]}), HAVE).unwrap_err();
        assert!(error.starts_with("Error merging changes into key \"spec\""));
    }
}
