//! Condition types of a GitOpsCluster, one for each step, and their reasons.

/// Role and RoleBinding for the certificates of agents.
pub const RBAC_READY: &str = "RBACReady";
/// The address of the principal is known.
pub const SERVER_DISCOVERED: &str = "ServerDiscovered";
/// The key that the principal signs tokens with is there.
pub const JWT_SECRET_READY: &str = "JWTSecretReady";
/// The authority is there.
pub const CA_CERTIFICATE_READY: &str = "CACertificateReady";
/// The certificate of the principal is there.
pub const PRINCIPAL_CERTIFICATE_READY: &str = "PrincipalCertificateReady";
/// The certificate of the resource proxy is there.
pub const RESOURCE_PROXY_CERTIFICATE_READY: &str = "ResourceProxyCertificateReady";
/// The AddOnTemplate is there.
pub const ADD_ON_TEMPLATE_READY: &str = "AddOnTemplateReady";
/// The Placement tolerates clusters that are not available.
pub const PLACEMENT_TOLERATION_CONFIGURED: &str = "PlacementTolerationConfigured";
/// The clusters are known.
pub const PLACEMENT_EVALUATED: &str = "PlacementEvaluated";
/// Argo CD knows the clusters.
pub const CLUSTERS_IMPORTED: &str = "ClustersImported";
/// The authority is sent to the clusters.
pub const MANIFEST_WORK_CREATED: &str = "ManifestWorkCreated";
/// The ArgoCD is sent to the clusters.
pub const ARGO_CD_CR_DELIVERED: &str = "ArgoCDCRDelivered";
/// The clusters have the add-on.
pub const ADD_ON_CONFIGURED: &str = "AddonConfigured";
/// What clusters had that were removed is deleted.
pub const REMOVED_CLUSTERS_CLEANED_UP: &str = "RemovedClustersCleanedUp";

/// All of them that start as Unknown, in the order of the steps.
pub const STEPS: [&str; 13] = [
    RBAC_READY,
    SERVER_DISCOVERED,
    JWT_SECRET_READY,
    CA_CERTIFICATE_READY,
    PRINCIPAL_CERTIFICATE_READY,
    RESOURCE_PROXY_CERTIFICATE_READY,
    ADD_ON_TEMPLATE_READY,
    PLACEMENT_TOLERATION_CONFIGURED,
    PLACEMENT_EVALUATED,
    CLUSTERS_IMPORTED,
    MANIFEST_WORK_CREATED,
    ARGO_CD_CR_DELIVERED,
    ADD_ON_CONFIGURED,
];

/// Their reasons.
pub mod reason {
    /// The step is done.
    pub const SUCCESS: &str = "Success";
    /// The step has failed.
    pub const FAILED: &str = "Failed";
    /// The step was not reached yet.
    pub const IN_PROGRESS: &str = "InProgress";
    /// No address of the principal was found.
    pub const SERVER_NOT_DISCOVERED: &str = "ServerNotDiscovered";
    /// There are no clusters.
    pub const NO_CLUSTERS: &str = "NoClusters";
}
