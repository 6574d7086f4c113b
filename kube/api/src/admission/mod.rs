//! Admission: who may change or refuse a write before it is stored. First the plug-ins of this process, then the
//! mutating webhooks; when the result is valid, the policies and the validating webhooks.
//!
//! What is configured is compiled once per revision (`configuration`), and where nothing is, a write only looks whether
//! something is. No lock is held while a webhook is asked.

mod attributes;
mod authorizer;
pub(crate) mod configuration;
pub(crate) mod expressions;
mod failure_policy;
mod json_patch;
pub(crate) mod plugin;
mod policies;
pub(crate) mod policy;
mod review;
mod rules;
mod webhooks;

use crate::{
    call::Call,
    content,
    options::{DeleteOptions, WriteOptions},
    scale,
};
use attributes::{AdmissionAttributes, Options};
use configuration::is_exempt;
use kube_store::status::Status;
use serde_json::Value;
use webhooks::WebhookRequest;

pub use plugin::{Admission, AdmissionOperation, Review};

/// A write before and after, as the path shows it.
#[derive(Clone, Copy)]
pub(crate) struct ObjectChange<'a> {
    pub operation: AdmissionOperation,
    pub old: Option<&'a Value>,
    pub options: &'a WriteOptions,
}

/// A create or update as webhooks and policies see it.
fn of_write<'a>(
    call: &'a Call<'_>,
    operation: AdmissionOperation,
    options: &'a WriteOptions,
) -> AdmissionAttributes<'a> {
    attributes_of(call, operation, Options::Write(options))
}

/// A delete. One of a collection names no object.
fn of_delete<'a>(call: &'a Call<'_>, options: &'a DeleteOptions) -> AdmissionAttributes<'a> {
    let mut it = attributes_of(call, AdmissionOperation::Delete, Options::Delete(options));
    if options.of_collection {
        it.name = "";
    }
    it
}

fn attributes_of<'a>(
    call: &'a Call<'_>,
    operation: AdmissionOperation,
    options: Options<'a>,
) -> AdmissionAttributes<'a> {
    let is_namespace = &*call.resource.id == "namespaces";
    AdmissionAttributes {
        operation,
        resource: &call.resource,
        version: &call.version,
        subresource: &call.subresource,
        namespace: if is_namespace {
            &call.name
        } else {
            call.store_namespace()
        },
        name: &call.name,
        user: &call.user,
        options,
        query: &call.query,
    }
}

/// Lets the mutating webhooks change an object. Whether they did.
///
/// # Errors
/// The status of the first that refuses.
pub(crate) async fn mutate(call: &mut Call<'_>, change: ObjectChange<'_>, object: &mut Value) -> Result<bool, Status> {
    let server = call.server;
    if is_exempt(call.id()) || !server.asks_webhooks() {
        return Ok(false);
    }
    let write = of_write(call, change.operation, change.options);
    if !server.hooks.load().may_mutate(&write) {
        return Ok(false);
    }
    // What follows is large, and rare: requests that need it not do not carry it.
    Box::pin(async {
        let mut warnings = Vec::new();
        let answer = ask_mutating(call, change, object, &mut warnings).await;
        call.warnings.extend(warnings);
        answer
    })
    .await
}

