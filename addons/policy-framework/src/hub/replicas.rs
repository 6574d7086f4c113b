//! Brings Policies to clusters: one replica of a Policy on one cluster at a time.
//!
//! Root: `CLUSTER/NAMESPACE.NAME`, a replica. Reads: its Policy, what binds that, PolicySets, ManagedClusters, what
//! templates look up. Writes: the replica, Events about the Policy. Never: the status of either.
//! Upstream: governance-policy-propagator `controllers/propagator/replicatedpolicy_controller.go`.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::{
        Policy,
        annotations::{ENCRYPTION_IV, HUB_TEMPLATES_ERROR},
    },
    reconcile::{
        EventKind, ObserveError, Outcome, Plan, Reconciler, Site, Watches, async_trait, cache::key_of,
        cache::split_key, caches::put_written, rbac::Right,
    },
};

use super::{
    bound, encryption, events, metrics, replica,
    templates::{self, Filled, HubTemplates},
    world::{self, PolicyWorld},
};

/// The reconciler.
pub struct Replicas {
    world: PolicyWorld,
    templates: HubTemplates,
}

/// What could not be read is tried again after this time.
const RETRY: Duration = Duration::from_secs(5);
/// What nothing tells of is tried again after this time.
const RETRY_UNTOLD: Duration = Duration::from_secs(30);

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The name of the cluster.
    pub cluster: String,
    /// The name of the replica.
    pub name: String,
    /// What is there; `None` when nothing is.
    pub replica: Option<Arc<Policy>>,
    /// The Policy that it is a copy of; `None` when that is gone.
    pub root: Option<Arc<Policy>>,
    /// Whether the namespace is a ManagedCluster's.
    pub in_cluster: bool,
    /// The replica as it is to be; `None` where the Policy is not bound to the cluster, or disabled.
    pub wanted: Option<Policy>,
    /// What became of its hub templates.
    pub filled: Filled,
    /// A key for the cluster, where it needs one.
    pub fresh_key: Vec<u8>,
}

impl Replicas {
    /// The name that it asks for watches with.
    pub const WHO: &'static str = "policy-replicas";

    /// Over these caches.
    pub fn new(world: PolicyWorld, templates: HubTemplates) -> Self {
        Self { world, templates }
    }
}

