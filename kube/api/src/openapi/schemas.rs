//! Definitions of kinds, in the dialects of v2 and v3.

use crate::{builtin_schemas, registry::Resource};
use serde_json::{Map, Value, json};
use std::{collections::BTreeSet, sync::Arc};

/// Name of the one definition that every kind refers to.
const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const V3: &str = "#/components/schemas/";
const V2: &str = "#/definitions/";

/// Which OpenAPI is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    pub fn reference(self, name: &str) -> Value {
        let root = if self == Self::V2 { V2 } else { V3 };
        json!({"$ref": format!("{root}{name}")})
    }
}

/// The definition name of a kind: `io.k8s.api.apps.v1.Deployment`, or the group's labels reversed
/// for a custom resource.
pub(super) fn kind_name(resource: &Resource, version: &str) -> String {
    let (group, kind) = (resource.group.as_str(), resource.kind.as_str());
    if !resource.is_builtin() {
        let labels: Vec<_> = group.split('.').rev().collect();
        return format!("{}.{version}.{kind}", labels.join("."));
    }
    let package = match group {
        "" => "api.core".to_owned(),
        "apiextensions.k8s.io" => "apiextensions-apiserver.pkg.apis.apiextensions".to_owned(),
        "apiregistration.k8s.io" => "kube-aggregator.pkg.apis.apiregistration".to_owned(),
        group => format!("api.{}", group.split('.').next().unwrap_or(group)),
    };
    format!("io.k8s.{package}.{version}.{kind}")
}

/// The value of `x-kubernetes-group-version-kind` on a definition.
fn kinds(resource: &Resource, version: &str, kind: &str) -> Value {
    json!([{"group": resource.group, "version": version, "kind": kind}])
}

/// All definitions of the given resources, each in one version.
pub(super) fn definitions(resources: &[(&Arc<Resource>, &str)], dialect: Dialect) -> Map<String, Value> {
    let mut definitions = Map::new();
    let builtin = resources.iter().filter(|(it, _)| it.is_builtin());
    let groups: BTreeSet<_> = builtin.map(|(it, version)| (it.group.as_str(), *version)).collect();
    for (group, version) in groups {
        if let Some(Value::Object(found)) = builtin_schemas::openapi_v3(group, version) {
            definitions.extend(found);
        }
    }
    if !definitions.contains_key(OBJECT_META) {
        let core = builtin_schemas::openapi_v3("", "v1").unwrap_or_default();
        copy(&core, OBJECT_META, &mut definitions);
    }
    definitions.entry(LIST_META).or_insert_with(list_meta);
    for (resource, version) in resources {
        let name = kind_name(resource, version);
        if !resource.is_builtin() {
            definitions.insert(name.clone(), custom(resource, version));
        }
        // A kind without a schema is at least an object.
        let definition = definitions
            .entry(name.clone())
            .or_insert_with(|| json!({"type": "object"}));
        definition["x-kubernetes-group-version-kind"] = kinds(resource, version, &resource.kind);
        if !resource.traits.review {
            definitions.insert(format!("{name}List"), list_of(resource, version, &name));
        }
    }
    if dialect == Dialect::V2 {
        definitions.values_mut().for_each(plainer);
    }
    definitions
}

