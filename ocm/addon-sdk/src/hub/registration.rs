//! Lets the agents of add-ons in: says who they are and binds what they may do.
//!
//! Root: ManagedClusterAddOn. Reads: the add-on's registrations and permissions; the ClusterManagementAddOn that owns it; the
//! RBAC objects they come to.
//! Writes: those RBAC objects; of the ManagedClusterAddOn `status.supportedConfigs`, `registrations`, `namespace`,
//! `healthCheck` and the condition RegistrationApplied, and the annotations with the proof that the add-on's author has chosen.
//! Never: what an agent that proves itself with a token wrote about itself, unless it cannot be true; RBAC objects of others
//! that happen to have none of the names; a right for the agent on a cluster that is not accepted, or is deleted: what it had
//! goes at once, whatever else is to be said of the add-on.
//! Upstream: addon-framework `pkg/addonmanager/controllers/registration`. It needs a second turn to bind permissions to the
//! subjects that it wrote in the first; here one turn does both.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::{
    api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, Subject as RbacSubject},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Api, Client, Resource, ResourceExt};
use ocm_api::{
    addon::{
        ConfigGroupResource, KubeClientDriver,
        v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn, RegistrationConfig, Subject as StatusSubject},
    },
    annotations,
    cluster::ManagedCluster,
    condition::{self, wanted},
    conditions::managed_cluster_add_on::{self, registration_reason as reason},
    identity, labels,
};
use ocm_reconcile::{
    Cache, Note, ObserveError, Outcome, Plan, Queue, Reconciler, Site, async_trait,
    cache::{key_of, split_key},
    install::{DROVER, MANAGED_BY},
};
use serde::de::DeserializeOwned;

use super::{
    Context, Look, Standing,
    claims::{self, Name},
    kept::Kept,
    rbac::{self, Objects, Owners},
};
use crate::{AddOnContext, Config, Permission, Proof, Registration, Subject};

const CONFIGURED: &str = "Registration of the addon agent is configured";
const PENDING: &str = "registration subject not ready";

/// The reconciler.
pub struct Registrations {
    context: Context,
    kept: Kept,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The key.
    pub key: String,
    /// The add-on on the cluster.
    pub look: Look,
    /// What is decided about it; present when it is there and has an owner.
    pub decision: Option<Decision>,
    /// The RBAC objects that there are. Where the agent has no rights, the bindings that still give it some, as stale.
    pub current: Current,
    /// Why the agents of the cluster have no rights; `None` where they may have some.
    pub revoked: Option<&'static str>,
}

/// What an add-on's answers come to.
#[derive(Clone, Debug)]
pub struct Decision {
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
    Granted(Objects),
    /// Its agent has not said yet who it is. These are the roles it will be bound to.
    Pending(Objects),
    /// The user must change something.
    Refused(String),
    /// They stay as they are, until a change of a configuration comes to this cluster.
    Held(String),
}

/// RBAC objects that there are: those of the wanted names, and those that we keep and nobody wants any more.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Current {
    pub roles: Vec<Arc<Role>>,
    pub role_bindings: Vec<Arc<RoleBinding>>,
    pub cluster_roles: Vec<Arc<ClusterRole>>,
    pub cluster_role_bindings: Vec<Arc<ClusterRoleBinding>>,
    pub stale_roles: Vec<Arc<Role>>,
    pub stale_role_bindings: Vec<Arc<RoleBinding>>,
    pub stale_cluster_role_bindings: Vec<Arc<ClusterRoleBinding>>,
}

impl Registrations {
    /// Over this context.
    pub fn new(context: &Context) -> Self {
        Self {
            kept: Kept::over(&context.caches),
            context: context.clone(),
        }
    }

