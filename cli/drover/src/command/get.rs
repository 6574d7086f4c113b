//! `drover get …`

mod addons;
pub mod clusters;
pub mod clustersets;
mod info;
pub mod placements;
mod policies;
mod subscriptions;
mod token;
pub mod works;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use client::{connect::ApiServer, flags::Global};
use kube::{
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use output::RequestedObjects;

#[derive(Debug, Subcommand)]
pub enum Get {
    /// List the managed clusters
    #[command(alias = "cluster")]
    Clusters(clusters::Clusters),
    /// List the sets of clusters, how many clusters each has, and who may use them
    #[command(name = "clustersets", alias = "clusterset")]
    ClusterSets(clustersets::ClusterSets),
    /// List the works of a cluster, or tell one work resource by resource
    #[command(alias = "work")]
    Works(works::Works),
    /// List the add-ons, each with how many clusters have it
    #[command(alias = "addon")]
    Addons(addons::Addons),
    /// List the placements and the clusters that each has chosen
    #[command(alias = "placement")]
    Placements(placements::Placements),
    /// List the policies, how many clusters each has, and which of those do not comply
    #[command(alias = "policy")]
    Policies(policies::Policies),
    /// List the subscriptions, what they take, and on how many clusters it is deployed
    #[command(aliases = ["subscription", "appsubs", "appsub"])]
    Subscriptions(subscriptions::Subscriptions),
    /// Print a token that clusters can join with for an hour, and the command that does it
    Token(token::Token),
    /// Say what runs a hub and which kinds it has
    HubInfo(info::HubInfo),
    /// Say what runs the agent of a managed cluster
    KlusterletInfo(info::KlusterletInfo),
}

/// Where a command lists objects.
#[derive(Debug, Args)]
struct NamespaceFlags {
    /// The namespace to look into [default: all namespaces]
    #[arg(short, long)]
    namespace: Option<String>,
    /// Look into all namespaces, as without a namespace
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
}

/// The objects of a kind in a namespace, or in all, by their names. Who last wrote which field is left out.
///
/// # Errors
/// The API server's, for the caller to explain.
async fn list(
    hub: &ApiServer,
    kind: &ApiResource,
    namespace: Option<&str>,
    which: &ListParams,
) -> Result<Vec<DynamicObject>, kube::Error> {
    let api = match namespace {
        Some(namespace) => hub.namespaced(kind, namespace),
        None => hub.all(kind),
    };
    let mut listed = api.list(which).await?.items;
    listed.sort_by_key(|it| (it.metadata.namespace.clone(), it.metadata.name.clone()));
    for it in &mut listed {
        it.metadata.managed_fields = None;
    }
    Ok(listed)
}

/// Keeps of the listed objects those with these names; without names all. Says how their list is to be shown: without a
/// namespace a name is that of any number of objects.
///
/// # Errors
/// When none of them has one of the names: which one, and the command that lists them.
fn named(
    listed: &mut Vec<DynamicObject>,
    names: &[String],
    namespace: Option<&str>,
    (kind, plural): (&str, &str),
) -> Result<RequestedObjects> {
    let is_named = |it: &DynamicObject, name: &str| it.metadata.name.as_deref() == Some(name);
    let is_unknown = |name: &&String| !listed.iter().any(|it| is_named(it, name));
    if let Some(unknown) = names.iter().find(is_unknown) {
        let place = match namespace {
            Some(namespace) => format!("in namespace {namespace}"),
            None => "on this hub".to_owned(),
        };
        bail!("there is no {kind} {unknown} {place}; `drover get {plural}` lists those there are");
    }
    listed.retain(|it| names.is_empty() || names.iter().any(|name| is_named(it, name)));
    Ok(match namespace {
        Some(_) => RequestedObjects::by(names),
        None => RequestedObjects::Any,
    })
}

impl Get {
    pub async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Clusters(it) => it.run(global).await,
            Self::ClusterSets(it) => it.run(global).await,
            Self::Works(it) => it.run(global).await,
            Self::Addons(it) => it.run(global).await,
            Self::Placements(it) => it.run(global).await,
            Self::Policies(it) => it.run(global).await,
            Self::Subscriptions(it) => it.run(global).await,
            Self::Token(it) => it.run(global).await,
            Self::HubInfo(it) => it.run(global).await,
            Self::KlusterletInfo(it) => it.run(global).await,
        }
    }
}
