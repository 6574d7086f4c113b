//! What to do so that the agent of an add-on on a cluster has the rights that the add-on asks for, and no others.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use k8s_openapi::{
    api::rbac::v1::{RoleBinding, Subject as RbacSubject},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn, Subject as StatusSubject},
    cluster::ManagedCluster,
    identity, labels,
};
use ocm_reconcile::{Note, Plan, Site, cache::split_key};

use super::{
    decision::{Permissions, RegistrationDecision, decide},
    objects::{NamedObjects, PresentObjects, Stale, is_kept, keep},
    owners::{is_owned_by, owners},
    status::annotated,
};
use crate::hub::{Look, rbac::RbacObjects};

/// What is said while the agent has not said who it is.
pub(super) const PENDING: &str = "registration subject not ready";

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The key.
    pub key: String,
    /// The add-on on the cluster, as its author sees it.
    pub look: Look,
    /// The same as it is on the hub.
    pub addon: Option<Arc<ManagedClusterAddOn>>,
    /// The cluster.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// The ClusterManagementAddOn of its name.
    pub management: Option<Arc<ClusterManagementAddOn>>,
    /// The RBAC objects that are known whatever it asks for.
    pub present: PresentObjects,
    /// Those of the names that it asks for; looked up in a second round, because the first finds out what it asks for.
    pub named: Option<NamedObjects>,
    /// What its answers come to, worked out once.
    pub decision: OnceLock<Option<RegistrationDecision>>,
}

impl Seen {
    /// What its answers come to, if it is there and its ClusterManagementAddOn owns it.
    pub fn decision(&self) -> Option<&RegistrationDecision> {
        let decide = || {
            let Look::Here(installed) = &self.look else { return None };
            let addon = &installed.place.addon;
            let owner = self.management.as_deref().filter(|it| is_owned_by(addon, it))?;
            Some(decide(installed, &owners(addon, owner)))
        };
        self.decision.get_or_init(decide).as_ref()
    }

    /// The RBAC objects that it gets.
    pub fn granted(&self) -> Option<&RbacObjects> {
        match &self.decision()?.permissions {
            Permissions::Granted(objects) => Some(objects),
            _ => None,
        }
    }

    /// Whether something has to be looked up by name: all that it gets, before that is kept; where its agent has no
    /// rights any more, the bindings that may not be listed, before they are deleted.
    pub(super) fn lacks_named(&self) -> bool {
        let wanted = self.granted().filter(|_| self.named.is_none());
        wanted.is_some_and(|it| self.revoked().is_none() || self.present.may_lack(it))
    }

    /// Why the agents of the cluster have no rights on the hub; `None` where they may have some.
    pub fn revoked(&self) -> Option<&'static str> {
        match (&self.look, &self.cluster) {
            (Look::NotOurs | Look::Gone, _) => None,
            (_, None) => Some("there is no such cluster"),
            (_, Some(it)) if it.metadata.deletion_timestamp.is_some() => Some("its cluster is being deleted"),
            (_, Some(it)) if !it.spec.hub_accepts_client => Some("its cluster is not accepted"),
            (_, Some(_)) => None,
        }
    }
}

/// The plan.
pub fn plan(seen: &Seen) -> Plan {
    let mut plan = Plan::new();
    let (nothing, named) = (RbacObjects::default(), seen.named.clone().unwrap_or_default());
    if let Some(why) = seen.revoked() {
        keep(&mut plan, &nothing, &named, &bindings_of_agent(seen, &named));
        plan.wait(why);
        return plan;
    }
    if seen.lacks_named() {
        return plan;
    }
    match (&seen.look, seen.decision()) {
        (Look::NotOurs, _) => {}
        // What is in the cluster's namespace goes with its owner. What the agent had elsewhere goes now.
        (Look::Gone, _) => keep(&mut plan, &nothing, &named, &elsewhere(&seen.present)),
        (Look::Waits(why), _) => drop(plan.wait(why)),
        (Look::Here(_), None) => drop(plan.wait("its ClusterManagementAddOn does not own it yet")),
        (Look::Here(installed), Some(decision)) => {
            let addon = &*installed.place.addon;
            // Before the cluster's agent is told to let the add-on's in, it is told with what.
            if let Some(proof) = decision.proof.filter(|_| addon.metadata.deletion_timestamp.is_none()) {
                plan.change(Site::Hub, addon, &annotated(addon, proof));
            }
            match &decision.permissions {
                Permissions::Granted(objects) => keep(&mut plan, objects, &named, &of_addon(addon, &seen.present)),
                Permissions::None => keep(&mut plan, &nothing, &named, &of_addon(addon, &seen.present)),
                Permissions::Pending(_) => plan.notes.push(Note::Wait(PENDING.to_owned())),
                Permissions::Held(why) => plan.notes.push(Note::Wait(why.clone())),
                Permissions::Refused(why) => plan.notes.push(Note::Refuse(why.clone())),
            }
        }
    }
    plan
}

