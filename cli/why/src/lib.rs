//! Why an object is not where its owner wants it: plain functions from what was seen to sentences, in the order in
//! which the things have to happen. Where a reconciler of the hub decides it, its own plan is asked, and its notes are
//! told. Works have their sentences in `work::why`. No sentence means that it waits for nothing.

mod add_on_kinds;
pub mod cluster_management_add_on;
pub mod cluster_manager;
pub mod cluster_set;
pub mod csr;
pub mod installed;
pub mod klusterlet;
pub mod managed_cluster;
pub mod managed_cluster_add_on;
pub mod manifest_work_replica_set;
pub mod object;
pub mod placement;
pub mod policy;
pub mod subscription;
pub mod workload;

use anyhow::{Result, anyhow};
use client::{conditions, connect::ApiServer, kinds};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Api, api::ListParams};
use ocm_api::{
    Status,
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    work::ManifestWork,
};

use ocm_reconcile::Note;

use crate::object::ObjectRef;

/// What `object` waits for, one sentence for each thing.
///
/// # Errors
/// When it is not there, or the hub cannot be asked.
pub async fn sentences(hub: &ApiServer, object: &ObjectRef) -> Result<Vec<String>> {
    Ok(match object {
        ObjectRef::ManagedCluster(name) => managed_cluster::waits_for(name, &observe_cluster(hub, name).await?),
        ObjectRef::ClusterManagementAddOn(name) => {
            let offered = Api::<ClusterManagementAddOn>::all(hub.client.clone())
                .get_opt(name)
                .await;
            let offered = offered.map_err(|error| hub.explain(&format!("could not get add-on {name}"), &error))?;
            let offered = offered
                .ok_or_else(|| anyhow!("the hub offers no add-on {name}; `drover addon list` lists those it does"))?;
            let named = ListParams::default().fields(&format!("metadata.name={name}"));
            let installed = Api::<ManagedClusterAddOn>::all(hub.client.clone()).list(&named).await;
            let installed = installed.map_err(|error| hub.explain("could not list the add-on's clusters", &error))?;
            cluster_management_add_on::waits_for(&offered, &installed.items)
        }
        ObjectRef::ManagedClusterAddOn { cluster, name } => {
            managed_cluster_add_on::waits_for(hub, cluster, name).await?
        }
        ObjectRef::ManifestWork { cluster, name } => {
            let works: Api<ManifestWork> = Api::namespaced(hub.client.clone(), cluster);
            let work = works.get_opt(name).await;
            let work = work.map_err(|error| hub.explain(&format!("could not get work {name}"), &error))?;
            let work = work.ok_or_else(|| anyhow!("there is no work {name} in the namespace of cluster {cluster}"))?;
            why_work(&work, cluster, &observe_cluster(hub, cluster).await?)
        }
        ObjectRef::Placement {
            name,
            namespace,
            cluster,
        } => placement::sentences(hub, namespace, name, cluster.as_deref()).await?,
        ObjectRef::ManagedClusterSet(name) => cluster_set::of_set(hub, name).await?,
        ObjectRef::ManagedClusterSetBinding { namespace, name } => {
            cluster_set::of_binding(hub, namespace, name).await?
        }
        ObjectRef::ManifestWorkReplicaSet {
            name,
            namespace,
            cluster,
        } => {
            let namespace = namespace.as_deref().unwrap_or("default");
            manifest_work_replica_set::sentences(hub, namespace, name, cluster.as_deref()).await?
        }
        ObjectRef::ManagedServiceAccount { cluster, name } => add_on_kinds::of_account(hub, cluster, name).await?,
        ObjectRef::ClusterPermission { cluster, name } => add_on_kinds::of_permission(hub, cluster, name).await?,
        ObjectRef::ManagedProxyConfiguration(name) => add_on_kinds::of_configuration(hub, name).await?,
        ObjectRef::ClusterManager(name) => cluster_manager::sentences(hub, name).await?,
        ObjectRef::Klusterlet(name) => klusterlet::sentences(hub, name).await?,
        ObjectRef::Policy { namespace, name } => policy::sentences(hub, namespace, name).await?,
        ObjectRef::Subscription { namespace, name } => subscription::sentences(hub, namespace, name).await?,
        ObjectRef::Csr(name) => {
            let csrs: Api<CertificateSigningRequest> = Api::all(hub.client.clone());
            let csr = csrs.get(name).await;
            let csr = csr.map_err(|error| hub.explain(&format!("could not get CSR {name}"), &error))?;
            csr::waits_for(&csr)
        }
    })
}

/// A note of a plan as a sentence.
fn note(note: &Note) -> String {
    let (Note::Wait(text) | Note::Refuse(text) | Note::Remark(text)) = note;
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|it| it.to_uppercase().to_string())
        .unwrap_or_default();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}

/// What the work waits for, and what the cluster waits for that the work needs.
fn why_work(work: &ManifestWork, cluster: &str, seen: &managed_cluster::Seen) -> Vec<String> {
    let available = seen.cluster.as_ref().map(|it| {
        match conditions::of(it, ocm_api::conditions::managed_cluster::AVAILABLE).map(|it| it.status) {
            Some("True") => Status::True,
            Some("False") => Status::False,
            _ => Status::Unknown,
        }
    });
    let mut sentences = work::why::sentences(work, available, seen.now);
    if available.is_some_and(|it| it != Status::True) {
        sentences.extend(managed_cluster::waits_for(cluster, seen));
    }
    sentences
}

/// Everything on the hub that a cluster's progress depends on.
async fn observe_cluster(hub: &ApiServer, name: &str) -> Result<managed_cluster::Seen> {
    let doing = |what: &str| format!("could not get the {what} of cluster {name}");
    let cluster = hub.all(&kinds::managed_cluster()).get_opt(name).await;
    let csrs: Api<CertificateSigningRequest> = Api::all(hub.client.clone());
    let selector = format!("{}={name},!{}", kinds::CLUSTER_NAME_LABEL, kinds::ADDON_NAME_LABEL);
    let csrs = csrs.list(&ListParams::default().labels(&selector)).await;
    let lease = hub
        .namespaced(&kinds::lease(), name)
        .get_opt("managed-cluster-lease")
        .await;
    let namespace = hub.all(&kinds::namespace()).get_opt(name).await;
    Ok(managed_cluster::Seen {
        cluster: cluster.map_err(|error| hub.explain(&doing("state"), &error))?,
        csrs: csrs
            .map_err(|error| hub.explain(&doing("certificate requests"), &error))?
            .items,
        lease: lease.map_err(|error| hub.explain(&doing("lease"), &error))?,
        namespace: namespace.map_err(|error| hub.explain(&doing("namespace"), &error))?,
        now: Timestamp::now(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_of_a_plan_is_told_as_a_sentence() {
        assert_eq!(note(&Note::Wait("c1 waits for us".to_owned())), "C1 waits for us.");
        assert_eq!(note(&Note::Refuse("It is not ours.".to_owned())), "It is not ours.");
    }
}
