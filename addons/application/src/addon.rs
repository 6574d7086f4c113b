//! The add-on as the hub delivers it: what runs on a cluster, and what its agent may do on the hub.
//! Upstream: multicloud-operators-subscription addon/addon.go and its chart. Ours differs: there is no job before the
//! deletion, as the definitions go with the work that has brought them; and the agent has no rights on
//! ManagedServiceAccounts, as it makes none.

use ocm_addon_sdk::{
    AddOn, AddOnContext, ConfigKind, Permission, Registration, UserError, include_files, manifests,
    ocm_api::{
        addon::v1alpha1::AddOnDeploymentConfig,
        annotations::ADDON_DELETION_ORPHAN,
        apps::{self, HelmRelease, Subscription, SubscriptionStatus},
    },
    values::{self, config, images},
};
use serde_json::{Value, json};

use crate::NAME;

/// The image of the agent where nobody names another.
pub const IMAGE: &str = "quay.io/open-cluster-management/multicloud-operators-subscription:latest";

/// What it is on the hub: answers about one cluster at a time.
#[derive(Clone, Debug)]
pub struct ApplicationManager {
    /// The image of the agent.
    pub image: String,
}

impl Default for ApplicationManager {
    fn default() -> Self {
        Self {
            image: IMAGE.to_owned(),
        }
    }
}

impl AddOn for ApplicationManager {
    fn name(&self) -> &str {
        NAME
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let defaults = values::of(&json!({
            "RequestMemory": "128Mi", "LimitsMemory": "2Gi", "HTTPProxy": "", "HTTPSProxy": "", "NoProxy": "",
        }))?;
        let configured = config::values(place, &[config::for_templates, config::variables])?;
        let image = images::value(place, "Image", &self.image)?;
        let mut all = manifests::definitions(
            apps::GROUP,
            &[HelmRelease::PLURAL, Subscription::PLURAL, SubscriptionStatus::PLURAL],
        );
        let is_hub = place
            .cluster
            .metadata
            .labels
            .as_ref()
            .is_some_and(|it| it.get("local-cluster").is_some_and(|it| it == "true"));
        if is_hub {
            // They are the hub's.
            for definition in &mut all {
                definition["metadata"]["annotations"][ADDON_DELETION_ORPHAN] = "".into();
            }
        }
        let files = include_files!["manifests.yaml"];
        all.extend(manifests::templates(
            files,
            place,
            values::merge([defaults, configured, image]),
        )?);
        Ok(all)
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![Registration::kube_client()])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let events = ["create", "get", "list", "patch", "update", "watch"];
        let mut rules = Permission::lease(NAME);
        rules.extend([
            Permission::rule("", &["events"], &events),
            Permission::rule("events.k8s.io", &["events"], &events),
            Permission::rule(
                apps::GROUP,
                &["subscriptionreports"],
                &["get", "list", "watch", "create", "patch", "update", "delete"],
            ),
        ]);
        Ok(vec![Permission::role(
            "open-cluster-management:addons:application-manager",
            rules,
        )])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        config::install_namespace(place)
    }
}

#[cfg(test)]
mod tests {
    use testkit::manifests::{arguments, kinds, of_kind};

    use super::*;

    fn place() -> AddOnContext {
        AddOnContext::new("c1", NAME)
    }

    #[test]
    fn the_agent_runs_as_upstreams_does() {
        let all = ApplicationManager::default().manifests(&place()).unwrap();
        assert_eq!(
            kinds(&all),
            [
                "CustomResourceDefinition helmreleases.apps.open-cluster-management.io",
                "CustomResourceDefinition subscriptions.apps.open-cluster-management.io",
                "CustomResourceDefinition subscriptionstatuses.apps.open-cluster-management.io",
                "ServiceAccount application-manager",
                "ClusterRole open-cluster-management:application-manager",
                "ClusterRoleBinding open-cluster-management:application-manager",
                "Deployment application-manager",
            ]
        );
        let deployment = of_kind(&all, "Deployment");
        assert_eq!(
            arguments(&all),
            [
                "--alsologtostderr",
                "--cluster-name=c1",
                "--hub-cluster-configfile=/var/run/klusterlet/kubeconfig",
                "--leader-election-lease-duration=137s",
                "--leader-election-renew-deadline=107s",
                "--leader-election-retry-period=26s",
            ]
        );
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        assert_eq!(container["image"], IMAGE);
        assert_eq!(container["resources"]["limits"]["memory"], "2Gi");
    }

    #[test]
    fn an_agent_may_tell_of_its_own_cluster_alone() {
        let permissions = ApplicationManager::default().hub_permissions(&place()).unwrap();
        let text = format!("{permissions:?}");
        assert!(
            !text.contains("secrets") && !text.contains("managedserviceaccounts"),
            "{text}"
        );
    }
}
