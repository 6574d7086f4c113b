//! A profile as its cluster has it be: its labels, and what it says.

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::{
    cluster::ManagedCluster,
    condition::{self, ConditionUpdate},
    conditions::{cluster_profile, managed_cluster},
    labels,
    multicluster::{
        ClusterManagerReference, ClusterProfile, ClusterProfileSpec, ClusterProfileStatus, ClusterVersion, Property,
    },
    namespaces,
};
use ocm_reconcile::{Plan, Site};

use super::Seen;

/// One write at a time: the next is made when this one has come back.
pub fn show(plan: &mut Plan, seen: &Seen, cluster: &ManagedCluster) {
    let name = cluster.name_any();
    let own = [
        (labels::CLUSTER_MANAGER, namespaces::CLUSTER_PROFILE_MANAGER.to_owned()),
        (labels::CLUSTER_NAME, name.clone()),
        (
            labels::PROFILE_CLUSTER_SET,
            cluster.labels().get(labels::CLUSTER_SET).cloned().unwrap_or_default(),
        ),
    ]
    .map(|(key, value)| (key.to_owned(), value));
    let Some(profile) = seen.profile.as_deref() else {
        if !seen.open {
            plan.wait(format!("namespace {} takes no new objects", seen.namespace));
            return;
        }
        let spec = ClusterProfileSpec {
            display_name: name.clone(),
            cluster_manager: ClusterManagerReference {
                name: namespaces::CLUSTER_PROFILE_MANAGER.to_owned(),
            },
        };
        let mut profile = ClusterProfile::new(&name, spec);
        profile.metadata.namespace = Some(seen.namespace.clone());
        profile.labels_mut().extend(own);
        plan.create(Site::Hub, &profile);
        return;
    };
    let mut labelled = profile.clone();
    labelled.labels_mut().extend(own);
    if plan.change(Site::Hub, profile, &labelled).is_some() {
        return;
    }
    let mut told = profile.clone();
    tell(told.status.get_or_insert_default(), cluster, seen.now);
    plan.status(Site::Hub, profile, &told);
}

fn tell(status: &mut ClusterProfileStatus, cluster: &ManagedCluster, now: Timestamp) {
    let of_cluster = cluster.status.clone().unwrap_or_default();
    status.version = ClusterVersion {
        kubernetes: of_cluster.version.kubernetes,
    };
    // What the profile's schema refuses would keep everything else from being told.
    let fits = |text: &str, most: usize| (1..=most).contains(&text.chars().count());
    let claims = of_cluster.cluster_claims.into_iter();
    let claims = claims.filter(|it| fits(&it.name, 253) && fits(&it.value, 1024));
    status.properties = claims
        .map(|it| Property {
            name: it.name,
            value: it.value,
            last_observed_time: None,
        })
        .collect();
    for (from, to) in [
        (managed_cluster::AVAILABLE, cluster_profile::CONTROL_PLANE_HEALTHY),
        (managed_cluster::JOINED, cluster_profile::JOINED),
    ] {
        let Some(found) = condition::find(&of_cluster.conditions, from) else {
            continue;
        };
        let status_of = condition::status(&of_cluster.conditions, from).unwrap_or(condition::Status::Unknown);
        let wanted = ConditionUpdate {
            r#type: to.to_owned(),
            status: status_of,
            reason: found.reason.clone(),
            message: found.message.clone(),
            observed_generation: None,
        };
        condition::set(&mut status.conditions, wanted, now);
    }
}

/// Only what carries our label: others may have made a profile in our name for a cluster that is none of ours.
pub fn remove(plan: &mut Plan, seen: &Seen) {
    let label = |it: &ClusterProfile| it.labels().get(labels::CLUSTER_MANAGER).cloned();
    let ours = |it: &&ClusterProfile| label(it).is_some_and(|it| it == namespaces::CLUSTER_PROFILE_MANAGER);
    if let Some(profile) = seen.profile.as_deref().filter(ours) {
        plan.delete(Site::Hub, profile);
    }
}
