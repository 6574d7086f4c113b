//! What the reconciler of works says of statuses, and what it has to be allowed besides what works contain.

use ocm_api::{
    conditions::manifest_work as types,
    work::{AppliedManifestWork, ManifestWork},
};
use ocm_reconcile::{StatusField, rbac::Right};

/// The status fields that it writes. Condition rules of works add conditions of their own.
pub(super) const STATUS: &[StatusField] = &[
    StatusField::condition(ManifestWork::KIND, types::APPLIED),
    StatusField::condition(ManifestWork::KIND, types::AVAILABLE),
    StatusField::condition(ManifestWork::KIND, types::PROGRESSING),
    StatusField::condition(ManifestWork::KIND, types::DEGRADED),
    StatusField::condition(ManifestWork::KIND, types::COMPLETE),
    StatusField::condition(ManifestWork::KIND, types::DELETING),
    StatusField::new(ManifestWork::KIND, "resourceStatus"),
    StatusField::new(AppliedManifestWork::KIND, "appliedResources"),
    StatusField::new(AppliedManifestWork::KIND, "evictionStartTime"),
];

/// On the hub in the cluster's namespace, and on the cluster.
pub(super) const RIGHTS: &[Right] = &[
    Right::new(
        ManifestWork::GROUP,
        "manifestworks",
        "patch",
        "Works of the cluster are held by a finalizer,",
    ),
    Right::new(
        ManifestWork::GROUP,
        "manifestworks/status",
        "patch",
        "and how far they are.",
    ),
    Right::new(
        AppliedManifestWork::GROUP,
        "appliedmanifestworks",
        "create delete get patch",
        "What was applied,",
    ),
    Right::new(
        AppliedManifestWork::GROUP,
        "appliedmanifestworks/status",
        "patch",
        "and which objects.",
    ),
    Right::new(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
        "Whether the executor of a work may do what it says,",
    ),
    Right::new(
        "rbac.authorization.k8s.io",
        "clusterrolebindings clusterroles rolebindings roles",
        "list watch",
        "when the answer may have become another,",
    ),
    Right::new(
        "",
        "serviceaccounts",
        "impersonate",
        "and grant what it says: it is tried in the executor's name.",
    ),
];
