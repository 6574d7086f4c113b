//! What a Policy waits for: what binds it, where it is, and what its clusters say.

use anyhow::{Result, anyhow};
use client::connect::ApiServer;
use kube::{Api, ResourceExt, api::ListParams};
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    policy::{ComplianceState, Policy, PolicyTemplateStatus, labels},
};

/// Whose agent brings policies to clusters and reports them.
const FRAMEWORK: &str = "governance-policy-framework";

/// What is on the hub.
struct Seen {
    policy: Policy,
    /// Its replicas.
    replicas: Vec<Policy>,
    /// The clusters that have the add-on.
    served: Vec<String>,
}

/// Sentences about a Policy, or about the replica of one cluster.
pub async fn sentences(hub: &ApiServer, namespace: &str, name: &str) -> Result<Vec<String>> {
    let api: Api<Policy> = Api::namespaced(hub.client.clone(), namespace);
    let found = api.get_opt(name).await;
    let found = found.map_err(|error| hub.explain(&format!("could not get policy {name}"), &error))?;
    let policy = found.ok_or_else(|| anyhow!("there is no policy {name} in namespace {namespace}"))?;
    if let Some(root) = policy.labels().get(labels::ROOT_POLICY) {
        let mut said = of_details(&policy);
        said.push(format!(
            "It is a copy of policy {}, for this cluster.",
            root.replacen('.', "/", 1)
        ));
        return Ok(said);
    }
    let its = ListParams::default().labels(&format!("{}={namespace}.{name}", labels::ROOT_POLICY));
    let replicas = Api::<Policy>::all(hub.client.clone()).list(&its).await;
    let replicas = replicas.map_err(|error| hub.explain("could not list the copies of the policy", &error))?;
    let named = ListParams::default().fields(&format!("metadata.name={FRAMEWORK}"));
    let add_ons = Api::<ManagedClusterAddOn>::all(hub.client.clone()).list(&named).await;
    let add_ons = add_ons.map_err(|error| hub.explain("could not list the add-ons of the clusters", &error))?;
    let seen = Seen {
        policy,
        replicas: replicas.items,
        served: add_ons
            .items
            .into_iter()
            .filter_map(|it| it.metadata.namespace)
            .collect(),
    };
    Ok(waits_for(&seen, namespace, name))
}

fn waits_for(seen: &Seen, namespace: &str, name: &str) -> Vec<String> {
    let Seen {
        policy,
        replicas,
        served,
    } = seen;
    if policy.spec.disabled {
        return vec!["It is disabled (spec.disabled), so no cluster has it.".to_owned()];
    }
    let status = policy.status.clone().unwrap_or_default();
    let mut said = Vec::new();
    if status.placement.is_empty() {
        said.push(format!(
            "No PlacementBinding of namespace {namespace} names it, or a PolicySet with it: without one no cluster gets it."
        ));
    }
    for it in &status.placement {
        if it.placement.is_empty() && it.placement_rule.is_empty() {
            said.push(format!(
                "PlacementBinding {} refers to a Placement that is not in namespace {namespace}.",
                it.placement_binding
            ));
        }
    }
    let mut named = status
        .placement
        .iter()
        .map(|it| it.placement.as_str())
        .filter(|it| !it.is_empty());
    if status.status.is_empty()
        && let Some(placement) = named.next()
    {
        said.push(format!(
            "Placement {placement} has chosen no cluster: `drover why placement/{placement} -n {namespace}` says why."
        ));
    }
    for it in &status.status {
        let cluster = &it.clustername;
        let replica = replicas.iter().find(|of| of.namespace().as_ref() == Some(cluster));
        match (it.compliant, replica) {
            (Some(ComplianceState::Compliant), _) => {}
            (_, None) => said.push(format!(
                "Cluster {cluster} has no copy of it: a PolicySet excludes the cluster, or only a restricted PlacementBinding chooses it."
            )),
            (None, Some(_)) if !served.contains(cluster) => said.push(format!(
                "Cluster {cluster} has no add-on {FRAMEWORK}: `drover addon enable --names {FRAMEWORK} --clusters {cluster}`."
            )),
            (None, Some(_)) => said.push(format!(
                "Cluster {cluster} has not reported yet; `drover why addon/{cluster}/{FRAMEWORK}` says whether its agent is there, and the kinds of its templates need a controller there."
            )),
            (Some(_), Some(replica)) => {
                let details = of_details(replica).into_iter();
                said.extend(details.map(|it| format!("Cluster {cluster}: {it}")));
            }
        }
    }
    if said.is_empty() && status.compliant.is_none() && !status.status.is_empty() {
        said.push(format!("What its clusters say is being put together; ask again, or look with `kubectl get policy {name} -n {namespace}`."));
    }
    said
}

