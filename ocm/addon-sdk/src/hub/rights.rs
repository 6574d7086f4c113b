//! What the reconcilers of add-ons have to be allowed on the hub besides looking at what they watch,
//! each with its reason.

use ocm_api::{addon, work};
use ocm_reconcile::rbac::Right;

const ADDON: &str = addon::GROUP;
const RBAC: &str = "rbac.authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";
const EVENTS: &str = "events.k8s.io";

/// Of [`Approval`](super::approval::Approval).
pub(super) const APPROVAL: &[Right] = &[
    Right::new(
        CERTIFICATES,
        "certificatesigningrequests/approval",
        "update",
        "Agents of add-ons are let in",
    ),
    Right::new(
        CERTIFICATES,
        "signers",
        "approve",
        "as clients of the hub or of a signer of their own.",
    ),
];

/// Of [`Signer`](super::signing::Signer).
pub(super) const SIGNING: &[Right] = &[
    Right::new(
        CERTIFICATES,
        "certificatesigningrequests/status",
        "update",
        "Certificates of add-ons' agents,",
    ),
    Right::new(CERTIFICATES, "signers", "sign", "of the signers that add-ons name."),
    Right::new("", "secrets", "get list watch", "The authorities of these signers."),
    Right::new(EVENTS, "events", "create", "That there is no authority."),
];

/// Of [`Registrations`](super::registration::Registrations).
pub(super) const REGISTRATION: &[Right] = &[
    Right::new(
        RBAC,
        "roles rolebindings clusterroles clusterrolebindings",
        "create get patch delete",
        "What the agents of add-ons may do,",
    ),
    Right::new(
        RBAC,
        "roles clusterroles",
        "escalate bind",
        "though the hub may not do it itself,",
    ),
    Right::new(
        ADDON,
        "managedclusteraddons",
        "patch",
        "with what they prove themselves,",
    ),
    Right::new(ADDON, "managedclusteraddons/status", "patch", "who they are,"),
    Right::new(
        ADDON,
        "clustermanagementaddons/finalizers managedclusteraddons/finalizers",
        "update",
        "and who owns what they have; asked where OwnerReferencesPermissionEnforcement is on.",
    ),
];

/// Of [`SharedPermissions`](super::shared_permissions::SharedPermissions).
pub(super) const SHARED_PERMISSIONS: &[Right] = &[Right::new(
    RBAC,
    "roles rolebindings clusterroles clusterrolebindings",
    "delete",
    "What the agents of all clusters had together, and no cluster asks for any more.",
)];

/// Of [`ConfigHashes`](super::config_hashes::ConfigHashes).
pub(super) const CONFIG_HASHES: &[Right] = &[Right::new(
    ADDON,
    "managedclusteraddons/status",
    "patch",
    "Which state of a configuration is meant for a cluster.",
)];

/// Of [`DefaultHashes`](super::default_hashes::DefaultHashes).
pub(super) const DEFAULT_HASHES: &[Right] = &[Right::new(
    ADDON,
    "clustermanagementaddons/status",
    "patch",
    "Which state of a configuration is wanted on all clusters.",
)];

/// Of [`Deploy`](crate::deploy::Deploy).
pub(crate) const DEPLOY: &[Right] = &[
    Right::new(
        work::GROUP,
        "manifestworks",
        "create get patch delete",
        "What an add-on has on its clusters,",
    ),
    Right::new(
        ADDON,
        "managedclusteraddons",
        "patch",
        "the finalizers that hold it until that is gone,",
    ),
    Right::new(ADDON, "managedclusteraddons/status", "patch", "how far it is,"),
    Right::new(
        ADDON,
        "managedclusteraddons/finalizers",
        "update",
        "that it owns its works; asked where OwnerReferencesPermissionEnforcement is on,",
    ),
    Right::new(EVENTS, "events", "create", "and that its hooks had no time."),
];
