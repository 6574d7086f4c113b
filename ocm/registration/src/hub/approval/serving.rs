//! Which agent serves a cluster. It is written on the cluster, so that a second one does not take over while it is
//! alive.

use kube::ResourceExt;
use ocm_api::{annotations, cluster::ManagedCluster, condition, conditions::managed_cluster};
use ocm_reconcile::{Note, Plan, Site};

use super::{Seen, request::AgentIdentity};
use crate::status;

/// Whether the cluster's agent is heard of.
pub fn is_alive(cluster: &ManagedCluster) -> bool {
    condition::is_true(status::conditions(cluster), managed_cluster::AVAILABLE)
}

/// Why the hub does not approve a request of this agent by itself, if it does not.
pub fn objection(seen: &Seen, user: &str, agent: &AgentIdentity) -> Option<Note> {
    if user == agent.user() {
        return (!seen.may_renew).then(|| Note::Refuse(format!("{user} may not renew its certificate")));
    }
    if !seen.auto_approved_users.iter().any(|it| it == user) {
        return Some(Note::Wait(format!(
            "an administrator must approve the request of {user}"
        )));
    }
    if seen.cluster.is_none() {
        // Whose agent would come next and be approved as well, as nobody would know of this one.
        return Some(Note::Wait(format!("there is no ManagedCluster {} yet", agent.cluster)));
    }
    let other = living_other(seen.cluster.as_deref(), agent)?;
    Some(Note::Wait(format!(
        "agent {other} of {} is alive: an administrator must approve agent {} if it is to take over",
        agent.cluster, agent.id
    )))
}

// The agent that serves the cluster and is alive, if it is another than the one that asks.
fn living_other<'a>(cluster: Option<&'a ManagedCluster>, agent: &AgentIdentity) -> Option<&'a str> {
    let cluster = cluster.filter(|it| is_alive(it))?;
    cluster
        .annotations()
        .get(annotations::SERVED_BY)
        .filter(|it| **it != agent.id)
        .map(String::as_str)
}

/// Writes down that this one serves the cluster.
pub fn record(cluster: Option<&ManagedCluster>, agent: &AgentIdentity) -> Plan {
    let mut plan = Plan::new();
    if let Some(cluster) = cluster {
        let mut served = cluster.clone();
        served
            .annotations_mut()
            .insert(annotations::SERVED_BY.to_owned(), agent.id.clone());
        plan.change(Site::Hub, cluster, &served);
    }
    plan
}
