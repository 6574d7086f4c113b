//! The add-on on a cluster as its placements have it made, and whether the cluster is ready for it.

use std::time::Duration;

use kube::api::ObjectMeta;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn, ManagedClusterAddOnSpec},
    cluster::ManagedCluster,
    condition,
    conditions::managed_cluster,
};
use ocm_reconcile::{Outcome, Plan, Site, StepError};

use super::{inherited, owner};

/// How soon to look again for the namespace of a cluster that is chosen before it is accepted. The watch of the cluster
/// tells when it is; somebody may also make the namespace by hand.
pub const NAMESPACE_AGAIN: Duration = Duration::from_secs(5);

/// Plans that the add-on is made on a cluster that was chosen, or says why it cannot be yet.
pub fn install(plan: &mut Plan, offer: &ClusterManagementAddOn, name: &str, cluster: Option<&ManagedCluster>) {
    match cluster {
        Some(it) if it.metadata.deletion_timestamp.is_none() => {
            plan.create(Site::Hub, &new_add_on(offer, it));
        }
        Some(_) => {
            plan.wait(format!("cluster {name} is being deleted"));
        }
        None => {
            plan.wait(format!("there is no cluster {name}"));
        }
    }
}

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
