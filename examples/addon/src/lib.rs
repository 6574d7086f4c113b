//! An add-on without an agent: each of its clusters gets a message of the day, the ConfigMap `motd`.
//!
//! What it says is the variable `MESSAGE` of the AddOnDeploymentConfig that is meant for the cluster, so that one set
//! of clusters can be told something else than another, and a new message can be rolled out in steps.

use ocm_addon_sdk::{
    AddOn, AddOnContext, AddOnProgram, ConfigKind, Health, UserError, ocm_api::addon::v1alpha1::AddOnDeploymentConfig,
    values::config,
};
use serde_json::{Value, json};

/// What it is on the hub: functions that return data, called once for each cluster, which is the `AddOnContext`.
pub struct Motd;

impl AddOn for Motd {
    fn name(&self) -> &str {
        "motd"
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let config = config::of(place)?;
        let variable = config.customized_variables.iter().find(|it| it.name == "MESSAGE");
        let Some(message) = variable.map(|it| &it.value) else {
            // A sentence for the user, in the condition `ManifestApplied`; nothing is taken off the cluster.
            return Err(UserError::new("the configuration sets no variable MESSAGE"));
        };
        Ok(vec![json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "motd", "namespace": "default"},
            "data": {"message": message, "cluster": place.cluster_name()},
        })])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn health(&self, _: &AddOnContext) -> Health {
        // There is no agent that could renew a Lease: it is healthy when its manifests are applied.
        Health::Work(vec![])
    }
}

/// The program that runs it on a hub.
pub fn program() -> AddOnProgram {
    AddOnProgram::new(Motd)
}
