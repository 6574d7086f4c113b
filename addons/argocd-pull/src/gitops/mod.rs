//! GitOpsClusters: the clusters of a Placement get an agent of Argo CD that speaks to a principal on the hub.
//!
//! ```text
//! GitOpsCluster --> Role, Secrets with key and certificates, AddOnTemplate          on the hub, once
//!       |
//!   Placement ----> Secrets for Argo CD, ManifestWorks (authority, ArgoCD),         for each cluster
//!                   AddOnDeploymentConfig, ManagedClusterAddOn
//! ```
//!
//! `reconciler` sees and writes, `steps` says what is to be written and which condition it is, and the other files are
//! plain functions for one kind of object each.

pub mod argo_cd;
pub mod certificates;
pub mod clusters;
pub mod discovery;
pub mod reconciler;
pub mod steps;
pub mod template;

use std::collections::BTreeMap;

use ocm_addon_sdk::{
    k8s_openapi::{ByteString, api::core::v1::Secret},
    reconcile::{Caches, Controller},
};

/// What an administrator chooses.
#[derive(Clone, Debug, Default)]
pub struct GitOpsSettings {
    /// The image of the agents' controller, `$CONTROLLER_IMAGE`.
    pub controller_image: Option<String>,
    /// The image of Argo CD's operator on clusters, `$ARGOCD_OPERATOR_IMAGE`, where it is not the usual one.
    pub operator_image: Option<String>,
}

/// What a hub process runs in itself.
pub fn controllers(caches: &Caches, settings: &GitOpsSettings) -> Vec<Controller> {
    vec![Controller::new(reconciler::GitOpsClusters::new(caches, settings))]
}

/// The add-on that clusters get.
pub const ADD_ON: &str = "argocd-agent-addon";
/// The Secret with the authority, on the hub and on clusters.
pub const AUTHORITY: &str = "argocd-agent-ca";
/// The cluster that is the hub itself.
pub const LOCAL_CLUSTER: &str = "local-cluster";
/// Label on all that is ours, and its value.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "argocd-pull-integration");
/// Label on the same: which part it is.
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// Label on the ManifestWorks.
pub const OF_GITOPS_CLUSTER: &str = "apps.open-cluster-management.io/gitopscluster";

/// Labels of a part of ours.
pub(crate) fn labels(component: &str) -> BTreeMap<String, String> {
    [MANAGED_BY, (COMPONENT, component)]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// A value of a Secret; empty where it is not there.
pub(crate) fn value<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    let found = secret.data.as_ref().and_then(|it| it.get(key));
    found.map(|it| it.0.as_slice()).unwrap_or_default()
}

/// Data of a Secret.
pub(crate) fn data<const N: usize>(pairs: [(&str, Vec<u8>); N]) -> BTreeMap<String, ByteString> {
    pairs
        .into_iter()
        .map(|(key, it)| (key.to_owned(), ByteString(it)))
        .collect()
}
