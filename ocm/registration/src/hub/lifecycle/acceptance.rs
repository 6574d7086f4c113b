//! Whether a cluster is accepted, and what is said of that. Once it is not, all its rights end. Upstream: ocm
//! `pkg/registration/hub/managedcluster/controller.go`, which leaves a cluster that is denied or deleted the right to
//! its works until it has cleaned up after the last.

use kube::ResourceExt;
use ocm_api::{
    annotations,
    cluster::ManagedCluster,
    condition::{self, ConditionUpdate, wanted},
    conditions::managed_cluster::{self, reason},
};
use ocm_reconcile::{Outcome, StatusField};

use crate::status;

/// Where it is said.
pub const STATUS: &[StatusField] = &[StatusField::condition(
    ManagedCluster::KIND,
    managed_cluster::HUB_ACCEPTED,
)];

/// Whether a cluster is accepted.
#[derive(Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The object is gone, or on its way out.
    Leaving,
    /// Nobody has decided yet, and nobody has to.
    ToAutoAccept,
    /// Not accepted, and never was.
    Waiting,
    /// Was accepted and is no longer.
    Denied,
    /// Accepted.
    Accepted,
}

/// Whether a cluster is accepted.
pub fn acceptance(cluster: Option<&ManagedCluster>, auto_accept: bool) -> Acceptance {
    let Some(cluster) = cluster.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        return Acceptance::Leaving;
    };
    // The annotation stays when an administrator denies the cluster later, so that it is not accepted once more.
    if auto_accept
        && !cluster
            .annotations()
            .contains_key(annotations::AUTOMATICALLY_ACCEPTED_ON)
    {
        return Acceptance::ToAutoAccept;
    }
    match (
        cluster.spec.hub_accepts_client,
        condition::is_true(status::conditions(cluster), managed_cluster::HUB_ACCEPTED),
    ) {
        (true, _) => Acceptance::Accepted,
        (false, true) => Acceptance::Denied,
        (false, false) => Acceptance::Waiting,
    }
}

/// What is said of it when its plan was carried out.
pub fn condition_of(acceptance: &Acceptance, outcome: &Outcome) -> Option<ConditionUpdate> {
    let (is_accepted, reason, message) = match acceptance {
        Acceptance::Accepted if outcome.succeeded() => {
            let message = "Accepted by hub cluster admin".to_owned();
            (true, reason::HUB_CLUSTER_ADMIN_ACCEPTED, message)
        }
        Acceptance::Accepted => (false, reason::ERROR, outcome.error_text()),
        Acceptance::Denied if outcome.succeeded() => {
            let message = "Denied by hub cluster admin".to_owned();
            (false, reason::HUB_CLUSTER_ADMIN_DENIED, message)
        }
        _ => return None,
    };
    Some(wanted(managed_cluster::HUB_ACCEPTED, is_accepted, reason, message))
}
