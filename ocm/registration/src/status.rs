//! What we say about a ManagedCluster.

use jiff::Timestamp;
use ocm_api::{
    Condition,
    cluster::ManagedCluster,
    condition::{self, ConditionUpdate},
};
use serde_json::{Value, json};

/// The conditions of a cluster; none when nothing was said yet.
pub fn conditions(cluster: &ManagedCluster) -> &[Condition] {
    cluster.status.as_ref().map_or(&[], |it| &it.conditions)
}

/// The cluster with this said about it.
pub fn saying(cluster: &ManagedCluster, wanted: ConditionUpdate, now: Timestamp) -> ManagedCluster {
    let mut cluster = cluster.clone();
    condition::set(&mut cluster.status.get_or_insert_default().conditions, wanted, now);
    cluster
}

/// What an event about a cluster refers to. The API server wants an event to be in the namespace of what it is about,
/// so that a cluster, which has none, is said to be in its own.
pub fn regarding(cluster: &ManagedCluster) -> Value {
    json!({
        "apiVersion": ManagedCluster::API_VERSION,
        "kind": ManagedCluster::KIND,
        "name": cluster.metadata.name,
        "namespace": cluster.metadata.name,
        "uid": cluster.metadata.uid,
    })
}
