//! The paths of a group version and their operations: what kubectl searches for a kind's PATCH.

use super::schemas::{Dialect, kind_name};
use crate::registry::Resource;
use serde_json::{Map, Value, json};

/// Query parameters of a PATCH. kubectl takes `fieldValidation` here as the sign that the server validates.
const PATCH_PARAMETERS: [(&str, &str); 4] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const WRITE_PARAMETERS: [(&str, &str); 3] = [
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const LIST_PARAMETERS: [(&str, &str); 7] = [
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

/// One operation to write.
struct Operation<'a> {
    method: &'a str,
    action: &'a str,
    parameters: &'a [(&'a str, &'a str)],
    /// Media types of the body; none without a body.
    consumes: Vec<&'a str>,
    /// Definition of the answer.
    answers: String,
    code: &'a str,
}

/// All paths of a resource in one version.
pub(super) fn of(resource: &Resource, version: &str, dialect: Dialect) -> Vec<(String, Value)> {
    let root = match resource.group.as_str() {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    };
    let name = kind_name(resource, version);
    let list = format!("{name}List");
    let bodies = || vec!["application/json", "application/yaml"];
    let patches = || {
        let all = [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ];
        let strategic = resource
            .is_builtin()
            .then_some("application/strategic-merge-patch+json");
        all.into_iter().chain(strategic).collect::<Vec<_>>()
    };
    let operation = |method, action, parameters, consumes, answers: &str, code| Operation {
        method,
        action,
        parameters,
        consumes,
        answers: answers.to_owned(),
        code,
    };
    let create = operation("post", "post", &WRITE_PARAMETERS[..], bodies(), &name, "201");
    let in_namespace = if resource.namespaced {
        "/namespaces/{namespace}"
    } else {
        ""
    };
    let collection = format!("{root}{in_namespace}/{}", resource.plural);
    let path = |operations: &[Operation<'_>], named: bool| {
        item(resource, version, operations, named, resource.namespaced, dialect)
    };
    if resource.traits.review {
        return vec![(collection, path(&[create], false))];
    }
    let read_list = || operation("get", "list", &LIST_PARAMETERS[..], vec![], &list, "200");
    let single = |deletes: bool| {
        let mut operations = vec![
            operation("get", "get", &[], vec![], &name, "200"),
            operation("put", "put", &WRITE_PARAMETERS[..], bodies(), &name, "200"),
            operation("patch", "patch", &PATCH_PARAMETERS[..], patches(), &name, "200"),
        ];
        if deletes {
            operations.push(operation(
                "delete",
                "delete",
                &[("dryRun", "string")],
                bodies(),
                &name,
                "200",
            ));
        }
        operations
    };
    let mut paths = vec![
        (collection.clone(), path(&[read_list(), create], false)),
        (format!("{collection}/{{name}}"), path(&single(true), true)),
    ];
    if resource.namespaced {
        let all = item(resource, version, &[read_list()], false, false, dialect);
        paths.push((format!("{root}/{}", resource.plural), all));
    }
    if resource.version(version).is_some_and(|it| it.status) {
        paths.push((format!("{collection}/{{name}}/status"), path(&single(false), true)));
    }
    paths
}

fn item(
    resource: &Resource,
    version: &str,
    operations: &[Operation<'_>],
    named: bool,
    namespaced: bool,
    dialect: Dialect,
) -> Value {
    let mut map = Map::new();
    for it in operations {
        map.insert(it.method.into(), write(resource, version, it, dialect));
    }
    let mut parameters = Vec::new();
    for (name, _) in [("name", named), ("namespace", namespaced)]
        .into_iter()
        .filter(|(_, on)| *on)
    {
        let mut parameter = parameter(name, "string", "path", dialect);
        parameter["required"] = true.into();
        parameters.push(parameter);
    }
    if !parameters.is_empty() {
        map.insert("parameters".into(), parameters.into());
    }
    map.into()
}

fn parameter(name: &str, ty: &str, place: &str, dialect: Dialect) -> Value {
    match dialect {
        Dialect::V2 => json!({"name": name, "in": place, "type": ty, "uniqueItems": true}),
        Dialect::V3 => json!({"name": name, "in": place, "schema": {"type": ty, "uniqueItems": true}}),
    }
}

fn write(resource: &Resource, version: &str, operation: &Operation<'_>, dialect: Dialect) -> Value {
    let kind = json!({"group": resource.group, "version": version, "kind": resource.kind});
    let mut parameters: Vec<_> = operation
        .parameters
        .iter()
        .map(|(name, ty)| parameter(name, ty, "query", dialect))
        .collect();
    let reference = dialect.reference(&operation.answers);
    let mut value = json!({"x-kubernetes-action": operation.action, "x-kubernetes-group-version-kind": kind});
    let described = |reference: &Value| match dialect {
        Dialect::V2 => json!({"description": "OK", "schema": reference}),
        Dialect::V3 => json!({"description": "OK", "content": {"application/json": {"schema": reference}}}),
    };
    value["responses"] = json!({
        operation.code: described(&reference), "401": {"description": "Unauthorized"},
    });
    match dialect {
        Dialect::V2 => {
            value["produces"] = json!(["application/json", "application/yaml"]);
            if !operation.consumes.is_empty() {
                value["consumes"] = operation.consumes.clone().into();
                parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": {"type": "object"}}));
            }
        }
        Dialect::V3 if !operation.consumes.is_empty() => {
            // A patch is not an object of the kind.
            let body = if operation.action == "patch" {
                json!({"type": "object"})
            } else {
                reference
            };
            let content = operation
                .consumes
                .iter()
                .map(|it| ((*it).to_owned(), json!({"schema": body})));
            value["requestBody"] = json!({"content": content.collect::<Map<_, _>>()});
        }
        Dialect::V3 => {}
    }
    if !parameters.is_empty() {
        value["parameters"] = parameters.into();
    }
    value
}
