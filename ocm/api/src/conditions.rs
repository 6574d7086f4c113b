//! Condition types and reasons, kind by kind. Strings are upstream's; misspellings included.

// Each says what its string says.
#![allow(missing_docs)]

/// Conditions of a ManagedCluster.
pub mod managed_cluster {
    pub const HUB_ACCEPTED: &str = "HubAcceptedManagedCluster";
    pub const HUB_DENIED: &str = "HubDeniedManagedCluster";
    pub const JOINED: &str = "ManagedClusterJoined";
    pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";
    pub const CLOCK_SYNCED: &str = "ManagedClusterConditionClockSynced";
    pub const DELETING: &str = "Deleting";
    pub const CERTIFICATE_ROTATED: &str = "ClusterCertificateRotated";
    pub const IMPORT_SUCCEEDED: &str = "ManagedClusterImportSucceeded";

    /// Reasons.
    pub mod reason {
        pub const HUB_CLUSTER_ADMIN_ACCEPTED: &str = "HubClusterAdminAccepted";
        pub const HUB_CLUSTER_ADMIN_DENIED: &str = "HubClusterAdminDenied";
        pub const ERROR: &str = "Error";
        pub const JOINED: &str = "ManagedClusterJoined";
        pub const AVAILABLE: &str = "ManagedClusterAvailable";
        pub const KUBE_API_SERVER_UNAVAILABLE: &str = "ManagedClusterKubeAPIServerUnavailable";
        pub const LEASE_UPDATE_STOPPED: &str = "ManagedClusterLeaseUpdateStopped";
        pub const CLOCK_SYNCED: &str = "ManagedClusterClockSynced";
        pub const CLOCK_OUT_OF_SYNC: &str = "ManagedClusterClockOutOfSync";
        pub const RESOURCE_REMAINING: &str = "ResourceRemaining";
        pub const DELETING_ERROR: &str = "DeletingError";
        pub const NO_RESOURCE: &str = "NoResource";
        pub const CLIENT_CERTIFICATE_UPDATED: &str = "ClientCertificateUpdated";
        pub const CLIENT_CERTIFICATE_UPDATE_FAILED: &str = "ClientCertificateUpdateFailed";
    }
}

/// Conditions of an entry of a ManagedCluster's `status.managedNamespaces`.
pub mod managed_namespace {
    pub const AVAILABLE: &str = "NamespaceAvailable";

    /// Reasons.
    pub mod reason {
        pub const APPLIED: &str = "NamespaceApplied";
        pub const APPLY_FAILED: &str = "NamespaceApplyFailed";
    }
}

/// Conditions of a ManagedClusterSet.
pub mod managed_cluster_set {
    pub const EMPTY: &str = "ClusterSetEmpty";

    /// Reasons.
    pub mod reason {
        pub const NO_CLUSTER_MATCHED: &str = "NoClusterMatched";
        pub const CLUSTERS_SELECTED: &str = "ClustersSelected";
    }
}

/// Conditions of a ManagedClusterSetBinding.
pub mod managed_cluster_set_binding {
    pub const BOUND: &str = "Bound";

    /// Reasons.
    pub mod reason {
        pub const CLUSTER_SET_BOUND: &str = "ClusterSetBound";
        pub const CLUSTER_SET_NOT_FOUND: &str = "ClusterSetNotFound";
    }
}

/// The approval of a CertificateSigningRequest by the hub.
pub mod csr {
    pub const APPROVED: &str = "Approved";
    pub const DENIED: &str = "Denied";
    pub const FAILED: &str = "Failed";

    /// Reasons.
    pub mod reason {
        pub const AUTO_APPROVED: &str = "AutoApprovedByHubCSRApprovingController";
    }
}

/// Conditions of a ManifestWork, of the whole and of each manifest.
pub mod manifest_work {
    pub const APPLIED: &str = "Applied";
    pub const AVAILABLE: &str = "Available";
    pub const PROGRESSING: &str = "Progressing";
    pub const DEGRADED: &str = "Degraded";
    pub const COMPLETE: &str = "Complete";
    pub const DELETING: &str = "Deleting";
    /// Of a manifest only.
    pub const STATUS_FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";

    /// Reasons of the whole.
    pub mod reason {
        pub const APPLIED_COMPLETE: &str = "AppliedManifestWorkComplete";
        pub const APPLIED_FAILED: &str = "AppliedManifestWorkFailed";
        pub const RESOURCES_AVAILABLE: &str = "ResourcesAvailable";
        pub const RESOURCES_NOT_AVAILABLE: &str = "ResourcesNotAvailable";
        pub const RESOURCES_STATUS_UNKNOWN: &str = "ResourcesStatusUnknown";
        pub const CONDITION_RULES_AGGREGATED: &str = "ConditionRulesAggregated";
        pub const DELETING: &str = "WorkDeleting";
    }

