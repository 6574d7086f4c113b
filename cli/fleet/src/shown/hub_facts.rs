//! What a ClusterManager says of the hub of this process.

use jiff::Timestamp;
use ocm_api::{
    condition::{self, wanted},
    conditions::cluster_manager,
    namespaces,
    operator::{ClusterManager, FeatureGate, RelatedResourceMeta},
};
use operator::feature_gates;

use super::{cluster_manager::NAME, gate, image, related, related_crd};

/// The Deployments that the hub would be. They stay among the related resources, where programs look up what a hub
/// consists of: these take one that is missing for one that is not installed, and stumble over one that is not named.
const DEPLOYMENTS: [&str; 6] = [
    "registration-controller",
    "registration-webhook",
    "work-webhook",
    "placement-controller",
    "addon-manager-controller",
    "work-controller",
];

/// What there is to say about the hub.
#[derive(Clone, Debug, Default)]
pub struct HubFacts {
    /// Its switches that were turned by hand, each with its position.
    pub gates: Vec<(String, bool)>,
    /// Users whose certificate requests are approved without a human.
    pub auto_approved_users: Vec<String>,
    /// The names of the CRDs that it serves.
    pub crds: Vec<String>,
}

/// Writes down what the hub is; what it has no word on stays as it is.
pub fn specify(object: &mut ClusterManager, facts: &HubFacts) {
    let spec = &mut object.spec;
    for field in [
        &mut spec.registration_image_pull_spec,
        &mut spec.work_image_pull_spec,
        &mut spec.placement_image_pull_spec,
        &mut spec.add_on_manager_image_pull_spec,
    ] {
        *field = image();
    }
    let gates_of = |component: &feature_gates::GatedComponent| -> Vec<FeatureGate> {
        let known = |name: &str| component.gates.iter().any(|it| it.0 == name);
        let ours = facts.gates.iter().filter(|it| known(&it.0));
        ours.map(|(name, is_on)| gate((name, *is_on))).collect()
    };
    let registration = gates_of(&feature_gates::HUB_REGISTRATION);
    if !registration.is_empty() || !facts.auto_approved_users.is_empty() || spec.registration_configuration.is_some() {
        let of = spec.registration_configuration.get_or_insert_default();
        of.feature_gates = registration;
        of.auto_approve_users.clone_from(&facts.auto_approved_users);
    }
    let work = gates_of(&feature_gates::HUB_WORK);
    if !work.is_empty() || spec.work_configuration.is_some() {
        spec.work_configuration.get_or_insert_default().feature_gates = work;
    }
    let add_ons = gates_of(&feature_gates::HUB_ADD_ONS);
    if !add_ons.is_empty() || spec.add_on_manager_configuration.is_some() {
        spec.add_on_manager_configuration.get_or_insert_default().feature_gates = add_ons;
    }
    let placement = gates_of(&feature_gates::HUB_PLACEMENT);
    if !placement.is_empty() || spec.placement_configuration.is_some() {
        spec.placement_configuration.get_or_insert_default().feature_gates = placement;
    }
}

/// Writes down how it is.
pub fn report(object: &mut ClusterManager, facts: &HubFacts, now: Timestamp) {
    let generation = object.metadata.generation;
    let status = object.status.get_or_insert_default();
    for update in [
        wanted(
            cluster_manager::APPLIED,
            true,
            "ClusterManagerApplied",
            "The hub runs in the process of drover up; there is no operator and no Deployment",
        ),
        wanted(
            cluster_manager::PROGRESSING,
            false,
            "ClusterManagerUpToDate",
            "Components of cluster manager are those of the process",
        ),
        wanted(
            cluster_manager::VALID_FEATURE_GATES,
            true,
            "FeatureGatesAllValid",
            "Feature gates are those that drover up was started with",
        ),
        wanted(
            cluster_manager::HUB_REGISTRATION_DEGRADED,
            false,
            "RegistrationFunctional",
            "Registration is managing credentials in the process of drover up",
        ),
        wanted(
            cluster_manager::HUB_PLACEMENT_DEGRADED,
            false,
            "PlacementFunctional",
            "Placement is scheduling placement decisions in the process of drover up",
        ),
    ] {
        condition::set(&mut status.conditions, update.at_generation(generation), now);
    }
    status.observed_generation = generation.unwrap_or_default();
    status.related_resources = related_resources(facts);
}

fn related_resources(facts: &HubFacts) -> Vec<RelatedResourceMeta> {
    let deployment = |part: &&str| related("apps", "deployments", namespaces::HUB, &format!("{NAME}-{part}"));
    let crds = facts.crds.iter().map(|it| related_crd(it));
    let namespace = related("", "namespaces", "", namespaces::HUB);
    crds.chain([namespace])
        .chain(DEPLOYMENTS.iter().map(deployment))
        .collect()
}
