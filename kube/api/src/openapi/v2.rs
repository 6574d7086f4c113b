//! OpenAPI v2 (Swagger 2.0): everything in one document, for kubectl 1.26 and older.

use super::{
    paths,
    schemas::{self, Dialect},
};
use crate::registry::Registry;
use serde_json::{Map, Value, json};

pub(super) fn document(registry: &Registry) -> Value {
    let mut pairs = Vec::new();
    for resource in registry.resources() {
        pairs.extend(
            resource
                .versions
                .iter()
                .filter(|it| it.served)
                .map(|it| (resource, it.name.as_str())),
        );
    }
    let paths: Map<_, _> = pairs
        .iter()
        .flat_map(|(it, version)| paths::of(it, version, Dialect::V2))
        .collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.0"},
        "paths": paths,
        "definitions": schemas::definitions(&pairs, Dialect::V2),
        "securityDefinitions": {
            "BearerToken": {"type": "apiKey", "name": "authorization", "in": "header", "description": "Bearer Token authentication"},
        },
        "security": [{"BearerToken": []}],
    })
}
