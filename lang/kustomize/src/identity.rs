//! What an object is: group, version, kind, name and namespace, now and under its former names.
//! Upstream: kyaml `resid`. A namespace counts as it works: none is `default`, and cluster-scoped kinds have none.

use std::fmt;

/// Kinds that are certainly cluster-scoped, by kyaml's definitions. All others are taken for namespaced ones.
const CLUSTER_SCOPED: &[(&str, &[&str], &[&str])] = &[
    (
        "admissionregistration.k8s.io",
        &["v1", "v1beta1"],
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    ),
    (
        "apiextensions.k8s.io",
        &["v1", "v1beta1"],
        &["CustomResourceDefinition"],
    ),
    ("apiregistration.k8s.io", &["v1", "v1beta1"], &["APIService"]),
    (
        "certificates.k8s.io",
        &["v1", "v1beta1"],
        &["CertificateSigningRequest"],
    ),
    (
        "flowcontrol.apiserver.k8s.io",
        &["v1beta1"],
        &["FlowSchema", "PriorityLevelConfiguration"],
    ),
    ("networking.k8s.io", &["v1", "v1beta1"], &["IngressClass"]),
    ("node.k8s.io", &["v1", "v1beta1"], &["RuntimeClass"]),
    ("policy", &["v1beta1"], &["PodSecurityPolicy"]),
    (
        "rbac.authorization.k8s.io",
        &["v1", "v1beta1"],
        &["ClusterRole", "ClusterRoleBinding"],
    ),
    ("scheduling.k8s.io", &["v1", "v1beta1"], &["PriorityClass"]),
    (
        "storage.k8s.io",
        &["v1"],
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"],
    ),
    (
        "storage.k8s.io",
        &["v1beta1"],
        &["CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"],
    ),
    (
        "",
        &["v1"],
        &[
            "ComponentStatus",
            "Namespace",
            "Node",
            "NodeProxyOptions",
            "PersistentVolume",
        ],
    ),
];

/// The namespace of what has none.
pub(crate) const NO_NAMESPACE: &str = "_non_namespaceable_";

/// A kind; in a selector, an empty part fits all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Gvk {
    pub group: String,
    pub version: String,
    pub kind: String,
}

impl Gvk {
    pub(crate) fn new(api_version: &str, kind: &str) -> Gvk {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        Gvk {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub(crate) fn is_selected_by(&self, selector: &Gvk) -> bool {
        let fits = |wanted: &str, it: &str| wanted.is_empty() || wanted == it;
        fits(&selector.group, &self.group) && fits(&selector.version, &self.version) && fits(&selector.kind, &self.kind)
    }

    pub(crate) fn is_cluster_scoped(&self) -> bool {
        CLUSTER_SCOPED.iter().any(|(group, versions, kinds)| {
            *group == self.group && versions.contains(&&*self.version) && kinds.contains(&&*self.kind)
        })
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or = |text: &str, other: &str| {
            if text.is_empty() {
                other.to_owned()
            } else {
                text.to_owned()
            }
        };
        write!(
            f,
            "{}.{}.{}",
            or(&self.kind, "[noKind]"),
            or(&self.version, "[noVer]"),
            or(&self.group, "[noGrp]")
        )
    }
}

/// An object's identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectId {
    pub gvk: Gvk,
    pub name: String,
    pub namespace: String,
    /// Known of the present identity only; former ones have [`NO_NAMESPACE`] as their namespace instead.
    pub cluster_scoped: bool,
}

impl ObjectId {
    pub(crate) fn effective_namespace(&self) -> &str {
        if self.cluster_scoped {
            NO_NAMESPACE
        } else if self.namespace.is_empty() {
            "default"
        } else {
            &self.namespace
        }
    }

    pub(crate) fn same_namespace(&self, other: &ObjectId) -> bool {
        self.effective_namespace() == other.effective_namespace()
    }

    pub(crate) fn same(&self, other: &ObjectId) -> bool {
        self.name == other.name && self.gvk == other.gvk && self.same_namespace(other)
    }

    /// The part that is compared, for sets and maps.
    pub(crate) fn key(&self) -> (Gvk, String, String) {
        (
            self.gvk.clone(),
            self.name.clone(),
            self.effective_namespace().to_owned(),
        )
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.gvk.kind, self.name)?;
        if !self.gvk.version.is_empty() {
            write!(f, " of {}", self.gvk.api_version())?;
        }
        if !self.namespace.is_empty() && self.namespace != NO_NAMESPACE {
            write!(f, " in namespace {}", self.namespace)?;
        }
        Ok(())
    }
}
