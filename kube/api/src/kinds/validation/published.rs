//! What the published schema of a kind says, and nothing more: the members that have to be there, and the words that
//! are known. It is all that is asked of kinds on which nothing here acts, and of parts of pods
//! that nothing here can give them.

use super::text;
use crate::builtin_schemas;
use kube_store::{
    schema::{Schema, Type},
    status::FieldError,
};
use serde_json::Value;

/// Errors of an object of a kind that has no rules of its own. What was stored once may stay.
pub fn object(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    // Metadata has rules of its own, and a status is for controllers to write.
    const OTHERWISE: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];
    let (api_version, kind) = (text(new, "/apiVersion"), text(new, "/kind"));
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    let Some(schema) = builtin_schemas::schema(group, version, kind) else {
        return;
    };
    members(&schema, new, old, "", &OTHERWISE, errors);
}

/// Errors of a member of a published definition.
pub fn member(definition: &str, key: &str, value: &Value, place: &str, errors: &mut Vec<FieldError>) {
    let found = builtin_schemas::definition(definition);
    if let Some(schema) = found.as_ref().and_then(|it| it.properties.get(key)) {
        node(schema, value, None, place, errors);
    }
}

fn node(schema: &Schema, new: &Value, old: Option<&Value>, place: &str, errors: &mut Vec<FieldError>) {
    if new.is_null() || old == Some(new) {
        return;
    }
    let known = schema.checks.iter().flat_map(|it| &it.enumeration);
    let known: Vec<&str> = known.filter_map(Value::as_str).collect();
    if !known.is_empty() && !new.as_str().is_some_and(|it| known.contains(&it)) {
        errors.push(FieldError::not_supported(place, new, &known));
    }
    match (new, &schema.items) {
        (Value::Object(_), _) => members(schema, new, old, place, &[], errors),
        (Value::Array(items), Some(schema)) => {
            for (at, item) in items.iter().enumerate() {
                let old = old.and_then(|it| it.get(at));
                node(schema, item, old, &format!("{place}[{at}]"), errors);
            }
        }
        _ => {}
    }
}

/// Members that have to be there and may be empty, which is the same to Go: the definition they are in, and they.
const MAY_BE_EMPTY: [(&str, &str); 3] = [
    ("io.k8s.api.core.v1.HTTPHeader", "value"),
    ("io.k8s.api.core.v1.Sysctl", "value"),
    ("io.k8s.api.storage.v1.TokenRequest", "audience"),
];

fn members(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    place: &str,
    otherwise: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let field = |key: &str| match place {
        "" => key.to_owned(),
        place => format!("{place}.{key}"),
    };
    for key in schema.required.iter().filter(|it| !otherwise.contains(&it.as_str())) {
        // A number or a list that is absent is 0 or empty, as Go reads it.
        let is_needed = schema
            .properties
            .get(key)
            .is_some_and(|it| matches!(it.ty, Type::String | Type::Object))
            && !MAY_BE_EMPTY.contains(&(schema.name.as_deref().unwrap_or_default(), key));
        if is_needed && (new[key].is_null() || new[key] == "") {
            errors.push(FieldError::required(field(key), ""));
        }
    }
    for (key, value) in new.as_object().into_iter().flatten() {
        let schema = schema.properties.get(key).or(schema.additional.as_ref());
        if let Some(schema) = schema.filter(|_| !otherwise.contains(&key.as_str())) {
            let old = old.and_then(|it| it.get(key));
            node(schema, value, old, &field(key), errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kinds::validation::said_of;
    use serde_json::{Value, json};

    #[test]
    fn a_required_string_may_be_empty_where_kubernetes_allows_it() {
        let driver = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "d"},
            "spec": {"tokenRequests": [{"audience": ""}, {}]},
        });
        let said = said_of(super::object, &driver, None);
        assert_eq!(said, Vec::<String>::new());
    }

    #[test]
    fn a_kind_without_rules_is_held_to_its_published_schema() {
        let class = |more: Value| {
            let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"});
            for (key, value) in more.as_object().expect("members") {
                class[key] = value.clone();
            }
            class
        };
        let said = |new: &Value, old| said_of(super::object, new, old);
        assert_eq!(said(&class(json!({"provisioner": "p"})), None), Vec::<String>::new());
        let bad = class(json!({"volumeBindingMode": "X"}));
        assert_eq!(
            said(&bad, None),
            [
                "provisioner: Required value",
                "volumeBindingMode: Unsupported value: \"X\": supported values: \"Immediate\", \"WaitForFirstConsumer\"",
            ]
        );
        let old = class(json!({"provisioner": "p", "volumeBindingMode": "X"}));
        let mut new = old.clone();
        new["allowVolumeExpansion"] = json!(true);
        assert_eq!(said(&new, Some(&old)), Vec::<String>::new());
    }
}
