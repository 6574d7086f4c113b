//! Schema trees as OpenAPI definitions, in the dialects of v2 and v3.

use crate::registry::{Registry, Resource};
use kube_store::schema::{Checks, ListType, Schema, Type};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// Name of the one definition that every kind refers to.
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// Nodes with fewer properties are written where they stand: a reference would be as long.
const SHARED_PROPERTIES_MIN: usize = 3;

/// Which OpenAPI is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    V2,
    V3,
}

impl Dialect {
    pub fn reference(self, name: &str) -> Value {
        match self {
            Self::V2 => json!({"$ref": format!("#/definitions/{name}")}),
            Self::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
        }
    }
}

/// The definition name of a kind: `io.k8s.api.apps.v1.Deployment`, or the group's labels reversed for a custom resource.
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

/// Writes trees of one document. A node that occurs twice becomes a definition of its own.
struct Writer {
    dialect: Dialect,
    /// How often each shared node is met, by address: trees share nodes by pointer.
    met: HashMap<*const Schema, usize>,
    names: HashMap<*const Schema, String>,
    definitions: BTreeMap<String, Value>,
}

/// All definitions of the given resources, each in one version.
pub(super) fn definitions(
    registry: &Registry,
    resources: &[(&Arc<Resource>, &str)],
    dialect: Dialect,
) -> BTreeMap<String, Value> {
    let mut writer = Writer {
        dialect,
        met: HashMap::new(),
        names: HashMap::new(),
        definitions: BTreeMap::new(),
    };
    let meta = registry.by_kind("v1", "ConfigMap").and_then(|it| it.schema("v1"));
    let meta = meta.and_then(|it| it.properties.get("metadata").cloned());
    if let Some(meta) = &meta {
        writer.names.insert(Arc::as_ptr(meta), OBJECT_META.into());
        let definition = writer.node(meta, OBJECT_META);
        writer.definitions.insert(OBJECT_META.into(), definition);
    } else {
        writer.definitions.insert(OBJECT_META.into(), json!({"type": "object"}));
    }
    writer.definitions.insert(LIST_META.into(), list_meta());
    let schemas: Vec<_> = resources
        .iter()
        .map(|(it, version)| it.is_builtin().then(|| it.schema(version)).flatten())
        .collect();
    for schema in schemas.iter().flatten() {
        writer.count(schema);
    }
    for ((resource, version), schema) in resources.iter().zip(&schemas) {
        let name = kind_name(resource, version);
        let mut definition = match schema {
            Some(schema) => writer.node(schema, &name),
            None if resource.is_builtin() => json!({"type": "object"}),
            None => custom(resource.raw_schema(version), dialect),
        };
        let properties = definition
            .as_object_mut()
            .map(|it| it.entry("properties").or_insert_with(|| json!({})));
        if let Some(properties) = properties.and_then(Value::as_object_mut) {
            for (key, text) in [("apiVersion", API_VERSION), ("kind", KIND)] {
                properties.insert(key.into(), json!({"type": "string", "description": text}));
            }
            if !resource.traits.review || schema.as_ref().is_some_and(|it| it.properties.contains_key("metadata")) {
                properties.insert(
                    "metadata".into(),
                    described(dialect, OBJECT_META, "Standard object's metadata."),
                );
            }
        }
        definition["x-kubernetes-group-version-kind"] = kinds(resource, version, &resource.kind);
        writer.definitions.insert(name.clone(), definition);
        if !resource.traits.review {
            let list = list_of(resource, version, &name, dialect);
            writer.definitions.insert(format!("{name}List"), list);
        }
    }
    writer.definitions
}

const API_VERSION: &str = "Version of the schema of this representation, as group/version.";
const KIND: &str = "Kind of the object that this representation describes, in CamelCase.";

