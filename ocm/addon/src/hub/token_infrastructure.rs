//! What an add-on's agent needs on the hub when it comes with a token: a ServiceAccount, and the cluster's right to ask for
//! its tokens.
//!
//! Root: ManagedClusterAddOn. Reads: its ManagedCluster; the three objects. Writes: ServiceAccount, Role and RoleBinding, which
//! belong to the add-on; condition `TokenInfrastructureReady`, whose message carries the account's UID to the agent.
//! Never: a token; another add-on's objects, or a ServiceAccount that somebody else has made under the name: the cluster would
//! be handed whatever that may do.
//! Upstream: ocm `pkg/addon/controllers/addontokeninfra`, which takes everything away as soon as the add-on is being deleted. The
//! agent still needs its access to the hub to clean up after itself, so ours outlives the deletion timestamp. Where the cluster is
//! denied or deleted, all of it goes at once, and with the account every token of it ends.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use ocm_api::{
    addon::{KubeClientDriver, v1alpha1::ManagedClusterAddOn, v1beta1},
    cluster::ManagedCluster,
    condition::{self, wanted},
    conditions::managed_cluster_add_on::{self, token_infrastructure_reason as reason},
    identity, labels,
};
use ocm_reconcile::{Done, ObserveError, Outcome, Plan, Queue, Reconciler, Site, async_trait, cache, plan::StepId};
use parking_lot::Mutex;
use serde::Serialize;

use super::{Caches, facts};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// How soon to look again for an object that was there when it was to be made: mostly the watch is about to bring it.
const UNSEEN_AGAIN: Duration = Duration::from_millis(200);

/// How soon to try again when it is somebody else's. Nothing tells when it goes.
const STRANGERS_AGAIN: Duration = Duration::from_secs(30);

/// The reconciler.
pub struct TokenInfrastructure {
    caches: Caches,
    // The add-ons of which an object was there already in the last run.
    met: Mutex<BTreeSet<String>>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The add-on on a cluster; `None` when it is gone.
    pub addon: Option<Arc<ManagedClusterAddOn>>,
    /// Whether its cluster is accepted, and stays.
    pub is_let_in: bool,
    /// Its ServiceAccount.
    pub service_account: Option<Arc<ServiceAccount>>,
    /// The right to ask for its tokens.
    pub role: Option<Arc<Role>>,
    /// Whose right that is.
    pub role_binding: Option<Arc<RoleBinding>>,
    /// Whether an object was there already when it was to be made in the last run.
    pub met: bool,
}

impl TokenInfrastructure {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            caches: caches.clone(),
            met: Mutex::default(),
        }
    }
}

/// Add-ons, the clusters that are accepted, denied or deleted, and the objects when somebody changes them.
pub fn subscribe(caches: &Caches, queue: &Queue) {
    caches.addons.subscribe(queue, |old, new| {
        let concerns = |it: &ManagedClusterAddOn| {
            let ready = condition::find(
                facts::conditions(it),
                managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY,
            );
            (it.metadata.uid.clone(), wants_token(it), ready.cloned())
        };
        let same = matches!((old, new), (Some(old), Some(new)) if concerns(old) == concerns(new));
        // Most add-ons have nothing to do with tokens.
        let matters = |it: &ManagedClusterAddOn| concerns(it).1 || concerns(it).2.is_some();
        let either = [old, new].into_iter().flatten().any(matters);
        new.or(old).filter(|_| !same && either).map(cache::key_of)
    });
    let all = caches.clone();
    caches.clusters.subscribe(queue, move |old, new| {
        let Some(name) = new
            .or(old)
            .map(ResourceExt::name_any)
            .filter(|_| is_let_in(old) != is_let_in(new))
        else {
            return Vec::new();
        };
        let addons = all.addons.list_in(&name);
        let concerned = addons
            .iter()
            .filter(|it| it.status.as_ref().is_some_and(|it| it.kube_client_driver.is_some()));
        concerned.map(|it| cache::key_of(&**it)).collect()
    });
    caches
        .service_accounts
        .subscribe(queue, |old, new| new.or(old).and_then(addon_of));
    caches.roles.subscribe(queue, |old, new| new.or(old).and_then(addon_of));
    caches
        .role_bindings
        .subscribe(queue, |old, new| new.or(old).and_then(addon_of));
}

