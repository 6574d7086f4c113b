//! Which clusters a Policy is bound to, by which PlacementBindings, and with which overrides. Plain functions.
//! Upstream: governance-policy-propagator `controllers/common/`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::{
        cluster::{Placement, PlacementDecision},
        policy::{
            self, PlacementBinding, PlacementRule, Policy, PolicyExclusion, PolicyPlacement, PolicySet,
            RemainingBinding,
        },
    },
};

/// What chooses clusters for a PlacementBinding, as it is now.
#[derive(Clone, Default)]
pub struct ChosenClusters {
    /// Whether the Placement, or the PlacementRule, is there.
    pub exists: bool,
    /// The PlacementDecisions of the Placement.
    pub decisions: Vec<Arc<PlacementDecision>>,
    /// The PlacementRule, which has its decisions in itself.
    pub rule: Option<Arc<PlacementRule>>,
}

/// A PlacementBinding that concerns a Policy.
#[derive(Clone)]
pub struct Binding {
    /// The object.
    pub object: Arc<PlacementBinding>,
    /// What it refers to.
    pub chosen: ChosenClusters,
}

/// What binds one Policy.
#[derive(Clone, Default)]
pub struct Bound {
    /// The bindings that name the Policy, or a PolicySet with it, in the order of their names.
    pub bindings: Vec<Binding>,
    /// The PolicySets that the bindings name, by name.
    pub sets: BTreeMap<String, Arc<PolicySet>>,
}

/// Which way a PlacementBinding leads to a Policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path<'a> {
    Directly,
    By(&'a str),
}

impl ChosenClusters {
    /// The names of the clusters.
    pub fn clusters(&self) -> impl Iterator<Item = &str> {
        let by_placement = self.decisions.iter().flat_map(|it| named_in(it));
        let by_rule = self
            .rule
            .iter()
            .flat_map(|it| it.status.iter().flat_map(|it| &it.decisions));
        by_placement.chain(by_rule.map(|it| it.cluster_name.as_str()))
    }
}

/// The names of the clusters in a PlacementDecision.
pub fn named_in(decision: &PlacementDecision) -> impl Iterator<Item = &str> {
    let decisions = decision.status.iter().flat_map(|it| &it.decisions);
    decisions.map(|it| it.cluster_name.as_str())
}

/// Whether a reference is one to a Placement or to a PlacementRule, by group and kind. Others are ignored.
pub fn is_valid(reference: &policy::binding::PlacementRef) -> bool {
    is_placement(reference) || is_rule(reference)
}

/// Whether a reference is one to a Placement.
pub fn is_placement(reference: &policy::binding::PlacementRef) -> bool {
    reference.kind == Placement::KIND && reference.api_group == Placement::GROUP
}

/// Whether a reference is one to a PlacementRule.
pub fn is_rule(reference: &policy::binding::PlacementRef) -> bool {
    reference.kind == PlacementRule::KIND && reference.api_group == PlacementRule::GROUP
}

/// The clusters for which a PolicySet leaves a Policy out.
pub fn excluded<'a>(set: &'a PolicySet, policy: &'a str) -> BTreeSet<&'a str> {
    let of = set.spec.exclusions.iter().filter(|it| it.policy_name == policy);
    of.flat_map(|it| &it.cluster_names).map(String::as_str).collect()
}

/// Whether a Policy is one of a PolicySet.
pub fn is_member(set: &PolicySet, policy: &str) -> bool {
    set.spec.policies.iter().any(|it| it == policy)
}

impl Binding {
    fn is_restricted(&self) -> bool {
        self.object.sub_filter == PlacementBinding::RESTRICTED
    }

    fn overrides(&self) -> Option<&str> {
        let action = self.object.binding_overrides.remediation_action.as_str();
        action.eq_ignore_ascii_case("enforce").then_some(action)
    }
}

impl Bound {
    /// The entries of `status.placement` of the Policy, sorted, and its clusters with the bindings that choose each.
    pub fn placements(&self, policy: &Policy) -> (Vec<PolicyPlacement>, BTreeMap<String, BTreeSet<String>>) {
        let mut placements = Vec::new();
        let mut clusters: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for restricted in [false, true] {
            for binding in self.bindings.iter().filter(|it| it.is_restricted() == restricted) {
                let entries = self.entries(binding, policy);
                if entries.is_empty() || !is_valid(&binding.object.placement_ref) {
                    continue;
                }
                let mut adds_to_others = false;
                if !policy.spec.disabled {
                    for cluster in binding.chosen.clusters() {
                        let of = clusters.entry(cluster.to_owned()).or_default();
                        adds_to_others |= !of.is_empty();
                        of.insert(binding.object.name_any());
                    }
                }
                if !restricted || adds_to_others {
                    placements.extend(entries);
                }
            }
        }
        placements.sort_by_cached_key(|it| {
            let PolicyPlacement {
                placement_binding,
                placement,
                placement_rule,
                policy_set,
                ..
            } = it;
            format!("{placement_binding} {placement} {placement_rule} {policy_set}")
        });
        (placements, clusters)
    }

