//! What an add-on's answers come to: how its agent is let in, with what it proves itself,
//! and which RBAC objects it needs.

use ocm_api::{
    addon::{
        KubeClientDriver,
        v1alpha1::{RegistrationConfig, Subject as StatusSubject},
    },
    identity,
};

use crate::{
    AddOnContext, AgentSubject, Config, Permission, Proof, Registration,
    hub::{
        InstalledAddOn,
        rbac::{self, Owners, RbacObjects},
    },
};

/// What an add-on's answers come to.
#[derive(Clone, Debug)]
pub struct RegistrationDecision {
    /// How its agent is let in; `None` leaves what is there.
    pub registrations: Option<Vec<RegistrationConfig>>,
    /// With what its agent proves itself to the hub's API server, if its author has chosen.
    pub proof: Option<Proof>,
    /// Its permissions.
    pub permissions: Permissions,
}

/// What an add-on's permissions come to.
#[derive(Clone, Debug)]
pub enum Permissions {
    /// It registers nobody.
    None,
    /// These objects.
    Granted(RbacObjects),
    /// Its agent has not said yet who it is. These are the roles it will be bound to.
    Pending(RbacObjects),
    /// The user must change something.
    Refused(String),
    /// They stay as they are, until a change of a configuration comes to this cluster.
    Held(String),
}

/// What the answers of an add-on come to at a place.
pub fn decide(installed: &InstalledAddOn, owners: &Owners) -> RegistrationDecision {
    let (add_on, place) = (&installed.add_on, &installed.place);
    if let Some(why) = place.held().and_then(Config::hindrance) {
        return RegistrationDecision {
            registrations: None,
            proof: None,
            permissions: Permissions::Held(why),
        };
    }
    let (registrations, permissions) = match (add_on.registrations(place), add_on.hub_permissions(place)) {
        (Err(refusal), _) => {
            return RegistrationDecision {
                registrations: None,
                proof: None,
                permissions: Permissions::Refused(refusal.message().to_owned()),
            };
        }
        (Ok(registrations), permissions) => (registrations, permissions),
    };
    let published = published(place, &registrations);
    let permissions = match permissions {
        Err(refusal) => Permissions::Refused(refusal.message().to_owned()),
        Ok(permissions) if permissions.is_empty() && registrations.is_empty() => Permissions::None,
        Ok(permissions) => permitted(place, &permissions, &published, owners),
    };
    RegistrationDecision {
        registrations: Some(published),
        proof: registrations.iter().find_map(Registration::proof),
        permissions,
    }
}

/// What permissions come to where the agent is registered so.
fn permitted(
    place: &AddOnContext,
    permissions: &[Permission],
    published: &[RegistrationConfig],
    owners: &Owners,
) -> Permissions {
    let of_agent = permissions.iter().find(|it| it.is_for_agent());
    let subject = match (of_agent, subject(place, published)) {
        (None, _) => AgentSubject::default(),
        (Some(_), Some(subject)) => subject,
        // Nobody would ever say who it is.
        (Some(it), None) if !published.iter().any(|it| it.signer_name == identity::CLIENT_SIGNER) => {
            return Permissions::Refused(format!(
                "permission {} is for the add-on's agent, which has no registration as a client of the hub",
                it.binding_name()
            ));
        }
        (Some(_), None) => return Permissions::Pending(roles(place, permissions, owners)),
    };
    match rbac::wanted(place, permissions, &subject, owners) {
        Ok(objects) => Permissions::Granted(objects),
        Err(why) => Permissions::Refused(why),
    }
}

/// The roles of an agent that nobody knows yet.
fn roles(place: &AddOnContext, permissions: &[Permission], owners: &Owners) -> RbacObjects {
    let objects = rbac::wanted(place, permissions, &AgentSubject::default(), owners).unwrap_or_default();
    RbacObjects {
        roles: objects.roles,
        cluster_roles: objects.cluster_roles,
        ..RbacObjects::default()
    }
}

/// The registrations as the status says them.
fn published(place: &AddOnContext, registrations: &[Registration]) -> Vec<RegistrationConfig> {
    let status = place.addon.status.as_ref();
    let driver = status.and_then(|it| it.kube_client_driver);
    let present = status.iter().flat_map(|it| &it.registrations);
    let mut present = present.filter(|it| it.signer_name == identity::CLIENT_SIGNER);
    let published = registrations.iter().map(|it| {
        let subject = match it {
            // The agent itself says who it is; that it says the wrong thing is for `subject` to notice.
            Registration::KubeClient { .. } if driver == Some(KubeClientDriver::Token) => {
                present.next().map(|it| it.subject.clone()).unwrap_or_default()
            }
            _ => written(&it.subject(place)),
        };
        RegistrationConfig {
            signer_name: it.signer().to_owned(),
            subject,
        }
    });
    published.collect()
}

fn written(subject: &AgentSubject) -> StatusSubject {
    StatusSubject {
        user: subject.user.clone(),
        groups: subject.groups.clone(),
        organization_unit: subject.organizational_units.clone(),
    }
}

/// Whom permissions are bound to: the first client of the hub's API server. With tokens it is the ServiceAccount of
/// exactly this add-on on exactly this cluster, whatever an agent may have written into the status:
/// otherwise it could hand its rights to anybody.
fn subject(place: &AddOnContext, published: &[RegistrationConfig]) -> Option<AgentSubject> {
    let client = published.iter().find(|it| it.signer_name == identity::CLIENT_SIGNER)?;
    let driver = place.addon.status.as_ref().and_then(|it| it.kube_client_driver);
    if driver == Some(KubeClientDriver::Token) {
        let account = identity::addon_service_account(place.cluster_name(), place.addon_name());
        if client.subject.user != account {
            return None;
        }
        return Some(AgentSubject {
            user: account,
            ..AgentSubject::default()
        });
    }
    let subject = &client.subject;
    (!subject.user.is_empty() || !subject.groups.is_empty()).then(|| AgentSubject {
        user: subject.user.clone(),
        groups: subject.groups.clone(),
        organizational_units: subject.organization_unit.clone(),
    })
}
