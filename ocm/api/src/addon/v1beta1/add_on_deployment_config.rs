//! AddOnDeploymentConfig: how an add-on's agent is deployed.

use crate::addon::AddOnDeploymentConfigSpec;

crate::kind::kind! {
    /// How the agents of add-ons are deployed: variables, nodes, images, proxy, namespace and resources.
    pub struct AddOnDeploymentConfig { spec: AddOnDeploymentConfigSpec }
    api "addon.open-cluster-management.io" "v1beta1" "addondeploymentconfigs" Namespaced;
    short [];
    columns [];
    flags [spec_required];
}
