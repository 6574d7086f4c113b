//! What upstream's programs take: every sub-command with its flags and their defaults, as tables.
//! Upstream: ocm `pkg/cmd`, `pkg/common/options`, `pkg/{registration,work,addon}`, and library-go's `controllercmd`.

use cobra::{Flag, KnownGate, ValueKind, alpha, beta, flag, hidden};

/// A sub-command.
pub struct Subcommand {
    pub name: &'static str,
    pub about: &'static str,
    pub flags: &'static [&'static [Flag]],
    pub gates: &'static [KnownGate],
}

use ValueKind::{Array, Bool, Duration, Float32, Int, Int32, List, Pairs, Text};

/// Of every sub-command.
pub const LOGGING: &[Flag] = &[
    flag(
        "log-flush-frequency",
        Duration,
        "5s",
        "Taken as upstream does; the log is written as it comes",
    ),
    flag(
        "v",
        Int,
        "0",
        "How much to log: 0 to 3 what happens, 4 and 5 why, 6 and more everything; $DROVER_LOG says it finer",
    )
    .short('v'),
    flag("vmodule", Text, "", "Taken as upstream does; use $DROVER_LOG"),
];

/// Of every sub-command that runs controllers.
const CONTROLLER: &[Flag] = &[
    flag(
        "config",
        Text,
        "",
        "A file of kind GenericOperatorConfig with servingInfo and leaderElection",
    ),
    flag(
        "disable-leader-election",
        Bool,
        "false",
        "Work at once, though another process may",
    ),
    flag(
        "kube-api-burst",
        Int,
        "100",
        "Taken as upstream does; one connection carries all requests, and the server says when they are too many",
    ),
    flag("kube-api-qps", Float32, "50", "As --kube-api-burst"),
    flag(
        "kubeconfig",
        Text,
        "",
        "The kubeconfig of the API server; without one, that of the pod's ServiceAccount",
    ),
    flag(
        "leader-election-lease-duration",
        Duration,
        "2m17s",
        "How long the others wait after the leader's last word",
    ),
    flag(
        "leader-election-renew-deadline",
        Duration,
        "1m47s",
        "After how long without a word a leader stops",
    ),
    flag(
        "leader-election-retry-period",
        Duration,
        "26s",
        "How often the leader gives word, and the others look",
    ),
    flag(
        "listen",
        Text,
        "",
        "Where to serve health and metrics over TLS (default 0.0.0.0:8443)",
    ),
    flag(
        "namespace",
        Text,
        "",
        "The namespace of the Lease; without one, that of the pod",
    ),
    flag(
        "terminate-on-files",
        Array,
        "",
        "Begin anew when one of these files changes",
    ),
    flag(
        "tls-cipher-suites",
        Text,
        "",
        "The cipher suites to serve with, by their IANA names",
    ),
    flag(
        "tls-min-version",
        Text,
        "",
        "The oldest TLS to serve with: VersionTLS12 or VersionTLS13",
    ),
];

/// Of every webhook server.
const WEBHOOK: &[Flag] = &[
    flag(
        "certdir",
        Text,
        "",
        "The directory with tls.crt and tls.key (default k8s-webhook-server/serving-certs where files are temporary)",
    ),
    flag(
        "health-probe-port",
        Int,
        "8000",
        "Where to answer /healthz and /readyz without TLS; 0 for nowhere",
    ),
    flag(
        "kubeconfig",
        Text,
        "",
        "The kubeconfig of the API server; without one, that of the pod's ServiceAccount",
    ),
    flag(
        "metrics-port",
        Int,
        "8080",
        "Where to serve /metrics without TLS; 0 for nowhere",
    ),
    flag("port", Int, "9443", "Where to answer reviews over TLS"),
    flag(
        "tls-cipher-suites",
        Text,
        "",
        "The cipher suites to serve with, by their IANA names",
    ),
    flag(
        "tls-min-version",
        Text,
        "",
        "The oldest TLS to serve with: VersionTLS12 or VersionTLS13",
    ),
    hidden(
        "bind-address",
        Text,
        "0.0.0.0",
        "The address to serve on; upstream has no such flag",
    ),
];