    /// Reasons of one manifest.
    pub mod manifest_reason {
        pub const APPLIED_COMPLETE: &str = "AppliedManifestComplete";
        pub const APPLIED_FAILED: &str = "AppliedManifestFailed";
        pub const SSA_IGNORE_FIELD_ERROR: &str = "AppliedManifestSSAIgnoreFieldError";
        pub const RESOURCE_AVAILABLE: &str = "ResourceAvailable";
        pub const RESOURCE_NOT_AVAILABLE: &str = "ResourceNotAvailable";
        pub const INCOMPLETE_RESOURCE_META: &str = "IncompleteResourceMeta";
        pub const FETCHING_RESOURCE_FAILED: &str = "FetchingResourceFailed";
        pub const NO_STATUS_FEEDBACK_SYNCED: &str = "NoStatusFeedbackSynced";
        pub const STATUS_FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";
        pub const STATUS_FEEDBACK_SYNC_FAILED: &str = "StatusFeedbackSyncFailed";
        /// What every reason of a condition rule starts with.
        pub const CONDITION_RULE_PREFIX: &str = "ConditionRule";
        pub const CONDITION_RULE_EVALUATED: &str = "ConditionRuleEvaluated";
        pub const CONDITION_RULE_EXPRESSION_ERROR: &str = "ConditionRuleExpressionError";
        pub const CONDITION_RULE_INTERNAL_ERROR: &str = "ConditionRuleInternalError";
        pub const CONDITION_RULE_INVALID: &str = "ConditionRuleInvalid";
    }
}

/// Conditions of a ManifestWorkReplicaSet.
pub mod manifest_work_replica_set {
    pub const PLACEMENT_VERIFIED: &str = "PlacementVerified";
    pub const PLACEMENT_ROLLED_OUT: &str = "PlacementRolledOut";
    pub const MANIFEST_WORK_APPLIED: &str = "ManifestworkApplied";

    /// Reasons.
    pub mod reason {
        pub const AS_EXPECTED: &str = "AsExpected";
        pub const NOT_AS_EXPECTED: &str = "NotAsExpected";
        pub const PROCESSING: &str = "Processing";
        pub const PROGRESSING: &str = "Progressing";
        pub const COMPLETE: &str = "Complete";
        pub const PLACEMENT_DECISION_NOT_FOUND: &str = "PlacementDecisionNotFound";
        pub const PLACEMENT_DECISION_EMPTY: &str = "PlacementDecisionEmpty";
        pub const INVALID_MANIFEST_WORK_NAME: &str = "InvalidManifestWorkName";
    }
}

/// Conditions of a Placement.
pub mod placement {
    pub const SATISFIED: &str = "PlacementSatisfied";
    pub const MISCONFIGURED: &str = "PlacementMisconfigured";

    /// Reasons.
    pub mod reason {
        pub const MISCONFIGURED: &str = "Misconfigured";
        pub const SUCCEED_CONFIGURED: &str = "Succeedconfigured";
        pub const NO_MANAGED_CLUSTER_SET_BINDINGS: &str = "NoManagedClusterSetBindings";
        pub const NO_INTERSECTION: &str = "NoIntersection";
        pub const ALL_MANAGED_CLUSTER_SETS_EMPTY: &str = "AllManagedClusterSetsEmpty";
        pub const NO_MANAGED_CLUSTER_MATCHED: &str = "NoManagedClusterMatched";
        pub const ALL_DECISIONS_SCHEDULED: &str = "AllDecisionsScheduled";
        pub const NOT_ALL_DECISIONS_SCHEDULED: &str = "NotAllDecisionsScheduled";
    }
}

/// Conditions of a ManagedClusterAddOn.
pub mod managed_cluster_add_on {
    pub const AVAILABLE: &str = "Available";
    pub const DEGRADED: &str = "Degraded";
    pub const CONFIGURED: &str = "Configured";
    pub const PROGRESSING: &str = "Progressing";
    pub const MANIFEST_APPLIED: &str = "ManifestApplied";
    pub const HOOK_MANIFEST_COMPLETED: &str = "HookManifestCompleted";
    pub const HOSTING_MANIFEST_APPLIED: &str = "HostingManifestApplied";
    pub const HOSTING_CLUSTER_VALIDITY: &str = "HostingClusterValidity";
    pub const REGISTRATION_APPLIED: &str = "RegistrationApplied";
    pub const CERTIFICATE_ROTATED: &str = "ClusterCertificateRotated";
    pub const TOKEN_REFRESHED: &str = "TokenRefreshed";
    pub const TOKEN_INFRASTRUCTURE_READY: &str = "TokenInfrastructureReady";

    /// Reasons of RegistrationApplied.
    pub mod registration_reason {
        pub const NIL_REGISTRATION: &str = "NilRegistration";
        pub const SET_PERMISSION_APPLIED: &str = "SetPermissionApplied";
        pub const SET_PERMISSION_FAILED: &str = "SetPermissionFailed";
        pub const PERMISSION_CONFIG_PENDING: &str = "PermissionConfigPending";
    }

