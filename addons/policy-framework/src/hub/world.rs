//! What the controllers of the hub read, and which Policies a change concerns.

use std::{collections::BTreeSet, sync::Arc};

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::{
        cluster::{ManagedCluster, Placement, PlacementDecision},
        labels::PLACEMENT,
        policy::{self, PlacementBinding, PlacementRule, Policy, PolicySet, labels},
    },
    reconcile::{
        Cache, Caches, Index,
        cache::{Watching, key_of},
    },
};

use super::{
    bound::{self, Binding, Bound, ChosenClusters},
    replica, sharing,
};

/// The caches. Cloning shares them.
#[derive(Clone)]
pub struct PolicyWorld {
    /// Roots and replicas.
    pub policies: Cache<Policy>,
    /// PlacementBindings.
    pub bindings: Cache<PlacementBinding>,
    /// PolicySets.
    pub sets: Cache<PolicySet>,
    /// Placements.
    pub placements: Cache<Placement>,
    /// Their decisions.
    pub decisions: Cache<PlacementDecision>,
    /// PlacementRules, where their definition is there.
    pub rules: Cache<PlacementRule>,
    /// ManagedClusters.
    pub clusters: Cache<ManagedCluster>,
    replicas: Index<Policy>,
    roots: Index<Policy>,
    chosen: Index<PlacementDecision>,
}

/// All roots are under one key.
const ROOTS: &str = "";

impl PolicyWorld {
    /// Over these caches. Without `rules`, PlacementRules are not looked at.
    pub fn new(caches: &Caches, rules: bool) -> Self {
        caches.beside(|caches| {
            let caches = caches.clone().shaped(sharing::shape());
            let (policies, decisions) = (caches.of(), caches.of());
            Self {
                replicas: Index::over(&policies, |it: &Policy| it.labels().get(labels::ROOT_POLICY).cloned()),
                roots: Index::over(&policies, |it: &Policy| {
                    (!it.labels().contains_key(labels::ROOT_POLICY)).then(|| ROOTS.to_owned())
                }),
                chosen: Index::over(&decisions, placement_key),
                policies,
                decisions,
                bindings: caches.of(),
                sets: caches.of(),
                placements: caches.of(),
                rules: if rules {
                    // Where their definition is missing they may come later.
                    caches.watching(Watching {
                        forbidden_at_first: true,
                        ..Watching::default()
                    })
                } else {
                    Cache::empty()
                },
                clusters: caches.of(),
            }
        })
    }

    /// Whether a namespace is that of a ManagedCluster.
    pub fn is_cluster(&self, namespace: &str) -> bool {
        self.clusters.named(namespace).is_some()
    }

    /// The replicas of a Policy, by the name that they have.
    pub fn replicas_of(&self, name: &str) -> Vec<Arc<Policy>> {
        self.replicas.objects(name)
    }

    /// What binds a Policy.
    pub fn bound(&self, namespace: &str, name: &str) -> Bound {
        let mut all = Bound::default();
        for object in self.bindings.list_in(namespace) {
            let mut concerns = false;
            for subject in object.subjects.iter().filter(|it| it.api_group == policy::GROUP) {
                if subject.kind == Policy::KIND {
                    concerns |= subject.name == name;
                } else if subject.kind == PolicySet::KIND
                    && let Some(set) = self.sets.get(namespace, &subject.name)
                    && bound::is_member(&set, name)
                {
                    concerns = true;
                    all.sets.insert(subject.name.clone(), set);
                }
            }
            if concerns {
                let chosen = self.chosen(&object);
                all.bindings.push(Binding { object, chosen });
            }
        }
        all
    }

    /// What a PlacementBinding refers to.
    pub fn chosen(&self, binding: &PlacementBinding) -> ChosenClusters {
        let namespace = binding.namespace().unwrap_or_default();
        let reference = &binding.placement_ref;
        if bound::is_placement(reference) {
            // Decisions without their Placement are about to be deleted.
            let exists = self.placements.get(&namespace, &reference.name).is_some();
            let of = || self.chosen.objects(&format!("{namespace}/{}", reference.name));
            let decisions = if exists { of() } else { Vec::new() };
            return ChosenClusters {
                exists,
                decisions,
                rule: None,
            };
        }
        if bound::is_rule(reference) {
            let rule = self.rules.get(&namespace, &reference.name);
            return ChosenClusters {
                exists: rule.is_some(),
                decisions: Vec::new(),
                rule,
            };
        }
        ChosenClusters::default()
    }

