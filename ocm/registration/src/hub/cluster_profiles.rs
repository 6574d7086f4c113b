//! How a cluster looks to programs that speak the multicluster SIG's API: one ClusterProfile in every namespace that has a
//! set of the cluster bound to it.
//!
//! Root: ClusterProfile, by `namespace/cluster`. Reads: its ManagedCluster, the namespace, the bindings there and their
//! ManagedClusterSets. Writes: the profile, its three labels, its `status.version` and `status.properties`, conditions
//! `ControlPlaneHealthy` and `Joined`. Never: `status.accessProviders`, which add-ons write, nor a profile of another manager.
//! Upstream: ocm `pkg/registration/hub/clusterprofile`, two controllers, one by namespace and one by cluster. We differ in two
//! things: a changed label or set moves profiles at once, not at the next resync, and while `default` or `global` is made
//! anew its profiles stay.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Membership},
    condition::{self, ConditionUpdate},
    conditions::{cluster_profile, managed_cluster, managed_cluster_set_binding},
    labels,
    multicluster::{
        ClusterManagerReference, ClusterProfile, ClusterProfileSpec, ClusterProfileStatus, ClusterVersion, Property,
    },
    namespaces,
};
use ocm_reconcile::{Cache, ObserveError, Plan, Queue, Reconciler, Site, async_trait, cache::key_of, cache::split_key};
use parking_lot::RwLock;

use super::Caches;

/// For how long the profiles of a set stay that the hub itself is about to make anew.
const HOLD: SignedDuration = SignedDuration::from_secs(30);

/// The reconciler.
pub struct ClusterProfiles {
    client: Client,
    caches: Caches,
    profiles: Cache<ClusterProfile>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// Where the profile is, or would be.
    pub namespace: String,
    /// The profile; `None` when there is none.
    pub profile: Option<Arc<ClusterProfile>>,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// The bindings of the namespace.
    pub bindings: Vec<Arc<ManagedClusterSetBinding>>,
    /// The sets that these name, as far as they exist.
    pub sets: Vec<Arc<ManagedClusterSet>>,
    /// Whether the namespace takes new objects. Looked at only where there is no profile yet.
    pub open: bool,
}

impl ClusterProfiles {
    /// Over these caches.
    pub fn new(client: Client, caches: &Caches, profiles: &Cache<ClusterProfile>) -> Self {
        Self {
            client,
            caches: caches.clone(),
            profiles: profiles.clone(),
        }
    }
}

/// Where sets are bound and where profiles are, kept for the moment in which a cluster changes.
#[derive(Clone, Default)]
struct Index {
    /// Namespaces by the set that is bound there.
    bound: Arc<RwLock<BTreeMap<String, BTreeSet<String>>>>,
    /// Namespaces by the name of a profile there.
    present: Arc<RwLock<BTreeMap<String, BTreeSet<String>>>>,
}

impl Index {
    fn namespaces(map: &RwLock<BTreeMap<String, BTreeSet<String>>>, name: &str) -> BTreeSet<String> {
        map.read().get(name).cloned().unwrap_or_default()
    }

    fn note(map: &RwLock<BTreeMap<String, BTreeSet<String>>>, name: String, namespace: String, is_there: bool) {
        let mut map = map.write();
        let namespaces = map.entry(name.clone()).or_default();
        if is_there {
            namespaces.insert(namespace);
        } else {
            namespaces.remove(&namespace);
        }
        if namespaces.is_empty() {
            map.remove(&name);
        }
    }
}

