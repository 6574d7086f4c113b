//! A hub is taken off its cluster: first the ClusterManager, whose operator takes away everything that it has made,
//! then the operator. Upstream: clusteradm `pkg/cmd/clean/exec.go`. We differ in that no cluster may be left, available
//! or not (nobody would clean up after it), in that what clusters join with goes as well, in that it is waited for by a
//! watch and with what it waits for, in that a ClusterManager that nobody would clean up after is not deleted, and in
//! that a dry run writes nothing.

use std::{collections::BTreeSet, time::Duration};

use anyhow::{Result, bail};
use client::{connect::ApiServer, kinds};
use kube::{ResourceExt, api::ListParams};
use ocm_api::namespaces;
use ocm_reconcile::install::Installed;
use serde_json::{Value, json};

use super::{CRD, InitOptions, NAME};
use crate::{Line, Mode, charts, former, manifests, operated, token, values::ValueFlags};

/// What is to be taken away.
#[derive(Clone, Debug)]
pub struct CleanOptions {
    /// The name of the ClusterManager.
    pub name: String,
    /// Whether the operator goes as well.
    pub purge_operator: bool,
    /// Whether to write.
    pub mode: Mode,
    /// How long to wait until everything is gone.
    pub timeout: Duration,
}

/// What was taken away.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The objects.
    pub lines: Vec<Line>,
    /// Remarks about what stays.
    pub remarks: Vec<String>,
}

/// What there is to take away.
pub struct Found {
    has_cluster_manager: bool,
    has_kind: bool,
    is_former: bool,
    /// Everything beside the ClusterManager, first to last in the order in which it was made.
    manifests: Vec<Value>,
    remarks: Vec<String>,
}

impl Found {
    /// Whether there is nothing.
    pub fn is_nothing(&self) -> bool {
        !self.has_cluster_manager && !self.has_kind && !self.is_former
    }

    /// The manifests of what goes, for `--output-file`.
    pub fn manifests(&self) -> &[Value] {
        &self.manifests
    }
}

/// The clusters that have to go first.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn clusters(hub: &ApiServer) -> Result<Vec<String>> {
    let listed = hub.all(&kinds::managed_cluster()).list(&ListParams::default()).await;
    match listed {
        Ok(listed) => Ok(listed.items.iter().map(ResourceExt::name_any).collect()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(vec![]),
        Err(error) => Err(hub.explain("could not list the managed clusters", &error)),
    }
}

/// Looks what there is to take away.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn look(hub: &ApiServer, options: &CleanOptions) -> Result<Found> {
    let is_former = former::hub_is_there(hub).await?;
    let has_kind = operated::has_crd(hub, CRD).await?;
    let managers = operated::list(hub, &operated::cluster_managers()).await?;
    let managers: Vec<String> = managers.iter().map(ResourceExt::name_any).collect();
    let has_cluster_manager = managers.contains(&options.name);
    if !has_cluster_manager && let Some(other) = managers.first() {
        bail!(
            "{} has no ClusterManager {}; it has {other}: name it with --name {other}",
            hub.server,
            options.name
        );
    }
    let mut found = Found {
        has_cluster_manager,
        has_kind,
        is_former,
        manifests: vec![],
        remarks: vec![],
    };
    if is_former && !has_cluster_manager {
        let (manifests, strangers) = former::hub_with_all(hub, options.purge_operator).await?;
        found.manifests = manifests;
        for (namespace, stranger) in strangers {
            found
                .remarks
                .push(format!("namespace {namespace} stays: Deployment {stranger} is in it"));
        }
    }
    if has_kind {
        let others: Vec<&String> = managers.iter().filter(|it| **it != options.name).collect();
        let purge = options.purge_operator && others.is_empty();
        if options.purge_operator && !purge {
            found
                .remarks
                .push(format!("the operator stays: there is ClusterManager {}", others[0]));
        }
        let (manifests, remarks) = operator(hub, &options.name, purge).await?;
        found.manifests.extend(manifests);
        found.remarks.extend(remarks);
    }
    Ok(found)
}

/// What belongs to the operator, and what clusters join with.
async fn operator(hub: &ApiServer, name: &str, purge: bool) -> Result<(Vec<Value>, Vec<String>)> {
    let public = hub::bootstrap::cluster_info("")
        .into_iter()
        .map(Installed::into_manifest);
    let public = crate::ours(hub, public.collect()).await?;
    let joining = token::objects(hub).await?;
    if !purge {
        return Ok((joining.into_iter().chain(public).collect(), vec![]));
    }
    let everything = InitOptions {
        values: ValueFlags {
            set: vec!["createBootstrapToken=true,createBootstrapSA=true,clusterManager.create=false".into()],
            ..ValueFlags::default()
        },
        ..InitOptions::default()
    };
    let made = everything.manifests()?;
    let mut manifests = made.all(&[]);
    let known: BTreeSet<String> = manifests.iter().map(manifests::named).collect();
    manifests.extend(joining.into_iter().filter(|it| !known.contains(&manifests::named(it))));
    manifests.extend(public);
    let mut remarks = Vec::new();
    let others = operated::other_deployments(hub, namespaces::OPERATOR, |it| it == NAME).await?;
    if let Some(stranger) = others.first() {
        let namespace = namespaces::OPERATOR;
        remarks.push(format!(
            "namespace {namespace} stays: Deployment {namespace}/{stranger} is in it"
        ));
        manifests.retain(|it| it["kind"] != "Namespace" || it["metadata"]["name"] != namespaces::OPERATOR);
        // Both operators pull their images with it.
        manifests.retain(|it| it["kind"] != "Secret" || it["metadata"]["name"] != namespaces::PULL_SECRET);
    }
    // It goes with the ClusterManager, unless somebody has made it before, or in between.
    let is_hubs = |it: &str| it.starts_with(&format!("{name}-")) || it == charts::HUB;
    if operated::other_deployments(hub, namespaces::HUB, is_hubs)
        .await?
        .is_empty()
    {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespaces::HUB}});
        manifests.insert(0, namespace);
    }
    Ok((manifests, remarks))
}

/// Takes everything away that was found.
///
/// # Errors
/// When there are clusters, what the API server refuses, and what is still there after the timeout.
pub async fn clean(hub: &ApiServer, options: &CleanOptions, found: Found) -> Result<Cleaned> {
    let left = clusters(hub).await?;
    if !left.is_empty() {
        bail!(
            "Please detach all managed clusters from the hub control plane: `kubectl delete managedcluster {}`",
            left.join(" ")
        );
    }
    let mut lines = Vec::new();
    if found.has_cluster_manager {
        let kind = operated::cluster_managers();
        let deleted = operated::delete(hub, &kind, &options.name, NAME, options.mode, options.timeout).await?;
        lines.extend(deleted);
    }
    let rest = crate::remove(hub, &found.manifests, options.mode, options.timeout).await?;
    lines.extend(rest);
    Ok(Cleaned {
        lines,
        remarks: found.remarks,
    })
}
