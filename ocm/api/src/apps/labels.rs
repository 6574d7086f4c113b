//! Labels of Subscriptions and of what they make.

/// On a Subscription: `true` when nothing of it changes for now.
pub const SUBSCRIPTION_PAUSE: &str = "subscription-pause";
/// On the ManifestWorks and reports of a Subscription: `NAMESPACE.NAME`, at most 63 characters.
pub const HOSTING_SUBSCRIPTION: &str = "apps.open-cluster-management.io/hosting-subscription";
/// On what a cluster reports: its name; on the report of a cluster: `true`.
pub const CLUSTER: &str = "apps.open-cluster-management.io/cluster";
/// On a Subscription: how often its Channel is looked at.
pub const RECONCILE_RATE: &str = "apps.open-cluster-management.io/reconcile-rate";
/// On a Secret or ConfigMap that a Channel uses: `true`.
pub const SERVING_CHANNEL: &str = "apps.open-cluster-management.io/serving-channel";
/// On what a backup of the hub takes along.
pub const BACKUP: &str = "cluster.open-cluster-management.io/backup";
/// The application.
pub const APP: &str = "app";
/// The application, as Kubernetes recommends it.
pub const PART_OF: &str = "app.kubernetes.io/part-of";
