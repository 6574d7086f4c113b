//! Which product of Kubernetes a cluster is, for charts that differ by it.
//! Upstream: governance-policy-addon-controller `pkg/addon/common.go`, `GetClusterVendor`.

use ocm_api::cluster::ManagedCluster;

use super::{Values, at, merge};
use crate::{AddOnContext, Mode};

/// The product whose clusters have a Prometheus by default.
const OPENSHIFT: &str = "OpenShift";
const CLAIM: &str = "product.open-cluster-management.io";
const LABEL: &str = "vendor";

/// The product that a cluster says it is, by its claim `product.open-cluster-management.io`; without one its label
/// `vendor` may say OpenShift. Empty when nobody says.
pub fn of(cluster: &ManagedCluster) -> String {
    let claims = cluster.status.iter().flat_map(|it| &it.cluster_claims);
    let mut claims = claims.filter(|it| it.name == CLAIM);
    let labelled = || {
        let labels = cluster.metadata.labels.as_ref();
        let label = labels.and_then(|it| it.get(LABEL)).filter(|it| *it == OPENSHIFT);
        label.cloned().unwrap_or_default()
    };
    claims.next().map_or_else(labelled, |it| it.value.clone())
}

/// For charts: `kubernetesDistribution` of the cluster, `hostingKubernetesDistribution` of the one that the agent runs
/// on, and `prometheus.enabled` where that is OpenShift.
///
/// ```
/// use ocm_addon_sdk::{AddOnContext, values::distribution};
///
/// let values = distribution::values(&AddOnContext::new("cluster1", "greeter"));
/// assert_eq!(values["prometheus"]["enabled"], false);
/// ```
pub fn values(place: &AddOnContext) -> Values {
    let of_agent = match &place.mode {
        Mode::Default => of(&place.cluster),
        Mode::Hosted(hosting) => hosting.cluster.as_deref().map(of).unwrap_or_default(),
    };
    merge([
        at("kubernetesDistribution", of(&place.cluster)),
        at("hostingKubernetesDistribution", of_agent.as_str()),
        at("prometheus.enabled", of_agent == OPENSHIFT),
    ])
}

/// Whether a cluster says that it is another product than before.
pub fn differ(before: &ManagedCluster, after: &ManagedCluster) -> bool {
    of(before) != of(after)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_counts_over_a_label_that_says_openshift() {
        let cluster = |label: &str, claim: Option<&str>| -> ManagedCluster {
            let claims: Vec<_> = claim.iter().map(|it| json!({"name": CLAIM, "value": it})).collect();
            serde_json::from_value(json!({
                "metadata": {"name": "c1", "labels": {LABEL: label}}, "spec": {}, "status": {"clusterClaims": claims},
            }))
            .unwrap()
        };
        assert_eq!(of(&cluster("OpenShift", None)), "OpenShift");
        assert_eq!(of(&cluster("auto-detect", None)), "");
        assert_eq!(of(&cluster("OpenShift", Some("EKS"))), "EKS");
        assert!(differ(&cluster("OpenShift", None), &cluster("", None)));
    }
}
