//! Making our ManagedCluster known to the hub.
//!
//! Root: our ManagedCluster. Reads: it. Writes: creates it; adds client configs that it lacks. Never: accepts itself.
//! Upstream: ocm `pkg/registration/spoke/registration/creating_controller.go`.

use std::{sync::Arc, time::Duration};

use kube::Api;
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::{Caches, Note, ObserveError, Outcome, Plan, Reconciler, Site, Watches, async_trait, rbac::Right};
use rand::RngExt;

use super::{
    drive::RegistrationAgent,
    enrolment::{JoinProgress, ReportProgress},
    own_cluster, permissions,
};
use crate::api_reader::ApiReader;

/// The reconciler.
pub(super) struct Joining {
    agent: Arc<RegistrationAgent>,
    hub: ApiReader,
    report: ReportProgress,
}

/// What a plan is made from.
pub(super) struct Seen {
    /// The cluster as it should be created.
    pub desired: ManagedCluster,
    /// What the hub says about it.
    pub found: OnHub,
    /// When to look again.
    pub again: Duration,
}

/// What the hub says.
pub(super) enum OnHub {
    /// Nothing, because we may not ask.
    Forbidden,
    /// There is none.
    Missing,
    /// This one.
    Present(Box<ManagedCluster>),
}

impl Joining {
    /// Asks the hub behind these, and tells what stands in the way. It may not be let look, and watches nothing.
    pub fn new(agent: &Arc<RegistrationAgent>, hub: &Caches, report: ReportProgress) -> Self {
        Self {
            agent: agent.clone(),
            hub: ApiReader::of(hub),
            report,
        }
    }
}

#[async_trait]
impl Reconciler for Joining {
    const NAME: &'static str = "managed-cluster-creating";
    const RIGHTS: &'static [Right] = &[
        permissions::OWN_CLUSTER,
        Right::new(
            ManagedCluster::GROUP,
            "managedclusters",
            "create",
            "On the hub: our cluster, unless it is there.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let cluster = self.agent.cluster.clone();
        watches.signal("the start", |queue| queue.add(cluster));
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let found = match Api::<ManagedCluster>::all(self.hub.client()?.clone())
            .get_opt(name)
            .await
        {
            Ok(Some(cluster)) => OnHub::Present(Box::new(cluster)),
            Ok(None) => OnHub::Missing,
            Err(kube::Error::Api(status)) if status.code == 401 || status.code == 403 => OnHub::Forbidden,
            Err(error) => return Err(error.into()),
        };
        let again = self
            .agent
            .options
            .intervals
            .creation
            .mul_f64(rand::rng().random_range(1.0..2.0));
        Ok(Seen {
            desired: own_cluster::desired(&self.agent),
            found,
            again,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = match &seen.found {
            OnHub::Forbidden => Plan::only(Note::Remark(
                "the hub does not let us look at ManagedClusters".to_owned(),
            )),
            OnHub::Missing => {
                let mut plan = Plan::new();
                plan.create(Site::Hub, &seen.desired);
                plan
            }
            // A cluster that has joined has an agent. Until the hub has taken us for it,
            // we may be another with the same name.
            OnHub::Present(cluster) if own_cluster::has_joined(cluster) => Plan::only(Note::Remark(
                "the cluster has joined before: its client configs are left alone".to_owned(),
            )),
            OnHub::Present(cluster) => own_cluster::add_client_configs(cluster, &seen.desired),
        };
        plan.look_again(seen.again);
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        if !outcome.succeeded() {
            (self.report)(JoinProgress::Hindrance(outcome.error_text()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(found: Option<Value>, wanted: Value, printed: &str) {
        let found = match found {
            Some(cluster) => OnHub::Present(serde_json::from_value(cluster).unwrap()),
            None => OnHub::Missing,
        };
        let seen = Seen {
            desired: serde_json::from_value(wanted).unwrap(),
            found,
            again: Duration::from_secs(3600),
        };
        assert_eq!(format!("{:#}", Joining::plan(&seen)).trim(), printed);
    }

    #[test]
    fn a_missing_cluster_is_created_and_not_accepted() {
        check(
            None,
            json!({"metadata": {"name": "cluster1"}, "spec": {"leaseDurationSeconds": 60}}),
            "hub: create ManagedCluster cluster1 {\"spec\":{\"hubAcceptsClient\":false,\"leaseDurationSeconds\":60}}\n\
             again in 3600s",
        );
    }

    #[test]
    fn a_present_cluster_only_gains_client_configs() {
        let present = json!({"metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": true}});
        check(
            Some(present.clone()),
            json!({"metadata": {"name": "cluster1"}, "spec": {}}),
            "nothing to do\nagain in 3600s",
        );
        let wanted = json!({"metadata": {"name": "cluster1"},
            "spec": {"managedClusterClientConfigs": [{"url": "https://here"}]}});
        let mut joined = present.clone();
        joined["status"] = json!({"conditions": [{"type": "ManagedClusterJoined", "status": "True", "reason": "", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        check(
            Some(joined),
            wanted.clone(),
            "nothing to do\nnote: the cluster has joined before: its client configs are left alone\nagain in 3600s",
        );
        check(
            Some(present),
            wanted,
            "hub: replace ManagedCluster cluster1 {\"spec\":{\"hubAcceptsClient\":true,\
             \"managedClusterClientConfigs\":[{\"url\":\"https://here\"}]}}\nagain in 3600s",
        );
    }
}
