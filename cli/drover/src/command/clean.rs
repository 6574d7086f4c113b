//! `drover clean`: take the hub that `drover init` has made off its cluster again.
//! Upstream: clusteradm `clean`, whose lines we print. We differ in that no cluster may be left, available or not
//! (nobody would clean up after it), in that `--dry-run` writes nothing, and in that what upstream has put there stays.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::{ArgAction, Args};
use client::{connect::ApiServer, flags::Global, kinds};
use hub::feature_gates;
use installation::{
    Mode, Removal,
    charts::{self, HubValues},
};
use k8s_openapi::{
    api::core::v1::ServiceAccount, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt, api::ListParams};
use ocm_api::namespaces;
use ocm_reconcile::install::{DROVER, Installed, MANAGED_BY};
use serde_json::{Value, json};

/// Take the hub off the cluster of the kubeconfig, with OCM's kinds and everything of them
#[derive(Debug, Args)]
pub struct Clean {
    /// Also remove OCM's kinds, with the objects that are left of them, and not only the hub's Deployment and rights
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    purge_operator: bool,
    #[command(flatten)]
    removal: Removal,
}

impl Clean {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        let found = Found::on(&hub).await?;
        if let (false, Some(theirs)) = (found.is_there, &found.upstream) {
            bail!(
                "Deployment {theirs} runs a hub of upstream's there, and none of ours: `clusteradm clean` removes it"
            );
        }
        // With upstream's hub beside ours the clusters are still somebody's.
        if found.upstream.is_none() {
            self.check_clusters(&hub).await?;
        }
        let mode = self.removal.mode();
        let mut manifests = self.manifests(&found)?;
        // Asked in vain they would refuse every write; so they go before the hub does. Upstream's have the same names.
        let told = webhooks::configurations().into_iter();
        let public = hub::bootstrap::cluster_info("").into_iter();
        let told = told.chain(public.map(Installed::into_manifest)).collect();
        manifests.extend(installation::ours(&hub, told).await?);
        if found.is_there && found.upstream.is_none() {
            manifests.extend(held(&hub).await?);
        }
        if self.purge_operator && found.upstream.is_none() {
            let definitions = ours(&hub).await?;
            manifests.splice(0..0, definitions);
        }
        charts::keep(&manifests, self.removal.output_file.as_deref())?;
        let timeout = self.removal.timeout();
        let lines = installation::remove(&hub, &manifests, mode, timeout).await?;
        for line in &lines {
            output::say(line)?;
        }
        for stranger in found.strangers.values() {
            let namespace = stranger.split('/').next().unwrap_or_default();
            eprintln!("namespace {namespace} stays: Deployment {stranger} is in it");
        }
        match (mode, found.is_there || !lines.is_empty()) {
            (Mode::DryRun, true) => Ok(()),
            (_, false) => output::say("The multicluster hub control plane is cleaned up already"),
            (Mode::Write, true) => output::say("The multicluster hub control plane has been clean up successfully!"),
        }
    }

    /// What belongs to our hub whoever else is there, but for what only the API server can tell.
    fn manifests(&self, found: &Found) -> Result<Vec<Value>> {
        // With what a switch brings: it may have been on once.
        let switch = feature_gates::parse("NilExecutorValidating=true").map_err(anyhow::Error::msg)?;
        let values = HubValues {
            feature_gates: vec![switch],
            ..HubValues::default()
        };
        let mut manifests = values.manifests()?;
        // Upstream's hub lets clusters in by the same objects. Otherwise they go before the hub's namespace,
        // which is the first.
        if found.upstream.is_none() {
            for object in hub::bootstrap::objects() {
                let object = object.into_manifest();
                if object["metadata"]["name"] != namespaces::HUB {
                    manifests.insert(1, object);
                }
            }
        }
        manifests.retain(|it| {
            let name = it["metadata"]["name"].as_str().unwrap_or_default();
            let is_ours = name != namespaces::OPERATOR || found.lets_clusters_in;
            it["kind"] != "Namespace" || is_ours && !found.strangers.contains_key(name)
        });
        Ok(manifests)
    }

    async fn check_clusters(&self, hub: &ApiServer) -> Result<()> {
        let listed = hub.all(&kinds::managed_cluster()).list(&ListParams::default()).await;
        let clusters: Vec<String> = match listed {
            Ok(listed) => listed.items.iter().map(ResourceExt::name_any).collect(),
            Err(kube::Error::Api(status)) if status.code == 404 => vec![],
            Err(error) => return Err(hub.explain("could not list the managed clusters", &error)),
        };
        if clusters.is_empty() {
            return Ok(());
        }
        bail!(
            "Please detach all managed clusters from the hub control plane: `kubectl delete managedcluster {}`",
            clusters.join(" ")
        )
    }
}

