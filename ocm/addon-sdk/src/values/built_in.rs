//! Values that are facts of a place. They lie over all others.

use serde_json::{Value, json};

use super::Values;
use crate::{AddOnContext, Mode};

/// Facts for Go templates, under names that start with a capital: `ClusterName`,
/// `AddonInstallNamespace`, `InstallMode`.
pub fn for_templates(place: &AddOnContext) -> Values {
    Values::from_iter([
        ("ClusterName".to_owned(), place.cluster_name().into()),
        (
            "AddonInstallNamespace".to_owned(),
            place.install_namespace.as_str().into(),
        ),
        ("InstallMode".to_owned(), mode(place).into()),
    ])
}

/// What an author's values may replace, for Go templates: `HubKubeConfigSecret` and `ManagedKubeConfigSecret`.
pub fn defaults_for_templates(place: &AddOnContext) -> Values {
    Values::from_iter([
        ("HubKubeConfigSecret".to_owned(), place.hub_kubeconfig_secret().into()),
        (
            "ManagedKubeConfigSecret".to_owned(),
            place.managed_kubeconfig_secret().into(),
        ),
    ])
}

/// Facts for charts: `clusterName`, `addonInstallNamespace`, `installMode`.
pub fn for_charts(place: &AddOnContext) -> Values {
    Values::from_iter([
        ("clusterName".to_owned(), place.cluster_name().into()),
        (
            "addonInstallNamespace".to_owned(),
            place.install_namespace.as_str().into(),
        ),
        ("installMode".to_owned(), mode(place).into()),
    ])
}

/// What an author's values may replace, for charts: `hubKubeConfigSecret`, `managedKubeConfigSecret` and, when the hub
/// knows the hosting cluster, `hostingClusterCapabilities`.
pub fn defaults_for_charts(place: &AddOnContext) -> Values {
    let mut values = Values::from_iter([
        ("hubKubeConfigSecret".to_owned(), place.hub_kubeconfig_secret().into()),
        (
            "managedKubeConfigSecret".to_owned(),
            place.managed_kubeconfig_secret().into(),
        ),
    ]);
    if let Mode::Hosted(hosting) = &place.mode
        && let Some(cluster) = &hosting.cluster
    {
        let version = cluster.status.as_ref().map(|it| it.version.kubernetes.as_str());
        let capabilities = capabilities(version.unwrap_or_default());
        values.insert("hostingClusterCapabilities".to_owned(), capabilities);
    }
    values
}

/// What Helm's `.Capabilities` says of a cluster whose API server has this version.
fn capabilities(version: &str) -> Value {
    let mut numbers = version.trim_start_matches('v').split('.');
    let mut number = || numbers.next().unwrap_or_default().to_owned();
    json!({ "KubeVersion": { "Version": version, "Major": number(), "Minor": number() } })
}

fn mode(place: &AddOnContext) -> &'static str {
    match place.mode {
        Mode::Default => "Default",
        Mode::Hosted(_) => "Hosted",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ocm_api::cluster::ManagedCluster;

    use super::*;
    use crate::Hosting;

    #[test]
    fn facts_have_the_names_that_templates_and_charts_know() {
        let place = AddOnContext::new("cluster1", "hello");
        assert_eq!(
            json!(for_templates(&place)),
            json!({"ClusterName": "cluster1", "AddonInstallNamespace": "open-cluster-management-agent-addon", "InstallMode": "Default"})
        );
        assert_eq!(
            json!(defaults_for_charts(&place)),
            json!({"hubKubeConfigSecret": "hello-hub-kubeconfig", "managedKubeConfigSecret": "hello-managed-kubeconfig"})
        );
    }

    #[test]
    fn charts_of_hosted_agents_know_the_hosting_cluster() {
        let mut cluster = ManagedCluster::new("host", Default::default());
        cluster.status.get_or_insert_default().version.kubernetes = "v1.34.1".to_owned();
        let mut place = AddOnContext::new("cluster1", "hello");
        place.mode = Mode::Hosted(Hosting {
            name: "host".to_owned(),
            cluster: Some(Arc::new(cluster)),
        });
        let values = defaults_for_charts(&place);
        let version = json!({"Version": "v1.34.1", "Major": "1", "Minor": "34"});
        assert_eq!(values["hostingClusterCapabilities"]["KubeVersion"], version);
        assert_eq!(for_charts(&place)["installMode"], "Hosted");
    }
}
