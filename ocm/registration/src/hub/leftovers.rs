//! What a cluster that is gone has left behind in its namespace, and would hold by finalizers that nobody removes any
//! more: its agents have no rights from the moment in which it is deleted.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ApiResource;
use ocm_api::{addon, cluster::ManagedCluster, finalizers, work};
use ocm_reconcile::{EventKind, EventStep, Plan, Site, Step, Target};
use serde_json::json;

use super::HubOptions;

/// How many names an event tells.
const NAMED_MAX: usize = 5;

/// Whether the works of a cluster that goes are deleted with it, by the one that also lets go of them.
pub fn are_works_collected(options: &HubOptions) -> bool {
    let kinds = options.garbage.iter().flatten();
    kinds
        .into_iter()
        .any(|it| it.resource == "manifestworks" && it.api_version.starts_with(work::GROUP))
}

/// The finalizers that stay on an object of this kind when its cluster is gone: an add-on's on another cluster, whose
/// agent is there, and those of strangers. Nothing holds a work any more, whoever has put a finalizer there:
/// agents may once have.
fn staying(kind: &ApiResource, object: &ObjectMeta) -> Vec<String> {
    let goes = |it: &String| match (kind.group.as_str(), kind.plural.as_str()) {
        (work::GROUP, "manifestworks") => true,
        (addon::GROUP, "managedclusteraddons") => {
            it == finalizers::ADDON_PRE_DELETE || finalizers::ADDON_DEPRECATED.contains(&it.as_str())
        }
        _ => false,
    };
    let held = object.finalizers.iter().flatten();
    held.filter(|it| !goes(it)).cloned().collect()
}

/// Lets go of these objects of a cluster that is gone, and says so. They are being deleted already.
pub fn release<'a>(
    plan: &mut Plan,
    cluster: &str,
    kind: &ApiResource,
    objects: impl Iterator<Item = &'a ObjectMeta>,
    now: Timestamp,
) {
    let mut names = Vec::new();
    for object in objects {
        let staying = staying(kind, object);
        let held = object.finalizers.as_ref().map_or(0, Vec::len);
        if staying.len() == held {
            continue;
        }
        let name = object.name.clone().unwrap_or_default();
        let target = Target {
            site: Site::Hub,
            api_resource: kind.clone(),
            namespace: Some(cluster.to_owned()),
            name: name.clone(),
        };
        // Without its version, which its deletion has moved on; to what is being deleted nobody can add a finalizer
        // that this would take away.
        plan.push(Step::MergePatch {
            target,
            subresource: None,
            patch: json!({"metadata": {"uid": object.uid, "finalizers": staying}}),
        });
        names.push(name);
    }
    if names.is_empty() {
        return;
    }
    let count = names.len();
    let more = count.saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    plan.stage();
    plan.push(Step::Event(EventStep {
        site: Site::Hub,
        namespace: cluster.to_owned(),
        regarding: json!({
            "apiVersion": ManagedCluster::API_VERSION, "kind": ManagedCluster::KIND, "namespace": cluster, "name": cluster,
        }),
        related: None,
        kind: EventKind::Normal,
        reason: "FinalizersRemoved".to_owned(),
        action: "CleanUp".to_owned(),
        note: format!(
            "The finalizers of {count} {} of cluster {cluster}, which is deleted, are removed by the hub: {}{more}. Its agent has \
             no rights on the hub any more.",
            kind.plural,
            names.join(", ")
        ),
        reporting_controller: "registration-controller".to_owned(),
        at: now,
    }));
}
