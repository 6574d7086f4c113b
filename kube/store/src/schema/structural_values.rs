//! The schema nodes of a CustomResourceDefinition: structural rules, defaults, list types, patterns and CEL rules.

use super::{
    Rule, Schema, formats, prune, rule_types,
    rules::{self, nested_loops},
    tell, validate,
};
use crate::status::FieldError;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Every member that a schema node may have.
const MEMBERS: [&str; 46] = [
    "$ref",
    "$schema",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "definitions",
    "dependencies",
    "description",
    "enum",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "externalDocs",
    "format",
    "id",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "nullable",
    "oneOf",
    "pattern",
    "patternProperties",
    "properties",
    "required",
    "title",
    "type",
    "uniqueItems",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
];

/// Removes unknown members of a schema and tells their paths, and warns of formats nobody enforces.
pub(super) fn tidy(node: &mut Value, path: &str, warnings: &mut Vec<String>, unknown: &mut Vec<String>) {
    let Some(map) = node.as_object_mut() else { return };
    map.retain(|key, _| {
        let known = MEMBERS.contains(&key.as_str());
        if !known {
            tell(unknown, || format!("{path}.{key}"));
        }
        known
    });
    let numeric = ["int32", "int64", "float", "double"];
    if let Some(format) = map.get("format").and_then(Value::as_str)
        && !format.is_empty()
        && !formats::KNOWN.contains(&format)
        && !numeric.contains(&format)
    {
        warnings.push(format!("unrecognized format {format:?}"));
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(child) = map.get_mut(key) {
            tidy(child, &format!("{path}.{key}"), warnings, unknown);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (at, child) in map
            .get_mut(key)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .enumerate()
        {
            tidy(child, &format!("{path}.{key}[{at}]"), warnings, unknown);
        }
    }
    if let Some(properties) = map.get_mut("properties").and_then(Value::as_object_mut) {
        for (name, child) in properties {
            tidy(child, &format!("{path}.properties.{name}"), warnings, unknown);
        }
    }
}

/// Judges the schema of a version.
pub(super) fn check_root(schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(map) = schema.as_object() else {
        errors.push(FieldError::required(path, "schemas are required"));
        return;
    };
    let mut judge = Judge {
        errors,
        uncorrelatable: None,
    };
    judge.node(map, path, Place::Root);
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Root,
    Field,
    Item,
}

/// Beyond so many mistakes nobody reads on.
const ERRORS_MAX: usize = 1_000;
/// A name of a field may be as long as a request, and every mistake below it repeats its path.
const PATH_BYTES_MAX: usize = 4 * 1024;

struct Judge<'a> {
    errors: &'a mut Vec<FieldError>,
    /// The path of the list above that keeps old and new items from being matched.
    uncorrelatable: Option<String>,
}

/// The part of the schema that a node inside `allOf` and its like speaks of.
#[derive(Clone, Copy)]
struct Beside<'m> {
    outside: Option<&'m Map<String, Value>>,
    /// Whether all that is spoken of has to be there.
    is_complete: bool,
    types_allowed: bool,
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or("")
}

fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&json!(true))
}

fn list<'a>(map: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    map.get(key).and_then(Value::as_array).into_iter().flatten().enumerate()
}

