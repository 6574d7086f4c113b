//! Schemas of CustomResourceDefinitions, and objects of them.

use super::{part, text};
use kube_store::schema::{
    Schema, decode, default, duplicates, formats, prune, quantity, structural, timestamps, validate,
};
use serde_json::{Value, json};

/// A schema of a CustomResourceDefinition and an object of it; quantities, times and formats.
pub fn schemas(data: &[u8]) {
    let (schema_text, object_text) = part(data);
    for it in [text(schema_text), text(object_text)] {
        if let Ok(once) = quantity::canonical(it) {
            assert_eq!(quantity::canonical(&once).as_ref(), Ok(&once), "{it:?}");
        }
        let _ = quantity::milli(it);
        let _ = (
            timestamps::normalise_seconds(it),
            timestamps::normalise_micros(it),
            timestamps::is_rfc3339(it),
        );
        for format in [
            "date-time",
            "date",
            "duration",
            "byte",
            "ipv4",
            "ipv6",
            "cidr",
            "uri",
            "email",
            "hostname",
            "uuid",
            "mac",
            "quantity",
        ] {
            let _ = formats::is_valid(format, it);
        }
    }
    let Ok(node) = serde_json::from_slice::<Value>(schema_text) else {
        return;
    };
    let mut crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": node.clone()}}],
        },
    });
    structural::default_crd(&mut crd);
    let _ = structural::tidy_schemas(&mut crd);
    let errors = structural::check_crd(&crd);
    let Ok(schema) = Schema::from_openapi(&node) else {
        return;
    };
    let Ok(object) = serde_json::from_slice::<Value>(object_text) else {
        return;
    };
    let _ = duplicates::duplicates(object_text);
    if !errors.is_empty() {
        return;
    }
    let mut kept = object.clone();
    if decode::decode(&mut kept, &schema, "Thing").is_err() || prune::prune(&mut kept, &schema, true).is_err() {
        return;
    }
    default::apply_defaults(&mut kept, &schema);
    let once = kept.clone();
    default::apply_defaults(&mut kept, &schema);
    assert_eq!(once, kept, "defaults are there after the first time");
    let _ = validate::validate(&kept, Some(&object), &schema);
}