fn addon_of<K: Resource>(object: &K) -> Option<String> {
    let name = object.meta().labels.as_ref()?.get(labels::ADDON_TOKEN_NAME)?;
    Some(format!("{}/{name}", object.meta().namespace.as_deref()?))
}

fn is_let_in(cluster: Option<&ManagedCluster>) -> bool {
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

/// The name of an add-on's ServiceAccount, in the cluster's namespace.
pub fn service_account_name(addon: &str) -> String {
    format!("{addon}-agent")
}

fn role_name(addon: &str) -> String {
    format!("{addon}-token-role")
}

#[async_trait]
impl Reconciler for TokenInfrastructure {
    const NAME: &'static str = "addon-token-infrastructure";
    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = cache::split_key(key);
        let caches = &self.caches;
        Ok(Seen {
            now: Timestamp::now(),
            addon: caches.addons.get(cluster, name),
            is_let_in: is_let_in(caches.clusters.named(cluster).as_deref()),
            service_account: caches.service_accounts.get(cluster, &service_account_name(name)),
            role: caches.roles.get(cluster, &role_name(name)),
            role_binding: caches.role_bindings.get(cluster, &role_name(name)),
            met: self.met.lock().contains(key),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(addon) = seen.addon.as_deref().filter(|it| wants_token(it) && seen.is_let_in) else {
            remove(seen, &mut plan);
            return plan;
        };
        let of_service_account = ServiceAccount {
            metadata: metadata(addon, service_account_name(&addon.name_any())),
            ..ServiceAccount::default()
        };
        plan.keep(Site::Hub, seen.service_account.as_deref(), &of_service_account);
        let role = role(addon);
        keep(&mut plan, seen.role.as_deref(), &role, |current| {
            current.rules = role.rules.clone();
        });
        let binding = binding(addon);
        match seen.role_binding.as_deref() {
            // A binding cannot change its role.
            Some(current) if current.role_ref != binding.role_ref => {
                plan.delete(Site::Hub, current);
            }
            current => keep(&mut plan, current, &binding, |current| {
                current.subjects = binding.subjects.clone();
            }),
        }
        let uid = seen.service_account.as_ref().and_then(|it| it.metadata.uid.as_deref());
        match uid.filter(|_| plan.is_empty()) {
            Some(uid) => {
                let (cluster, account) = (facts::cluster(addon), service_account_name(&addon.name_any()));
                let ready = wanted(
                    managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY,
                    true,
                    reason::READY,
                    // The agent reads the UID out of this sentence.
                    format!("ServiceAccount {cluster}/{account} (UID: {uid}) is ready"),
                );
                facts::tell(&mut plan, addon, &facts::saying(addon, ready, seen.now));
            }
            None => {
                plan.wait("the objects are being made");
            }
        }
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        let Some(addon) = seen.addon.as_deref() else { return };
        let key = cache::key_of(addon);
        let mut met = self.met.lock();
        if in_the_way(seen, outcome).is_empty() {
            met.remove(&key);
        } else {
            met.insert(key);
        }
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(addon) = seen.addon.as_deref().filter(|it| wants_token(it) && seen.is_let_in) else {
            return plan;
        };
        let in_the_way = in_the_way(seen, outcome);
        if !in_the_way.is_empty() {
            plan.look_again(if seen.met { STRANGERS_AGAIN } else { UNSEEN_AGAIN });
        }
        if seen.met && !in_the_way.is_empty() {
            let failed = wanted(
                managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY,
                false,
                reason::APPLY_FAILED,
                format!(
                    "Failed to apply token infrastructure: {} is there already and was not made for the add-on; remove it, \
                     or label it {}={} and {}=true to give it to the add-on",
                    in_the_way.join(", "),
                    labels::ADDON_TOKEN_NAME,
                    addon.name_any(),
                    labels::ADDON_TOKEN_INFRASTRUCTURE,
                ),
            );
            facts::tell(&mut plan, addon, &facts::saying(addon, failed, seen.now));
        }
        // Somebody who was faster is no failure worth telling.
        if outcome.errors().any(|(_, it)| !it.is_conflict()) {
            let failed = wanted(
                managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY,
                false,
                reason::APPLY_FAILED,
                format!("Failed to apply token infrastructure: {}", outcome.error_text()),
            );
            facts::tell(&mut plan, addon, &facts::saying(addon, failed, seen.now));
        }
        plan
    }
}

/// The objects that were to be made and are there, although nobody has seen them with the add-on's labels.
fn in_the_way(seen: &Seen, outcome: &Outcome) -> Vec<String> {
    let exists = |it: &Result<Done, _>| matches!(it, Ok(Done::AlreadyExists));
    if !outcome.stages.iter().flatten().any(exists) {
        return Vec::new();
    }
    let plan = TokenInfrastructure::plan(seen);
    let steps = plan.stages.iter().enumerate();
    let steps = steps.flat_map(|(stage, steps)| (0..steps.len()).map(move |step| StepId { stage, step }));
    let there = steps.filter(|it| outcome.get(*it).is_some_and(exists));
    let target = |it: StepId| plan.stages[it.stage][it.step].target();
    there
        .filter_map(|it| {
            let target = target(it)?;
            let namespace = target.namespace.as_deref().unwrap_or_default();
            Some(format!("{} {namespace}/{}", target.api_resource.kind, target.name))
        })
        .collect()
}

fn remove(seen: &Seen, plan: &mut Plan) {
    if let Some(it) = seen.role_binding.as_deref() {
        plan.delete(Site::Hub, it);
    }
    if let Some(it) = seen.role.as_deref() {
        plan.delete(Site::Hub, it);
    }
    if let Some(it) = seen.service_account.as_deref() {
        plan.delete(Site::Hub, it);
    }
    let Some(addon) = seen.addon.as_deref() else { return };
    let mut new = addon.clone();
    let said = new
        .status
        .as_mut()
        .is_some_and(|it| condition::remove(&mut it.conditions, managed_cluster_add_on::TOKEN_INFRASTRUCTURE_READY));
    if said {
        plan.stage();
        facts::tell(plan, addon, &new);
    }
}

/// Keeps an object's labels and owner, and what `set` makes of it, exactly: a right too many is repaired like one too few.
fn keep<K>(plan: &mut Plan, current: Option<&K>, desired: &K, set: impl FnOnce(&mut K))
where
    K: Resource<DynamicType = ()> + Clone + Serialize,
{
    let Some(current) = current else {
        plan.create(Site::Hub, desired);
        return;
    };
    let mut new = current.clone();
    set(&mut new);
    new.labels_mut().extend(desired.labels().clone());
    for owner in desired.owner_references() {
        if !current.owner_references().iter().any(|it| it.uid == owner.uid) {
            new.owner_references_mut().push(owner.clone());
        }
    }
    plan.change(Site::Hub, current, &new);
}

fn metadata(addon: &ManagedClusterAddOn, name: String) -> ObjectMeta {
    let labels = [
        (labels::ADDON_TOKEN_NAME, addon.name_any()),
        (labels::ADDON_TOKEN_INFRASTRUCTURE, "true".to_owned()),
    ];
    ObjectMeta {
        name: Some(name),
        namespace: addon.metadata.namespace.clone(),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
        owner_references: Some(vec![OwnerReference {
            api_version: v1beta1::ManagedClusterAddOn::API_VERSION.to_owned(),
            kind: ManagedClusterAddOn::KIND.to_owned(),
            name: addon.name_any(),
            uid: addon.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    }
}

fn role(addon: &ManagedClusterAddOn) -> Role {
    let rule = |verb: &str| PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["serviceaccounts/token".to_owned()]),
        verbs: vec![verb.to_owned()],
        ..PolicyRule::default()
    };
    let create = PolicyRule {
        resource_names: Some(vec![service_account_name(&addon.name_any())]),
        ..rule("create")
    };
    Role {
        metadata: metadata(addon, role_name(&addon.name_any())),
        // The second is asked for by the hub's gRPC server.
        rules: Some(vec![create, rule("subscribe")]),
    }
}

fn binding(addon: &ManagedClusterAddOn) -> RoleBinding {
    let cluster = facts::cluster(addon);
    let groups = [
        identity::cluster_group(cluster),
        identity::cluster_external_group(cluster),
    ];
    let subjects = groups.map(|name| Subject {
        api_group: Some(RBAC_GROUP.to_owned()),
        kind: "Group".to_owned(),
        name,
        namespace: None,
    });
    RoleBinding {
        metadata: metadata(addon, role_name(&addon.name_any())),
        role_ref: RoleRef {
            api_group: Some(RBAC_GROUP.to_owned()),
            kind: "Role".to_owned(),
            name: role_name(&addon.name_any()),
        },
        subjects: Some(subjects.to_vec()),
    }
}

#[cfg(test)]
#[path = "token_infrastructure_tests.rs"]
mod tests;
