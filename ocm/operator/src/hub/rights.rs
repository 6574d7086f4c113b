//! What the operator of hubs may do on the API of the cluster that it runs on.

use ocm_reconcile::rbac::Right;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Of the reconciler of ClusterManagers.
pub const CLUSTER_MANAGERS: &[Right] = &[
    Right::new(
        "operator.open-cluster-management.io",
        "clustermanagers",
        "list watch patch",
        "What is asked for, and the finalizer by which a hub is taken away first,",
    ),
    Right::new(
        "operator.open-cluster-management.io",
        "clustermanagers/status",
        "patch",
        "and how it is.",
    ),
    Right::new(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "create get patch update delete",
        "The kinds of a hub.",
    ),
    Right::new(
        "cluster.open-cluster-management.io",
        "managedclusters",
        "list",
        "Which of them keep a hub from being taken away,",
    ),
    Right::new(
        "work.open-cluster-management.io",
        "manifestworks manifestworkreplicasets",
        "list",
        "and of these,",
    ),
    Right::new(
        "addon.open-cluster-management.io",
        "managedclusteraddons",
        "list",
        "and of these.",
    ),
    Right::new("", "namespaces", "create get patch delete", "The namespace of a hub."),
    Right::new(
        "",
        "serviceaccounts services",
        "create get patch delete",
        "Of its components.",
    ),
    Right::new(
        RBAC,
        "clusterroles clusterrolebindings",
        "create get patch delete",
        "What its components may do:",
    ),
    Right::new(
        RBAC,
        "clusterroles",
        "escalate bind",
        "they are given rights that the operator does not have itself.",
    ),
    Right::new(
        RBAC,
        "roles rolebindings",
        "get delete",
        "What the chart drover-hub left, which the operator takes over from.",
    ),
    Right::new(
        "apps",
        "deployments",
        "create get list watch update delete",
        "The components,",
    ),
    Right::new("", "pods", "list watch", "and why they do not start."),
    Right::new("", "nodes", "list", "How many pods a component has."),
    Right::new(
        "networking.k8s.io",
        "networkpolicies",
        "create get patch delete",
        "The network of a hub, where the gate NetworkPolicies is on.",
    ),
    Right::new(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations mutatingwebhookconfigurations",
        "create get patch delete",
        "To tell the API server whom to ask.",
    ),
    Right::new(
        "",
        "secrets",
        "create",
        "Copies of Secrets, and kubeconfigs of components.",
    ),
    Right::new(
        "",
        "secrets",
        "get list watch patch delete",
        "The same, when they change.",
    )
    .only(
        "open-cluster-management-image-pull-credentials work-driver-config external-hub-kubeconfig drover-hub-webhook \
         registration-controller-sa-kubeconfig registration-webhook-sa-kubeconfig work-webhook-sa-kubeconfig \
         placement-controller-sa-kubeconfig work-controller-sa-kubeconfig addon-manager-controller-sa-kubeconfig",
    ),
    Right::new("", "configmaps", "list watch", "The authorities and the TLS profile.")
        .only("ca-bundle-configmap ocm-tls-profile"),
    Right::new("events.k8s.io", "events", "create", "What somebody has to act on."),
];
