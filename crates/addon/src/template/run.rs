//! Runs add-ons that are made of templates, beside those that have a program of their own.

use std::sync::Arc;

use ocm_addon_sdk::hub::Manager;
use tracing::warn;

use super::TemplateAddOn;
use crate::hub::Templates;

/// Runs them in the SDK's manager.
pub struct InManager(pub Manager);

impl Templates for InManager {
    fn start(&self, addon: &str) {
        // An add-on that runs in this process already keeps its name: it understands templates in a way of its own.
        if let Err(error) = self.0.add_template(Arc::new(TemplateAddOn::new(addon))) {
            warn!(%addon, %error, "the template add-on does not run");
        }
    }

    fn stop(&self, addon: &str) {
        // One of the same name that is not made of a template is not ours to stop.
        if self.0.context().registry.get(addon).is_some_and(|it| it.of_template) {
            self.0.remove(addon);
        }
    }
}
