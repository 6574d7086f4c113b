//! Who may have lost a right when roles and bindings changed. What only adds to rights takes none:
//! most of what is written when a fleet grows.

use super::{
    rbac::{Binding, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES},
    rule::rules_of,
};
use crate::identity::User;
use kube_store::store::{Change, Event};
use std::collections::HashSet;

/// Users, groups and roles that some right was taken from.
#[derive(Debug, Default)]
pub struct Lost {
    pub users: HashSet<String>,
    pub groups: HashSet<String>,
    /// Keys of roles that allow less; [`Rbac::add_holders`](super::Rbac::add_holders) says whose they are.
    pub roles: HashSet<String>,
}

impl Lost {
    /// Whether nobody lost anything.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty() && self.groups.is_empty() && self.roles.is_empty()
    }

    /// Whether it concerns a user.
    pub fn concerns(&self, user: &User) -> bool {
        self.users.contains(&user.username) || user.groups.iter().any(|it| self.groups.contains(it))
    }

    /// Notes what a published event took away; whether it took anything.
    pub fn note(&mut self, event: &Event) -> bool {
        let Some(before) = event.previous.as_ref().filter(|_| event.change != Change::Added) else {
            return false;
        };
        let after = Some(&event.object).filter(|_| event.change != Change::Deleted);
        match &*event.object.resource {
            ROLE_BINDINGS | CLUSTER_ROLE_BINDINGS => {
                let before = Binding::read(before);
                let kept = after
                    .map(|it| Binding::read(it))
                    .filter(|it| it.role_key == before.role_key);
                let kept: HashSet<_> = kept.map(|it| it.subjects).unwrap_or_default().into_iter().collect();
                let mut noted = false;
                for subject in before.subjects.iter().filter(|it| !kept.contains(*it)) {
                    noted = true;
                    self.add(subject.username());
                }
                noted
            }
            ROLES | CLUSTER_ROLES => {
                let now = after.map(|it| rules_of(&it.value())).unwrap_or_default();
                let is_less = rules_of(&before.value()).iter().any(|it| !now.contains(it));
                is_less && self.roles.insert(event.object.key())
            }
            _ => false,
        }
    }

    /// Adds a user, or (the error) a group.
    pub(super) fn add(&mut self, subject: Result<String, String>) {
        match subject {
            Ok(user) => self.users.insert(user),
            Err(group) => self.groups.insert(group),
        };
    }
}
