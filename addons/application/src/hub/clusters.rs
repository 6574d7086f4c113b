//! The clusters that a Subscription is for. Pure.
//! Upstream: multicloud-operators-subscription pkg/controller/mcmhub/placement.go and
//! pkg/placementrule/utils/placement.go.

use std::{collections::BTreeMap, sync::Arc};

use ocm_addon_sdk::{
    k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector,
    kube::ResourceExt,
    ocm_api::{
        apps::{ClusterName, Subscription},
        cluster::ManagedCluster,
        object::ObjectReference,
        selector::Selector,
    },
};

/// Clusters by name, and whether each is the hub itself; or why nobody knows them.
pub type SubscriptionClusters = Result<BTreeMap<String, bool>, String>;

/// The label of the cluster that the hub itself is.
const LOCAL_CLUSTER: &str = "local-cluster";

/// API versions that a reference to a Placement or PlacementRule may have.
const API_VERSIONS: [&str; 3] = [
    "apps.open-cluster-management.io/v1",
    "cluster.open-cluster-management.io/v1alpha1",
    "cluster.open-cluster-management.io/v1beta1",
];

/// How a Subscription says which clusters it is for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice<'a> {
    /// By a Placement or PlacementRule.
    Referenced(&'a ObjectReference),
    /// By their names.
    Named(&'a [ClusterName]),
    /// By their labels.
    Selected(&'a LabelSelector),
    /// Not at all.
    Nothing,
}

/// The kinds that choose clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementKind {
    /// Of the cluster group.
    Placement,
    /// Its predecessor.
    PlacementRule,
}

/// What of a Subscription's placement counts: the first that is set.
pub fn choice(subscription: &Subscription) -> Choice<'_> {
    let Some(placement) = &subscription.spec.placement else {
        return Choice::Nothing;
    };
    if let Some(reference) = &placement.placement_ref {
        Choice::Referenced(reference)
    } else if !placement.clusters.is_empty() {
        Choice::Named(&placement.clusters)
    } else if let Some(selector) = &placement.cluster_selector {
        Choice::Selected(selector)
    } else {
        Choice::Nothing
    }
}

/// Kind and name of what a reference is to, always in the namespace of the Subscription.
///
/// # Errors
/// In upstream's words, when it is to something else.
pub fn referenced(reference: &ObjectReference) -> Result<(PlacementKind, &str), String> {
    let is_known = reference.api_version.is_empty() || API_VERSIONS.contains(&reference.api_version.as_str());
    let kind = match reference.kind.as_str() {
        "Placement" => PlacementKind::Placement,
        "PlacementRule" | "" => PlacementKind::PlacementRule,
        _ => return Err(unsupported(reference)),
    };
    if is_known {
        Ok((kind, &reference.name))
    } else {
        Err(unsupported(reference))
    }
}

/// As Go prints the reference.
fn unsupported(it: &ObjectReference) -> String {
    format!(
        "unsupported placement reference: &ObjectReference{{Kind:{},Namespace:{},Name:{},UID:{},APIVersion:{},\
         ResourceVersion:{},FieldPath:{},}}",
        it.kind, it.namespace, it.name, it.uid, it.api_version, it.resource_version, it.field_path
    )
}

/// The clusters that a selector matches; all without one.
///
/// # Errors
/// When the selector cannot be read.
pub fn selected(clusters: &[Arc<ManagedCluster>], selector: Option<&LabelSelector>) -> SubscriptionClusters {
    let selector = selector.map(Selector::of).transpose()?;
    let matches = |it: &&Arc<ManagedCluster>| {
        let labels = it.labels();
        let value = |key: &str| labels.get(key).map(String::as_str);
        selector.as_ref().is_none_or(|it| it.matches(value))
    };
    Ok(with_locality(clusters.iter().filter(matches).cloned()))
}

/// Clusters that are not being deleted.
pub fn with_locality(clusters: impl IntoIterator<Item = Arc<ManagedCluster>>) -> BTreeMap<String, bool> {
    let staying = clusters
        .into_iter()
        .filter(|it| it.metadata.deletion_timestamp.is_none());
    staying.map(|it| (it.name_any(), is_local(&it))).collect()
}

/// Whether a cluster is the hub itself.
pub fn is_local(cluster: &ManagedCluster) -> bool {
    let label = cluster.labels().get(LOCAL_CLUSTER);
    label.is_some_and(|it| it.eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn subscription(placement: Value) -> Subscription {
        let spec = json!({"channel": "c/c", "placement": placement});
        serde_json::from_value(json!({"metadata": {"name": "s", "namespace": "ns"}, "spec": spec})).unwrap()
    }

    fn cluster(name: &str, labels: Value, deleting: bool) -> Arc<ManagedCluster> {
        let deleted = deleting.then_some("2026-01-01T00:00:00Z");
        let metadata = json!({"name": name, "labels": labels, "deletionTimestamp": deleted});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap())
    }

    #[test]
    fn the_first_that_is_set_chooses() {
        let all = subscription(json!({
            "placementRef": {"name": "p"}, "clusters": [{"name": "c1"}], "clusterSelector": {},
        }));
        assert!(matches!(choice(&all), Choice::Referenced(it) if it.name == "p"));
        let named = subscription(json!({"clusters": [{"name": "c1"}], "clusterSelector": {}}));
        assert!(matches!(choice(&named), Choice::Named([_])));
        let selected = subscription(json!({"clusters": [], "clusterSelector": {}}));
        assert!(matches!(choice(&selected), Choice::Selected(_)));
        assert_eq!(choice(&subscription(json!({"local": true}))), Choice::Nothing);
    }

    #[test]
    fn a_reference_is_to_a_placement_or_rule() {
        let reference = |kind: &str, api_version: &str| ObjectReference {
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
            name: "p".to_owned(),
            ..ObjectReference::default()
        };
        assert_eq!(referenced(&reference("", "")), Ok((PlacementKind::PlacementRule, "p")));
        let beta = reference("Placement", "cluster.open-cluster-management.io/v1beta1");
        assert_eq!(referenced(&beta), Ok((PlacementKind::Placement, "p")));
        let text = referenced(&reference("Deployment", "apps/v1")).unwrap_err();
        let said = "unsupported placement reference: &ObjectReference{Kind:Deployment,Namespace:,Name:p,UID:,\
                    APIVersion:apps/v1,ResourceVersion:,FieldPath:,}";
        assert_eq!(text, said);
    }

    #[test]
    fn a_selector_leaves_out_clusters_that_go() {
        let clusters = [
            cluster("a", json!({"env": "dev", "local-cluster": "True"}), false),
            cluster("b", json!({"env": "prod"}), false),
            cluster("c", json!({"env": "dev"}), true),
        ];
        let dev: LabelSelector = serde_json::from_value(json!({"matchLabels": {"env": "dev"}})).unwrap();
        assert_eq!(selected(&clusters, Some(&dev)), Ok([("a".to_owned(), true)].into()));
        let all = [("a".to_owned(), true), ("b".to_owned(), false)];
        assert_eq!(selected(&clusters, None), Ok(all.into()));
    }
}
