//! Admission: who may change or refuse a write before it is stored. First the plug-ins of this process, then the mutating
//! webhooks; when the result is valid, the policies and the validating webhooks.
//!
//! What is configured is compiled once per revision (`configuration`), and where nothing is, a write only looks whether
//! something is. No lock is held while a webhook is asked.

mod attributes;
mod authorizer;
pub(crate) mod configuration;
pub(crate) mod expressions;
mod json_patch;
pub(crate) mod policy;
mod review;
mod rules;
mod webhooks;

use crate::{
    call::{Call, WriteOptions},
    content,
    identity::{Attributes, User},
    scale,
    verbs::delete::DeleteOptions,
};
use configuration::is_exempt;
use kube_store::status::Status;
use serde_json::Value;
use webhooks::Passage;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    /// As rules and reviews name it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// One write as a plug-in sees it.
pub struct Review<'a> {
    pub operation: Operation,
    /// `plural[.group]`.
    pub resource: &'a str,
    pub version: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub user: &'a User,
    /// The stored state; `None` on create.
    pub old: Option<&'a Value>,
    pub dry_run: bool,
    /// Asks authorization whether the user may also do something else.
    pub may: &'a (dyn Fn(&Attributes) -> bool + Sync),
}

/// An admission plug-in that runs in the server's process.
pub trait Admission: Send + Sync {
    /// Whether the plug-in wants to see writes to this resource; the others cost nothing.
    fn wants(&self, resource: &str) -> bool;

    /// Looks at the new state, may change it, and returns warnings for the client. On delete `object` is the stored
    /// state and changes to it are ignored.
    ///
    /// # Errors
    /// The status that refuses the write.
    fn admit(&self, review: &Review<'_>, object: &mut Value) -> Result<Vec<String>, Status>;
}

/// A write before and after, as the path shows it.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub operation: Operation,
    pub old: Option<&'a Value>,
    pub options: &'a WriteOptions,
}

/// Lets the mutating webhooks change an object. Whether they did.
///
/// # Errors
/// The status of the first that refuses.
pub(crate) async fn mutate(call: &mut Call<'_>, change: Change<'_>, object: &mut Value) -> Result<bool, Status> {
    let server = call.server;
    if server.hooks.load().mutates_nothing() || !server.asks_webhooks() || is_exempt(call.id()) {
        return Ok(false);
    }
    // What follows is large, and rare: requests that need it not do not carry it.
    Box::pin(async {
        let write = attributes::Attributes::of_write(call, change.operation, change.options);
        let hooks = server.hooks.load_full();
        let faces = Faces::of(call, change.old)?;
        let passage = Passage {
            server,
            hooks: &hooks,
            write: &write,
            user: &call.user.clone(),
            old: faces.old(change.old),
        };
        let mut warnings = Vec::new();
        let changed = if faces.is_scale {
            let mut shown = scale::read(call, object)?;
            let changed = passage.mutate(Some(&mut shown), &mut warnings, &|_| Ok(())).await?;
            scale::set_replicas(call, object, &shown);
            changed
        } else {
            let seen = &*call;
            let tidy = |it: &mut Value| content::read_again(seen, it);
            passage.mutate(Some(object), &mut warnings, &tidy).await?
        };
        call.warnings.extend(warnings);
        Ok(changed)
    })
    .await
}

/// Asks the policies and the validating webhooks about an object that is valid.
///
/// # Errors
/// The status of the first that refuses.
pub(crate) async fn validate(call: &mut Call<'_>, change: Change<'_>, object: &Value) -> Result<(), Status> {
    let server = call.server;
    if server.hooks.load().validates_nothing() || !server.asks_webhooks() || is_exempt(call.id()) {
        return Ok(());
    }
    Box::pin(async {
        let write = attributes::Attributes::of_write(call, change.operation, change.options);
        let faces = Faces::of(call, change.old)?;
        let shown = if faces.is_scale {
            Some(scale::read(call, object)?)
        } else {
            None
        };
        decide(
            call,
            &write,
            faces.old(change.old),
            Some(shown.as_ref().unwrap_or(object)),
        )
        .await
    })
    .await
}

/// Asks everybody about a delete.
///
/// # Errors
/// The status of the first that refuses.
pub(crate) async fn delete(call: &mut Call<'_>, old: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let server = call.server;
    let hooks = server.hooks.load();
    let is_idle = hooks.mutates_nothing() && hooks.validates_nothing();
    drop(hooks);
    if is_idle || !server.asks_webhooks() || is_exempt(call.id()) {
        return Ok(());
    }
    Box::pin(async {
        let write = attributes::Attributes::of_delete(call, options);
        let hooks = server.hooks.load_full();
        let user = call.user.clone();
        let passage = Passage {
            server,
            hooks: &hooks,
            write: &write,
            user: &user,
            old: Some(old),
        };
        let mut warnings = Vec::new();
        let changed = passage.mutate(None, &mut warnings, &|_| Ok(())).await;
        call.warnings.extend(warnings);
        changed?;
        decide(call, &write, Some(old), None).await
    })
    .await
}

async fn decide(
    call: &mut Call<'_>,
    write: &attributes::Attributes,
    old: Option<&Value>,
    object: Option<&Value>,
) -> Result<(), Status> {
    let hooks = call.server.hooks.load_full();
    let user = call.user.clone();
    let passage = Passage {
        server: call.server,
        hooks: &hooks,
        write,
        user: &user,
        old,
    };
    let mut warnings = Vec::new();
    let mut answer = policy::validate(&passage, object, &mut warnings).await;
    if answer.is_ok() {
        answer = passage.validate(object, &mut warnings).await;
    }
    call.warnings.extend(warnings);
    answer
}

/// What the path shows of the old object: `/scale` shows a Scale.
struct Faces {
    is_scale: bool,
    old: Option<Value>,
}

impl Faces {
    fn of(call: &Call<'_>, old: Option<&Value>) -> Result<Self, Status> {
        let is_scale = call.subresource == "scale";
        let old = match old {
            Some(old) if is_scale => Some(scale::read(call, old)?),
            _ => None,
        };
        Ok(Self { is_scale, old })
    }

    fn old<'a>(&'a self, whole: Option<&'a Value>) -> Option<&'a Value> {
        self.old.as_ref().or(whole)
    }
}
