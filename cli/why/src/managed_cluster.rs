//! What a managed cluster waits for on its way to being available.

use client::{
    conditions,
    csr::{self, Stage},
};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::core::DynamicObject;
use output::age;

/// What was seen on the hub.
pub struct Seen {
    /// The cluster, if an agent has registered it.
    pub cluster: Option<DynamicObject>,
    /// The certificate requests labelled for the cluster, add-ons' left out.
    pub csrs: Vec<CertificateSigningRequest>,
    /// The Lease that its agent renews.
    pub lease: Option<DynamicObject>,
    /// Its namespace on the hub.
    pub namespace: Option<DynamicObject>,
    /// The time.
    pub now: Timestamp,
}

/// One sentence for each thing the cluster waits for.
pub fn waits_for(name: &str, seen: &Seen) -> Vec<String> {
    let Some(cluster) = &seen.cluster else {
        return vec![format!(
            "No agent has registered a cluster named {name}: run `drover join --cluster-name {name}` on it, \
             and see the agent's log if it already runs."
        )];
    };
    let mut sentences = Vec::new();
    if cluster.metadata.deletion_timestamp.is_some() {
        sentences.push(deletion(name, cluster));
        return sentences;
    }
    let accepted = cluster.data["spec"]["hubAcceptsClient"] == true;
    let joined = conditions::of(cluster, "ManagedClusterJoined").is_some_and(|it| it.is_true());
    if !accepted {
        sentences.push(not_accepted(name, cluster));
    }
    if !joined {
        sentences.extend(import(name, cluster));
        sentences.extend(certificate(name, &seen.csrs));
    }
    if accepted {
        sentences.extend(hub_side(name, cluster, seen.namespace.as_ref()));
        if !joined && sentences.is_empty() {
            sentences.push(format!(
                "Cluster {name} is accepted and has its certificate; it waits for its agent to report in with it."
            ));
        }
        if joined {
            sentences.extend(newcomer(name, &seen.csrs));
            sentences.extend(health(name, cluster, seen.lease.as_ref(), seen.now));
        }
    }
    sentences
}

fn deletion(name: &str, cluster: &DynamicObject) -> String {
    let finalizers = cluster.metadata.finalizers.clone().unwrap_or_default().join(", ");
    let told = conditions::of(cluster, "Deleting").map(|it| it.says().trim_end_matches('.').to_owned());
    match told.filter(|it| !it.is_empty()) {
        Some(told) => format!("Cluster {name} is being deleted and waits for the finalizers {finalizers}: {told}."),
        None => format!("Cluster {name} is being deleted and waits for the finalizers {finalizers}."),
    }
}

fn not_accepted(name: &str, cluster: &DynamicObject) -> String {
    let fix = format!("`drover accept --clusters {name}`");
    match conditions::of(cluster, "HubAcceptedManagedCluster") {
        Some(it) if it.reason == "HubClusterAdminDenied" => {
            format!("A hub administrator has denied cluster {name}; {fix} accepts it again.")
        }
        _ => format!("Cluster {name} waits for a hub administrator to accept it: run {fix}."),
    }
}

/// Why the hub has not put an agent on it, where it tries to.
fn import(name: &str, cluster: &DynamicObject) -> Option<String> {
    let told = conditions::of(cluster, "ManagedClusterImportSucceeded")?;
    if told.is_true() {
        return None;
    }
    if told.reason == "KubeConfigNotFound" {
        return Some(format!(
            "Cluster {name} is not imported yet: its Cluster of Cluster API is not Provisioned."
        ));
    }
    let why = told.says().trim_end_matches('.').to_owned();
    Some(format!(
        "Cluster {name} is not imported yet, and the hub will try again: {why}."
    ))
}

/// What is missing between the agent and a certificate, judged by the request that got furthest.
fn certificate(name: &str, csrs: &[CertificateSigningRequest]) -> Option<String> {
    let named = |it: &CertificateSigningRequest| it.metadata.name.clone().unwrap_or_default();
    let own: Vec<_> = csrs.iter().filter(|it| csr::fault(it, name, &[]).is_none()).collect();
    let at = |wanted: fn(&Stage) -> bool| own.iter().find(|it| wanted(&csr::stage(it)));
    if at(|it| *it == Stage::Issued).is_some() {
        return None;
    }
    if let Some(it) = at(|it| *it == Stage::Approved) {
        return Some(format!(
            "CSR {} is approved and waits for the hub's signer to issue the certificate.",
            named(it)
        ));
    }
    if let Some(it) = at(|it| *it == Stage::Pending) {
        return Some(format!(
            "CSR {} waits for a hub administrator to approve it: run `drover accept --clusters {name}`.",
            named(it)
        ));
    }
    if let Some(it) = at(|it| matches!(it, Stage::Denied(_) | Stage::Failed(_))) {
        return Some(format!(
            "CSR {} was denied or failed; the agent of cluster {name} has to ask again.",
            named(it)
        ));
    }
    let strange = csrs.iter().find(|it| csr::stage(it) == Stage::Pending);
    if let Some((it, fault)) = strange.and_then(|it| Some((it, csr::fault(it, name, &[])?))) {
        return Some(format!(
            "CSR {} is not approved for cluster {name}, because {fault}.",
            named(it)
        ));
    }
    Some(format!(
        "The agent of cluster {name} has not asked for a certificate yet; see the agent's log."
    ))
}

