//! What a user may do: role-based access control, and the 403 that says what was missing.

pub mod bootstrap;
pub mod escalation;
mod lost;
mod rbac;
pub mod rule;

pub use lost::Lost;
pub use rbac::Rbac;

use crate::identity::{Attributes, User};
use kube_store::status::Status;

/// The 403 of a request that no rule allows.
pub fn forbidden(user: &User, asked: &Attributes) -> Status {
    let who = &user.username;
    let verb = &asked.verb;
    if !asked.is_resource {
        return Status::forbidden("", "", "", format!("User {who:?} cannot {verb} path {:?}", asked.path));
    }
    let resource = match asked.subresource.as_str() {
        "" => asked.resource.clone(),
        subresource => format!("{}/{subresource}", asked.resource),
    };
    let scope = match asked.namespace.as_str() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let group = &asked.group;
    let text = format!("User {who:?} cannot {verb} resource {resource:?} in API group {group:?} {scope}");
    Status::forbidden(&asked.resource, group, &asked.name, text)
}
