//! Runs add-ons that are made of templates, beside those that have a program of their own.

use std::sync::Arc;

use ocm_addon_sdk::hub::Manager;
use tracing::warn;

use super::{TemplateAddOn, strangers::Strangers};
use crate::hub::Templates;

/// Runs them in the SDK's manager.
pub struct InManager {
    manager: Manager,
    strangers: Strangers,
}

impl InManager {
    /// In this one.
    pub fn new(manager: Manager) -> Self {
        Self {
            manager,
            strangers: Strangers::default(),
        }
    }
}

impl Templates for InManager {
    fn start(&self, addon: &str) {
        let offers = self.manager.context().caches.of();
        let add_on = TemplateAddOn::new(addon).offered_by(offers, self.strangers.clone());
        // An add-on that runs in this process already keeps its name: it understands templates in a way of its own.
        if let Err(error) = self.manager.add_template(Arc::new(add_on)) {
            warn!(%addon, %error, "the template add-on does not run");
        }
    }

    fn stop(&self, addon: &str) {
        // One of the same name that is not made of a template is not ours to stop.
        if self
            .manager
            .context()
            .registry
            .get(addon)
            .is_some_and(|it| it.of_template)
        {
            self.manager.remove(addon);
        }
    }

    fn strangers(&self) -> Strangers {
        self.strangers.clone()
    }
}
