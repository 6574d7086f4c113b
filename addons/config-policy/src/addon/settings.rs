//! What is known of a cluster and said in annotations and variables, as values of the chart.
//! Upstream: governance-policy-addon-controller `pkg/addon/configpolicy/agent_addon.go`.

use ocm_addon_sdk::{
    AddOnContext, Values,
    ocm_api::{addon::AddOnDeploymentConfigSpec, cluster::ManagedCluster},
    values::{
        self, at, distribution,
        settings::{self, Setting, parse_bool},
    },
};

use super::standalone_templating;

/// Label of a ManagedCluster: the major version of OpenShift.
const OPENSHIFT_MAJOR: &str = "openshiftVersion-major";

/// What can be set of this add-on, besides what can be set of every controller.
const OWN: &[Setting] = &[
    Setting {
        variable: "operatorPolicyDisabled",
        annotation: Some("operator-policy-disabled"),
        read: |text| parse_bool(text).map(|it| at("operatorPolicy.disabled", it)),
    },
    Setting {
        variable: "managedKubeConfigSecret",
        annotation: None,
        read: |text| (!text.is_empty()).then(|| at("managedKubeConfigSecret", text)),
    },
];

/// What is known of the cluster, and what the annotations say over it.
pub fn of_place(place: &AddOnContext) -> Values {
    let mut all = vec![distribution::values(place)];
    if place.is_with(standalone_templating::NAME) {
        all.push(at("standaloneHubTemplatingSecret", standalone_templating::SECRET));
    }
    if openshift_major(&place.cluster) == Some("4") {
        all.push(at("operatorPolicy.defaultNamespace", "openshift-operators"));
    }
    all.push(settings::of_annotations(place, OWN));
    values::merge(all)
}

/// Whether a change of a cluster is one of what [`of_place`] reads.
pub fn differ(before: &ManagedCluster, after: &ManagedCluster) -> bool {
    distribution::differ(before, after) || openshift_major(before) != openshift_major(after)
}

/// What the variables of an AddOnDeploymentConfig say.
pub fn of_variables(config: &AddOnDeploymentConfigSpec) -> Values {
    settings::of_variables(config, OWN)
}

/// What nobody may override: that the add-on goes.
pub fn mandatory(place: &AddOnContext) -> Values {
    match place.addon.metadata.deletion_timestamp {
        Some(_) => at("uninstallationAnnotation", "true"),
        None => Values::new(),
    }
}

fn openshift_major(cluster: &ManagedCluster) -> Option<&str> {
    cluster
        .metadata
        .labels
        .as_ref()?
        .get(OPENSHIFT_MAJOR)
        .map(String::as_str)
}
