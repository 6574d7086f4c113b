//! Schemas of the types that are Kubernetes' own, as CustomResourceDefinitions write them.
//! An extension `x-default` becomes `default`, `x-optional` takes a field that is always written out of `required`, and
//! `x-nullable` becomes `nullable`; `crds::generate` does all three.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A DNS-1123 label.
pub(crate) const DNS_LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A qualified name with an optional DNS prefix, as in label keys.
pub(crate) const QUALIFIED_NAME: &str =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// The same as upstream writes it for topology keys, with one pair of brackets fewer.
pub(crate) const TOPOLOGY_KEY: &str =
    "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// A DNS-1123 subdomain.
pub(crate) const DNS_SUBDOMAIN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$";

/// A signer's name: a domain and a path.
pub(crate) const SIGNER_NAME: &str = "^([a-z0-9][a-z0-9-]*[a-z0-9]\\.)+[a-z]+\\/[a-z0-9-\\.]+$";
/// A host name.
pub(crate) const HOST_NAME: &str =
    "^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\\-]*[a-zA-Z0-9])\\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\\-]*[A-Za-z0-9])$";
/// An IPv4 address.
pub(crate) const IPV4: &str =
    "^(?:(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)\\.){3}(?:25[0-5]|2[0-4][0-9]|[01]?[0-9][0-9]?)$";
/// An EKS cluster's name in AWS.
pub(crate) const EKS_ARN: &str = "^arn:aws:eks:([a-zA-Z0-9-]+):(\\d{12}):cluster/([a-zA-Z0-9-]+)$";
/// A duration in hours, minutes and seconds.
pub(crate) const DURATION: &str = "^([0-9]+(s|m|h))+$";

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
    let mut expressions = selector_requirements_of("label");
    expressions.insert("x-kubernetes-list-type".into(), "atomic".into());
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": expressions,
            "matchLabels": {
                "description": "Labels that have to be there with exactly these values.",
                "type": "object", "additionalProperties": { "type": "string" }
            }
        }
    })
}

/// Requirements on claims.
pub(crate) fn selector_requirements(_: &mut SchemaGenerator) -> Schema {
    selector_requirements_of("claim")
}

fn selector_requirements_of(what: &str) -> Schema {
    json_schema!({
        "description": "Requirements that all have to hold.",
        "type": "array",
        "items": {
            "type": "object",
            "required": ["key", "operator"],
            "properties": {
                "key": { "description": format!("The {what}'s name."), "type": "string" },
                "operator": { "description": "In, NotIn, Exists or DoesNotExist.", "type": "string" },
                "values": {
                    "description": "The values for In and NotIn; empty for the others.",
                    "type": "array", "x-kubernetes-list-type": "atomic", "items": { "type": "string" }
                }
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

/// A number or a text, such as `3` or `25%`, that matches a pattern.
fn int_or_string(pattern: &str) -> Schema {
    json_schema!({
        "anyOf": [{ "type": "integer" }, { "type": "string" }],
        "pattern": pattern,
        "x-kubernetes-int-or-string": true
    })
}

/// A count of clusters or a percentage of them.
pub(crate) fn count_or_percent(_: &mut SchemaGenerator) -> Schema {
    int_or_string("^((100|[0-9]{1,2})%|[0-9]+)$")
}

/// A count of clusters, or a percentage of them, that is not zero.
pub(crate) fn group_size(_: &mut SchemaGenerator) -> Schema {
    let mut schema = int_or_string("^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$");
    schema.insert("x-default".into(), "100%".into());
    schema
}

/// A number that upstream wrote as Go's `int`, which has no format.
pub(crate) fn count(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer" })
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

/// Taints of nodes that pods tolerate.
pub(crate) fn node_tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "effect": { "description": "The taint's effect; all when empty.", "type": "string" },
                "key": { "description": "The taint's key; all when empty.", "type": "string" },
                "operator": { "description": "Equal (the default) or Exists.", "type": "string" },
                "tolerationSeconds": {
                    "description": "For how long a NoExecute taint is tolerated; for ever when it is not said.",
                    "type": "integer", "format": "int64"
                },
                "value": { "description": "The taint's value, for Equal.", "type": "string" }
            }
        }
    })
}

/// What a container asks for and may use.
pub(crate) fn container_resources(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "claims": {
                "description": "Claims of the pod that the container uses.",
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {
                        "name": { "description": "The claim's name in the pod.", "type": "string" },
                        "request": { "description": "One request of the claim; all when empty.", "type": "string" }
                    }
                }
            },
            "limits": quantities(generator),
            "requests": quantities(generator)
        }
    })
}

/// Endings of claim names.
pub(crate) fn claim_suffixes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 10,
        "items": { "type": "string", "minLength": 1, "maxLength": 64 }
    })
}
