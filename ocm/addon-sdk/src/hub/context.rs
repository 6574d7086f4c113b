//! What all reconcilers of add-ons have in common, and how they look at one add-on on one cluster.

use std::sync::Arc;

use kube::Client;
use ocm_api::{
    addon::{
        ConfigSpecHash, KubeClientDriver,
        v1alpha1::{AddOnTemplate, ManagedClusterAddOn},
    },
    cluster::ManagedCluster,
    condition,
    conditions::{managed_cluster, managed_cluster_add_on},
    namespaces,
};
use ocm_reconcile::{Cache, Caches, ObserveError, Watches, cache};

use super::{
    claims::Claims,
    configs::{Configs, Lookup},
    registry::{Entry, Registry},
};
use crate::{AddOn, AddOnContext, Config, HubInfo, Mode, add_on_context};

/// What an administrator can choose.
#[derive(Clone, Debug)]
pub struct Options {
    /// The namespace of the hub's components, where authorities of custom signers are by default.
    pub namespace: String,
    /// The user that asks for certificates on behalf of agents on the gRPC transport.
    pub grpc_user: String,
}

impl Default for Options {
    fn default() -> Self {
        Self::in_namespace(namespaces::HUB)
    }
}

impl Options {
    /// Those of a hub whose components are in this namespace. Upstream knows the gRPC server
    /// in its default namespace only.
    pub fn in_namespace(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            grpc_user: format!("system:serviceaccount:{namespace}:grpc-server-sa"),
        }
    }
}

/// What all reconcilers of add-ons have in common. Cloning shares it.
#[derive(Clone)]
pub struct Context {
    /// The caches of the process, of which each reconciler asks for those that it reads.
    pub caches: Caches,
    /// All clusters.
    pub clusters: Cache<ManagedCluster>,
    /// All add-ons on all clusters.
    pub addons: Cache<ManagedClusterAddOn>,
    /// The configuration objects of all kinds that add-ons understand.
    pub configs: Configs,
    /// The add-ons of this process.
    pub registry: Registry,
    /// The administrator's choices.
    pub options: Arc<Options>,
    /// What there is to know about the hub.
    pub hub: Arc<HubInfo>,
    /// What the clusters ask for of what they share.
    pub claims: Claims,
}

/// One add-on on one cluster, as a reconciler sees it.
#[derive(Clone)]
pub enum Look {
    /// It is none of this process.
    NotOurs,
    /// There is no such ManagedClusterAddOn.
    Gone,
    /// Something else must happen first.
    Waits(String),
    /// Here it is.
    Here(InstalledAddOn),
}

/// An add-on and where it stands.
#[derive(Clone)]
pub struct InstalledAddOn {
    /// The add-on.
    pub add_on: Arc<dyn AddOn>,
    /// The place.
    pub place: AddOnContext,
}

impl InstalledAddOn {
    /// Whether its agent proves itself to the hub's API server with tokens rather than certificates.
    pub fn uses_tokens(&self) -> bool {
        let status = self.place.addon.status.as_ref();
        status.and_then(|it| it.kube_client_driver) == Some(KubeClientDriver::Token)
    }
}

impl Context {
    /// Over these caches, for no add-on yet.
    pub fn over(caches: &Caches, hub: HubInfo, options: Options) -> Self {
        Self {
            clusters: caches.of(),
            addons: caches.of(),
            configs: Configs::of(caches),
            caches: caches.clone(),
            registry: Registry::default(),
            options: Arc::new(options),
            hub: Arc::new(hub),
            claims: Claims::default(),
        }
    }

    /// The client behind the caches, for what they do not show.
    pub(crate) fn client(&self) -> Result<Client, ObserveError> {
        let client = self.caches.client();
        client
            .cloned()
            .ok_or_else(|| "there is no API server behind the caches".into())
    }