/// What this SDK keeps for the agent outside of the cluster's namespace.
fn elsewhere(present: &PresentObjects) -> Stale {
    Stale {
        role_bindings: present.role_bindings_of_agent.clone(),
        cluster_role_bindings: present.cluster_role_bindings_of_agent.clone(),
        ..Stale::default()
    }
}

/// What this SDK keeps for the add-on on the cluster.
fn of_addon(addon: &ManagedClusterAddOn, present: &PresentObjects) -> Stale {
    let (name, owner) = (addon.name_any(), addon.uid().unwrap_or_default());
    let is_ours =
        |labels: &_, owners: &[OwnerReference]| is_kept(labels, &name) && owners.iter().any(|it| it.uid == owner);
    let mut stale = elsewhere(present);
    let roles = present
        .roles
        .iter()
        .filter(|it| is_ours(it.labels(), it.owner_references()));
    stale.roles.extend(roles.cloned());
    let bindings = present
        .role_bindings
        .iter()
        .filter(|it| is_ours(it.labels(), it.owner_references()));
    stale.role_bindings.splice(0..0, bindings.cloned());
    stale
}

/// The bindings that give the agent of the add-on something, also one that somebody else has made under a name that the
/// add-on asks for; those of people in the cluster's namespace stay.
fn bindings_of_agent(seen: &Seen, named: &NamedObjects) -> Stale {
    let (cluster, name) = split_key(&seen.key);
    let said = seen.addon.iter().filter_map(|it| it.status.as_ref());
    let said: Vec<&StatusSubject> = said
        .flat_map(|it| it.registrations.iter().map(|it| &it.subject))
        .collect();
    let is_agents = |it: &RbacSubject| {
        let names = [it.name.clone()];
        said.iter().any(|of| of.user == it.name || of.groups.contains(&it.name))
            || identity::is_of_cluster(cluster, &it.name, &names)
            || it.namespace.as_deref() == Some(cluster)
    };
    let is_for_agent = |it: &&Arc<RoleBinding>| it.subjects.iter().flatten().any(is_agents);
    let mut stale = elsewhere(&seen.present);
    let own = seen.present.role_bindings.iter().filter(is_for_agent);
    stale.role_bindings.splice(0..0, own.cloned());
    // A program of its own need not be allowed to list bindings: those that it would keep were asked for by name. Among
    // them are those of other holders, and those that the agents of all clusters share: they stay, as where all can be
    // listed.
    let is_of_cluster = |labels: &BTreeMap<_, _>| labels.get(labels::CLUSTER_NAME).is_some_and(|it| it == cluster);
    let is_its = |it: &&Arc<RoleBinding>| {
        let in_cluster = it.metadata.namespace.as_deref() == Some(cluster);
        is_kept(it.labels(), name) && (is_of_cluster(it.labels()) || in_cluster && is_for_agent(it))
    };
    let kept = named.role_bindings.iter().filter(is_its);
    stale.role_bindings.extend(kept.cloned());
    let kept = named.cluster_role_bindings.iter();
    let kept = kept.filter(|it| is_kept(it.labels(), name) && is_of_cluster(it.labels()));
    stale.cluster_role_bindings.extend(kept.cloned());
    stale
}
