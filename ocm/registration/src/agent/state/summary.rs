//! What the status of our ManagedCluster says.

use std::collections::BTreeMap;

use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterVersion},
    condition::{self, wanted},
    conditions::{
        managed_cluster::{self, reason},
        managed_namespace,
    },
};
use ocm_reconcile::{Outcome, Plan, Site, StatusField, execute::sentence};

use super::{Seen, announcement::announce};
use crate::{
    agent::{
        availability::{self, ApiServerHealth},
        capacity, claims,
        own_cluster::is_accepted,
    },
    status,
};

/// What the reporter writes of it.
pub(super) const STATUS: &[StatusField] = &[
    StatusField::condition(ManagedCluster::KIND, managed_cluster::JOINED),
    StatusField::condition(ManagedCluster::KIND, managed_cluster::CERTIFICATE_ROTATED),
    StatusField::condition(ManagedCluster::KIND, managed_cluster::AVAILABLE)
        .shared("the hub says Unknown when heartbeats stop; the agent says everything else"),
    StatusField::new(ManagedCluster::KIND, "version"),
    StatusField::new(ManagedCluster::KIND, "capacity"),
    StatusField::new(ManagedCluster::KIND, "allocatable"),
    StatusField::new(ManagedCluster::KIND, "clusterClaims"),
    StatusField::new(ManagedCluster::KIND, "managedNamespaces")
        .shared("the hub says which they are; the agent says how they are"),
];

/// Tells the hub, unless it does not listen.
pub(super) fn tell(seen: &Seen, outcome: &Outcome) -> Plan {
    let mut plan = Plan::new();
    let Some(cluster) = seen.cluster.as_deref().filter(|it| is_accepted(it)) else {
        return plan;
    };
    plan.look_again(seen.period);
    if condition::is_false(status::conditions(cluster), managed_cluster::CLOCK_SYNCED) {
        plan.refuse("the hub says that this cluster's clock is off: set it");
        return plan;
    }
    let new = told(seen, cluster, outcome);
    if is_unsettled(seen) {
        plan.look_again(availability::AGAIN);
    }
    plan.status(Site::Hub, cluster, &new);
    announce(cluster, &new, seen.now, &mut plan);
    plan
}

/// The cluster with everything that there is to say.
fn told(seen: &Seen, cluster: &ManagedCluster, outcome: &Outcome) -> ManagedCluster {
    let joined = wanted(managed_cluster::JOINED, true, reason::JOINED, "Managed cluster joined");
    let available = availability::condition_of(&seen.health, seen.failing_since, seen.now);
    let updates = [Some(joined), seen.rotation.clone(), available];
    let mut new = cluster.clone();
    for update in updates.into_iter().flatten() {
        new = status::saying(&new, update, seen.now);
    }
    if seen.health == ApiServerHealth::Ok {
        fill(seen, outcome, &mut new);
    }
    new
}

/// Whether there may soon be something else to say: a failure is too young to count, or something could not be read.
fn is_unsettled(seen: &Seen) -> bool {
    availability::condition_of(&seen.health, seen.failing_since, seen.now).is_none()
        || !seen.namespaces.unread.is_empty()
}

// What is said beside conditions.
pub(super) fn fill(seen: &Seen, outcome: &Outcome, cluster: &mut ManagedCluster) {
    let status = cluster.status.get_or_insert_default();
    if let Some(version) = &seen.version {
        status.version = ManagedClusterVersion {
            kubernetes: version.clone(),
        };
    }
    if let Some(nodes) = &seen.nodes {
        status.capacity = capacity::keeping_others(capacity::capacity(nodes), &status.capacity);
        status.allocatable = capacity::allocatable(nodes);
    }
    if let Some(all) = &seen.claims {
        status.cluster_claims = claims::told(all, &seen.claim_limits);
    }
    let failures = failures(seen, outcome);
    for namespace in &mut status.managed_namespaces {
        let update = match failures.get(&namespace.name) {
            None => wanted(
                managed_namespace::AVAILABLE,
                true,
                managed_namespace::reason::APPLIED,
                "Namespace successfully applied and managed",
            ),
            Some(failure) => wanted(
                managed_namespace::AVAILABLE,
                false,
                managed_namespace::reason::APPLY_FAILED,
                format!("Failed to apply namespace: {failure}"),
            ),
        };
        condition::set(&mut namespace.conditions, update, seen.now);
    }
}

// Why a namespace is not as it should be, by its name: one that fails says nothing about the others.
fn failures(seen: &Seen, outcome: &Outcome) -> BTreeMap<String, String> {
    let written = outcome.results().filter_map(|(step, result)| {
        let error = result.as_ref().err()?;
        Some((step.target()?.name.clone(), sentence(error)))
    });
    seen.namespaces.unread.clone().into_iter().chain(written).collect()
}
