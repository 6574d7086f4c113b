//! The schema of `ObjectMeta`, which every object has and no CRD spells out.

use super::Schema;
use serde_json::json;
use std::sync::{Arc, OnceLock};

/// The schema of `metadata`, with the list types that server-side apply and strategic merge need.
pub fn object_meta() -> &'static Arc<Schema> {
    static SCHEMA: OnceLock<Arc<Schema>> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let time = json!({"type": "string", "format": "date-time"});
        let text = json!({"type": "string"});
        // A plain field with `omitempty`: empty is as good as absent.
        let plain = json!({"type": "string", "x-omit-zero": true});
        let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let owner = json!({
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "required": ["apiVersion", "kind", "name", "uid"],
            "properties": {
                "apiVersion": text, "kind": text, "name": text, "uid": text,
                "blockOwnerDeletion": {"type": "boolean"}, "controller": {"type": "boolean"},
            },
        });
        let entry = json!({
            "type": "object",
            "properties": {
                "apiVersion": plain, "fieldsType": plain, "manager": plain, "operation": plain, "subresource": plain, "time": time,
                "fieldsV1": {"type": "object", "x-opaque": true, "x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-map-type": "atomic"},
            },
        });
        let mut schema = Schema::from_openapi(&json!({
            "type": "object",
            "properties": {
                "annotations": texts, "labels": texts,
                "creationTimestamp": time, "deletionTimestamp": time,
                "deletionGracePeriodSeconds": {"type": "integer", "format": "int64"},
                "generation": {"type": "integer", "format": "int64", "x-omit-zero": true},
                "finalizers": {
                    "type": "array", "items": text, "x-kubernetes-list-type": "set", "x-kubernetes-patch-strategy": "merge",
                },
                "generateName": plain, "name": plain, "namespace": plain, "resourceVersion": plain, "selfLink": plain, "uid": plain,
                "managedFields": {"type": "array", "items": entry, "x-kubernetes-list-type": "atomic"},
                "ownerReferences": {
                    "type": "array", "items": owner, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uid"],
                    "x-kubernetes-patch-merge-key": "uid", "x-kubernetes-patch-strategy": "merge",
                },
            },
        }))
        .expect("a constant schema is well formed");
        schema.name = Some("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta".into());
        Arc::new(schema)
    })
}
