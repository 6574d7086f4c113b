//! Schemas of the types that are Kubernetes' own, as CustomResourceDefinitions write them.
//! An extension `x-default` becomes `default`, `x-optional` takes a field that is always written out of `required`, and
//! `x-nullable` becomes `nullable`; `crds::generate` does all three.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A DNS-1123 label.
pub(crate) const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A qualified name with an optional DNS prefix, as in label keys.
pub(crate) const QUALIFIED_NAME: &str =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// A DNS-1123 subdomain.
pub(crate) const DNS_SUBDOMAIN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$";

/// One condition.
pub(crate) fn condition(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "One observation of the object's state.",
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {
                "description": "When the status last changed from one answer to another.",
                "type": "string", "format": "date-time"
            },
            "message": { "description": "Details for people; may be empty.", "type": "string", "maxLength": 32768 },
            "observedGeneration": {
                "description": "The metadata.generation the condition was set for; older than the object's means out of date.",
                "type": "integer", "format": "int64", "minimum": 0
            },
            "reason": {
                "description": "Why the status last changed, as one CamelCase word for programs.",
                "type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
            },
            "status": { "description": "True, False or Unknown.", "type": "string", "enum": ["True", "False", "Unknown"] },
            "type": {
                "description": "What is observed, in CamelCase.",
                "type": "string", "maxLength": 316, "pattern": QUALIFIED_NAME
            }
        }
    })
}

/// Conditions as a list that is merged by type.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": condition(generator),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"]
    })
}

/// Conditions as a plain list, where upstream forgot to say how to merge it.
pub(crate) fn plain_conditions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": condition(generator) })
}

/// A label selector.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "description": "Requirements that all have to hold.",
                "type": "array",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "The label's key.", "type": "string" },
                        "operator": { "description": "In, NotIn, Exists or DoesNotExist.", "type": "string" },
                        "values": {
                            "description": "The values for In and NotIn; empty for the others.",
                            "type": "array", "x-kubernetes-list-type": "atomic", "items": { "type": "string" }
                        }
                    }
                }
            },
            "matchLabels": {
                "description": "Labels that have to be there with exactly these values.",
                "type": "object", "additionalProperties": { "type": "string" }
            }
        }
    })
}

/// Amounts by resource name.
pub(crate) fn quantities(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "additionalProperties": quantity(generator) })
}

/// One amount.
pub(crate) fn quantity(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true
    })
}

/// A number or a text, such as `3` or `25%`.
#[allow(dead_code)]
pub(crate) fn int_or_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "type": "integer" }, { "type": "string" }], "x-kubernetes-int-or-string": true })
}

/// An object of which the API server itself demands apiVersion, kind and metadata.
pub(crate) fn embedded_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true
    })
}

/// The objects of a work.
pub(crate) fn manifests(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": embedded_object(generator) })
}

/// Bytes as base64.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "byte" })
}
