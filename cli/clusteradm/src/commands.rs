//! The commands with their flags, but for those of the installation.

use cobra::{
    CobraCommand, Flag,
    ValueKind::{Bool, Int, Int32, List, Text, Uint64},
    flag,
};

use crate::installation::{ACCEPT, CLEAN, INIT, INSTALL, JOIN, UNINSTALL, UNJOIN, UPGRADE};

const GENERAL: &str = "General commands:";
pub(crate) const REGISTRATION: &str = "Registration commands:";
const MANAGEMENT: &str = "Cluster Management commands:";
const OTHER: &str = "Other Commands:";

/// The flags of every command.
pub const GLOBAL: &[Flag] = &[
    flag("kubeconfig", Text, "", "The kubeconfig to use"),
    flag("context", Text, "", "The context of the kubeconfig to use"),
    flag("dry-run", Bool, "false", "Say what would be done, and write nothing"),
    flag("timeout", Int, "300", "How long to wait, in seconds"),
    flag(
        "match-server-version",
        Bool,
        "false",
        "Taken as upstream does; any version of the API server will do",
    ),
    flag("v", Int, "0", "How much to log to standard error").short('v'),
    flag("vmodule", Text, "", LOGGED),
    flag("add-dir-header", Bool, "false", LOGGED),
    flag("alsologtostderr", Bool, "false", LOGGED),
    flag("alsologtostderrthreshold", Text, "0", LOGGED),
    flag("legacy-stderr-threshold-behavior", Bool, "true", LOGGED),
    flag("log-backtrace-at", Text, ":0", LOGGED),
    flag("log-dir", Text, "", LOGGED),
    flag("log-file", Text, "", LOGGED),
    flag("log-file-max-size", Uint64, "1800", LOGGED),
    flag("logtostderr", Bool, "true", LOGGED),
    flag("one-output", Bool, "false", LOGGED),
    flag("skip-headers", Bool, "false", LOGGED),
    flag("skip-log-headers", Bool, "false", LOGGED),
    flag("stderrthreshold", Text, "2", LOGGED),
];

const LOGGED: &str = "Taken as upstream does; $DROVER_LOG says what is logged, to standard error";

/// A command without anything but its name.
pub(crate) const fn command(name: &'static str, about: &'static str) -> CobraCommand {
    CobraCommand {
        name,
        about,
        details: "",
        examples: &[],
        flags: &[],
        gates: &[],
        commands: &[],
        heading: "",
    }
}

/// The clusters that are meant.
pub(crate) const CLUSTERS: &[Flag] = &[
    flag("cluster", Text, "", "The name of a cluster").short('c'),
    flag("clusters", List, "", "The names of clusters, comma separated"),
];

/// How objects are printed.
const PRINTER: &[Flag] = &[flag("output", Text, "tree", "How to print it: tree, table or yaml").short('o')];

/// Manifests.
const FILES: &[Flag] = &[
    flag(
        "filename",
        List,
        "",
        "The manifests: files, directories, or - for standard input",
    )
    .short('f'),
    flag(
        "recursive",
        Bool,
        "true",
        "Read directories and the directories in them",
    )
    .short('R'),
];

const NAMESPACE_OF_SET: &str = "The namespace that is bound to the set";

/// Everything.
pub const ROOT: CobraCommand = CobraCommand {
    details: "clusteradm controls hubs of Open Cluster Management, and the clusters that join them.\n\n\
              This is drover, which takes the command lines of clusteradm v1.3.1.",
    commands: &[
        CREATE,
        DELETE,
        GET,
        INSTALL,
        UNINSTALL,
        UPGRADE,
        CobraCommand {
            heading: GENERAL,
            examples: &["version"],
            ..command("version", "Print the version of clusteradm, and of what it installs")
        },
        ACCEPT,
        CLEAN,
        INIT,
        JOIN,
        UNJOIN,
        ADDON,
        CLUSTERSET,
        PROXY,
        CobraCommand {
            heading: OTHER,
            ..command(
                "completion",
                "Print the completion script of a shell: bash, zsh, fish or powershell",
            )
        },
        CobraCommand {
            heading: OTHER,
            ..command("config", "Change kubeconfigs, as `kubectl config` does")
        },
        CobraCommand {
            heading: OTHER,
            ..command("help", "Show the help of a command")
        },
        CobraCommand {
            heading: OTHER,
            ..command("options", "Show the flags that every command takes")
        },
        CobraCommand {
            heading: OTHER,
            commands: &[command(
                "list",
                "List the programs in $PATH whose names start with clusteradm-",
            )],
            ..command("plugin", "Find plugins")
        },
    ],
    ..command("clusteradm", "Control hubs and clusters")
};

