//! What keeps an add-on's configuration and manifests from reaching its cluster.

use std::sync::Arc;

use kube::ResourceExt;
use ocm_api::{
    Condition, Status,
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    condition,
    conditions::{
        managed_cluster_add_on::{self as types, progressing_reason},
        manifest_work,
    },
    labels,
    work::{ManifestCondition, ManifestWork},
};
use placement::rollout::{Turn, Wait};

use super::{Seen, find, says};
use crate::hub::{
    config_references,
    configuration::graph::{Graph, Inherited},
    facts,
    placements::InstallPlacement,
};

/// What keeps the configuration.
pub fn configuration(seen: &Seen, addon: &ManagedClusterAddOn, offer: &ClusterManagementAddOn) -> Vec<String> {
    let mut said = Vec::new();
    for it in facts::references(addon) {
        let Some(config) = it.desired_config.as_ref().filter(|it| it.spec_hash.is_empty()) else {
            continue;
        };
        // A template that is missing is told as what the add-on is made of.
        let is_registered =
            find(addon, types::REGISTRATION_APPLIED).is_some_and(|it| it.status == Status::True.as_str());
        if it.resource == "addontemplates" && !is_registered {
            continue;
        }
        let group = if it.group.is_empty() {
            String::new()
        } else {
            format!(".{}", it.group)
        };
        said.push(format!(
            "Its configuration {}{group} {} is not found on the hub.",
            it.resource,
            facts::named(config)
        ));
    }
    let progressing = find(addon, types::PROGRESSING);
    if let Some(it) = progressing.filter(|it| it.reason == progressing_reason::UNSUPPORTED) {
        said.push(format!("{}.", says(it)));
    }
    if facts::is_managed(offer) {
        said.extend(turn(seen, offer));
    }
    said
}

/// Its turn in a rollout, if it waits for one.
fn turn(seen: &Seen, offer: &ClusterManagementAddOn) -> Option<String> {
    if !config_references::is_told(offer) {
        return Some(format!(
            "The hub has not worked out the configurations of ClusterManagementAddOn {} yet; is the hub process running?",
            seen.name
        ));
    }
    let strategies: &[_] = if facts::follows_placements(offer) {
        &offer.spec.install_strategy.placements
    } else {
        &[]
    };
    let chosen: Vec<InstallPlacement> = strategies
        .iter()
        .map(|strategy| {
            let of = |namespace: Option<String>| namespace.as_deref() == Some(&strategy.namespace);
            let placement = seen
                .placements
                .iter()
                .find(|it| of(it.namespace()) && it.name_any() == strategy.name);
            let decisions = seen
                .decisions
                .iter()
                .filter(|it| of(it.namespace()) && it.labels().get(labels::PLACEMENT) == Some(&strategy.name));
            InstallPlacement {
                name: format!("{}/{}", strategy.namespace, strategy.name),
                placement: placement.cloned().map(Arc::new),
                decisions: decisions.cloned().map(Arc::new).collect(),
            }
        })
        .collect();
    let inherited = Inherited::of(offer);
    let others = seen
        .everywhere
        .iter()
        .filter(|it| it.name_any() == seen.name && facts::cluster(it) != seen.cluster_name);
    let graph = Graph::of(offer, &inherited, &chosen, others.chain(&seen.addon), seen.now);
    let add_on = graph.add_ons.get(seen.cluster_name.as_str())?;
    let node = add_on.node?;
    let strategy = &strategies[node];
    let placement = format!("{}/{}", strategy.namespace, strategy.name);
    let rollout = match &graph.nodes[node].rollout {
        Ok(rollout) => rollout,
        Err(why) => return Some(format!("Its configuration is held back: placement {placement}: {why}.")),
    };
    let verdict = rollout.of(&seen.cluster_name)?;
    match verdict.turn {
        Turn::Wait(wait) => {
            let waiting = rollout.clusters.iter().filter(|it| matches!(it.turn, Turn::Wait(_)));
            let before = waiting.take_while(|it| it.cluster != seen.cluster_name).count();
            let place = match wait {
                Wait::Breach { .. } => String::new(),
                _ => format!(" It is number {} of those that wait.", before + 1),
            };
            Some(format!(
                "Its new configuration waits for its turn in the rollout of placement {placement}: {wait}.{place}"
            ))
        }
        Turn::TimesOut | Turn::GaveUp => Some(format!(
            "It did not arrive with its new configuration in the time that the rollout of placement {placement} allows."
        )),
        _ => None,
    }
}

