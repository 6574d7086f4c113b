//! `apps.open-cluster-management.io`: Channels and Subscriptions, of the add-on application-manager: applications that
//! clusters take from Git, from Helm repositories and from buckets.
//! GitOpsClusters, which are in the same API group, are in [`crate::gitops`].

pub mod annotations;
mod channel;
mod helm_release;
pub mod labels;
mod placement_rule;
mod subscription;
mod subscription_report;
mod subscription_status;

pub use channel::{Channel, ChannelGate, ChannelSpec, ChannelStatus, ChannelType};
pub use helm_release::{
    AlternativeChartSource, ChartSource, DeployedRelease, GitChartSource, HelmRelease, HelmReleaseCondition,
    HelmReleaseRepo, HelmReleaseStatus, HelmRepositoryUrls,
};
pub use placement_rule::{
    ClusterConditionFilter, PlacementRule, PlacementRuleDecision, PlacementRuleSpec, PlacementRuleStatus, ResourceHint,
};
pub use subscription::{
    AnsibleJobs, ClusterName, ClusterOverrides, HourRange, KindsOfVersion, LegacyClusterStatus, LegacyUnitStatus,
    NamedConfigMap, PackageFilter, PackageOverrides, Subscription, SubscriptionPhase, SubscriptionPlacement,
    SubscriptionSpec, SubscriptionStatusOnHub, TimeWindow,
};
pub use subscription_report::{
    ReportTimestamp, ReportType, SubscriptionReport, SubscriptionReportResult, SubscriptionReportSummary,
};
pub use subscription_status::{
    SubscriptionStatus, SubscriptionStatuses, SubscriptionSyncStatus, SubscriptionUnitStatus,
};

/// The API group of the kinds here.
pub const GROUP: &str = "apps.open-cluster-management.io";

/// The name of the add-on.
pub const ADD_ON: &str = "application-manager";

/// The ClusterRoleBinding whose subjects are subscription administrators.
pub const SUBSCRIPTION_ADMIN_BINDING: &str = "open-cluster-management:subscription-admin";

/// The finalizer of HelmReleases.
pub const UNINSTALL_HELM_RELEASE: &str = "uninstall-helm-release";
