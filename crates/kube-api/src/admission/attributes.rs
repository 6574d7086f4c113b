//! One write as webhooks and policies see it.

use super::Operation;
use crate::{
    call::{Call, WriteOptions},
    registry::Resource,
    verbs::delete::DeleteOptions,
};
use kube_store::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;

/// What is written, and by whom. The object itself goes beside it: it changes on its way.
pub struct Attributes {
    pub operation: Operation,
    pub resource: Arc<Resource>,
    /// The version of the request.
    pub version: String,
    pub subresource: String,
    /// The namespace of the object; for a namespace that exists, its own name.
    pub namespace: String,
    pub name: String,
    pub dry_run: bool,
    user: Value,
    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    options: Value,
}

impl Attributes {
    /// Of a create or update.
    pub fn of_write(call: &Call<'_>, operation: Operation, options: &WriteOptions) -> Self {
        let kind = match operation {
            Operation::Create => "CreateOptions",
            Operation::Update | Operation::Delete => "UpdateOptions",
        };
        let mut shown = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if options.dry_run {
            shown["dryRun"] = json!(["All"]);
        }
        for key in ["fieldManager", "fieldValidation"] {
            if let Some(text) = call.query.text(key) {
                shown[key] = text.into();
            }
        }
        Self::new(call, operation, shown, options.dry_run)
    }

    /// Of a delete. One of a collection names no object.
    pub fn of_delete(call: &Call<'_>, options: &DeleteOptions) -> Self {
        let mut it = Self::new(call, Operation::Delete, options.body(), options.dry_run);
        if options.of_collection {
            it.name.clear();
        }
        it
    }

    fn new(call: &Call<'_>, operation: Operation, options: Value, dry_run: bool) -> Self {
        let is_namespace = &*call.resource.id == "namespaces";
        let namespace = match (is_namespace, operation) {
            (true, Operation::Create) => String::new(),
            (true, _) => call.name.clone(),
            (false, _) => call.store_namespace().to_owned(),
        };
        Self {
            operation,
            resource: call.resource.clone(),
            version: call.version.clone(),
            subresource: call.subresource.clone(),
            namespace,
            name: call.name.clone(),
            dry_run,
            user: serde_json::to_value(&call.user).expect("a user serializes"),
            options,
        }
    }

    /// Whether the object is a namespace, and not a part of one.
    pub fn is_namespace(&self) -> bool {
        &*self.resource.id == "namespaces" && self.subresource.is_empty()
    }

    /// The kind of what is sent, as group, version and kind.
    pub fn kind(&self, version: &str) -> Value {
        let (group, version, kind) = match self.subresource.as_str() {
            "scale" => ("autoscaling", "v1", "Scale"),
            _ => (self.resource.group.as_str(), version, self.resource.kind.as_str()),
        };
        json!({"group": group, "version": version, "kind": kind})
    }

    /// `AdmissionRequest` but for the objects. `version` is the one that a rule matches.
    pub fn request(&self, uid: &str, version: &str) -> Value {
        let resource =
            |version: &str| json!({"group": self.resource.group, "version": version, "resource": self.resource.plural});
        let mut request = json!({
            "uid": uid, "kind": self.kind(version), "resource": resource(version), "requestKind": self.kind(&self.version),
            "requestResource": resource(&self.version), "operation": self.operation.text(), "userInfo": self.user,
            "dryRun": self.dry_run, "options": self.options,
        });
        if !self.subresource.is_empty() {
            request["subResource"] = self.subresource.as_str().into();
            request["requestSubResource"] = self.subresource.as_str().into();
        }
        for (key, text) in [("name", &self.name), ("namespace", &self.namespace)] {
            if !text.is_empty() {
                request[key] = text.as_str().into();
            }
        }
        request
    }

    /// A 403 on the object: `<resource> "<name>" is forbidden: <text>`.
    pub fn forbidden(&self, text: &str) -> Status {
        Status::forbidden(&self.resource.plural, &self.resource.group, &self.name, text)
    }
}