const REGISTRATION_CONTROLLER: &[Flag] = &[
    flag(
        "agent-image",
        Text,
        "",
        "The image of the operator that imported clusters get, with render-auto",
    ),
    flag(
        "auto-approved-arn-patterns",
        List,
        "",
        "For the driver awsirsa, which is not here",
    ),
    flag(
        "auto-approved-csr-users",
        List,
        "",
        "Whose certificate requests are approved without a human, with ManagedClusterAutoApproval",
    ),
    flag(
        "auto-approved-grpc-users",
        List,
        "",
        "For the driver grpc, which is not here",
    ),
    flag(
        "aws-resource-tags",
        List,
        "",
        "For the driver awsirsa, which is not here",
    ),
    flag(
        "bootstrap-serviceaccount",
        Text,
        "open-cluster-management/agent-registration-bootstrap",
        "The ServiceAccount, as NAMESPACE/NAME, that imported clusters join with, with render-auto",
    ),
    hidden(
        "cluster-auto-approval-users",
        List,
        "",
        "The old name of --auto-approved-csr-users",
    ),
    flag(
        "enabled-registration-drivers",
        List,
        "csr",
        "How clusters prove who they are: csr",
    ),
    flag(
        "gc-resource-list",
        List,
        "addon.open-cluster-management.io/v1beta1/managedclusteraddons,work.open-cluster-management.io/v1/manifestworks",
        "What is deleted from the namespace of a cluster that goes, in this order, with ResourceCleanup",
    ),
    flag("grpc-ca-file", Text, "", "For the driver grpc, which is not here"),
    flag("grpc-key-file", Text, "", "For the driver grpc, which is not here"),
    flag(
        "grpc-signing-duration",
        Duration,
        "720h0m0s",
        "For the driver grpc, which is not here",
    ),
    flag(
        "hub-apiserver-url",
        Text,
        "",
        "Where imported clusters reach the hub, with render-auto; else ConfigMap kube-public/cluster-info says",
    ),
    flag("hub-cluster-arn", Text, "", "For the driver awsirsa, which is not here"),
    flag(
        "image-pull-secret-name",
        Text,
        "open-cluster-management-image-pull-credentials",
        "The Secret that imported clusters pull images with, with render-auto",
    ),
    flag(
        "import-renderers",
        List,
        "render-from-config-secret",
        "What imported clusters are told, the later over the earlier: render-auto, render-from-config-secret",
    ),
    flag(
        "labels",
        Text,
        "",
        "Labels for the namespaces and roles of clusters, as a=b,c=d",
    ),
];

/// Of both agents.
const AGENT: &[Flag] = &[
    flag("agent-id", Text, "", "Which agent this is"),
    flag("cluster-name", Text, "", "The old name of --spoke-cluster-name"),
    flag("hub-kube-api-burst", Int, "100", "As --kube-api-burst"),
    flag("hub-kube-api-qps", Float32, "50", "As --kube-api-burst"),
    flag(
        "hub-kubeconfig",
        Text,
        "",
        "The kubeconfig of the hub (default: the file kubeconfig in --hub-kubeconfig-dir)",
    ),
    flag(
        "hub-kubeconfig-dir",
        Text,
        "/spoke/hub-kubeconfig",
        "The directory of the hub's credential",
    ),
    flag("spoke-cluster-name", Text, "", "The cluster's name on the hub"),
    flag(
        "spoke-kubeconfig",
        Text,
        "",
        "The kubeconfig of the cluster to manage, when it is another than that of --kubeconfig",
    ),
];

const REGISTRATION_AGENT: &[Flag] = &[
    flag(
        "addon-kubeclient-registration-auth",
        Text,
        "csr",
        "How the agents of add-ons prove to the hub who they are: csr or token",
    ),
    flag(
        "addon-token-expiration-seconds",
        Int,
        "31536000",
        "How long their tokens live",
    ),
    flag("bootstrap-kubeconfig", Text, "", "The kubeconfig to join the hub with"),
    flag(
        "bootstrap-kubeconfig-secret",
        Text,
        "bootstrap-hub-kubeconfig",
        "The Secret that it is from; the file is what is watched",
    ),
    flag(
        "bootstrap-kubeconfigs",
        Array,
        "",
        "The kubeconfigs of the hubs to choose from, the best first, with MultipleHubs",
    ),
    flag(
        "client-cert-expiration-seconds",
        Int32,
        "0",
        "The lifetime of certificates to ask for; 0 leaves it to the hub",
    ),
    flag(
        "cluster-annotations",
        Pairs,
        "",
        "Annotations for the ManagedCluster, those that begin with agent.open-cluster-management.io",
    ),
    flag(
        "cluster-healthcheck-period",
        Duration,
        "1m0s",
        "How often the cluster's health is looked at",
    ),
    flag(
        "grpc-bootstrap-config",
        Text,
        "",
        "For the driver grpc, which is not here",
    ),
    flag("grpc-config", Text, "", "For the driver grpc, which is not here"),
    flag("hub-cluster-arn", Text, "", "For the driver awsirsa, which is not here"),
    flag(
        "hub-connection-timeout-seconds",
        Int32,
        "600",
        "After how long without a heartbeat to turn to another hub, with MultipleHubs",
    ),
    flag(
        "hub-kubeconfig-secret",
        Text,
        "hub-kubeconfig-secret",
        "The Secret that holds the hub's credential",
    ),
    flag(
        "managed-cluster-arn",
        Text,
        "",
        "For the driver awsirsa, which is not here",
    ),
    flag(
        "managed-cluster-role-suffix",
        Text,
        "",
        "For the driver awsirsa, which is not here",
    ),
    flag(
        "max-custom-cluster-claims",
        Int,
        "20",
        "How many claims that are not reserved are told to the hub",
    ),
    flag(
        "registration-auth",
        Text,
        "",
        "How the cluster proves who it is: with a certificate, unless awsirsa or grpc, which are not here",
    ),
    flag(
        "reserved-cluster-claim-suffixes",
        List,
        "",
        "Claims whose names end so are reserved as well",
    ),
    flag(
        "spoke-external-server-urls",
        Array,
        "",
        "How the cluster's API server is reached from outside",
    ),
];

