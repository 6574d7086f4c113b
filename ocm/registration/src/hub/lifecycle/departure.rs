//! What becomes of a cluster that is deleted: its rights go at once, and it goes when its works have gone. Where nobody
//! else deletes works, the finalizers of those that somebody has deleted go, too:
//! the agent that would remove them has no right any more.

use std::time::Duration;

use kube::api::ApiResource;
use ocm_api::{finalizers, work::ManifestWork};
use ocm_reconcile::{Plan, Site};

use super::{Seen, grants::unbind};
use crate::hub::leftovers;

/// How long to wait before looking whether a cluster's works are gone. Upstream waits 5 s.
const WORKS_AGAIN: Duration = Duration::from_secs(1);

/// Lets it go.
pub fn leave(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    if let Some(role) = seen.objects.cluster_role.as_deref() {
        plan.delete(Site::Hub, role);
    }
    if let Some(binding) = seen.objects.cluster_role_binding.as_deref() {
        plan.delete(Site::Hub, binding);
    }
    unbind(seen, &mut plan);
    if seen.works.is_empty() {
        if let Some(cluster) = seen.cluster.as_deref() {
            plan.stage();
            plan.remove_finalizer(Site::Hub, cluster, finalizers::CLUSTER_API_RESOURCE_CLEANUP);
        }
        return plan;
    }
    if !leftovers::are_works_collected(&seen.options) {
        let going = seen.works.iter().filter(|it| it.metadata.deletion_timestamp.is_some());
        plan.stage();
        let kind = ApiResource::erase::<ManifestWork>(&());
        leftovers::release(&mut plan, &seen.name, &kind, going.map(|it| &it.metadata), seen.now);
    }
    // No watch tells when the last work is gone.
    if seen.cluster.is_some() {
        let count = seen.works.len();
        plan.wait(format!("{count} manifestworks are left in its namespace"))
            .look_again(WORKS_AGAIN);
    }
    plan
}
