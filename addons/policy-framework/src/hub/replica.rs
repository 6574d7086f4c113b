//! The copy of a Policy for one cluster. Plain functions.
//! Upstream: governance-policy-propagator `controllers/propagator/replication.go`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    kube::ResourceExt,
    ocm_api::policy::{Policy, PolicyDependency, PolicySet, annotations, labels},
};

/// PolicySets by namespace and name.
pub type Sets = BTreeMap<(String, String), Arc<PolicySet>>;

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// `NAMESPACE.NAME`, the name of a Policy's replicas.
pub fn name_of(root: &Policy) -> String {
    format!("{}.{}", root.namespace().unwrap_or_default(), root.name_any())
}

/// Namespace and name of the Policy that a replica of this name is a copy of. `None` when it cannot be one.
pub fn root_of(name: &str) -> Option<(&str, &str)> {
    let (namespace, name) = name.split_once('.')?;
    (!namespace.is_empty() && !name.is_empty()).then_some((namespace, name))
}

/// The replica of a Policy for a cluster, with its templates as they are written.
pub fn build(root: &Policy, cluster: &str, overriding: Option<&str>, sets: &Sets) -> Policy {
    let name = name_of(root);
    let namespace = root.namespace().unwrap_or_default();
    let copies_all = root.spec.copy_policy_metadata.unwrap_or(true);
    let kept = |of: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        let is_kept = |key: &str| copies_all || key.starts_with(annotations::PREFIX);
        let kept = of.iter().filter(|(key, _)| is_kept(key));
        kept.map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let mut all_labels = kept(root.labels());
    for (key, value) in [
        (labels::CLUSTER_NAME, cluster),
        (labels::CLUSTER_NAMESPACE, cluster),
        (labels::ROOT_POLICY, name.as_str()),
    ] {
        all_labels.insert(key.to_owned(), value.to_owned());
    }
    let mut all_annotations = kept(root.annotations());
    all_annotations.remove(LAST_APPLIED);
    all_annotations.remove(annotations::TRIGGER_UPDATE);
    all_annotations.insert(
        annotations::ARGOCD_COMPARE_OPTIONS.to_owned(),
        "IgnoreExtraneous".to_owned(),
    );
    let mut spec = root.spec.clone();
    if let Some(action) = overriding
        && !spec.remediation_action.eq_ignore_ascii_case("enforce")
    {
        action.clone_into(&mut spec.remediation_action);
    }
    spec.dependencies = dependencies(&spec.dependencies, &namespace, sets);
    // Most have none, and share the list of their Policy.
    if spec.policy_templates.iter().any(|it| !it.extra_dependencies.is_empty()) {
        for template in spec.policy_templates.to_mut() {
            template.extra_dependencies = dependencies(&template.extra_dependencies, &namespace, sets);
        }
    }
    Policy {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(cluster.to_owned()),
            labels: Some(all_labels),
            annotations: Some(all_annotations),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

/// Whether two replicas say the same: labels, annotations and spec.
pub fn agree(one: &Policy, other: &Policy) -> bool {
    one.labels() == other.labels() && one.annotations() == other.annotations() && one.spec == other.spec
}

/// Dependencies as they are named on clusters: Policies by the names of their replicas, PolicySets by their Policies.
/// A PolicySet that is missing stays, so that the cluster can say what is waited for.
fn dependencies(of: &[PolicyDependency], namespace: &str, sets: &Sets) -> Vec<PolicyDependency> {
    let mut all = Vec::with_capacity(of.len());
    for one in of {
        let mut one = one.clone();
        if is_set(&one) {
            if one.namespace.is_empty() {
                namespace.clone_into(&mut one.namespace);
            }
            match sets.get(&(one.namespace.clone(), one.name.clone())) {
                None => all.push(one),
                Some(set) => all.extend(set.spec.policies.iter().map(|it| PolicyDependency {
                    api_version: Policy::API_VERSION.to_owned(),
                    kind: Policy::KIND.to_owned(),
                    name: format!("{}.{it}", one.namespace),
                    namespace: String::new(),
                    compliance: one.compliance.clone(),
                })),
            }
            continue;
        }
        let is_policy = one.kind == Policy::KIND && one.api_version == Policy::API_VERSION;
        if is_policy && !(one.namespace.is_empty() && one.name.contains('.')) {
            let of = if one.namespace.is_empty() {
                namespace
            } else {
                &one.namespace
            };
            one.name = format!("{of}.{}", one.name);
            one.namespace.clear();
        }
        all.push(one);
    }
    all
}

fn is_set(it: &PolicyDependency) -> bool {
    it.kind == PolicySet::KIND && it.api_version == PolicySet::API_VERSION
}

/// The PolicySets that a Policy depends on: namespaces and names.
pub fn sets_of(root: &Policy) -> BTreeSet<(String, String)> {
    let own = root.spec.dependencies.iter();
    let all = own.chain(root.spec.policy_templates.iter().flat_map(|it| &it.extra_dependencies));
    let namespace = root.namespace().unwrap_or_default();
    let named = all.filter(|it| is_set(it)).map(|it| {
        let of = if it.namespace.is_empty() {
            namespace.clone()
        } else {
            it.namespace.clone()
        };
        (of, it.name.clone())
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn root(spec: Value) -> Policy {
        let mut whole = json!({"disabled": false, "policy-templates": [{"objectDefinition": {"kind": "X"}}]});
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(json!({
            "metadata": {
                "namespace": "ns", "name": "p", "uid": "u", "resourceVersion": "7", "finalizers": ["f"],
                "labels": {"a": "b", "policy.open-cluster-management.io/l": "m"},
                "annotations": {
                    "x": "y", "policy.open-cluster-management.io/trigger-update": "now", LAST_APPLIED: "{}",
                    "policy.open-cluster-management.io/categories": "c",
                },
            },
            "spec": whole,
        }))
        .unwrap()
    }

    #[test]
    fn a_replica_has_names_and_labels_of_its_cluster() {
        let replica = build(&root(json!({})), "c1", None, &Sets::new());
        assert_eq!(
            (replica.namespace().as_deref(), replica.name_any().as_str()),
            (Some("c1"), "ns.p")
        );
        assert_eq!(
            serde_json::to_value(&replica.metadata).unwrap(),
            json!({
                "namespace": "c1", "name": "ns.p",
                "labels": {
                    "a": "b",
                    "policy.open-cluster-management.io/l": "m",
                    "policy.open-cluster-management.io/cluster-name": "c1",
                    "policy.open-cluster-management.io/cluster-namespace": "c1",
                    "policy.open-cluster-management.io/root-policy": "ns.p",
                },
                "annotations": {
                    "x": "y",
                    "policy.open-cluster-management.io/categories": "c",
                    "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
                },
            })
        );
    }

    #[test]
    fn metadata_of_others_is_left_out_on_demand() {
        let replica = build(&root(json!({"copyPolicyMetadata": false})), "c1", None, &Sets::new());
        assert!(!replica.labels().contains_key("a") && !replica.annotations().contains_key("x"));
        assert!(
            replica
                .annotations()
                .contains_key("policy.open-cluster-management.io/categories")
        );
    }

    #[test]
    fn an_override_is_taken_literally_unless_it_enforces_already() {
        let of = |own: &str| {
            let root = root(json!({ "remediationAction": own }));
            build(&root, "c1", Some("Enforce"), &Sets::new())
                .spec
                .remediation_action
        };
        assert_eq!(
            (of("inform").as_str(), of("").as_str(), of("enforce").as_str()),
            ("Enforce", "Enforce", "enforce")
        );
    }

    #[test]
    fn dependencies_are_named_as_on_clusters() {
        let policy = |name: &str, namespace: &str| json!({"apiVersion": Policy::API_VERSION, "kind": "Policy", "name": name, "namespace": namespace, "compliance": "Compliant"});
        let set = |name: &str| json!({"apiVersion": PolicySet::API_VERSION, "kind": "PolicySet", "name": name, "compliance": "Pending"});
        let other = json!({"apiVersion": "v1", "kind": "X", "name": "x", "namespace": "y", "compliance": "Compliant"});
        let root = root(json!({"dependencies": [
            policy("a", ""), policy("a", "other"), policy("n.a", ""), set("s"), set("missing"), other,
        ]}));
        assert_eq!(sets_of(&root).len(), 2);
        let object = json!({"metadata": {"namespace": "ns", "name": "s"}, "spec": {"policies": ["q", "r"]}});
        let sets = Sets::from([(
            ("ns".into(), "s".into()),
            Arc::new(serde_json::from_value(object).unwrap()),
        )]);
        let replica = build(&root, "c1", None, &sets);
        let all = replica.spec.dependencies.iter();
        let all: Vec<String> = all
            .map(|it| format!("{} {}/{} {}", it.kind, it.namespace, it.name, it.compliance))
            .collect();
        assert_eq!(
            all,
            [
                "Policy /ns.a Compliant",
                "Policy /other.a Compliant",
                "Policy /n.a Compliant",
                "Policy /ns.q Pending",
                "Policy /ns.r Pending",
                "PolicySet ns/missing Pending",
                "X y/x Compliant",
            ]
        );
    }

    #[test]
    fn names_without_a_namespace_are_no_replicas() {
        assert_eq!(root_of("ns.p.q"), Some(("ns", "p.q")));
        assert_eq!((root_of("p"), root_of(".p"), root_of("ns.")), (None, None, None));
    }
}
