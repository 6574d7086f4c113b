//! A cluster that Cluster API has made, to join it from its management cluster: `join --capi-import`.
//! Upstream: clusteradm `pkg/clusterprovider/capi`. It asks for v1beta1 alone; here it is the version that is served.

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use client::{
    connect::{self, ApiServer},
    flags::Global,
};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, config::Kubeconfig};
use operator::importer::{
    cluster_api::{self, ClusterApiCluster},
    kubeconfig, source,
};

/// Where a Cluster is whose name says no namespace.
const NAMESPACE: &str = "default";

/// Which cluster of Cluster API is meant.
#[derive(Debug, Clone, Default, Args)]
pub struct CapiFlags {
    /// Join the cluster that Cluster API has made as --capi-cluster-name, instead of the one of the kubeconfig
    #[arg(long, help_heading = "Cluster API")]
    pub capi_import: bool,
    /// The kubeconfig of the management cluster of Cluster API [default: as for every command]
    #[arg(long, value_name = "FILE", help_heading = "Cluster API")]
    pub capi_kubeconfig: Option<PathBuf>,
    /// The Cluster, as NAMESPACE/NAME; NAME alone is in the namespace default
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        required_if_eq("capi_import", "true"),
        help_heading = "Cluster API"
    )]
    pub capi_cluster_name: Option<String>,
}

impl CapiFlags {
    /// The cluster to join; `None` when it is not one of Cluster API.
    ///
    /// # Errors
    /// When there is no such Cluster, or nothing to reach it with yet.
    pub async fn cluster(&self, global: &Global) -> Result<Option<ApiServer>> {
        let Some((kubeconfig, from)) = self.kubeconfig(global).await? else {
            return Ok(None);
        };
        ApiServer::of(kubeconfig, &from).await.map(Some)
    }

    /// The kubeconfig of the cluster to join, and how sentences name it; `None` when it is not one of Cluster API.
    ///
    /// # Errors
    /// When there is no such Cluster, or nothing to reach it with yet.
    pub async fn kubeconfig(&self, global: &Global) -> Result<Option<(Kubeconfig, String)>> {
        if !self.capi_import {
            return Ok(None);
        }
        let named = self.capi_cluster_name.as_deref().unwrap_or_default();
        let (namespace, name) = split(named)?;
        let management = match &self.capi_kubeconfig {
            Some(path) => ApiServer::of(connect::read(path)?, &path.display().to_string()).await?,
            None => ApiServer::connect(global).await?,
        };
        read(&management, namespace, name).await.map(Some)
    }
}

/// Reads NAMESPACE/NAME, or NAME.
fn split(text: &str) -> Result<(&str, &str)> {
    let (namespace, name) = text.split_once('/').unwrap_or((NAMESPACE, text));
    if namespace.is_empty() || name.is_empty() || name.contains('/') {
        bail!("--capi-cluster-name {text}: write NAMESPACE/NAME");
    }
    Ok((namespace, name))
}

/// Reads the kubeconfig of a Cluster on the management cluster.
async fn read(management: &ApiServer, namespace: &str, name: &str) -> Result<(Kubeconfig, String)> {
    let doing = format!("could not look for Cluster {namespace}/{name}");
    let explain = |error: &kube::Error| management.explain(&doing, error);
    let version = cluster_api::served(&management.client)
        .await
        .map_err(|error| explain(&error))?;
    let version = version.ok_or_else(|| {
        anyhow!(
            "{} has no Clusters of Cluster API; choose the management cluster with --capi-kubeconfig",
            management.server
        )
    })?;
    let clusters: Api<ClusterApiCluster> = Api::namespaced_with(management.client.clone(), namespace, &version);
    let cluster = clusters.get_opt(name).await.map_err(|error| explain(&error))?;
    let cluster = cluster.ok_or_else(|| {
        anyhow!(
            "there is no Cluster {namespace}/{name} at {}; correct --capi-cluster-name",
            management.server
        )
    })?;
    let from = format!("Secret {namespace}/{}", source::kubeconfig_secret(name));
    let secrets: Api<Secret> = Api::namespaced(management.client.clone(), namespace);
    let secret = secrets.get_opt(&source::kubeconfig_secret(name)).await;
    let secret = secret.map_err(|error| management.explain(&format!("could not read {from}"), &error))?;
    let secret = secret.ok_or_else(|| {
        let phase = match cluster.phase() {
            "" => "has no phase yet".to_owned(),
            phase => format!("is {phase}"),
        };
        anyhow!("{from} is not there yet: Cluster {namespace}/{name} {phase}; try again later")
    })?;
    let data = secret.data.as_ref().and_then(|it| it.get(source::CLUSTER_API_KEY));
    let data = data.ok_or_else(|| {
        anyhow!(
            "{from} has no key {}, which holds a kubeconfig",
            source::CLUSTER_API_KEY
        )
    })?;
    let text =
        std::str::from_utf8(&data.0).map_err(|_| anyhow!("{from} holds no text in {}", source::CLUSTER_API_KEY))?;
    let kubeconfig = kubeconfig::read(text, &from).map_err(|why| anyhow!(why))?;
    Ok((kubeconfig, from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_with_or_without_its_namespace() {
        assert_eq!(split("capi/one").unwrap(), ("capi", "one"));
        assert_eq!(split("one").unwrap(), ("default", "one"));
        for wrong in ["", "/one", "capi/", "a/b/c"] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }
}