    /// Reasons of the conditions that the agent sets.
    pub mod agent_reason {
        pub const LEASE_UPDATED: &str = "ManagedClusterAddOnLeaseUpdated";
        pub const LEASE_UPDATE_STOPPED: &str = "ManagedClusterAddOnLeaseUpdateStopped";
        pub const LEASE_NOT_FOUND: &str = "ManagedClusterAddOnLeaseNotFound";
        pub const CERTIFICATE_UPDATED: &str = "ClientCertificateUpdated";
        pub const CERTIFICATE_UPDATE_FAILED: &str = "ClientCertificateUpdateFailed";
        pub const TOKEN_REFRESHED: &str = "AddonTokenRefreshed";
        pub const TOKEN_CREATION_FAILED: &str = "TokenCreationFailed";
    }

    /// Reasons of the conditions about manifests, hooks and the health that follows from them.
    pub mod deploy_reason {
        pub const APPLIED: &str = "AddonManifestApplied";
        pub const APPLIED_FAILED: &str = "AddonManifestAppliedFailed";
        pub const WORK_APPLY_FAILED: &str = "ManifestWorkApplyFailed";
        pub const HOSTING_CLUSTER_VALID: &str = "HostingClusterValid";
        pub const HOSTING_CLUSTER_INVALID: &str = "HostingClusterInvalid";
        pub const HOOK_COMPLETED: &str = "HookManifestIsCompleted";
        pub const HOOK_NOT_COMPLETED: &str = "HookManifestIsNotCompleted";
        /// Ours: the hook has a deadline, and it has passed.
        pub const HOOK_DEADLINE_PASSED: &str = "HookManifestDeadlinePassed";
        pub const WORK_APPLIED: &str = "WorkApplied";
        pub const WORK_NOT_FOUND: &str = "WorkNotFound";
        pub const WORK_NOT_APPLIED: &str = "WorkNotApplied";
        pub const NO_PROBE_RESULT: &str = "NoProbeResult";
        pub const PROBE_UNAVAILABLE: &str = "ProbeUnavailable";
        pub const PROBE_AVAILABLE: &str = "ProbeAvailable";
    }

    /// Reasons of events about certificates of custom signers.
    pub mod signing_reason {
        /// Ours: there is nothing to sign with.
        pub const NO_AUTHORITY: &str = "SigningAuthorityMissing";
    }

    /// Reasons of Configured.
    pub mod configured_reason {
        pub const CONFIGURED: &str = "ConfigurationsConfigured";
        pub const NOT_CONFIGURED: &str = "ConfigurationsNotConfigured";
    }

    /// Reasons of Progressing.
    pub mod progressing_reason {
        pub const UNSUPPORTED: &str = "ConfigurationUnsupported";
        pub const WAITING_FOR_MANIFEST_APPLIED: &str = "WaitingForManifestApplied";
        pub const WAITING_FOR_HOSTING_MANIFEST_APPLIED: &str = "WaitingForHostingManifestApplied";
        pub const PROGRESSING: &str = "Progressing";
        pub const COMPLETED: &str = "Completed";
        pub const FAILED: &str = "Failed";
    }

    /// Reasons of TokenInfrastructureReady.
    pub mod token_infrastructure_reason {
        pub const READY: &str = "TokenInfrastructureReady";
        pub const APPLY_FAILED: &str = "TokenInfrastructureApplyFailed";
    }
}

/// Conditions of an entry of a ClusterManagementAddOn's `status.installProgressions`.
pub mod install_progression {
    pub const PROGRESSING: &str = "Progressing";

    /// Reasons.
    pub mod reason {
        pub const PROGRESSING: &str = "Progressing";
        pub const COMPLETED: &str = "Completed";
    }
}

/// Conditions of a ClusterManager.
pub mod cluster_manager {
    pub const APPLIED: &str = "Applied";
    pub const PROGRESSING: &str = "Progressing";
    pub const VALID_FEATURE_GATES: &str = "ValidFeatureGates";
    pub const HUB_REGISTRATION_DEGRADED: &str = "HubRegistrationDegraded";
    pub const HUB_PLACEMENT_DEGRADED: &str = "HubPlacementDegraded";
    pub const MIGRATION_SUCCEEDED: &str = "MigrationSucceeded";
}

/// Conditions of a Klusterlet.
pub mod klusterlet {
    pub const APPLIED: &str = "Applied";
    pub const READY_TO_APPLY: &str = "ReadyToApply";
    pub const VALID_FEATURE_GATES: &str = "ValidFeatureGates";
    pub const AVAILABLE: &str = "Available";
    pub const REGISTRATION_DESIRED_DEGRADED: &str = "RegistrationDesiredDegraded";
    pub const WORK_DESIRED_DEGRADED: &str = "WorkDesiredDegraded";
    pub const HUB_CONNECTION_DEGRADED: &str = "HubConnectionDegraded";
}

/// Conditions of a ClusterProfile.
pub mod cluster_profile {
    pub const CONTROL_PLANE_HEALTHY: &str = "ControlPlaneHealthy";
    pub const JOINED: &str = "Joined";
}
