//! Patches of every format, and server-side apply.

use super::part;
use kube_store::{managed, patch, schema::Schema};
use serde_json::{Value, json};
use std::sync::LazyLock;

static POD: LazyLock<Schema> = LazyLock::new(|| {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {
                "containers": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name",
                    "items": {"type": "object", "required": ["name"], "properties": {
                        "name": {"type": "string"}, "image": {"type": "string", "default": "none"},
                        "ports": {
                            "type": "array", "x-kubernetes-list-type": "map",
                            "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
                            "items": {"type": "object", "properties": {
                                "containerPort": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"},
                            }},
                        },
                    }},
                },
                "finalizers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                "port": {"x-kubernetes-int-or-string": true},
            }},
        },
    });
    Schema::from_openapi(&schema).expect("the schema is one")
});

/// A patch and the object it is for, in every patch format, and as a server-side apply.
pub fn patches(data: &[u8]) {
    let (body, live) = part(data);
    let Ok(live @ Value::Object(_)) = serde_json::from_slice::<Value>(live) else {
        return;
    };
    let _ = patch::json::apply(&live, body);
    if let Ok(once) = patch::merge::apply(&live, body) {
        // What a merge patch says is so after it, however often.
        assert_eq!(patch::merge::apply(&once, body).ok(), Some(once));
    }
    let _ = patch::strategic::apply(&live, body, &POD);
    let Ok(config @ Value::Object(_)) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    let ctx = managed::Ctx {
        schema: &POD,
        manager: "fuzz",
        api_version: "v1",
        subresource: "",
        now: jiff::Timestamp::UNIX_EPOCH,
        reset_fields: &[&["status"]],
        built_in: false,
        served: &["v1"],
        versions: None,
    };
    if let Ok(once) = managed::apply(Some(&live), &config, &ctx, true) {
        let again = managed::apply(Some(&once), &config, &ctx, false);
        assert!(
            again.is_ok(),
            "who has applied by force owns what was applied: {again:?}"
        );
    }
    let mut new = config;
    managed::update(Some(&live), &mut new, &ctx);
}
