//! `drover clusterset bind|unbind|set`
//! Upstream: clusteradm `clusterset`, whose lines we print. We differ in one thing: what is missing (a cluster, a set,
//! a namespace) is found out before anything is written.

use anyhow::{Result, anyhow, bail};
use clap::{Args, Subcommand};
use client::{connect::ApiServer, flags::Global, kinds};
use kube::{
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{DynamicObject, Status},
};
use serde_json::json;

/// How often what somebody else has written in between is read again.
const TRIES: usize = 10;

/// Put clusters into sets, and let namespaces use them
#[derive(Debug, Subcommand)]
pub enum ClusterSet {
    /// Let the placements of a namespace choose from a set
    Bind(SetBindingFlags),
    /// Take that back
    Unbind(SetBindingFlags),
    /// Put clusters into a set, out of the one they are in, or give it namespaces that all its clusters are to have
    Set(Set),
}

#[derive(Debug, Args)]
pub struct SetBindingFlags {
    /// The name of the set
    pub name: String,
    /// The namespace
    #[arg(short, long, required = true)]
    pub namespace: String,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct Set {
    /// The name of the set
    pub name: String,
    /// The clusters to put into it
    #[arg(
        short,
        long,
        visible_alias = "cluster",
        value_delimiter = ',',
        required_unless_present = "namespaces",
        value_name = "CLUSTERS"
    )]
    pub clusters: Vec<String>,
    /// Namespaces that every cluster of the set is to have
    #[arg(long, value_delimiter = ',', value_name = "NAMESPACES")]
    pub namespaces: Vec<String>,
    /// Let the hub check everything and write nothing
    #[arg(long)]
    pub dry_run: bool,
}

impl ClusterSet {
    pub async fn run(self, global: &Global) -> Result<()> {
        self.change(&ApiServer::connect(global).await?).await
    }

    /// Does it, and says so.
    pub async fn change(self, hub: &ApiServer) -> Result<()> {
        match self {
            Self::Bind(it) => it.bind(hub).await,
            Self::Unbind(it) => it.unbind(hub).await,
            Self::Set(it) => it.set(hub).await,
        }
    }
}

/// The set, which has to be there: a binding to nothing would look as if it were done.
async fn existing(hub: &ApiServer, name: &str) -> Result<DynamicObject> {
    let found = hub.all(&kinds::managed_cluster_set()).get_opt(name).await;
    let found = found.map_err(|error| hub.explain(&format!("could not get clusterset {name}"), &error))?;
    found.ok_or_else(|| {
        anyhow!("there is no clusterset {name} on this hub; `drover create clusterset {name}` creates it")
    })
}

/// Whether the server missed the namespace, and not something in it.
fn is_missing(status: &Status, namespace: &str) -> bool {
    let about = status.details.as_ref();
    status.code == 404 && about.is_some_and(|it| it.kind == "namespaces" && it.name == namespace)
}

impl SetBindingFlags {
    async fn bind(&self, hub: &ApiServer) -> Result<()> {
        let Self { name, namespace, .. } = self;
        existing(hub, name).await?;
        let binding = serde_json::from_value(json!({
            "apiVersion": "cluster.open-cluster-management.io/v1beta2",
            "kind": "ManagedClusterSetBinding",
            "metadata": { "name": name, "namespace": namespace },
            "spec": { "clusterSet": name },
        }))?;
        let parameters = PostParams {
            dry_run: self.dry_run,
            ..PostParams::default()
        };
        let api = hub.namespaced(&kinds::managed_cluster_set_binding(), namespace);
        match api.create(&parameters, &binding).await {
            Ok(_) => output::say(format_args!(
                "Clusterset {name} is bound to Namespace {namespace}{}",
                output::note(self.dry_run)
            )),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => output::say(format_args!(
                "Clusterset {name} is already bound to Namespace {namespace}"
            )),
            Err(kube::Error::Api(status)) if is_missing(&status, namespace) => {
                bail!(
                    "there is no namespace {namespace} on this hub; `kubectl create namespace {namespace}` creates it"
                )
            }
            Err(error) => Err(hub.explain(&format!("could not bind clusterset {name}"), &error)),
        }
    }

    async fn unbind(&self, hub: &ApiServer) -> Result<()> {
        let Self { name, namespace, .. } = self;
        let parameters = DeleteParams {
            dry_run: self.dry_run,
            ..DeleteParams::default()
        };
        let api = hub.namespaced(&kinds::managed_cluster_set_binding(), namespace);
        match api.delete(name, &parameters).await {
            Ok(_) => output::say(format_args!(
                "Clusterset {name} is unbind from namespace {namespace}{}",
                output::note(self.dry_run)
            )),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                // A binding whose set is gone is unbound all the same; a name that nobody knows is a mistake in typing.
                existing(hub, name).await?;
                output::say(format_args!("Clusterset {name} is not bound to Namespace {namespace}"))
            }
            Err(error) => Err(hub.explain(&format!("could not unbind clusterset {name}"), &error)),
        }
    }
}