    /// The keys of the Policies that a PlacementBinding names, themselves or by a PolicySet.
    pub fn policies_of_binding(&self, binding: &PlacementBinding) -> BTreeSet<String> {
        let namespace = binding.namespace().unwrap_or_default();
        let mut keys = BTreeSet::new();
        for subject in binding.subjects.iter().filter(|it| it.api_group == policy::GROUP) {
            if subject.kind == Policy::KIND {
                keys.insert(format!("{namespace}/{}", subject.name));
            } else if subject.kind == PolicySet::KIND
                && let Some(set) = self.sets.get(&namespace, &subject.name)
            {
                keys.extend(policies_of_set(&set));
            }
        }
        keys
    }

    /// The PlacementBindings that refer to an object of this name.
    pub fn bindings_to(
        &self,
        namespace: &str,
        name: &str,
        is_it: fn(&policy::binding::PlacementRef) -> bool,
    ) -> Vec<Arc<PlacementBinding>> {
        let mut all = self.bindings.list_in(namespace);
        all.retain(|it| it.placement_ref.name == name && is_it(&it.placement_ref));
        all
    }

    /// The keys of the Policies that such PlacementBindings name.
    pub fn policies_of_placement(
        &self,
        namespace: &str,
        name: &str,
        is_it: fn(&policy::binding::PlacementRef) -> bool,
    ) -> BTreeSet<String> {
        let all = self.bindings_to(namespace, name, is_it);
        all.iter().flat_map(|it| self.policies_of_binding(it)).collect()
    }

    /// The roots that depend on a PolicySet.
    pub fn roots_depending_on(&self, set: &PolicySet) -> Vec<Arc<Policy>> {
        let name = (set.namespace().unwrap_or_default(), set.name_any());
        let mut all = self.roots.objects(ROOTS);
        all.retain(|it| replica::sets_of(it).contains(&name));
        all
    }

    /// The keys of the replicas of the Policy with this key: those that are there, and those that are to be.
    pub fn replica_keys(&self, root: &str) -> BTreeSet<String> {
        let Some((namespace, name)) = root.split_once('/') else {
            return BTreeSet::new();
        };
        let replica = format!("{namespace}.{name}");
        let bound = self.bound(namespace, name);
        let there = self.replicas.names(&replica);
        let wanted = bound.clusters();
        let clusters = there.iter().map(|(cluster, _)| cluster.as_str()).chain(wanted);
        clusters.map(|it| format!("{it}/{replica}")).collect()
    }

    /// The keys of the replicas of several Policies on some clusters.
    pub fn replicas_on<'a>(roots: &BTreeSet<String>, clusters: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut keys = Vec::new();
        for cluster in clusters {
            let on = roots.iter().map(|it| format!("{cluster}/{}", it.replacen('/', ".", 1)));
            keys.extend(on);
        }
        keys
    }
}

/// The keys of the Policies of a PolicySet.
pub fn policies_of_set(set: &PolicySet) -> impl Iterator<Item = String> {
    let namespace = set.namespace().unwrap_or_default();
    set.spec.policies.iter().map(move |it| format!("{namespace}/{it}"))
}

/// The Placement of a PlacementDecision: `NAMESPACE/NAME`.
pub fn placement_key(decision: &PlacementDecision) -> Option<String> {
    let name = decision.labels().get(PLACEMENT)?;
    Some(format!("{}/{name}", decision.namespace()?))
}

/// The clusters that one PlacementDecision names and the other does not.
pub fn moved<'a>(old: Option<&'a PlacementDecision>, new: Option<&'a PlacementDecision>) -> BTreeSet<&'a str> {
    let before: BTreeSet<&str> = old.into_iter().flat_map(bound::named_in).collect();
    let after: BTreeSet<&str> = new.into_iter().flat_map(bound::named_in).collect();
    before.symmetric_difference(&after).copied().collect()
}

/// The clusters that one PlacementRule names and the other does not.
pub fn moved_by_rule<'a>(old: Option<&'a PlacementRule>, new: Option<&'a PlacementRule>) -> BTreeSet<&'a str> {
    let of = |it: Option<&'a PlacementRule>| -> BTreeSet<&'a str> {
        let decisions = it
            .into_iter()
            .flat_map(|it| it.status.iter().flat_map(|it| &it.decisions));
        decisions.map(|it| it.cluster_name.as_str()).collect()
    };
    of(old).symmetric_difference(&of(new)).copied().collect()
}

/// Whether a Policy is one that the propagator made, or says that it is.
pub fn is_replica(policy: &Policy) -> bool {
    policy.labels().contains_key(labels::ROOT_POLICY)
}

/// The key of the root of a replica.
pub fn root_key(replica: &Policy) -> Option<String> {
    let label = replica.labels().get(labels::ROOT_POLICY)?;
    let (namespace, name) = replica::root_of(label)?;
    Some(format!("{namespace}/{name}"))
}

/// The key of an object, where one of two is there.
pub fn key_of_either(old: Option<&Policy>, new: Option<&Policy>) -> Option<String> {
    new.or(old).map(key_of)
}
