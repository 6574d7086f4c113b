//! Schemas of Kubernetes' RBAC types, as they stand inside a ClusterPermission.

use schemars::{Schema, SchemaGenerator, json_schema};

fn strings(about: &str) -> Schema {
    json_schema!({
        "description": about,
        "type": "array", "x-kubernetes-list-type": "atomic", "items": { "type": "string" }
    })
}

/// What a role allows.
pub(super) fn rules(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "description": "Verbs on resources or on paths.",
            "type": "object",
            "required": ["verbs"],
            "properties": {
                "apiGroups": strings("The API groups of the resources; empty is the core group, `*` is all."),
                "nonResourceURLs": strings("Paths that are no resources; only in ClusterRoles."),
                "resourceNames": strings("Only objects of these names; empty is all."),
                "resources": strings("The resources; `*` is all."),
                "verbs": strings("The verbs; `*` is all."),
            }
        }
    })
}

/// The role of a ClusterRoleBinding.
pub(super) fn role_ref(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "required": ["apiGroup", "kind", "name"],
        "properties": {
            "apiGroup": { "description": "The API group of the role.", "type": "string" },
            "kind": { "description": "The role's kind.", "type": "string" },
            "name": { "description": "The role's name.", "type": "string" }
        }
    })
}

/// One subject.
pub(super) fn subject(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "required": ["kind", "name"],
        "properties": {
            "apiGroup": { "description": "The API group of the subject; empty for a ServiceAccount.", "type": "string" },
            "kind": { "description": "User, Group, ServiceAccount or ManagedServiceAccount.", "type": "string" },
            "name": { "description": "The subject's name.", "type": "string" },
            "namespace": { "description": "The namespace of a ServiceAccount.", "type": "string" }
        }
    })
}

/// Several subjects.
pub(super) fn subjects(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "array", "items": subject(generator) })
}
