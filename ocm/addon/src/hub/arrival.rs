//! How far an add-on is with arriving on its cluster, by its works and the configurations they were made from.

use std::{collections::BTreeMap, sync::Arc};

use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::{ConfigReference, ManagedClusterAddOn},
    annotations, condition,
    conditions::{
        managed_cluster_add_on::{self, progressing_reason as reason},
        manifest_work,
    },
    labels,
    work::ManifestWork,
};

use super::facts;

/// Whether it is still on its way, why, and what to say.
pub fn judge(addon: &ManagedClusterAddOn, works: &[Arc<ManifestWork>]) -> (bool, &'static str, String) {
    if let Some((group, resource)) = unsupported(addon) {
        let message = format!("Configuration with gvr {group}/{resource} is not supported for this addon");
        return (false, reason::UNSUPPORTED, message);
    }
    let lacks = |r#type: &str| condition::find(facts::conditions(addon), r#type).is_none();
    if lacks(managed_cluster_add_on::MANIFEST_APPLIED) {
        let message = "Waiting for ManagedClusterAddOn ManifestApplied condition".to_owned();
        return (false, reason::WAITING_FOR_MANIFEST_APPLIED, message);
    }
    let host = facts::hosting_cluster(addon);
    if host.is_some() && lacks(managed_cluster_add_on::HOSTING_MANIFEST_APPLIED) {
        let message = "Waiting for ManagedClusterAddOn HostingManifestApplied condition".to_owned();
        return (false, reason::WAITING_FOR_HOSTING_MANIFEST_APPLIED, message);
    }
    let under_way = |what: &str| (true, reason::PROGRESSING, format!("progressing... {what}"));
    let works: Vec<&ManifestWork> = works
        .iter()
        .map(|it| &**it)
        .filter(|it| is_of(it, addon, host))
        .collect();
    if works.is_empty() {
        return under_way("no addon works");
    }
    let hook = format!("addon-{}-pre-delete", addon.name_any());
    for work in works.iter().filter(|it| !it.name_any().starts_with(&hook)) {
        if !is_configured(work, facts::references(addon)) {
            return under_way("mca and work configs mismatch");
        }
        if !is_ready(work) {
            return under_way("work is not ready");
        }
    }
    (false, reason::COMPLETED, "completed with no errors.".to_owned())
}

/// A configuration of the add-on's own that its manager does not understand.
fn unsupported(addon: &ManagedClusterAddOn) -> Option<(&str, &str)> {
    let supported = addon.status.as_ref().map_or(&[][..], |it| &it.supported_configs);
    let strange = addon.spec.configs.iter().find(|it| {
        !supported
            .iter()
            .any(|known| known.group == it.group && known.resource == it.resource)
    })?;
    Some((&strange.group, &strange.resource))
}

/// Whether a work labelled with the add-on belongs to it where its agent runs now.
fn is_of(work: &ManifestWork, addon: &ManagedClusterAddOn, host: Option<&str>) -> bool {
    let namespace = work.metadata.namespace.as_deref().unwrap_or_default();
    match work.labels().contains_key(labels::ADDON_NAMESPACE) {
        true => host == Some(namespace),
        false => namespace == facts::cluster(addon),
    }
}

/// Whether a work was made from the configurations that are desired.
fn is_configured(work: &ManifestWork, references: &[ConfigReference]) -> bool {
    let Some(text) = work.annotations().get(annotations::CONFIG_SPEC_HASH) else {
        return references.is_empty();
    };
    let Ok(used) = serde_json::from_str::<BTreeMap<String, String>>(text) else {
        return false;
    };
    used.values().all(|it| !it.is_empty()) && used == hashes(references)
}

/// `<resource>.<group>/<namespace>/<name>` and the hash of each configuration that is desired.
fn hashes(references: &[ConfigReference]) -> BTreeMap<String, String> {
    let one = |it: &ConfigReference| {
        let config = it.desired_config.as_ref()?;
        let group = if it.group.is_empty() {
            String::new()
        } else {
            format!(".{}", it.group)
        };
        let key = format!("{}{group}/{}/{}", it.resource, config.namespace, config.name);
        Some((key, config.spec_hash.clone()))
    };
    references.iter().filter_map(one).collect()
}

/// Whether the agent has applied the work as it is now, and found its objects.
fn is_ready(work: &ManifestWork) -> bool {
    let conditions = work.status.as_ref().map_or(&[][..], |it| &it.conditions);
    [manifest_work::APPLIED, manifest_work::AVAILABLE]
        .into_iter()
        .all(|it| {
            condition::find(conditions, it)
                .is_some_and(|it| it.status == "True" && it.observed_generation == work.metadata.generation)
        })
}
