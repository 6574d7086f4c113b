//! The works of an add-on as they should be, and what separates a work from that.
//! Upstream: addon-framework `pkg/addonmanager/controllers/agentdeploy/utils.go`, sdk-go `pkg/apis/work/v1/applier`.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{ResourceExt, api::ObjectMeta};
use ocm_api::{
    RawObject,
    addon::{v1alpha1::ManagedClusterAddOn, v1beta1},
    annotations, labels,
    work::{ManifestConfigOption, ManifestWork, ManifestWorkSpec, ManifestsTemplate},
};

use super::{
    manifest::{self, Share, Shares, Side},
    names::{Names, Part},
    options,
    split::{self, Present},
};
use crate::Health;

/// What the works are made from.
#[derive(Clone, Copy)]
pub struct Ingredients<'i> {
    /// The add-on on this cluster.
    pub addon: &'i ManagedClusterAddOn,
    /// The cluster that hosts the agent; `None` when none does, or none that may be used.
    pub hosting: Option<&'i str>,
    /// How its health is known.
    pub health: &'i Health,
    /// How single objects are updated and reported on.
    pub manifest_configs: &'i [ManifestConfigOption],
    /// All works the add-on has.
    pub present: &'i [Arc<ManifestWork>],
}

/// A work as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedWork {
    /// Which part of the add-on it is.
    pub part: Part,
    /// The work.
    pub work: ManifestWork,
}

impl WantedWork {
    /// Its namespace and name.
    pub fn name(&self) -> (&str, &str) {
        name_of(&self.work)
    }
}

/// The namespace and name of a work.
pub fn name_of(work: &ManifestWork) -> (&str, &str) {
    (
        work.metadata.namespace.as_deref().unwrap_or_default(),
        work.metadata.name.as_deref().unwrap_or_default(),
    )
}

/// How the framework names an add-on on a cluster.
pub fn names(addon: &ManagedClusterAddOn) -> Names<'_> {
    Names {
        addon: addon.metadata.name.as_deref().unwrap_or_default(),
        cluster: addon.metadata.namespace.as_deref().unwrap_or_default(),
    }
}

/// The works that bring these manifests to their sides, hooks included. Whether the works
/// with hooks are written is decided when the add-on goes.
pub fn wanted(from: &Ingredients<'_>, shares: Shares) -> Vec<WantedWork> {
    let mut all = side(from, Side::Managed, shares.managed);
    if from.hosting.is_some() {
        all.extend(side(from, Side::Hosting, shares.hosting));
    }
    all
}

fn side(from: &Ingredients<'_>, side: Side, share: Share) -> Vec<WantedWork> {
    let names = names(from.addon);
    let namespace = match side {
        Side::Managed => names.cluster,
        Side::Hosting => from.hosting.unwrap_or_default(),
    };
    // Probes of the Work type name objects on their own and are in every work, as upstream has it.
    let probes = options::probes(from.health, &share.deployed);
    let deployed = ManifestWorkSpec {
        delete_option: options::delete_option(&share.deployed),
        manifest_configs: options::manifest_configs(&probes, from.manifest_configs.to_vec()),
        ..ManifestWorkSpec::default()
    };
    let hooks = ManifestWorkSpec {
        workload: ManifestsTemplate {
            manifests: share.hooks.iter().cloned().map(RawObject).collect(),
        },
        delete_option: options::delete_option(&share.hooks),
        manifest_configs: options::manifest_configs(
            &options::hook_probes(&share.hooks),
            from.manifest_configs.to_vec(),
        ),
        executor: None,
    };
    let present: Vec<_> = from
        .present
        .iter()
        .filter(|it| it.metadata.namespace.as_deref() == Some(namespace))
        .filter_map(|it| match names.part(it.metadata.name.as_deref()?)? {
            Part::Deployed(at, index) if at == side => Some(Present {
                index,
                manifests: it.spec.workload.manifests.read(),
                leaving: it.metadata.deletion_timestamp.is_some(),
            }),
            _ => None,
        })
        .collect();
    let loads = split::split(&present, share.deployed.into_iter().map(RawObject).collect());
    let mut works: Vec<_> = loads
        .into_iter()
        .map(|load| {
            let mut spec = deployed.clone();
            spec.workload.manifests = load.manifests.into();
            work(from.addon, namespace, Part::Deployed(side, load.index), spec)
        })
        .collect();
    if !hooks.workload.manifests.is_empty() {
        works.push(work(from.addon, namespace, Part::Hooks(side), hooks));
    }
    works
}