/// What keeps the manifests.
pub fn manifests(seen: &Seen, addon: &ManagedClusterAddOn) -> Vec<String> {
    let mut said = Vec::new();
    let conditions = [
        (types::MANIFEST_APPLIED, "Its manifests are not delivered"),
        (
            types::HOSTING_MANIFEST_APPLIED,
            "Its manifests are not delivered to its host",
        ),
        (types::HOSTING_CLUSTER_VALIDITY, "It cannot be hosted"),
    ];
    let works: Vec<String> = works(seen, addon, false).flat_map(|it| of_work(seen, it)).collect();
    for (r#type, begins) in conditions {
        // The works say more than the sum of what they say.
        let failed = find(addon, r#type).filter(|it| it.status != Status::True.as_str());
        said.extend(
            failed
                .filter(|_| works.is_empty())
                .map(|it| format!("{begins}: {}.", says(it))),
        );
    }
    said.extend(works);
    said.extend(not_hosted(seen, addon));
    if said.is_empty() && find(addon, types::MANIFEST_APPLIED).is_none() {
        said.push("Its manager has not made its manifests yet.".to_owned());
    }
    said
}

/// That it is annotated to be hosted, and is not.
fn not_hosted(seen: &Seen, addon: &ManagedClusterAddOn) -> Option<String> {
    let host = facts::hosting_cluster(addon).filter(|it| !it.is_empty())?;
    let is_told = find(addon, types::HOSTING_MANIFEST_APPLIED).is_some();
    (is_told && find(addon, types::HOSTING_CLUSTER_VALIDITY).is_none()).then(|| {
        format!(
            "It is annotated to be hosted by {host}, and it is an add-on that does not run hosted: all of it is on {}.",
            seen.cluster_name
        )
    })
}

/// What keeps its hooks from completing.
pub fn of_hooks(seen: &Seen, addon: &ManagedClusterAddOn) -> Vec<String> {
    works(seen, addon, true).flat_map(|it| of_work(seen, it)).collect()
}

fn works<'a>(
    seen: &'a Seen,
    addon: &'a ManagedClusterAddOn,
    hooks: bool,
) -> impl Iterator<Item = &'a ManifestWork> + 'a {
    let hook = format!("addon-{}-pre-delete", seen.name);
    let key = format!("{}/{}", facts::cluster(addon), seen.name);
    let works = seen.works.iter();
    works.filter(move |it| {
        crate::hub::indexes::add_on_of(it).as_deref() == Some(&key) && it.name_any().starts_with(&hook) == hooks
    })
}

fn of_work(seen: &Seen, work: &ManifestWork) -> Vec<String> {
    let name = format!("{}/{}", work.namespace().unwrap_or_default(), work.name_any());
    let status = work.status.clone().unwrap_or_default();
    let host = work.namespace().unwrap_or_else(|| seen.cluster_name.clone());
    let Some(applied) = condition::find(&status.conditions, manifest_work::APPLIED) else {
        return vec![format!("The agent of {host} has not reported on work {name} yet.")];
    };
    if applied.observed_generation != work.metadata.generation {
        return vec![format!(
            "The agent of {host} has not seen the newest state of work {name} yet."
        )];
    }
    let manifests = &status.resource_status.manifests;
    manifests.iter().flat_map(|it| of_manifest(&name, it)).collect()
}

fn of_manifest(work: &str, manifest: &ManifestCondition) -> Vec<String> {
    let meta = &manifest.resource_meta;
    let place = if meta.namespace.is_empty() {
        String::new()
    } else {
        format!("{}/", meta.namespace)
    };
    let what = match (meta.kind.as_str(), meta.name.as_str()) {
        ("", _) => format!("Manifest {} of work {work}", meta.ordinal),
        (kind, name) => format!("{kind} {place}{name} of work {work}"),
    };
    let said = |it: &Condition| match it.type_.as_str() {
        manifest_work::APPLIED => {
            let why = says(it).trim_start_matches("Failed to apply manifest: ");
            Some(format!("{what} is not applied: {why}."))
        }
        // What is not applied is not there; that was said.
        manifest_work::AVAILABLE if condition::is_true(&manifest.conditions, manifest_work::APPLIED) => {
            Some(format!("{what} is not found on the cluster: {}.", says(it)))
        }
        _ => None,
    };
    let failed = manifest
        .conditions
        .iter()
        .filter(|it| it.status != Status::True.as_str());
    failed.filter_map(said).collect()
}
