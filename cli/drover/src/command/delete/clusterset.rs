//! `drover delete clusterset NAME`
//! Upstream: clusteradm `delete clusterset`, whose lines we print where something was done; where nothing could be,
//! it is an error.

use anyhow::{Result, bail};
use clap::Args;
use client::{clusters, connect::ApiServer, flags::Global, kinds};
use kube::api::{DeleteParams, ListParams};
use ocm_api::namespaces;

/// Delete a set of clusters; the clusters stay, and keep their label
#[derive(Debug, Args)]
pub struct DeleteClusterSet {
    /// The name of the set
    name: String,
    /// Let the hub check everything and delete nothing
    #[arg(long)]
    dry_run: bool,
}

/// What became of a set that was to be deleted.
#[derive(Debug, PartialEq, Eq)]
pub enum Deletion {
    Deleted {
        /// The clusters that still have its label.
        labelled: Vec<String>,
    },
    NotFound,
    /// The hub would make it anew.
    Permanent,
    /// It is bound to namespaces.
    Bound(Vec<String>),
}

/// Deletes a set, if nothing uses it.
pub async fn delete(hub: &ApiServer, name: &str, dry_run: bool) -> Result<Deletion> {
    if [namespaces::DEFAULT_CLUSTER_SET, namespaces::GLOBAL_CLUSTER_SET].contains(&name) {
        return Ok(Deletion::Permanent);
    }
    let doing = format!("could not delete clusterset {name}");
    let api = hub.all(&kinds::managed_cluster_set());
    let found = api.get_opt(name).await.map_err(|error| hub.explain(&doing, &error))?;
    if found.is_none() {
        return Ok(Deletion::NotFound);
    }
    if let Some(bound) = clusters::bindings(hub).await?.remove(name) {
        return Ok(Deletion::Bound(bound));
    }
    let parameters = DeleteParams {
        dry_run,
        ..DeleteParams::default()
    };
    api.delete(name, &parameters)
        .await
        .map_err(|error| hub.explain(&doing, &error))?;
    // The label is what somebody decided about the cluster; it is not taken away behind their back.
    let labelled = ListParams::default().labels(&format!("{}={name}", kinds::CLUSTER_SET_LABEL));
    let left = hub.all(&kinds::managed_cluster()).list(&labelled).await;
    let left = left.map_err(|error| hub.explain("could not list the clusters that were in it", &error))?;
    Ok(Deletion::Deleted {
        labelled: left.items.into_iter().filter_map(|it| it.metadata.name).collect(),
    })
}

impl DeleteClusterSet {
    pub async fn run(self, global: &Global) -> Result<()> {
        let name = &self.name;
        let hub = ApiServer::connect(global).await?;
        match delete(&hub, name, self.dry_run).await? {
            Deletion::Permanent => bail!("clusterset {name} can not be deleted: the hub would make it anew"),
            Deletion::NotFound => output::say(format_args!("Clusterset {name} not found or is already deleted")),
            Deletion::Bound(bound) => {
                let (namespaces, first) = (bound.join(", "), &bound[0]);
                bail!(
                    "clusterset {name} is still bound to the namespaces {namespaces}; \
                     `drover clusterset unbind {name} -n {first}` unbinds it"
                )
            }
            Deletion::Deleted { labelled } => {
                let note = output::note(self.dry_run);
                output::say(format_args!("Clusterset {name} is deleted{note}"))?;
                if !labelled.is_empty() && !self.dry_run {
                    eprintln!(
                        "still labelled with it: {}; `drover clusterset set default --clusters {}` puts them into another set",
                        labelled.join(", "),
                        labelled.join(",")
                    );
                }
                Ok(())
            }
        }
    }
}
