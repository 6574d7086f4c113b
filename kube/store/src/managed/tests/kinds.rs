//! The schemas of the tests: a ConfigMap, a Deployment cut to what is special about it, a custom resource.

use crate::schema::{ListType, Schema, Type};
use serde_json::json;
use std::sync::Arc;

pub fn text() -> Schema {
    Schema {
        ty: Type::String,
        ..Schema::default()
    }
}

pub fn number() -> Schema {
    Schema {
        ty: Type::Integer,
        ..Schema::default()
    }
}

pub fn map(values: Schema) -> Schema {
    Schema {
        ty: Type::Object,
        additional: Some(Arc::new(values)),
        ..Schema::default()
    }
}

pub fn object(fields: Vec<(&str, Schema)>) -> Schema {
    let properties = fields
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), Arc::new(schema)))
        .collect();
    Schema {
        ty: Type::Object,
        properties,
        ..Schema::default()
    }
}

pub fn list(list_type: ListType, keys: &[&str], items: Schema) -> Schema {
    let list_map_keys = keys.iter().map(ToString::to_string).collect();
    Schema {
        ty: Type::Array,
        list_type,
        list_map_keys,
        items: Some(Arc::new(items)),
        ..Schema::default()
    }
}

fn root(mut fields: Vec<(&str, Schema)>) -> Schema {
    fields.extend([
        ("apiVersion", text()),
        ("kind", text()),
        (
            "metadata",
            Schema {
                ty: Type::Object,
                ..Schema::default()
            },
        ),
    ]);
    object(fields)
}

pub fn config_map() -> Schema {
    root(vec![
        ("data", map(text())),
        ("binaryData", map(text())),
        (
            "immutable",
            Schema {
                ty: Type::Boolean,
                ..Schema::default()
            },
        ),
    ])
}

pub fn deployment() -> Schema {
    let port = object(vec![
        ("containerPort", number()),
        (
            "protocol",
            Schema {
                default: Some(json!("TCP")),
                ..text()
            },
        ),
        ("name", text()),
    ]);
    let quantities = || {
        map(Schema {
            int_or_string: true,
            ..Schema::default()
        })
    };
    let container = object(vec![
        ("name", text()),
        ("image", text()),
        ("imagePullPolicy", text()),
        ("args", list(ListType::Atomic, &[], text())),
        (
            "env",
            list(
                ListType::Map,
                &["name"],
                object(vec![("name", text()), ("value", text())]),
            ),
        ),
        ("ports", list(ListType::Map, &["containerPort", "protocol"], port)),
        (
            "resources",
            object(vec![("limits", quantities()), ("requests", quantities())]),
        ),
    ]);
    let pod_spec = object(vec![
        ("containers", list(ListType::Map, &["name"], container)),
        ("restartPolicy", text()),
        ("securityContext", object(vec![("runAsUser", number())])),
        (
            "tolerations",
            list(ListType::Atomic, &[], object(vec![("key", text())])),
        ),
    ]);
    let metadata = object(vec![
        ("labels", map(text())),
        ("annotations", map(text())),
        ("creationTimestamp", text()),
    ]);
    let rolling = object(vec![(
        "maxSurge",
        Schema {
            int_or_string: true,
            ..Schema::default()
        },
    )]);
    let selector = Schema {
        atomic_map: true,
        ..object(vec![("matchLabels", map(text()))])
    };
    let condition = object(vec![("type", text()), ("status", text())]);
    root(vec![
        (
            "spec",
            object(vec![
                ("replicas", number()),
                (
                    "paused",
                    Schema {
                        ty: Type::Boolean,
                        ..Schema::default()
                    },
                ),
                ("selector", selector),
                ("strategy", object(vec![("type", text()), ("rollingUpdate", rolling)])),
                ("template", object(vec![("metadata", metadata), ("spec", pod_spec)])),
            ]),
        ),
        (
            "status",
            object(vec![
                ("readyReplicas", number()),
                ("conditions", list(ListType::Map, &["type"], condition)),
            ]),
        ),
    ])
}

pub fn custom() -> Schema {
    let item = || {
        object(vec![
            ("k", text()),
            (
                "p",
                Schema {
                    default: Some(json!("TCP")),
                    ..text()
                },
            ),
            ("v", text()),
        ])
    };
    let free = || Schema {
        ty: Type::Object,
        preserve_unknown: true,
        ..Schema::default()
    };
    root(vec![
        (
            "spec",
            object(vec![
                ("d", text()),
                ("n", number()),
                ("mp", list(ListType::Map, &["k", "p"], item())),
                ("st", list(ListType::Set, &[], text())),
                ("at", list(ListType::Atomic, &[], text())),
                (
                    "am",
                    Schema {
                        atomic_map: true,
                        ..object(vec![("a", text()), ("b", text())])
                    },
                ),
                ("m", map(text())),
                ("free", free()),
            ]),
        ),
        ("status", object(vec![("phase", text())])),
    ])
}
