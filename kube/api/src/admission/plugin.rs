//! Admission plug-ins: what runs in the server's process and looks at writes.

use crate::identity::{Attributes, User};
use kube_store::status::Status;
use serde_json::Value;

/// What is done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionOperation {
    Create,
    Update,
    Delete,
    /// A connection into it: nothing is written.
    Connect,
}

impl AdmissionOperation {
    /// As rules and reviews name it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// One write as a plug-in sees it.
pub struct Review<'a> {
    pub operation: AdmissionOperation,
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

    /// Judges a new state that is valid by its schema, as validating webhooks do:
    /// what the schema refuses never comes here. Not asked on delete.
    ///
    /// # Errors
    /// The status that refuses the write.
    fn validate(&self, review: &Review<'_>, object: &Value) -> Result<Vec<String>, Status> {
        let _ = (review, object);
        Ok(Vec::new())
    }
}
