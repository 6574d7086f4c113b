//! What the condition `TokenInfrastructureReady` says.

use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    condition::{ConditionUpdate, wanted},
    conditions::managed_cluster_add_on::{TOKEN_INFRASTRUCTURE_READY, token_infrastructure_reason as reason},
    labels,
};
use ocm_reconcile::{Done, Outcome, StatusField};

use super::objects::service_account_name;
use crate::hub::facts;

/// All that is said.
pub const FIELDS: &[StatusField] = &[StatusField::condition(
    ManagedClusterAddOn::KIND,
    TOKEN_INFRASTRUCTURE_READY,
)];

/// That the agent's cluster may ask for a token of the ServiceAccount with this UID.
pub fn ready(addon: &ManagedClusterAddOn, uid: &str) -> ConditionUpdate {
    let (cluster, account) = (facts::cluster(addon), service_account_name(&addon.name_any()));
    // The agent reads the UID out of this sentence.
    let message = format!("ServiceAccount {cluster}/{account} (UID: {uid}) is ready");
    wanted(TOKEN_INFRASTRUCTURE_READY, true, reason::READY, message)
}

/// That an object could not be made.
fn failed(why: &str) -> ConditionUpdate {
    let message = format!("Failed to apply token infrastructure: {why}");
    wanted(TOKEN_INFRASTRUCTURE_READY, false, reason::APPLY_FAILED, message)
}

/// That objects of these names are somebody else's.
fn in_the_way(addon: &ManagedClusterAddOn, objects: &[String]) -> ConditionUpdate {
    failed(&format!(
        "{} is there already and was not made for the add-on; remove it, or label it {}={} and {}=true to give it to the add-on",
        objects.join(", "),
        labels::ADDON_TOKEN_NAME,
        addon.name_any(),
        labels::ADDON_TOKEN_INFRASTRUCTURE,
    ))
}

/// What to say after the objects were to be made; `met` when one was in the way in the run before, too:
/// at first the watch may just be late.
pub fn after(addon: &ManagedClusterAddOn, outcome: &Outcome, met: bool) -> Option<ConditionUpdate> {
    // Somebody who was faster is no failure worth telling.
    if outcome.errors().any(|(_, it)| !it.is_conflict()) {
        return Some(failed(&outcome.error_text()));
    }
    let objects = objects_in_the_way(outcome);
    (met && !objects.is_empty()).then(|| in_the_way(addon, &objects))
}

/// The objects that were to be made and are there, although nobody has seen them with the add-on's labels.
pub fn objects_in_the_way(outcome: &Outcome) -> Vec<String> {
    let there = outcome
        .results()
        .filter(|(_, it)| matches!(it, Ok(Done::AlreadyExists)));
    let targets = there.filter_map(|(step, _)| step.target());
    targets
        .map(|it| {
            let namespace = it.namespace.as_deref().unwrap_or_default();
            format!("{} {namespace}/{}", it.api_resource.kind, it.name)
        })
        .collect()
}