/// Profiles, and whatever decides that there is one or what it says. Profiles that are there are looked at with every change
/// that may end them: two changes that cross each other then leave none behind.
pub fn subscribe(caches: &Caches, profiles: &Cache<ClusterProfile>, queue: &Queue) {
    let index = Index::default();
    let present = index.present.clone();
    profiles.listen(move |old, new| {
        let Some(it) = new.or(old) else { return };
        Index::note(
            &present,
            it.name_any(),
            it.namespace().unwrap_or_default(),
            new.is_some(),
        );
    });
    let bound = index.bound.clone();
    caches.set_bindings.listen(move |old, new| {
        let Some(it) = new.or(old) else { return };
        let namespace = it.namespace().unwrap_or_default();
        // A binding may have been made anew for another set before anybody looked.
        for it in old.into_iter() {
            Index::note(&bound, it.spec.cluster_set.clone(), namespace.clone(), false);
        }
        for it in new.into_iter() {
            Index::note(&bound, it.spec.cluster_set.clone(), namespace.clone(), true);
        }
    });

    profiles.subscribe_by_name(queue);

    let (of_clusters, sets) = (index.clone(), caches.sets.clone());
    caches.clusters.subscribe(queue, move |old, new| {
        let mut keys = BTreeSet::new();
        let Some(cluster) = new.or(old) else { return keys };
        if old.zip(new).is_some_and(|(old, new)| !shows(old, new)) {
            return keys;
        }
        let name = cluster.name_any();
        let mut namespaces = Index::namespaces(&of_clusters.present, &name);
        for set in sets.list() {
            let members = Membership::of([&*set]);
            if [old, new].into_iter().flatten().any(|it| members.has(it)) {
                namespaces.extend(Index::namespaces(&of_clusters.bound, &set.name_any()));
            }
        }
        keys.extend(namespaces.into_iter().map(|it| format!("{it}/{name}")));
        keys
    });

    let (clusters, all) = (caches.clusters.clone(), profiles.clone());
    caches.sets.subscribe(queue, move |old, new| {
        let mut keys = Vec::new();
        let Some(set) = new.or(old) else { return keys };
        if old.zip(new).is_some_and(|(old, new)| old.spec == new.spec) {
            return keys;
        }
        let members = Membership::of([old, new].into_iter().flatten());
        for namespace in Index::namespaces(&index.bound, &set.name_any()) {
            keys.extend(keys_in(&namespace, &members, &clusters, &all));
        }
        keys
    });

    let (clusters, sets, all) = (caches.clusters.clone(), caches.sets.clone(), profiles.clone());
    caches.set_bindings.subscribe(queue, move |old, new| {
        let Some(binding) = new.or(old) else { return Vec::new() };
        if old
            .zip(new)
            .is_some_and(|(old, new)| is_bound(old) == is_bound(new) && old.spec == new.spec)
        {
            return Vec::new();
        }
        let set = sets.named(&binding.spec.cluster_set);
        let members = Membership::of(set.as_deref());
        keys_in(&binding.namespace().unwrap_or_default(), &members, &clusters, &all)
    });
}

/// The profiles of a namespace that are there, and those that there may be now.
fn keys_in(
    namespace: &str,
    members: &Membership<'_>,
    clusters: &Cache<ManagedCluster>,
    profiles: &Cache<ClusterProfile>,
) -> Vec<String> {
    let present = profiles.list_in(namespace);
    let wanted = clusters.list();
    let wanted = wanted.iter().filter(|it| members.has(it));
    present
        .iter()
        .map(|it| key_of(&**it))
        .chain(wanted.map(|it| format!("{namespace}/{}", it.name_any())))
        .collect()
}

/// Whether a change of a cluster shows in its profiles. Most do not: capacity, taints, other conditions.
fn shows(old: &ManagedCluster, new: &ManagedCluster) -> bool {
    let status = |it: &ManagedCluster| {
        let it = it.status.clone().unwrap_or_default();
        let condition = |type_| condition::find(&it.conditions, type_).cloned();
        let (available, joined) = (
            condition(managed_cluster::AVAILABLE),
            condition(managed_cluster::JOINED),
        );
        (it.version, it.cluster_claims, available, joined)
    };
    old.metadata.uid != new.metadata.uid
        || old.metadata.labels != new.metadata.labels
        || old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
        || status(old) != status(new)
}

fn is_bound(binding: &ManagedClusterSetBinding) -> bool {
    let conditions = binding.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::is_true(conditions, managed_cluster_set_binding::BOUND)
}

