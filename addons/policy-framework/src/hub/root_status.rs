//! Says in a Policy what binds it, and what its clusters say.
//!
//! Root: Policy. Reads: PlacementBindings, PolicySets, Placements and their decisions, PlacementRules, the replicas.
//! Writes: the status of roots; deletes Policies in the namespaces of clusters that nobody has propagated. Never:
//! replicas. Upstream: governance-policy-propagator `controllers/rootpolicystatus`,
//! `controllers/propagator/rootpolicy_controller.go`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::{ComplianceState, Policy, PolicyOnCluster, PolicyStatus},
    reconcile::{
        EventKind, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Watches, async_trait, cache::split_key,
        rbac::Right,
    },
};

use super::{
    bound::{self, Bound},
    events, metrics,
    world::{self, PolicyWorld},
};

/// The reconciler.
pub struct RootStatus {
    world: PolicyWorld,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// When the run began.
    pub begun: Instant,
    /// The Policy; `None` when it is gone.
    pub policy: Option<Arc<Policy>>,
    /// Whether its namespace is a ManagedCluster's.
    pub in_cluster: bool,
    /// What binds it.
    pub bound: Bound,
    /// The states of its replicas, by their clusters.
    pub states: BTreeMap<String, Option<ComplianceState>>,
}

impl RootStatus {
    /// Over these caches.
    pub fn new(world: PolicyWorld) -> Self {
        Self { world }
    }
}

