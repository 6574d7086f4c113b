//! `drover addon enable --names A --clusters C`
//! Upstream: clusteradm `addon enable`, whose flags and lines these are. We differ in three things: everything is
//! checked before anything is written, `--dry-run` writes nothing, and without `--namespace` the add-on's own
//! configuration chooses the namespace; the line names the default, as upstream's.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::{cluster_name, connect::ApiServer, flags::Global, kinds};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use super::pairs;
use crate::manifests;

/// Where an add-on goes when nobody says otherwise: the default of the API.
const NAMESPACE: &str = "open-cluster-management-agent-addon";

/// Put add-ons on clusters
#[derive(Debug, Args)]
pub struct Enable {
    /// The add-ons
    #[arg(
        long,
        visible_alias = "name",
        value_delimiter = ',',
        required = true,
        value_name = "NAMES"
    )]
    pub names: Vec<String>,
    /// The clusters to put them on
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        required = true,
        value_name = "CLUSTERS"
    )]
    pub clusters: Vec<String>,
    /// The namespace on the clusters [default: what the add-on's configuration says, or
    /// open-cluster-management-agent-addon]
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Annotations for the ManagedClusterAddOns
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    pub annotate: Vec<String>,
    /// Labels for the ManagedClusterAddOns
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    pub labels: Vec<String>,
    /// Configurations to create on the hub and to give to the add-ons: a file, a directory, or - for standard input
    #[arg(long, value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// Also write what is applied to this file
    #[arg(long, value_name = "FILE")]
    pub output_file: Option<PathBuf>,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// A configuration from the file, and where the hub keeps its kind.
struct Config {
    kind: ApiResource,
    object: DynamicObject,
}

impl Enable {
    pub async fn run(self, global: &Global) -> Result<()> {
        self.check()?;
        self.enable(&ApiServer::connect(global).await?).await
    }

    /// Refuses what cannot be meant, before anybody is asked.
    fn check(&self) -> Result<()> {
        pairs::parse("--annotate", &self.annotate)?;
        pairs::parse("--labels", &self.labels)?;
        self.clusters.iter().try_for_each(|it| cluster_name::check(it))?;
        match &self.namespace {
            Some(it) => cluster_name::check(it).with_context(|| format!("--namespace {it}")),
            None => Ok(()),
        }
    }

    /// Puts them on the clusters, and says so.
    pub async fn enable(&self, hub: &ApiServer) -> Result<()> {
        self.check()?;
        let annotations = pairs::parse("--annotate", &self.annotate)?;
        let labels = pairs::parse("--labels", &self.labels)?;
        let clusters = sorted(&self.clusters);
        let names = sorted(&self.names);
        for name in &names {
            let known = hub.all(&kinds::cluster_management_add_on()).get_opt(name).await;
            if known
                .map_err(|error| hub.explain(&format!("could not get add-on {name}"), &error))?
                .is_none()
            {
                bail!(
                    "enabling the unknown addon {name} is not supported: the hub has no ClusterManagementAddOn of that name; \
                     `drover addon list` lists those there are"
                );
            }
        }
        for cluster in &clusters {
            let known = hub.all(&kinds::managed_cluster()).get_opt(cluster).await;
            match known.map_err(|error| hub.explain(&format!("could not get cluster {cluster}"), &error))? {
                None => bail!("there is no cluster {cluster} on this hub; `drover get clusters` lists those there are"),
                Some(it) if it.data["spec"]["hubAcceptsClient"] != true => {
                    bail!("cluster {cluster} is not accepted yet; run `drover accept --clusters {cluster}` first")
                }
                Some(_) => {}
            }
        }
        let configs = self.configs(hub).await?;
        let mut applied = Vec::new();
        for config in &configs {
            applied.push(self.apply(hub, &config.kind, &config.object).await?);
        }
        for name in &names {
            for cluster in &clusters {
                let add_on = self.add_on(name, cluster, &annotations, &labels, &configs);
                let add_on: DynamicObject = serde_json::from_value(add_on)?;
                applied.push(self.apply(hub, &kinds::managed_cluster_add_on(), &add_on).await?);
                let note = output::note(self.dry_run);
                let namespace = self.namespace.as_deref().unwrap_or(NAMESPACE);
                output::say(format_args!(
                    "Deploying {name} add-on to namespaces {namespace} of managed cluster: {cluster}.{note}"
                ))?;
            }
        }
        if let Some(path) = &self.output_file {
            let text: Vec<String> = applied.iter().map(output::yaml).collect::<Result<_>>()?;
            std::fs::write(path, text.join("---\n")).with_context(|| format!("could not write {}", path.display()))?;
        }
        Ok(())
    }

