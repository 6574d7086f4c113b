//! The add-on governance-standalone-hub-templating: an identity on the hub, with which config-policy-controller fills
//! in hub templates of policies that are not brought by the policy framework. It runs nothing: the controller takes its
//! kubeconfig, and renews its Lease.
//! Upstream: governance-policy-addon-controller `pkg/addon/standalonetemplating/`.
//!
//! What may be looked up is for administrators to say: they bind roles to the group of a cluster's agent, which a
//! Secret on the cluster names, or to `system:open-cluster-management:addon:governance-standalone-hub-templating`, the
//! agents of all clusters. Ours differs: its Lease on the hub is in the namespace of its cluster only, and has its own
//! name.

use base64::{Engine, prelude::BASE64_STANDARD};
use ocm_addon_sdk::{
    AddOn, AddOnContext, ConfigKind, Permission, Registration, UserError,
    ocm_api::{addon::v1alpha1::AddOnDeploymentConfig, identity},
    values::config,
};
use serde_json::{Value, json};

/// The name of the add-on.
pub const NAME: &str = "governance-standalone-hub-templating";

/// The Secret with its kubeconfig of the hub, on each cluster.
pub const SECRET: &str = "governance-standalone-hub-templating-hub-kubeconfig";

/// What it is on the hub.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandaloneTemplating;

impl AddOn for StandaloneTemplating {
    fn name(&self) -> &str {
        NAME
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let group = identity::addon_cluster_group(place.cluster_name(), NAME);
        Ok(vec![json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": format!("{NAME}-info"), "namespace": place.install_namespace,
                "labels": {
                    "app": NAME, "release": NAME, "heritage": "Helm",
                    "addon.open-cluster-management.io/hosted-manifest-location": "hosting",
                },
            },
            "data": {"hub.group": BASE64_STANDARD.encode(group)},
        })])
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let role = format!("open-cluster-management:{NAME}");
        let clusters = Permission::rule(
            "cluster.open-cluster-management.io",
            &["managedclusters"],
            &["get", "list", "watch"],
        );
        Ok(vec![
            Permission::role(role.clone(), Permission::lease(NAME)),
            // One binding for the agents of all clusters, as administrators find it with upstream.
            Permission::role(role, vec![clusters])
                .on_the_whole_hub()
                .for_group(identity::addon_group(NAME)),
        ])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace_beside_klusterlet(place)
    }

    fn hosted(&self, _: &AddOnContext) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn administrators_find_the_groups_that_they_bind_roles_to() {
        let place = AddOnContext::new("c1", NAME);
        let secret = &StandaloneTemplating.manifests(&place).unwrap()[0];
        assert_eq!(secret["metadata"]["name"], "governance-standalone-hub-templating-info");
        let group = BASE64_STANDARD
            .decode(secret["data"]["hub.group"].as_str().unwrap())
            .unwrap();
        let own = "system:open-cluster-management:cluster:c1:addon:governance-standalone-hub-templating";
        assert_eq!(String::from_utf8(group).unwrap(), own);
        let permissions = StandaloneTemplating.hub_permissions(&place).unwrap();
        let all = "system:open-cluster-management:addon:governance-standalone-hub-templating";
        assert_eq!(permissions[1].holders, [ocm_addon_sdk::Holder::Group(all.to_owned())]);
        assert!(permissions[0].is_for_agent());
    }
}
