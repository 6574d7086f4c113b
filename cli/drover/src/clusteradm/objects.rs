//! `clusteradm create …`, `delete …` and `clusterset …`

use anyhow::{Result, bail};
use client::{connect::ApiServer, kinds};

use super::line::Line;
use crate::{
    command::{
        clusterset::{ClusterSet, Set, SetBindingFlags},
        create::{
            clusterset::CreateClusterSet,
            placement::Placement,
            sampleapp::CreateSampleApp,
            work::{CreateWork, Existing},
        },
        delete::{
            clusterset::{Deletion, delete as delete_set},
            work::{DeleteWork, FORCED_SECONDS},
        },
    },
    manifests,
};

const SET_MISSING: &str = "the name of the clusterset must be specified";

/// `create`
pub async fn create(what: &str, line: &Line<'_>) -> Result<()> {
    match what {
        "clusterset" => {
            let create = CreateClusterSet {
                name: line.word(SET_MISSING, "only one clusterset can be created")?,
                label_selector: None,
                dry_run: line.is_dry_run(),
            };
            create.create(&line.hub().await?).await
        }
        "placement" => placement(line).await,
        "sampleapp" => {
            let name = match line.words.as_slice() {
                [] => "sampleapp".to_owned(),
                [name] => name.clone(),
                _ => bail!("only one sample app name can be specified"),
            };
            let create = CreateSampleApp {
                name,
                output_file: line.file("output-file"),
                dry_run: line.is_dry_run(),
            };
            create.create(&line.hub().await?).await
        }
        _ => work(line).await,
    }
}

async fn placement(line: &Line<'_>) -> Result<()> {
    let count = line.flags.number("count");
    let placement = Placement {
        name: line.word(
            "placement name must be specified",
            "only one placement name can be specified",
        )?,
        namespace: line.flags.text("namespace").to_owned(),
        clustersets: line.flags.list("clustersets"),
        label_selectors: line.flags.list("label-selectors"),
        claim_selectors: None,
        prioritizers: line.flags.list("prioritizers"),
        count: u32::try_from(count).ok().filter(|it| *it > 0),
        overwrite: line.flags.is_on("overwrite"),
        dry_run: line.is_dry_run(),
    };
    let hub = line.hub().await?;
    for set in &placement.clustersets {
        is_bound(&hub, set, &placement.namespace, line.called).await?;
    }
    placement.create(&hub).await
}

/// A placement chooses nothing from a set that is not bound to its namespace.
async fn is_bound(hub: &ApiServer, set: &str, namespace: &str, called: &str) -> Result<()> {
    let bindings = hub.namespaced(&kinds::managed_cluster_set_binding(), namespace);
    let found = bindings.get_opt(set).await;
    let found = found.map_err(|error| hub.explain(&format!("could not look for the binding of {set}"), &error))?;
    if found.is_none() {
        bail!(
            "managedclustersetbindings.cluster.open-cluster-management.io {set:?} not found: clusterset {set} is not bound to \
             namespace {namespace}; `{called} clusterset bind {set} --namespace {namespace}` binds it"
        );
    }
    Ok(())
}

async fn work(line: &Line<'_>) -> Result<()> {
    let name = line.word("work name must be specified", "only one work name can be specified")?;
    let create = CreateWork {
        name,
        filename: line.flags.list("filename").into_iter().map(Into::into).collect(),
        recursive: line.flags.is_on("recursive"),
        clusters: line.clusters()?,
        placement: line.text("placement"),
        replicaset: line.flags.is_on("replicaset"),
        overwrite: line.flags.is_on("overwrite"),
        dry_run: line.is_dry_run(),
        output: None,
        present: Existing::Stays,
    };
    match (create.clusters.is_empty(), &create.placement) {
        (true, None) => bail!("--clusters or --placement must be specified"),
        (false, Some(_)) => bail!("--clusters and --placement can only specify one"),
        (false, None) if create.replicaset => bail!("--placement must be specified when enable --replicaset"),
        (true, Some(name)) if name.split('/').count() != 2 => {
            bail!("the name of the placement {name} must be in the format of <namespace>/<name>")
        }
        _ => {}
    }
    if create.filename.is_empty() {
        bail!("manifest files must be specified");
    }
    let hub = line.hub().await?;
    let manifests = manifests::read(&create.filename, create.recursive)?;
    create.bring(&hub, &manifests).await
}

/// `delete`
pub async fn delete(what: &str, line: &Line<'_>) -> Result<()> {
    match what {
        "clusterset" => {
            let name = line.word(SET_MISSING, "only one clusterset can be deleted")?;
            set(&line.hub().await?, &name, line.is_dry_run()).await
        }
        _ => {
            let name = line.word("work name must be specified", "only one work name can be specified")?;
            let delete = DeleteWork {
                name,
                clusters: line.some_clusters()?,
                no_wait: false,
                // As upstream, unless it was typed.
                timeout: Some(match line.flags.is_given("timeout") {
                    true => line.seconds(),
                    false => FORCED_SECONDS,
                }),
                force: line.flags.is_on("force"),
                dry_run: line.is_dry_run(),
            };
            delete.delete_all(&line.hub().await?).await
        }
    }
}

/// As upstream, a set that stays is told of on standard output, and is no failure.
async fn set(hub: &ApiServer, name: &str, dry_run: bool) -> Result<()> {
    match delete_set(hub, name, dry_run).await? {
        Deletion::Deleted { .. } => {
            let note = output::note(dry_run);
            output::say(format_args!("Clusterset {name} is deleted{note}"))
        }
        Deletion::NotFound => output::say(format_args!("Clusterset {name} not found or is already deleted")),
        Deletion::Permanent => output::say(format_args!("Clusterset {name} can not be deleted")),
        Deletion::Bound(_) => output::say(format_args!(
            "Clusterset {name} still bind to a namespace! Please unbind before deleted."
        )),
    }
}

/// `clusterset`
pub async fn clusterset(verb: &str, line: &Line<'_>) -> Result<()> {
    let name = line.word(SET_MISSING, "only one clusterset can be specified")?;
    let dry_run = line.is_dry_run();
    let binding = |name: String| -> Result<SetBindingFlags> {
        match line.text("namespace") {
            Some(namespace) => Ok(SetBindingFlags {
                name,
                namespace,
                dry_run,
            }),
            None => bail!("namespace name must be specified in --namespace"),
        }
    };
    let change = match verb {
        "bind" => ClusterSet::Bind(binding(name)?),
        "unbind" => ClusterSet::Unbind(binding(name)?),
        _ => {
            let set = Set {
                name,
                clusters: line.flags.list("clusters"),
                namespaces: line.flags.list("namespaces"),
                dry_run,
            };
            if set.clusters.is_empty() && set.namespaces.is_empty() {
                bail!("at least one cluster (--clusters) or namespace (--namespaces) must be specified");
            }
            ClusterSet::Set(set)
        }
    };
    change.change(&line.hub().await?).await
}