const WORK_MANAGER: &[Flag] = &[
    flag(
        "cloudevents-client-id",
        Text,
        "",
        "For CloudEventsDrivers, which is not here",
    ),
    flag("work-driver", Text, "kube", "How works travel: kube"),
    flag(
        "work-driver-config",
        Text,
        "",
        "For CloudEventsDrivers, which is not here",
    ),
];

const WORK_AGENT: &[Flag] = &[
    flag(
        "appliedmanifestwork-eviction-grace-period",
        Duration,
        "1h0m0s",
        "How long the objects of a work that vanished from the hub stay; 876000h and more for ever",
    ),
    flag(
        "cloudevents-client-codecs",
        List,
        "",
        "For drivers other than kube, which are not here",
    ),
    flag(
        "cloudevents-client-id",
        Text,
        "",
        "For drivers other than kube, which are not here",
    ),
    flag(
        "max-feedback-watch",
        Int32,
        "50",
        "Taken as upstream does; every object of a work is watched, kind by kind",
    ),
    flag(
        "max-json-raw-length",
        Int32,
        "1024",
        "The longest feedback that is JSON, with RawFeedbackJsonString",
    ),
    flag(
        "status-sync-interval",
        Duration,
        "10s",
        "Taken as upstream does; the status is told as it changes",
    ),
    flag(
        "workload-agent-workers",
        Int,
        "10",
        "How many works are looked at at the same time; 32 when the flag is not there",
    ),
    flag(
        "workload-source-config",
        Text,
        "/spoke/hub-kubeconfig/kubeconfig",
        "The kubeconfig of the hub that works come from",
    ),
    flag("workload-source-driver", Text, "kube", "How works travel: kube"),
];

const WORK_WEBHOOK: &[Flag] = &[flag(
    "manifestLimit",
    Int,
    "512000",
    "The most bytes that the manifests of a work may have together",
)];

const HUB_REGISTRATION_GATES: &[KnownGate] = &[
    alpha("ClusterImporter", false),
    alpha("ClusterProfile", false),
    alpha("DefaultClusterSet", true),
    alpha("ManagedClusterAutoApproval", false),
    beta("ResourceCleanup", true),
    alpha("V1beta1CSRAPICompatibility", false),
];

const AGENT_REGISTRATION_GATES: &[KnownGate] = &[
    beta("AddonManagement", true),
    beta("ClusterClaim", true),
    alpha("ClusterProperty", false),
    alpha("MultipleHubs", false),
    alpha("V1beta1CSRAPICompatibility", false),
];

const HUB_WORK_GATES: &[KnownGate] = &[
    alpha("CleanUpCompletedManifestWork", false),
    alpha("CloudEventsDrivers", false),
    alpha("ManifestWorkReplicaSet", false),
    alpha("NilExecutorValidating", false),
];

const AGENT_WORK_GATES: &[KnownGate] = &[
    alpha("ExecutorValidatingCaches", false),
    alpha("RawFeedbackJsonString", false),
];

const SINGLETON_GATES: &[KnownGate] = &[
    beta("AddonManagement", true),
    beta("ClusterClaim", true),
    alpha("ClusterProperty", false),
    alpha("ExecutorValidatingCaches", false),
    alpha("MultipleHubs", false),
    alpha("RawFeedbackJsonString", false),
    alpha("V1beta1CSRAPICompatibility", false),
];

