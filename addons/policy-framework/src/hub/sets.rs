//! Says in a PolicySet what binds it and what its Policies say.
//!
//! Root: PolicySet. Reads: PlacementBindings, what they refer to, Policies. Writes: its status, Events about it.
//! Upstream: governance-policy-propagator `controllers/policyset`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::policy::{
        self, ComplianceState, Policy, PolicySet,
        set::{PolicySetPlacement, PolicySetStatus, PolicySetStatusExclusion},
    },
    reconcile::{
        EventKind, EventStep, ObserveError, Plan, Reconciler, Site, StatusField, Step, Watches, async_trait,
        cache::{key_of, split_key},
        rbac::Right,
    },
};
use serde_json::json;

use super::{
    bound::{self, Binding},
    world::{self, PolicyWorld},
};

/// The reconciler.
pub struct Sets {
    world: PolicyWorld,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The PolicySet; `None` when it is gone.
    pub set: Option<Arc<PolicySet>>,
    /// The bindings that name it.
    pub bindings: Vec<Binding>,
    /// Its Policies that are there.
    pub policies: BTreeMap<String, Arc<Policy>>,
}

impl Sets {
    /// Over these caches.
    pub fn new(world: PolicyWorld) -> Self {
        Self { world }
    }
}

fn names_set(binding: &policy::PlacementBinding, set: &str) -> bool {
    let subjects = binding.subjects.iter().filter(|it| it.api_group == policy::GROUP);
    subjects
        .into_iter()
        .any(|it| it.kind == PolicySet::KIND && it.name == set)
}

fn sets_of(binding: &policy::PlacementBinding) -> impl Iterator<Item = String> {
    let namespace = binding.namespace().unwrap_or_default();
    let subjects = binding.subjects.iter();
    let sets = subjects.filter(|it| it.api_group == policy::GROUP && it.kind == PolicySet::KIND);
    sets.map(move |it| format!("{namespace}/{}", it.name))
}

#[async_trait]
impl Reconciler for Sets {
    const NAME: &'static str = "policy-sets";
    const STATUS: &'static [StatusField] = &[
        StatusField::new(PolicySet::KIND, "placement"),
        StatusField::new(PolicySet::KIND, "compliant"),
        StatusField::new(PolicySet::KIND, "statusMessage"),
        StatusField::new(PolicySet::KIND, "exclusions"),
    ];
    const RIGHTS: &'static [Right] = &[Right::new(
        PolicySet::GROUP,
        "policysets/status",
        "patch",
        "What the Policies of a set say.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let [by_policy, by_placement, by_decision, by_rule] = [(); 4].map(|()| self.world.clone());
        watches
            .root(&self.world.sets)
            .wakes(&self.world.policies, move |old, new| {
                let Some(either) = new.or(old).filter(|it| !world::is_replica(it)) else {
                    return Vec::new();
                };
                let said = |it: &Policy| (it.spec.disabled, it.status.clone());
                if old.map(said) == new.map(said) {
                    return Vec::new();
                }
                let name = either.name_any();
                let sets = by_policy.sets.list_in(&either.namespace().unwrap_or_default());
                sets.iter()
                    .filter(|it| bound::is_member(it, &name))
                    .map(|it| key_of(&**it))
                    .collect()
            })
            .wakes(&self.world.bindings, |old, new| {
                old.into_iter().chain(new).flat_map(sets_of).collect::<BTreeSet<_>>()
            })
            .wakes(&self.world.placements, move |old, new| match (old, new) {
                (None, Some(it)) | (Some(it), None) => {
                    let all = by_placement.bindings_to(
                        &it.namespace().unwrap_or_default(),
                        &it.name_any(),
                        bound::is_placement,
                    );
                    all.iter().flat_map(|it| sets_of(it)).collect()
                }
                _ => BTreeSet::new(),
            })
            .wakes(&self.world.decisions, move |old, new| {
                let placements = old.into_iter().chain(new).filter_map(world::placement_key);
                let mut keys = BTreeSet::new();
                for placement in placements {
                    let (namespace, name) = split_key(&placement);
                    let all = by_decision.bindings_to(namespace, name, bound::is_placement);
                    keys.extend(all.iter().flat_map(|it| sets_of(it)));
                }
                keys
            })
            .wakes(&self.world.rules, move |old, new| {
                let mut keys = BTreeSet::new();
                for it in old.into_iter().chain(new) {
                    let all = by_rule.bindings_to(&it.namespace().unwrap_or_default(), &it.name_any(), bound::is_rule);
                    keys.extend(all.iter().flat_map(|it| sets_of(it)));
                }
                keys
            })
            .not_awaited();
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (namespace, name) = split_key(key);
        let set = self.world.sets.get(namespace, name);
        let (mut bindings, mut policies) = (Vec::new(), BTreeMap::new());
        if let Some(set) = &set {
            for object in self.world.bindings.list_in(namespace) {
                if names_set(&object, name) {
                    let chosen = self.world.chosen(&object);
                    bindings.push(Binding { object, chosen });
                }
            }
            let named = set.spec.policies.iter();
            policies.extend(named.filter_map(|it| Some((it.clone(), self.world.policies.get(namespace, it)?))));
        }
        Ok(Seen {
            now: Timestamp::now(),
            set,
            bindings,
            policies,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(set) = seen.set.as_deref() else {
            return plan;
        };
        let mut new = set.clone();
        new.status = Some(status(set, seen));
        if plan.status(Site::Hub, set, &new).is_none() {
            return plan;
        }
        let (namespace, name) = (set.namespace().unwrap_or_default(), set.name_any());
        plan.stage();
        for policy in set.spec.policies.iter().filter(|it| !seen.policies.contains_key(*it)) {
            let note =
                format!("Policy {policy} is in PolicySet {name} but could not be found in namespace {namespace}");
            plan.push(event(set, (EventKind::Warning, "PolicyNotFound"), note, seen.now));
        }
        let note = format!("Status successfully updated for policySet {name} in namespace {namespace}");
        plan.push(event(set, (EventKind::Normal, "PolicySetStatusUpdate"), note, seen.now));
        plan
    }
}

