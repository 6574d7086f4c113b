//! Which clusters are in a set.
//! Upstream: sdk-go `pkg/apis/cluster/v1beta2/managedclusterset.go`, `BuildClusterSelector`. There, one set whose
//! selector cannot be read hides all sets of a cluster; here it has no members, and the others keep theirs.

use std::collections::BTreeSet;

use kube::ResourceExt;

use super::{ManagedCluster, ManagedClusterSet, SelectorType};
use crate::{labels, selector::Selector};

/// Members of sets, asked of many clusters.
///
/// ```
/// use ocm_api::cluster::{ManagedCluster, ManagedClusterSet, Membership};
///
/// let set = ManagedClusterSet::new("prod", Default::default());
/// let mut cluster = ManagedCluster::new("cluster1", Default::default());
/// let members = Membership::of([&set]);
/// assert!(!members.has(&cluster));
/// let label = ("cluster.open-cluster-management.io/clusterset".to_owned(), "prod".to_owned());
/// cluster.metadata.labels = Some([label].into());
/// assert!(members.has(&cluster));
/// ```
#[derive(Default)]
pub struct Membership<'a> {
    exclusive: BTreeSet<&'a str>,
    by_labels: Vec<Selector>,
}

impl<'a> Membership<'a> {
    /// Of any of these sets. A selector that cannot be read selects nothing, as one that is not there.
    pub fn of(sets: impl IntoIterator<Item = &'a ManagedClusterSet>) -> Self {
        let mut membership = Self::default();
        for set in sets {
            let _ = membership.add(set);
        }
        membership
    }

    /// Of one set, or why its selector cannot be read.
    pub fn of_one(set: &'a ManagedClusterSet) -> Result<Self, String> {
        let mut membership = Self::default();
        membership.add(set)?;
        Ok(membership)
    }

    fn add(&mut self, set: &'a ManagedClusterSet) -> Result<(), String> {
        let selector = &set.spec.cluster_selector;
        match selector.selector_type {
            SelectorType::ExclusiveClusterSetLabel => self.exclusive.extend(set.metadata.name.as_deref()),
            SelectorType::LabelSelector => {
                let read = selector.label_selector.as_ref().map(Selector::of);
                self.by_labels.extend(read.transpose()?);
            }
        }
        Ok(())
    }

    /// Whether the cluster is a member.
    pub fn has(&self, cluster: &ManagedCluster) -> bool {
        let label = |key: &str| cluster.labels().get(key).map(String::as_str);
        label(labels::CLUSTER_SET).is_some_and(|it| self.exclusive.contains(it))
            || self.by_labels.iter().any(|it| it.matches(label))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(selector: Value, labels: Value) -> Result<bool, String> {
        let set = json!({"metadata": {"name": "prod"}, "spec": {"clusterSelector": selector}});
        let set: ManagedClusterSet = serde_json::from_value(set).unwrap();
        let cluster: ManagedCluster =
            serde_json::from_value(json!({"metadata": {"name": "c", "labels": labels}, "spec": {}})).unwrap();
        let members = Membership::of_one(&set)?.has(&cluster);
        assert_eq!(Membership::of([&set]).has(&cluster), members);
        Ok(members)
    }

    #[test]
    fn a_set_goes_by_its_label_unless_it_says_otherwise() {
        let label = |set: &str| json!({"cluster.open-cluster-management.io/clusterset": set});
        for selector in [
            json!({}),
            json!(null),
            json!({"selectorType": "ExclusiveClusterSetLabel"}),
        ] {
            assert_eq!(check(selector.clone(), label("prod")), Ok(true));
            assert_eq!(check(selector.clone(), label("default")), Ok(false));
            assert_eq!(check(selector, json!(null)), Ok(false));
        }
    }

    #[test]
    fn no_label_selector_selects_nothing_and_an_empty_one_everything() {
        let by_labels = |selector: Value| json!({"selectorType": "LabelSelector", "labelSelector": selector});
        assert_eq!(check(json!({"selectorType": "LabelSelector"}), json!({})), Ok(false));
        assert_eq!(check(by_labels(json!({})), json!(null)), Ok(true));
        let env = by_labels(json!({"matchLabels": {"env": "prod"}}));
        assert_eq!(check(env.clone(), json!({"env": "prod"})), Ok(true));
        // The name of the set in the exclusive label means nothing to such a set.
        assert_eq!(
            check(env, json!({"cluster.open-cluster-management.io/clusterset": "prod"})),
            Ok(false)
        );
    }

    #[test]
    fn an_invalid_selector_selects_nothing_and_reports_why() {
        let wrong = json!({"matchExpressions": [{"key": "env", "operator": "NotIn"}]});
        let wrong = json!({"selectorType": "LabelSelector", "labelSelector": wrong});
        let why = check(wrong.clone(), json!({})).unwrap_err();
        assert!(why.contains("values set can't be empty"), "{why}");
        let set = json!({"metadata": {"name": "prod"}, "spec": {"clusterSelector": wrong}});
        let set: ManagedClusterSet = serde_json::from_value(set).unwrap();
        assert!(!Membership::of([&set]).has(&ManagedCluster::default()));
    }
}
