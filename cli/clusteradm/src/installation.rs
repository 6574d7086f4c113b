//! The commands that install hubs and agents and take them off, with their flags.

use cobra::{
    CobraCommand, Flag, KnownGate,
    ValueKind::{Array, Bool, Gates, Int32, Int64, List, Pairs, Text},
    alpha, beta, flag,
};

use crate::commands::{CLUSTERS, REGISTRATION, command};

const GENERAL: &str = "General commands:";

const GATES: Flag = flag("feature-gates", Gates, "", "Switches to turn on or off, as NAME=BOOL");
const OUTPUT_FILE: Flag = flag("output-file", Text, "", "Also write what is applied to this file");
const SINGLETON: &str = "install via helm chart directly";
const NOT_HERE: &str = "Upstream's registration with AWS or gRPC; refused";

/// Which images.
const BUNDLE: &[Flag] = &[
    flag(
        "bundle-version",
        Text,
        "default",
        "The release to install: 1.1.0 to 1.3.1, default or latest",
    ),
    flag(
        "bundle-version-overrides",
        Text,
        "",
        "A JSON file that overrides parts of the release",
    ),
];
const REGISTRY: &[Flag] = &[flag(
    "image-registry",
    Text,
    "quay.io/open-cluster-management",
    "The registry of the images",
)];
const CREDENTIAL: &[Flag] = &[flag(
    "image-pull-credential-file",
    Text,
    "",
    "The config.json of docker to pull images with",
)];

/// What containers ask for.
const RESOURCES: &[Flag] = &[
    flag(
        "resource-qos-class",
        Text,
        "Default",
        "What containers ask for: Default, BestEffort or ResourceRequirement",
    ),
    flag(
        "resource-limits",
        Pairs,
        "",
        "What containers may use, for example cpu=800m,memory=800Mi",
    ),
    flag(
        "resource-requests",
        Pairs,
        "",
        "What containers ask for, for example cpu=500m,memory=500Mi",
    ),
];

const HUB_GATES: &[KnownGate] = &[
    beta("AddonManagement", true),
    alpha("CleanUpCompletedManifestWork", false),
    alpha("CloudEventsDrivers", false),
    alpha("ClusterImporter", false),
    alpha("ClusterProfile", false),
    alpha("DefaultClusterSet", true),
    alpha("ManagedClusterAutoApproval", false),
    alpha("ManifestWorkReplicaSet", false),
    alpha("NilExecutorValidating", false),
    beta("ResourceCleanup", true),
    alpha("V1beta1CSRAPICompatibility", false),
];

const CLUSTER_GATES: &[KnownGate] = &[
    beta("AddonManagement", true),
    beta("ClusterClaim", true),
    alpha("ClusterProperty", false),
    alpha("ExecutorValidatingCaches", false),
    alpha("MultipleHubs", false),
    alpha("RawFeedbackJsonString", false),
    alpha("V1beta1CSRAPICompatibility", false),
];

pub(crate) const ACCEPT: CobraCommand = CobraCommand {
    heading: REGISTRATION,
    examples: &[
        "accept --clusters <cluster_1>,<cluster_2>,...",
        "accept --clusters <cluster_1> --wait",
    ],
    flags: &[
        CLUSTERS,
        &[
            flag("wait", Bool, "false", "Wait until each cluster has asked to join"),
            flag(
                "skip-approve-check",
                Bool,
                "false",
                "Approve the requests of every requester",
            ),
            flag("requesters", List, "", "The requesters whose requests are approved"),
        ],
    ],
    ..command("accept", "Accept clusters that asked to join")
};

pub(crate) const CLEAN: CobraCommand = CobraCommand {
    heading: REGISTRATION,
    examples: &["clean"],
    flags: &[&[
        flag("name", Text, "cluster-manager", "The name of the ClusterManager"),
        OUTPUT_FILE,
        flag("purge-operator", Bool, "true", "Also remove the operator and its kinds"),
    ]],
    ..command("clean", "Take the hub off its cluster")
};

