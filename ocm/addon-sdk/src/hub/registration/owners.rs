//! Who owns what belongs to an add-on: its ManagedClusterAddOn what is in its cluster's namespace, its
//! ClusterManagementAddOn the rest.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use ocm_api::addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn};

use crate::hub::rbac::Owners;

/// Whether a ManagedClusterAddOn belongs to the ClusterManagementAddOn of its name, in whatever version it says so.
/// Anybody who may write a ManagedClusterAddOn can name an owner that was never there:
/// to garbage collection it is one that is gone.
pub fn is_owned_by(addon: &ManagedClusterAddOn, management: &ClusterManagementAddOn) -> bool {
    let (name, uid) = (addon.name_any(), management.uid().unwrap_or_default());
    addon.owner_references().iter().any(|it| {
        it.api_version.split('/').next() == Some(ClusterManagementAddOn::GROUP)
            && it.kind == ClusterManagementAddOn::KIND
            && it.name == name
            && it.uid == uid
    })
}

/// The owner reference of what belongs to a ManagedClusterAddOn, without being controlled by it.
pub fn owned_by(addon: &ManagedClusterAddOn) -> OwnerReference {
    OwnerReference {
        // As upstream's managers write it today.
        api_version: ocm_api::addon::v1beta1::ManagedClusterAddOn::API_VERSION.to_owned(),
        kind: ManagedClusterAddOn::KIND.to_owned(),
        name: addon.name_any(),
        uid: addon.uid().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

// Nothing of them is copied from the ManagedClusterAddOn: what all clusters share must not go because of what one says.
pub(super) fn owners(addon: &ManagedClusterAddOn, management: &ClusterManagementAddOn) -> Owners {
    Owners {
        addon: owned_by(addon),
        management: OwnerReference {
            api_version: ocm_api::addon::v1beta1::ClusterManagementAddOn::API_VERSION.to_owned(),
            kind: ClusterManagementAddOn::KIND.to_owned(),
            name: management.name_any(),
            uid: management.uid().unwrap_or_default(),
            block_owner_deletion: Some(true),
            controller: None,
        },
    }
}
