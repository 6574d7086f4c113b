//! OpenAPI v3: an index, and one document per group version.

use super::{
    digest, paths,
    schemas::{self, Dialect},
};
use crate::registry::{Registry, Resource};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Changes when the way documents are written does, so that clients do not keep old ones.
const EDITION: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");

/// `api/v1` or `apis/{group}/{version}`.
fn key(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

/// The served group and version that a key names.
pub(super) fn parse_key(registry: &Registry, key: &str) -> Option<(String, String)> {
    let (group, version) = match key.strip_prefix("apis/") {
        Some(rest) => rest.split_once('/')?,
        None => ("", key.strip_prefix("api/")?),
    };
    let served = registry.versions(group).iter().any(|it| it == version);
    served.then(|| (group.to_owned(), version.to_owned()))
}

/// Where a document is.
pub(super) fn url(key: &str, hash: &str) -> String {
    format!("/openapi/v3/{key}?hash={hash}")
}

pub(super) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for (group, _) in registry.groups() {
        for version in registry.versions(group) {
            let key = key(group, &version);
            let url = url(&key, &hash(registry, group, &version));
            paths.insert(key, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths})
}

/// The resources of a group version.
fn resources<'a>(registry: &'a Registry, group: &str, version: &str) -> Vec<&'a Arc<Resource>> {
    let all = registry.group(group).into_iter().flat_map(|it| it.values());
    all.filter(|it| it.version(version).is_some()).collect()
}

/// The hash of a document, found without making it: built-in kinds change only with the program, custom ones with their
/// definitions.
pub(super) fn hash(registry: &Registry, group: &str, version: &str) -> String {
    let mut text = String::new();
    for resource in resources(registry, group, version) {
        let status = resource.version(version).is_some_and(|it| it.status);
        text += &format!(
            "{}\n{}\n{}\n{status}\n",
            resource.plural, resource.kind, resource.namespaced
        );
        if !resource.is_builtin() {
            text += &resource.raw_schema(version).to_string();
        }
    }
    digest(&[
        EDITION.as_bytes(),
        group.as_bytes(),
        version.as_bytes(),
        text.as_bytes(),
    ])
}

pub(super) fn document(registry: &Registry, group: &str, version: &str) -> Value {
    let resources = resources(registry, group, version);
    let paths: Map<_, _> = resources
        .iter()
        .flat_map(|it| paths::of(it, version, Dialect::V3))
        .collect();
    let pairs: Vec<_> = resources.into_iter().map(|it| (it, version)).collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths,
        "components": {
            "schemas": schemas::definitions(&pairs, Dialect::V3),
            "securitySchemes": {
                "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"},
            },
        },
    })
}