#[async_trait]
impl Reconciler for Replicas {
    const NAME: &'static str = Self::WHO;
    const WORKERS: usize = 10;
    const RIGHTS: &'static [Right] = &[
        Right::new(
            Policy::GROUP,
            "policies",
            "create patch delete",
            "Replicas of Policies in the namespaces of clusters.",
        ),
        Right::new(
            "",
            "secrets",
            "create",
            "The first replica with encrypted values makes the key of its cluster.",
        ),
        Right::new(
            "",
            "serviceaccounts/token",
            "create",
            "Hub templates look up with the rights that their Policy names.",
        ),
        Right::new("*", "*", "get list watch", "Hub templates look up objects of any kind."),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let [
            by_root,
            by_binding,
            by_set,
            by_placement,
            by_decision,
            by_rule,
            by_cluster,
            by_key,
        ] = [(); 8].map(|()| self.world.clone());
        watches
            .wakes(&self.world.policies, move |old, new| {
                let Some(either) = new.or(old) else {
                    return BTreeSet::new();
                };
                let is_same = |old: &Policy, new: &Policy| replica::agree(old, new);
                if old.zip(new).is_some_and(|(old, new)| is_same(old, new)) {
                    return BTreeSet::new();
                }
                if world::is_replica(either) || old.is_some_and(world::is_replica) {
                    return BTreeSet::from([key_of(either)]);
                }
                let mut keys = by_root.replica_keys(&key_of(either));
                // Where somebody has taken the label off a replica, it looks like a Policy of the cluster's namespace.
                if by_root.is_cluster(&either.namespace().unwrap_or_default()) {
                    keys.insert(key_of(either));
                }
                keys
            })
            .wakes(&self.world.bindings, move |old, new| {
                if old.zip(new).is_some_and(|(old, new)| is_same_binding(old, new)) {
                    return BTreeSet::new();
                }
                let roots: BTreeSet<String> = old
                    .into_iter()
                    .chain(new)
                    .flat_map(|it| by_binding.policies_of_binding(it))
                    .collect();
                roots.iter().flat_map(|it| by_binding.replica_keys(it)).collect()
            })
            .wakes(&self.world.sets, move |old, new| {
                if old.map(|it| &it.spec) == new.map(|it| &it.spec) {
                    return BTreeSet::new();
                }
                let mut roots: BTreeSet<String> = old.into_iter().chain(new).flat_map(world::policies_of_set).collect();
                let depending = new.or(old).map(|it| by_set.roots_depending_on(it));
                roots.extend(depending.into_iter().flatten().map(|it| key_of(&*it)));
                roots.iter().flat_map(|it| by_set.replica_keys(it)).collect()
            })
            .wakes(&self.world.placements, move |old, new| match (old, new) {
                (None, Some(it)) | (Some(it), None) => {
                    let (namespace, name) = (it.namespace().unwrap_or_default(), it.name_any());
                    let roots = by_placement.policies_of_placement(&namespace, &name, bound::is_placement);
                    roots.iter().flat_map(|it| by_placement.replica_keys(it)).collect()
                }
                _ => BTreeSet::new(),
            })
            .wakes(&self.world.decisions, move |old, new| {
                let moved = world::moved(old, new);
                if moved.is_empty() {
                    return Vec::new();
                }
                let placements = old.into_iter().chain(new).filter_map(world::placement_key);
                let roots = placements.flat_map(|it| {
                    let (namespace, name) = split_key(&it);
                    by_decision.policies_of_placement(namespace, name, bound::is_placement)
                });
                PolicyWorld::replicas_on(&roots.collect(), moved)
            })
            .wakes(&self.world.rules, move |old, new| {
                let moved = world::moved_by_rule(old, new);
                let Some(either) = new.or(old).filter(|_| !moved.is_empty()) else {
                    return Vec::new();
                };
                let namespace = either.namespace().unwrap_or_default();
                let roots = by_rule.policies_of_placement(&namespace, &either.name_any(), bound::is_rule);
                PolicyWorld::replicas_on(&roots, moved)
            })
            .not_awaited()
            .wakes(&self.world.clusters, move |old, new| {
                let it = new.or(old);
                if old.is_some() == new.is_some() && old.map(|it| it.labels()) == new.map(|it| it.labels()) {
                    return Vec::new();
                }
                let all = it.map(|it| by_cluster.policies.list_in(&it.name_any()));
                all.into_iter().flatten().map(|it| key_of(&*it)).collect()
            })
            .wakes(self.templates.keys(), move |_, new| {
                let all = new.map(|it| by_key.policies.list_in(&it.namespace().unwrap_or_default()));
                let all = all.into_iter().flatten();
                all.filter(|it| it.annotations().contains_key(ENCRYPTION_IV))
                    .map(|it| key_of(&*it))
                    .collect::<Vec<_>>()
            })
            .signal("what hub templates look up", {
                let templates = self.templates.clone();
                move |queue| templates.wake(queue)
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = split_key(key);
        let of = replica::root_of(name);
        let root = of.and_then(|(namespace, name)| self.world.policies.get(namespace, name));
        let replica = self.world.policies.get(cluster, name);
        let mut wanted = None;
        if let Some(root) = root.as_deref().filter(|it| !it.spec.disabled) {
            let bound = self
                .world
                .bound(&root.namespace().unwrap_or_default(), &root.name_any());
            if let Some(overriding) = bound.on(&root.name_any(), cluster) {
                let named = replica::sets_of(root).into_iter();
                let sets = named.filter_map(|it| Some((it.clone(), self.world.sets.get(&it.0, &it.1)?)));
                wanted = Some(replica::build(root, cluster, overriding, &sets.collect()));
            }
        }
        let mut filled = Filled::default();
        match (&root, &mut wanted) {
            (Some(root), Some(wanted)) => filled = self.templates.fill(key, root, wanted, replica.as_deref()).await?,
            _ => self.templates.forget(key),
        }
        let fresh_key = if filled.needs_key {
            encryption::new_key()?
        } else {
            Vec::new()
        };
        Ok(Seen {
            now: Timestamp::now(),
            cluster: cluster.to_owned(),
            name: name.to_owned(),
            in_cluster: self.world.is_cluster(cluster),
            replica,
            root,
            wanted,
            filled,
            fresh_key,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let replica = seen.replica.as_deref();
        let (Some(root), Some(wanted)) = (&seen.root, &seen.wanted) else {
            let Some(replica) = replica else { return plan };
            let is_of_ours = !replica::root_of(&seen.name).is_some_and(|_| world::is_replica(replica));
            // Another hub may have put it into a namespace that is no cluster of this one.
            let may_stay = !seen.in_cluster && !seen.root.as_ref().is_some_and(|it| it.spec.disabled);
            if may_stay && !is_of_ours {
                plan.remark("its namespace is no ManagedCluster of this hub, so another hub has made it");
            } else if world::is_replica(replica) {
                plan.delete(Site::Hub, replica);
            }
            return plan;
        };
        if seen.filled.needs_key {
            let secret = templates::key_secret(&seen.cluster, seen.fresh_key.clone(), encryption::written(seen.now));
            plan.create(Site::Hub, &secret);
            plan.wait("the cluster gets a key for encrypted values first");
            return plan;
        }
        if let Some(problem) = &seen.filled.problem {
            let told = |it: &Policy| {
                it.spec
                    .policy_templates
                    .iter()
                    .any(|it| says(&it.object_definition, problem))
            };
            // Once for each problem: a run that changes nothing says nothing.
            if !replica.is_some_and(told) {
                let note = format!("Failed to resolve templates for cluster {}: {problem}", seen.cluster);
                plan.push(events::about(root, EventKind::Warning, note, seen.now));
                plan.stage();
            }
        }
        if seen.filled.passing {
            plan.wait("what its templates look up cannot be read at the moment");
            plan.look_again(RETRY);
            return plan;
        }
        if seen.filled.again {
            plan.look_again(RETRY_UNTOLD);
        }
        let of = format!("Policy {}/{}", root.namespace().unwrap_or_default(), root.name_any());
        let note = match replica {
            None => {
                plan.create(Site::Hub, wanted);
                format!("{of} was propagated to cluster {}", seen.cluster)
            }
            Some(current) => {
                let mut new = current.clone();
                new.metadata.labels.clone_from(&wanted.metadata.labels);
                new.metadata.annotations.clone_from(&wanted.metadata.annotations);
                new.spec = wanted.spec.clone();
                if replica::agree(current, &new) || plan.change(Site::Hub, current, &new).is_none() {
                    return plan;
                }
                format!("{of} was updated for cluster {}", seen.cluster)
            }
        };
        plan.stage()
            .push(events::about(root, EventKind::Normal, note, seen.now));
        plan
    }

    fn remember(&self, seen: &Seen, outcome: &Outcome) {
        if !outcome.succeeded()
            && let Some((namespace, name)) = replica::root_of(&seen.name)
        {
            metrics::failed(namespace, name);
        }
        put_written(&self.world.policies, outcome);
        put_written(self.templates.keys(), outcome);
    }

    fn goes_on(seen: &Seen, outcome: &Outcome) -> bool {
        seen.filled.needs_key && outcome.succeeded()
    }
}

fn is_same_binding(
    old: &ocm_addon_sdk::ocm_api::policy::PlacementBinding,
    new: &ocm_addon_sdk::ocm_api::policy::PlacementBinding,
) -> bool {
    old.placement_ref == new.placement_ref
        && old.subjects == new.subjects
        && old.binding_overrides == new.binding_overrides
        && old.sub_filter == new.sub_filter
}

/// Whether a template says that this went wrong.
fn says(definition: &serde_json::Value, problem: &str) -> bool {
    definition["metadata"]["annotations"][HUB_TEMPLATES_ERROR] == problem
}

#[cfg(test)]
mod tests {
    use ocm_addon_sdk::ocm_api::policy::labels;
    use serde_json::json;

    use super::*;

    fn policy(namespace: &str, name: &str, labelled: bool) -> Policy {
        let labels = if labelled {
            json!({ labels::ROOT_POLICY: name })
        } else {
            json!({})
        };
        serde_json::from_value(json!({
            "metadata": {"namespace": namespace, "name": name, "labels": labels, "uid": "u"},
            "spec": {"disabled": false, "policy-templates": []},
        }))
        .unwrap()
    }

    fn seen(replica: Option<Policy>, root: Option<Policy>, bound: bool, in_cluster: bool) -> Seen {
        let root = root.map(Arc::new);
        let wanted = root
            .as_deref()
            .filter(|_| bound)
            .map(|it| replica::build(it, "c1", None, &replica::Sets::new()));
        Seen {
            now: Timestamp::UNIX_EPOCH,
            cluster: "c1".to_owned(),
            name: replica.as_ref().map_or("ns.p".to_owned(), |it| it.name_any()),
            replica: replica.map(Arc::new),
            root,
            in_cluster,
            wanted,
            filled: Filled::default(),
            fresh_key: Vec::new(),
        }
    }

    fn printed(seen: &Seen) -> String {
        format!("{:#}", Replicas::plan(seen))
    }

    #[test]
    fn a_bound_policy_is_propagated_and_told() {
        let text = printed(&seen(None, Some(policy("ns", "p", false)), true, true));
        assert!(text.contains("hub: create Policy c1/ns.p"), "{text}");
        assert!(text.contains("Policy ns/p was propagated to cluster c1"), "{text}");
    }

    #[test]
    fn what_is_changed_by_hand_is_put_back() {
        let root = policy("ns", "p", false);
        let mut by_hand = replica::build(&root, "c1", None, &replica::Sets::new());
        let quiet = seen(Some(by_hand.clone()), Some(root.clone()), true, true);
        assert!(Replicas::plan(&quiet).is_empty());
        by_hand.labels_mut().insert("own".to_owned(), "x".to_owned());
        by_hand.spec.remediation_action = "enforce".to_owned();
        let text = printed(&seen(Some(by_hand), Some(root), true, true));
        assert!(text.contains(r#""own":null"#), "{text}");
        assert!(text.contains("Policy ns/p was updated for cluster c1"), "{text}");
    }

    #[test]
    fn a_replica_goes_when_its_policy_is_not_bound() {
        let root = policy("ns", "p", false);
        let replica = || Some(policy("c1", "ns.p", true));
        assert!(printed(&seen(replica(), Some(root.clone()), false, true)).contains("hub: delete Policy c1/ns.p"));
        assert!(printed(&seen(replica(), None, false, true)).contains("hub: delete Policy c1/ns.p"));
        // A namespace of another hub's cluster.
        assert!(Replicas::plan(&seen(replica(), None, false, false)).is_empty());
        assert!(Replicas::plan(&seen(replica(), Some(root), false, false)).is_empty());
    }

    #[test]
    fn a_replica_without_namespace_in_its_name_goes() {
        let text = printed(&seen(Some(policy("c1", "p", true)), None, false, true));
        assert!(text.contains("hub: delete Policy c1/p"), "{text}");
    }

    #[test]
    fn a_policy_of_people_is_not_deleted_here() {
        assert!(Replicas::plan(&seen(Some(policy("c1", "ns.p", false)), None, false, true)).is_empty());
    }
}
