//! The add-ons that a hub offers and those that its clusters have, as the commands that list them show them.

use anyhow::{Result, bail};
use client::{connect::ApiServer, kinds};
use kube::{
    api::ListParams,
    core::{ApiResource, DynamicObject},
};
use output::{Data, Format, RequestedObjects};

/// What the hub offers, of these names or, where none is given, all of it.
pub async fn offered(hub: &ApiServer, names: &[String]) -> Result<Vec<DynamicObject>> {
    let kind = kinds::cluster_management_add_on();
    listed(hub, &kind, names, "could not list the add-ons of the hub").await
}

/// What the clusters have, of these names or, where none is given, all of it.
pub async fn installed(hub: &ApiServer, names: &[String]) -> Result<Vec<DynamicObject>> {
    let kind = kinds::managed_cluster_add_on();
    listed(hub, &kind, names, "could not list the add-ons of the clusters").await
}

async fn listed(hub: &ApiServer, kind: &ApiResource, names: &[String], failed: &str) -> Result<Vec<DynamicObject>> {
    let page = hub.all(kind).list(&ListParams::default()).await;
    let mut found = page.map_err(|error| hub.explain(failed, &error))?.items;
    found.retain(|it| names.is_empty() || names.contains(&name(it)));
    for it in &mut found {
        it.metadata.managed_fields = None;
    }
    Ok(found)
}

/// The objects in a format for programs, or nothing where a table is wanted. `resource` is what stands before each
/// name.
pub fn encode(
    objects: &[DynamicObject],
    asked: RequestedObjects,
    resource: &str,
    format: Format,
) -> Result<Option<String>> {
    Ok(match format {
        Format::Json => Some(output::encode(&output::objects(objects, asked)?, Data::Json)?),
        Format::Yaml => Some(output::encode(&output::objects(objects, asked)?, Data::Yaml)?),
        Format::Name => {
            let line = |it: &DynamicObject| format!("{resource}.addon.open-cluster-management.io/{}\n", name(it));
            Some(objects.iter().map(line).collect())
        }
        Format::Table | Format::Wide => None,
    })
}

/// Refuses a name that neither the hub offers nor a cluster has.
pub fn check_names(names: &[String], offered: &[DynamicObject], installed: &[DynamicObject]) -> Result<()> {
    let is_known = |wanted: &&String| offered.iter().chain(installed).any(|it| name(it) == **wanted);
    match names.iter().find(|it| !is_known(it)) {
        Some(unknown) => bail!("there is no add-on {unknown} on this hub; `drover addon list` lists those there are"),
        None => Ok(()),
    }
}

/// An add-on's name.
pub fn name(it: &DynamicObject) -> String {
    it.metadata.name.clone().unwrap_or_default()
}

/// The cluster that has it.
pub fn cluster(it: &DynamicObject) -> String {
    it.metadata.namespace.clone().unwrap_or_default()
}
