//! Runs add-ons that are made of templates, beside those that have a program of their own.

use std::sync::Arc;

use ocm_addon_sdk::hub::Manager;
use tracing::warn;

use super::{TemplateAddOn, name_mismatches::NameMismatches};

/// What runs the add-ons that are made of a template. Both are called once per change, and both are quick.
pub trait Templates: Send + Sync + 'static {
    /// Runs the add-on of this name from now on, on all clusters that have it.
    fn start(&self, addon: &str);

    /// Runs it no longer.
    fn stop(&self, addon: &str);

    /// The templates that are used for an add-on other than the one that they name.
    fn name_mismatches(&self) -> NameMismatches {
        NameMismatches::default()
    }
}

/// Runs them in the SDK's manager.
pub struct InManager {
    manager: Manager,
    mismatches: NameMismatches,
}

impl InManager {
    /// In this one.
    pub fn new(manager: Manager) -> Self {
        Self {
            manager,
            mismatches: NameMismatches::default(),
        }
    }
}

impl Templates for InManager {
    fn start(&self, addon: &str) {
        let offers = self.manager.context().caches.of();
        let add_on = TemplateAddOn::new(addon).offered_by(offers, self.mismatches.clone());
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

    fn name_mismatches(&self) -> NameMismatches {
        self.mismatches.clone()
    }
}
