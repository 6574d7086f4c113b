//! What a credential has to be allowed at the hub, and what is said when it is not.
//! Upstream: ocm `pkg/common/helpers/ssar.go` and
//! `pkg/operator/operators/klusterlet/controllers/ssarcontroller/klusterlet_ssar_controller.go`. We differ in these: a
//! credential that the hub does not know is `…Unauthorized`, where upstream says `…Error`; with several hubs the
//! condition is there as well.

use ocm_api::{
    condition::{ConditionUpdate, wanted},
    conditions::klusterlet as conditions,
    namespaces::{BOOTSTRAP_KUBECONFIG_SECRET, CLUSTER_LEASE, HUB_KUBECONFIG_SECRET},
};
use ocm_reconcile::access::Attributes;

/// Reasons of the condition `HubConnectionDegraded`.
pub mod reason {
    /// The hub lets the agent do all it does.
    pub const FUNCTIONAL: &str = "HubConnectionFunctional";
    /// There is no Secret to join with.
    pub const BOOTSTRAP_MISSING: &str = "BootstrapSecretMissing";
    /// It leads nowhere.
    pub const BOOTSTRAP_ERROR: &str = "BootstrapSecretError";
    /// The hub refuses it.
    pub const BOOTSTRAP_UNAUTHORIZED: &str = "BootstrapSecretUnauthorized";
    /// The cluster may join with it.
    pub const BOOTSTRAP_FUNCTIONAL: &str = "BootstrapSecretFunctional";
    /// The cluster has not joined: there is no Secret with a credential.
    pub const HUB_SECRET_MISSING: &str = "HubKubeConfigSecretMissing";
    /// The Secret has no kubeconfig.
    pub const HUB_MISSING: &str = "HubKubeConfigMissing";
    /// It leads nowhere.
    pub const HUB_ERROR: &str = "HubKubeConfigError";
    /// Nobody says the cluster's name.
    pub const NAME_MISSING: &str = "ClusterNameMissing";
    /// The hub refuses it.
    pub const HUB_UNAUTHORIZED: &str = "HubKubeConfigUnauthorized";
}

/// What came of asking the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// All is allowed.
    Allowed,
    /// This is not.
    Denied(String),
    /// The hub does not know the credential.
    Unknown(String),
    /// The hub could not be asked.
    Unreachable(String),
}

/// What was found of the Secret to join with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BootstrapFinding {
    /// It is not there.
    Missing,
    /// It cannot be used.
    Unusable(String),
    /// The hub was asked.
    Asked {
        /// The hub's address.
        server: String,
        /// What it said.
        answer: Answer,
    },
}

/// What was found of the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialFinding {
    /// The Secret is not there.
    SecretMissing,
    /// It has no kubeconfig.
    KubeconfigMissing,
    /// It cannot be used.
    Unusable(String),
    /// Nobody says the cluster's name.
    NameMissing,
    /// The hub was asked.
    Asked {
        /// The hub's address.
        server: String,
        /// What it said.
        answer: Answer,
    },
}

impl CredentialFinding {
    /// Whether all is well.
    pub fn is_functional(&self) -> bool {
        matches!(
            self,
            CredentialFinding::Asked {
                answer: Answer::Allowed,
                ..
            }
        )
    }
}

/// What was found of both Secrets.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Of the Secret to join with, if it matters.
    pub bootstrap: Option<BootstrapFinding>,
    /// Of the credential.
    pub hub: CredentialFinding,
}

/// One resource, and what is done to it.
struct Asked<'a> {
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
    verbs: &'a [&'a str],
}

const CLUSTERS: &str = "cluster.open-cluster-management.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const WORKS: &str = "work.open-cluster-management.io";

