//! `drover clean`: take the hub that `drover init` has made off its cluster again.
//! Upstream: clusteradm `clean`, whose lines we print. We differ in that no cluster may be left, available or not (nobody
//! would clean up after it), and in that `--dry-run` writes nothing.

use anyhow::{Result, bail};
use clap::{ArgAction, Args};
use k8s_openapi::{
    api::apps::v1::Deployment, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt, api::ListParams};
use ocm_api::namespaces;
use ocm_reconcile::install::{DROVER, MANAGED_BY};
use serde_json::{Value, json};

use crate::{
    charts::{self, HubValues},
    cli::Global,
    connect::Target,
    installation::{self, Mode, Removal},
    kinds, output, webhooks,
};

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
        let hub = Target::connect(global).await?;
        self.check_clusters(&hub).await?;
        let deployments: Api<Deployment> = Api::namespaced(hub.client.clone(), namespaces::HUB);
        let found = deployments.get_opt(charts::HUB).await;
        let found = found.map_err(|error| hub.explain("could not look for the hub", &error))?;
        let is_there = found.is_some();
        let mode = self.removal.mode();
        let mut manifests = HubValues::default().manifests()?;
        // The first is the hub's namespace, which goes last but for what is put before it here.
        let bootstrap = hub::bootstrap::objects();
        for object in bootstrap {
            let object = object.into_manifest();
            if object["metadata"]["name"] != namespaces::HUB {
                manifests.insert(1, object);
            }
        }
        // Asked in vain they would refuse every write; so they go before the hub does.
        manifests.extend(webhooks::configurations());
        if is_there {
            manifests.extend(held(&hub).await?);
        }
        if self.purge_operator {
            let definitions = ours(&hub).await?;
            manifests.splice(0..0, definitions);
        }
        charts::keep(&manifests, self.removal.output_file.as_deref())?;
        let timeout = self.removal.timeout();
        let lines = installation::remove(&hub, &manifests, mode, timeout).await?;
        for line in &lines {
            output::say(line)?;
        }
        match (mode, is_there || !lines.is_empty()) {
            (Mode::DryRun, true) => Ok(()),
            (_, false) => output::say("The multicluster hub control plane is cleaned up already"),
            (Mode::Write, true) => output::say("The multicluster hub control plane has been clean up successfully!"),
        }
    }

    async fn check_clusters(&self, hub: &Target) -> Result<()> {
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

/// Objects that only the hub lets go of; so they go while it is still there.
async fn held(hub: &Target) -> Result<Vec<Value>> {
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
async fn ours(hub: &Target) -> Result<Vec<Value>> {
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