const CREATE: CobraCommand = CobraCommand {
    heading: GENERAL,
    commands: &[
        CobraCommand {
            examples: &["create clusterset clusterset1"],
            ..command("clusterset", "Create a set that clusters can be put into")
        },
        CobraCommand {
            examples: &[
                "create placement test --label-selectors region=apac",
                "create placement test --count 2",
                "create placement test --clustersets set1",
                "create placement test --prioritizers BuiltIn:Steady:3,BuiltIn:ResourceAllocatableCPU:2",
            ],
            flags: &[&[
                flag("overwrite", Bool, "false", "Replace a placement that exists"),
                flag("namespace", Text, "default", "Where to create it"),
                flag(
                    "label-selectors",
                    List,
                    "",
                    "What the clusters' labels have to be: KEY=VALUE, each one enough",
                ),
                flag("clustersets", List, "", "The sets to choose from"),
                flag(
                    "prioritizers",
                    List,
                    "",
                    "What is preferred, and how much: BuiltIn:NAME:WEIGHT or AddOn:RESOURCE:SCORE:WEIGHT",
                ),
                flag("count", Int32, "0", "How many clusters are wanted; 0 for all that fit"),
            ]],
            ..command("placement", "Create a placement, which chooses clusters")
        },
        CobraCommand {
            examples: &["create sampleapp sampleapp1"],
            flags: &[&[flag("output-file", Text, "", "Also write what is applied to this file")]],
            ..command("sampleapp", "Create a sample ApplicationSet of Argo CD")
        },
        CobraCommand {
            examples: &[
                "create work work-example -f xxx.yaml --clusters cluster1",
                "create work work-example -f xxx.yaml --clusters cluster1 --overwrite",
                "create work work-example -f xxx.yaml --placement default/placement1",
                "create work work-example -f xxx.yaml --placement default/placement1 --replicaset",
            ],
            flags: &[
                CLUSTERS,
                FILES,
                &[
                    flag(
                        "placement",
                        Text,
                        "",
                        "The placement that chooses the clusters, as NAMESPACE/NAME",
                    ),
                    flag(
                        "overwrite",
                        Bool,
                        "false",
                        "Replace the manifests of a work that exists",
                    ),
                    flag(
                        "replicaset",
                        Bool,
                        "false",
                        "Create a ManifestWorkReplicaSet, which keeps a work wherever the placement says",
                    )
                    .short('r'),
                ],
            ],
            ..command("work", "Create a work that brings manifests to clusters")
        },
    ],
    ..command("create", "Create something on the hub")
};

const DELETE: CobraCommand = CobraCommand {
    heading: GENERAL,
    commands: &[
        CobraCommand {
            examples: &["delete clusterset clusterset1"],
            ..command("clusterset", "Delete a set of clusters")
        },
        CobraCommand {
            examples: &["delete token"],
            ..command("token", "Delete what clusters join with: no token is good any more")
        },
        CobraCommand {
            examples: &["delete work work-example --cluster cluster1"],
            flags: &[
                CLUSTERS,
                &[flag(
                    "force",
                    Bool,
                    "false",
                    "Delete it although its cluster does not let go of it",
                )],
            ],
            ..command("work", "Delete a work, and with it what it made on clusters")
        },
    ],
    ..command("delete", "Delete something from the hub")
};

const GET: CobraCommand = CobraCommand {
    heading: GENERAL,
    commands: &[
        CobraCommand {
            examples: &["get addon --clusters cluster1", "get addon helloworld"],
            flags: &[PRINTER, CLUSTERS],
            ..command("addon", "List the add-ons and the clusters that have them")
        },
        CobraCommand {
            examples: &["get clusters", "get clusters --clusterset clusterset1"],
            flags: &[
                PRINTER,
                &[flag("clusterset", Text, "", "Only the clusters of this set")],
            ],
            ..command("clusters", "List the managed clusters")
        },
        CobraCommand {
            examples: &["get clustersets"],
            flags: &[PRINTER],
            ..command("clustersets", "List the sets of clusters")
        },
        CobraCommand {
            examples: &["get hub-info"],
            ..command("hub-info", "Say what runs a hub and which kinds it has")
        },
        CobraCommand {
            examples: &["get klusterlet-info"],
            ..command("klusterlet-info", "Say what runs the agent of a managed cluster")
        },
        CobraCommand {
            examples: &["get placements"],
            flags: &[
                PRINTER,
                &[flag("namespace", Text, "", "Only the placements of this namespace").short('n')],
            ],
            ..command("placements", "List the placements and what they have chosen")
        },
        CobraCommand {
            examples: &["get token"],
            flags: &[&[
                flag("output-file", Text, "", "Taken as upstream does; nothing is generated"),
                flag(
                    "use-bootstrap-token",
                    Bool,
                    "false",
                    "The token of kubeadm's kind that init --use-bootstrap-token made",
                ),
                flag("output", Text, "text", "How to print it: text or json").short('o'),
            ]],
            ..command("token", "Print the token that clusters join with")
        },
        CobraCommand {
            examples: &["get works --cluster cluster1", "get works work1 --cluster cluster1"],
            flags: &[PRINTER, CLUSTERS],
            ..command("works", "List the works of clusters")
        },
    ],
    ..command("get", "Print what the hub has")
};

