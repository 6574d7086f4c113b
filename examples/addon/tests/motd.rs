//! An add-on is tested by calling it: no cluster, no server.

use example_addon::Motd;
use ocm_addon_sdk::{AddOn, AddOnContext, ocm_api::addon::v1alpha1::AddOnDeploymentConfig};
use serde_json::json;

#[test]
fn clusters_get_the_message_of_their_configuration() {
    let config = json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1",
        "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "motd", "namespace": "default"},
        "spec": {"customizedVariables": [{"name": "MESSAGE", "value": "maintenance at noon"}]},
    });
    let config: AddOnDeploymentConfig = serde_json::from_value(config).unwrap();
    let made = Motd
        .manifests(&AddOnContext::new("cluster1", "motd").with_config(&config))
        .unwrap();
    assert_eq!(
        made[0]["data"],
        json!({"message": "maintenance at noon", "cluster": "cluster1"})
    );
}

#[test]
fn a_missing_message_is_a_user_error() {
    let refusal = Motd.manifests(&AddOnContext::new("cluster1", "motd")).unwrap_err();
    assert_eq!(refusal.to_string(), "the configuration sets no variable MESSAGE");
}