/// An agent that wants to be a cluster which has joined: the same one after it has lost its certificate,
/// or another one.
fn newcomer(name: &str, csrs: &[CertificateSigningRequest]) -> Option<String> {
    let is_renewal = |it: &CertificateSigningRequest| {
        let user = it.spec.username.as_deref().unwrap_or_default();
        user.starts_with(&ocm_api::identity::agent_user(name, ""))
    };
    let pending = csrs
        .iter()
        .find(|it| csr::stage(it) == Stage::Pending && csr::fault(it, name, &[]).is_none() && !is_renewal(it))?;
    Some(format!(
        "CSR {} is of an agent that wants to be cluster {name}, which has joined already, and waits for a hub administrator: \
         stop that agent if it is another cluster's, or let it take this cluster's place with `drover accept --clusters {name}`.",
        pending.metadata.name.as_deref().unwrap_or_default()
    ))
}

fn hub_side(name: &str, cluster: &DynamicObject, namespace: Option<&DynamicObject>) -> Option<String> {
    match conditions::of(cluster, "HubAcceptedManagedCluster") {
        Some(it) if it.is_true() => None,
        Some(it) if it.reason == "Error" => Some(format!(
            "The hub could not prepare for cluster {name}: {}.",
            it.message.trim_end_matches('.')
        )),
        _ if namespace.is_some_and(|it| it.metadata.deletion_timestamp.is_some()) => Some(format!(
            "The namespace {name} of an earlier cluster is still being deleted on the hub."
        )),
        _ => Some(format!(
            "Cluster {name} waits for the hub's controllers to make its namespace and permissions; is the hub process running?"
        )),
    }
}

