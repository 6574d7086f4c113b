//! Our ManagedCluster: how it is watched, what it is created as, and what it may lack.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::ByteString;
use kube::{ResourceExt, runtime::watcher};
use ocm_api::{
    annotations,
    cluster::{ClientConfig, ManagedCluster, ManagedClusterSpec},
    condition,
    conditions::managed_cluster,
};
use ocm_reconcile::{Cache, Caches, Plan, Site, Step, Target, cache::Watching, plan};

use super::drive::RegistrationAgent;
use crate::status;

/// How long at most until an agent that waits for its acceptance notices it.
pub(super) const ACCEPTANCE_RETRY_MAX: Duration = Duration::from_secs(5);

/// It alone, on the hub: an agent may look at no other.
pub(super) fn watch(hub: &Caches, agent: &RegistrationAgent) -> Cache<ManagedCluster> {
    hub.watching(Watching {
        selection: watcher::Config::default().fields(&format!("metadata.name={}", agent.cluster)),
        retry_max: ACCEPTANCE_RETRY_MAX,
        // The certificate may come before the permissions that the hub makes for an accepted cluster.
        forbidden_at_first: true,
    })
}

/// Whether the hub has accepted it.
pub(super) fn is_accepted(cluster: &ManagedCluster) -> bool {
    condition::is_true(status::conditions(cluster), managed_cluster::HUB_ACCEPTED)
}

/// Whether it has an agent, or had one.
pub(super) fn has_joined(cluster: &ManagedCluster) -> bool {
    condition::is_true(status::conditions(cluster), managed_cluster::JOINED)
}

/// The cluster as it should be created.
pub(super) fn desired(agent: &RegistrationAgent) -> ManagedCluster {
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
    let ours: BTreeMap<_, _> = ours.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !ours.is_empty() {
        cluster.metadata.annotations = Some(ours);
    }
    cluster
}

/// Adds the client configs that it lacks: an update of the whole object, because agents may update their ManagedCluster
/// but not patch it.
pub(super) fn add_client_configs(cluster: &ManagedCluster, desired: &ManagedCluster) -> Plan {
    let mut plan = Plan::new();
    let mut new = cluster.clone();
    for config in &desired.spec.managed_cluster_client_configs {
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
        if !desired.annotations().is_empty() {
            new.annotations_mut().extend(desired.annotations().clone());
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
