//! Namespaces that the cluster's sets want on it.
//! Upstream: ocm `pkg/registration/spoke/managedcluster/namespace_reconcile.go`.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::Namespace;
use kube::{ResourceExt, api::ObjectMeta};
use ocm_api::{cluster::ManagedCluster, labels};
use ocm_reconcile::{Plan, Site};
use sha2::{Digest, Sha256};

/// The label that marks a namespace as wanted by this hub: a hash of its address, cut to what a label can hold.
pub(super) fn label(server: &str) -> String {
    let hash: String = Sha256::digest(server.as_bytes())
        .iter()
        .map(|it| format!("{it:02x}"))
        .collect();
    format!("{}{}", labels::MANAGED_NAMESPACE_PREFIX, &hash[..63])
}

/// The names of all namespaces the hub wants.
pub(super) fn wanted(cluster: &ManagedCluster) -> Vec<String> {
    let listed = cluster
        .status
        .iter()
        .flat_map(|it| &it.managed_namespaces)
        .map(|it| it.name.clone());
    let mut names: Vec<_> = listed.collect();
    names.sort();
    names.dedup();
    names
}

/// Creates and labels what is wanted, and marks what is no longer: namespaces are never deleted.
pub(super) fn plan(plan: &mut Plan, cluster: &ManagedCluster, label: &str, present: &BTreeMap<String, Arc<Namespace>>) {
    let wanted = if cluster.metadata.deletion_timestamp.is_some() {
        Vec::new()
    } else {
        wanted(cluster)
    };
    for name in &wanted {
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            labels: Some([(label.to_owned(), "true".to_owned())].into()),
            ..ObjectMeta::default()
        };
        let desired = Namespace {
            metadata,
            ..Namespace::default()
        };
        plan.keep(Site::Cluster, present.get(name).map(|it| &**it), &desired);
    }
    for (_, namespace) in present.iter().filter(|(name, _)| !wanted.contains(name)) {
        if namespace.labels().get(label).is_some_and(|it| it == "true") {
            let mut released = (**namespace).clone();
            released.labels_mut().insert(label.to_owned(), "false".to_owned());
            plan.change(Site::Cluster, &**namespace, &released);
        }
    }
}
