//! What is done for a ClusterManager, and when it goes.

use ocm_api::operator::ClusterManager;
use ocm_reconcile::{Plan, Site};

use super::{
    super::{hosted, install::CRDS_FAILED, removal, wanted::HubObjects},
    ASK_AGAIN, FINALIZER, RESYNC, Seen,
};
use crate::{OCM_VERSION, crds, objects};

/// Keeps a hub in place.
pub(super) fn keep(plan: &mut Plan, seen: &Seen, manager: &ClusterManager, hub: &HubObjects<'_>) {
    plan.look_again(RESYNC);
    plan.add_finalizer(Site::Management, manager, FINALIZER);
    let (install, missing) = seen.install(hub);
    let generations = manager.status.as_ref().map(|it| it.generations.as_slice());
    let generations = generations.unwrap_or_default();
    let stages = |plan: &mut Plan, stages: &[objects::Stage]| {
        plan.then(objects::plan(stages, &seen.current, generations));
    };
    stages(plan, std::slice::from_ref(&install.namespaces));
    if seen.facts.authorities.is_empty() {
        plan.wait("the certificates of webhooks are being made");
        return;
    }
    crds::keep(plan, CRDS_FAILED, &install.crds, &seen.current, OCM_VERSION);
    let [secrets, identities, on_hub, rest @ ..] = install.stages.as_slice() else {
        return;
    };
    stages(plan, &[secrets.clone(), identities.clone(), on_hub.clone()]);
    if !missing.is_empty() {
        // The rest comes in the next round, when they have kubeconfigs.
        hosted::ask(plan, hub, &missing);
        return;
    }
    stages(plan, rest);
    stages(plan, &install.last);
    for wait in &install.waits {
        plan.wait(wait.clone());
    }
}

/// Takes a hub away, and lets go of the ClusterManager.
pub(super) fn remove(plan: &mut Plan, seen: &Seen, manager: &ClusterManager, hub: &HubObjects<'_>) {
    // It has nothing of its own.
    if seen.elder.is_none() {
        let deletion = manager.metadata.deletion_timestamp.clone().map(|it| it.0);
        let since = removal::since(deletion, seen.now);
        let is_reached = !hub.is_hosted || seen.way.is_some();
        if !is_reached && since < removal::GIVE_UP {
            let why = seen.obstacle.as_ref().map(|it| it.1.clone()).unwrap_or_default();
            plan.wait(format!("the hub cannot be reached: {why}"))
                .look_again(ASK_AGAIN);
            return;
        }
        let left = removal::plan(plan, hub, &seen.current, is_reached, since);
        if !left.crds.is_empty() {
            return;
        }
    }
    plan.stage();
    plan.remove_finalizer(Site::Management, manager, FINALIZER);
}
