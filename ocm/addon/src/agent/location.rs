//! Where the agent of an add-on lives.

use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn, annotations, condition, conditions::managed_cluster_add_on, namespaces,
};

/// A namespace, and the cluster it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentLocation {
    /// The namespace of the agent, its lease and its Secrets.
    pub namespace: String,
    /// The name of the cluster that hosts it in place of the managed one.
    pub hosted_by: Option<String>,
}

/// The namespace that the hub has decided on, else the one the user named, else upstream's default.
pub fn location(addon: &ManagedClusterAddOn) -> AgentLocation {
    let decided = addon.status.as_ref().map_or("", |it| it.namespace.as_str());
    let annotation = |key: &str| addon.annotations().get(key).map_or("", String::as_str);
    let namespace = [
        decided,
        &addon.spec.install_namespace,
        annotation(annotations::ADDON_INSTALL_NAMESPACE),
        namespaces::AGENT_ADDON,
    ]
    .into_iter()
    .find(|it| !it.is_empty())
    .unwrap_or_default();
    let hosted_by = Some(annotation(annotations::ADDON_HOSTING_CLUSTER));
    let hosted_by = hosted_by.filter(|it| !it.is_empty() && !is_never_hosted(addon));
    AgentLocation {
        namespace: namespace.to_owned(),
        hosted_by: hosted_by.map(str::to_owned),
    }
}

// A hub of ours says of an add-on that does not run hosted that there is nothing for the hosting cluster, and nothing
// of whether that is one. Of a hosted one every hub says both or neither.
fn is_never_hosted(addon: &ManagedClusterAddOn) -> bool {
    let conditions = addon.status.as_ref().map_or(&[][..], |it| &it.conditions);
    let says = |r#type: &str| condition::find(conditions, r#type).is_some();
    says(managed_cluster_add_on::HOSTING_MANIFEST_APPLIED) && !says(managed_cluster_add_on::HOSTING_CLUSTER_VALIDITY)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn location_of(object: serde_json::Value) -> (String, Option<String>) {
        let it = location(&serde_json::from_value(object).unwrap());
        (it.namespace, it.hosted_by)
    }

    #[test]
    fn the_hubs_namespace_precedes_the_users_and_the_default() {
        let at = |namespace: &str| (namespace.to_owned(), None);
        assert_eq!(
            location_of(json!({"metadata": {}, "spec": {"installNamespace": "wish"}, "status": {"namespace": "word"}})),
            at("word")
        );
        assert_eq!(
            location_of(json!({"metadata": {}, "spec": {"installNamespace": "wish"}})),
            at("wish")
        );
        assert_eq!(
            location_of(json!({"metadata": {}, "spec": {}})),
            at("open-cluster-management-agent-addon")
        );
    }

    #[test]
    fn a_hosted_add_on_names_its_host() {
        let key = "addon.open-cluster-management.io/hosting-cluster-name";
        let hosted = |by: &str| location_of(json!({"metadata": {"annotations": {key: by}}, "spec": {}})).1;
        assert_eq!(hosted("host"), Some("host".to_owned()));
        assert_eq!(hosted(""), None);
    }

    #[test]
    fn an_unhosted_add_on_is_local_despite_its_annotation() {
        let key = "addon.open-cluster-management.io/hosting-cluster-name";
        let told = |types: &[&str]| {
            let said = types.iter().map(|it| {
                json!({"type": it, "status": "True", "reason": "", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
            });
            let said: Vec<_> = said.collect();
            let metadata = json!({"annotations": {key: "host"}});
            location_of(json!({"metadata": metadata, "spec": {}, "status": {"conditions": said}})).1
        };
        assert_eq!(told(&["HostingManifestApplied"]), None);
        assert_eq!(
            told(&["HostingManifestApplied", "HostingClusterValidity"]).as_deref(),
            Some("host")
        );
        assert_eq!(told(&[]).as_deref(), Some("host"));
    }
}
