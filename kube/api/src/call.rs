//! One request on a resource, read and authorized: what every verb works on.

use crate::{
    authz,
    context::ServerContext,
    identity::{Attributes, User},
    options::{FieldValidation, WriteOptions},
    party::Party,
    registry::{ApiVersion, Resource},
    request::Query,
    resource_ids::CRDS,
};
use kube_store::{
    object::Object,
    status::{FieldError, Status},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// One request on a resource.
pub struct Call<'a> {
    pub server: &'a Arc<ServerContext>,
    pub user: User,
    pub resource: Arc<Resource>,
    /// The version in the path.
    pub version: String,
    pub namespace: String,
    /// Empty on a collection.
    pub name: String,
    pub subresource: String,
    pub query: Query,
    /// What the client calls itself, for managed fields.
    pub user_agent: String,
    pub now: jiff::Timestamp,
    pub warnings: Vec<String>,
    /// In whose share the request counts; nobody's, if it is not bounded.
    pub party: Option<Party>,
}

/// What a write answers.
pub enum WriteAnswer {
    Stored(Arc<Object>),
    Value(Value),
}

/// The result of a write.
pub struct WriteResponse {
    pub code: u16,
    pub answer: WriteAnswer,
}

impl WriteResponse {
    /// The answer as a value.
    pub fn into_value(self) -> Value {
        match self.answer {
            WriteAnswer::Stored(object) => object.value(),
            WriteAnswer::Value(value) => value,
        }
    }
}

impl<'a> Call<'a> {
    /// The version's row; the path was checked against the registry before.
    pub fn served(&self) -> &ApiVersion {
        self.resource
            .version(&self.version)
            .expect("the version was found when the path was resolved")
    }

    pub fn id(&self) -> &Arc<str> {
        &self.resource.id
    }

    /// Whether it is about CustomResourceDefinitions.
    pub fn is_crd(&self) -> bool {
        **self.id() == *CRDS
    }

    pub fn not_found(&self) -> Status {
        Status::not_found(&self.resource.plural, &self.resource.group, &self.name)
    }

    /// Whoever applies or puts what is not there creates it, and has to be allowed to.
    ///
    /// # Errors
    /// 403 in the words of authorization.
    pub fn check_may_create(&self) -> Result<(), Status> {
        let attributes = Attributes {
            verb: "create".to_owned(),
            is_resource: true,
            group: self.resource.group.to_string(),
            version: self.version.clone(),
            resource: self.resource.plural.to_string(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..Attributes::default()
        };
        match self.server.may(&self.user, &attributes) {
            true => Ok(()),
            false => Err(authz::forbidden(&self.user, &attributes)),
        }
    }

    pub fn stale(&self) -> Status {
        Status::stale(&self.resource.plural, &self.resource.group, &self.name)
    }

    /// 413: what would be stored is larger than one object may be.
    pub fn too_large(&self) -> Status {
        let message = format!(
            "Request entity too large: limit is {}",
            kube_store::store::OBJECT_BYTES_MAX
        );
        Status::new(413, "RequestEntityTooLarge", message)
    }

    /// 500: the disk has room for deletions only.
    pub fn no_room(&self) -> Status {
        self.server.no_room()
    }

    /// 422 for one field of the named object.
    pub fn refuse(&self, error: FieldError) -> Status {
        self.invalid(&self.name, &[error])
    }

    pub fn invalid(&self, name: &str, errors: &[FieldError]) -> Status {
        Status::invalid(&self.resource.kind, &self.resource.group, name, errors)
    }

    /// The newest decided state of the named object.
    ///
    /// # Errors
    /// 404 when there is none.
    pub fn newest(&self) -> Result<Arc<Object>, Status> {
        let namespace = self.store_namespace();
        self.server
            .store
            .newest(self.id(), namespace, &self.name)
            .ok_or_else(|| self.not_found())
    }

    /// The namespace under which the object is stored: none for a cluster-scoped resource.
    pub fn store_namespace(&self) -> &str {
        if self.resource.namespaced { &self.namespace } else { "" }
    }

    /// Reads `dryRun`, `fieldManager`, `fieldValidation` and `force`. `options` names the kind of options in errors.
    ///
    /// # Errors
    /// 422 for a value that Kubernetes does not know.
    pub fn write_options(&self, options: &str, apply: bool) -> Result<WriteOptions, Status> {
        let mut errors = Vec::new();
        let mut it = WriteOptions {
            force: self.query.flag("force"),
            ..WriteOptions::default()
        };
        let manager = self.query.get("fieldManager").unwrap_or_default();
        if it.force && options == "PatchOptions" && !apply {
            errors.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }
        if manager.len() > 128 {
            errors.push(FieldError::too_long("fieldManager", 128));
        } else if let Some((at, bad)) = manager.chars().enumerate().find(|(_, it)| it.is_control()) {
            let detail = format!("invalid character U+{:04X} (at position {at})", bad as u32);
            errors.push(FieldError::invalid("fieldManager", &manager.into(), detail));
        } else if manager.is_empty() && apply {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        for value in self.query.all("dryRun").filter(|it| !it.is_empty()) {
            if value == "All" {
                it.dry_run = true;
            } else {
                errors.push(FieldError::not_supported("dryRun", &json!([value]), &["All"]));
            }
        }
        it.field_manager = if manager.is_empty() {
            default_manager(&self.user_agent)
        } else {
            manager.to_owned()
        };
        it.field_validation = match self.query.get("fieldValidation").unwrap_or_default() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", &other.into(), &supported));
                FieldValidation::Warn
            }
        };
        if errors.is_empty() {
            Ok(it)
        } else {
            Err(Status::invalid(options, "meta.k8s.io", "", &errors))
        }
    }
}

/// The manager of a client that names none: its User-Agent up to the first slash.
fn default_manager(user_agent: &str) -> String {
    let name: String = user_agent
        .split('/')
        .next()
        .unwrap_or_default()
        .chars()
        .filter(|it| !it.is_control())
        .collect();
    let name: String = name.chars().take(128).collect();
    if name.is_empty() { "unknown".into() } else { name }
}
