//! Has an add-on looked at anew.

use super::Manager;

/// Has an add-on asked again for what it wants, because something has changed that only the add-on itself can know of.
/// Cloning shares it.
#[derive(Clone)]
pub struct Trigger {
    manager: Manager,
    add_on: String,
}

impl Trigger {
    pub(super) fn new(manager: &Manager, add_on: &str) -> Self {
        Self {
            manager: manager.clone(),
            add_on: add_on.to_owned(),
        }
    }

    /// On one cluster.
    pub fn on(&self, cluster: &str) {
        self.manager.trigger(cluster, &self.add_on);
    }

    /// On every cluster.
    pub fn everywhere(&self) {
        self.manager.trigger_all(&self.add_on);
    }
}
