//! What a ClusterManager waits for: its operator, what it asks for, and the Deployments of the hub.

use anyhow::Result;
use client::connect::ApiServer;
use kube::{Api, ResourceExt};
use ocm_api::{
    condition::{self, Condition},
    conditions::cluster_manager as conditions,
    operator::ClusterManager,
};

use crate::{
    installed::{self, OperatorState, sentence},
    workload::{self, Workload},
};

/// The Deployment of its operator.
const OPERATOR: &str = "cluster-manager";

/// What was seen.
pub struct Seen {
    /// The ClusterManager.
    pub object: ClusterManager,
    /// Its operator.
    pub operator: OperatorState,
    /// The Deployments of the hub.
    pub workloads: Vec<Workload>,
}

/// What a ClusterManager waits for.
///
/// # Errors
/// When the cluster cannot be asked.
pub async fn sentences(api: &ApiServer, name: &str) -> Result<Vec<String>> {
    let objects: Api<ClusterManager> = Api::all(api.client.clone());
    let found = objects.get_opt(name).await;
    let found = found.map_err(|error| api.explain(&format!("could not get ClusterManager {name}"), &error))?;
    let Some(object) = found else {
        return Ok(vec![format!(
            "There is no ClusterManager {name} on this cluster: `drover init` makes the cluster a hub and puts one there."
        )]);
    };
    let related = object.status.iter().flat_map(|it| it.related_resources.clone());
    let related: Vec<_> = related.collect();
    Ok(waits_for(&Seen {
        operator: installed::operator(api, OPERATOR).await?,
        workloads: workload::related(api, &related).await?,
        object,
    }))
}

/// One sentence for each thing it waits for.
pub fn waits_for(seen: &Seen) -> Vec<String> {
    let name = seen.object.name_any();
    let title = format!("ClusterManager {name}");
    let status = seen.object.status.clone().unwrap_or_default();
    let mut said = Vec::new();
    let progress = installed::Progress {
        title: &title,
        metadata: &seen.object.metadata,
        observed_generation: status.observed_generation,
        conditions: &status.conditions,
        operator: OPERATOR,
        install: "drover init",
    };
    if !installed::of_operator(&mut said, &progress, &seen.operator, &fix(&name)) {
        return said;
    }
    let is = |kind: &str, state: &str| {
        let found = condition::find(&status.conditions, kind);
        found.filter(|it| it.status == state).cloned()
    };
    if let Some(it) = is(conditions::APPLIED, "False") {
        said.push(not_applied(&name, &it));
    }
    if let Some(it) = is(conditions::VALID_FEATURE_GATES, "False") {
        said.push(format!(
            "{} Take them out with `kubectl edit clustermanager {name}`.",
            sentence(&it)
        ));
    }
    let of_pods: Vec<String> = seen.workloads.iter().flat_map(|it| it.sentences(&fix(&name))).collect();
    let degraded = [
        conditions::HUB_REGISTRATION_DEGRADED,
        conditions::HUB_PLACEMENT_DEGRADED,
    ]
    .map(|it| is(it, "True"));
    let progressing = is(conditions::PROGRESSING, "True");
    if of_pods.is_empty() {
        // The pods have said nothing: what the operator says is all there is.
        said.extend(degraded.iter().flatten().chain(&progressing).map(sentence));
    }
    said.extend(of_pods);
    said
}

fn fix(name: &str) -> String {
    format!(
        "take one that is there with `drover upgrade clustermanager`, or write it into the spec with `kubectl edit clustermanager {name}`"
    )
}

fn not_applied(name: &str, it: &Condition) -> String {
    let what = sentence(it);
    let fix = match it.reason.as_str() {
        "CRDApplyFailed" if it.message.contains("newer") => {
            "Upgrade the operator to that release with `drover upgrade clustermanager`, or leave it as it is."
                .to_owned()
        }
        "CRDApplyFailed" | "HubResourceApplyFailed" | "ServiceAccountSyncFailed" | "RuntimeResourceApplyFailed" => {
            "The operator tries again by itself; if it lacks a right, `drover init` renews its roles.".to_owned()
        }
        "WebhookApplyFailed" => "The webhooks are put in place when the hub's pods are ready.".to_owned(),
        _ => format!("Correct it with `kubectl edit clustermanager {name}`."),
    };
    format!("{what} {fix}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(metadata: &Value, observed: i64, conditions: &[[&str; 4]], operator: OperatorState) -> Seen {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|[kind, status, reason, message]| {
                json!({"type": kind, "status": status, "reason": reason, "message": message,
                       "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let object = json!({"metadata": metadata, "spec": {}, "status": {"observedGeneration": observed, "conditions": conditions}});
        Seen {
            object: serde_json::from_value(object).unwrap(),
            operator,
            workloads: Vec::new(),
        }
    }

    fn metadata() -> Value {
        json!({"name": "cluster-manager", "generation": 2})
    }

    #[test]
    fn a_cluster_manager_without_an_operator_waits_for_one() {
        let said = waits_for(&seen(&metadata(), 0, &[], OperatorState::Absent));
        assert_eq!(
            said,
            ["No operator on this cluster looks after ClusterManager cluster-manager: `drover init` puts one there."]
        );
        let shown = [[
            "Applied",
            "True",
            "ClusterManagerApplied",
            "The hub runs in the process of drover up",
        ]];
        assert!(waits_for(&seen(&metadata(), 2, &shown, OperatorState::Absent)).is_empty());
    }

    #[test]
    fn a_newer_crd_and_a_wrong_gate_have_fixes() {
        let conditions = [
            [
                "Applied",
                "False",
                "CRDApplyFailed",
                "CRD x is of version 2.0.0, which is newer than 1.3.1",
            ],
            [
                "ValidFeatureGates",
                "False",
                "InvalidFeatureGatesExisting",
                "There are some invalid feature gates of Work: X",
            ],
            ["HubRegistrationDegraded", "False", "RegistrationFunctional", "well"],
        ];
        let said = waits_for(&seen(&metadata(), 2, &conditions, OperatorState::Runs));
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("newer than 1.3.1. Upgrade the operator"), "{said:?}");
        assert!(said[1].ends_with("of Work: X. Take them out with `kubectl edit clustermanager cluster-manager`."));
    }

    #[test]
    fn pods_are_told_of_rather_than_conditions() {
        let conditions = [[
            "HubPlacementDegraded",
            "True",
            "UnavailablePlacementPod",
            "1 of requested instances are unavailable",
        ]];
        let mut seen = seen(&metadata(), 2, &conditions, OperatorState::Runs);
        assert_eq!(waits_for(&seen), ["1 of requested instances are unavailable."]);
        seen.workloads = vec![Workload::default()];
        assert_eq!(
            waits_for(&seen),
            ["Deployment / has 0 of 1 pods available, 0 of them up to date."]
        );
    }

    #[test]
    fn one_that_is_being_deleted_names_its_finalizer() {
        let going = json!({"name": "cm", "generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z",
                           "finalizers": ["operator.open-cluster-management.io/cluster-manager-cleanup"]});
        let said = waits_for(&seen(&going, 1, &[], OperatorState::Absent)).join(" ");
        assert!(
            said.contains("is being deleted and waits for the finalizers operator.open-cluster-management.io/"),
            "{said}"
        );
        assert!(said.contains("`drover init`"), "{said}");
    }
}
