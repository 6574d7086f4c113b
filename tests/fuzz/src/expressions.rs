//! CEL: expressions by themselves, and as rules of a definition.

use super::{part, text};
use kube_store::schema::{Schema, decode, prune, structural, validate};
use safe_cel::{Budget, Error, Library, from_json};
use serde_json::{Value, json};

/// An expression on the first line, and an object.
pub fn expressions(data: &[u8]) {
    let (expression, object) = part(data);
    let expression = text(expression);
    let object: Value = serde_json::from_slice(object).unwrap_or_else(|_| json!({"name": "a", "list": [1, 2]}));
    let library = Library::kubernetes();
    match library.compile(expression, &["object", "self", "oldSelf"]) {
        Ok(compiled) => {
            let mut context = library.scope();
            for name in ["object", "self", "oldSelf"] {
                context.add_variable_from_value(name, from_json(&object));
            }
            let answer = compiled.evaluate(&context, &mut Budget::of_object());
            assert_ne!(answer, Err(Error::Engine));
        }
        Err(error) => assert!(!error.0.contains("cannot be read"), "{error}"),
    }
    rule(expression, &object);
}

/// The expression as a rule of a schema that fits most of the seeds, and its message.
fn rule(expression: &str, object: &Value) {
    let rule = json!({"rule": expression, "messageExpression": expression, "optionalOldSelf": true});
    let node = json!({
        "type": "object", "x-kubernetes-validations": [rule],
        "properties": {
            "name": {"type": "string", "maxLength": 10}, "text": {"type": "string"}, "n": {"type": "integer"},
            "f": {"type": "number"}, "q": {"x-kubernetes-int-or-string": true}, "u": {"type": "string", "format": "uri"},
            "time": {"type": "string", "format": "date-time"}, "ip": {"type": "string"}, "opt": {"type": "string", "nullable": true},
            "list": {"type": "array", "maxItems": 20, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                     "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"b": {"type": "array", "items": {"type": "integer"}}}}},
            "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": node},
            }}}],
        },
    });
    let is_good = structural::check_crd(&crd).is_empty();
    let Ok(schema) = Schema::from_openapi(&node) else {
        return;
    };
    let mut object = object.clone();
    if decode::decode(&mut object, &schema, "Thing").is_err() || prune::prune(&mut object, &schema, false).is_err() {
        return;
    }
    let errors = validate::validate(&object, Some(&json!({"name": "old"})), &schema);
    let broken = errors.iter().any(|it| it.detail.contains("rule compile error"));
    assert!(
        !(is_good && broken),
        "what a definition may say can be compiled: {errors:?}"
    );
}
