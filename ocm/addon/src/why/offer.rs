//! Why an add-on is not on a cluster, or nobody on the hub has taken it up there.

use kube::ResourceExt;
use ocm_api::{
    addon::{
        PlacementStrategy,
        v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    },
    conditions::managed_cluster_add_on as types,
    labels,
};

use super::{Seen, find};
use crate::hub::{facts, owner, templates};

/// Why there is no ManagedClusterAddOn.
pub fn not_installed(seen: &Seen) -> String {
    let (cluster, name) = (&seen.cluster_name, &seen.name);
    let Some(offer) = &seen.cluster_management_addon else {
        return format!("The hub knows no add-on {name}: there is no ClusterManagementAddOn of this name.");
    };
    if !facts::follows_placements(offer) {
        return format!(
            "Nobody has enabled the add-on on {cluster}: run `drover addon enable --names {name} --clusters {cluster}`."
        );
    }
    if !facts::is_managed(offer) {
        return format!("ClusterManagementAddOn {name} says that its own manager installs it; see there.");
    }
    let placements = &offer.spec.install_strategy.placements;
    if placements.is_empty() {
        return format!("ClusterManagementAddOn {name} installs it through placements, and names none.");
    }
    if placements.iter().any(|it| exists(seen, it) && has_chosen(seen, it)) {
        return format!(
            "A placement has chosen {cluster}, and the hub has not installed it yet; is the hub process running?"
        );
    }
    let each = placements.iter().map(|it| {
        let placement = format!("{}/{}", it.namespace, it.name);
        if exists(seen, it) {
            format!("placement {placement} has not chosen {cluster}")
        } else {
            format!("there is no placement {placement}")
        }
    });
    let each: Vec<String> = each.collect();
    format!("It is installed through placements: {}.", each.join("; "))
}

fn exists(seen: &Seen, wanted: &PlacementStrategy) -> bool {
    let mut all = seen.placements.iter();
    all.any(|it| it.namespace().as_deref() == Some(&wanted.namespace) && it.name_any() == wanted.name)
}

fn has_chosen(seen: &Seen, placement: &PlacementStrategy) -> bool {
    let of_placement = |it: &&ocm_api::cluster::PlacementDecision| {
        it.namespace().as_deref() == Some(&placement.namespace)
            && it.labels().get(labels::PLACEMENT) == Some(&placement.name)
    };
    let decisions = seen.decisions.iter().filter(of_placement);
    decisions
        .flat_map(|it| &it.status)
        .flat_map(|it| &it.decisions)
        .any(|it| it.cluster_name == seen.cluster_name)
}

/// Why nobody has begun to look after the add-on on the cluster.
pub fn not_taken_up(seen: &Seen, addon: &ManagedClusterAddOn, offer: &ClusterManagementAddOn) -> Option<String> {
    let name = &seen.name;
    if find(addon, types::REGISTRATION_APPLIED).is_some() {
        return None;
    }
    let owners = addon
        .owner_references()
        .iter()
        .filter(|it| owner::is_to_cluster_management_addon(it));
    let owners: Vec<&str> = owners.map(|it| it.uid.as_str()).collect();
    if !owners.contains(&offer.metadata.uid.as_deref().unwrap_or_default()) {
        return Some(if !owners.is_empty() {
            format!(
                "It belongs to an earlier ClusterManagementAddOn {name}, which was deleted, and is removed with it."
            )
        } else if facts::is_managed(offer) {
            format!("The hub has not connected it to ClusterManagementAddOn {name} yet; is the hub process running?")
        } else {
            format!(
                "ClusterManagementAddOn {name} says that its own manager looks after it, and that has not happened yet."
            )
        });
    }
    if templates::is_of_template(offer) {
        return Some(match template(addon) {
            None => "No AddOnTemplate is configured for it on this cluster yet.".to_owned(),
            Some(it) if it.1.is_empty() => format!("There is no AddOnTemplate {}.", it.0),
            Some(it) => format!(
                "AddOnTemplate {} is configured, and the hub has not begun with it yet; is the hub process running?",
                it.0
            ),
        });
    }
    Some(format!(
        "No manager on this hub has taken it up: the program that looks after add-on {name} does not run, or is not connected to \
         this hub."
    ))
}

/// Name and hash of the template that is meant for the cluster.
fn template(addon: &ManagedClusterAddOn) -> Option<(&str, &str)> {
    let mut references = facts::references(addon).iter();
    let reference = references.find(|it| it.resource == "addontemplates")?;
    let config = reference.desired_config.as_ref()?;
    Some((&config.name, &config.spec_hash))
}