pub(crate) const INIT: CobraCommand = CobraCommand {
    heading: REGISTRATION,
    examples: &[
        "init",
        "init --wait",
        "init --feature-gates ManagedClusterAutoApproval=true",
    ],
    gates: HUB_GATES,
    flags: &[
        BUNDLE,
        REGISTRY,
        CREDENTIAL,
        RESOURCES,
        &[
            GATES,
            OUTPUT_FILE,
            flag("force", Bool, "false", "Leave the checks out"),
            flag(
                "output-join-command-file",
                Text,
                "",
                "Also write the command that joins a cluster to this file",
            ),
            flag("wait", Bool, "false", "Wait until the hub is there"),
            flag(
                "output",
                Text,
                "text",
                "How to print what clusters join with: text or json",
            )
            .short('o'),
            flag(
                "singleton",
                Bool,
                "false",
                "Upstream's control plane of one process; refused",
            )
            .deprecated(SINGLETON),
            flag(
                "create-namespace",
                Bool,
                "true",
                "Create the namespace open-cluster-management",
            ),
            flag(
                "use-bootstrap-token",
                Bool,
                "false",
                "Let clusters join with a token of kubeadm's kind, which does not expire",
            ),
            flag(
                "cluster-manager-values-file",
                Text,
                "",
                "Values of the chart cluster-manager, in YAML",
            ),
            flag("singleton-name", Text, "singleton-controlplane", "For --singleton"),
            flag("values", Array, "", "For --singleton").short('f'),
            flag("set", Array, "", "For --singleton"),
            flag("set-string", Array, "", "For --singleton"),
            flag("set-file", Array, "", "For --singleton"),
            flag("set-json", Array, "", "For --singleton"),
            flag("set-literal", Array, "", "For --singleton"),
            flag("registration-drivers", List, "", "How clusters register: csr"),
            flag("hub-cluster-arn", Text, "", NOT_HERE),
            flag("aws-resource-tags", List, "", NOT_HERE),
            flag(
                "auto-approved-csr-identities",
                List,
                "",
                "Users whose clusters are accepted by themselves; needs ManagedClusterAutoApproval",
            ),
            flag("auto-approved-arn-patterns", List, "", NOT_HERE),
            flag("auto-approved-grpc-identities", List, "", NOT_HERE),
            flag(
                "enable-sync-labels",
                Bool,
                "false",
                "Put the labels of the ClusterManager on what is made for it",
            ),
            flag("grpc-server", Text, "", NOT_HERE),
            flag("grpc-endpoint-type", Text, "hostname", NOT_HERE),
        ],
    ],
    ..command("init", "Make a cluster a hub")
};

pub(crate) const JOIN: CobraCommand = CobraCommand {
    heading: REGISTRATION,
    examples: &[
        "join --hub-token <token> --hub-apiserver <url> --cluster-name <cluster_name>",
        "join --hub-token <token> --hub-apiserver <url> --cluster-name <cluster_name> --mode hosted \
         --managed-cluster-kubeconfig <file>",
        "join --hub-token <token> --hub-apiserver <url> --cluster-name <cluster_name> --klusterlet-annotation foo=bar",
    ],
    gates: CLUSTER_GATES,
    flags: &[
        BUNDLE,
        REGISTRY,
        CREDENTIAL,
        RESOURCES,
        &[
            GATES,
            OUTPUT_FILE,
            flag(
                "capi-import",
                Bool,
                "false",
                "Join a cluster of Cluster API, the one of --capi-cluster-name",
            ),
            flag(
                "capi-kubeconfig",
                Text,
                "",
                "The kubeconfig of the management cluster of Cluster API",
            ),
            flag(
                "capi-cluster-name",
                Text,
                "",
                "The cluster of Cluster API: NAMESPACE/NAME",
            ),
            flag("hub-token", Text, "", "The token that the hub gave out"),
            flag("hub-apiserver", Text, "", "The hub's URL"),
            flag(
                "ca-file",
                Text,
                "",
                "The hub's CA in PEM, instead of asking the hub for it",
            ),
            flag("cluster-name", Text, "", "The name of the cluster on the hub"),
            flag(
                "force-internal-endpoint-lookup",
                Bool,
                "false",
                "Let the agent reach the hub where the hub says it is, in kube-public/cluster-info",
            ),
            flag(
                "force-internal-endpoint-lookup-managed",
                Bool,
                "false",
                "With --mode hosted, let the agent reach the cluster where the cluster says it is",
            ),
            flag("wait", Bool, "false", "Wait until the cluster has asked to join"),
            flag("mode", Text, "default", "Where the agent runs: default or hosted").short('m'),
            flag(
                "managed-cluster-kubeconfig",
                Text,
                "",
                "With --mode hosted, the kubeconfig of the cluster",
            ),
            flag("singleton", Bool, "false", "Run the agent as one Deployment"),
            flag("proxy-url", Text, "", "A proxy that the agent reaches the hub through"),
            flag("proxy-ca-file", Text, "", "The CA of that proxy"),
            flag(
                "create-namespace",
                Bool,
                "true",
                "Create the namespaces of operator and agent",
            ),
            flag(
                "enable-sync-labels",
                Bool,
                "false",
                "Put the labels of the Klusterlet on what is made for it",
            ),
            flag(
                "client-cert-expiration-seconds",
                Int32,
                "31536000",
                "How long a certificate of the agent is good, in seconds",
            ),
            flag("registration-auth", Text, "csr", "How the cluster registers: csr"),
            flag("hub-cluster-arn", Text, "", NOT_HERE),
            flag("managed-cluster-arn", Text, "", NOT_HERE),
            flag(
                "klusterlet-annotation",
                Array,
                "",
                "An annotation of the ManagedCluster, as KEY=VALUE; agent.open-cluster-management.io/ is put before the key",
            ),
            flag(
                "klusterlet-values-file",
                Text,
                "",
                "Values of the chart klusterlet, in YAML",
            ),
            flag("grpc-server", Text, "", NOT_HERE),
            flag("grpc-ca-file", Text, "", NOT_HERE),
            flag(
                "addon-kubeclient-registration-auth",
                Text,
                "csr",
                "How agents of add-ons prove to the hub who they are: csr or token",
            ),
            flag(
                "addon-token-expiration-seconds",
                Int64,
                "0",
                "How long their tokens live, in seconds",
            ),
        ],
    ],
    ..command("join", "Join a cluster to a hub")
};