    // The bindings that give the agent of an add-on on a cluster something, also one that somebody else has made under a name that
    // the add-on asks for; those of people in the cluster's namespace stay.
    fn bindings_of_agent(&self, key: &str) -> Current {
        let (cluster, name) = split_key(key);
        let addon = self.context.caches.addons.get(cluster, name);
        let said = addon.iter().filter_map(|it| it.status.as_ref());
        let said: Vec<&StatusSubject> = said
            .flat_map(|it| it.registrations.iter().map(|it| &it.subject))
            .collect();
        let is_agents = |it: &RbacSubject| {
            let names = [it.name.clone()];
            said.iter().any(|of| of.user == it.name || of.groups.contains(&it.name))
                || identity::is_of_cluster(cluster, &it.name, &names)
                || it.namespace.as_deref() == Some(cluster)
        };
        let mut own = self.context.caches.role_bindings.list_in(cluster);
        own.retain(|it| {
            let of_addon = it.labels().get(labels::ADDON_NAME).is_some_and(|it| it == name);
            of_addon && it.subjects.iter().flatten().any(is_agents)
        });
        own.extend(self.kept.role_bindings(key));
        Current {
            stale_role_bindings: own,
            stale_cluster_role_bindings: self.kept.cluster_role_bindings(key),
            ..Current::default()
        }
    }

    // A program of its own need not be allowed to list bindings: it asks for those that it would keep, by name.
    async fn bindings_by_name(&self, name: &str, objects: &Objects, found: &mut Current) -> Result<(), kube::Error> {
        let (caches, client) = (&self.context.caches, &self.context.client);
        if !caches.role_bindings.is_synced() {
            let all = in_namespaces(client, &caches.role_bindings, &objects.role_bindings).await?;
            let ours = all.into_iter().filter(|it| is_kept(it.labels(), name));
            found.stale_role_bindings.extend(ours);
        }
        if !caches.cluster_role_bindings.is_synced() {
            let all = of_the_hub(client, &caches.cluster_role_bindings, &objects.cluster_role_bindings).await?;
            let ours = all.into_iter().filter(|it| is_kept(it.labels(), name));
            found.stale_cluster_role_bindings.extend(ours);
        }
        Ok(())
    }

    // Says what a cluster asks for of what all share, before any of it is made.
    fn claim(&self, key: &str, look: &Look, decision: Option<&Decision>) {
        let claims = &self.context.claims;
        match (look, decision.map(|it| &it.permissions)) {
            (Look::Gone, _) => claims.drop(key),
            (Look::NotOurs, _) => match self.context.asks_for_nothing(key) {
                Some(true) => claims.say(key, Default::default()),
                Some(false) => claims.doubt(key),
                None => {}
            },
            (Look::Here(_), Some(Permissions::None)) => claims.say(key, Default::default()),
            (Look::Here(_), Some(Permissions::Granted(objects) | Permissions::Pending(objects))) => {
                claims.say(key, claims::shared(objects));
            }
            (Look::Here(_), Some(Permissions::Refused(_) | Permissions::Held(_)) | None) | (Look::Waits(_), _) => {
                claims.doubt(key);
            }
        }
    }
}

/// Add-ons, the ClusterManagementAddOns that own them when these come or go, and the RBAC objects of their agents when somebody
/// changes or removes them.
pub fn subscribe(context: &Context, queue: &Queue) {
    context.subscribe(queue);
    let caches = &context.caches;
    ownership(context, queue);
    drift(&caches.roles, context, queue);
    drift(&caches.role_bindings, context, queue);
    drift(&caches.cluster_roles, context, queue);
    drift(&caches.cluster_role_bindings, context, queue);
}

// A ManagedClusterAddOn that came into sight before its owner waits for it.
fn ownership(context: &Context, queue: &Queue) {
    let caches = &context.caches;
    let addons = caches.addons.clone();
    caches.cluster_management_addons.subscribe(queue, move |old, new| {
        let is_same = old
            .zip(new)
            .is_some_and(|(old, new)| old.metadata.uid == new.metadata.uid);
        let Some(owner) = new.or(old).filter(|_| !is_same) else {
            return Vec::new();
        };
        let mut all = addons.list();
        all.retain(|it| it.metadata.name == owner.metadata.name);
        all.iter().map(|it| key_of(&**it)).collect()
    });
}

