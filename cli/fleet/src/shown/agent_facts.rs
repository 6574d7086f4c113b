//! What a Klusterlet says of the agent of a cluster of this process.

use ocm_api::{
    condition::{self, ConditionUpdate, wanted},
    conditions::klusterlet,
    namespaces,
    operator::{Klusterlet, RelatedResourceMeta},
};
use registration::agent::HubSession;
use tokio::sync::watch;

use super::{
    image,
    klusterlet::{NAME, Seen},
    related, related_crd,
};

/// The Deployments that an agent is, in upstream's layouts and in ours: see the ClusterManager's.
const DEPLOYMENTS: [&str; 3] = ["agent", "registration-agent", "work-agent"];

/// What there is to say about an agent.
#[derive(Clone)]
pub struct AgentFacts {
    /// The cluster's name on the hub.
    pub cluster_name: String,
    /// Where others reach its API server.
    pub server_url: String,
    /// PEM of the certificates to trust there.
    pub server_ca: String,
    /// The session with the hub while there is one.
    pub sessions: watch::Receiver<Option<HubSession>>,
}

/// Whether the agent has a hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HubConnection {
    /// It speaks to the hub as a cluster that was accepted.
    Established,
    /// It has a credential, and the hub does not take it or has not accepted the cluster.
    Refused,
    /// It has no credential of its own yet.
    NoCredential,
}

/// Writes down what the agent is.
pub fn specify(object: &mut Klusterlet, seen: &Seen) {
    let spec = &mut object.spec;
    spec.namespace = namespaces::AGENT.to_owned();
    spec.cluster_name.clone_from(&seen.cluster_name);
    spec.image_pull_spec = image();
    // Registration and works in one process.
    spec.deploy_option.mode = "Singleton".to_owned();
    spec.external_server_urls = vec![seen.server.clone()];
}

/// Writes down how it is.
pub fn report(object: &mut Klusterlet, seen: &Seen) {
    let generation = object.metadata.generation;
    let status = object.status.get_or_insert_default();
    let runs = "The agent runs in the process of drover up; there is no operator and no Deployment";
    for update in [
        wanted(klusterlet::APPLIED, true, "KlusterletApplied", runs),
        wanted(
            klusterlet::VALID_FEATURE_GATES,
            true,
            "FeatureGatesAllValid",
            "Feature gates are all valid",
        ),
        wanted(klusterlet::AVAILABLE, true, "KlusterletAvailable", runs),
        wanted(
            klusterlet::REGISTRATION_DESIRED_DEGRADED,
            false,
            "DeploymentsFunctional",
            runs,
        ),
        wanted(klusterlet::WORK_DESIRED_DEGRADED, false, "DeploymentsFunctional", runs),
        connection(seen),
    ] {
        condition::set(&mut status.conditions, update.at_generation(generation), seen.now);
    }
    status.observed_generation = generation.unwrap_or_default();
    status.related_resources = related_resources();
}

/// The reasons are upstream's: that of the bootstrap kubeconfig, which is always there, and that of the credential.
fn connection(seen: &Seen) -> ConditionUpdate {
    let cluster = &seen.cluster_name;
    let (is_degraded, reason, message) = match seen.connection {
        HubConnection::Established => (
            false,
            "HubConnectionFunctional",
            format!("The agent speaks to the hub of drover up as cluster {cluster}"),
        ),
        HubConnection::Refused => (
            true,
            "BootstrapSecretFunctional,HubKubeConfigUnauthorized",
            format!(
                "The hub of drover up does not take the agent's credential or has not accepted cluster {cluster}; accept it with \
                 `drover accept --clusters {cluster}`, and ask `drover why managedcluster/{cluster}`"
            ),
        ),
        HubConnection::NoCredential => (
            true,
            "BootstrapSecretFunctional,HubKubeConfigSecretMissing",
            format!("The agent has asked the hub of drover up for a credential as cluster {cluster} and has none yet"),
        ),
    };
    wanted(klusterlet::HUB_CONNECTION_DEGRADED, is_degraded, reason, message)
}

fn related_resources() -> Vec<RelatedResourceMeta> {
    let crds = [
        "appliedmanifestworks.work.open-cluster-management.io",
        "clusterclaims.cluster.open-cluster-management.io",
    ];
    let deployment = |part: &&str| related("apps", "deployments", namespaces::AGENT, &format!("{NAME}-{part}"));
    let spaces = [namespaces::AGENT, namespaces::AGENT_ADDON].map(|it| related("", "namespaces", "", it));
    let crds = crds.iter().map(|it| related_crd(it));
    crds.chain(spaces).chain(DEPLOYMENTS.iter().map(deployment)).collect()
}
