//! `clusteradm get …`

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use client::{clusters, connect::ApiServer, kinds};
use clusteradm::print::{self, Format, addons::AddOns, clustersets::Around};
use kube::api::ListParams;
use ocm_api::cluster::{ManagedClusterSet, Membership};

use super::line::{Line, paint};
use crate::{add_ons, command::get};

/// Prints what was asked for.
pub async fn run(what: &str, line: &Line<'_>) -> Result<()> {
    match what {
        "addon" => add_ons_of(line).await,
        "clusters" => clusters_of(line).await,
        "clustersets" => sets(line).await,
        "placements" => placements(line).await,
        _ => works(line).await,
    }
}

fn no_words(line: &Line<'_>) -> Result<()> {
    if !line.words.is_empty() {
        bail!("there should be no argument");
    }
    Ok(())
}

async fn clusters_of(line: &Line<'_>) -> Result<()> {
    let format = line.format()?;
    no_words(line)?;
    let hub = line.hub().await?;
    let clusters = get::clusters::list(&hub, line.flags.some("clusterset"), None).await?;
    output::print(&match format {
        Format::Tree => print::clusters::tree(&clusters),
        Format::Table => print::clusters::table(&clusters),
        Format::Yaml => print::yaml(&clusters)?,
    })
}

async fn sets(line: &Line<'_>) -> Result<()> {
    let format = line.format()?;
    no_words(line)?;
    let hub = line.hub().await?;
    let sets = get::clustersets::list(&hub).await?;
    if format == Format::Yaml {
        return output::print(&print::yaml(&sets)?);
    }
    let mut around = Around {
        namespaces: clusters::bindings(&hub).await?,
        clusters: BTreeMap::new(),
    };
    if format == Format::Table {
        return output::print(&print::clustersets::table(&sets, &around));
    }
    let clusters = get::clusters::list(&hub, None, None).await?;
    for set in &sets {
        let typed: ManagedClusterSet = serde_json::from_value(serde_json::to_value(set)?)?;
        let members = Membership::of([&typed]);
        let of = clusters.iter().filter(|it| get::clusters::is_member(&members, it));
        let names = of.filter_map(|it| it.metadata.name.clone()).collect();
        around.clusters.insert(add_ons::name(set), names);
    }
    output::print(&print::clustersets::tree(&sets, &around))
}

async fn works(line: &Line<'_>) -> Result<()> {
    let format = line.format()?;
    let name = match line.words.as_slice() {
        [] => None,
        [name] => Some(name.as_str()),
        _ => bail!("can only specify one manifestwork"),
    };
    let names = line.some_clusters()?;
    let hub = line.hub().await?;
    clusters::exist(&hub, &names).await?;
    let works = get::works::list(&hub, &names, name).await?;
    output::print(&match format {
        Format::Tree => print::works::tree(&works, paint()),
        Format::Table => print::works::table(&works),
        Format::Yaml => print::yaml(&works)?,
    })
}

async fn placements(line: &Line<'_>) -> Result<()> {
    let format = line.format()?;
    let name = match line.words.as_slice() {
        [] => None,
        [name] => Some(name),
        _ => bail!("the number of placement name should be 0 or 1"),
    };
    let namespace = line.flags.some("namespace");
    let hub = line.hub().await?;
    if let Some(namespace) = namespace {
        namespace_exists(&hub, namespace).await?;
    }
    let mut placements = get::placements::list(&hub, namespace).await?;
    placements.retain(|it| name.is_none() || it.metadata.name.as_ref() == name);
    let chosen = match format {
        Format::Yaml => return output::print(&print::yaml(&placements)?),
        _ => get::placements::chosen(&hub, namespace).await?,
    };
    output::print(&match format {
        Format::Table => print::placements::table(&placements, &chosen),
        _ => print::placements::tree(&placements, &chosen, paint()),
    })
}

async fn namespace_exists(hub: &ApiServer, name: &str) -> Result<()> {
    let found = hub.all(&kinds::namespace()).get_opt(name).await;
    let found = found.map_err(|error| hub.explain(&format!("could not get namespace {name}"), &error))?;
    if found.is_none() {
        bail!("namespaces {name:?} not found");
    }
    Ok(())
}

async fn add_ons_of(line: &Line<'_>) -> Result<()> {
    let format = line.format()?;
    let clusters = line.clusters()?;
    let hub = line.hub().await?;
    let mut offered = add_ons::offered(&hub, &line.words).await?;
    offered.sort_by_key(add_ons::name);
    if format == Format::Yaml {
        return output::print(&print::yaml(&offered)?);
    }
    let mut installed = add_ons::installed(&hub, &line.words).await?;
    installed.retain(|it| clusters.is_empty() || clusters.contains(&add_ons::cluster(it)));
    let mut all = AddOns {
        offered,
        installed,
        works: Vec::new(),
    };
    if format == Format::Table {
        return output::print(&all.table());
    }
    let labelled = ListParams::default().labels(kinds::ADDON_NAME_LABEL);
    let works = hub.all(&kinds::manifest_work()).list(&labelled).await;
    all.works = works
        .map_err(|error| hub.explain("could not list the works of add-ons", &error))?
        .items;
    output::print(&all.tree(paint()))
}