    /// The configurations of the file, each with the plural name that the hub has for its kind.
    async fn configs(&self, hub: &ApiServer) -> Result<Vec<Config>> {
        let Some(path) = &self.config_file else {
            return Ok(Vec::new());
        };
        let mut configs = Vec::new();
        for manifest in manifests::read(std::slice::from_ref(path), false)? {
            let object: DynamicObject = serde_json::from_value(manifest)?;
            let types = object.types.clone().unwrap_or_default();
            let kind = GroupVersionKind::try_from(&types)
                .with_context(|| format!("{}: apiVersion {:?} is wrong", path.display(), types.api_version))?;
            let name = object.metadata.name.clone().unwrap_or_default();
            if name.is_empty() {
                bail!("{}: the {} has no metadata.name", path.display(), kind.kind);
            }
            let found = kube::discovery::pinned_kind(&hub.client, &kind).await;
            let (kind, _) =
                found.map_err(|error| hub.explain(&format!("the hub has no kind {}", kind.kind), &error))?;
            configs.push(Config { kind, object });
        }
        Ok(configs)
    }

    /// What is put into a cluster's namespace.
    fn add_on(
        &self,
        name: &str,
        cluster: &str,
        annotations: &BTreeMap<String, String>,
        labels: &BTreeMap<String, String>,
        configs: &[Config],
    ) -> Value {
        let mut add_on = json!({
            "apiVersion": "addon.open-cluster-management.io/v1alpha1",
            "kind": "ManagedClusterAddOn",
            "metadata": { "name": name, "namespace": cluster },
            "spec": {},
        });
        if !annotations.is_empty() {
            add_on["metadata"]["annotations"] = json!(annotations);
        }
        if !labels.is_empty() {
            add_on["metadata"]["labels"] = json!(labels);
        }
        if let Some(namespace) = &self.namespace {
            add_on["spec"]["installNamespace"] = json!(namespace);
        }
        if !configs.is_empty() {
            let reference = |it: &Config| {
                let mut reference = json!({
                    "group": it.kind.group,
                    "resource": it.kind.plural,
                    "name": it.object.metadata.name,
                });
                if let Some(namespace) = &it.object.metadata.namespace {
                    reference["namespace"] = json!(namespace);
                }
                reference
            };
            add_on["spec"]["configs"] = configs.iter().map(reference).collect();
        }
        add_on
    }

    /// Creates the object, or merges it into the one there is.
    async fn apply(&self, hub: &ApiServer, kind: &ApiResource, object: &DynamicObject) -> Result<DynamicObject> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => hub.namespaced(kind, namespace),
            None => hub.all(kind),
        };
        let place = object
            .metadata
            .namespace
            .as_ref()
            .map_or_else(String::new, |it| format!(" in namespace {it}"));
        let doing = format!("could not apply {} {name}{place}", kind.kind);
        let create = PostParams {
            dry_run: self.dry_run,
            ..PostParams::default()
        };
        let made = match api.create(&create, object).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let patch = PatchParams {
                    dry_run: self.dry_run,
                    ..PatchParams::default()
                };
                api.patch(&name, &patch, &Patch::Merge(object)).await
            }
            made => made,
        };
        let mut made = made.map_err(|error| hub.explain(&doing, &error))?;
        made.metadata.managed_fields = None;
        Ok(made)
    }
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names.dedup();
    names
}