const ADDON: CobraCommand = CobraCommand {
    heading: MANAGEMENT,
    commands: &[
        CobraCommand {
            examples: &["addon create helloworld -f deployment.yaml"],
            flags: &[
                FILES,
                &[
                    flag(
                        "version",
                        Text,
                        "0.0.1",
                        "The version; the template is called NAME-VERSION",
                    ),
                    flag("overwrite", Bool, "false", "Replace the add-on if it exists"),
                    flag(
                        "hub-registration",
                        Bool,
                        "false",
                        "Let the add-on's agents into the hub",
                    ),
                    flag(
                        "cluster-role-bind",
                        Text,
                        "",
                        "A ClusterRole that the agents have on the hub, in their cluster's namespace",
                    ),
                    flag("labels", List, "", "Labels for both objects: KEY=VALUE"),
                    flag(
                        "placement-ref",
                        Text,
                        "",
                        "Install it where this placement says: NAMESPACE/NAME",
                    ),
                ],
            ],
            ..command("create", "Make an add-on of manifests")
        },
        CobraCommand {
            examples: &[
                "addon disable --names argocd --cluster cluster1",
                "addon disable --names governance-policy-framework --clusters cluster1,cluster2",
            ],
            flags: &[
                CLUSTERS,
                &[flag("names", List, "", "The names of the add-ons, comma separated")],
            ],
            ..command("disable", "Take add-ons off clusters")
        },
        CobraCommand {
            examples: &[
                "addon enable --names argocd --clusters cluster1,cluster2",
                "addon enable --names governance-policy-framework --namespace namespace --clusters cluster1",
                "addon enable --names my-addon --clusters cluster1 --config-file addon-config.yaml",
            ],
            flags: &[
                CLUSTERS,
                &[
                    flag("names", List, "", "The names of the add-ons, comma separated"),
                    flag(
                        "namespace",
                        Text,
                        "open-cluster-management-agent-addon",
                        "The namespace on the clusters that they are installed in",
                    )
                    .short('n'),
                    flag("output-file", Text, "", "Also write what is applied to this file"),
                    flag(
                        "annotate",
                        List,
                        "",
                        "Annotations of the add-on on the cluster: KEY=VALUE",
                    ),
                    flag("labels", List, "", "Labels of the add-on on the cluster: KEY=VALUE"),
                    flag(
                        "config-file",
                        Text,
                        "",
                        "Objects in YAML that the add-on is configured with",
                    ),
                ],
            ],
            ..command("enable", "Put add-ons on clusters")
        },
    ],
    ..command("addon", "Put add-ons on clusters and take them off")
};

const CLUSTERSET: CobraCommand = CobraCommand {
    heading: MANAGEMENT,
    commands: &[
        CobraCommand {
            examples: &["clusterset bind clusterset1 --namespace default"],
            flags: &[&[flag("namespace", Text, "default", NAMESPACE_OF_SET)]],
            ..command("bind", "Let the placements of a namespace choose from a set")
        },
        CobraCommand {
            examples: &["clusterset set clusterset1 --clusters cluster1,cluster2"],
            flags: &[&[
                flag(
                    "clusters",
                    List,
                    "",
                    "The clusters to put into the set, comma separated",
                ),
                flag(
                    "namespaces",
                    List,
                    "",
                    "Namespaces that every cluster of the set is to have",
                ),
            ]],
            ..command("set", "Put clusters into a set")
        },
        CobraCommand {
            examples: &["clusterset unbind clusterset1 --namespace default"],
            flags: &[&[flag("namespace", Text, "default", NAMESPACE_OF_SET)]],
            ..command("unbind", "Take a set away from a namespace")
        },
    ],
    ..command("clusterset", "Put clusters into sets, and let namespaces use them")
};

const PROXY: CobraCommand = CobraCommand {
    heading: MANAGEMENT,
    commands: &[
        CobraCommand {
            examples: &["proxy health"],
            flags: &[
                CLUSTERS,
                &[
                    flag(
                        "in-cluster-proxy-cert-lookup",
                        Bool,
                        "true",
                        "Take the credentials of the proxy from the hub",
                    ),
                    flag("proxy-ca-cert", Text, "", "The CA of the proxy"),
                    flag("proxy-cert", Text, "", "The certificate to show to the proxy"),
                    flag("proxy-key", Text, "", "The key of that certificate"),
                    flag("proxy-server-host", Text, "127.0.0.1", "Where the proxy is"),
                    flag("proxy-server-port", Int, "8090", "The port of the proxy"),
                ],
            ],
            ..command(
                "health",
                "Show whether clusters answer through the add-on cluster-proxy",
            )
        },
        CobraCommand {
            examples: &["proxy kubectl --cluster=cluster1 --sa=test --args=\"get nodes\""],
            flags: &[
                CLUSTERS,
                &[
                    flag("sa", Text, "", "The ManagedServiceAccount to be"),
                    flag("args", Text, "", "What kubectl is to do"),
                    flag("interactive-mode", Bool, "false", "Ask for one command after the other").short('i'),
                ],
            ],
            ..command("kubectl", "Run kubectl on a cluster through the add-on cluster-proxy")
        },
    ],
    ..command("proxy", "Reach clusters through the add-on cluster-proxy")
};
