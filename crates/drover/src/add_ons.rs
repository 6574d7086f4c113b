//! The add-ons that a hub offers and those that its clusters have, as the commands that list them show them.

use anyhow::Result;
use kube::{
    api::ListParams,
    core::{ApiResource, DynamicObject},
};

use crate::{
    connect::Target,
    kinds,
    output::{self, Data, Format},
};

/// What the hub offers, of these names or, where none is given, all of it.
pub async fn offered(hub: &Target, names: &[String]) -> Result<Vec<DynamicObject>> {
    let kind = kinds::cluster_management_add_on();
    listed(hub, &kind, names, "could not list the add-ons of the hub").await
}

/// What the clusters have, of these names or, where none is given, all of it.
pub async fn installed(hub: &Target, names: &[String]) -> Result<Vec<DynamicObject>> {
    let kind = kinds::managed_cluster_add_on();
    listed(hub, &kind, names, "could not list the add-ons of the clusters").await
}

async fn listed(hub: &Target, kind: &ApiResource, names: &[String], failed: &str) -> Result<Vec<DynamicObject>> {
    let page = hub.all(kind).list(&ListParams::default()).await;
    let mut found = page.map_err(|error| hub.explain(failed, &error))?.items;
    found.retain(|it| names.is_empty() || names.contains(&name(it)));
    for it in &mut found {
        it.metadata.managed_fields = None;
    }
    Ok(found)
}

/// The objects in a format for programs, or nothing where a table is wanted. `resource` is what stands before each name.
pub fn encode(objects: &[DynamicObject], resource: &str, format: Option<Format>) -> Result<Option<String>> {
    Ok(match format {
        Some(Format::Json) => Some(output::encode(&output::objects(objects)?, Data::Json)?),
        Some(Format::Yaml) => Some(output::encode(&output::objects(objects)?, Data::Yaml)?),
        Some(Format::Name) => {
            let line = |it: &DynamicObject| format!("{resource}.addon.open-cluster-management.io/{}\n", name(it));
            Some(objects.iter().map(line).collect())
        }
        None | Some(Format::Wide) => None,
    })
}

/// An add-on's name.
pub fn name(it: &DynamicObject) -> String {
    it.metadata.name.clone().unwrap_or_default()
}

/// The cluster that has it.
pub fn cluster(it: &DynamicObject) -> String {
    it.metadata.namespace.clone().unwrap_or_default()
}
