//! What the cluster's agent says about an add-on: the conditions of its health and of its credentials, how its agent
//! proves who it is, and as whom.

use std::time::Duration;

use ocm_api::{
    addon::{
        KubeClientDriver,
        v1alpha1::{ManagedClusterAddOn, ManagedClusterAddOnStatus},
    },
    condition::{self, ConditionUpdate, Status},
    conditions::managed_cluster_add_on as types,
    identity,
};
use ocm_reconcile::{Done, Outcome, StatusField, execute::sentence};

use super::{
    credential_action::{CredentialAction, not_rotated},
    health,
    location::location,
    lookup::SeenLease,
    reconcile::Seen,
    registration,
};

/// All that it writes of the status of a ManagedClusterAddOn.
pub(super) const FIELDS: &[StatusField] = &[
    StatusField::condition(KIND, types::AVAILABLE)
        .shared("of health mode Lease; the add-on's manager says it otherwise, and the hub while it does not hear of the cluster"),
    StatusField::condition(KIND, types::CERTIFICATE_ROTATED),
    StatusField::condition(KIND, types::TOKEN_REFRESHED),
    StatusField::new(KIND, "kubeClientDriver"),
    StatusField::new(KIND, "registrations")
        .shared("the add-on's manager says who the agent is, and the cluster's agent which ServiceAccount where it has a token"),
];

const KIND: &str = ManagedClusterAddOn::KIND;

/// The add-on with everything said about it, and when to look again though nothing has happened.
pub(super) fn saying(
    seen: &Seen,
    addon: &ManagedClusterAddOn,
    actions: &[CredentialAction],
    outcome: &Outcome,
) -> (ManagedClusterAddOn, Option<Duration>) {
    let mut new = addon.clone();
    let status = new.status.get_or_insert_default();
    let (available, again) = available(seen, addon);
    for said in available.into_iter().chain(of_credentials(seen, actions, outcome)) {
        condition::set(&mut status.conditions, said, seen.now);
    }
    if !seen.is_leaving() {
        say_driver(seen, addon, status, actions);
    }
    (new, again)
}

/// The condition of its health and when to look again, as far as its lease says anything.
fn available(seen: &Seen, addon: &ManagedClusterAddOn) -> (Option<ConditionUpdate>, Option<Duration>) {
    let lease = match &seen.lease {
        SeenLease::Unread => return (None, None),
        SeenLease::Missing if health::is_new(addon, seen.now) => return (None, Some(health::NEW)),
        SeenLease::Missing => None,
        SeenLease::Found(lease) => Some(&**lease),
    };
    let (said, again) = health::available(&seen.name, &location(addon), lease, seen.lease_grace, seen.now);
    (Some(said), again)
}

/// What to say about the credentials: of each condition one word, and of several the first that tells of a failure.
fn of_credentials(seen: &Seen, actions: &[CredentialAction], outcome: &Outcome) -> Vec<ConditionUpdate> {
    let mut all: Vec<ConditionUpdate> = Vec::new();
    for (credential, action) in seen.credentials.iter().zip(actions) {
        let result = outcome.named(&credential.registration.secret);
        let said = match (action, result) {
            (CredentialAction::Keep { said, .. } | CredentialAction::Fail { said, .. }, _)
            | (CredentialAction::Save { said, .. }, Some(Ok(Done::Object(_)))) => said.clone(),
            (CredentialAction::Ask { .. }, Some(Err(error))) => {
                not_rotated(format!("Failed to create CSR {}", sentence(error)))
            }
            _ => continue,
        };
        match all.iter_mut().find(|it| it.r#type == said.r#type) {
            Some(before) if before.status == Status::True && said.status != Status::True => *before = said,
            Some(_) => {}
            None => all.push(said),
        }
    }
    all
}

/// Says how the agent proves who it is, and as whom.
fn say_driver(
    seen: &Seen,
    addon: &ManagedClusterAddOn,
    status: &mut ManagedClusterAddOnStatus,
    actions: &[CredentialAction],
) {
    let is_alone = addon
        .status
        .as_ref()
        .is_none_or(|it| it.conditions == status.conditions);
    let mut registrations = status.registrations.iter_mut();
    let Some(registration) = registrations.find(|it| it.signer_name == identity::CLIENT_SIGNER) else {
        return;
    };
    // The hub acts on a token and on a change. That it is certificates from the start, as it took for granted, can
    // go with the next word; but an add-on's manager that has not said who the agent is may wait to hear it.
    let subject = &registration.subject;
    let can_wait = seen.driver != Some(KubeClientDriver::Token)
        && status.kube_client_driver.is_none()
        && !(subject.user.is_empty() && subject.groups.is_empty());
    let is_near = actions.iter().any(|it| !matches!(it, CredentialAction::Keep { .. }));
    if !(can_wait && is_alone && is_near) {
        status.kube_client_driver = seen.driver;
    }
    if seen.driver == Some(KubeClientDriver::Token) {
        registration.subject.user = registration::token_user(&seen.cluster, &seen.name);
        registration.subject.groups.clear();
    }
}
