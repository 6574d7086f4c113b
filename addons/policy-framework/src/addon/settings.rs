//! What is known of a cluster and said in annotations and variables, as values of the chart.
//! Upstream: governance-policy-addon-controller `pkg/addon/policyframework/agent_addon.go`.

use std::collections::BTreeMap;

use ocm_addon_sdk::{
    AddOnContext, Mode, Values,
    ocm_api::{addon::AddOnDeploymentConfigSpec, cluster::ManagedCluster},
    values::{
        self, at, distribution,
        settings::{self, Setting, parse_bool},
    },
};
use serde_json::{Value, json};

/// Annotations of the ManagedClusterAddOn, besides those of [`settings::CONTROLLER`].
pub mod annotations {
    /// Of the ManagedCluster, too: whether the cluster is the hub itself.
    pub const ON_HUB: &str = "addon.open-cluster-management.io/on-multicluster-hub";
    /// Of the ManagedCluster, too: whether the hub is a cluster of another hub, whose policies it gets.
    pub const SYNC_ON_HUB: &str = "policy.open-cluster-management.io/sync-policies-on-multicluster-hub";
}

const LOCAL_CLUSTER: &str = "local-cluster";

/// What a configuration may say of this add-on alone.
const OWN: &[Setting] = &[Setting {
    variable: "orphanClusterNamespace",
    annotation: None,
    read: |text| parse_bool(text).map(|it| at("orphanClusterNamespace", it)),
}];

/// What is known of the cluster, and what the annotations say over it.
pub fn of_place(place: &AddOnContext) -> Values {
    let (cluster, add_on) = (&*place.cluster, &*place.addon);
    let none = BTreeMap::new();
    let of_add_on = add_on.metadata.annotations.as_ref().unwrap_or(&none);
    let mut on_hub = place.cluster_name() == LOCAL_CLUSTER
        || matches!(&place.mode, Mode::Hosted(hosting) if hosting.name == LOCAL_CLUSTER)
        || label(cluster, LOCAL_CLUSTER) == Some("true");
    let mut sync_on_hub = false;
    // What the add-on says counts over what the cluster says.
    for said in [cluster.metadata.annotations.as_ref().unwrap_or(&none), of_add_on] {
        on_hub = said.get(annotations::ON_HUB).and_then(|it| truth(it)).unwrap_or(on_hub);
        sync_on_hub = said
            .get(annotations::SYNC_ON_HUB)
            .and_then(|it| truth(it))
            .unwrap_or(sync_on_hub);
    }
    values::merge([
        distribution::values(place),
        at("onMulticlusterHub", on_hub),
        at("syncPoliciesOnMulticlusterHub", sync_on_hub),
        settings::of_annotations(place, OWN),
    ])
}

/// Whether a change of a cluster is one of what [`of_place`] reads.
pub fn differ(before: &ManagedCluster, after: &ManagedCluster) -> bool {
    let of = |it: &ManagedCluster| {
        let annotation = |name: &str| it.metadata.annotations.as_ref().and_then(|it| it.get(name).cloned());
        let is_local = label(it, LOCAL_CLUSTER) == Some("true");
        (
            is_local,
            annotation(annotations::ON_HUB),
            annotation(annotations::SYNC_ON_HUB),
        )
    };
    distribution::differ(before, after) || of(before) != of(after)
}

/// What the variables of an AddOnDeploymentConfig say.
pub fn of_variables(config: &AddOnDeploymentConfigSpec) -> Values {
    settings::of_variables(config, OWN)
}

fn truth(text: &str) -> Option<bool> {
    text.eq_ignore_ascii_case("true")
        .then_some(true)
        .or_else(|| text.eq_ignore_ascii_case("false").then_some(false))
}

fn label<'a>(cluster: &'a ManagedCluster, name: &str) -> Option<&'a str> {
    cluster.metadata.labels.as_ref()?.get(name).map(String::as_str)
}

/// What nobody may override: that the add-on goes.
pub fn mandatory(place: &AddOnContext) -> Values {
    match place.addon.metadata.deletion_timestamp {
        Some(_) => at("uninstallationAnnotation", "true"),
        None => Values::new(),
    }
}

/// Whether network policies are made at all.
pub fn network_policies(enabled: bool) -> Values {
    let enabled: Value = json!(enabled);
    at("global.networkPolicies.enabled", enabled)
}
