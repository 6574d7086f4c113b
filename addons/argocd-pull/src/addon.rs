//! What a cluster gets: the namespace of Argo CD, the right of the work agent to keep Applications there, and, where no
//! Argo CD has brought it, the kind Application. Argo CD itself is for its owner to install. This is what `drover up`
//! delivers; elsewhere the AddOnTemplate `argocd` in `deploy/` does, without the kind.

use ocm_addon_sdk::{
    AddOn, AddOnContext, Health, UserError,
    ocm_api::{
        annotations,
        work::{ManifestConfigOption, ResourceIdentifier, UpdateStrategy, UpdateStrategyType},
    },
};
use serde_json::{Value, json};

use crate::{NAME, application::PulledApplication};

/// The namespace of Argo CD on clusters.
pub const NAMESPACE: &str = "argocd";
/// The definition of the kind.
const DEFINITION: &str = "applications.argoproj.io";

/// The add-on on clusters.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArgoPull;

impl AddOn for ArgoPull {
    fn name(&self) -> &str {
        NAME
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let name = "argocd-work-role";
        let mut definition = definition();
        definition["metadata"]["annotations"] = stays();
        Ok(vec![
            json!({
                "apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": NAMESPACE, "annotations": stays()},
            }),
            definition,
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "rules": [{
                    "apiGroups": [PulledApplication::GROUP], "resources": [PulledApplication::PLURAL],
                    "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
                }],
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [{
                    "kind": "ServiceAccount", "name": "klusterlet-work-sa", "namespace": "open-cluster-management-agent",
                }],
            }),
        ])
    }

    fn manifest_configs(&self, _: &AddOnContext) -> Vec<ManifestConfigOption> {
        // An Argo CD that comes later brings its own definition, which is the better one.
        vec![ManifestConfigOption {
            resource_identifier: ResourceIdentifier {
                group: "apiextensions.k8s.io".to_owned(),
                resource: "customresourcedefinitions".to_owned(),
                name: DEFINITION.to_owned(),
                ..ResourceIdentifier::default()
            },
            update_strategy: Some(UpdateStrategy {
                r#type: UpdateStrategyType::CreateOnly,
                ..UpdateStrategy::default()
            }),
            ..ManifestConfigOption::default()
        }]
    }

    fn health(&self, _: &AddOnContext) -> Health {
        Health::Work(Vec::new())
    }

    fn install_namespace(&self, _: &AddOnContext) -> Result<Option<String>, UserError> {
        Ok(Some(NAMESPACE.to_owned()))
    }
}

/// Applications outlive the add-on, and with them what they are in.
fn stays() -> Value {
    json!({annotations::ADDON_DELETION_ORPHAN: ""})
}

/// The kind Application with Argo CD's names and columns and without its schema, for clusters and hubs without Argo CD.
pub fn definition() -> Value {
    let column = |name: &str, path: &str| json!({"name": name, "type": "string", "jsonPath": path});
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": PulledApplication::GROUP, "scope": "Namespaced",
            "names": {
                "kind": PulledApplication::KIND, "listKind": "ApplicationList", "plural": PulledApplication::PLURAL,
                "singular": "application", "shortNames": ["app", "apps"],
            },
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "additionalPrinterColumns": [
                    column("Sync Status", ".status.sync.status"),
                    column("Health Status", ".status.health.status"),
                ],
                "schema": {"openAPIV3Schema": {
                    "type": "object", "required": ["metadata", "spec"],
                    "properties": {"spec": any, "status": any, "operation": any},
                }},
            }],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_argo_cd_brings_itself_is_left_to_it() {
        let place = AddOnContext::new("c1", NAME);
        let manifests = ArgoPull.manifests(&place).unwrap();
        let kinds: Vec<_> = manifests.iter().filter_map(|it| it["kind"].as_str()).collect();
        assert_eq!(kinds, ["Namespace", "CustomResourceDefinition", "Role", "RoleBinding"]);
        for object in &manifests[..2] {
            let annotated = &object["metadata"]["annotations"];
            assert_eq!(annotated["addon.open-cluster-management.io/deletion-orphan"], "");
        }
        let config = &ArgoPull.manifest_configs(&place)[0];
        assert_eq!(config.resource_identifier.name, "applications.argoproj.io");
        let strategy = serde_json::to_value(&config.update_strategy).unwrap();
        assert_eq!(strategy, json!({"type": "CreateOnly"}));
    }
}