pub(crate) const UNJOIN: CobraCommand = CobraCommand {
    heading: REGISTRATION,
    examples: &["unjoin --cluster-name <cluster_name>"],
    flags: &[&[
        flag("cluster-name", Text, "", "The name of the cluster on the hub"),
        flag("purge-operator", Bool, "true", "Also remove the operator"),
        OUTPUT_FILE,
    ]],
    ..command("unjoin", "Take the agent off a cluster")
};

const HUB_ADDONS: &str = "The add-ons: application-manager, argocd, argocd-agent, governance-policy-framework";

pub(crate) const INSTALL: CobraCommand = CobraCommand {
    heading: GENERAL,
    commands: &[CobraCommand {
        examples: &["install hub-addon --names governance-policy-framework"],
        flags: &[
            BUNDLE,
            &[
                flag("names", Text, "", HUB_ADDONS),
                flag(
                    "namespace",
                    Text,
                    "open-cluster-management",
                    "The namespace that they are installed in",
                ),
                flag("create-namespace", Bool, "false", "Create that namespace"),
                OUTPUT_FILE,
            ],
        ],
        ..command("hub-addon", "Install the hub's part of an add-on")
    }],
    ..command("install", "Install the hub's part of an add-on")
};

pub(crate) const UNINSTALL: CobraCommand = CobraCommand {
    heading: GENERAL,
    commands: &[CobraCommand {
        examples: &["uninstall hub-addon --names governance-policy-framework"],
        flags: &[&[
            flag("names", Text, "", HUB_ADDONS),
            flag(
                "namespace",
                Text,
                "open-cluster-management",
                "The namespace that they are installed in",
            ),
        ]],
        ..command("hub-addon", "Remove the hub's part of an add-on")
    }],
    ..command("uninstall", "Remove the hub's part of an add-on")
};

const WAIT: Flag = flag("wait", Bool, "false", "Wait until the operator is there");

pub(crate) const UPGRADE: CobraCommand = CobraCommand {
    heading: GENERAL,
    commands: &[
        CobraCommand {
            examples: &["upgrade clustermanager --bundle-version latest"],
            flags: &[
                BUNDLE,
                REGISTRY,
                &[
                    WAIT,
                    flag(
                        "cluster-manager-values-file",
                        Text,
                        "",
                        "Values of the chart cluster-manager, in YAML",
                    ),
                ],
            ],
            ..command("clustermanager", "Install another release of a hub")
        },
        CobraCommand {
            examples: &["upgrade klusterlet --bundle-version latest"],
            flags: &[
                BUNDLE,
                REGISTRY,
                &[
                    WAIT,
                    flag(
                        "klusterlet-values-file",
                        Text,
                        "",
                        "Values of the chart klusterlet, in YAML",
                    ),
                ],
            ],
            ..command("klusterlet", "Install another release of an agent")
        },
    ],
    ..command("upgrade", "Install another release")
};
