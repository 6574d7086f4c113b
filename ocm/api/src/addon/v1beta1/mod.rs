//! Version `v1beta1` of the add-on kinds, the one controllers use.

mod add_on_deployment_config;
mod add_on_template;
mod cluster_management_add_on;
mod managed_cluster_add_on;

pub use add_on_deployment_config::*;
pub use add_on_template::*;
pub use cluster_management_add_on::*;
pub use managed_cluster_add_on::*;