fn asked<'a>(group: &'a str, resource: &'a str, verbs: &'a [&'a str]) -> Asked<'a> {
    Asked {
        group,
        resource,
        subresource: "",
        namespace: "",
        name: "",
        verbs,
    }
}

/// What has to be allowed for joining.
pub fn to_join() -> Vec<Attributes> {
    reviews(&[
        asked(CLUSTERS, "managedclusters", &["create", "get"]),
        asked(
            CERTIFICATES,
            "certificatesigningrequests",
            &["create", "get", "list", "watch"],
        ),
    ])
}

/// What has to be allowed to the agent of a cluster.
pub fn to_serve(cluster: &str) -> Vec<Attributes> {
    let in_namespace = |it| Asked {
        namespace: cluster,
        ..it
    };
    let of_cluster = |it| Asked { name: cluster, ..it };
    reviews(&[
        asked(CERTIFICATES, "certificatesigningrequests", &["get", "list", "watch"]),
        of_cluster(asked(CLUSTERS, "managedclusters", &["get", "list", "update", "watch"])),
        of_cluster(Asked {
            subresource: "status",
            ..asked(CLUSTERS, "managedclusters", &["patch", "update"])
        }),
        Asked {
            subresource: "clientcertificates",
            ..asked("register.open-cluster-management.io", "managedclusters", &["renew"])
        },
        in_namespace(Asked {
            name: CLUSTER_LEASE,
            ..asked("coordination.k8s.io", "leases", &["get", "update"])
        }),
        in_namespace(asked("", "events", &["create", "patch", "update"])),
        in_namespace(asked("events.k8s.io", "events", &["create", "patch", "update"])),
        in_namespace(asked(WORKS, "manifestworks", &["get", "list", "watch", "update"])),
        in_namespace(Asked {
            subresource: "status",
            ..asked(WORKS, "manifestworks", &["patch", "update"])
        }),
    ])
}

fn reviews(all: &[Asked]) -> Vec<Attributes> {
    let some = |it: &str| (!it.is_empty()).then(|| it.to_owned());
    let review = |asked: &Asked, verb: &str| Attributes {
        verb: verb.to_owned(),
        group: asked.group.to_owned(),
        resource: asked.resource.to_owned(),
        subresource: some(asked.subresource),
        namespace: some(asked.namespace),
        name: some(asked.name),
    };
    let of = |asked: &Asked| asked.verbs.iter().map(|it| review(asked, it)).collect::<Vec<_>>();
    all.iter().flat_map(of).collect()
}

/// What was asked for, as a person says it: `update managedclusters/status of cluster.open-cluster-management.io`.
pub fn described(asked: &Attributes) -> String {
    let mut text = format!("{} {}", asked.verb, asked.resource);
    let group = Some(asked.group.clone()).filter(|it| !it.is_empty());
    for (before, value) in [
        ("/", &asked.subresource),
        (" of ", &group),
        (" ", &asked.name),
        (" in namespace ", &asked.namespace),
    ] {
        if let Some(value) = value {
            text += before;
            text += value;
        }
    }
    text
}

/// The condition, from what was found of both Secrets; of the one to join with only if it matters.
pub fn condition(namespace: &str, bootstrap: Option<&BootstrapFinding>, hub: &CredentialFinding) -> ConditionUpdate {
    let (hub_reason, hub_message) = told_of_hub(namespace, hub);
    if hub.is_functional() {
        return wanted(conditions::HUB_CONNECTION_DEGRADED, false, hub_reason, hub_message);
    }
    let (reason, message) = match bootstrap.map(|it| told_of_bootstrap(namespace, it)) {
        Some((reason, message)) => (format!("{reason},{hub_reason}"), format!("{message}\n{hub_message}")),
        None => (hub_reason.to_owned(), hub_message),
    };
    wanted(conditions::HUB_CONNECTION_DEGRADED, true, &reason, message)
}

fn told_of_bootstrap(namespace: &str, found: &BootstrapFinding) -> (&'static str, String) {
    let secret = format!("{namespace}/{BOOTSTRAP_KUBECONFIG_SECRET}");
    match found {
        BootstrapFinding::Missing => (
            reason::BOOTSTRAP_MISSING,
            format!("Bootstrap secret {secret} is missing: create it with the key kubeconfig, a kubeconfig of the hub"),
        ),
        BootstrapFinding::Unusable(why) => (
            reason::BOOTSTRAP_ERROR,
            format!("Bootstrap secret {secret} cannot be used: {why}"),
        ),
        BootstrapFinding::Asked { server, answer } => match answer {
            Answer::Allowed => (
                reason::BOOTSTRAP_FUNCTIONAL,
                format!("Bootstrap secret {secret} to apiserver {server} is configured correctly"),
            ),
            Answer::Denied(what) => (
                reason::BOOTSTRAP_UNAUTHORIZED,
                format!(
                    "Bootstrap secret {secret} to apiserver {server} is not allowed to {what}: put a kubeconfig there that \
                     may join, such as that of a new token of the hub"
                ),
            ),
            Answer::Unknown(why) => (
                reason::BOOTSTRAP_UNAUTHORIZED,
                format!(
                    "Bootstrap secret {secret} is not accepted by apiserver {server} ({why}): its token may have expired; put \
                     one with a new token of the hub there"
                ),
            ),
            Answer::Unreachable(why) => (
                reason::BOOTSTRAP_ERROR,
                format!("Bootstrap secret {secret} leads to apiserver {server}, which cannot be asked: {why}"),
            ),
        },
    }
}

fn told_of_hub(namespace: &str, found: &CredentialFinding) -> (&'static str, String) {
    let secret = format!("{namespace}/{HUB_KUBECONFIG_SECRET}");
    match found {
        CredentialFinding::SecretMissing => (
            reason::HUB_SECRET_MISSING,
            format!(
                "Hub kubeconfig secret {secret} is missing: the registration agent makes it when the hub has accepted the \
                 cluster and approved its certificate request"
            ),
        ),
        CredentialFinding::KubeconfigMissing => (
            reason::HUB_MISSING,
            format!(
                "Hub kubeconfig secret {secret} has no key kubeconfig: the registration agent writes it when the hub has \
                 approved its certificate request"
            ),
        ),
        CredentialFinding::Unusable(why) => (
            reason::HUB_ERROR,
            format!("Hub kubeconfig secret {secret} cannot be used: {why}"),
        ),
        CredentialFinding::NameMissing => (
            reason::NAME_MISSING,
            format!(
                "Hub kubeconfig secret {secret} has no key cluster-name, which the registration agent writes, and \
                 spec.clusterName is empty"
            ),
        ),
        CredentialFinding::Asked { server, answer } => match answer {
            Answer::Allowed => (
                reason::FUNCTIONAL,
                format!("Hub kubeconfig secret {secret} to apiserver {server} is working"),
            ),
            Answer::Denied(what) => (
                reason::HUB_UNAUTHORIZED,
                format!(
                    "Hub kubeconfig secret {secret} to apiserver {server} is not allowed to {what}: the hub's administrator \
                     has to accept the cluster (spec.hubAcceptsClient of its ManagedCluster)"
                ),
            ),
            Answer::Unknown(why) => (
                reason::HUB_UNAUTHORIZED,
                format!(
                    "Hub kubeconfig secret {secret} is not accepted by apiserver {server} ({why}): its certificate may have \
                     expired; the registration agent joins anew with the bootstrap secret"
                ),
            ),
            Answer::Unreachable(why) => (
                reason::HUB_ERROR,
                format!("Hub kubeconfig secret {secret} leads to apiserver {server}, which cannot be asked: {why}"),
            ),
        },
    }
}

/// Whether somebody has to do something, rather than to wait for the hub's administrator.
pub fn is_alarming(found: &Findings) -> bool {
    let is_bad = |it: &Answer| *it != Answer::Allowed;
    let bootstrap = match &found.bootstrap {
        None => false,
        Some(BootstrapFinding::Missing | BootstrapFinding::Unusable(_)) => true,
        Some(BootstrapFinding::Asked { answer, .. }) => is_bad(answer),
    };
    let hub = match &found.hub {
        CredentialFinding::SecretMissing | CredentialFinding::KubeconfigMissing | CredentialFinding::NameMissing => {
            false
        }
        CredentialFinding::Unusable(_) => true,
        CredentialFinding::Asked { answer, .. } => !matches!(answer, Answer::Allowed | Answer::Denied(_)),
    };
    bootstrap || hub
}
