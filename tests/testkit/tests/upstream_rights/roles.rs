//! What upstream's operators let each of their programs do, verb by verb, as far as it concerns ours in their place.
//! Upstream: ocm `manifests/cluster-manager/hub/*/clusterrole.yaml` and `manifests/klusterlet/{managed,management}`,
//! of v1.3.

use ocm_reconcile::rbac::Right;

const ADDON: &str = "addon.open-cluster-management.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const CLUSTER: &str = "cluster.open-cluster-management.io";
const EVENTS: &str = "events.k8s.io";
const LEASES: &str = "coordination.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const REGISTER: &str = "register.open-cluster-management.io";
const WORK: &str = "work.open-cluster-management.io";

/// One row of a table that needs no reason: it is upstream's.
const fn may(group: &'static str, resources: &'static str, verbs: &'static str) -> Right {
    Right::new(group, resources, verbs, "")
}

/// Of `registration controller`.
pub const REGISTRATION: &[Right] = &[
    may(CERTIFICATES, "certificatesigningrequests", "create get list watch"),
    may(
        CERTIFICATES,
        "certificatesigningrequests/status certificatesigningrequests/approval",
        "update",
    ),
    may(CERTIFICATES, "signers", "approve").only("kubernetes.io/kube-apiserver-client"),
    // No patch.
    may(
        "",
        "namespaces serviceaccounts configmaps",
        "get list watch create update delete",
    ),
    may("", "serviceaccounts/token", "get create").only("agent-registration-bootstrap"),
    may("", "events", "create patch update"),
    may(EVENTS, "events", "create patch update"),
    may("", "pods", "get"),
    may("apps", "replicasets", "get"),
    may("authentication.k8s.io", "tokenreviews", "create"),
    may(AUTHORIZATION, "subjectaccessreviews", "create"),
    may(
        RBAC,
        "clusterroles clusterrolebindings roles rolebindings",
        "get list watch create update patch delete",
    ),
    may(LEASES, "leases", "get list watch create update patch delete"),
    may(CLUSTER, "managedclusters", "get list watch update patch"),
    may(CLUSTER, "managedclusters/status", "update patch"),
    may(
        CLUSTER,
        "managedclustersets",
        "get list watch create update patch delete",
    ),
    may(
        CLUSTER,
        "managedclustersets/status managedclustersetbindings/status",
        "update patch",
    ),
    may(CLUSTER, "managedclustersetbindings", "get list watch"),
    may(
        WORK,
        "manifestworks",
        "get list watch create update patch delete deletecollection execute-as",
    ),
    may(WORK, "manifestworks/status", "update patch"),
    may(
        WORK,
        "manifestworkreplicasets",
        "get list watch update patch delete deletecollection",
    ),
    may(WORK, "manifestworkreplicasets/status", "update patch"),
    may(WORK, "manifestworkreplicasets/finalizers", "update"),
    may(ADDON, "managedclusteraddons", "get list watch delete"),
    may(ADDON, "managedclusteraddons/status", "update patch"),
    may(REGISTER, "managedclusters/clientcertificates", "renew"),
    may(REGISTER, "managedclusters/accept", "update"),
];

/// Of `work manager`.
pub const WORKS: &[Right] = &[
    may("", "configmaps", "get list watch"),
    may("", "pods", "get"),
    may("apps", "replicasets", "get"),
    may("", "events", "create patch update"),
    may(EVENTS, "events", "create patch update"),
    may(AUTHORIZATION, "subjectaccessreviews", "create"),
    may(LEASES, "leases", "create get list update watch patch"),
    may(
        WORK,
        "manifestworks",
        "get list watch create update patch delete deletecollection execute-as",
    ),
    may(WORK, "manifestworkreplicasets", "get list watch update patch"),
    may(WORK, "manifestworkreplicasets/status", "update patch"),
    may(WORK, "manifestworkreplicasets/finalizers", "update"),
    may(CLUSTER, "placements placementdecisions", "get list watch"),
];

