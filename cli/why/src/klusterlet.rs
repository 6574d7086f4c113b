//! What a Klusterlet waits for: its operator, what it asks for, its Deployments, and the hub.

use anyhow::Result;
use client::connect::ApiServer;
use kube::{Api, ResourceExt};
use ocm_api::{
    condition::{self, Condition},
    conditions::klusterlet as conditions,
    namespaces,
    operator::Klusterlet,
};
use operator::klusterlet::access::reason;

use crate::{
    installed::{self, OperatorState, sentence},
    workload::{self, Workload},
};

/// The Deployment of its operator.
const OPERATOR: &str = "klusterlet";

/// What was seen.
pub struct Seen {
    /// The Klusterlet.
    pub object: Klusterlet,
    /// Its operator.
    pub operator: OperatorState,
    /// The Deployments of the agent.
    pub workloads: Vec<Workload>,
}

/// What a Klusterlet waits for.
///
/// # Errors
/// When the cluster cannot be asked.
pub async fn sentences(api: &ApiServer, name: &str) -> Result<Vec<String>> {
    let objects: Api<Klusterlet> = Api::all(api.client.clone());
    let found = objects.get_opt(name).await;
    let found = found.map_err(|error| api.explain(&format!("could not get Klusterlet {name}"), &error))?;
    let Some(object) = found else {
        return Ok(vec![format!(
            "There is no Klusterlet {name} on this cluster: `drover join` puts one there, and `--kubeconfig FILE` asks another cluster."
        )]);
    };
    let related: Vec<_> = object
        .status
        .iter()
        .flat_map(|it| it.related_resources.clone())
        .collect();
    Ok(waits_for(&Seen {
        operator: installed::operator(api, OPERATOR).await?,
        workloads: workload::related(api, &related).await?,
        object,
    }))
}

/// One sentence for each thing it waits for.
pub fn waits_for(seen: &Seen) -> Vec<String> {
    let name = seen.object.name_any();
    let title = format!("Klusterlet {name}");
    let status = seen.object.status.clone().unwrap_or_default();
    let fix = format!(
        "take one that is there with `drover upgrade klusterlet`, or write it into the spec with `kubectl edit klusterlet {name}`"
    );
    let mut said = Vec::new();
    let progress = installed::Progress {
        title: &title,
        metadata: &seen.object.metadata,
        observed_generation: status.observed_generation,
        conditions: &status.conditions,
        operator: OPERATOR,
        install: "drover join",
    };
    if !installed::of_operator(&mut said, &progress, &seen.operator, &fix) {
        return said;
    }
    let is = |kind: &str, state: &str| {
        let found = condition::find(&status.conditions, kind);
        found.filter(|it| it.status == state).cloned()
    };
    if let Some(it) = is(conditions::READY_TO_APPLY, "False") {
        said.push(format!(
            "{} Write a kubeconfig of the managed cluster: `kubectl create secret generic {EXTERNAL_KUBECONFIG} -n {name} \
             --from-file=kubeconfig=FILE`.",
            sentence(&it)
        ));
    } else if let Some(it) = is(conditions::APPLIED, "False") {
        said.push(not_applied(&name, &it));
    }
    if let Some(it) = is(conditions::VALID_FEATURE_GATES, "False") {
        said.push(format!(
            "{} Take them out with `kubectl edit klusterlet {name}`.",
            sentence(&it)
        ));
    }
    let of_pods: Vec<String> = seen.workloads.iter().flat_map(|it| it.sentences(&fix)).collect();
    let hub = is(conditions::HUB_CONNECTION_DEGRADED, "True");
    if of_pods.is_empty() && hub.is_none() {
        // Nothing else explains it: what the operator says is all there is.
        let degraded = [
            conditions::REGISTRATION_DESIRED_DEGRADED,
            conditions::WORK_DESIRED_DEGRADED,
        ]
        .map(|it| is(it, "True"));
        let mut all: Vec<String> = degraded
            .iter()
            .flatten()
            .chain(&is(conditions::AVAILABLE, "False"))
            .map(sentence)
            .collect();
        all.dedup();
        said.extend(all);
    }
    said.extend(of_pods);
    said.extend(hub.iter().flat_map(|it| of_hub(&seen.object, it)));
    said
}

/// The Secret by which a hosted agent reaches its cluster.
const EXTERNAL_KUBECONFIG: &str = "external-managed-kubeconfig";

fn not_applied(name: &str, it: &Condition) -> String {
    let what = sentence(it);
    match it.reason.as_str() {
        "CRDApplyFailed" if it.message.contains("newer") => format!(
            "{what} Upgrade the operator to that release with `drover upgrade klusterlet`, or leave it as it is."
        ),
        "CRDApplyFailed" | "ManagedClusterResourceApplyFailed" | "ManagementClusterResourceApplyFailed" => {
            format!("{what} The operator tries again by itself; if it lacks a right, `drover join` renews its roles.")
        }
        _ => format!("{what} If the field is in its spec, correct it with `kubectl edit klusterlet {name}`."),
    }
}