/// Who is on the API, which decides what may be taken away: namespaces and names are the same for upstream and for us.
struct Found {
    /// Whether our hub is.
    is_there: bool,
    /// Whether what clusters join with is. Without it the namespace that it lives in was made by somebody else: by
    /// upstream for a managed cluster, whose agent may be anywhere.
    lets_clusters_in: bool,
    /// A Deployment of upstream's hub.
    upstream: Option<String>,
    /// By namespace of ours, a Deployment in it that is not: upstream's agent is in the one that clusters join with.
    strangers: BTreeMap<&'static str, String>,
}

impl Found {
    async fn on(hub: &ApiServer) -> Result<Self> {
        let is_there = installation::find(hub, &[(namespaces::HUB, charts::HUB)])
            .await?
            .is_some();
        let accounts: Api<ServiceAccount> = Api::namespaced(hub.client.clone(), namespaces::OPERATOR);
        let account = accounts.get_opt(hub::bootstrap::SERVICE_ACCOUNT).await;
        let account = account.map_err(|error| hub.explain("could not look for what clusters join with", &error))?;
        let upstream = installation::find(hub, &installation::UPSTREAM_HUB).await?;
        let mut strangers = BTreeMap::new();
        for namespace in [namespaces::OPERATOR, namespaces::HUB] {
            if let Some(stranger) = installation::stranger(hub, namespace).await? {
                strangers.insert(namespace, stranger);
            }
        }
        Ok(Self {
            is_there,
            lets_clusters_in: account.is_some(),
            upstream,
            strangers,
        })
    }
}

/// Objects that only the hub lets go of; so they go while it is still there.
async fn held(hub: &ApiServer) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    for kind in [kinds::cluster_management_add_on(), kinds::manifest_work_replica_set()] {
        let listed = hub.all(&kind).list(&ListParams::default()).await;
        let listed = match listed {
            Ok(listed) => listed.items,
            Err(kube::Error::Api(status)) if status.code == 404 => continue,
            Err(error) => return Err(hub.explain(&format!("could not list the {}", kind.plural), &error)),
        };
        found.extend(listed.into_iter().map(|it| {
            json!({
                "apiVersion": kind.api_version, "kind": kind.kind,
                "metadata": {"name": it.metadata.name, "namespace": it.metadata.namespace},
            })
        }));
    }
    Ok(found)
}

/// The definitions that we have made. Those of an upstream installation stay.
async fn ours(hub: &ApiServer) -> Result<Vec<Value>> {
    let definitions: Api<CustomResourceDefinition> = Api::all(hub.client.clone());
    let listed = definitions
        .list_metadata(&ListParams::default().labels(&format!("{MANAGED_BY}={DROVER}")))
        .await;
    let listed = listed.map_err(|error| hub.explain("could not list the definitions", &error))?;
    let manifest = |name: String| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        })
    };
    Ok(listed.items.iter().map(ResourceExt::name_any).map(manifest).collect())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{cli::Cli, cli::DroverCommand};

    #[test]
    fn what_others_use_stays() {
        let DroverCommand::Clean(clean) = Cli::parse_from(["drover", "clean"]).command else {
            panic!("it is clean");
        };
        let left =
            |lets_clusters_in: bool, upstream: Option<&str>, strangers: &[(&'static str, &str)]| -> Vec<String> {
                let found = Found {
                    is_there: true,
                    lets_clusters_in,
                    upstream: upstream.map(str::to_owned),
                    strangers: strangers
                        .iter()
                        .map(|(key, value)| (*key, (*value).to_owned()))
                        .collect(),
                };
                let manifests = clean.manifests(&found).unwrap();
                let name = |it: &Value| format!("{}/{}", it["kind"], it["metadata"]["name"]).replace('"', "");
                let mut names: Vec<String> = manifests.iter().map(name).collect();
                names.retain(|it| it.starts_with("Namespace/") || it.contains("bootstrap"));
                names
            };
        let bootstrap = [
            "RoleBinding/open-cluster-management:bootstrap",
            "Role/open-cluster-management:bootstrap",
            "ClusterRoleBinding/open-cluster-management:bootstrap:managedcluster",
            "ClusterRoleBinding/open-cluster-management:bootstrap:agent-registration",
            "ClusterRole/open-cluster-management:bootstrap",
            "ServiceAccount/agent-registration-bootstrap",
        ];
        let (hub, operator) = (
            "Namespace/open-cluster-management-hub",
            "Namespace/open-cluster-management",
        );
        assert_eq!(left(false, None, &[]), [&[hub][..], &bootstrap].concat());
        assert_eq!(left(true, None, &[]), [&[hub][..], &bootstrap, &[operator]].concat());
        let agent = [(namespaces::OPERATOR, "open-cluster-management/klusterlet")];
        assert_eq!(left(true, None, &agent), [&[hub][..], &bootstrap].concat());
        let both = [(namespaces::OPERATOR, "a"), (namespaces::HUB, "b")];
        assert_eq!(left(true, Some("a"), &both), [""; 0]);
    }
}
