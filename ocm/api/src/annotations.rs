//! Annotation keys.

/// On a ManagedCluster that was accepted without a human: when (RFC 3339).
pub const AUTOMATICALLY_ACCEPTED_ON: &str = "open-cluster-management.io/automatically-accepted-on";
/// On a ManagedCluster: `{"registries":[{"source","mirror"}]}` for images of add-ons.
pub const IMAGE_REGISTRIES: &str = "open-cluster-management.io/image-registries";
/// On a ManagedCluster: `"true"` trusts the cluster's clock.
pub const SKIP_CLOCK_SYNC_CHECK: &str = "registration.open-cluster-management.io/skip-clock-sync-check";
/// On a ManagedCluster: the id of the agent whose certificate the hub approved last. Ours;
/// upstream keeps no such record.
pub const SERVED_BY: &str = "registration.open-cluster-management.io/served-by";
/// Prefix of the annotations an agent may set on its ManagedCluster when it creates it.
pub const AGENT_PREFIX: &str = "agent.open-cluster-management.io";
/// Prefix of the ManagedCluster annotations that are copied to its add-ons.
pub const ADDON_PREFIX: &str = "addon.open-cluster-management.io";
/// On a ManagedCluster made by the Cluster API importer: `<namespace>/<name>`.
pub const CAPI_CLUSTER: &str = "cluster.x-k8s.io/cluster";
/// On a ManagedClusterSet of ours: `"false"` stops us from reverting edits.
pub const AUTOUPDATE: &str = "cluster.open-cluster-management.io/autoupdate";
/// On works and add-ons in a cluster's namespace: 0 to 100, lower goes first when the cluster is deleted.
pub const CLEANUP_PRIORITY: &str = "open-cluster-management.io/cleanup-priority";
/// On objects applied server-side from a work: hash of what was applied. On a ManifestWork the add-on framework keeps a
/// JSON map here.
pub const CONFIG_SPEC_HASH: &str = "open-cluster-management.io/config-spec-hash";
/// On a Service or CSIDriver applied with strategy Update: hex SHA-256 of the JSON of its `spec`.
pub const TYPED_SPEC_HASH: &str = "operator.openshift.io/spec-hash";
/// Prefix of the annotations that are copied to logs and CloudEvents.
pub const LOGGING_PREFIX: &str = "logging.open-cluster-management.io/";
/// On a ManagedClusterAddOn: the cluster its agent runs on instead.
pub const ADDON_HOSTING_CLUSTER: &str = "addon.open-cluster-management.io/hosting-cluster-name";
/// On a manifest of an add-on: `managed`, `hosting` or `none`.
pub const ADDON_HOSTED_MANIFEST_LOCATION: &str = "addon.open-cluster-management.io/hosted-manifest-location";
/// On a Job or Pod of an add-on: run it before the add-on goes.
pub const ADDON_PRE_DELETE: &str = "addon.open-cluster-management.io/addon-pre-delete";
/// On the same Job or Pod: how long it may take, counted from the deletion of the add-on, such as `5m`. Ours; upstream
/// waits for ever, and so do we without it.
pub const ADDON_PRE_DELETE_DEADLINE: &str = "addon.open-cluster-management.io/addon-pre-delete-deadline";
/// On a manifest of an add-on: leave it when the add-on goes.
pub const ADDON_DELETION_ORPHAN: &str = "addon.open-cluster-management.io/deletion-orphan";
/// On a ManagedClusterAddOn: values for its manifests, as JSON.
pub const ADDON_VALUES: &str = "addon.open-cluster-management.io/values";
/// On a ManagedClusterAddOn read as `v1beta1`: what `v1alpha1` keeps in `spec.installNamespace`.
pub const ADDON_INSTALL_NAMESPACE: &str = "addon.open-cluster-management.io/v1alpha1-install-namespace";
/// On a ManagedClusterAddOn: `csr` or `token`, how its agent proves to the hub who it is where the cluster's agent is
/// not told. Ours; upstream knows the choice of the cluster's agent only.
pub const ADDON_KUBE_CLIENT_DRIVER: &str = "addon.open-cluster-management.io/kube-client-driver";
/// On the same: how many seconds a token lives, with `token`. Ours.
pub const ADDON_TOKEN_SECONDS: &str = "addon.open-cluster-management.io/token-expiration-seconds";
/// On a ManagedClusterAddOn: which of its annotations came from its ManagedCluster, comma-separated. Ours;
/// upstream keeps no such record.
pub const ADDON_FROM_CLUSTER: &str = "cluster.open-cluster-management.io/annotations-from-cluster";
/// On a ClusterManagementAddOn: `self` or `addon-manager`.
pub const ADDON_LIFECYCLE: &str = "addon.open-cluster-management.io/lifecycle";
/// On a CertificateSigningRequest that came over the gRPC transport: who asked there.
pub const CSR_USER: &str = "open-cluster-management.io/csr-user";
/// `"true"` on a Placement whose decisions shall stay as they are.
pub const SCHEDULING_DISABLED: &str = "cluster.open-cluster-management.io/experimental-scheduling-disable";
/// `"true"` on a ManifestWorkReplicaSet whose template shall reach no further cluster for now. Ours;
/// upstream takes no notice.
pub const ROLLOUT_PAUSED: &str = "work.open-cluster-management.io/rollout-paused";
/// `"true"` on a ManifestWorkReplicaSet whose works shall be as its template was before. Ours;
/// upstream takes no notice.
pub const ROLL_BACK: &str = "work.open-cluster-management.io/roll-back";
/// On a ManifestWork: which of its labels came from its ManifestWorkReplicaSet, comma-separated. Ours;
/// upstream keeps no such record.
pub const LABELS_FROM_REPLICA_SET: &str = "work.open-cluster-management.io/labels-from-replicaset";