impl Set {
    async fn set(&self, hub: &ApiServer) -> Result<()> {
        let name = &self.name;
        let set = existing(hub, name).await?;
        if !self.clusters.is_empty() && set.data["spec"]["clusterSelector"]["selectorType"] == "LabelSelector" {
            bail!(
                "clusterset {name} takes its clusters by their labels; label the clusters instead \
                 (`drover get clustersets {name} -o wide` prints its selector)"
            );
        }
        let api = hub.all(&kinds::managed_cluster());
        // All of them are looked at before any of them is changed.
        let mut before = Vec::new();
        for cluster in &self.clusters {
            let found = api.get_opt(cluster).await;
            let found = found.map_err(|error| hub.explain(&format!("could not get cluster {cluster}"), &error))?;
            let Some(found) = found else {
                bail!("there is no cluster {cluster} on this hub; `drover get clusters` lists those there are");
            };
            let labels = found.metadata.labels.unwrap_or_default();
            before.push((
                cluster,
                labels.get(kinds::CLUSTER_SET_LABEL).cloned().unwrap_or_default(),
            ));
        }
        let parameters = PatchParams {
            dry_run: self.dry_run,
            ..PatchParams::default()
        };
        let note = output::note(self.dry_run);
        for (cluster, old) in before {
            if old == *name {
                output::say(format_args!("Cluster {cluster} is already in Clusterset {name}"))?;
                continue;
            }
            let patch = Patch::Merge(json!({ "metadata": { "labels": { (kinds::CLUSTER_SET_LABEL): name } } }));
            let made = api.patch(cluster, &parameters, &patch).await;
            made.map_err(|error| {
                hub.explain(
                    &format!("could not put cluster {cluster} into clusterset {name}"),
                    &error,
                )
            })?;
            if old.is_empty() {
                output::say(format_args!("Cluster {cluster} is set to Clusterset {name}{note}"))?;
            } else {
                output::say(format_args!(
                    "Cluster {cluster} is set, from ClusterSet {old} to Clusterset {name}{note}"
                ))?;
            }
        }
        if self.namespaces.is_empty() {
            return Ok(());
        }
        self.give(hub, &set).await
    }

    /// Adds the namespaces to those that the clusters of the set are to have.
    async fn give(&self, hub: &ApiServer, set: &DynamicObject) -> Result<()> {
        let name = &self.name;
        output::say(format_args!(
            "Processing managed namespaces: [{}]",
            self.namespaces.join(" ")
        ))?;
        let api = hub.all(&kinds::managed_cluster_set());
        let parameters = PatchParams {
            dry_run: self.dry_run,
            ..PatchParams::default()
        };
        let wanted = wanted(&self.namespaces);
        if wanted.is_empty() {
            return output::say(format_args!("\nNo changes made to Clusterset {name}"));
        }
        let mut set = set.clone();
        let mut tries = TRIES;
        let (added, count) = loop {
            let present = set.data["spec"]["managedNamespaces"].as_array();
            let mut all = present.cloned().unwrap_or_default();
            let is_known = |namespace: &&str| all.iter().any(|it| it["name"] == **namespace);
            let (known, added): (Vec<&str>, Vec<&str>) = wanted.iter().copied().partition(is_known);
            if tries == TRIES {
                for namespace in known {
                    output::say(format_args!(
                        "Managed namespace {namespace} already exists in Clusterset {name}"
                    ))?;
                }
            }
            if added.is_empty() {
                return output::say(format_args!(
                    "\nAll specified namespaces already exist in Clusterset {name}"
                ));
            }
            all.extend(added.iter().map(|it| json!({ "name": it })));
            let count = all.len();
            // The whole list is written: it must still be the one that was read.
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": set.metadata.resource_version },
                "spec": { "managedNamespaces": all },
            }));
            match api.patch(name, &parameters, &patch).await {
                Ok(_) => break (added, count),
                // The hub counts the set's clusters at the same moment: what was read is only old.
                Err(kube::Error::Api(status)) if status.is_conflict() && tries > 0 => {
                    tries -= 1;
                    let again = api.get(name).await;
                    set = again.map_err(|error| hub.explain(&format!("could not read clusterset {name}"), &error))?;
                }
                Err(error) => {
                    let what = format!("could not give namespaces to clusterset {name}");
                    return Err(hub.explain(&what, &error));
                }
            }
        };
        let note = output::note(self.dry_run);
        output::say(format_args!(
            "\nSuccessfully updated Clusterset {name}{note}\nAdded {} managed namespace(s): {}\n\
             Total managed namespaces in clusterset: {count}",
            added.len(),
            added.join(", ")
        ))
    }
}

/// The namespaces that were named, each once: the API takes no list that has one twice.
fn wanted(namespaces: &[String]) -> Vec<&str> {
    let mut wanted = Vec::new();
    for namespace in namespaces.iter().map(|it| it.trim()) {
        if !namespace.is_empty() && !wanted.contains(&namespace) {
            wanted.push(namespace);
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_given_once_however_often_it_is_named() {
        let named = ["b", " a", "b ", "", "a"].map(str::to_owned);
        assert_eq!(wanted(&named), ["b", "a"]);
        assert!(wanted(&[" ".to_owned()]).is_empty());
    }
}
