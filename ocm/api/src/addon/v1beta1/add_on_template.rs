//! AddOnTemplate: an add-on made of a template alone.

use crate::addon::AddOnTemplateSpec;

crate::kind::kind! {
    /// An add-on that needs no manager of its own: a work with variables for every cluster,
    /// and what its agent may do on the hub.
    pub struct AddOnTemplate { spec: AddOnTemplateSpec }
    api "addon.open-cluster-management.io" "v1beta1" "addontemplates" Cluster;
    short [];
    columns [("ADDON NAME", "string", ".spec.addonName")];
    flags [spec_required];
}
