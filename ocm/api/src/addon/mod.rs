//! Group `addon.open-cluster-management.io`: what runs on clusters beside the agent.
//! Version `v1alpha1` is stored, `v1beta1` is what controllers use; what both share lives here.

mod add_on_deployment_config_spec;
mod add_on_template_spec;
mod config;
mod install;

pub mod conversion;
pub mod v1alpha1;
pub mod v1beta1;

pub use add_on_deployment_config_spec::*;
pub use add_on_template_spec::*;
pub use config::*;
pub use install::*;

/// The API group.
pub const GROUP: &str = "addon.open-cluster-management.io";
