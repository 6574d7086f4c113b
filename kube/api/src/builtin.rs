//! The built-in resources, one row each: names, scope, and what Kubernetes does differently for them.

use kube_store::schema::metadata::NameRule;

/// What Kubernetes does differently for a kind.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    pub name_rule: NameRule,
    /// `/status` exists; the main resource ignores changes to `status` and the other way round.
    pub status: bool,
    /// `/scale` exists.
    pub scale: bool,
    /// `metadata.generation` starts at 1 and grows when the content changes.
    pub generation: bool,
    /// PUT without `resourceVersion` is refused.
    pub version_required: bool,
    /// PUT to a missing name creates.
    pub create_on_update: bool,
    /// DELETE answers the object instead of a Status.
    pub returns_deleted: bool,
    /// Only `create`, nothing is stored: reviews.
    pub review: bool,
    /// No `deletecollection`.
    pub no_delete_collection: bool,
}

/// One built-in resource.
#[derive(Debug)]
pub struct Row {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    pub namespaced: bool,
    pub short_names: &'static str,
    pub categories: &'static str,
    pub traits: Traits,
}

impl Row {
    /// `plural[.group]`; both Event groups share one table.
    pub fn id(&self) -> String {
        match self.group {
            "" | "events.k8s.io" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// What a client is warned of.
    pub fn deprecation(&self) -> Option<&'static str> {
        (self.kind == "Endpoints")
            .then_some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    /// Versions that are served besides the one that is stored.
    pub fn other_versions(&self) -> &'static [&'static str] {
        let found = OTHER_VERSIONS
            .iter()
            .find(|it| (it.0, it.1) == (self.group, self.plural));
        found.map_or(&[], |it| it.2)
    }

    /// Singular name: the kind in lower case, but for Endpoints.
    pub fn singular(&self) -> String {
        if self.kind == "Endpoints" {
            "endpoints".into()
        } else {
            self.kind.to_lowercase()
        }
    }
}

/// A kind without peculiarities.
pub const PLAIN: Traits = Traits {
    name_rule: NameRule::Subdomain,
    status: false,
    scale: false,
    generation: false,
    version_required: false,
    create_on_update: false,
    returns_deleted: false,
    review: false,
    no_delete_collection: false,
};
const STATUS: Traits = Traits { status: true, ..PLAIN };
const GENERATION: Traits = Traits {
    generation: true,
    ..PLAIN
};
const WORKLOAD: Traits = Traits {
    status: true,
    generation: true,
    ..PLAIN
};
const SCALED: Traits = Traits {
    scale: true,
    ..WORKLOAD
};
const STRICT: Traits = Traits {
    generation: true,
    version_required: true,
    ..PLAIN
};
const STRICT_STATUS: Traits = Traits { status: true, ..STRICT };
const RBAC: Traits = Traits {
    name_rule: NameRule::PathSegment,
    create_on_update: true,
    ..PLAIN
};
const UPSERT: Traits = Traits {
    create_on_update: true,
    ..PLAIN
};
const REVIEW: Traits = Traits { review: true, ..PLAIN };

const fn row(
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    namespaced: bool,
    names: (&'static str, &'static str),
    traits: Traits,
) -> Row {
    Row {
        group,
        version,
        plural,
        kind,
        namespaced,
        short_names: names.0,
        categories: names.1,
        traits,
    }
}

const N: bool = true;
const C: bool = false;
const NONE: (&str, &str) = ("", "");
const AUTHN: &str = "authentication.k8s.io";
const AUTHZ: &str = "authorization.k8s.io";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const EXTENSIONS: (&str, &str) = ("", "api-extensions");

/// In order of preference: core first, then as a real API server orders its groups.
#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row("", "v1", "configmaps", "ConfigMap", N, ("cm", ""), PLAIN),
    row("", "v1", "endpoints", "Endpoints", N, ("ep", ""), UPSERT),
    // Named after what they are of, whatever its name is; the newer face is stricter.
    row("", "v1", "events", "Event", N, ("ev", ""), Traits { name_rule: NameRule::PathSegment, ..UPSERT }),
    row("", "v1", "limitranges", "LimitRange", N, ("limits", ""), UPSERT),
    row("", "v1", "namespaces", "Namespace", C, ("ns", ""),
        Traits { name_rule: NameRule::Label, status: true, returns_deleted: true, no_delete_collection: true, ..PLAIN }),
    row("", "v1", "nodes", "Node", C, ("no", ""), STATUS),
    row("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", N, ("pvc", ""), Traits { returns_deleted: true, ..STATUS }),
    row("", "v1", "persistentvolumes", "PersistentVolume", C, ("pv", ""), Traits { returns_deleted: true, ..STATUS }),
    row("", "v1", "pods", "Pod", N, ("po", "all"), Traits { returns_deleted: true, ..WORKLOAD }),
    row("", "v1", "podtemplates", "PodTemplate", N, NONE, Traits { returns_deleted: true, ..GENERATION }),
    row("", "v1", "replicationcontrollers", "ReplicationController", N, ("rc", "all"), SCALED),
    row("", "v1", "resourcequotas", "ResourceQuota", N, ("quota", ""), Traits { returns_deleted: true, ..STATUS }),
    row("", "v1", "secrets", "Secret", N, NONE, PLAIN),
    row("", "v1", "serviceaccounts", "ServiceAccount", N, ("sa", ""), Traits { returns_deleted: true, ..PLAIN }),
    row("", "v1", "services", "Service", N, ("svc", "all"),
        Traits { name_rule: NameRule::Label, returns_deleted: true, create_on_update: true, ..STATUS }),
    row("apiregistration.k8s.io", "v1", "apiservices", "APIService", C, EXTENSIONS,
        Traits { version_required: true, ..STATUS }),
    row("apps", "v1", "controllerrevisions", "ControllerRevision", N, NONE, PLAIN),
    row("apps", "v1", "daemonsets", "DaemonSet", N, ("ds", "all"), WORKLOAD),
    row("apps", "v1", "deployments", "Deployment", N, ("deploy", "all"), SCALED),
    row("apps", "v1", "replicasets", "ReplicaSet", N, ("rs", "all"), SCALED),
    row("apps", "v1", "statefulsets", "StatefulSet", N, ("sts", "all"), SCALED),
    row("events.k8s.io", "v1", "events", "Event", N, ("ev", ""), UPSERT),
    row(AUTHN, "v1", "selfsubjectreviews", "SelfSubjectReview", C, NONE, REVIEW),
    row(AUTHN, "v1", "tokenreviews", "TokenReview", C, NONE, REVIEW),
    row(AUTHZ, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview", N, NONE, REVIEW),
    row(AUTHZ, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", C, NONE, REVIEW),
    row(AUTHZ, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", C, NONE, REVIEW),
    row(AUTHZ, "v1", "subjectaccessreviews", "SubjectAccessReview", C, NONE, REVIEW),
    row("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", N, ("hpa", "all"), STATUS),
    row("batch", "v1", "cronjobs", "CronJob", N, ("cj", "all"), WORKLOAD),
    row("batch", "v1", "jobs", "Job", N, ("", "all"), WORKLOAD),
    row("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", C, ("csr", ""),
        Traits { name_rule: NameRule::PathSegment, ..STATUS }),
    row("networking.k8s.io", "v1", "ingressclasses", "IngressClass", C, NONE, GENERATION),
    row("networking.k8s.io", "v1", "ingresses", "Ingress", N, ("ing", ""), WORKLOAD),
    row("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", N, ("netpol", ""), GENERATION),
    row("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", N, ("pdb", ""), STRICT_STATUS),
    row(RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", C, NONE, RBAC),
    row(RBAC_GROUP, "v1", "clusterroles", "ClusterRole", C, NONE, RBAC),
    row(RBAC_GROUP, "v1", "rolebindings", "RoleBinding", N, NONE, RBAC),
    row(RBAC_GROUP, "v1", "roles", "Role", N, NONE, RBAC),
    row("storage.k8s.io", "v1", "csidrivers", "CSIDriver", C, NONE, Traits { returns_deleted: true, ..STRICT }),
    row("storage.k8s.io", "v1", "csinodes", "CSINode", C, NONE, Traits { version_required: true, returns_deleted: true, ..PLAIN }),
    row("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", N, NONE, Traits { version_required: true, ..PLAIN }),
    row("storage.k8s.io", "v1", "storageclasses", "StorageClass", C, ("sc", ""), Traits { returns_deleted: true, ..PLAIN }),
    row("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", C, NONE,
        Traits { status: true, version_required: true, returns_deleted: true, ..PLAIN }),
    row(ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", C, EXTENSIONS, STRICT),
    row(ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", C, EXTENSIONS, STRICT_STATUS),
    row(ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", C, EXTENSIONS, STRICT),
    row(ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", C, EXTENSIONS, STRICT),
    row("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", C, ("crd crds", "api-extensions"), STRICT_STATUS),
    row("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", C, ("pc", ""), GENERATION),
    row("coordination.k8s.io", "v1", "leases", "Lease", N, NONE, Traits { version_required: true, create_on_update: true, ..PLAIN }),
    row("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", C, NONE,
        Traits { version_required: true, create_on_update: true, ..PLAIN }),
    row("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", N, NONE, GENERATION),
];

/// Group and plural of what is served in more than one version, and the others.
const OTHER_VERSIONS: &[(&str, &str, &[&str])] = &[("autoscaling", "horizontalpodautoscalers", &["v1"])];

/// Subresources beyond `status` and `scale` that discovery names: resource id, name, kind, group, version, verbs.
pub const SUBRESOURCES: &[(&str, &str, &str, &str, &str, &[&str])] = &[
    ("namespaces", "finalize", "Namespace", "", "", &["update"]),
    (
        "serviceaccounts",
        "token",
        "TokenRequest",
        "authentication.k8s.io",
        "v1",
        &["create"],
    ),
    (
        "certificatesigningrequests.certificates.k8s.io",
        "approval",
        "CertificateSigningRequest",
        "",
        "",
        &["get", "patch", "update"],
    ),
    ("pods", "eviction", "Eviction", "policy", "v1", &["create"]),
    ("pods", "binding", "Binding", "", "", &["create"]),
    ("pods", "log", "Pod", "", "", &["get"]),
];
