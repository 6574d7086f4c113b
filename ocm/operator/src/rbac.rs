//! What the operators may do: the ClusterRoles of their Deployments, which the charts in `deploy/` have from here.
//! In the compact layout it is what ours need, and in upstream's layout what upstream's role has, so that the images
//! can be upstream's or ours.
//! Upstream: ocm `deploy/{cluster-manager,klusterlet}/chart/*/templates/cluster_role.yaml`.

use ocm_reconcile::{Reconciler, rbac::Right};

use crate::{hub, klusterlet};

/// The ClusterRole of the hub's operator, its ServiceAccount and its Deployment.
pub const HUB_NAME: &str = "cluster-manager";
/// The same of a cluster's operator.
pub const KLUSTERLET_NAME: &str = "klusterlet";

const ADDON: &str = "addon.open-cluster-management.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const CLUSTER: &str = "cluster.open-cluster-management.io";
const CRDS: &str = "apiextensions.k8s.io";
const LEASES: &str = "coordination.k8s.io";
const OPERATOR: &str = "operator.open-cluster-management.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const REGISTER: &str = "register.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";

const ALL: &str = "create get list update watch patch delete";
const SEEN: &str = "get list watch";
const WRITTEN: &str = "update patch";

/// The Secrets that the hub's operator may read and write.
const HUB_SECRETS: &str = "signer-secret registration-webhook-serving-cert work-webhook-serving-cert \
                           addon-webhook-serving-cert registration-controller-sa-kubeconfig \
                           registration-webhook-sa-kubeconfig work-webhook-sa-kubeconfig \
                           placement-controller-sa-kubeconfig work-controller-sa-kubeconfig \
                           addon-manager-controller-sa-kubeconfig addon-webhook-sa-kubeconfig external-hub-kubeconfig \
                           work-driver-config open-cluster-management-image-pull-credentials grpc-server-serving-cert \
                           placement-debug-serving-cert cluster-import-config";

/// The Secrets that a cluster's operator may read and write.
const KLUSTERLET_SECRETS: &str = "open-cluster-management-image-pull-credentials bootstrap-hub-kubeconfig \
                                  hub-kubeconfig-secret external-managed-kubeconfig external-managed-kubeconfig-work \
                                  external-managed-kubeconfig-registration external-managed-kubeconfig-agent";