    /// Looks at the add-on of a key `cluster/add-on`. Reads caches only.
    pub fn look(&self, key: &str) -> Look {
        let (cluster, name) = cache::split_key(key);
        let Some(entry) = self.registry.get(name) else {
            return Look::NotOurs;
        };
        let Some(addon) = self.addons.get(cluster, name) else {
            return Look::Gone;
        };
        if !entry.is_for(&addon) && !self.lacks_template(&entry, &addon) {
            return Look::NotOurs;
        }
        let Some(of) = self.clusters.named(cluster) else {
            return Look::Waits(format!("there is no cluster {cluster}"));
        };
        let configs = match self.configs(&entry, &addon) {
            Ok(configs) => configs,
            Err(why) => return Look::Waits(why),
        };
        let mut place = AddOnContext {
            cluster: of,
            configs,
            install_namespace: install_namespace(&addon.spec.install_namespace),
            mode: Mode::Default,
            hub: self.hub.clone(),
            companions: self.companions(&*entry.add_on, cluster),
            addon,
        };
        // Where it is and whether it is hosted stay as they are while nobody can say for sure: a change that is held
        // back is not for this cluster yet, a configuration that was named a moment ago has no state yet, and one whose
        // configuration somebody has deleted goes on running. To be somewhere else
        // for a moment costs the agent its credential and its lease.
        let is_held = place.held().is_some();
        let is_lacking = place.configs.iter().any(|it| it.object.is_none());
        let mode = add_on_context::mode(&place.addon, |hosting| self.clusters.named(hosting));
        if matches!(mode, Mode::Hosted(_)) {
            let was = (is_held || is_lacking) && was_hosted(&place.addon);
            if was || !is_held && entry.add_on.hosted(&place) {
                place.mode = mode;
            }
        }
        let was = || place.addon.status.as_ref().map(|it| it.namespace.clone());
        let chosen = if is_held {
            was()
        } else {
            match entry.add_on.install_namespace(&place) {
                Ok(Some(chosen)) => Some(chosen),
                Ok(None) if !is_lacking => None,
                Ok(None) | Err(_) => was(),
            }
        };
        if let Some(chosen) = chosen.filter(|it| !it.is_empty()) {
            place.install_namespace = chosen;
        }
        Look::Here(InstalledAddOn {
            add_on: entry.add_on,
            place,
        })
    }

    fn companions(&self, add_on: &dyn AddOn, cluster: &str) -> Vec<String> {
        let all = add_on.companions().iter();
        let there = all.filter(|it| self.addons.get(cluster, it).is_some());
        there.map(|it| (*it).to_owned()).collect()
    }

    fn configs(&self, entry: &Entry, addon: &ManagedClusterAddOn) -> Result<Vec<Config>, String> {
        let mut configs = Vec::new();
        for reference in addon.status.iter().flat_map(|it| &it.config_references) {
            let Some(kind) = entry.kind(&reference.group, &reference.resource) else {
                continue;
            };
            let Some(desired) = &reference.desired_config else {
                continue;
            };
            let state = self.configs.state(kind, desired);
            let (object, object_hash) = match state {
                Lookup::Unknown => return Err(format!("the hub's {} have not been listed yet", kind.resource)),
                Lookup::Missing => (None, String::new()),
                Lookup::Found(object, hash) => (Some(object), hash),
            };
            configs.push(Config {
                kind: kind.clone(),
                namespace: desired.namespace.clone(),
                name: desired.name.clone(),
                spec_hash: desired.spec_hash.clone(),
                object,
                object_hash,
            });
        }
        Ok(configs)
    }

    // Whether the template that an add-on is to be made of does not exist. Upstream says nothing of such an add-on;
    // here its author refuses it, so that the user is told.
    fn lacks_template(&self, entry: &Entry, addon: &ManagedClusterAddOn) -> bool {
        let mut references = addon.status.iter().flat_map(|it| &it.config_references);
        references.any(|it| {
            let kind = entry.kind(&it.group, &it.resource);
            let kind = kind.filter(|it| it.is(AddOnTemplate::GROUP, AddOnTemplate::PLURAL));
            let found = |kind, it: &ConfigSpecHash| self.configs.find(kind, &it.namespace, &it.name);
            let found = kind.zip(it.desired_config.as_ref()).map(|(kind, it)| found(kind, it));
            matches!(found, Some(Lookup::Missing))
        })
    }

    /// Whether an add-on on a cluster that is [`Look::NotOurs`] asks for nothing at all: one that is made of a
    /// template, where no template is named. Nothing can be said of one that nobody here answers for, or that is gone.
    pub(super) fn asks_for_nothing(&self, key: &str) -> Option<bool> {
        let (cluster, name) = cache::split_key(key);
        self.registry.get(name)?;
        let addon = self.addons.get(cluster, name)?;
        let mut references = addon.status.iter().flat_map(|it| &it.config_references);
        Some(!references.any(|it| it.group == AddOnTemplate::GROUP && it.resource == AddOnTemplate::PLURAL))
    }

    /// Has the key `cluster/add-on` of every add-on woken that [`look`](Self::look) may see differently from before:
    /// because of itself, of its cluster, of a configuration that it uses, or of a companion that comes or goes.
    pub fn watches(&self, watches: &mut Watches) {
        let registry = self.registry.clone();
        watches.wakes(&self.addons, move |old, new| match (old, new) {
            (Some(old), Some(new)) if differs(old, new) => vec![cache::key_of(new)],
            (Some(_), Some(_)) => Vec::new(),
            (one, other) => one
                .or(other)
                .map(|it| and_companions(&registry, it))
                .unwrap_or_default(),
        });
        let (addons, registry) = (self.addons.clone(), self.registry.clone());
        watches.wakes(&self.clusters, move |old, new| {
            let Some(name) = new.or(old).and_then(|it| it.metadata.name.clone()) else {
                return Vec::new();
            };
            let all = addons.list_in(&name);
            let concerned = all.iter().filter(|addon| {
                let name = addon.metadata.name.as_deref().unwrap_or_default();
                concerns(|| registry.get(name), old, new)
            });
            concerned.map(|it| cache::key_of(&**it)).collect()
        });
        self.configs.watches_of_addons(watches);
    }
}