fn health(name: &str, cluster: &DynamicObject, lease: Option<&DynamicObject>, now: Timestamp) -> Vec<String> {
    let mut sentences = Vec::new();
    match conditions::of(cluster, "ManagedClusterConditionAvailable") {
        Some(it) if it.is_true() => {}
        Some(it) if it.status == "Unknown" => {
            let renewed = lease.and_then(|it| it.data["spec"]["renewTime"].as_str()?.parse::<Timestamp>().ok());
            let last = renewed.map(|it| format!("; its last sign of life was {} ago", age::since(it, now)));
            sentences.push(format!(
                "The agent of cluster {name} does not report any more{}: is it running, and can it reach the hub?",
                last.unwrap_or_default()
            ));
        }
        Some(it) => sentences.push(format!(
            "The Kubernetes API of cluster {name} is not healthy: {}.",
            it.says().trim_end_matches('.')
        )),
        None => sentences.push(format!(
            "Cluster {name} waits for its agent to report the health of its Kubernetes API."
        )),
    }
    if conditions::of(cluster, "ManagedClusterConditionClockSynced").is_some_and(|it| it.status == "False") {
        sentences.push(format!(
            "The clocks of the hub and of cluster {name} are too far apart; correct the one that is off."
        ));
    }
    sentences
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(cluster: Option<Value>) -> Seen {
        Seen {
            cluster: cluster.map(|it| serde_json::from_value(it).unwrap()),
            csrs: vec![],
            lease: Some(
                serde_json::from_value(json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "managed-cluster-lease"},
                    "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"},
                }))
                .unwrap(),
            ),
            namespace: None,
            now: "2026-01-01T00:10:00Z".parse().unwrap(),
        }
    }

    fn cluster(accepts: bool, conditions: &[(&str, &str, &str, &str)]) -> Option<Value> {
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status, reason, message)| {
                json!({"type": kind, "status": status, "reason": reason, "message": message})
            })
            .collect();
        Some(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": "cluster3"}, "spec": {"hubAcceptsClient": accepts}, "status": {"conditions": conditions},
        }))
    }

    const ACCEPTED: (&str, &str, &str, &str) = ("HubAcceptedManagedCluster", "True", "HubClusterAdminAccepted", "");
    const JOINED: (&str, &str, &str, &str) = ("ManagedClusterJoined", "True", "ManagedClusterJoined", "");

    #[test]
    fn each_stage_of_joining_has_its_sentences() {
        let available = (
            "ManagedClusterConditionAvailable",
            "True",
            "ManagedClusterAvailable",
            "",
        );
        let unknown = (
            "ManagedClusterConditionAvailable",
            "Unknown",
            "ManagedClusterLeaseUpdateStopped",
            "stopped.",
        );
        let ill = (
            "ManagedClusterConditionAvailable",
            "False",
            "ManagedClusterKubeAPIServerUnavailable",
            "status code: 500",
        );
        let denied = (
            "HubAcceptedManagedCluster",
            "False",
            "HubClusterAdminDenied",
            "Denied by hub cluster admin",
        );
        let cases: Vec<(Option<Value>, &[&str])> = vec![
            (
                None,
                &[
                    "No agent has registered a cluster named cluster3: run `drover join --cluster-name cluster3` on it, \
                   and see the agent's log if it already runs.",
                ],
            ),
            (
                cluster(false, &[]),
                &[
                    "Cluster cluster3 waits for a hub administrator to accept it: run `drover accept --clusters cluster3`.",
                    "The agent of cluster cluster3 has not asked for a certificate yet; see the agent's log.",
                ],
            ),
            (
                cluster(false, &[denied, JOINED]),
                &[
                    "A hub administrator has denied cluster cluster3; `drover accept --clusters cluster3` accepts it again.",
                ],
            ),
            (
                cluster(true, &[JOINED]),
                &[
                    "Cluster cluster3 waits for the hub's controllers to make its namespace and permissions; \
                     is the hub process running?",
                    "Cluster cluster3 waits for its agent to report the health of its Kubernetes API.",
                ],
            ),
            (
                cluster(true, &[ACCEPTED, JOINED, unknown]),
                &[
                    "The agent of cluster cluster3 does not report any more; its last sign of life was 10m ago: \
                   is it running, and can it reach the hub?",
                ],
            ),
            (
                cluster(true, &[ACCEPTED, JOINED, ill]),
                &["The Kubernetes API of cluster cluster3 is not healthy: status code: 500."],
            ),
            (cluster(true, &[ACCEPTED, JOINED, available]), &[]),
        ];
        for (cluster, wanted) in cases {
            assert_eq!(waits_for("cluster3", &seen(cluster)), wanted);
        }
    }

    #[test]
    fn an_import_that_fails_says_why() {
        let said = |reason: &str, message: &str| {
            let import = ("ManagedClusterImportSucceeded", "False", reason, message);
            let mut all = waits_for("cluster3", &seen(cluster(true, &[ACCEPTED, import])));
            all.retain(|it| it.contains("imported"));
            all.join(" ")
        };
        assert_eq!(
            said("ImportFailed", "https://c3 does not answer"),
            "Cluster cluster3 is not imported yet, and the hub will try again: https://c3 does not answer."
        );
        assert_eq!(
            said("KubeConfigNotFound", "Secret for kubeconfig is not found."),
            "Cluster cluster3 is not imported yet: its Cluster of Cluster API is not Provisioned."
        );
        let done = ("ManagedClusterImportSucceeded", "True", "ImportSucceed", "");
        let all = waits_for("cluster3", &seen(cluster(true, &[ACCEPTED, done])));
        assert!(all.iter().all(|it| !it.contains("imported")), "{all:?}");
    }

    #[test]
    fn a_second_agent_of_a_joined_cluster_is_reported() {
        let available = (
            "ManagedClusterConditionAvailable",
            "True",
            "ManagedClusterAvailable",
            "",
        );
        let mut seen = seen(cluster(true, &[ACCEPTED, JOINED, available]));
        let mut csr = testkit::cluster_request::of_agent("cluster3", "system:bootstrap:abcdef");
        csr.metadata.name = Some("cluster3-x".into());
        seen.csrs = vec![csr];
        let sentences = waits_for("cluster3", &seen);
        assert_eq!(sentences.len(), 1);
        assert!(
            sentences[0].starts_with(
                "CSR cluster3-x is of an agent that wants to be cluster cluster3, which has joined already"
            ),
            "{sentences:?}"
        );
        // The cluster's own agent that renews its certificate is no second one.
        seen.csrs[0].spec.username = Some(ocm_api::identity::agent_user("cluster3", "agent1"));
        assert!(waits_for("cluster3", &seen).is_empty());
    }

    #[test]
    fn a_deletion_names_what_holds_it() {
        let mut it = cluster(true, &[("Deleting", "False", "ResourceRemaining", "2 works remain")]).unwrap();
        it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        it["metadata"]["finalizers"] = json!(["cluster.open-cluster-management.io/resource-cleanup"]);
        assert_eq!(
            waits_for("cluster3", &seen(Some(it))),
            ["Cluster cluster3 is being deleted and waits for the finalizers \
              cluster.open-cluster-management.io/resource-cleanup: 2 works remain."]
        );
    }
}