#[async_trait]
impl Reconciler for ClusterProfiles {
    const NAME: &'static str = "cluster-profile";
    type Seen = Seen;

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let profile = self.profiles.get(namespace, name);
        let cluster = self.caches.clusters.named(name);
        let bindings = self.caches.set_bindings.list_in(namespace);
        let sets = bindings
            .iter()
            .filter_map(|it| self.caches.sets.named(&it.spec.cluster_set));
        let sets = sets.collect();
        let open = if profile.is_none() && cluster.is_some() && !bindings.is_empty() {
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            let found = namespaces.get_metadata_opt(namespace).await?;
            found.is_some_and(|it| it.metadata.deletion_timestamp.is_none())
        } else {
            false
        };
        Ok(Seen {
            now: Timestamp::now(),
            namespace: namespace.to_owned(),
            profile,
            cluster,
            bindings,
            sets,
            open,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if let Some(it) = seen.profile.as_deref() {
            if it.metadata.deletion_timestamp.is_some() {
                return plan;
            }
            let manager = &it.spec.cluster_manager.name;
            if manager != namespaces::CLUSTER_PROFILE_MANAGER {
                plan.remark(format!("a profile of the cluster manager {manager:?} is not ours"));
                return plan;
            }
        }
        let cluster = seen.cluster.as_deref();
        match cluster.filter(|it| it.metadata.deletion_timestamp.is_none()) {
            Some(cluster) => match standing(seen, cluster) {
                Standing::ConditionUpdate => show(&mut plan, seen, cluster),
                Standing::Held(until) => {
                    plan.wait("a set that the hub makes anew is missing");
                    if let Some(it) = until.and_then(|it| it.duration_since(seen.now).try_into().ok()) {
                        plan.look_again(it);
                    }
                }
                Standing::Unwanted => remove(&mut plan, seen),
            },
            None => remove(&mut plan, seen),
        }
        plan
    }
}

/// What the namespace's bindings say about a cluster.
#[derive(Debug, PartialEq, Eq)]
enum Standing {
    ConditionUpdate,
    Unwanted,
    /// One of the hub's own sets is missing, for a moment: what there is stays, until then.
    Held(Option<Timestamp>),
}

fn standing(seen: &Seen, cluster: &ManagedCluster) -> Standing {
    let mut standing = Standing::Unwanted;
    for binding in &seen.bindings {
        let wanted = &binding.spec.cluster_set;
        match seen.sets.iter().find(|it| it.name_any() == *wanted) {
            Some(set) if is_bound(binding) && Membership::of([&**set]).has(cluster) => {
                return Standing::ConditionUpdate;
            }
            Some(_) => {}
            None if ![namespaces::DEFAULT_CLUSTER_SET, namespaces::GLOBAL_CLUSTER_SET].contains(&wanted.as_str()) => {}
            None => {
                let conditions = binding.status.as_ref().map_or(&[][..], |it| &it.conditions);
                let until = match condition::find(conditions, managed_cluster_set_binding::BOUND) {
                    // Nobody has noticed yet; the binding will tell.
                    Some(it) if it.status == "True" => None,
                    Some(it) => it.last_transition_time.0.checked_add(HOLD).ok(),
                    None => continue,
                };
                if until.is_none_or(|it| seen.now < it) {
                    standing = Standing::Held(until);
                }
            }
        }
    }
    standing
}

/// One write at a time: the next is made when this one has come back.
fn show(plan: &mut Plan, seen: &Seen, cluster: &ManagedCluster) {
    let name = cluster.name_any();
    let own = [
        (labels::CLUSTER_MANAGER, namespaces::CLUSTER_PROFILE_MANAGER.to_owned()),
        (labels::CLUSTER_NAME, name.clone()),
        (
            labels::PROFILE_CLUSTER_SET,
            cluster.labels().get(labels::CLUSTER_SET).cloned().unwrap_or_default(),
        ),
    ]
    .map(|(key, value)| (key.to_owned(), value));
    let Some(profile) = seen.profile.as_deref() else {
        if !seen.open {
            plan.wait(format!("namespace {} takes no new objects", seen.namespace));
            return;
        }
        let spec = ClusterProfileSpec {
            display_name: name.clone(),
            cluster_manager: ClusterManagerReference {
                name: namespaces::CLUSTER_PROFILE_MANAGER.to_owned(),
            },
        };
        let mut profile = ClusterProfile::new(&name, spec);
        profile.metadata.namespace = Some(seen.namespace.clone());
        profile.labels_mut().extend(own);
        plan.create(Site::Hub, &profile);
        return;
    };
    let mut labelled = profile.clone();
    labelled.labels_mut().extend(own);
    if plan.change(Site::Hub, profile, &labelled).is_some() {
        return;
    }
    let mut told = profile.clone();
    tell(told.status.get_or_insert_default(), cluster, seen.now);
    plan.status(Site::Hub, profile, &told);
}

fn tell(status: &mut ClusterProfileStatus, cluster: &ManagedCluster, now: Timestamp) {
    let of_cluster = cluster.status.clone().unwrap_or_default();
    status.version = ClusterVersion {
        kubernetes: of_cluster.version.kubernetes,
    };
    // What the profile's schema refuses would keep everything else from being told.
    let fits = |text: &str, most: usize| (1..=most).contains(&text.chars().count());
    let claims = of_cluster.cluster_claims.into_iter();
    let claims = claims.filter(|it| fits(&it.name, 253) && fits(&it.value, 1024));
    status.properties = claims
        .map(|it| Property {
            name: it.name,
            value: it.value,
            last_observed_time: None,
        })
        .collect();
    for (from, to) in [
        (managed_cluster::AVAILABLE, cluster_profile::CONTROL_PLANE_HEALTHY),
        (managed_cluster::JOINED, cluster_profile::JOINED),
    ] {
        let Some(found) = condition::find(&of_cluster.conditions, from) else {
            continue;
        };
        let status_of = condition::status(&of_cluster.conditions, from).unwrap_or(condition::Status::Unknown);
        let wanted = ConditionUpdate {
            r#type: to.to_owned(),
            status: status_of,
            reason: found.reason.clone(),
            message: found.message.clone(),
            observed_generation: None,
        };
        condition::set(&mut status.conditions, wanted, now);
    }
}

/// Only what carries our label: others may have made a profile in our name for a cluster that is none of ours.
fn remove(plan: &mut Plan, seen: &Seen) {
    let label = |it: &ClusterProfile| it.labels().get(labels::CLUSTER_MANAGER).cloned();
    let ours = |it: &&ClusterProfile| label(it).is_some_and(|it| it == namespaces::CLUSTER_PROFILE_MANAGER);
    if let Some(profile) = seen.profile.as_deref().filter(ours) {
        plan.delete(Site::Hub, profile);
    }
}

#[cfg(test)]
#[path = "cluster_profiles_tests.rs"]
mod tests;