fn drift<K>(cache: &Cache<K>, context: &Context, queue: &Queue)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static,
{
    let (addons, claims) = (context.caches.addons.clone(), context.claims.clone());
    cache.subscribe(queue, move |old, new| {
        // A new one is mostly our own, and one that is somebody else's was looked for before ours was made.
        let old = old?;
        let object = new.unwrap_or(old);
        // What `remember` has put into the cache comes again by the watch.
        if new.is_some_and(|it| it.resource_version() == old.resource_version()) {
            return None;
        }
        let addon = object.labels().get(labels::ADDON_NAME)?;
        if let Some(cluster) = claims.claimant(addon, &Name::of(object)) {
            return Some(format!("{cluster}/{addon}"));
        }
        let of_cluster = object.labels().get(labels::CLUSTER_NAME).cloned();
        let namespace = of_cluster.or_else(|| object.namespace()).unwrap_or_default();
        let own = addons.get(&namespace, addon);
        // One that all clusters share is repaired on behalf of any of them.
        let any = || addons.list().into_iter().find(|it| it.name_any() == *addon);
        own.or_else(any).map(|it| key_of(&*it))
    });
}

/// What the answers of an add-on come to at a place.
pub fn decide(standing: &Standing, owners: &Owners) -> Decision {
    let (add_on, place) = (&standing.add_on, &standing.place);
    if let Some(why) = place.held().and_then(Config::hindrance) {
        return Decision {
            registrations: None,
            proof: None,
            permissions: Permissions::Held(why),
        };
    }
    let (registrations, permissions) = match (add_on.registrations(place), add_on.hub_permissions(place)) {
        (Err(refusal), _) => {
            return Decision {
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
    Decision {
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
        (None, _) => Subject::default(),
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
fn roles(place: &AddOnContext, permissions: &[Permission], owners: &Owners) -> Objects {
    let objects = rbac::wanted(place, permissions, &Subject::default(), owners).unwrap_or_default();
    Objects {
        roles: objects.roles,
        cluster_roles: objects.cluster_roles,
        ..Objects::default()
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

fn written(subject: &Subject) -> StatusSubject {
    StatusSubject {
        user: subject.user.clone(),
        groups: subject.groups.clone(),
        organization_unit: subject.organizational_units.clone(),
    }
}

/// Whom permissions are bound to: the first client of the hub's API server. With tokens it is the ServiceAccount of exactly
/// this add-on on exactly this cluster, whatever an agent may have written into the status: otherwise it could hand its
/// rights to anybody.
fn subject(place: &AddOnContext, published: &[RegistrationConfig]) -> Option<Subject> {
    let client = published.iter().find(|it| it.signer_name == identity::CLIENT_SIGNER)?;
    let driver = place.addon.status.as_ref().and_then(|it| it.kube_client_driver);
    if driver == Some(KubeClientDriver::Token) {
        let account = identity::addon_service_account(place.cluster_name(), place.addon_name());
        if client.subject.user != account {
            return None;
        }
        return Some(Subject {
            user: account,
            ..Subject::default()
        });
    }
    let subject = &client.subject;
    (!subject.user.is_empty() || !subject.groups.is_empty()).then(|| Subject {
        user: subject.user.clone(),
        groups: subject.groups.clone(),
        organizational_units: subject.organization_unit.clone(),
    })
}

/// Whether a ManagedClusterAddOn belongs to the ClusterManagementAddOn of its name, in whatever version it says so. Anybody who
/// may write a ManagedClusterAddOn can name an owner that was never there: to garbage collection it is one that is gone.
pub fn is_owned_by(addon: &ManagedClusterAddOn, management: &ClusterManagementAddOn) -> bool {
    let (name, uid) = (addon.name_any(), management.uid().unwrap_or_default());
    addon.owner_references().iter().any(|it| {
        it.api_version.split('/').next() == Some(ClusterManagementAddOn::GROUP)
            && it.kind == ClusterManagementAddOn::KIND
            && it.name == name
            && it.uid == uid
    })
}

/// The owner reference of what belongs to a ManagedClusterAddOn, without being controlled by it.
pub fn owned_by(addon: &ManagedClusterAddOn) -> OwnerReference {
    OwnerReference {
        // As upstream's managers write it today.
        api_version: ocm_api::addon::v1beta1::ManagedClusterAddOn::API_VERSION.to_owned(),
        kind: ManagedClusterAddOn::KIND.to_owned(),
        name: addon.name_any(),
        uid: addon.uid().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

// Nothing of them is copied from the ManagedClusterAddOn: what all clusters share must not go because of what one says.
fn owners(addon: &ManagedClusterAddOn, management: &ClusterManagementAddOn) -> Owners {
    Owners {
        addon: owned_by(addon),
        management: OwnerReference {
            api_version: ocm_api::addon::v1beta1::ClusterManagementAddOn::API_VERSION.to_owned(),
            kind: ClusterManagementAddOn::KIND.to_owned(),
            name: management.name_any(),
            uid: management.uid().unwrap_or_default(),
            block_owner_deletion: Some(true),
            controller: None,
        },
    }
}

#[async_trait]
impl Reconciler for Registrations {
    const NAME: &'static str = "addon-registration";
    const AT_ONCE: usize = 4;
    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let look = self.context.look(key);
        let decision = match &look {
            Look::Here(standing) => {
                let addon = &standing.place.addon;
                let offers = &self.context.caches.cluster_management_addons;
                let owner = offers.named(&addon.name_any()).filter(|it| is_owned_by(addon, it));
                owner.map(|it| decide(standing, &owners(addon, &it)))
            }
            _ => None,
        };
        self.claim(key, &look, decision.as_ref());
        let caches = &self.context.caches;
        let (cluster, name) = split_key(key);
        let revoked = match look {
            Look::NotOurs | Look::Gone => None,
            Look::Here(_) | Look::Waits(_) => why_revoked(caches.clusters.named(cluster).as_deref()),
        };
        if revoked.is_some() {
            let mut current = self.bindings_of_agent(key);
            if let Some(Permissions::Granted(objects)) = decision.as_ref().map(|it| &it.permissions) {
                self.bindings_by_name(name, objects, &mut current).await?;
            }
            return Ok(Seen {
                now: Timestamp::now(),
                key: key.to_owned(),
                look,
                decision,
                current,
                revoked,
            });
        }
        let mut current = Current::default();
        if let Some(Permissions::Granted(objects)) = decision.as_ref().map(|it| &it.permissions) {
            let client = &self.context.client;
            current.roles = in_namespaces(client, &caches.roles, &objects.roles).await?;
            current.role_bindings = in_namespaces(client, &caches.role_bindings, &objects.role_bindings).await?;
            current.cluster_roles = of_the_hub(client, &caches.cluster_roles, &objects.cluster_roles).await?;
            current.cluster_role_bindings =
                of_the_hub(client, &caches.cluster_role_bindings, &objects.cluster_role_bindings).await?;
        }
        match &look {
            Look::Here(standing) => {
                let owner = standing.place.addon.uid().unwrap_or_default();
                let ours = |labels: &_, owners: &[OwnerReference]| {
                    is_kept(labels, name) && owners.iter().any(|it| it.uid == owner)
                };
                current.stale_roles = caches.roles.list_in(cluster);
                current
                    .stale_roles
                    .retain(|it| ours(it.labels(), it.owner_references()));
                current.stale_role_bindings = caches.role_bindings.list_in(cluster);
                current
                    .stale_role_bindings
                    .retain(|it| ours(it.labels(), it.owner_references()));
                current.stale_role_bindings.extend(self.kept.role_bindings(key));
                current.stale_cluster_role_bindings = self.kept.cluster_role_bindings(key);
            }
            // What is in the cluster's namespace goes with its owner. What the agent had elsewhere goes now.
            Look::Gone => {
                current.stale_role_bindings = self.kept.role_bindings(key);
                current.stale_cluster_role_bindings = self.kept.cluster_role_bindings(key);
            }
            Look::NotOurs | Look::Waits(_) => {}
        }
        Ok(Seen {
            now: Timestamp::now(),
            key: key.to_owned(),
            look,
            decision,
            current,
            revoked: None,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if let Some(why) = seen.revoked {
            delete_stale_bindings(&mut plan, &seen.current);
            plan.wait(why);
            return plan;
        }
        match (&seen.look, &seen.decision) {
            (Look::NotOurs, _) => {}
            (Look::Gone, _) => delete_stale_bindings(&mut plan, &seen.current),
            (Look::Waits(why), _) => {
                plan.wait(why);
            }
            (Look::Here(_), None) => {
                plan.wait("its ClusterManagementAddOn does not own it yet");
            }
            (Look::Here(standing), Some(decision)) => {
                let addon = &*standing.place.addon;
                // Before the cluster's agent is told to let the add-on's in, it is told with what.
                if let Some(proof) = decision.proof.filter(|_| addon.metadata.deletion_timestamp.is_none()) {
                    plan.change(Site::Hub, addon, &annotated(addon, proof));
                }
                match &decision.permissions {
                    Permissions::Granted(objects) => keep(&mut plan, objects, &seen.current),
                    Permissions::None => keep(&mut plan, &Objects::default(), &seen.current),
                    Permissions::Pending(_) => plan.notes.push(Note::Wait(PENDING.to_owned())),
                    Permissions::Held(why) => plan.notes.push(Note::Wait(why.clone())),
                    Permissions::Refused(why) => plan.notes.push(Note::Refuse(why.clone())),
                }
            }
        }
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        // The next look need not ask the API server for what this run has made.
        let caches = &self.context.caches;
        for object in outcome.stages.iter().flatten().flatten() {
            let ocm_reconcile::Done::Object(object) = object else {
                continue;
            };
            if object.metadata.deletion_timestamp.is_some() {
                continue;
            }
            let kind = object.types.as_ref().map(|it| it.kind.as_str()).unwrap_or_default();
            let object = (**object).clone();
            match kind {
                "Role" => object.try_parse().map(|it| caches.roles.put(it)),
                "RoleBinding" => object.try_parse().map(|it| caches.role_bindings.put(it)),
                "ClusterRole" => object.try_parse().map(|it| caches.cluster_roles.put(it)),
                "ClusterRoleBinding" => object.try_parse().map(|it| caches.cluster_role_bindings.put(it)),
                _ => Ok(()),
            }
            .ok();
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Look::Here(Standing { add_on, place }) = &seen.look else {
            return plan;
        };
        if matches!(&seen.decision, Some(it) if matches!(it.permissions, Permissions::Held(_))) {
            return plan;
        }
        let latest = outcome.latest::<ManagedClusterAddOn>(Site::Hub, Some(place.cluster_name()), place.addon_name());
        let before = latest.as_ref().unwrap_or(&place.addon);
        let mut addon = before.clone();
        let status = addon.status.get_or_insert_default();
        // With the rest, and before anything is deployed: otherwise the cluster's agent would look for a lease at first.
        status.health_check.mode = add_on.health(place).mode();
        let Some(decision) = &seen.decision else {
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
        // What is said of its rights stays as it was said last, and is said anew when there are some.
        if seen.revoked.is_some() {
            status.namespace = place.install_namespace.clone();
            plan.status(Site::Hub, before, &addon);
            return plan;
        }
        status.namespace = place.install_namespace.clone();
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
}

/// The add-on with its author's choice for the cluster's agent to read. An author who has no opinion leaves it to whoever
/// annotates the add-on; and what a cluster has all its add-ons annotated with goes before what an author prefers.
fn annotated(addon: &ManagedClusterAddOn, proof: Proof) -> ManagedClusterAddOn {
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

/// Why the agents on a cluster have no rights on the hub.
fn why_revoked(cluster: Option<&ManagedCluster>) -> Option<&'static str> {
    match cluster {
        None => Some("there is no such cluster"),
        Some(it) if it.metadata.deletion_timestamp.is_some() => Some("its cluster is being deleted"),
        Some(it) if !it.spec.hub_accepts_client => Some("its cluster is not accepted"),
        Some(_) => None,
    }
}

fn delete_stale_bindings(plan: &mut Plan, current: &Current) {
    for binding in &current.stale_role_bindings {
        plan.delete(Site::Hub, &**binding);
    }
    for binding in &current.stale_cluster_role_bindings {
        plan.delete(Site::Hub, &**binding);
    }
}

fn is_kept(labels: &std::collections::BTreeMap<String, String>, addon: &str) -> bool {
    let is = |key: &str, value: &str| labels.get(key).is_some_and(|it| it == value);
    is(labels::ADDON_NAME, addon) && is(MANAGED_BY, DROVER)
}

// A binding cannot change its role: one that has another goes first, and the right one comes in the next stage.
fn keep(plan: &mut Plan, objects: &Objects, current: &Current) {
    let mut later = Plan::new();
    for desired in &objects.roles {
        rbac::keep_role(&mut later, same(&current.roles, desired), desired);
    }
    for desired in &objects.cluster_roles {
        rbac::keep_cluster_role(&mut later, same(&current.cluster_roles, desired), desired);
    }
    for desired in &objects.role_bindings {
        let mut found = same(&current.role_bindings, desired);
        if let Some(other) = found.filter(|it| it.role_ref != desired.role_ref) {
            plan.delete(Site::Hub, other);
            found = None;
        }
        rbac::keep_role_binding(&mut later, found, desired);
    }
    for desired in &objects.cluster_role_bindings {
        let mut found = same(&current.cluster_role_bindings, desired);
        if let Some(other) = found.filter(|it| it.role_ref != desired.role_ref) {
            plan.delete(Site::Hub, other);
            found = None;
        }
        rbac::keep_cluster_role_binding(&mut later, found, desired);
    }
    for stale in &current.stale_roles {
        if !objects.roles.iter().any(|it| is_same(it, &**stale)) {
            plan.delete(Site::Hub, &**stale);
        }
    }
    for stale in &current.stale_role_bindings {
        if !objects.role_bindings.iter().any(|it| is_same(it, &**stale)) {
            plan.delete(Site::Hub, &**stale);
        }
    }
    for stale in &current.stale_cluster_role_bindings {
        if !objects.cluster_role_bindings.iter().any(|it| is_same(it, &**stale)) {
            plan.delete(Site::Hub, &**stale);
        }
    }
    plan.then(later);
}

fn is_same<K: Resource>(a: &K, b: &K) -> bool {
    a.meta().name == b.meta().name && a.meta().namespace == b.meta().namespace
}

fn same<'a, K: Resource>(all: &'a [Arc<K>], desired: &K) -> Option<&'a K> {
    all.iter().map(|it| &**it).find(|it| is_same(*it, desired))
}

// What the cache does not have may still be there: it may lack our label, or the watch may not have brought it yet.
async fn in_namespaces<K>(client: &Client, cache: &Cache<K>, wanted: &[K]) -> Result<Vec<Arc<K>>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let mut found = Vec::new();
    for it in wanted {
        let (namespace, name) = (it.namespace().unwrap_or_default(), it.name_any());
        match cache.get(&namespace, &name) {
            Some(object) => found.push(object),
            None => {
                let api = Api::<K>::namespaced(client.clone(), &namespace);
                found.extend(api.get_opt(&name).await?.map(Arc::new));
            }
        }
    }
    Ok(found)
}

async fn of_the_hub<K>(client: &Client, cache: &Cache<K>, wanted: &[K]) -> Result<Vec<Arc<K>>, kube::Error>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + Sync
        + 'static,
{
    let mut found = Vec::new();
    for it in wanted {
        let name = it.name_any();
        match cache.named(&name) {
            Some(object) => found.push(object),
            None => found.extend(Api::<K>::all(client.clone()).get_opt(&name).await?.map(Arc::new)),
        }
    }
    Ok(found)
}

#[cfg(test)]
#[path = "registration_tests.rs"]
mod tests;
