//! What Argo CD's operator may do on a cluster, and the work agent with the kind ArgoCD.
//! Upstream: argocd-operator v0.18 `config/rbac`.

use ocm_addon_sdk::reconcile::rbac::Right;

/// What the operator may do everywhere.
pub const OPERATOR: &[Right] = &[
    Right::new(
        "argoproj.io",
        "applications appprojects argocdexports argocdexports/finalizers argocdexports/status argocds \
         argocds/finalizers argocds/status namespacemanagements namespacemanagements/finalizers \
         namespacemanagements/status notificationsconfigurations notificationsconfigurations/finalizers",
        "*",
        "Its own kinds, and those of Argo CD.",
    ),
    Right::new(
        "argocd-image-updater.argoproj.io",
        "imageupdaters imageupdaters/finalizers",
        "*",
        "The image updater is a part of an ArgoCD.",
    ),
    Right::new(
        "",
        "configmaps endpoints events namespaces persistentvolumeclaims pods secrets serviceaccounts services \
         services/finalizers",
        "*",
        "What an ArgoCD consists of.",
    ),
    Right::new(
        "",
        "pods/log",
        "get",
        "Argo CD shows the logs of pods; who grants that has to have it.",
    ),
    Right::new(
        "apps",
        "daemonsets deployments replicasets statefulsets",
        "*",
        "The parts of an ArgoCD.",
    ),
    Right::new(
        "apps",
        "deployments/finalizers",
        "update",
        "What it owns is deleted with it.",
    )
    .only("argocd-operator"),
    Right::new(
        "autoscaling",
        "horizontalpodautoscalers",
        "*",
        "An ArgoCD may scale its server.",
    ),
    Right::new("batch", "cronjobs jobs", "*", "Exports are Jobs."),
    Right::new(
        "networking.k8s.io",
        "ingresses networkpolicies",
        "*",
        "How the parts of an ArgoCD are reached.",
    ),
    Right::new(
        "rbac.authorization.k8s.io",
        "*",
        "*",
        "It grants the parts of Argo CD more than it has itself: they deploy anything.",
    ),
    Right::new(
        "apiregistration.k8s.io",
        "apiservices",
        "get list",
        "Which kinds there are.",
    ),
    Right::new(
        "certificates.k8s.io",
        "clustertrustbundles",
        "get list watch",
        "Authorities that repositories are trusted by.",
    ),
    Right::new(
        "monitoring.coreos.com",
        "prometheuses prometheusrules servicemonitors",
        "*",
        "Metrics, where there is Prometheus.",
    ),
    Right::new(
        "config.openshift.io",
        "authentications clusterversions",
        "get list watch",
        "OpenShift: what it is.",
    ),
    Right::new(
        "route.openshift.io",
        "routes routes/custom-host",
        "*",
        "OpenShift: how a server is reached.",
    ),
    Right::new("oauth.openshift.io", "oauthclients", "*", "OpenShift: who logs in."),
    Right::new(
        "template.openshift.io",
        "templateconfigs templateinstances templates",
        "*",
        "OpenShift: single sign-on.",
    ),
];

/// What the operator may do in its own namespace.
pub const LEADER: &[Right] = &[
    Right::new(
        "coordination.k8s.io",
        "leases",
        "get list watch create update patch delete",
        "One of several operators does the work.",
    ),
    Right::new("", "events", "create patch", "It tells who."),
];

/// What the work agent may do: the hub sends an ArgoCD.
pub const WORK_AGENT: &[Right] = &[
    Right::new(
        "argoproj.io",
        "argocds",
        "get list watch create update patch delete",
        "The hub sends an ArgoCD.",
    ),
    Right::new("argoproj.io", "argocds/status", "get update patch", "The same."),
    Right::new("argoproj.io", "argocds/finalizers", "update patch", "The same."),
];