fn described(dialect: Dialect, name: &str, description: &str) -> Value {
    let reference = dialect.reference(name);
    match dialect {
        // A v3 reference has no siblings.
        Dialect::V3 => json!({"allOf": [reference], "default": {}, "description": description}),
        Dialect::V2 => json!({"$ref": reference["$ref"], "description": description}),
    }
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

fn list_of(resource: &Resource, version: &str, name: &str, dialect: Dialect) -> Value {
    json!({
        "type": "object", "description": format!("{} is a list of {}.", resource.list_kind, resource.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string", "description": API_VERSION},
            "kind": {"type": "string", "description": KIND},
            "metadata": described(dialect, LIST_META, "Standard list metadata."),
            "items": {"type": "array", "items": dialect.reference(name)},
        },
        "x-kubernetes-group-version-kind": kinds(resource, version, &resource.list_kind),
    })
}

/// The schema of a custom resource as its definition wrote it. v2 knows less: there, what it cannot say is left out.
fn custom(raw: &Value, dialect: Dialect) -> Value {
    if raw.is_null() {
        return json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    let mut definition = raw.clone();
    if dialect == Dialect::V2 {
        plainer(&mut definition);
    }
    definition
}

/// Takes out of a v3 schema what v2 cannot say. Upstream: apiextensions-apiserver pkg/controller/openapi/v2/conversion.go,
/// which also drops the type of a nullable node and everything below a node that preserves unknown fields.
fn plainer(node: &mut Value) {
    let Some(map) = node.as_object_mut() else { return };
    for key in ["nullable", "anyOf", "oneOf", "not", "x-kubernetes-validations"] {
        let removed = map.remove(key);
        if key == "nullable" && removed == Some(Value::Bool(true)) {
            map.remove("type");
            map.remove("items");
            map.remove("properties");
        }
    }
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
        map.remove("items");
        map.remove("properties");
    }
    if map.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        map.insert("type".into(), "string".into());
        map.insert("format".into(), "int-or-string".into());
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

impl Writer {
    fn count(&mut self, schema: &Arc<Schema>) {
        let met = self.met.entry(Arc::as_ptr(schema)).or_default();
        *met += 1;
        if *met > 1 {
            return; // what is below was counted already and will be written once
        }
        for child in schema
            .properties
            .values()
            .chain(schema.items.iter())
            .chain(schema.additional.iter())
        {
            self.count(child);
        }
    }

    /// A child: written here, or referred to. `path` names it if it becomes a definition.
    fn child(&mut self, schema: &Arc<Schema>, path: &str) -> Value {
        let pointer = Arc::as_ptr(schema);
        if !self.names.contains_key(&pointer) {
            let shared = self.met.get(&pointer).is_some_and(|it| *it > 1);
            if !shared || schema.properties.len() < SHARED_PROPERTIES_MIN {
                return self.node(schema, path);
            }
            self.names.insert(pointer, path.to_owned());
            let definition = self.node(schema, path);
            self.definitions.insert(path.to_owned(), definition);
        }
        self.dialect.reference(&self.names[&pointer])
    }

    /// The node itself.
    fn node(&mut self, schema: &Schema, path: &str) -> Value {
        let mut map = Map::new();
        if let Some(text) = &schema.description {
            map.insert("description".into(), text.as_ref().into());
        }
        if let Some(format) = &schema.format {
            map.insert("format".into(), format.as_ref().into());
        }
        match schema.ty {
            Type::Any if schema.int_or_string => {
                map.insert("format".into(), "int-or-string".into());
                match self.dialect {
                    Dialect::V2 => map.insert("type".into(), "string".into()),
                    Dialect::V3 => map.insert("oneOf".into(), json!([{"type": "integer"}, {"type": "string"}])),
                };
            }
            Type::Any => {}
            ty => {
                map.insert("type".into(), type_name(ty).into());
            }
        }
        if !schema.properties.is_empty() {
            let mut properties = Map::new();
            for (name, child) in &schema.properties {
                properties.insert(name.clone(), self.child(child, &format!("{path}.{name}")));
            }
            map.insert("properties".into(), properties.into());
        }
        if let Some(values) = &schema.additional {
            map.insert(
                "additionalProperties".into(),
                self.child(values, &format!("{path}.values")),
            );
        }
        match &schema.items {
            Some(items) => {
                map.insert("items".into(), self.child(items, &format!("{path}.items")));
            }
            None if schema.ty == Type::Array => {
                map.insert("items".into(), json!({}));
            }
            None => {}
        }
        if !schema.required.is_empty() {
            map.insert("required".into(), schema.required.clone().into());
        }
        if let Some(default) = &schema.default {
            map.insert("default".into(), default.clone());
        }
        extensions(schema, &mut map);
        if let Some(checks) = &schema.checks {
            limits(checks, &mut map);
        }
        if schema.nullable && self.dialect == Dialect::V3 {
            map.insert("nullable".into(), true.into());
        }
        map.into()
    }
}

fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Object | Type::Any => "object",
        Type::Array => "array",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
    }
}

/// What server-side apply and strategic merge need to know.
fn extensions(schema: &Schema, map: &mut Map<String, Value>) {
    if schema.preserve_unknown {
        map.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
    }
    if schema.embedded_resource {
        map.insert("x-kubernetes-embedded-resource".into(), true.into());
    }
    if schema.atomic_map {
        map.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    if schema.ty == Type::Array {
        let kind = match schema.list_type {
            ListType::Atomic => "atomic",
            ListType::Set => "set",
            ListType::Map => "map",
        };
        map.insert("x-kubernetes-list-type".into(), kind.into());
        if !schema.list_map_keys.is_empty() {
            map.insert("x-kubernetes-list-map-keys".into(), schema.list_map_keys.clone().into());
        }
    }
    let strategies = [
        (schema.patch_merge, "merge"),
        (schema.patch_retain_keys, "retainKeys"),
        (schema.patch_replace, "replace"),
    ];
    let strategies: Vec<_> = strategies
        .into_iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| name)
        .collect();
    if !strategies.is_empty() {
        map.insert("x-kubernetes-patch-strategy".into(), strategies.join(",").into());
    }
    if let Some(key) = &schema.patch_merge_key {
        map.insert("x-kubernetes-patch-merge-key".into(), key.clone().into());
    }
}

fn limits(checks: &Checks, map: &mut Map<String, Value>) {
    if !checks.enumeration.is_empty() {
        map.insert("enum".into(), checks.enumeration.clone().into());
    }
    if let Some(pattern) = &checks.pattern {
        map.insert("pattern".into(), pattern.as_str().into());
    }
    let numbers = [
        ("minimum", checks.minimum),
        ("maximum", checks.maximum),
        ("multipleOf", checks.multiple_of),
    ];
    for (key, value) in numbers {
        if let Some(value) = value {
            map.insert(key.into(), value.into());
        }
    }
    let counts = [
        ("minLength", checks.min_length),
        ("maxLength", checks.max_length),
        ("minItems", checks.min_items),
        ("maxItems", checks.max_items),
        ("minProperties", checks.min_properties),
        ("maxProperties", checks.max_properties),
    ];
    for (key, value) in counts {
        if let Some(value) = value {
            map.insert(key.into(), value.into());
        }
    }
}
