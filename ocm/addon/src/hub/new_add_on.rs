//! The add-on on a cluster as its placements have it made, and whether the cluster is ready for it.

use kube::api::ObjectMeta;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn, ManagedClusterAddOnSpec},
    cluster::ManagedCluster,
    condition,
    conditions::managed_cluster,
};
use ocm_reconcile::{Outcome, StepError};

use super::{inherited, owner};

/// The add-on on a cluster that was chosen.
pub fn new_add_on(offer: &ClusterManagementAddOn, cluster: &ManagedCluster) -> ManagedClusterAddOn {
    let mut addon = ManagedClusterAddOn {
        metadata: ObjectMeta {
            name: offer.metadata.name.clone(),
            namespace: cluster.metadata.name.clone(),
            owner_references: Some(vec![owner::reference(offer)]),
            ..ObjectMeta::default()
        },
        spec: ManagedClusterAddOnSpec::default(),
        status: None,
    };
    inherited::hand_over(cluster, &mut addon);
    addon
}

/// Whether the hub has accepted a cluster, and so made its namespace.
pub fn is_accepted(cluster: &ManagedCluster) -> bool {
    let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::is_true(conditions, managed_cluster::HUB_ACCEPTED)
}

/// Whether steps failed, and each because its cluster has no namespace yet.
pub fn lacks_namespaces(outcome: &Outcome) -> bool {
    !outcome.succeeded() && outcome.errors().all(|(_, error)| lacks_namespace(error))
}

fn lacks_namespace(error: &StepError) -> bool {
    let StepError::Kube(kube::Error::Api(status)) = error else {
        return false;
    };
    let of = status.details.as_ref().map(|it| it.kind.as_str());
    status.code == 404 && of == Some("namespaces")
}