/// What the hub's operator may do in upstream's layout: it holds every right that it grants.
/// Two rules are more than in v1.3.1 and as in its successor: network policies, and `placement-debug-serving-cert`.
pub const UPSTREAM_HUB: &[Right] = &[
    Right::new(
        "",
        "configmaps namespaces serviceaccounts services",
        "create get list update watch patch delete deletecollection",
        "What a hub is made of.",
    ),
    Right::new(
        "",
        "serviceaccounts/token",
        "create",
        "Kubeconfigs of a hosted hub's components.",
    ),
    Right::new(
        "",
        "serviceaccounts/token",
        "subscribe",
        "Agents of add-ons with a token.",
    ),
    Right::new("", "pods", "get", "The source of the operator's events."),
    Right::new(
        "",
        "secrets",
        "get list watch update patch delete",
        "Certificates and kubeconfigs.",
    )
    .only(HUB_SECRETS),
    Right::new("", "secrets", "create", "The same, when they are not there yet."),
    Right::new(
        LEASES,
        "leases",
        ALL,
        "Which of several operators works; heartbeats of clusters.",
    ),
    Right::new("", "nodes", SEEN, "How many pods a hub has."),
    Right::new(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create get",
        "What the webhooks ask.",
    ),
    Right::new(
        "",
        "events",
        "get list watch create patch update delete deletecollection",
        "What happened, in words,",
    ),
    Right::new(
        "events.k8s.io",
        "events",
        "get list watch create patch update delete deletecollection",
        "in both of their groups.",
    ),
    Right::new("apps", "deployments", ALL, "The components."),
    Right::new("apps", "replicasets", "get", "The source of the operator's events."),
    Right::new(
        RBAC,
        "clusterrolebindings rolebindings clusterroles roles",
        ALL,
        "The rights of the components, of clusters and of add-ons' agents.",
    ),
    Right::new(CRDS, "customresourcedefinitions", ALL, "OCM's kinds,"),
    Right::new(
        CRDS,
        "customresourcedefinitions/status",
        WRITTEN,
        "and their stored versions.",
    ),
    Right::new("apiregistration.k8s.io", "apiservices", ALL, "Of earlier releases."),
    Right::new(
        ADMISSION,
        "validatingwebhookconfigurations mutatingwebhookconfigurations",
        ALL,
        "Where the API server asks the webhooks.",
    ),
    Right::new(
        "networking.k8s.io",
        "networkpolicies",
        ALL,
        "With the gate NetworkPolicies.",
    ),
    Right::new(
        OPERATOR,
        "clustermanagers",
        "get list watch update delete patch",
        "What is asked for,",
    ),
    Right::new(OPERATOR, "clustermanagers/status", WRITTEN, "and how it is."),
    Right::new(
        "migration.k8s.io",
        "storageversionmigrations",
        ALL,
        "Migrations of stored versions.",
    ),
    Right::new(
        ADDON,
        "managedclusteraddons clustermanagementaddons",
        ALL,
        "From here on: what the components are granted. Add-ons,",
    ),
    Right::new(
        ADDON,
        "managedclusteraddons/status clustermanagementaddons/status",
        WRITTEN,
        "how they are,",
    ),
    Right::new(
        ADDON,
        "managedclusteraddons/finalizers clustermanagementaddons/finalizers",
        "update",
        "and who owns what;",
    ),
    Right::new(
        ADDON,
        "addondeploymentconfigs addontemplates",
        SEEN,
        "their configurations.",
    ),
    Right::new(
        "authentication.k8s.io",
        "tokenreviews",
        "create",
        "Who calls the gRPC server.",
    ),
    Right::new(
        CERTIFICATES,
        "certificatesigningrequests",
        "create get list watch",
        "Requests of clusters,",
    ),
    Right::new(
        CERTIFICATES,
        "certificatesigningrequests/approval certificatesigningrequests/status",
        "update",
        "approved and signed,",
    ),
    Right::new(
        CERTIFICATES,
        "signers",
        "approve sign",
        "for Kubernetes' signer and those of add-ons.",
    ),
    Right::new(
        CLUSTER,
        "managedclusters",
        "get list watch create update patch",
        "Clusters.",
    ),
    Right::new(
        CLUSTER,
        "managedclustersetbindings placements addonplacementscores",
        SEEN,
        "What placements are decided by,",
    ),
    Right::new(
        CLUSTER,
        "managedclustersets placementdecisions",
        ALL,
        "sets, and decisions;",
    ),
    Right::new(
        CLUSTER,
        "managedclusters/status managedclustersetbindings/status managedclustersets/status placements/status \
         placementdecisions/status",
        WRITTEN,
        "how they are,",
    ),
    Right::new(
        CLUSTER,
        "placements/finalizers",
        "update",
        "and who owns the decisions.",
    ),
    Right::new(
        REGISTER,
        "managedclusters/clientcertificates",
        "renew",
        "Renewals of clusters' certificates.",
    ),
    Right::new(
        REGISTER,
        "managedclusters/accept",
        "update",
        "Clusters that are accepted without a human.",
    ),
    Right::new(
        WORK,
        "manifestworkreplicasets",
        "get list watch create update delete deletecollection patch",
        "Sets of works,",
    ),
    Right::new(WORK, "manifestworkreplicasets/finalizers", "update", "which own works;"),
    Right::new(
        WORK,
        "manifestworks",
        "get list watch create update delete deletecollection patch execute-as",
        "works,",
    ),
    Right::new(
        WORK,
        "manifestworks/status manifestworkreplicasets/status",
        WRITTEN,
        "and how they are.",
    ),
    Right::new(
        "flowcontrol.apiserver.k8s.io",
        "flowschemas prioritylevelconfigurations",
        SEEN,
        "Of the webhooks' API machinery.",
    ),
    Right::new(
        "config.openshift.io",
        "infrastructures",
        "get",
        "The API server's address on OpenShift.",
    ),
    Right::new(
        "multicluster.x-k8s.io",
        "clusterprofiles",
        ALL,
        "Clusters as others know them, with the gate ClusterProfile,",
    ),
    Right::new(
        "multicluster.x-k8s.io",
        "clusterprofiles/status",
        WRITTEN,
        "and how they are.",
    ),
    Right::new(
        "cluster.x-k8s.io",
        "clusters",
        SEEN,
        "Clusters of Cluster API, with the gate ClusterImporter.",
    ),
    Right::new(
        CLUSTER,
        "managedclustersets/join",
        "create",
        "Clusters that are put into sets.",
    ),
];

