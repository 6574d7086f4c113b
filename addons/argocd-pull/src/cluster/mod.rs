//! What runs on a cluster that a GitOpsCluster has chosen: the operator of Argo CD is installed there, the agent of
//! Argo CD gets the certificate that it speaks to the hub with, and the operator is taken away with the add-on.
//!
//! ```text
//! mode addon     installation ---> kinds, namespaces, ServiceAccount, roles and Deployment of the operator
//!                certificate ----> Secret of the agent; the agent starts anew with it
//!                     ^
//!                     | both stand still while it says so
//!                ConfigMap argocd-agent-addon-pause
//!                     ^
//! mode cleanup   -----+----------> the ArgoCD, then the operator
//! ```
//!
//! Upstream: argocd-pull-integration `internal/addon`, which does all of it at intervals. Ours looks when something of
//! it changes; the interval is a safety net.

pub mod certificate;
pub mod cleanup;
pub mod installation;
pub mod kinds;
pub mod operator;
pub mod pause;
pub mod roles;

use std::{collections::BTreeMap, time::Duration};

use ocm_addon_sdk::{
    kube::Client,
    reconcile::{Caches, Controller},
};

/// The namespace of the add-on itself.
pub const ADD_ON_NAMESPACE: &str = "open-cluster-management-agent-addon";
/// Label on all that is installed, and its value.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "argocd-agent-addon");
/// Annotation on what is to be left as it is.
pub const SKIP: &str = "argocd-addon.open-cluster-management.io/skip";
/// The image of the operator where nobody has said another.
pub const OPERATOR_IMAGE: &str = "quay.io/argoprojlabs/argocd-operator:v0.18.0";

/// Every key of the reconcilers here: there is one operator on a cluster.
const KEY: &str = "argocd-operator";

/// Where things are on the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgoNamespaces {
    /// The namespace of the operator.
    pub operator: String,
    /// The namespace of Argo CD and its agent.
    pub argo_cd: String,
}

impl Default for ArgoNamespaces {
    fn default() -> Self {
        Self {
            operator: "argocd-operator-system".to_owned(),
            argo_cd: "argocd".to_owned(),
        }
    }
}

impl ArgoNamespaces {
    /// As `$ARGOCD_OPERATOR_NAMESPACE` and `$ARGOCD_NAMESPACE` say. One that is empty or missing is the default.
    pub fn said(variable: impl Fn(&str) -> Option<String>) -> Self {
        let said = |name: &str, default: String| variable(name).filter(|it| !it.is_empty()).unwrap_or(default);
        let default = Self::default();
        Self {
            operator: said("ARGOCD_OPERATOR_NAMESPACE", default.operator),
            argo_cd: said("ARGOCD_NAMESPACE", default.argo_cd),
        }
    }
}

/// What mode addon is told.
#[derive(Clone, Debug)]
pub struct ArgoOperatorSettings {
    /// Where things are.
    pub namespaces: ArgoNamespaces,
    /// The image of the operator.
    pub operator_image: String,
    /// How often everything is looked at even if nothing happens.
    pub sync_interval: Duration,
}

/// What mode addon runs.
pub fn controllers(client: &Client, caches: &Caches, settings: &ArgoOperatorSettings) -> Vec<Controller> {
    vec![
        Controller::new(installation::OperatorInstallation::new(client, caches, settings)),
        Controller::new(certificate::AgentCertificate::new(client, caches, settings)),
    ]
}

/// The label on all that is installed, as a selector.
fn selector() -> String {
    format!("{}={}", MANAGED_BY.0, MANAGED_BY.1)
}

/// Whether the annotations of an object say that it is to be left as it is.
fn is_skipped(annotations: &BTreeMap<String, String>) -> bool {
    annotations.get(SKIP).is_some_and(|it| it == "true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_those_of_variables_that_say_something() {
        assert_eq!(ArgoNamespaces::said(|_| None), ArgoNamespaces::default());
        assert_eq!(ArgoNamespaces::said(|_| Some(String::new())), ArgoNamespaces::default());
        let said = ArgoNamespaces::said(|name| Some(name.to_lowercase()));
        assert_eq!(said.operator, "argocd_operator_namespace");
        assert_eq!(said.argo_cd, "argocd_namespace");
    }
}