    /// The entries of one binding: one for the Policy itself, one for each PolicySet with it.
    fn entries(&self, binding: &Binding, policy: &Policy) -> Vec<PolicyPlacement> {
        let reference = &binding.object.placement_ref;
        let name = if binding.chosen.exists {
            reference.name.clone()
        } else {
            String::new()
        };
        let (placement, placement_rule) = match is_rule(reference) {
            true => (String::new(), name),
            false => (name, String::new()),
        };
        let of = PolicyPlacement {
            placement_binding: binding.object.name_any(),
            placement,
            placement_rule,
            ..PolicyPlacement::default()
        };
        let policy = policy.name_any();
        let paths = self.paths(binding, &policy).into_iter();
        let entry = |path| match path {
            Path::Directly => of.clone(),
            Path::By(name) => PolicyPlacement {
                policy_set: name.to_owned(),
                exclusions: self
                    .sets
                    .get(name)
                    .map(|it| exclusions(it, &policy))
                    .unwrap_or_default(),
                ..of.clone()
            },
        };
        paths.map(entry).collect()
    }

    fn paths<'a>(&'a self, binding: &'a Binding, policy: &str) -> Vec<Path<'a>> {
        let mut paths = Vec::new();
        for subject in binding
            .object
            .subjects
            .iter()
            .filter(|it| it.api_group == policy::GROUP)
        {
            let path = match subject.kind.as_str() {
                Policy::KIND if subject.name == policy => Path::Directly,
                PolicySet::KIND if self.sets.get(&subject.name).is_some_and(|it| is_member(it, policy)) => {
                    Path::By(&subject.name)
                }
                _ => continue,
            };
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// Whether the Policy is to be on a cluster, and with which remediation action instead of its own.
    pub fn on(&self, policy: &str, cluster: &str) -> Option<Option<&str>> {
        let selecting = |restricted: bool| {
            let bindings = self.bindings.iter().filter(move |it| it.is_restricted() == restricted);
            bindings.filter(|it| self.selects(it, policy, cluster))
        };
        let mut first = selecting(false).peekable();
        first.peek()?;
        Some(first.chain(selecting(true)).find_map(Binding::overrides))
    }

    /// Whether a binding chooses a cluster for the Policy by a path on which nobody excludes it.
    fn selects(&self, binding: &Binding, policy: &str, cluster: &str) -> bool {
        let is_open = |path: &Path| match path {
            Path::Directly => true,
            Path::By(set) => self
                .sets
                .get(*set)
                .is_some_and(|it| !excluded(it, policy).contains(cluster)),
        };
        is_valid(&binding.object.placement_ref)
            && binding.chosen.clusters().any(|it| it == cluster)
            && self.paths(binding, policy).iter().any(is_open)
    }

    /// All clusters that the bindings choose, whatever excludes them.
    pub fn clusters(&self) -> BTreeSet<&str> {
        self.bindings.iter().flat_map(|it| it.chosen.clusters()).collect()
    }
}

fn exclusions(set: &PolicySet, policy: &str) -> Vec<PolicyExclusion> {
    let names = excluded(set, policy).into_iter();
    names
        .map(|it| PolicyExclusion {
            cluster_name: it.to_owned(),
        })
        .collect()
}

/// The bindings that choose a cluster although a PolicySet excludes it.
pub fn remaining(placements: &[PolicyPlacement], cluster: &str, choosing: &BTreeSet<String>) -> Vec<RemainingBinding> {
    let excludes =
        |it: &&PolicyPlacement| !it.policy_set.is_empty() && it.exclusions.iter().any(|it| it.cluster_name == cluster);
    let excluding: BTreeSet<&str> = placements
        .iter()
        .filter(excludes)
        .map(|it| it.placement_binding.as_str())
        .collect();
    if excluding.is_empty() {
        return Vec::new();
    }
    let others = choosing.iter().filter(|it| !excluding.contains(it.as_str()));
    others
        .map(|it| RemainingBinding {
            placement_binding: it.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy() -> Policy {
        serde_json::from_value(
            json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"disabled": false, "policy-templates": []}}),
        )
        .unwrap()
    }

    fn binding(name: &str, clusters: &[&str], more: Value) -> Binding {
        let mut object = json!({
            "metadata": {"namespace": "ns", "name": name},
            "placementRef": {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "all"},
            "subjects": [{"apiGroup": "policy.open-cluster-management.io", "kind": "Policy", "name": "p"}],
        });
        object
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let decisions: Vec<Value> = clusters
            .iter()
            .map(|it| json!({"clusterName": it, "reason": ""}))
            .collect();
        let decision = json!({"metadata": {}, "status": {"decisions": decisions}});
        let decisions = vec![Arc::new(serde_json::from_value(decision).unwrap())];
        Binding {
            object: Arc::new(serde_json::from_value(object).unwrap()),
            chosen: ChosenClusters {
                exists: true,
                decisions,
                rule: None,
            },
        }
    }

    fn by_set(name: &str, clusters: &[&str]) -> Binding {
        let subjects = json!([{"apiGroup": "policy.open-cluster-management.io", "kind": "PolicySet", "name": "s"}]);
        binding(name, clusters, json!({ "subjects": subjects }))
    }

    fn bound(bindings: Vec<Binding>) -> Bound {
        let set = json!({
            "metadata": {"namespace": "ns", "name": "s"},
            "spec": {"policies": ["p"], "exclusions": [{"policyName": "p", "clusterNames": ["c2", "c2"]}]},
        });
        let sets = BTreeMap::from([("s".to_owned(), Arc::new(serde_json::from_value(set).unwrap()))]);
        Bound { bindings, sets }
    }

    #[test]
    fn a_restricted_binding_overrides_and_chooses_none() {
        let enforce = json!({"subFilter": "restricted", "bindingOverrides": {"remediationAction": "Enforce"}});
        let bound = bound(vec![
            binding("b1", &["c1"], json!({})),
            binding("b2", &["c1", "c2"], enforce),
        ]);
        assert_eq!(bound.on("p", "c1"), Some(Some("Enforce")));
        assert_eq!(bound.on("p", "c2"), None);
        let (placements, clusters) = bound.placements(&policy());
        assert_eq!(placements.len(), 2);
        assert_eq!(clusters.keys().collect::<Vec<_>>(), ["c1", "c2"]);
    }

    #[test]
    fn a_restricted_binding_alone_is_not_listed() {
        let bound = bound(vec![
            binding("b1", &["c1"], json!({})),
            binding("b2", &["c2"], json!({"subFilter": "restricted"})),
        ]);
        let (placements, _) = bound.placements(&policy());
        assert_eq!(placements.len(), 1, "{placements:?}");
    }

    #[test]
    fn a_set_excludes_only_on_its_own_path() {
        let alone = bound(vec![by_set("b1", &["c1", "c2"])]);
        assert_eq!((alone.on("p", "c1"), alone.on("p", "c2")), (Some(None), None));
        let both = bound(vec![by_set("b1", &["c1", "c2"]), binding("b2", &["c2"], json!({}))]);
        assert_eq!(both.on("p", "c2"), Some(None));
        let (placements, clusters) = both.placements(&policy());
        assert_eq!(placements[0].policy_set, "s");
        assert_eq!(placements[0].exclusions.len(), 1);
        let rest = remaining(&placements, "c2", &clusters["c2"]);
        assert_eq!(
            rest.iter().map(|it| it.placement_binding.as_str()).collect::<Vec<_>>(),
            ["b2"]
        );
        assert_eq!(remaining(&placements, "c1", &clusters["c1"]), []);
    }

    #[test]
    fn references_of_other_groups_are_ignored() {
        let rule = json!({"apiGroup": "cluster.open-cluster-management.io", "kind": "PlacementRule", "name": "all"});
        let bound = bound(vec![binding("b1", &["c1"], json!({ "placementRef": rule }))]);
        assert_eq!(bound.on("p", "c1"), None);
        assert_eq!(bound.placements(&policy()).0, []);
    }

    #[test]
    fn a_placement_that_is_missing_stays_an_entry() {
        let mut missing = binding("b1", &[], json!({}));
        missing.chosen.exists = false;
        let (placements, clusters) = bound(vec![missing]).placements(&policy());
        assert_eq!(
            (
                placements[0].placement_binding.as_str(),
                placements[0].placement.as_str()
            ),
            ("b1", "")
        );
        assert!(clusters.is_empty());
    }

    #[test]
    fn a_disabled_policy_keeps_its_placements() {
        let mut disabled = policy();
        disabled.spec.disabled = true;
        let (placements, clusters) = bound(vec![binding("b1", &["c1"], json!({}))]).placements(&disabled);
        assert_eq!((placements.len(), clusters.len()), (1, 0));
    }
}
