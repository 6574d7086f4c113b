//! What the hub's controllers of placements have to be allowed beside looking at what they watch.

use ocm_api::cluster::GROUP;
use ocm_reconcile::rbac::Right;

/// The reconciler of placements.
pub const PLACEMENTS: &[Right] = &[
    Right::new(GROUP, "placements/status", "patch", "How a choice went,"),
    Right::new(
        GROUP,
        "placements/finalizers",
        "update",
        "An owner that is kept while its decisions go; asked where OwnerReferencesPermissionEnforcement is on.",
    ),
    Right::new(
        GROUP,
        "placementdecisions",
        "create delete patch",
        "and which were chosen.",
    ),
    Right::new(GROUP, "placementdecisions/status", "patch", "The same."),
];

/// The one of their events.
pub const EVENTS: &[Right] = &[Right::new(
    "events.k8s.io",
    "events",
    "create",
    "What happened, in words.",
)];
