//! What a set of clusters and the binding of one wait for.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use client::{clusters, connect::ApiServer};
use jiff::Timestamp;
use kube::{Api, api::ListParams};
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Membership, SelectorType},
    selector::Selector,
};
use ocm_reconcile::Reconciler;
use registration::hub::{
    cluster_sets::{self, ClusterSets},
    set_bindings::{self, SetBindings},
};

/// How many clusters are in the set, or why its selector cannot be read.
type Members = Result<usize, String>;

/// Sentences about a set.
pub async fn of_set(hub: &ApiServer, name: &str) -> Result<Vec<String>> {
    let set = get(hub, name).await?;
    let set = set.ok_or_else(|| {
        anyhow!("there is no clusterset {name} on this hub; `drover get clustersets` lists those there are")
    })?;
    let bound = clusters::bindings(hub).await?.remove(name).unwrap_or_default();
    let seen = cluster_sets::Seen {
        now: Timestamp::now(),
        members: members(hub, &set).await?,
        set: Some(Arc::new(set)),
    };
    Ok(set_waits_for(&seen, &bound))
}

/// Sentences about the binding of a set to a namespace.
pub async fn of_binding(hub: &ApiServer, namespace: &str, name: &str) -> Result<Vec<String>> {
    let bindings: Api<ManagedClusterSetBinding> = Api::namespaced(hub.client.clone(), namespace);
    let binding = bindings.get_opt(name).await;
    let binding = binding.map_err(|error| hub.explain(&format!("could not get the binding of {name}"), &error))?;
    let binding = binding.ok_or_else(|| {
        anyhow!(
            "clusterset {name} is not bound to namespace {namespace}; `drover clusterset bind {name} -n {namespace}` binds it"
        )
    })?;
    let set = get(hub, &binding.spec.cluster_set).await?;
    let members = match &set {
        Some(set) => Some(members(hub, set).await?),
        None => None,
    };
    Ok(binding_waits_for(&binding, members.as_ref()))
}

async fn get(hub: &ApiServer, name: &str) -> Result<Option<ManagedClusterSet>> {
    let found = Api::<ManagedClusterSet>::all(hub.client.clone()).get_opt(name).await;
    found.map_err(|error| hub.explain(&format!("could not get clusterset {name}"), &error))
}

async fn members(hub: &ApiServer, set: &ManagedClusterSet) -> Result<Members> {
    let membership = match Membership::of_one(set) {
        Ok(membership) => membership,
        Err(why) => return Ok(Err(why)),
    };
    let page = Api::<ManagedCluster>::all(hub.client.clone())
        .list(&ListParams::default())
        .await;
    let page = page.map_err(|error| hub.explain("could not list the managed clusters", &error))?;
    Ok(Ok(page.items.iter().filter(|it| membership.has(it)).count()))
}

fn set_waits_for(seen: &cluster_sets::Seen, bound: &[String]) -> Vec<String> {
    let Some(set) = seen.set.as_deref() else {
        return Vec::new();
    };
    let name = set.metadata.name.as_deref().unwrap_or_default();
    if set.metadata.deletion_timestamp.is_some() {
        return vec![deletion(
            &format!("Clusterset {name}"),
            set.metadata.finalizers.as_deref(),
        )];
    }
    let mut said = Vec::new();
    match &seen.members {
        Err(why) => said.push(format!(
            "The label selector of clusterset {name} cannot be read, so it has no clusters: {why}."
        )),
        Ok(0) => said.push(nobody(name, set)),
        Ok(_) if ClusterSets::plan(seen).is_empty() => {}
        Ok(count) => said.push(format!(
            "Clusterset {name} waits for the hub's controllers to count its {count} clusters; is the hub process running?"
        )),
    }
    if bound.is_empty() {
        said.push(format!(
            "Clusterset {name} is bound to no namespace, so no placement can choose from it: \
             `drover clusterset bind {name} -n NAMESPACE` binds it."
        ));
    }
    said
}

fn nobody(name: &str, set: &ManagedClusterSet) -> String {
    let selector = &set.spec.cluster_selector;
    match (selector.selector_type, &selector.label_selector) {
        (SelectorType::ExclusiveClusterSetLabel, _) => format!(
            "Clusterset {name} has no clusters: `drover clusterset set {name} --clusters CLUSTER,...` puts some into it."
        ),
        (SelectorType::LabelSelector, None) => {
            format!("Clusterset {name} goes by a label selector and has none, so it has no clusters.")
        }
        (SelectorType::LabelSelector, Some(selector)) => match Selector::of(selector).map(|it| it.to_string()) {
            Ok(text) if !text.is_empty() => {
                format!("No cluster has the labels that clusterset {name} asks for: {text}.")
            }
            _ => format!("Clusterset {name} takes every cluster, and the hub has none."),
        },
    }
}