fn event(set: &PolicySet, (kind, reason): (EventKind, &str), note: String, at: Timestamp) -> Step {
    let namespace = set.namespace().unwrap_or_default();
    Step::Event(EventStep {
        site: Site::Hub,
        namespace: namespace.clone(),
        regarding: json!({
            "apiVersion": PolicySet::API_VERSION, "kind": PolicySet::KIND,
            "namespace": namespace, "name": set.name_any(), "uid": set.uid(),
        }),
        related: None,
        kind,
        reason: reason.to_owned(),
        action: reason.to_owned(),
        note,
        reporting_controller: "policy-set".to_owned(),
        at,
    })
}

/// The status as it is to be.
fn status(set: &PolicySet, seen: &Seen) -> PolicySetStatus {
    if set.spec.policies.is_empty() {
        return PolicySetStatus::default();
    }
    let mut status = PolicySetStatus {
        exclusions: exclusions(set),
        ..PolicySetStatus::default()
    };
    let mut clusters = BTreeSet::new();
    for binding in seen
        .bindings
        .iter()
        .filter(|it| bound::is_valid(&it.object.placement_ref))
    {
        let reference = &binding.object.placement_ref;
        let name = if binding.chosen.exists {
            reference.name.clone()
        } else {
            String::new()
        };
        let is_rule = bound::is_rule(reference);
        let (placement, placement_rule) = if is_rule {
            (String::new(), name)
        } else {
            (name, String::new())
        };
        let placement_binding = binding.object.name_any();
        status.placement.push(PolicySetPlacement {
            placement_binding,
            placement,
            placement_rule,
        });
        clusters.extend(binding.chosen.clusters());
    }
    let [mut pending, mut disabled, mut unknown, mut deleted] = [(); 4].map(|()| Vec::new());
    let mut states = Vec::new();
    for name in &set.spec.policies {
        let Some(policy) = seen.policies.get(name) else {
            deleted.push(name.as_str());
            continue;
        };
        if policy.spec.disabled {
            disabled.push(name.as_str());
            continue;
        }
        let state = state_in_set(set, policy, &clusters);
        match state {
            Some(ComplianceState::Pending) => pending.push(name.as_str()),
            None => unknown.push(name.as_str()),
            Some(_) => {}
        }
        states.push(state);
    }
    status.compliant = super::root_status::overall(states);
    if seen.policies.is_empty() {
        status.placement.clear();
    }
    let mut parts = Vec::new();
    for (text, names) in [
        ("Policies awaiting pending dependencies", pending),
        ("Disabled policies", disabled),
        ("No status provided while awaiting policy status", unknown),
        ("Deleted policies", deleted),
    ] {
        if !names.is_empty() {
            parts.push(format!("{text}: {}", names.join(", ")));
        }
    }
    if parts.is_empty() {
        parts.push("All policies are reporting status".to_owned());
    }
    if !status.exclusions.is_empty() {
        parts.push("One or more policies were excluded. For details, see status.exclusions.".to_owned());
    }
    status.status_message = parts.join("; ");
    status
}

