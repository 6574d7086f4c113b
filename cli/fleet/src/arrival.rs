//! How far a cluster has come, in the words of `drover up`: joined, accepted, available.

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use ocm_api::{cluster::ManagedCluster, condition, conditions::managed_cluster as conditions};

/// Whether the cluster's agent has registered it.
pub fn is_joined(cluster: Option<&ManagedCluster>) -> bool {
    cluster.is_some_and(|it| it.metadata.deletion_timestamp.is_none())
}

/// Whether the hub has let it in and made its namespace and permissions.
pub fn is_accepted(cluster: &ManagedCluster) -> bool {
    cluster.spec.hub_accepts_client && holds(cluster, conditions::HUB_ACCEPTED)
}

/// Whether an administrator has put it out again.
pub fn is_denied(cluster: &ManagedCluster) -> bool {
    let told = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    let accepted = condition::find(told, conditions::HUB_ACCEPTED);
    !cluster.spec.hub_accepts_client && accepted.is_some_and(|it| it.status == "False")
}

/// Whether it is available, and said so to this process: what an earlier one left behind does not count.
pub fn is_available(cluster: &ManagedCluster, lease: Option<&Lease>, since: Timestamp) -> bool {
    let renewed = lease
        .and_then(|it| it.spec.as_ref()?.renew_time.as_ref())
        .map(|it| it.0);
    holds(cluster, conditions::JOINED) && holds(cluster, conditions::AVAILABLE) && renewed.is_some_and(|it| it >= since)
}

fn holds(cluster: &ManagedCluster, kind: &str) -> bool {
    cluster
        .status
        .as_ref()
        .is_some_and(|it| condition::is_true(&it.conditions, kind))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(conditions: &[&str]) -> ManagedCluster {
        let conditions: Vec<_> = conditions
            .iter()
            .map(|kind| {
                json!({"type": kind, "status": "True", "reason": "A", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": true}, "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn only_a_cluster_that_lost_its_acceptance_is_denied() {
        let mut cluster = cluster(&["HubAcceptedManagedCluster"]);
        assert!(is_accepted(&cluster) && !is_denied(&cluster));
        cluster.spec.hub_accepts_client = false;
        assert!(!is_denied(&cluster), "the hub has not yet taken its permissions away");
        cluster.status.as_mut().unwrap().conditions[0].status = "False".into();
        assert!(is_denied(&cluster));
        cluster.status = None;
        assert!(!is_denied(&cluster), "nobody has decided on it");
    }

    #[test]
    fn a_cluster_with_only_an_old_lease_is_not_available() {
        let cluster = cluster(&[
            "HubAcceptedManagedCluster",
            "ManagedClusterJoined",
            "ManagedClusterConditionAvailable",
        ]);
        let lease: Lease =
            serde_json::from_value(json!({"metadata": {}, "spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}))
                .unwrap();
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(is_available(&cluster, Some(&lease), at("2025-12-31T00:00:00Z")));
        assert!(!is_available(&cluster, Some(&lease), at("2026-01-01T00:00:01Z")));
        assert!(!is_available(&cluster, None, at("2025-12-31T00:00:00Z")));
    }

    #[test]
    fn a_cluster_is_accepted_when_its_accepted_condition_is_true() {
        assert!(!is_accepted(&cluster(&[])));
        assert!(is_accepted(&cluster(&["HubAcceptedManagedCluster"])));
        assert!(!is_joined(None));
        assert!(is_joined(Some(&cluster(&[]))));
    }
}
