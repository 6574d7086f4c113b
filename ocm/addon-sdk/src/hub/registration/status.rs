//! What is said on a ManagedClusterAddOn about its registration: its status, and the annotations
//! with its author's choice of proof.

use ocm_api::{
    addon::{ConfigGroupResource, v1alpha1::ManagedClusterAddOn},
    annotations,
    condition::{self, wanted},
    conditions::managed_cluster_add_on::{self, registration_reason as reason},
};
use ocm_reconcile::{Outcome, Plan, Site};

use super::{
    decision::Permissions,
    plan::{PENDING, Seen},
};
use crate::{
    Proof,
    hub::{InstalledAddOn, Look},
};

const CONFIGURED: &str = "Registration of the addon agent is configured";

/// One patch of the status.
pub(super) fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
    let mut plan = Plan::new();
    let Look::Here(InstalledAddOn { add_on, place }) = &seen.look else {
        return plan;
    };
    let decision = seen.decision();
    if decision.is_some_and(|it| matches!(it.permissions, Permissions::Held(_))) {
        return plan;
    }
    let latest = outcome.latest::<ManagedClusterAddOn>(Site::Hub, Some(place.cluster_name()), place.addon_name());
    let before = latest.as_ref().unwrap_or(&place.addon);
    let mut addon = before.clone();
    let status = addon.status.get_or_insert_default();
    // With the rest, and before anything is deployed: otherwise the cluster's agent would look for a lease at first.
    status.health_check.mode = add_on.health(place).mode();
    let Some(decision) = decision else {
        plan.status(Site::Hub, before, &addon);
        return plan;
    };
    let supported = add_on.supported_configs().into_iter().map(|it| ConfigGroupResource {
        group: it.group,
        resource: it.resource,
    });
    status.supported_configs = supported.collect();
    if let Some(registrations) = &decision.registrations {
        status.registrations = registrations.clone();
    }
    status.namespace = place.install_namespace.clone();
    // What is said of its rights stays as it was said last, and is said anew when there are some.
    if seen.revoked().is_some() {
        plan.status(Site::Hub, before, &addon);
        return plan;
    }
    let failed = |why: &str| {
        let message = format!("Failed to set permission for hub agent: {why}");
        (false, reason::SET_PERMISSION_FAILED, message)
    };
    let (done, reason, message) = match &decision.permissions {
        Permissions::Refused(why) => failed(why),
        _ if !outcome.succeeded() => failed(&outcome.error_text()),
        Permissions::None => (true, reason::NIL_REGISTRATION, CONFIGURED.to_owned()),
        Permissions::Granted(_) => (true, reason::SET_PERMISSION_APPLIED, CONFIGURED.to_owned()),
        Permissions::Pending(_) | Permissions::Held(_) => {
            (false, reason::PERMISSION_CONFIG_PENDING, PENDING.to_owned())
        }
    };
    condition::set(
        &mut status.conditions,
        wanted(managed_cluster_add_on::REGISTRATION_APPLIED, done, reason, message),
        seen.now,
    );
    plan.status(Site::Hub, before, &addon);
    plan
}

/// The add-on with its author's choice for the cluster's agent to read. An author who has no opinion leaves it to
/// whoever annotates the add-on; and what a cluster has all its add-ons annotated
/// with goes before what an author prefers.
pub(super) fn annotated(addon: &ManagedClusterAddOn, proof: Proof) -> ManagedClusterAddOn {
    let (driver, seconds) = match proof {
        Proof::Certificate => ("csr", None),
        Proof::Token { lifetime } => ("token", lifetime.map(|it| it.as_secs().to_string())),
    };
    let mut new = addon.clone();
    let all = new.metadata.annotations.get_or_insert_default();
    let of_cluster = all.get(annotations::ADDON_FROM_CLUSTER).cloned().unwrap_or_default();
    for (key, value) in [
        (annotations::ADDON_KUBE_CLIENT_DRIVER, Some(driver.to_owned())),
        (annotations::ADDON_TOKEN_SECONDS, seconds),
    ] {
        match value {
            _ if of_cluster.split(',').any(|it| it == key) => None,
            Some(value) => all.insert(key.to_owned(), value),
            None => all.remove(key),
        };
    }
    new
}