pub const REGISTRATION: &[Subcommand] = &[
    Subcommand {
        name: "controller",
        about: "Look after clusters and their sets on the hub",
        flags: &[CONTROLLER, REGISTRATION_CONTROLLER],
        gates: HUB_REGISTRATION_GATES,
    },
    Subcommand {
        name: "agent",
        about: "Join a cluster to a hub, and keep it joined",
        flags: &[CONTROLLER, AGENT, REGISTRATION_AGENT],
        gates: AGENT_REGISTRATION_GATES,
    },
    Subcommand {
        name: "webhook-server",
        about: "Answer a hub's API server about clusters and bindings of sets",
        flags: &[WEBHOOK],
        gates: HUB_REGISTRATION_GATES,
    },
];

pub const WORK: &[Subcommand] = &[
    Subcommand {
        name: "manager",
        about: "Look after works on the hub: sets of them, and those that are complete",
        flags: &[CONTROLLER, WORK_MANAGER],
        gates: HUB_WORK_GATES,
    },
    Subcommand {
        name: "agent",
        about: "Carry out a hub's works on a cluster",
        flags: &[CONTROLLER, AGENT, WORK_AGENT],
        gates: AGENT_WORK_GATES,
    },
    Subcommand {
        name: "webhook-server",
        about: "Answer a hub's API server about works",
        flags: &[WEBHOOK, WORK_WEBHOOK],
        gates: HUB_WORK_GATES,
    },
];

pub const PLACEMENT: &[Subcommand] = &[
    Subcommand {
        name: "controller",
        about: "Choose clusters for placements",
        flags: &[CONTROLLER],
        gates: &[],
    },
    Subcommand {
        name: "debug",
        about: "Show what a placement would choose, step by step",
        flags: &[CONTROLLER],
        gates: &[],
    },
];

pub const ADDON: &[Subcommand] = &[
    Subcommand {
        name: "manager",
        about: "Look after add-ons on the hub",
        flags: &[CONTROLLER],
        gates: &[],
    },
    Subcommand {
        name: "webhook-server",
        about: "Convert add-on objects between their versions for a hub's API server",
        flags: &[WEBHOOK],
        gates: &[],
    },
];

/// Of both operators.
const OPERATORS_FLAGS: &[Flag] = &[
    flag(
        "control-plane-node-label-selector",
        Text,
        "node-role.kubernetes.io/master=",
        "The nodes that are counted: with more than one, Deployments have three replicas",
    ),
    flag(
        "deployment-replicas",
        Int32,
        "0",
        "The replicas of Deployments, instead of counting nodes",
    ),
    flag(
        "enable-sync-labels",
        Bool,
        "false",
        "Copy the labels of a ClusterManager or Klusterlet to what is made for it",
    ),
];

/// Of the operator of hubs.
const HUB_OPERATOR: &[Flag] = &[
    flag(
        "image-pull-secret-name",
        Text,
        "open-cluster-management-image-pull-credentials",
        "The Secret of the operator's namespace that images are pulled with",
    ),
    flag(
        "skip-remove-crds",
        Bool,
        "false",
        "Leave the CRDs where they are when a ClusterManager is deleted",
    ),
];

/// Of the operator of agents.
const KLUSTERLET_OPERATOR: &[Flag] = &[
    flag(
        "disable-default-addon-namespace",
        Bool,
        "false",
        "Do not make the namespace open-cluster-management-agent-addon",
    ),
    hidden("skip-placeholder-hub-secret", Bool, "false", "Taken as upstream does"),
];

const HUB: Subcommand = Subcommand {
    name: "hub",
    about: "Put hubs on clusters, as ClusterManagers say",
    flags: &[CONTROLLER, OPERATORS_FLAGS, HUB_OPERATOR],
    gates: &[],
};

const KLUSTERLET: Subcommand = Subcommand {
    name: "klusterlet",
    about: "Put agents on clusters, as Klusterlets say",
    flags: &[CONTROLLER, OPERATORS_FLAGS, KLUSTERLET_OPERATOR],
    gates: &[],
};

/// The operators alone.
pub const OPERATORS: &[Subcommand] = &[HUB, KLUSTERLET];

pub const OPERATOR: &[Subcommand] = &[
    HUB,
    KLUSTERLET,
    Subcommand {
        name: "agent",
        about: "Join a cluster to a hub, and carry out the hub's works on it",
        flags: &[CONTROLLER, AGENT, REGISTRATION_AGENT, WORK_AGENT],
        gates: SINGLETON_GATES,
    },
];
