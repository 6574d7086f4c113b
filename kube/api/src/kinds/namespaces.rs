//! Namespaces: their finalizers, their label, and what goes with them.

use super::{
    defaults::{entry, set, text_of},
    strategy::{Columns, Strategy},
    validation::{list, qualified_name},
};
use crate::builtin::Subresource;
use crate::{call::Call, object_meta, table::cells};
use kube_store::status::{FieldError, Status};
use serde_json::{Map, Value, json};

/// Namespace.
pub struct Namespaces;

impl Strategy for Namespaces {
    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn subresources(&self) -> &'static [Subresource] {
        &[Subresource {
            name: "finalize",
            kind: "Namespace",
            group: "",
            version: "",
            verbs: &["update"],
        }]
    }

    fn columns(&self) -> Columns {
        Columns::new("Name|Status|Age", |it, now| {
            vec![
                cells::name(it),
                cells::text(it, &["status", "phase"]).into(),
                cells::age(it, now),
            ]
        })
    }

    fn default(&self, object: &mut Map<String, Value>) {
        let meta = entry(object, "metadata");
        let name = text_of(meta, "name").to_owned();
        if !name.is_empty() {
            entry(meta, "labels").insert("kubernetes.io/metadata.name".to_owned(), name.into());
        }
        let terminating = meta.contains_key("deletionTimestamp");
        let spec = entry(object, "spec");
        if !terminating {
            set(spec, "finalizers", json!(["kubernetes"]));
        }
        set(entry(object, "status"), "phase", "Active");
    }

    fn validate(&self, new: &Value, _old: Option<&Value>, errors: &mut Vec<FieldError>) {
        for finalizer in list(new, "/spec/finalizers") {
            let name = finalizer.as_str().unwrap_or("");
            qualified_name(name, "spec.finalizers", errors);
            if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
                let detail = "name is neither a standard finalizer name nor is it fully qualified";
                errors.push(FieldError::invalid("spec.finalizers", finalizer, detail));
            }
        }
    }

    fn prepare_for_create(&self, call: &mut Call<'_>, value: &mut Value) -> Result<(), Status> {
        label_namespace(call, value);
        value["spec"] = json!({"finalizers": with_own_finalizer(&value["spec"]["finalizers"])});
        value["status"] = json!({"phase": "Active"});
        Ok(())
    }

    fn prepare_for_update(&self, call: &mut Call<'_>, old: &Value, new: &mut Value) -> Result<(), Status> {
        label_namespace(call, new);
        let finalizers = if call.subresource == "finalize" {
            &new["spec"]["finalizers"]
        } else {
            &old["spec"]["finalizers"]
        };
        let spec = match finalizers.as_array() {
            Some(list) if !list.is_empty() => json!({"finalizers": list}),
            _ => json!({}),
        };
        if call.subresource == "finalize" {
            new["status"] = old["status"].clone();
        }
        new["spec"] = spec;
        Ok(())
    }

    // It waits for its content.
    fn may_vanish(&self, _call: &Call<'_>, value: &Value) -> bool {
        value["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty)
    }

    fn mark_terminating(&self, _call: &Call<'_>, value: &mut Value) {
        value["status"]["phase"] = "Terminating".into();
    }

    fn check_delete(&self, call: &Call<'_>) -> Result<(), Status> {
        if !matches!(call.name.as_str(), "default" | "kube-system" | "kube-public") {
            return Ok(());
        }
        Err(Status::forbidden(
            "namespaces",
            "",
            &call.name,
            "this namespace may not be deleted",
        ))
    }
}

/// The finalizers of a new namespace: what its maker asks for, and ours.
fn with_own_finalizer(asked: &Value) -> Vec<Value> {
    const OWN: &str = "kubernetes";
    let mut all = asked.as_array().cloned().unwrap_or_default();
    if !all.iter().any(|it| it == OWN) {
        all.push(OWN.into());
    }
    all
}

/// Every namespace carries its name as a label; removing it is undone in the same request.
fn label_namespace(call: &Call<'_>, value: &mut Value) {
    let name = if call.name.is_empty() {
        object_meta::metadata_text(value, "name").to_owned()
    } else {
        call.name.clone()
    };
    let metadata = object_meta::metadata(value);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".into(), name.into());
    } else {
        *labels = json!({"kubernetes.io/metadata.name": name});
    }
}

/// Finalizers of one word, which were there before names had to have a prefix.
const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_keeps_the_finalizers_it_was_made_with() {
        assert_eq!(with_own_finalizer(&Value::Null), ["kubernetes"]);
        assert_eq!(with_own_finalizer(&json!(["a.b/c"])), ["a.b/c", "kubernetes"]);
        assert_eq!(with_own_finalizer(&json!(["kubernetes"])), ["kubernetes"]);
    }
}
