//! What a hub may do on its API server: the ClusterRole of its deployment, which the chart in `deploy/` has from here.
//! Beside the list of controllers, because it is the sum of what they read and write.

use ocm_api::identity::REGISTER_GROUP;
use ocm_reconcile::rbac::Right;
use operator::importer;

const CLUSTER: &str = "cluster.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";
const ADDON: &str = "addon.open-cluster-management.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";

/// The name of the ClusterRole.
pub const ROLE: &str = "open-cluster-management:drover-hub";
/// The ServiceAccount that has it, in [`ocm_api::namespaces::HUB`].
pub const SERVICE_ACCOUNT: &str = "drover-hub";

/// The name of the ClusterRole of a hub that answers webhooks, beside the other.
pub const WEBHOOKS_ROLE: &str = "open-cluster-management:drover-hub:webhooks";
/// The name of its Role in [`ocm_api::namespaces::HUB`].
pub const CERTIFICATE_ROLE: &str = "drover-hub-webhooks";

/// What it takes to answer webhooks, beside [`RIGHTS`].
pub const WEBHOOKS: &[Right] = &[Right::new(
    "admissionregistration.k8s.io",
    "mutatingwebhookconfigurations validatingwebhookconfigurations",
    "create patch",
    "To tell the API server where to ask.",
)];

/// And in the hub's namespace.
pub const CERTIFICATE: &[Right] = &[
    Right::new("", "secrets", "create", "The certificate that all pods share,"),
    Right::new("", "secrets", "update", "and its renewal.").only("drover-hub-webhook"),
];

/// All of it.
pub const RIGHTS: &[Right] = &[
    // What it installs when it starts.
    Right::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "create get list patch watch",
        "OCM's kinds; those that somebody else made are left as they are.",
    ),
    Right::new(
        "",
        "namespaces",
        "create get list patch watch",
        "A namespace for each cluster.",
    ),
    Right::new(
        "",
        "serviceaccounts",
        "create get list patch watch delete",
        "What clusters ask to join with, and what add-ons' agents with a token are.",
    ),
    // Who may do what: clusters, and the agents of add-ons.
    Right::new(
        RBAC,
        "clusterroles clusterrolebindings roles rolebindings",
        "create get list patch watch delete",
        "The rights of clusters and of add-ons' agents.",
    ),
    Right::new(
        RBAC,
        "clusterroles roles",
        "escalate bind",
        "They are given rights that the hub does not have itself.",
    ),
    Right::new(
        CERTIFICATES,
        "certificatesigningrequests",
        "list watch",
        "What clusters and add-ons' agents ask for,",
    ),
    Right::new(
        CERTIFICATES,
        "certificatesigningrequests/approval",
        "update",
        "approved when it is what it claims to be,",
    ),
    Right::new(
        CERTIFICATES,
        "certificatesigningrequests/status",
        "update",
        "and signed for add-ons with a signer of their own.",
    ),
    Right::new(
        CERTIFICATES,
        "signers",
        "approve sign",
        "Kubernetes' signer, and those that add-ons name.",
    ),
    Right::new(
        "",
        "secrets",
        "get list watch",
        "The authorities of add-ons with a signer of their own, in the namespaces that they name; kubeconfigs of clusters \
         that are imported.",
    ),
    Right::new(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
        "Whether a cluster may ask for its certificate again.",
    ),
    // Clusters and their sets.
    Right::new(CLUSTER, "managedclusters", "list patch watch", "Clusters,"),
    Right::new(CLUSTER, "managedclusters/status", "patch", "and what is said of them."),
    Right::new(
        REGISTER_GROUP,
        "managedclusters/accept",
        "update",
        "To let clusters in by itself, for the users it was told; asked by the webhook.",
    ),
    Right::new(
        CLUSTER,
        "managedclustersets/join",
        "create",
        "To put clusters into the set `default`; asked by the webhook.",
    ),
    Right::new(
        CLUSTER,
        "managedclustersets",
        "create list patch watch",
        "Sets; `default` and `global` are made,",
    ),
    Right::new(
        CLUSTER,
        "managedclustersets/status",
        "patch",
        "and how many clusters they have.",
    ),
    Right::new(CLUSTER, "managedclustersetbindings", "list watch", "Who may use a set,"),
    Right::new(
        CLUSTER,
        "managedclustersetbindings/status",
        "patch",
        "and whether there is one.",
    ),
    Right::new(
        "multicluster.x-k8s.io",
        "clusterprofiles",
        "create delete list patch watch",
        "Clusters as others know them, if switched on,",
    ),
    Right::new(
        "multicluster.x-k8s.io",
        "clusterprofiles/status",
        "patch",
        "and how they are.",
    ),
    Right::new(
        "coordination.k8s.io",
        "leases",
        "create get list update watch",
        "Heartbeats of clusters, and which of several hubs works.",
    ),
    // Placements.
    Right::new(
        CLUSTER,
        "placements addonplacementscores",
        "list watch",
        "What to choose clusters by,",
    ),
    Right::new(CLUSTER, "placements/status", "patch", "how it went,"),
    Right::new(
        CLUSTER,
        "placements/finalizers",
        "update",
        "An owner that is kept while its decisions go; asked where OwnerReferencesPermissionEnforcement is on.",
    ),
    Right::new(
        CLUSTER,
        "placementdecisions",
        "create delete list patch watch",
        "and which were chosen.",
    ),
    Right::new(CLUSTER, "placementdecisions/status", "patch", "The same."),
    // Works.
    Right::new(
        WORK,
        "manifestworks",
        "create delete get list patch watch",
        "Works of sets and of add-ons.",
    ),
    Right::new(WORK, "manifestworkreplicasets", "list patch watch", "Sets of works,"),
    Right::new(WORK, "manifestworkreplicasets/status", "patch", "and how far they are."),
    Right::new(
        "apps",
        "controllerrevisions",
        "create delete list patch watch",
        "What sets of works said before.",
    ),
    // Add-ons.
    Right::new(
        ADDON,
        "clustermanagementaddons addontemplates addondeploymentconfigs",
        "list watch",
        "Add-ons and their configurations,",
    ),
    Right::new(
        ADDON,
        "clustermanagementaddons/status",
        "patch",
        "how far they are rolled out,",
    ),
    Right::new(
        ADDON,
        "managedclusteraddons",
        "create delete list patch watch",
        "the clusters that have them,",
    ),
    Right::new(ADDON, "managedclusteraddons/status", "patch", "and how they are there."),
    Right::new(
        "",
        "configmaps",
        "list watch",
        "Configurations of the add-ons that come with it. For other kinds, bind one more ClusterRole to drover-hub.",
    ),
    Right::new(
        ADDON,
        "clustermanagementaddons/finalizers managedclusteraddons/finalizers",
        "update",
        "Owners that are kept while what they own goes; asked where OwnerReferencesPermissionEnforcement is on.",
    ),
    // Clusters that are imported.
    Right::new(
        "cluster.x-k8s.io",
        "clusters",
        "list watch",
        "The Clusters of Cluster API that clusters are, if switched on;",
    ),
    Right::new(
        "",
        "secrets",
        "delete",
        "a kubeconfig that somebody wants to be used once;",
    )
    .only(importer::source::SECRET),
    Right::new("", "configmaps", "get", "where the hub is,").only("cluster-info kube-root-ca.crt"),
    Right::new("", "serviceaccounts/token", "create", "and what they join with.")
        .only(crate::bootstrap::SERVICE_ACCOUNT),
    Right::new("events.k8s.io", "events", "create", "What happened, in words."),
];
