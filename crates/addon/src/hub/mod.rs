//! The hub's half: installing add-ons, giving them their configurations, and saying how far that got.

/// Whether the controllers of this crate look after an add-on, by the annotation `lifecycle` of its ClusterManagementAddOn:
/// absent or `addon-manager`. Anything else, even an empty text, means that its own manager does.
pub fn is_managed(addon: &ocm_api::addon::v1alpha1::ClusterManagementAddOn) -> bool {
    let annotations = addon.metadata.annotations.as_ref();
    annotations
        .and_then(|it| it.get(ocm_api::annotations::ADDON_LIFECYCLE))
        .is_none_or(|it| it == "addon-manager")
}