/// What a Policy says on the clusters of the set that the set does not exclude for it.
fn state_in_set(set: &PolicySet, policy: &Policy, clusters: &BTreeSet<&str>) -> Option<ComplianceState> {
    let name = policy.name_any();
    let excluded = bound::excluded(set, &name);
    let said = policy.status.iter().flat_map(|it| &it.status);
    let counts = |name: &str| clusters.contains(name) && !excluded.contains(name);
    // Who has said nothing yet is not asked about as long as another one has.
    let states = said.filter(|it| counts(&it.clustername)).filter_map(|it| it.compliant);
    super::root_status::overall(states.map(Some))
}

fn exclusions(set: &PolicySet) -> Vec<PolicySetStatusExclusion> {
    let names: BTreeSet<&str> = set.spec.exclusions.iter().map(|it| it.policy_name.as_str()).collect();
    let of = |name: &str| PolicySetStatusExclusion {
        policy_name: name.to_owned(),
        clusters: bound::excluded(set, name).into_iter().map(str::to_owned).collect(),
    };
    names.into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn policy(name: &str, disabled: bool, states: &[(&str, &str)]) -> (String, Arc<Policy>) {
        let states: Vec<Value> = states
            .iter()
            .map(|(on, state)| json!({"clustername": on, "clusternamespace": on, "compliant": state}))
            .collect();
        let object = json!({
            "metadata": {"namespace": "ns", "name": name}, "spec": {"disabled": disabled, "policy-templates": []}, "status": {"status": states},
        });
        (name.to_owned(), Arc::new(serde_json::from_value(object).unwrap()))
    }

    fn seen(policies: Vec<(String, Arc<Policy>)>, exclusions: Value) -> Seen {
        let set = json!({"metadata": {"namespace": "ns", "name": "s"}, "spec": {"policies": ["a", "b"], "exclusions": exclusions}});
        let binding = json!({
            "metadata": {"namespace": "ns", "name": "b1"},
            "placementRef": {"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "all"},
            "subjects": [{"apiGroup": "policy.open-cluster-management.io", "kind": "PolicySet", "name": "s"}],
        });
        let decision = json!({"metadata": {}, "status": {"decisions": [{"clusterName": "c1"}, {"clusterName": "c2"}]}});
        let decisions = vec![Arc::new(serde_json::from_value(decision).unwrap())];
        Seen {
            now: Timestamp::UNIX_EPOCH,
            set: Some(Arc::new(serde_json::from_value(set).unwrap())),
            bindings: vec![Binding {
                object: Arc::new(serde_json::from_value(binding).unwrap()),
                chosen: bound::ChosenClusters {
                    exists: true,
                    decisions,
                    rule: None,
                },
            }],
            policies: policies.into_iter().collect(),
        }
    }

    fn said(seen: &Seen) -> Value {
        serde_json::to_value(status(seen.set.as_deref().unwrap(), seen)).unwrap()
    }

    #[test]
    fn a_set_says_what_its_policies_say() {
        let compliant = policy("a", false, &[("c1", "Compliant"), ("c2", "Compliant")]);
        let violated = policy("b", false, &[("c1", "NonCompliant"), ("elsewhere", "Pending")]);
        assert_eq!(
            said(&seen(vec![compliant, violated], json!([]))),
            json!({
                "compliant": "NonCompliant",
                "placement": [{"placementBinding": "b1", "placement": "all"}],
                "statusMessage": "All policies are reporting status",
            })
        );
    }

    #[test]
    fn exclusions_count_for_their_policy_alone() {
        let violated = policy("a", false, &[("c1", "Compliant"), ("c2", "NonCompliant")]);
        let other = policy("b", false, &[("c1", "Compliant"), ("c2", "Compliant")]);
        let status = said(&seen(
            vec![violated, other],
            json!([{"policyName": "a", "clusterNames": ["c2"]}]),
        ));
        assert_eq!(status["compliant"], "Compliant");
        assert_eq!(
            status["statusMessage"],
            "All policies are reporting status; One or more policies were excluded. For details, see status.exclusions."
        );
        assert_eq!(status["exclusions"], json!([{"policyName": "a", "clusters": ["c2"]}]));
    }

    #[test]
    fn what_says_nothing_is_named_and_hides_the_state() {
        let pending = policy("a", false, &[("c1", "Pending")]);
        let status = said(&seen(vec![pending.clone(), policy("b", true, &[])], json!([])));
        assert_eq!(
            status["statusMessage"],
            "Policies awaiting pending dependencies: a; Disabled policies: b"
        );
        assert_eq!(status["compliant"], "Pending");
        let status = said(&seen(vec![policy("a", false, &[("c1", "")])], json!([])));
        assert_eq!(
            status["statusMessage"],
            "No status provided while awaiting policy status: a; Deleted policies: b"
        );
        assert_eq!(status.get("compliant"), None);
    }
}