/// The templates that do not comply, with what they said last.
fn of_details(replica: &Policy) -> Vec<String> {
    let details = replica.status.iter().flat_map(|it| &it.details);
    let not_compliant = details.filter(|it| it.compliant != Some(ComplianceState::Compliant));
    let sentence = |it: &PolicyTemplateStatus| match it.history.first() {
        Some(last) => format!("template {}: {}", it.name(), last.message),
        None => format!("template {} has said nothing yet.", it.name()),
    };
    not_compliant.map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(status: Value, replicas: Value, served: &[&str]) -> Seen {
        let policy = json!({"metadata": {"namespace": "ns", "name": "p"}, "spec": {"disabled": false, "policy-templates": []}, "status": status});
        Seen {
            policy: serde_json::from_value(policy).unwrap(),
            replicas: serde_json::from_value(replicas).unwrap(),
            served: served.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    fn replica(cluster: &str, details: Value) -> Value {
        json!({"metadata": {"namespace": cluster, "name": "ns.p"}, "spec": {"disabled": false, "policy-templates": []}, "status": {"details": details}})
    }

    #[test]
    fn a_policy_that_nobody_binds_says_so() {
        let said = waits_for(&seen(json!({}), json!([]), &[]), "ns", "p");
        assert!(
            said[0].starts_with("No PlacementBinding of namespace ns names it"),
            "{said:?}"
        );
        let missing = json!({"placement": [{"placementBinding": "b"}]});
        let said = waits_for(&seen(missing, json!([]), &[]), "ns", "p");
        assert_eq!(
            said,
            ["PlacementBinding b refers to a Placement that is not in namespace ns."]
        );
        let empty = json!({"placement": [{"placementBinding": "b", "placement": "x"}]});
        let said = waits_for(&seen(empty, json!([]), &[]), "ns", "p");
        assert_eq!(
            said,
            ["Placement x has chosen no cluster: `drover why placement/x -n ns` says why."]
        );
    }

    #[test]
    fn each_cluster_says_what_it_waits_for() {
        let status = json!({
            "placement": [{"placementBinding": "b", "placement": "x"}],
            "status": [
                {"clustername": "c1", "clusternamespace": "c1", "compliant": "Compliant"},
                {"clustername": "c2", "clusternamespace": "c2", "compliant": "NonCompliant"},
                {"clustername": "c3", "clusternamespace": "c3"},
                {"clustername": "c4", "clusternamespace": "c4"},
            ],
        });
        let history = json!([{"message": "NonCompliant; violation - namespaces [team] not found"}]);
        let details = json!([
            {"templateMeta": {"name": "t"}, "compliant": "NonCompliant", "history": history},
            {"templateMeta": {"name": "good"}, "compliant": "Compliant", "history": []},
        ]);
        let replicas = json!([replica("c2", details), replica("c3", json!([]))]);
        let said = waits_for(&seen(status, replicas, &["c1", "c2"]), "ns", "p");
        assert_eq!(
            said[0],
            "Cluster c2: template t: NonCompliant; violation - namespaces [team] not found"
        );
        assert!(
            said[1].starts_with("Cluster c3 has no add-on governance-policy-framework"),
            "{said:?}"
        );
        assert!(said[2].starts_with("Cluster c4 has no copy of it"), "{said:?}");
        assert_eq!(said.len(), 3);
    }
}