/// What a cluster's operator may do in upstream's layout. One rule is more than in v1.3.1 and as in its successor:
/// network policies.
pub const UPSTREAM_KLUSTERLET: &[Right] = &[
    Right::new("", "configmaps serviceaccounts", ALL, "What an agent is made of."),
    Right::new("", "secrets", "create", "Its Secrets, when they are not there yet,"),
    Right::new("", "secrets", "update get list watch delete", "and later.").only(KLUSTERLET_SECRETS),
    Right::new("", "pods", "get", "The source of the operator's events,"),
    Right::new("apps", "replicasets", "get", "and what that belongs to."),
    Right::new(
        LEASES,
        "leases",
        "create get list update watch patch",
        "Which of several operators works.",
    ),
    Right::new(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
        "Of earlier releases.",
    ),
    Right::new("", "namespaces", ALL, "The agent's, and that of add-ons."),
    Right::new("", "nodes", SEEN, "How many pods an agent has."),
    Right::new("", "events", "create patch update", "What happened, in words,"),
    Right::new(
        "events.k8s.io",
        "events",
        "create patch update",
        "in both of their groups.",
    ),
    Right::new("apps", "deployments", ALL, "The agent."),
    Right::new(
        RBAC,
        "clusterrolebindings rolebindings",
        ALL,
        "The rights of the agent,",
    ),
    Right::new(
        RBAC,
        "clusterroles roles",
        "create get list update watch patch delete escalate bind",
        "which the operator does not have itself.",
    ),
    Right::new(CRDS, "customresourcedefinitions", ALL, "OCM's kinds on a cluster."),
    Right::new(
        "networking.k8s.io",
        "networkpolicies",
        ALL,
        "With the gate NetworkPolicies.",
    ),
    Right::new(
        OPERATOR,
        "klusterlets",
        "get list watch update patch delete",
        "What is asked for,",
    ),
    Right::new(OPERATOR, "klusterlets/status", WRITTEN, "and how it is."),
    Right::new(
        WORK,
        "appliedmanifestworks",
        "list update patch",
        "What an agent leaves behind.",
    ),
];

/// Which of several operators works.
const LEADING: Right = Right::new(
    LEASES,
    "leases",
    "create get list update watch",
    "Which of several operators works.",
);
/// Who asks for `/metrics`, and whether they may.
const METRICS: [Right; 2] = [
    Right::new(
        "authentication.k8s.io",
        "tokenreviews",
        "create",
        "Who asks for /metrics,",
    ),
    Right::new(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
        "and whether they may.",
    ),
];

/// What the hub's operator may do in the compact layout.
pub fn hub() -> Vec<Right> {
    let of_controllers = [
        <hub::ClusterManagers as Reconciler>::RIGHTS,
        <hub::ServingCertificates as Reconciler>::RIGHTS,
    ];
    once(of_controllers.concat().into_iter().chain([LEADING]).chain(METRICS))
}

/// What a cluster's operator may do in the compact layout.
pub fn klusterlet() -> Vec<Right> {
    once(klusterlet::RIGHTS.iter().copied().chain(METRICS))
}

/// Leaves out what a line before says already.
fn once(rights: impl Iterator<Item = Right>) -> Vec<Right> {
    let mut all: Vec<Right> = Vec::new();
    for right in rights {
        let within = |some: &str, all: &str| {
            let mut words = some.split_whitespace();
            words.all(|word| all.split_whitespace().any(|it| it == word))
        };
        let is_said = all.iter().any(|it| {
            (it.group, it.names) == (right.group, right.names)
                && within(right.resources, it.resources)
                && within(right.verbs, it.verbs)
        });
        if !is_said {
            all.push(right);
        }
    }
    all
}