/// The reasons are those of the Secret to join with and of the credential, in this order.
fn of_hub(klusterlet: &Klusterlet, it: &Condition) -> Vec<String> {
    let cluster = match klusterlet.spec.cluster_name.as_str() {
        "" => "<cluster_name>",
        name => name,
    };
    let namespace = match klusterlet.spec.namespace.as_str() {
        "" => namespaces::AGENT,
        namespace => namespace,
    };
    let (bootstrap, hub) = (
        namespaces::BOOTSTRAP_KUBECONFIG_SECRET,
        namespaces::HUB_KUBECONFIG_SECRET,
    );
    let again = "get a new token with `drover get token` on the hub and run the `drover join` that it prints";
    let reasons: Vec<&str> = it.reason.split(',').collect();
    let may_join = reasons.contains(&reason::BOOTSTRAP_FUNCTIONAL);
    let fix = |it: &str| {
        Some(match it {
            reason::BOOTSTRAP_MISSING => format!(
                "The agent has nothing to join the hub with: Secret {namespace}/{bootstrap} is missing; {again}."
            ),
            reason::BOOTSTRAP_ERROR => format!(
                "The kubeconfig in Secret {namespace}/{bootstrap} leads nowhere: see that its server can be reached from this \
                 cluster, or {again}."
            ),
            reason::BOOTSTRAP_UNAUTHORIZED => format!(
                "The hub does not take the token in Secret {namespace}/{bootstrap}, which may have expired: {again}."
            ),
            reason::HUB_SECRET_MISSING | reason::HUB_MISSING if may_join => format!(
                "The hub has not given cluster {cluster} a credential yet: accept it there with `drover accept --clusters {cluster}`; \
                 `drover why managedcluster/{cluster}` on the hub says more."
            ),
            reason::HUB_ERROR => format!(
                "The credential in Secret {namespace}/{hub} cannot be used: delete it with `kubectl delete secret -n {namespace} {hub}`, and \
                 the agent asks for another."
            ),
            reason::HUB_UNAUTHORIZED => format!(
                "The hub does not let the agent do what it has to: see that cluster {cluster} is accepted with `drover why \
                 managedcluster/{cluster}` on the hub, and accept it with `drover accept --clusters {cluster}`."
            ),
            reason::NAME_MISSING => format!(
                "Nobody says the cluster's name: write spec.clusterName with `kubectl edit klusterlet {}`.",
                klusterlet.name_any()
            ),
            _ => return None,
        })
    };
    let fixes: Vec<String> = reasons.iter().filter_map(|it| fix(it)).collect();
    // What was found goes first, and then what to do about it.
    let found = (!it.message.is_empty() && !fixes.is_empty()).then(|| sentence(it));
    match fixes.is_empty() {
        true => vec![sentence(it)],
        false => found.into_iter().chain(fixes).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(conditions: &[[&str; 4]]) -> Vec<String> {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|[kind, status, reason, message]| {
                json!({"type": kind, "status": status, "reason": reason, "message": message,
                       "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        let object = json!({"metadata": {"name": "klusterlet", "generation": 1}, "spec": {"clusterName": "c1"},
                            "status": {"observedGeneration": 1, "conditions": conditions}});
        waits_for(&Seen {
            object: serde_json::from_value(object).unwrap(),
            operator: OperatorState::Runs,
            workloads: Vec::new(),
        })
    }

    #[test]
    fn each_reason_of_the_hub_connection_has_a_fix() {
        let of = |reason: &str| said(&[["HubConnectionDegraded", "True", reason, "found"]]);
        let table = [
            (
                "BootstrapSecretMissing,HubKubeConfigSecretMissing",
                "Secret open-cluster-management-agent/bootstrap-hub-kubeconfig is missing; get a new token",
            ),
            (
                "BootstrapSecretUnauthorized,HubKubeConfigSecretMissing",
                "may have expired: get a new token with `drover get token`",
            ),
            (
                "BootstrapSecretError,HubKubeConfigSecretMissing",
                "leads nowhere: see that its server can be reached",
            ),
            (
                "BootstrapSecretFunctional,HubKubeConfigSecretMissing",
                "`drover accept --clusters c1`",
            ),
            (
                "BootstrapSecretFunctional,HubKubeConfigUnauthorized",
                "`drover accept --clusters c1`",
            ),
            (
                "BootstrapSecretFunctional,HubKubeConfigError",
                "kubectl delete secret -n open-cluster-management-agent hub-kubeconfig-secret",
            ),
            ("BootstrapSecretFunctional,ClusterNameMissing", "write spec.clusterName"),
        ];
        for (reason, want) in table {
            let said = of(reason);
            assert_eq!((said.len(), said[0].as_str()), (2, "found."), "{reason}: {said:?}");
            assert!(said[1].contains(want), "{reason}: {said:?}");
        }
        assert_eq!(of("Strange"), ["found."]);
    }

    #[test]
    fn a_hub_that_waits_explains_what_is_not_available() {
        let unavailable = [
            "Available",
            "False",
            "NoAvailablePods",
            "0 of requested instances are available",
        ];
        assert_eq!(said(&[unavailable]), ["0 of requested instances are available."]);
        let hub = [
            "HubConnectionDegraded",
            "True",
            "BootstrapSecretFunctional,HubKubeConfigSecretMissing",
            "",
        ];
        assert_eq!(said(&[unavailable, hub]).len(), 1);
    }

    #[test]
    fn a_cluster_that_cannot_be_reached_names_the_secret() {
        let said = said(&[
            [
                "ReadyToApply",
                "False",
                "KlusterletPrepareFailed",
                "Failed to build managed cluster clients",
            ],
            ["Applied", "False", "KlusterletApplyFailed", "the same"],
        ]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("external-managed-kubeconfig -n klusterlet"),
            "{said:?}"
        );
    }
}