/// Copies a definition and those it refers to.
fn copy(from: &Value, name: &str, to: &mut Map<String, Value>) {
    let Some(definition) = from.get(name).filter(|_| !to.contains_key(name)) else {
        return;
    };
    to.insert(name.to_owned(), definition.clone());
    let mut found = Vec::new();
    references(definition, &mut found);
    for reference in found {
        copy(from, reference.trim_start_matches(V3), to);
    }
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(map) => {
            found.extend(map.get("$ref").and_then(Value::as_str));
            map.values().for_each(|it| references(it, found));
        }
        Value::Array(all) => all.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

const API_VERSION: &str = "Version of the schema of this representation, as group/version.";
const KIND: &str = "Kind of the object that this representation describes, in CamelCase.";

fn described(name: &str, description: &str) -> Value {
    // A v3 reference has no siblings.
    json!({"allOf": [Dialect::V3.reference(name)], "description": description})
}

fn list_meta() -> Value {
    json!({
        "type": "object", "description": "Metadata of a list.",
        "properties": {
            "continue": {"type": "string"}, "remainingItemCount": {"type": "integer", "format": "int64"},
            "resourceVersion": {"type": "string"}, "selfLink": {"type": "string"},
        },
    })
}

fn list_of(resource: &Resource, version: &str, name: &str) -> Value {
    json!({
        "type": "object", "description": format!("{} is a list of {}.", resource.list_kind, resource.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": API_VERSION},
            "kind": {"type": "string", "description": KIND},
            "metadata": described(LIST_META, "Standard list metadata."),
            "items": {"type": "array", "items": Dialect::V3.reference(name)},
        },
        "x-kubernetes-group-version-kind": kinds(resource, version, &resource.list_kind),
    })
}

/// The schema of a custom resource as its definition wrote it, with what every object has.
fn custom(resource: &Resource, version: &str) -> Value {
    let raw = resource.raw_schema(version);
    let mut definition = if raw.is_object() {
        raw.clone()
    } else {
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    };
    let properties = &mut definition["properties"];
    properties["apiVersion"] = json!({"type": "string", "description": API_VERSION});
    properties["kind"] = json!({"type": "string", "description": KIND});
    properties["metadata"] = described(OBJECT_META, "Standard object's metadata.");
    definition
}

/// Turns a v3 schema into v2, which knows less. Upstream: apiextensions-apiserver
/// pkg/controller/openapi/v2/conversion.go, which also drops the type of a nullable node and everything below a node
/// that preserves unknown fields.
fn plainer(node: &mut Value) {
    let Some(map) = node.as_object_mut() else { return };
    let one = map
        .get("allOf")
        .and_then(Value::as_array)
        .filter(|it| it.len() == 1)
        .map(|it| it[0]["$ref"].clone());
    if let Some(reference) = one.filter(Value::is_string) {
        map.remove("allOf");
        map.remove("default");
        map.insert("$ref".into(), reference);
    }
    if let Some(Value::String(reference)) = map.get_mut("$ref") {
        *reference = reference.replacen(V3, V2, 1);
    }
    let either = map.contains_key("oneOf") || map.contains_key("anyOf");
    let textual = map.get("format").is_some_and(|it| it == "int-or-string")
        || map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true))
        || (either && !map.contains_key("type") && !map.contains_key("properties"));
    let nullable = map.remove("nullable") == Some(Value::Bool(true));
    for key in ["anyOf", "oneOf", "not", "x-kubernetes-validations"] {
        map.remove(key);
    }
    if textual {
        map.insert("type".into(), "string".into());
    }
    let open = map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if nullable {
        map.remove("type");
    }
    if nullable || open {
        map.remove("items");
        map.remove("properties");
    }
    for (key, child) in map.iter_mut() {
        match key.as_str() {
            "properties" => child
                .as_object_mut()
                .into_iter()
                .flatten()
                .for_each(|(_, it)| plainer(it)),
            "items" | "additionalProperties" => plainer(child),
            "allOf" => child.as_array_mut().into_iter().flatten().for_each(plainer),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v2_cannot_say_is_left_out() {
        let mut node = json!({"type": "object", "properties": {
            "a": {"allOf": [{"$ref": "#/components/schemas/X"}], "default": {}, "description": "d"},
            "b": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
            "c": {"type": "object", "nullable": true, "properties": {"d": {"type": "string"}}},
            "e": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        }});
        plainer(&mut node);
        let expected = json!({"type": "object", "properties": {
            "a": {"$ref": "#/definitions/X", "description": "d"},
            "b": {"format": "int-or-string", "type": "string"},
            "c": {},
            "e": {"x-kubernetes-int-or-string": true, "type": "string"},
        }});
        assert_eq!(node, expected);
    }
}
