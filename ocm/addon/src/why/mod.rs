//! Why an add-on on a cluster is as it is: one sentence for each thing it waits for or is refused, from what the hub
//! knows. Nothing to say means that it is there, has its configuration, and is well.

mod delivery;
mod enrolment;
mod offer;

use jiff::Timestamp;
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, events::v1::Event};
use ocm_api::{
    Condition, Status,
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::{ManagedCluster, Placement, PlacementDecision},
    condition,
    conditions::{
        managed_cluster,
        managed_cluster_add_on::{self as types, agent_reason},
    },
    finalizers, namespaces,
    work::ManifestWork,
};

use crate::hub::facts;

/// What was seen on the hub. What belongs to others may be in the lists and is passed over.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster's name.
    pub cluster_name: String,
    /// The add-on's name.
    pub name: String,
    /// The ManagedCluster; `None` when there is none.
    pub cluster: Option<ManagedCluster>,
    /// The ManagedClusterAddOn; `None` when there is none.
    pub addon: Option<ManagedClusterAddOn>,
    /// The ClusterManagementAddOn; `None` when there is none.
    pub cluster_management_addon: Option<ClusterManagementAddOn>,
    /// The works labelled with the add-on, hosted ones included.
    pub works: Vec<ManifestWork>,
    /// The certificate requests labelled with the add-on.
    pub requests: Vec<CertificateSigningRequest>,
    /// The events at the add-on.
    pub events: Vec<Event>,
    /// The placements, those that the ClusterManagementAddOn names at least.
    pub placements: Vec<Placement>,
    /// Their decisions.
    pub decisions: Vec<PlacementDecision>,
    /// The add-on on all clusters, to tell its turn in a rollout.
    pub everywhere: Vec<ManagedClusterAddOn>,
}

/// The sentences for `drover why managedclusteraddon CLUSTER/NAME`.
pub fn explain(seen: &Seen) -> Vec<String> {
    let mut said = Vec::new();
    let Some(addon) = &seen.addon else {
        cluster(seen, &mut said);
        said.push(offer::not_installed(seen));
        return said;
    };
    if facts::is_leaving(addon) {
        cluster(seen, &mut said);
        said.extend(leaving(seen, addon));
        return said;
    }
    cluster(seen, &mut said);
    let Some(offer) = &seen.cluster_management_addon else {
        said.push(format!(
            "There is no ClusterManagementAddOn {name}: the hub does not offer this add-on, so nobody looks after it.",
            name = seen.name
        ));
        return said;
    };
    if let Some(sentence) = offer::not_taken_up(seen, addon, offer) {
        said.push(sentence);
        said.extend(delivery::configuration(seen, addon, offer));
        return said;
    }
    said.extend(enrolment::sentences(seen, addon));
    said.extend(delivery::configuration(seen, addon, offer));
    said.extend(delivery::manifests(seen, addon));
    said.extend(health(seen, addon));
    said
}

/// What a condition says, without its full stop.
fn says(condition: &Condition) -> &str {
    let text = if condition.message.is_empty() {
        &condition.reason
    } else {
        &condition.message
    };
    text.trim_end_matches('.')
}

fn find<'a>(addon: &'a ManagedClusterAddOn, r#type: &str) -> Option<&'a Condition> {
    condition::find(facts::conditions(addon), r#type)
}

fn available(cluster: &ManagedCluster) -> Option<Status> {
    let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::status(conditions, managed_cluster::AVAILABLE)
}

fn cluster(seen: &Seen, said: &mut Vec<String>) {
    let name = &seen.cluster_name;
    let Some(cluster) = &seen.cluster else {
        said.push(format!(
            "There is no managed cluster {name}, so no agent runs the add-on there."
        ));
        return;
    };
    if cluster.metadata.deletion_timestamp.is_some() {
        said.push(format!("Cluster {name} is being deleted, and its add-ons with it."));
    } else if !cluster.spec.hub_accepts_client {
        said.push(format!(
            "Cluster {name} is not accepted yet: `drover why managedcluster/{name}` says more."
        ));
    } else if available(cluster) != Some(Status::True) {
        said.push(format!(
            "Cluster {name} is not available, so that its agent does nothing at present: `drover why managedcluster/{name}` says \
             more."
        ));
    }
}

fn leaving(seen: &Seen, addon: &ManagedClusterAddOn) -> Vec<String> {
    let since = addon.metadata.deletion_timestamp.as_ref();
    let seconds = since.map_or(0, |it| seen.now.duration_since(it.0).as_secs());
    let begins = format!("It is being deleted for {seconds}s and waits");
    let held = addon.metadata.finalizers.as_deref().unwrap_or_default();
    if held.is_empty() {
        return vec![format!("{begins} for the hub's garbage collection.")];
    }
    let hook = find(addon, types::HOOK_MANIFEST_COMPLETED).map(says);
    let one = |finalizer: &String| match finalizer.as_str() {
        finalizers::ADDON_PRE_DELETE | finalizers::ADDON_HOSTING_PRE_DELETE => {
            let told = hook.map(|it| format!(": {it}")).unwrap_or_default();
            let mut sentence = format!("{begins} until its hook has run{told}.");
            for it in delivery::of_hooks(seen, addon) {
                sentence = format!("{sentence} {it}");
            }
            sentence
        }
        finalizers::ADDON_HOSTING_MANIFESTS => {
            let host = facts::hosting_cluster(addon).unwrap_or("its host");
            format!("{begins} until its objects on {host} are removed.")
        }
        other => format!("{begins} for the finalizer {other}, which somebody else has to remove."),
    };
    held.iter().map(one).collect()
}

fn health(seen: &Seen, addon: &ManagedClusterAddOn) -> Option<String> {
    let found = find(addon, types::AVAILABLE);
    if found.is_some_and(|it| it.status == Status::True.as_str()) {
        return None;
    }
    // The cluster's own silence was told already.
    if seen
        .cluster
        .as_ref()
        .is_none_or(|it| available(it) != Some(Status::True))
    {
        return None;
    }
    let (cluster, name) = (&seen.cluster_name, &seen.name);
    let namespace = addon
        .status
        .as_ref()
        .map(|it| it.namespace.as_str())
        .filter(|it| !it.is_empty());
    let namespace = namespace.unwrap_or(namespaces::AGENT_ADDON);
    let place = facts::hosting_cluster(addon)
        .filter(|it| !it.is_empty())
        .unwrap_or(cluster);
    Some(match found {
        None => format!("Nobody has said yet how the add-on is on {cluster}."),
        Some(it) if it.reason == agent_reason::LEASE_NOT_FOUND => format!(
            "The add-on's agent has not written its lease {namespace}/{name} on {place}: see whether its pod runs there."
        ),
        Some(it) if it.reason == agent_reason::LEASE_UPDATE_STOPPED => format!(
            "The add-on's agent has stopped renewing its lease {namespace}/{name} on {place}: see whether its pod runs there."
        ),
        Some(it) => format!("The add-on is not available: {}.", says(it)),
    })
}

#[cfg(test)]
mod tests;