fn binding_waits_for(binding: &ManagedClusterSetBinding, members: Option<&Members>) -> Vec<String> {
    let (set, name) = (
        &binding.spec.cluster_set,
        binding.metadata.name.as_deref().unwrap_or_default(),
    );
    if binding.metadata.deletion_timestamp.is_some() {
        return vec![deletion(
            &format!("The binding of clusterset {name}"),
            binding.metadata.finalizers.as_deref(),
        )];
    }
    let mut said = Vec::new();
    if set != name {
        said.push(format!(
            "The binding {name} names clusterset {set}, but placements go by its own name: make one that is named {set}."
        ));
    }
    let Some(members) = members else {
        said.push(format!(
            "There is no clusterset {set} on this hub: `drover create clusterset {set}` creates it."
        ));
        return said;
    };
    if *members == Ok(0) || members.is_err() {
        said.push(format!(
            "Clusterset {set} has no clusters: `drover why managedclusterset/{set}` says more."
        ));
    }
    let seen = set_bindings::Seen {
        now: Timestamp::now(),
        binding: Some(Arc::new(binding.clone())),
        bound: true,
    };
    if !SetBindings::plan(&seen).is_empty() {
        said.push(format!(
            "The binding waits for the hub's controllers to find clusterset {set}; is the hub process running?"
        ));
    }
    said
}

fn deletion(what: &str, finalizers: Option<&[String]>) -> String {
    let finalizers = finalizers.unwrap_or_default().join(", ");
    format!("{what} is being deleted and waits for the finalizers {finalizers}.")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(spec: Value, message: &str, members: usize) -> cluster_sets::Seen {
        let set = serde_json::from_value(json!({
            "metadata": {"name": "prod"}, "spec": spec,
            "status": {"conditions": [{
                "type": "ClusterSetEmpty", "status": "False", "reason": "ClustersSelected", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        }));
        cluster_sets::Seen {
            now: Timestamp::UNIX_EPOCH,
            set: Some(Arc::new(set.unwrap())),
            members: Ok(members),
        }
    }

    #[test]
    fn a_set_wants_clusters_and_somebody_to_use_it() {
        let bound = ["default".to_owned()];
        let none: [String; 0] = [];
        let counted = |members: usize| seen(json!({}), "2 ManagedClusters selected", members);
        assert_eq!(set_waits_for(&counted(2), &bound), none);
        assert_eq!(
            set_waits_for(&counted(3), &bound),
            ["Clusterset prod waits for the hub's controllers to count its 3 clusters; is the hub process running?"]
        );
        assert_eq!(
            set_waits_for(&seen(json!({}), "", 0), &[]),
            [
                "Clusterset prod has no clusters: `drover clusterset set prod --clusters CLUSTER,...` puts some into it.",
                "Clusterset prod is bound to no namespace, so no placement can choose from it: \
                 `drover clusterset bind prod -n NAMESPACE` binds it."
            ]
        );
        let by_labels =
            |selector: Value| json!({"clusterSelector": {"selectorType": "LabelSelector", "labelSelector": selector}});
        for (spec, said) in [
            (
                by_labels(json!({"matchLabels": {"env": "prod"}})),
                "No cluster has the labels that clusterset prod asks for: env=prod.",
            ),
            (
                by_labels(json!({})),
                "Clusterset prod takes every cluster, and the hub has none.",
            ),
            (
                json!({"clusterSelector": {"selectorType": "LabelSelector"}}),
                "Clusterset prod goes by a label selector and has none, so it has no clusters.",
            ),
        ] {
            assert_eq!(set_waits_for(&seen(spec, "", 0), &bound), [said]);
        }
    }

    #[test]
    fn a_binding_wants_its_set_and_clusters_in_it() {
        let binding = |name: &str, bound: &str| -> ManagedClusterSetBinding {
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "default"}, "spec": {"clusterSet": "prod"},
                "status": {"conditions": [{
                    "type": "Bound", "status": bound, "reason": "ClusterSetBound", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }]},
            }))
            .unwrap()
        };
        let none: [String; 0] = [];
        assert_eq!(binding_waits_for(&binding("prod", "True"), Some(&Ok(1))), none);
        assert_eq!(
            binding_waits_for(&binding("prod", "False"), None),
            ["There is no clusterset prod on this hub: `drover create clusterset prod` creates it."]
        );
        assert_eq!(
            binding_waits_for(&binding("other", "True"), Some(&Ok(0))),
            [
                "The binding other names clusterset prod, but placements go by its own name: make one that is named prod.",
                "Clusterset prod has no clusters: `drover why managedclusterset/prod` says more."
            ]
        );
    }
}
