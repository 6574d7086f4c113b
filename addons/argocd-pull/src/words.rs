//! Labels, annotations and names that others read.

/// Label on an Application that a cluster pulls, and on its ManifestWork.
pub const PULL: &str = "apps.open-cluster-management.io/pull-to-ocm-managed-cluster";
/// Annotation on an Application: the cluster.
pub const CLUSTER: &str = "apps.open-cluster-management.io/ocm-managed-cluster";
/// Annotation on an Application: its namespace on the cluster.
pub const CLUSTER_NAMESPACE: &str = "apps.open-cluster-management.io/ocm-managed-cluster-app-namespace";
/// Annotation on an Application: the name of its destination on the cluster.
pub const DESTINATION_NAME: &str = "apps.open-cluster-management.io/destination-name";
/// Annotation on an Application: the API server of its destination on the cluster.
pub const DESTINATION_SERVER: &str = "apps.open-cluster-management.io/destination-server";
/// Annotation that keeps an Argo CD on the hub from deploying the Application itself.
pub const SKIP_RECONCILE: &str = "argocd.argoproj.io/skip-reconcile";
/// Annotation on a ManifestWork: the namespace of the Application on the hub.
pub const HUB_NAMESPACE: &str = "apps.open-cluster-management.io/hub-application-namespace";
/// Annotation on a ManifestWork: the name of the Application on the hub.
pub const HUB_NAME: &str = "apps.open-cluster-management.io/hub-application-name";
/// Label on what an ApplicationSet has made.
pub const APPLICATION_SET: &str = "apps.open-cluster-management.io/application-set";
/// Annotation on the same: the ApplicationSet.
pub const HOSTING_APPLICATION_SET: &str = "apps.open-cluster-management.io/hosting-applicationset";
/// Finalizer of an Application whose resources go with it.
pub const RESOURCES_FINALIZER: &str = "resources-finalizer.argocd.argoproj.io";
/// Label on a Secret of Argo CD: what it is.
pub const SECRET_TYPE: &str = "argocd.argoproj.io/secret-type";
/// Its value on a Secret that describes a cluster.
pub const SECRET_OF_CLUSTER: &str = "cluster";
