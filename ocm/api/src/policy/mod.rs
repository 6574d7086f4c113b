//! `policy.open-cluster-management.io`: Policies and the kinds that they carry, of the policy framework and its
//! controllers.

pub mod automation;
pub mod binding;
pub mod certificate_policy;
mod compliance_event;
pub mod configuration_policy;
pub mod operator_policy;

mod policy_kind;
pub mod set;
mod templates;

pub use crate::apps::{PlacementRule, PlacementRuleDecision, PlacementRuleSpec, PlacementRuleStatus};
pub use automation::PolicyAutomation;
pub use binding::PlacementBinding;
pub use compliance_event::ComplianceEvent;

pub use policy_kind::*;
pub use set::PolicySet;
pub use templates::PolicyTemplates;

/// The API group of the kinds here.
pub const GROUP: &str = "policy.open-cluster-management.io";

/// Labels of Policies and of what belongs to them.
pub mod labels {
    /// On a replica, and on the objects of its templates: the name of the cluster.
    pub const CLUSTER_NAME: &str = "policy.open-cluster-management.io/cluster-name";
    /// On a replica, and on the objects of its templates: the namespace of the cluster.
    pub const CLUSTER_NAMESPACE: &str = "policy.open-cluster-management.io/cluster-namespace";
    /// On a replica: `NAMESPACE.NAME` of the Policy that it is a copy of.
    pub const ROOT_POLICY: &str = "policy.open-cluster-management.io/root-policy";
    /// On the object of a template: the name of its Policy on the cluster.
    pub const POLICY: &str = "policy.open-cluster-management.io/policy";
    /// On the CustomResourceDefinition of a kind that Policies carry: `template`.
    pub const POLICY_TYPE: &str = "policy.open-cluster-management.io/policy-type";
}

/// Annotations of Policies and of what belongs to them.
pub mod annotations {
    /// What all annotations and labels of the framework begin with.
    pub const PREFIX: &str = "policy.open-cluster-management.io/";
    /// On a template of a replica: why its hub templates could not be resolved.
    pub const HUB_TEMPLATES_ERROR: &str = "policy.open-cluster-management.io/hub-templates-error";
    /// On a Policy or a template: as Go's ParseBool reads it, whether its templates stay as they are written.
    pub const DISABLE_TEMPLATES: &str = "policy.open-cluster-management.io/disable-templates";
    /// On a root Policy: any change makes its replicas anew; replicas do not have it.
    pub const TRIGGER_UPDATE: &str = "policy.open-cluster-management.io/trigger-update";
    /// On a replica and its templates: the initialization vector of what is encrypted in them, in base64.
    pub const ENCRYPTION_IV: &str = "policy.open-cluster-management.io/encryption-iv";
    /// On the Secret of a cluster's key: when the key was made, in RFC 3339.
    pub const LAST_ROTATED: &str = "policy.open-cluster-management.io/last-rotated";
    /// On the Secret of a cluster's key: `true` keeps the key as it is.
    pub const DISABLE_ROTATION: &str = "policy.open-cluster-management.io/disable-rotation";
    /// On the Deployment of a controller: `true` makes it let go of what it holds by finalizers.
    pub const UNINSTALLING: &str = "policy.open-cluster-management.io/uninstalling";
    /// On a PolicyAutomation: `true` starts one job now.
    pub const RERUN: &str = "policy.open-cluster-management.io/rerun";
    /// On every replica, for Argo CD.
    pub const ARGOCD_COMPARE_OPTIONS: &str = "argocd.argoproj.io/compare-options";
}

/// Finalizers of the policy framework.
pub mod finalizers {
    /// On a Policy on its cluster, while it has templates without a namespace.
    pub const CLEAN_UP_CLUSTER_SCOPED: &str = "policy.open-cluster-management.io/cleanup-cluster-scoped-policies";
    /// On a ConfigurationPolicy that prunes what it made.
    pub const DELETE_RELATED_OBJECTS: &str = "policy.open-cluster-management.io/delete-related-objects";
}

/// The Secret with the key of a cluster, in its namespace on the hub and in that of its Policies on the cluster.
pub const ENCRYPTION_KEY_SECRET: &str = "policy-encryption-key";

/// The namespace for policies that belong to a cluster alone.
pub const OCM_POLICY_NAMESPACE: &str = "open-cluster-management-policies";
