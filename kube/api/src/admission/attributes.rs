//! One write as webhooks and policies see it.

use super::plugin::AdmissionOperation;
use crate::{
    identity::User,
    options::{DeleteOptions, WriteOptions},
    registry::Resource,
    request::Query,
};
use kube_store::status::Status;
use serde_json::{Value, json};
use std::sync::Arc;

/// What is written, and by whom. The object itself goes beside it: it changes on its way. Made for every write while
/// anything is configured, so it only points.
#[derive(Clone, Copy)]
pub struct AdmissionAttributes<'a> {
    pub operation: AdmissionOperation,
    pub resource: &'a Arc<Resource>,
    /// The version of the request.
    pub version: &'a str,
    pub subresource: &'a str,
    /// The namespace of the object; for a namespace its own name.
    pub namespace: &'a str,
    pub name: &'a str,
    pub user: &'a User,
    pub options: Options<'a>,
    /// What the client asked for beside the path, which some options are shown from.
    pub query: &'a Query,
}

/// With which options.
#[derive(Clone, Copy)]
pub enum Options<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
}

impl AdmissionAttributes<'_> {
    /// Whether nothing of it will be stored.
    pub fn is_dry_run(&self) -> bool {
        match self.options {
            Options::Write(it) => it.dry_run,
            Options::Delete(it) => it.dry_run,
        }
    }

    /// `CreateOptions`, `UpdateOptions` or `DeleteOptions`.
    fn options(&self) -> Value {
        let options = match self.options {
            Options::Delete(it) => return it.body(),
            Options::Write(it) => it,
        };
        let kind = match self.operation {
            AdmissionOperation::Create => "CreateOptions",
            AdmissionOperation::Update | AdmissionOperation::Delete => "UpdateOptions",
            // What is asked for is the object.
            AdmissionOperation::Connect => return Value::Null,
        };
        let mut shown = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if options.dry_run {
            shown["dryRun"] = json!(["All"]);
        }
        for key in ["fieldManager", "fieldValidation"] {
            if let Some(text) = self.query.text(key) {
                shown[key] = text.into();
            }
        }
        shown
    }

    /// Whether the object is a namespace, and not a part of one.
    pub fn is_namespace(&self) -> bool {
        &*self.resource.id == "namespaces" && self.subresource.is_empty()
    }

    /// The kind of what is sent, as group, version and kind.
    pub fn kind(&self, version: &str) -> Value {
        let own = (self.resource.group.as_str(), version, self.resource.kind.as_str());
        let of_subresource = || {
            let found = self.resource.subresource(self.subresource)?;
            Some(match found.version {
                "" => ("", "v1", found.kind),
                version => (found.group, version, found.kind),
            })
        };
        let (group, version, kind) = match self.subresource {
            "" | "status" => own,
            "scale" => ("autoscaling", "v1", "Scale"),
            _ => of_subresource().filter(|it| it.2 != self.resource.kind).unwrap_or(own),
        };
        json!({"group": group, "version": version, "kind": kind})
    }

    /// `AdmissionRequest` but for the objects. `version` is the one that a rule matches.
    pub fn request(&self, uid: &str, version: &str) -> Value {
        let resource =
            |version: &str| json!({"group": self.resource.group, "version": version, "resource": self.resource.plural});
        let mut request = json!({
            "uid": uid, "kind": self.kind(version), "resource": resource(version), "requestKind": self.kind(self.version),
            "requestResource": resource(self.version), "operation": self.operation.text(), "userInfo": self.user,
            "dryRun": self.is_dry_run(), "options": self.options(),
        });
        if !self.subresource.is_empty() {
            request["subResource"] = self.subresource.into();
            request["requestSubResource"] = self.subresource.into();
        }
        for (key, text) in [("name", self.name), ("namespace", self.namespace)] {
            if !text.is_empty() {
                request[key] = text.into();
            }
        }
        request
    }

    /// A 403 on the object: `<resource> "<name>" is forbidden: <text>`.
    pub fn forbidden(&self, text: &str) -> Status {
        Status::forbidden(&self.resource.plural, &self.resource.group, self.name, text)
    }
}
