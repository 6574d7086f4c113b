//! The schema of `metadata`, and how to step from one schema node to the next.
//!
//! A custom resource declares `metadata` as a bare object, yet ownership and patches need its real shape (finalizers
//! are a set, owner references a list by uid), so a root without that shape gets the one kept here.

use crate::schema::{ListType, Schema, Type};
use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

static OBJECT_META: LazyLock<Schema> = LazyLock::new(object_meta);
static STRING: LazyLock<Schema> = LazyLock::new(|| scalar(Type::String));

fn scalar(ty: Type) -> Schema {
    Schema {
        ty,
        ..Schema::default()
    }
}

fn object(fields: impl IntoIterator<Item = (&'static str, Schema)>) -> Schema {
    let properties: BTreeMap<_, _> = fields
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), Arc::new(schema)))
        .collect();
    Schema {
        ty: Type::Object,
        properties,
        ..Schema::default()
    }
}

fn object_meta() -> Schema {
    let strings = || Schema {
        ty: Type::Object,
        additional: Some(Arc::new(scalar(Type::String))),
        ..Schema::default()
    };
    let text = || scalar(Type::String);
    let owner = Schema {
        atomic_map: true,
        ..object([
            ("apiVersion", text()),
            ("blockOwnerDeletion", scalar(Type::Boolean)),
            ("controller", scalar(Type::Boolean)),
            ("kind", text()),
            ("name", text()),
            ("uid", text()),
        ])
    };
    let owners = Schema {
        ty: Type::Array,
        items: Some(Arc::new(owner)),
        list_type: ListType::Map,
        list_map_keys: vec!["uid".to_owned()],
        patch_merge: true,
        patch_merge_key: Some("uid".to_owned()),
        ..Schema::default()
    };
    let finalizers = Schema {
        ty: Type::Array,
        items: Some(Arc::new(text())),
        list_type: ListType::Set,
        patch_merge: true,
        ..Schema::default()
    };
    object([
        ("annotations", strings()),
        ("creationTimestamp", text()),
        ("deletionGracePeriodSeconds", scalar(Type::Integer)),
        ("deletionTimestamp", text()),
        ("finalizers", finalizers),
        ("generateName", text()),
        ("generation", scalar(Type::Integer)),
        ("labels", strings()),
        (
            "managedFields",
            Schema {
                ty: Type::Array,
                ..Schema::default()
            },
        ),
        ("name", text()),
        ("namespace", text()),
        ("ownerReferences", owners),
        ("resourceVersion", text()),
        ("selfLink", text()),
        ("uid", text()),
    ])
}

/// Schema of a field of the root object: `metadata` always has its full shape, `apiVersion`
/// and `kind` are always known.
pub(crate) fn root_field<'a>(root: &'a Schema, name: &str) -> Option<&'a Schema> {
    let declared = root.properties.get(name).map(Arc::as_ref);
    match name {
        "metadata" if !declared.is_some_and(|it| it.properties.contains_key("ownerReferences")) => Some(&OBJECT_META),
        "apiVersion" | "kind" => Some(declared.unwrap_or(&STRING)),
        _ => declared,
    }
}
