//! What an add-on on a cluster is told: which configuration it has or gets, or that it has to wait for it.

use jiff::Timestamp;
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    condition::{self, ConditionUpdate, wanted},
    conditions::managed_cluster_add_on::{self, configured_reason},
};
use ocm_reconcile::Plan;
use placement::rollout::RolloutState;

use super::{
    desired,
    graph::{Graph, InstalledAddOn},
};
use crate::hub::facts;

/// All of an add-on that what it is told depends on.
pub fn concern(addon: &ManagedClusterAddOn) -> impl PartialEq + '_ {
    let said = |r#type: &str| condition::find(facts::conditions(addon), r#type).map(|it| (&it.status, &it.reason));
    (
        &addon.metadata.uid,
        &addon.spec.configs,
        facts::references(addon),
        said(managed_cluster_add_on::PROGRESSING),
        said(managed_cluster_add_on::CONFIGURED),
    )
}

/// Plans what the add-ons of all clusters are told, where that is anything new.
pub fn tell_all(plan: &mut Plan, graph: &Graph<'_>, now: Timestamp) {
    let mut takes = Vec::new();
    for add_on in graph.add_ons.values() {
        let say = match (graph.turn(add_on), add_on.progress.status) {
            (Some(turn), _) if turn.is_in_rollout() => {
                takes.push(add_on);
                continue;
            }
            (_, RolloutState::ToApply) => Say::Wait,
            (_, RolloutState::Succeeded) => Say::Keep,
            _ => continue,
        };
        inform(plan, add_on, say, now);
    }
    // Last, so that whose turn it is is not held up by what the others are told.
    for add_on in takes {
        inform(plan, add_on, Say::Take, now);
    }
}

/// What to say to an add-on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Say {
    /// Its configuration.
    Take,
    /// That there is one, and that it has to wait.
    Wait,
    /// That it has it.
    Keep,
}

fn inform(plan: &mut Plan, installed: &InstalledAddOn<'_>, say: Say, now: Timestamp) {
    let addon = installed.addon;
    let condition = configured(say != Say::Wait);
    let takes = say == Say::Take && installed.progress.status == RolloutState::ToApply;
    if !takes && is_said(addon, &condition) {
        return;
    }
    let mut new = facts::saying(addon, condition, now);
    if takes {
        let status = new.status.get_or_insert_default();
        status.config_references = desired::references(&installed.desired, &status.config_references);
    }
    facts::tell(plan, addon, &new);
}

fn configured(yes: bool) -> ConditionUpdate {
    let (reason, message) = if yes {
        (configured_reason::CONFIGURED, "Configurations configured")
    } else {
        (
            configured_reason::NOT_CONFIGURED,
            "Configurations updated and not configured yet",
        )
    };
    wanted(managed_cluster_add_on::CONFIGURED, yes, reason, message)
}

fn is_said(addon: &ManagedClusterAddOn, condition: &ConditionUpdate) -> bool {
    condition::find(facts::conditions(addon), &condition.r#type).is_some_and(|it| {
        it.status == condition.status.as_str() && it.reason == condition.reason && it.message == condition.message
    })
}