async fn ask_mutating(
    call: &Call<'_>,
    change: ObjectChange<'_>,
    object: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<bool, Status> {
    let write = of_write(call, change.operation, change.options);
    let hooks = call.server.hooks.load_full();
    let faces = Faces::of(call, change.old)?;
    let passage = WebhookRequest {
        server: call.server,
        hooks: &hooks,
        write: &write,
        old: faces.old(change.old),
    };
    match faces.shown {
        Shown::Scale => {
            let mut shown = scale::read(call, object)?;
            let changed = passage.mutate(Some(&mut shown), warnings, &|_| Ok(())).await?;
            scale::set_replicas(call, object, &shown);
            Ok(changed)
        }
        Shown::Another => passage.mutate(Some(object), warnings, &|_| Ok(())).await,
        Shown::Whole => {
            let tidy = |it: &mut Value| content::read_again(call, it);
            passage.mutate(Some(object), warnings, &tidy).await
        }
    }
}

/// Asks the policies and the validating webhooks about an object that is valid.
///
/// # Errors
/// The status of the first that refuses.
pub(crate) async fn validate(call: &mut Call<'_>, change: ObjectChange<'_>, object: &Value) -> Result<(), Status> {
    let server = call.server;
    if is_exempt(call.id()) || !server.asks_webhooks() {
        return Ok(());
    }
    let write = of_write(call, change.operation, change.options);
    if !server.hooks.load().may_validate(&write) {
        return Ok(());
    }
    Box::pin(async {
        let mut warnings = Vec::new();
        let answer = ask_validating(call, change, object, &mut warnings).await;
        call.warnings.extend(warnings);
        answer
    })
    .await
}

async fn ask_validating(
    call: &Call<'_>,
    change: ObjectChange<'_>,
    object: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let write = of_write(call, change.operation, change.options);
    let faces = Faces::of(call, change.old)?;
    let shown = match faces.shown {
        Shown::Scale => Some(scale::read(call, object)?),
        Shown::Whole | Shown::Another => None,
    };
    let object = Some(shown.as_ref().unwrap_or(object));
    decide(call, &write, faces.old(change.old), object, warnings).await
}

/// Asks everybody about a delete.
///
/// # Errors
/// The status of the first that refuses.
pub(crate) async fn delete(call: &mut Call<'_>, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let server = call.server;
    if is_exempt(call.id()) || !server.asks_webhooks() {
        return Ok(());
    }
    let write = of_delete(call, options);
    let hooks = server.hooks.load();
    if !hooks.may_mutate(&write) && !hooks.may_validate(&write) {
        return Ok(());
    }
    drop(hooks);
    Box::pin(async {
        let mut warnings = Vec::new();
        let answer = ask_delete(call, old, options, &mut warnings).await;
        call.warnings.extend(warnings);
        answer
    })
    .await
}

async fn ask_delete(
    call: &Call<'_>,
    old: &Value,
    options: &DeleteOptions,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let write = of_delete(call, options);
    let hooks = call.server.hooks.load_full();
    let passage = WebhookRequest {
        server: call.server,
        hooks: &hooks,
        write: &write,
        old: Some(old),
    };
    passage.mutate(None, warnings, &|_| Ok(())).await?;
    decide(call, &write, Some(old), None, warnings).await
}

async fn decide(
    call: &Call<'_>,
    write: &AdmissionAttributes<'_>,
    old: Option<&Value>,
    object: Option<&Value>,
    warnings: &mut Vec<String>,
) -> Result<(), Status> {
    let hooks = call.server.hooks.load_full();
    let passage = WebhookRequest {
        server: call.server,
        hooks: &hooks,
        write,
        old,
    };
    policies::validate(&passage, object, warnings).await?;
    passage.validate(object, warnings).await
}

/// Asks everybody about an object that is posted and not stored: a review, a token request, an eviction, a binding.
///
/// # Errors
/// The status of the first that refuses.
pub(crate) async fn post(call: &mut Call<'_>, object: &mut Value) -> Result<(), Status> {
    let hooks = call.server.hooks.load();
    if hooks.is_empty() {
        return Ok(());
    }
    drop(hooks);
    let options = call.write_options("CreateOptions", false)?;
    let change = ObjectChange {
        operation: AdmissionOperation::Create,
        old: None,
        options: &options,
    };
    mutate(call, change, object).await?;
    validate(call, change, object).await
}

/// Asks everybody about a connection into an object: its options are what is looked at.
///
/// # Errors
/// The status of the first that refuses.
pub(crate) async fn connect(call: &mut Call<'_>, asked: &mut Value) -> Result<(), Status> {
    if call.server.hooks.load().is_empty() {
        return Ok(());
    }
    let options = WriteOptions::default();
    let change = ObjectChange {
        operation: AdmissionOperation::Connect,
        old: None,
        options: &options,
    };
    mutate(call, change, asked).await?;
    validate(call, change, asked).await
}

/// What a path shows of an object.
#[derive(Clone, Copy)]
enum Shown {
    Whole,
    Scale,
    /// Something else, which is posted there, or asked for.
    Another,
}

/// What the path shows of the old object: `/scale` shows a Scale.
struct Faces {
    shown: Shown,
    old: Option<Value>,
}

impl Faces {
    fn of(call: &Call<'_>, old: Option<&Value>) -> Result<Self, Status> {
        let shown = match call.subresource.as_str() {
            "scale" => Shown::Scale,
            "token" | "eviction" | "binding" | "exec" | "attach" | "portforward" => Shown::Another,
            _ if call.resource.traits.review => Shown::Another,
            _ => Shown::Whole,
        };
        let old = match (old, shown) {
            (Some(old), Shown::Scale) => Some(scale::read(call, old)?),
            _ => None,
        };
        Ok(Self { shown, old })
    }

    fn old<'a>(&'a self, whole: Option<&'a Value>) -> Option<&'a Value> {
        self.old.as_ref().or(whole)
    }
}
