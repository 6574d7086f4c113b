//! What the hub's controllers for add-ons need to be allowed besides looking at what they watch.

use ocm_api::{addon, cluster};
use ocm_reconcile::rbac::Right;

/// To install add-ons and to remove them.
pub const INSTALL: Right = Right::new(
    addon::GROUP,
    "managedclusteraddons",
    "create delete",
    "Add-ons go where placements say.",
);

/// To write an add-on's owner and annotations.
pub const PATCH_ADD_ONS: Right = Right::new(
    addon::GROUP,
    "managedclusteraddons",
    "patch",
    "Whose an add-on is, and what it has from its cluster.",
);

/// To say how an add-on is on a cluster.
pub const ADD_ON_STATUS: Right = Right::new(
    addon::GROUP,
    "managedclusteraddons/status",
    "patch",
    "How add-ons are on their clusters.",
);

/// To say how far an add-on is rolled out.
pub const OFFER_STATUS: Right = Right::new(
    addon::GROUP,
    "clustermanagementaddons/status",
    "patch",
    "How far add-ons are rolled out.",
);

/// To own with `blockOwnerDeletion`.
pub const OWNERS_STAY: Right = Right::new(
    addon::GROUP,
    "clustermanagementaddons/finalizers",
    "update",
    "Owners that are kept while what they own goes; asked where OwnerReferencesPermissionEnforcement is on.",
);

/// To label clusters.
pub const LABEL_CLUSTERS: Right = Right::new(
    cluster::GROUP,
    "managedclusters",
    "patch",
    "Labels that say which add-ons a cluster has.",
);

/// To tell what happened.
pub const EVENTS: Right = Right::new("events.k8s.io", "events", "create", "What happened, in words.");

/// To let agents in with a token.
pub const TOKENS: &[Right] = &[
    ADD_ON_STATUS,
    Right::new(
        "",
        "serviceaccounts",
        "create patch delete",
        "What add-ons' agents with a token are.",
    ),
    Right::new(
        "rbac.authorization.k8s.io",
        "roles rolebindings",
        "create patch delete",
        "Who may ask for their tokens.",
    ),
    Right::new(
        "rbac.authorization.k8s.io",
        "roles",
        "escalate bind",
        "The hub itself may not ask for tokens.",
    ),
];
