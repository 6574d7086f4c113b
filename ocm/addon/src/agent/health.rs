//! What the lease of an add-on's agent says about its health. Plain functions: the caller brings time and lease.
//! Upstream: ocm `pkg/registration/spoke/addon/lease_controller.go`, which looks every 30 s; here whoever asks is told
//! when the answer will be another one.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use ocm_api::{
    addon::{HealthCheckMode, v1alpha1::ManagedClusterAddOn},
    cluster::ManagedCluster,
    condition::{self, ConditionUpdate, Status, wanted},
    conditions::{
        managed_cluster,
        managed_cluster_add_on::{self, agent_reason as reason},
    },
};

use super::location::AgentLocation;

/// How long an add-on is new: nothing is said of a lease that it cannot have yet.
pub const NEW: Duration = Duration::from_secs(3);

/// Whether the hub knows nothing of the cluster at present.
pub fn is_unknown(cluster: &ManagedCluster) -> bool {
    let conditions = cluster.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::status(conditions, managed_cluster::AVAILABLE) == Some(Status::Unknown)
}

/// Whether it is the lease that says how an add-on is: not where its manager says so, nor while the hub says of the
/// whole cluster that nobody knows.
pub fn is_by_lease(addon: &ManagedClusterAddOn, cluster: Option<&ManagedCluster>) -> bool {
    let mode = addon.status.as_ref().map(|it| it.health_check.mode).unwrap_or_default();
    mode != HealthCheckMode::Customized && !cluster.is_some_and(is_unknown)
}

/// Whether an add-on was made a moment ago, so that no agent of it can have a lease yet and nobody has said anything of
/// its health. Clocks differ: one that seems to be made in the future is not new for ever.
pub fn is_new(addon: &ManagedClusterAddOn, now: Timestamp) -> bool {
    let made = addon.metadata.creation_timestamp.as_ref();
    let age = made.map(|it| now.duration_since(it.0).unsigned_abs());
    let conditions = addon.status.as_ref().map_or(&[][..], |it| &it.conditions);
    age.is_some_and(|it| it < NEW) && condition::find(conditions, managed_cluster_add_on::AVAILABLE).is_none()
}

/// The condition, and when to look again though nothing has happened. An agent that has not renewed its lease for
/// `grace` is not available.
pub fn available(
    addon: &str,
    location: &AgentLocation,
    lease: Option<&Lease>,
    grace: Duration,
    now: Timestamp,
) -> (ConditionUpdate, Option<Duration>) {
    let say = |status: Status, reason: &str, message: String| {
        wanted(managed_cluster_add_on::AVAILABLE, status, reason, message)
    };
    let Some(lease) = lease else {
        let mut message = format!("The status of {addon} add-on is unknown.");
        if let Some(host) = &location.hosted_by {
            message.push_str(&format!(
                " No lease found on hosting cluster \"{host}\"; verify it matches the cluster where this managed cluster's \
                 klusterlet actually runs."
            ));
        }
        return (say(Status::Unknown, reason::LEASE_NOT_FOUND, message), None);
    };
    // A lease that was never renewed was not renewed in time.
    let renewed = lease.spec.as_ref().and_then(|it| it.renew_time.as_ref());
    let left = renewed
        .map(|it| it.0.checked_add(grace).unwrap_or(Timestamp::MAX))
        .map(|deadline| deadline.duration_since(now))
        .filter(|left| left.is_positive());
    match left {
        Some(left) => (
            say(
                Status::True,
                reason::LEASE_UPDATED,
                format!("{addon} add-on is available."),
            ),
            Some(left.unsigned_abs()),
        ),
        None => (
            say(
                Status::False,
                reason::LEASE_UPDATE_STOPPED,
                format!("{addon} add-on is not available."),
            ),
            None,
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const HERE: AgentLocation = AgentLocation {
        namespace: String::new(),
        hosted_by: None,
    };

    fn told(location: &AgentLocation, renewed: Option<&str>) -> (String, Option<Duration>) {
        let lease = renewed.map(|at| serde_json::from_value(json!({"spec": {"renewTime": at}})).unwrap());
        let now = "2026-01-02T03:10:00Z".parse().unwrap();
        let (it, again) = available("helloworld", location, lease.as_ref(), Duration::from_secs(300), now);
        (format!("{}({}): {}", it.status, it.reason, it.message), again)
    }

    #[test]
    fn an_agent_is_available_for_five_minutes_after_a_renewal() {
        let (said, again) = told(&HERE, Some("2026-01-02T03:06:00.000000Z"));
        assert_eq!(
            said,
            "True(ManagedClusterAddOnLeaseUpdated): helloworld add-on is available."
        );
        assert_eq!(again, Some(Duration::from_secs(60)));
        let (said, again) = told(&HERE, Some("2026-01-02T03:05:00.000000Z"));
        assert_eq!(
            said,
            "False(ManagedClusterAddOnLeaseUpdateStopped): helloworld add-on is not available."
        );
        assert_eq!(again, None);
        // The clock of an agent may show any time, the last one included.
        let (said, again) = told(&HERE, Some("9999-12-30T21:59:59.000000Z"));
        assert!(said.starts_with("True(ManagedClusterAddOnLeaseUpdated)") && again.is_some());
    }

    #[test]
    fn a_missing_lease_means_unknown_and_names_the_hosting_cluster() {
        let (said, _) = told(&HERE, None);
        assert_eq!(
            said,
            "Unknown(ManagedClusterAddOnLeaseNotFound): The status of helloworld add-on is unknown."
        );
        let hosted = AgentLocation {
            hosted_by: Some("host".to_owned()),
            ..HERE
        };
        let (said, _) = told(&hosted, None);
        assert!(
            said.ends_with(
                "unknown. No lease found on hosting cluster \"host\"; verify it matches the cluster where this managed \
                 cluster's klusterlet actually runs."
            ),
            "{said}"
        );
    }
}