fn work(addon: &ManagedClusterAddOn, namespace: &str, part: Part, spec: ManifestWorkSpec) -> WantedWork {
    let names = names(addon);
    let at_home = namespace == names.cluster;
    let mut labels = BTreeMap::from([(labels::ADDON_NAME.to_owned(), names.addon.to_owned())]);
    if !at_home {
        labels.insert(labels::ADDON_NAMESPACE.to_owned(), names.cluster.to_owned());
    }
    let references = addon.status.as_ref().map_or(&[][..], |it| &it.config_references);
    let annotation = match part {
        Part::Deployed(..) => options::config_annotation(references),
        Part::Hooks(_) => None,
    };
    let work = ManifestWork {
        metadata: ObjectMeta {
            name: Some(names.of(part)),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            annotations: annotation.map(|it| [(annotations::CONFIG_SPEC_HASH.to_owned(), it)].into()),
            // An owner must be in the same namespace, so that works elsewhere are cleaned up by a finalizer instead.
            owner_references: at_home.then(|| vec![owner(addon)]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    };
    WantedWork { part, work }
}

/// The add-on as the owner of its works.
pub fn owner(addon: &ManagedClusterAddOn) -> OwnerReference {
    OwnerReference {
        api_version: v1beta1::ManagedClusterAddOn::API_VERSION.to_owned(),
        kind: ManagedClusterAddOn::KIND.to_owned(),
        name: addon.metadata.name.clone().unwrap_or_default(),
        uid: addon.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The present work with everything said that `wanted` says, or nothing when it says it already. Labels, annotations
/// and owners of others are left alone; upstream removes them.
pub fn changed(present: &ManifestWork, wanted: &ManifestWork) -> Option<ManifestWork> {
    let mut next = present.clone();
    let ours = |it: &ManifestWork, key: &str| it.labels().get(key).cloned();
    for key in [labels::ADDON_NAME, labels::ADDON_NAMESPACE] {
        set(next.labels_mut(), key, ours(wanted, key));
    }
    let hashes = wanted.annotations().get(annotations::CONFIG_SPEC_HASH).cloned();
    set(next.annotations_mut(), annotations::CONFIG_SPEC_HASH, hashes);
    for owner in wanted.owner_references() {
        keep_owner(next.owner_references_mut(), owner);
    }
    next.spec = wanted.spec.clone();
    if says_the_same(
        &present.spec.workload.manifests.read(),
        &wanted.spec.workload.manifests.read(),
    ) {
        next.spec.workload = present.spec.workload.clone();
    }
    normalize(&mut next.metadata);
    let mut before = present.metadata.clone();
    normalize(&mut before);
    (next.metadata != before || next.spec != present.spec).then_some(next)
}

// An empty map and none are the same to everybody but to `==`.
fn normalize(metadata: &mut ObjectMeta) {
    metadata.labels.take_if(|it| it.is_empty());
    metadata.annotations.take_if(|it| it.is_empty());
    metadata.owner_references.take_if(|it| it.is_empty());
}

fn set(map: &mut BTreeMap<String, String>, key: &str, value: Option<String>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.remove(key),
    };
}

// A reference of any version is ours when it names our add-on; one with another uid names an add-on that is gone,
// whose work we take over.
fn keep_owner(owners: &mut Vec<OwnerReference>, owner: &OwnerReference) {
    let group = |it: &OwnerReference| it.api_version.split_once('/').map(|(group, _)| group.to_owned());
    let same = |it: &OwnerReference| group(it) == group(owner) && it.kind == owner.kind && it.name == owner.name;
    if owners.iter().any(|it| same(it) && it.uid == owner.uid) {
        return;
    }
    owners.retain(|it| !same(it));
    owners.push(owner.clone());
}

fn says_the_same(one: &[RawObject], other: &[RawObject]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(one, other)| manifest::same(&one.0, &other.0))
}

#[cfg(test)]
#[path = "works_tests.rs"]
mod tests;
