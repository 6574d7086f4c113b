//! Making our ManagedCluster known to the hub.
//!
//! Root: our ManagedCluster. Reads: it. Writes: creates it; adds client configs that it lacks. Never: accepts itself.
//! Upstream: ocm `pkg/registration/spoke/registration/creating_controller.go`.

use std::{sync::Arc, time::Duration};

use k8s_openapi::ByteString;
use kube::{Api, Client, ResourceExt};
use ocm_api::{
    annotations,
    cluster::{ClientConfig, ManagedCluster, ManagedClusterSpec},
    condition,
    conditions::managed_cluster,
};
use ocm_reconcile::{
    Clients, Note, ObserveError, Outcome, Plan, Queue, Reconciler, Running, Site, Step, Target, async_trait, plan,
};
use rand::RngExt;
use tokio_util::sync::CancellationToken;

use super::{
    drive::Agent,
    enrolment::{Tell, Word},
};
use crate::status;

struct Joining {
    agent: Arc<Agent>,
    hub: Client,
    tell: Tell,
}

/// What a plan is made from.
pub(super) struct Seen {
    /// The cluster as it should be created.
    pub wanted: ManagedCluster,
    /// What the hub says about it.
    pub found: Found,
    /// When to look again.
    pub again: Duration,
}

/// What the hub says.
pub(super) enum Found {
    /// Nothing, because we may not ask.
    Forbidden,
    /// There is none.
    Missing,
    /// This one.
    Present(Box<ManagedCluster>),
}

/// Starts it.
pub(super) fn start(agent: &Arc<Agent>, hub: Client, tell: Tell, stop: &CancellationToken) -> Running {
    let queue = Queue::new();
    queue.add(&agent.cluster);
    let joining = Joining {
        agent: agent.clone(),
        hub: hub.clone(),
        tell,
    };
    ocm_reconcile::spawn(joining, Clients::hub(hub), queue, 1, stop.clone())
}

/// The cluster as it should be created.
pub(super) fn wanted(agent: &Agent) -> ManagedCluster {
    let options = &agent.options;
    let client_config = |url: &String| ClientConfig {
        url: url.clone(),
        ca_bundle: options.external_ca_bundle.clone().map(ByteString),
    };
    let spec = ManagedClusterSpec {
        managed_cluster_client_configs: options.external_server_urls.iter().map(client_config).collect(),
        // A new object carries the default itself, so that it reads the same on a hub whose CRD has none.
        lease_duration_seconds: options.lease_duration_seconds.unwrap_or(60),
        ..ManagedClusterSpec::default()
    };
    let mut cluster = ManagedCluster::new(&agent.cluster, spec);
    let ours = options
        .cluster_annotations
        .iter()
        .filter(|(key, _)| key.starts_with(annotations::AGENT_PREFIX));
    let ours: std::collections::BTreeMap<_, _> = ours.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !ours.is_empty() {
        cluster.metadata.annotations = Some(ours);
    }
    cluster
}

#[async_trait]
impl Reconciler for Joining {
    const NAME: &'static str = "managed-cluster-creating";
    type Seen = Seen;

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let found = match Api::<ManagedCluster>::all(self.hub.clone()).get_opt(name).await {
            Ok(Some(cluster)) => Found::Present(Box::new(cluster)),
            Ok(None) => Found::Missing,
            Err(kube::Error::Api(status)) if status.code == 401 || status.code == 403 => Found::Forbidden,
            Err(error) => return Err(error.into()),
        };
        let again = self
            .agent
            .options
            .intervals
            .creation
            .mul_f64(rand::rng().random_range(1.0..2.0));
        Ok(Seen {
            wanted: wanted(&self.agent),
            found,
            again,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = match &seen.found {
            Found::Forbidden => Plan::only(Note::Remark(
                "the hub does not let us look at ManagedClusters".to_owned(),
            )),
            Found::Missing => {
                let mut plan = Plan::new();
                plan.create(Site::Hub, &seen.wanted);
                plan
            }
            // A cluster that has joined has an agent. Until the hub has taken us for it, we may be another with the same name.
            Found::Present(cluster) if condition::is_true(status::conditions(cluster), managed_cluster::JOINED) => {
                Plan::only(Note::Remark(
                    "the cluster has joined before: its client configs are left alone".to_owned(),
                ))
            }
            Found::Present(cluster) => add_client_configs(cluster, &seen.wanted),
        };
        plan.look_again(seen.again);
        plan
    }

    fn remember(&self, _: &Seen, outcome: &Outcome) {
        if !outcome.succeeded() {
            (self.tell)(Word::Hindrance(outcome.error_text()));
        }
    }
}

/// An update of the whole object, because agents may update their ManagedCluster but not patch it.
pub(super) fn add_client_configs(cluster: &ManagedCluster, wanted: &ManagedCluster) -> Plan {
    let mut plan = Plan::new();
    let mut new = cluster.clone();
    for config in &wanted.spec.managed_cluster_client_configs {
        if !new
            .spec
            .managed_cluster_client_configs
            .iter()
            .any(|it| it.url == config.url)
        {
            new.spec.managed_cluster_client_configs.push(config.clone());
        }
    }
    if new.spec != cluster.spec {
        if !wanted.annotations().is_empty() {
            new.annotations_mut().extend(wanted.annotations().clone());
        }
        let target = Target::of(Site::Hub, cluster);
        let object = plan::typed(&new, &target.api_resource);
        plan.push(Step::Replace {
            target,
            subresource: None,
            object,
        });
    }
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(found: Option<Value>, wanted: Value, printed: &str) {
        let found = match found {
            Some(cluster) => Found::Present(serde_json::from_value(cluster).unwrap()),
            None => Found::Missing,
        };
        let seen = Seen {
            wanted: serde_json::from_value(wanted).unwrap(),
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