#[async_trait]
impl Reconciler for RootStatus {
    const NAME: &'static str = "policy-root-status";
    const WORKERS: usize = 4;
    const STATUS: &'static [StatusField] = &[
        StatusField::new(Policy::KIND, "placement"),
        StatusField::new(Policy::KIND, "status"),
        StatusField::new(Policy::KIND, "compliant"),
    ];
    const RIGHTS: &'static [Right] = &[
        Right::new(
            Policy::GROUP,
            "policies/status",
            "patch",
            "What clusters say of a Policy.",
        ),
        Right::new(
            Policy::GROUP,
            "policies",
            "delete",
            "Policies that nobody has propagated leave the namespaces of clusters.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let [by_binding, by_set, by_placement, by_decision, by_rule, by_cluster] = [(); 6].map(|()| self.world.clone());
        watches
            .wakes(&self.world.policies, |old, new| {
                let Some(either) = new.or(old) else { return Vec::new() };
                if !world::is_replica(either) {
                    return world::key_of_either(old, new).into_iter().collect();
                }
                let state = |it: &Policy| it.status.as_ref().and_then(|it| it.compliant);
                let roots = [old, new].into_iter().flatten().filter_map(world::root_key);
                // Of a replica only its state is told.
                if old.map(state) == new.map(state) {
                    Vec::new()
                } else {
                    roots.collect()
                }
            })
            .wakes(&self.world.bindings, move |old, new| {
                let both = old.into_iter().chain(new);
                both.flat_map(|it| by_binding.policies_of_binding(it))
                    .collect::<BTreeSet<_>>()
            })
            .wakes(&self.world.sets, move |old, new| {
                if old.map(|it| &it.spec) == new.map(|it| &it.spec) {
                    return BTreeSet::new();
                }
                let _ = &by_set;
                old.into_iter().chain(new).flat_map(world::policies_of_set).collect()
            })
            .wakes(&self.world.placements, move |old, new| match (old, new) {
                (Some(_), Some(_)) => BTreeSet::new(),
                (None, None) => BTreeSet::new(),
                (Some(it), None) | (None, Some(it)) => by_placement.policies_of_placement(
                    &it.namespace().unwrap_or_default(),
                    &it.name_any(),
                    bound::is_placement,
                ),
            })
            .wakes(&self.world.decisions, move |old, new| {
                if world::moved(old, new).is_empty() {
                    return BTreeSet::new();
                }
                let placements = old.into_iter().chain(new).filter_map(world::placement_key);
                placements
                    .flat_map(|it| {
                        let (namespace, name) = split_key(&it);
                        by_decision.policies_of_placement(namespace, name, bound::is_placement)
                    })
                    .collect()
            })
            .wakes(&self.world.rules, move |old, new| {
                if old.is_some() == new.is_some() && world::moved_by_rule(old, new).is_empty() {
                    return BTreeSet::new();
                }
                let both = old.into_iter().chain(new);
                both.flat_map(|it| {
                    by_rule.policies_of_placement(&it.namespace().unwrap_or_default(), &it.name_any(), bound::is_rule)
                })
                .collect()
            })
            .not_awaited()
            .wakes(&self.world.clusters, move |old, new| match (old, new) {
                // Whether a Policy of its namespace may be there depends on whether it is a cluster's.
                (None, Some(it)) | (Some(it), None) => {
                    let all = by_cluster.policies.list_in(&it.name_any());
                    all.iter()
                        .filter_map(|it| world::key_of_either(None, Some(it)))
                        .collect()
                }
                _ => Vec::new(),
            });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let begun = Instant::now();
        let (namespace, name) = split_key(key);
        let policy = self.world.policies.get(namespace, name);
        let mut states = BTreeMap::new();
        let mut bound = Bound::default();
        if policy.is_some() {
            bound = self.world.bound(namespace, name);
            let replica = format!("{namespace}.{name}");
            for one in self.world.replicas_of(&replica) {
                if one.name_any() == replica {
                    let state = one.status.as_ref().and_then(|it| it.compliant);
                    states.insert(one.namespace().unwrap_or_default(), state);
                }
            }
        }
        Ok(Seen {
            now: Timestamp::now(),
            begun,
            in_cluster: self.world.is_cluster(namespace),
            policy,
            bound,
            states,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(policy) = seen.policy.as_deref() else {
            return plan;
        };
        if world::is_replica(policy) && (seen.in_cluster || seen.bound.bindings.is_empty()) {
            plan.remark("it is the replica of another Policy");
            return plan;
        }
        if seen.in_cluster {
            plan.delete(Site::Hub, policy);
            plan.remark("nobody has propagated it to this cluster");
            return plan;
        }
        let (placement, clusters) = seen.bound.placements(policy);
        let status: Vec<PolicyOnCluster> = clusters
            .iter()
            .map(|(cluster, choosing)| PolicyOnCluster {
                compliant: seen.states.get(cluster).copied().flatten(),
                clustername: cluster.clone(),
                clusternamespace: cluster.clone(),
                remaining_bindings: bound::remaining(&placement, cluster, choosing),
            })
            .collect();
        let before = policy.status.clone().unwrap_or_default();
        let was_on_clusters = !before.status.is_empty();
        let mut new = policy.clone();
        let compliant = overall(status.iter().map(|it| it.compliant));
        new.status = Some(PolicyStatus {
            placement,
            status,
            compliant,
            details: before.details,
        });
        plan.status(Site::Hub, policy, &new);
        if policy.spec.disabled && was_on_clusters {
            let note = format!(
                "Policy {}/{} was disabled",
                policy.namespace().unwrap_or_default(),
                policy.name_any()
            );
            plan.stage()
                .push(events::about(policy, EventKind::Normal, note, seen.now));
        }
        plan
    }

    fn remember(&self, seen: &Seen, _: &Outcome) {
        if seen.policy.as_deref().is_some_and(|it| !world::is_replica(it)) {
            metrics::handled(seen.begun.elapsed());
        }
    }
}

/// The state of all: NonCompliant before Pending before nothing before Compliant; nothing without any.
pub fn overall(states: impl IntoIterator<Item = Option<ComplianceState>>) -> Option<ComplianceState> {
    let states: Vec<_> = states.into_iter().collect();
    let any = |state| states.contains(&state);
    if any(Some(ComplianceState::NonCompliant)) {
        Some(ComplianceState::NonCompliant)
    } else if any(Some(ComplianceState::Pending)) {
        Some(ComplianceState::Pending)
    } else if states.is_empty() || any(None) {
        None
    } else {
        Some(ComplianceState::Compliant)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::replica, *};

    fn seen(policy: serde_json::Value) -> Seen {
        Seen {
            now: Timestamp::UNIX_EPOCH,
            begun: Instant::now(),
            policy: Some(Arc::new(serde_json::from_value(policy).unwrap())),
            in_cluster: false,
            bound: Bound::default(),
            states: BTreeMap::new(),
        }
    }

    #[test]
    fn a_state_that_nobody_knows_is_not_compliant() {
        use ComplianceState::{Compliant, NonCompliant, Pending};
        assert_eq!(overall([]), None);
        assert_eq!(overall([Some(Compliant), Some(Compliant)]), Some(Compliant));
        assert_eq!(overall([Some(Compliant), None]), None);
        assert_eq!(overall([Some(Pending), None]), Some(Pending));
        assert_eq!(overall([Some(Pending), Some(NonCompliant), None]), Some(NonCompliant));
    }

    #[test]
    fn a_policy_that_nobody_propagated_leaves_a_cluster() {
        let mut stray = seen(
            json!({"metadata": {"namespace": "c1", "name": "p", "uid": "u"}, "spec": {"disabled": false, "policy-templates": []}}),
        );
        assert_eq!(format!("{:#}", RootStatus::plan(&stray)).matches("delete").count(), 0);
        stray.in_cluster = true;
        assert!(format!("{:#}", RootStatus::plan(&stray)).contains("hub: delete Policy c1/p"));
    }

    #[test]
    fn that_it_was_disabled_is_told_once() {
        let disabled = |status: serde_json::Value| {
            seen(json!({
                "metadata": {"namespace": "ns", "name": "p"}, "spec": {"disabled": true, "policy-templates": []}, "status": status,
            }))
        };
        let on =
            disabled(json!({"compliant": "Compliant", "status": [{"clustername": "c1", "clusternamespace": "c1"}]}));
        let text = format!("{:#}", RootStatus::plan(&on));
        assert!(text.contains("Policy ns/p was disabled"), "{text}");
        assert!(RootStatus::plan(&disabled(json!({}))).is_empty());
    }

    #[test]
    fn replicas_are_named_by_namespace_and_name() {
        let policy = seen(
            json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"disabled": false, "policy-templates": []}}),
        );
        assert_eq!(replica::name_of(policy.policy.as_deref().unwrap()), "ns.p");
    }
}