impl Judge<'_> {
    fn required(&mut self, field: String, detail: &str) {
        self.errors.push(FieldError::required(field, detail));
    }
    fn forbidden(&mut self, field: String, detail: &str) {
        self.errors.push(FieldError::forbidden(field, detail));
    }
    fn invalid(&mut self, field: String, value: &Value, detail: &str) {
        self.errors.push(FieldError::invalid(field, value, detail));
    }

    fn node(&mut self, map: &Map<String, Value>, path: &str, place: Place) {
        if self.errors.len() >= ERRORS_MAX {
            return;
        }
        let ty = text(map, "type");
        let (preserve, int_or_string) = (
            flag(map, "x-kubernetes-preserve-unknown-fields"),
            flag(map, "x-kubernetes-int-or-string"),
        );
        if ty.is_empty() {
            if place == Place::Root {
                self.required(format!("{path}.type"), "must not be empty at the root");
            } else if !preserve && !int_or_string {
                let what = if place == Place::Item {
                    "array items"
                } else {
                    "object fields"
                };
                self.required(
                    format!("{path}.type"),
                    &format!("must not be empty for specified {what}"),
                );
            }
        } else if place == Place::Root && ty != "object" {
            self.invalid(format!("{path}.type"), &json!(ty), "must be object at the root");
        }
        if place == Place::Root {
            self.root(map, path);
        }
        if int_or_string {
            for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
                if flag(map, key) {
                    let detail = "must be false if x-kubernetes-int-or-string is true";
                    self.invalid(format!("{path}.{key}"), &json!(true), detail);
                }
            }
        }
        self.common(map, path);
        self.extensions(map, path);
        if flag(map, "x-kubernetes-embedded-resource") {
            let has_properties = map
                .get("properties")
                .and_then(Value::as_object)
                .is_some_and(|it| !it.is_empty());
            if !preserve && !has_properties {
                let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
                self.required(format!("{path}.properties"), detail);
            }
            if ty != "object" {
                self.invalid(
                    format!("{path}.type"),
                    &json!(ty),
                    "must be object if x-kubernetes-embedded-resource is true",
                );
            }
        }
        if place == Place::Root || flag(map, "x-kubernetes-embedded-resource") {
            self.metadata(map, path);
        }
        self.default(map, path);
        self.rules(map, path);
        self.junctors(map, path, place);
        if let Some(properties) = map.get("properties").and_then(Value::as_object) {
            for (name, child) in properties {
                self.child(child, &format!("{path}.properties[{name}]"), Place::Field);
            }
        }
        if let Some(child) = map.get("additionalProperties").filter(|it| it.is_object()) {
            self.child(child, &format!("{path}.additionalProperties"), Place::Field);
        }
        if let Some(child) = map.get("items") {
            let outer = self.uncorrelatable.clone();
            if text(map, "x-kubernetes-list-type") != "map" && self.uncorrelatable.is_none() {
                self.uncorrelatable = Some(path.to_owned());
            }
            self.child(child, &format!("{path}.items"), Place::Item);
            self.uncorrelatable = outer;
        }
    }

    /// What only the root may not have.
    fn root(&mut self, map: &Map<String, Value>, path: &str) {
        if flag(map, "nullable") {
            self.forbidden(format!("{path}.nullable"), "nullable cannot be true at the root");
        }
        if map.get("additionalProperties").is_some_and(|it| !it.is_null()) {
            self.forbidden(format!("{path}.additionalProperties"), "must not be used at the root");
        }
    }

    fn child(&mut self, child: &Value, path: &str, place: Place) {
        let path = &path[..path.floor_char_boundary(PATH_BYTES_MAX)];
        match child.as_object() {
            Some(map) => self.node(map, path, place),
            None if child.is_array() => {
                self.forbidden(path.to_owned(), "items must be a schema object and not an array");
            }
            None => self.invalid(path.to_owned(), child, "must be a schema"),
        }
    }

    /// What holds for every node, also inside `allOf` and its like.
    fn common(&mut self, map: &Map<String, Value>, path: &str) {
        const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
        let ty = text(map, "type");
        if ty == "null" {
            self.forbidden(
                format!("{path}.type"),
                "type cannot be set to null, use nullable as an alternative",
            );
        } else if !ty.is_empty() && !TYPES.contains(&ty) {
            self.errors
                .push(FieldError::not_supported(format!("{path}.type"), &json!(ty), &TYPES));
        }
        if ty == "array" && map.get("items").is_none_or(Value::is_null) {
            self.required(format!("{path}.items"), "must be specified");
        }
        if map.contains_key("$ref") {
            self.forbidden(format!("{path}.$ref"), "$ref is not supported");
        }
        if flag(map, "uniqueItems") {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbidden(format!("{path}.uniqueItems"), detail);
        }
        let has_properties = map
            .get("properties")
            .and_then(Value::as_object)
            .is_some_and(|it| !it.is_empty());
        // That everything else is taken as well (`true`) contradicts no property.
        let others = map
            .get("additionalProperties")
            .filter(|it| !it.is_null() && **it != json!(true));
        if has_properties && others.is_some() {
            self.forbidden(
                format!("{path}.additionalProperties"),
                "additionalProperties and properties are mutual exclusive",
            );
        }
        for (key, detail) in [
            ("definitions", "definitions is not supported"),
            ("dependencies", "dependencies is not supported"),
            ("patternProperties", "patternProperties is not supported"),
            ("additionalItems", "additionalItems is not supported"),
            ("id", "id is not supported"),
        ] {
            if map.contains_key(key) {
                self.forbidden(format!("{path}.{key}"), detail);
            }
        }
        let pattern = text(map, "pattern");
        if !pattern.is_empty()
            && let Err(error) = go_regex::compile(pattern)
        {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or("").trim_start_matches("error: ");
            let detail =
                format!("must be a valid regular expression, but isn't: error parsing regexp: {reason}: `{pattern}`");
            self.invalid(format!("{path}.pattern"), &json!(pattern), &detail);
        }
    }

    fn extensions(&mut self, map: &Map<String, Value>, path: &str) {
        let ty = text(map, "type");
        let empty = Map::new();
        let items = map.get("items").and_then(Value::as_object).unwrap_or(&empty);
        let list_type = text(map, "x-kubernetes-list-type");
        const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
        if map.get(PRESERVE) == Some(&json!(false)) {
            self.invalid(format!("{path}.{PRESERVE}"), &json!(false), "must be true or undefined");
        }
        if !list_type.is_empty() {
            if !["atomic", "set", "map"].contains(&list_type) {
                let field = format!("{path}.x-kubernetes-list-type");
                self.errors.push(FieldError::not_supported(
                    field,
                    &json!(list_type),
                    &["atomic", "set", "map"],
                ));
            } else if ty != "array" {
                self.invalid(
                    format!("{path}.type"),
                    &json!(ty),
                    "must be array if x-kubernetes-list-type is specified",
                );
            }
        }
        let keys: Vec<&str> = list(map, "x-kubernetes-list-map-keys")
            .filter_map(|it| it.1.as_str())
            .collect();
        if list_type == "map" {
            self.list_map(&keys, items, path);
        } else if !keys.is_empty() {
            let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
            let field = format!("{path}.x-kubernetes-list-type");
            match list_type {
                "" => self.required(field, detail),
                other => self.invalid(field, &json!(other), detail),
            }
        }
        if list_type == "set" {
            if flag(items, "nullable") {
                self.forbidden(
                    format!("{path}.items.nullable"),
                    "cannot be nullable when x-kubernetes-list-type is \"set\"",
                );
            }
            if text(items, "type") == "object" && text(items, "x-kubernetes-map-type") != "atomic" {
                let shown = items.get("x-kubernetes-map-type").cloned().unwrap_or(Value::Null);
                let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
                self.invalid(format!("{path}.items.x-kubernetes-map-type"), &shown, detail);
            }
            if text(items, "type") == "array" && !matches!(text(items, "x-kubernetes-list-type"), "" | "atomic") {
                let shown = json!(text(items, "x-kubernetes-list-type"));
                let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
                self.invalid(format!("{path}.items.x-kubernetes-list-type"), &shown, detail);
            }
        }
        match text(map, "x-kubernetes-map-type") {
            "" => {}
            "atomic" | "granular" if ty == "object" => {}
            "atomic" | "granular" => {
                self.invalid(
                    format!("{path}.type"),
                    &json!(ty),
                    "must be object if x-kubernetes-map-type is specified",
                );
            }
            other => {
                let field = format!("{path}.x-kubernetes-map-type");
                self.errors
                    .push(FieldError::not_supported(field, &json!(other), &["atomic", "granular"]));
            }
        }
    }

    fn list_map(&mut self, keys: &[&str], items: &Map<String, Value>, path: &str) {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            self.required(format!("{path}.x-kubernetes-list-map-keys"), detail);
        }
        let item_type = text(items, "type");
        if item_type != "object" {
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            self.invalid(format!("{path}.items.type"), &json!(item_type), detail);
            return;
        }
        let required: Vec<&str> = list(items, "required").filter_map(|it| it.1.as_str()).collect();
        let properties = items.get("properties").and_then(Value::as_object);
        let field = format!("{path}.x-kubernetes-list-map-keys");
        if keys
            .iter()
            .any(|key| properties.is_none_or(|it| !it.contains_key(*key)))
        {
            let detail = "entries must all be names of item properties";
            self.invalid(field.clone(), &json!(keys), detail);
        }
        let different: BTreeSet<&&str> = keys.iter().collect();
        if different.len() < keys.len() {
            self.invalid(field, &json!(keys), "must not contain duplicate entries");
        }
        for key in different {
            let Some(property) = items
                .get("properties")
                .and_then(|it| it.get(*key))
                .and_then(Value::as_object)
            else {
                continue;
            };
            let field = format!("{path}.items.properties[{key}]");
            if matches!(text(property, "type"), "object" | "array") {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                self.invalid(format!("{field}.type"), &json!(text(property, "type")), detail);
            }
            if flag(property, "nullable") {
                self.forbidden(
                    format!("{field}.nullable"),
                    "this property is in x-kubernetes-list-map-keys, so it cannot be nullable",
                );
            }
            if !required.contains(key) && property.get("default").is_none_or(Value::is_null) {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                self.required(format!("{field}.default"), detail);
            }
        }
    }

    fn metadata(&mut self, map: &Map<String, Value>, path: &str) {
        for (key, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
            let property = map.get("properties").and_then(|it| it.get(key));
            if let Some(property) = property.and_then(Value::as_object)
                && text(property, "type") != wanted
            {
                let field = format!("{path}.properties[{key}].type");
                self.invalid(field, &json!(text(property, "type")), &format!("must be {wanted}"));
            }
        }
        let Some(metadata) = map
            .get("properties")
            .and_then(|it| it.get("metadata"))
            .and_then(Value::as_object)
        else {
            return;
        };
        let only_names = metadata
            .get("properties")
            .and_then(Value::as_object)
            .is_none_or(|it| it.keys().all(|key| key == "name" || key == "generateName"));
        let plain = metadata
            .keys()
            .all(|key| ["type", "properties", "description"].contains(&key.as_str()));
        if !only_names || !plain {
            let detail =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            self.forbidden(format!("{path}.properties[metadata]"), detail);
        }
    }

    fn default(&mut self, map: &Map<String, Value>, path: &str) {
        let Some(default) = map.get("default").filter(|it| !it.is_null()) else {
            return;
        };
        let field = format!("{path}.default");
        let Ok(schema) = Schema::from_openapi(&Value::Object(map.clone())) else {
            return;
        };
        let mut pruned = default.clone();
        let known = prune::prune(&mut pruned, &schema, false);
        if pruned != *default || known.is_err() {
            self.invalid(field.clone(), default, "must not have unknown fields");
        }
        for mut error in validate::validate(default, None, &schema) {
            error.detail = error.detail.replace(":  in body", &format!(": {field} in body"));
            error.field = match error.field.as_str() {
                validate::NO_FIELD => field.clone(),
                inner => format!("{field}.{inner}"),
            };
            self.errors.push(error);
        }
    }

    fn junctors(&mut self, map: &Map<String, Value>, path: &str, place: Place) {
        let beside = Beside {
            outside: Some(map),
            // Of the other nodes Kubernetes does not ask whether what their junctors judge is there at all.
            is_complete: place == Place::Root,
            types_allowed: false,
        };
        for key in ["allOf", "anyOf", "oneOf"] {
            for (at, child) in list(map, key) {
                let Some(child) = child.as_object() else { continue };
                // `anyOf: [{type: integer}, {type: string}]` is how int-or-string is written out.
                let types_allowed = flag(map, "x-kubernetes-int-or-string") && (key == "anyOf" || key == "allOf");
                self.junctor(
                    child,
                    Beside {
                        types_allowed,
                        ..beside
                    },
                    &format!("{path}.{key}[{at}]"),
                );
            }
        }
        if let Some(child) = map.get("not").and_then(Value::as_object) {
            self.junctor(child, beside, &format!("{path}.not"));
        }
    }

    fn junctor(&mut self, map: &Map<String, Value>, beside: Beside<'_>, path: &str) {
        for key in map.keys() {
            let wanted = match key.as_str() {
                "type" if beside.types_allowed => continue,
                "type" | "title" | "description" => "empty",
                "default" | "additionalProperties" => "undefined",
                "nullable" => "false",
                "x-kubernetes-list-type" | "x-kubernetes-list-map-keys" | "x-kubernetes-map-type" => "undefined",
                "x-kubernetes-preserve-unknown-fields"
                | "x-kubernetes-embedded-resource"
                | "x-kubernetes-int-or-string" => "false",
                key if key.starts_with("x-kubernetes-") => "empty",
                _ => continue,
            };
            if map[key] != json!(false) {
                self.forbidden(format!("{path}.{key}"), &format!("must be {wanted} to be structural"));
            }
        }
        self.common(
            &map.iter()
                .filter(|it| it.0 != "type")
                .map(|it| (it.0.clone(), it.1.clone()))
                .collect(),
            path,
        );
        let outside = |key: &str| beside.outside.and_then(|it| it.get(key));
        let empty = Map::new();
        for (name, child) in map.get("properties").and_then(Value::as_object).unwrap_or(&empty) {
            let below = outside("properties")
                .and_then(|it| it.get(name))
                .or(outside("additionalProperties"))
                .and_then(Value::as_object);
            if below.is_none() && beside.is_complete {
                self.required(
                    format!("{}.properties[{name}]", path.rsplit_once('.').map_or(path, |it| it.0)),
                    &format!("because it is defined in {path}.properties[{name}]"),
                );
                continue;
            }
            let Some(child) = child.as_object() else { continue };
            let below = Beside {
                outside: below,
                is_complete: beside.is_complete,
                types_allowed: below.is_some_and(|it| flag(it, "x-kubernetes-int-or-string")),
            };
            self.junctor(child, below, &format!("{path}.properties[{name}]"));
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for (at, child) in list(map, key) {
                if let Some(child) = child.as_object() {
                    let types_allowed = beside.types_allowed && key == "anyOf";
                    self.junctor(
                        child,
                        Beside {
                            types_allowed,
                            ..beside
                        },
                        &format!("{path}.{key}[{at}]"),
                    );
                }
            }
        }
        let same = Beside {
            types_allowed: false,
            ..beside
        };
        if let Some(child) = map.get("items").and_then(Value::as_object) {
            let below = Beside {
                outside: outside("items").and_then(Value::as_object),
                ..same
            };
            self.junctor(child, below, &format!("{path}.items"));
        }
        if let Some(child) = map.get("not").and_then(Value::as_object) {
            self.junctor(child, same, &format!("{path}.not"));
        }
    }

    fn rules(&mut self, map: &Map<String, Value>, path: &str) {
        let rules: Vec<_> = list(map, "x-kubernetes-validations").collect();
        if rules.is_empty() {
            return;
        }
        let Ok(schema) = Schema::from_openapi(&Value::Object(map.clone())) else {
            return;
        };
        for ((at, node), rule) in rules.into_iter().zip(&schema.rules) {
            let field = format!("{path}.x-kubernetes-validations[{at}]");
            self.rule(&field, node, rule, &schema);
        }
    }

    fn rule(&mut self, field: &str, node: &Value, rule: &Rule, schema: &Schema) {
        if rule.rule.trim().is_empty() {
            self.required(format!("{field}.rule"), "rule is not specified");
            return;
        }
        if rule.message.is_empty() && rule.message_expression.is_empty() && rule.rule.trim().contains('\n') {
            self.required(
                format!("{field}.message"),
                "message must be specified if rule contains line breaks",
            );
        }
        if node
            .get("message")
            .is_some_and(|it| it.as_str().is_some_and(|it| !it.is_empty() && it.trim().is_empty()))
        {
            let detail = "message must be non-empty if specified";
            self.invalid(format!("{field}.message"), &node["message"], detail);
        }
        if rule.message.trim().contains('\n') {
            self.invalid(
                format!("{field}.message"),
                &json!(rule.message),
                "message must not contain line breaks",
            );
        }
        const REASONS: [&str; 4] = [
            "FieldValueDuplicate",
            "FieldValueForbidden",
            "FieldValueInvalid",
            "FieldValueRequired",
        ];
        if !rule.reason.is_empty() && !REASONS.contains(&rule.reason.as_str()) {
            self.errors.push(FieldError::not_supported(
                format!("{field}.reason"),
                &json!(rule.reason),
                &REASONS,
            ));
        }
        if !rule.field_path.is_empty() && !reaches(&rule.field_path, schema) {
            let detail = "fieldPath must be a valid path";
            self.invalid(format!("{field}.fieldPath"), &json!(rule.field_path), detail);
        }
        let shown = shown_rule(rule);
        match rules::read(&rule.rule) {
            Err(error) => self.rule_error(format!("{field}.rule"), &shown, &error.to_string()),
            Ok(program) => {
                match program.look(|it| rule_types::check(&rule.rule, it, schema)) {
                    Err(error) => self.rule_error(format!("{field}.rule"), &shown, &error),
                    Ok(found) if found == rule_types::Found::Other || found == rule_types::Found::Text => {
                        self.rule_error(
                            format!("{field}.rule"),
                            &shown,
                            "cel expression must evaluate to a bool",
                        );
                    }
                    Ok(_) => {}
                }
                if program.mentions("oldSelf")
                    && let Some(list) = &self.uncorrelatable
                {
                    let detail =
                        format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
                    self.rule_error(format!("{field}.rule"), &shown, &detail);
                }
                if program.look(nested_loops) > 8 {
                    let detail = "estimated rule cost exceeds budget by factor of more than 100x (try simplifying the rule, or adding maxItems, \
                                  maxProperties, and maxLength where arrays, maps, and strings are declared)";
                    self.forbidden(format!("{field}.rule"), detail);
                }
            }
        }
        if !rule.message_expression.is_empty() {
            let at = format!("{field}.messageExpression");
            match rules::read(&rule.message_expression) {
                Err(error) => self.rule_error(at, &shown, &format!("messageExpression {error}")),
                Ok(program) => match program.look(|it| rule_types::check(&rule.message_expression, it, schema)) {
                    Err(error) => self.rule_error(at, &shown, &format!("messageExpression {error}")),
                    Ok(found) if found != rule_types::Found::Text && found != rule_types::Found::Unknown => {
                        self.rule_error(at, &shown, "messageExpression must evaluate to a string");
                    }
                    Ok(_) => {}
                },
            }
        }
    }

    fn rule_error(&mut self, field: String, shown: &str, text: &str) {
        let detail = format!("Invalid value: {shown}: {text}");
        self.errors.push(FieldError {
            reason: "FieldValueInvalid",
            field,
            detail,
        });
    }
}

/// A rule as Go prints its struct: members in declaration order.
fn shown_rule(rule: &Rule) -> String {
    let text = |it: &str| json!(it).to_string();
    let reason = if rule.reason.is_empty() {
        "null".to_owned()
    } else {
        text(&rule.reason)
    };
    let optional = if rule.optional_old_self { "true" } else { "null" };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\"OptionalOldSelf\":{optional}}}",
        text(&rule.rule),
        text(&rule.message),
        text(&rule.message_expression),
        text(&rule.field_path)
    )
}

/// Whether a `fieldPath` such as `.spec.map['key']` leads to a node of the schema.
fn reaches(path: &str, schema: &Schema) -> bool {
    let mut node = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name = if let Some(tail) = rest.strip_prefix("['") {
            let Some((name, tail)) = tail.split_once("']") else {
                return false;
            };
            rest = tail;
            name
        } else if let Some(tail) = rest.strip_prefix('.') {
            let end = tail.find(['.', '[']).unwrap_or(tail.len());
            rest = &tail[end..];
            &tail[..end]
        } else {
            return false;
        };
        match node.child(name) {
            Some(child) => node = child,
            None => return false,
        }
    }
    true
}
