//! Taking a hub away. Upstream: ocm `.../clustermanagercontroller`, `clean` of each of its reconcilers: CRDs first, as
//! long as the hub still runs that cleans up after their objects, and then everything else. Upstream deletes webhook
//! configurations last; ours before their pods, because an API server that asks nobody refuses every write.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ocm_reconcile::{Plan, Site, Target};

use super::{
    install::{self, CRDS_FAILED, CRDS_THAT_GO_FIRST, HUB_FAILED, HubSources},
    wanted::HubObjects,
};
use crate::{
    OCM_VERSION, crds,
    objects::{self, Current, target},
};

/// A hub on another cluster that does not answer for so long is left as it is.
pub const GIVE_UP: SignedDuration = SignedDuration::from_mins(5);

/// What goes, in this order; the rest of the kinds goes with the namespace, which is last.
const ORDER: [&str; 9] = [
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
    "Deployment",
    "Service",
    "Endpoints",
    "ClusterRoleBinding",
    "ClusterRole",
    "ServiceAccount",
    "Namespace",
];

/// What has to be seen.
pub fn targets(hub: &HubObjects<'_>) -> Vec<Target> {
    let mut targets = install::targets(hub, &HubSources::default(), false);
    targets.extend(install::crd_targets());
    targets
}

/// What is left of a hub that goes.
pub struct Left {
    /// The CRDs that are still there and have to go first.
    pub crds: Vec<String>,
}

/// Takes a hub away, as far as it may go now; `since` is when that was asked for. `is_reached` says whether the hub,
/// where it is on another cluster, answers.
pub fn plan(plan: &mut Plan, hub: &HubObjects<'_>, current: &Current, is_reached: bool, since: SignedDuration) -> Left {
    let mut left = Left { crds: Vec::new() };
    if is_reached {
        let all = install::crd_targets();
        if hub.options.skip_remove_crds {
            crds::release(plan, CRDS_FAILED, &all, current, OCM_VERSION);
        } else {
            let first: Vec<Target> = CRDS_THAT_GO_FIRST
                .iter()
                .map(|it| crds::target(Site::Hub, it))
                .collect();
            left.crds = crds::clean(plan, CRDS_FAILED, &first, &all, current);
        }
        if !left.crds.is_empty() {
            plan.look_again(pause(since));
            return left;
        }
    }
    let mut gone: Vec<Target> = targets(hub);
    gone.retain(|it| is_reached || it.site == Site::Management);
    for kind in ORDER {
        plan.stage();
        for target in gone.iter().filter(|it| it.api_resource.kind == kind) {
            objects::remove(plan, HUB_FAILED, target, current);
        }
    }
    // What has no namespace of its own to go with.
    plan.stage();
    for name in [&hub.options.image_pull_secret_name, super::wanted::WORK_DRIVER_CONFIG] {
        let copy = target(Site::Management, "Secret", Some(&hub.namespace), name);
        objects::remove(plan, HUB_FAILED, &copy, current);
    }
    left
}

/// CRDs say nothing when they are gone, to who may not watch them all: they are looked for, often at first.
fn pause(since: SignedDuration) -> Duration {
    match since {
        it if it < SignedDuration::from_secs(10) => Duration::from_millis(200),
        it if it < SignedDuration::from_mins(2) => Duration::from_secs(1),
        _ => Duration::from_secs(5),
    }
}

/// How long ago the deletion was asked for.
pub fn since(deletion: Option<Timestamp>, now: Timestamp) -> SignedDuration {
    deletion.map_or(SignedDuration::ZERO, |it| now.duration_since(it))
}