/// Of `placement controller`.
pub const PLACEMENTS: &[Right] = &[
    may("", "configmaps", "get list watch create update delete"),
    may("", "pods", "get"),
    may("apps", "replicasets", "get"),
    may("", "events", "create patch update"),
    may(EVENTS, "events", "create patch update"),
    may("authentication.k8s.io", "tokenreviews", "create"),
    may(AUTHORIZATION, "subjectaccessreviews", "create"),
    may(LEASES, "leases", "create get list update watch patch"),
    may(
        CLUSTER,
        "managedclusters managedclustersets managedclustersetbindings addonplacementscores placements",
        "get list watch",
    ),
    may(
        CLUSTER,
        "placementdecisions",
        "get list watch create update patch delete",
    ),
    may(CLUSTER, "placements/status placementdecisions/status", "update patch"),
    may(CLUSTER, "placements/finalizers", "update"),
];

/// Of `addon manager`.
pub const ADD_ONS: &[Right] = &[
    // Events of the core group alone.
    may(
        "",
        "configmaps events",
        "get list watch create update patch delete deletecollection",
    ),
    may("", "pods", "get"),
    may("apps", "replicasets", "get"),
    may(LEASES, "leases", "get list watch create update patch"),
    may(AUTHORIZATION, "subjectaccessreviews", "get create"),
    may(
        CLUSTER,
        "managedclusters placements placementdecisions",
        "get list watch",
    ),
    may(
        ADDON,
        "managedclusteraddons/finalizers clustermanagementaddons/finalizers",
        "update",
    ),
    may(
        ADDON,
        "managedclusteraddons/status clustermanagementaddons/status",
        "update patch",
    ),
    may(ADDON, "clustermanagementaddons", "get list watch patch"),
    // No patch.
    may(ADDON, "managedclusteraddons", "get list watch create update delete"),
    may(ADDON, "addontemplates addondeploymentconfigs", "get list watch"),
    may(WORK, "manifestworks", "get list watch create update patch delete"),
    may(CERTIFICATES, "certificatesigningrequests", "create get list watch"),
    may(
        CERTIFICATES,
        "certificatesigningrequests/approval certificatesigningrequests/status",
        "update",
    ),
    may(CERTIFICATES, "signers", "approve sign"),
    // No patch, and nothing of ClusterRoles.
    may(RBAC, "roles rolebindings", "get list watch create update delete"),
    may("", "serviceaccounts", "get list watch create update delete"),
    may("", "serviceaccounts/token", "create subscribe"),
];

/// Of `registration agent`, on the whole cluster.
pub const REGISTRATION_AGENT: &[Right] = &[
    may("", "nodes", "get list watch"),
    may("", "namespaces", "create get list update watch patch"),
    may(CLUSTER, "clusterclaims", "get list watch"),
    may("about.k8s.io", "clusterproperties", "get list watch"),
    may("", "secrets", "get list watch create delete update patch"),
    // No delete.
    may(LEASES, "leases", "create get list update watch patch"),
];

/// The same in the namespace of the agents.
pub const AGENTS_AT_HOME: &[Right] = &[
    may("", "configmaps", "get list watch create delete update patch"),
    may("", "pods", "get"),
    may("apps", "replicasets", "get"),
    may("", "events", "create patch update"),
    may(EVENTS, "events", "create patch update"),
];

/// Of `work agent`, on the whole cluster: for itself, and what works may contain. Of Kubernetes' role `admin`, which it
/// has as well, there are only ConfigMaps here.
pub const WORK_AGENT: &[Right] = &[
    may(
        WORK,
        "appliedmanifestworks",
        "get list watch create update patch delete",
    ),
    may(WORK, "appliedmanifestworks/status", "update patch"),
    may(WORK, "appliedmanifestworks/finalizers", "update"),
    may(AUTHORIZATION, "subjectaccessreviews", "create"),
    may("", "serviceaccounts", "impersonate"),
    // No patch.
    may(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "get list watch create delete update",
    ),
    may("", "namespaces", "create update patch delete"),
    may(
        RBAC,
        "clusterrolebindings rolebindings",
        "get list watch create update patch delete",
    ),
    may(
        RBAC,
        "clusterroles roles",
        "get list watch create update patch delete escalate bind",
    ),
    may("", "configmaps", "get list watch create delete update patch"),
];
