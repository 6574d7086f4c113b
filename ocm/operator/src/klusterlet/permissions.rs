//! What the operator of agents has to be allowed on the cluster that it runs on. The ClusterRole of its chart is made
//! of [`RIGHTS`]. Upstream's role suffices as well: what may not be patched is put whole. On another managed cluster it
//! may what the kubeconfig there lets it.

use ocm_reconcile::rbac::Right;

const RBAC: &str = "rbac.authorization.k8s.io";
const OPERATOR: &str = "operator.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";

/// The Secrets that the operator reads, makes or deletes.
const SECRETS: &str = "bootstrap-hub-kubeconfig external-managed-kubeconfig external-managed-kubeconfig-agent \
                       external-managed-kubeconfig-registration external-managed-kubeconfig-work hub-kubeconfig-secret \
                       open-cluster-management-image-pull-credentials";

const FINALIZERS: Right = Right::new(
    OPERATOR,
    "klusterlets",
    "patch",
    "Finalizers, and when a clean-up gave up.",
);
const CONDITIONS: Right = Right::new(OPERATOR, "klusterlets/status", "patch", "What became of it.");
const EVENTS: Right = Right::new("events.k8s.io", "events", "create", "What is wrong, when it begins.");
const NAMESPACES: Right = Right::new(
    "",
    "namespaces",
    "create delete get patch",
    "Those of agents and of add-ons.",
);
const ACCOUNTS: Right = Right::new("", "serviceaccounts", "create delete get patch", "Who agents are,");
const ROLES: Right = Right::new(
    RBAC,
    "clusterroles roles",
    "bind create delete escalate get patch",
    "what they may, which is more than the operator may itself,",
);
const BINDINGS: Right = Right::new(
    RBAC,
    "clusterrolebindings rolebindings",
    "create delete get list patch",
    "and that they may it.",
);
const DEPLOYMENTS: Right = Right::new("apps", "deployments", "create delete get update", "Agents.");
const CRDS: Right = Right::new(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "create get patch update",
    "The kinds that agents keep on their cluster.",
);
const NODES: Right = Right::new("", "nodes", "list", "How many replicas the control plane allows.");
const POLICIES: Right = Right::new(
    "networking.k8s.io",
    "networkpolicies",
    "create delete get patch",
    "With the feature gate NetworkPolicies.",
);
const NEW_SECRETS: Right = Right::new(
    "",
    "secrets",
    "create",
    "Copies of the pull secret, kubeconfigs of a hosted cluster,",
);
const OWN_SECRETS: Right = Right::new("", "secrets", "delete get patch", "and keeping these.").only(SECRETS);
const WORKS: Right = Right::new(
    WORK,
    "appliedmanifestworks",
    "list patch",
    "Letting go of them when an agent leaves.",
);
const NEW_PROFILES: Right = Right::new("", "configmaps", "create", "Copies of the TLS profile,");
const OWN_PROFILES: Right = Right::new("", "configmaps", "delete patch", "and keeping these.").only("ocm-tls-profile");

/// Of putting an agent in place.
pub const INSTALL: &[Right] = &[
    FINALIZERS,
    CONDITIONS,
    EVENTS,
    NAMESPACES,
    ACCOUNTS,
    ROLES,
    BINDINGS,
    DEPLOYMENTS,
    CRDS,
    NODES,
    POLICIES,
    NEW_SECRETS,
    OWN_SECRETS,
];

/// Of taking it away.
pub const CLEANUP: &[Right] = &[
    FINALIZERS,
    EVENTS,
    Right::new("", "namespaces", "delete get list", "Those of agents and of add-ons."),
    Right::new("", "serviceaccounts", "delete get", "Who agents were,"),
    Right::new(
        RBAC,
        "clusterrolebindings clusterroles rolebindings roles",
        "delete get",
        "and what they might do.",
    ),
    Right::new("apps", "deployments", "delete get", "Agents."),
    Right::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "get patch",
        "Saying that nobody keeps them any more.",
    ),
    Right::new(
        "networking.k8s.io",
        "networkpolicies",
        "delete get",
        "Of their namespaces.",
    ),
    Right::new("", "secrets", "delete get", "Their credentials.").only(SECRETS),
    WORKS,
];

/// Of saying how an agent is.
pub const STATUS: &[Right] = &[CONDITIONS, EVENTS];

/// Of copying the pull secret.
pub const PULL_SECRETS: &[Right] = &[NEW_SECRETS, OWN_SECRETS];

/// Of copying the TLS profile.
pub const TLS_PROFILES: &[Right] = &[NEW_PROFILES, OWN_PROFILES];

const WATCH: &str = "list watch";

/// All of it, with what is watched, and with what leader election needs.
pub const RIGHTS: &[Right] = &[
    Right::new(OPERATOR, "klusterlets", WATCH, "What agents are asked for,"),
    FINALIZERS,
    CONDITIONS,
    EVENTS,
    NAMESPACES,
    ACCOUNTS,
    ROLES,
    BINDINGS,
    DEPLOYMENTS,
    Right::new(
        "",
        "namespaces serviceaccounts",
        WATCH,
        "Who changes what was made wakes the operator:",
    ),
    Right::new(
        RBAC,
        "clusterrolebindings clusterroles rolebindings roles",
        WATCH,
        "the same,",
    ),
    Right::new("apps", "deployments", WATCH, "and whether the agents' pods are there."),
    CRDS,
    NODES,
    POLICIES,
    NEW_SECRETS,
    OWN_SECRETS,
    Right::new("", "secrets", WATCH, "Secrets of these names, in all namespaces.").only(SECRETS),
    WORKS,
    NEW_PROFILES,
    OWN_PROFILES,
    Right::new("", "configmaps", WATCH, "The TLS profile.").only("ocm-tls-profile"),
    Right::new(
        "coordination.k8s.io",
        "leases",
        "create get list update watch",
        "Leader election.",
    ),
];
