//! Whether the agent of an add-on is to come with a token, and which changes can make that another answer.

use ocm_api::{
    addon::{KubeClientDriver, v1alpha1::ManagedClusterAddOn},
    cluster::ManagedCluster,
    condition,
    conditions::managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY,
    identity,
};

use super::Seen;
use crate::hub::facts;

/// Whether a cluster is accepted, and stays.
pub fn is_let_in(cluster: Option<&ManagedCluster>) -> bool {
    cluster.is_some_and(|it| it.spec.hub_accepts_client && it.metadata.deletion_timestamp.is_none())
}

/// Whether its agent is to come with a token.
fn wants_token(addon: &ManagedClusterAddOn) -> bool {
    addon.status.as_ref().is_some_and(|it| {
        it.kube_client_driver == Some(KubeClientDriver::Token)
            && it
                .registrations
                .iter()
                .any(|it| it.signer_name == identity::CLIENT_SIGNER)
    })
}

/// The add-on, if its agent is to come with a token.
pub fn addon_with_token(seen: &Seen) -> Option<&ManagedClusterAddOn> {
    seen.addon.as_deref().filter(|it| wants_token(it) && seen.is_let_in)
}

/// Whether there may be a token of its agent: that has said how it proves who it is.
pub fn may_have_token(addon: &ManagedClusterAddOn) -> bool {
    addon.status.as_ref().is_some_and(|it| it.kube_client_driver.is_some())
}

/// Whether anything is to be done or undone for the add-on after a change of it.
/// Most add-ons have nothing to do with tokens.
pub fn is_concerned(old: Option<&ManagedClusterAddOn>, new: Option<&ManagedClusterAddOn>) -> bool {
    let concerns = |it: &ManagedClusterAddOn| {
        let ready = condition::find(facts::conditions(it), TOKEN_INFRASTRUCTURE_READY);
        (it.metadata.uid.clone(), wants_token(it), ready.cloned())
    };
    let (old, new) = (old.map(concerns), new.map(concerns));
    let mut either = [&old, &new].into_iter().flatten();
    old != new && either.any(|(_, wants_token, ready)| *wants_token || ready.is_some())
}