#[cfg(test)]
impl Context {
    /// Over these clusters and add-ons and nothing else.
    pub(super) fn holding(
        clusters: impl IntoIterator<Item = ManagedCluster>,
        addons: impl IntoIterator<Item = ManagedClusterAddOn>,
    ) -> Self {
        let caches = Caches::unfed();
        caches.of::<ManagedCluster>().fill(clusters);
        caches.of::<ManagedClusterAddOn>().fill(addons);
        let hub = HubInfo::clone(&AddOnContext::new("", "").hub);
        Self::over(&caches, hub, Options::default())
    }
}

/// What the hub's other controllers and the cluster's agent say about how far an add-on is. It is said several times
/// while an add-on starts, and nothing is made of it here.
const SAID_BY_OTHERS: [&str; 3] = [
    managed_cluster_add_on::PROGRESSING,
    managed_cluster_add_on::CERTIFICATE_ROTATED,
    managed_cluster_add_on::TOKEN_REFRESHED,
];

// The key of an add-on that has come or gone, and of those on its cluster that it makes a difference to.
fn and_companions(registry: &Registry, it: &ManagedClusterAddOn) -> Vec<String> {
    let (cluster, name) = (it.metadata.namespace.as_deref(), it.metadata.name.as_deref());
    let mut keys = vec![cache::key_of(it)];
    if let (Some(cluster), Some(name)) = (cluster, name) {
        let concerned = registry.companions_of(name);
        keys.extend(concerned.iter().map(|it| format!("{cluster}/{it}")));
    }
    keys
}

// Whether an add-on reads otherwise than before to whoever deploys it and lets its agent in.
fn differs(old: &ManagedClusterAddOn, new: &ManagedClusterAddOn) -> bool {
    let told = |it: &ManagedClusterAddOn| {
        let mut status = it.status.clone().unwrap_or_default();
        status
            .conditions
            .retain(|it| !SAID_BY_OTHERS.contains(&it.type_.as_str()));
        for reference in &mut status.config_references {
            reference.last_observed_generation = 0;
        }
        status
    };
    let (before, after) = (&old.metadata, &new.metadata);
    old.spec != new.spec
        || (&before.uid, &before.deletion_timestamp, &before.finalizers)
            != (&after.uid, &after.deletion_timestamp, &after.finalizers)
        || (&before.labels, &before.annotations, &before.owner_references)
            != (&after.labels, &after.annotations, &after.owner_references)
        || (old.status != new.status && told(old) != told(new))
}

// Whether what becomes of a cluster concerns an add-on on it.
fn concerns(entry: impl FnOnce() -> Option<Entry>, old: Option<&ManagedCluster>, new: Option<&ManagedCluster>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) if !moved(old, new) => entry().is_some_and(|it| it.add_on.redeploys_on(old, new)),
        _ => true,
    }
}

// Whether the cluster comes, goes, is accepted, or is heard of differently from before.
fn moved(old: &ManagedCluster, new: &ManagedCluster) -> bool {
    let available = |it: &ManagedCluster| {
        let conditions = it.status.as_ref().map(|it| it.conditions.as_slice());
        condition::status(conditions.unwrap_or_default(), managed_cluster::AVAILABLE)
    };
    old.metadata.uid != new.metadata.uid
        || old.metadata.deletion_timestamp.is_some() != new.metadata.deletion_timestamp.is_some()
        || old.spec.hub_accepts_client != new.spec.hub_accepts_client
        || available(old) != available(new)
}

// Who is hosted is told so, one way or the other.
fn was_hosted(addon: &ManagedClusterAddOn) -> bool {
    let conditions = addon.status.as_ref().map(|it| it.conditions.as_slice());
    condition::find(
        conditions.unwrap_or_default(),
        managed_cluster_add_on::HOSTING_CLUSTER_VALIDITY,
    )
    .is_some()
}

fn install_namespace(chosen: &str) -> String {
    if chosen.is_empty() {
        namespaces::AGENT_ADDON.to_owned()
    } else {
        chosen.to_owned()
    }
}

#[cfg(test)]
#[path = "context_tests.rs"]
mod tests;
