//! What was brought into line, so that nothing is rendered again before something that matters has changed.
//!
//! Two numbers for each add-on on each cluster: a fingerprint of what its manifests are made from, and one of the works
//! as they were when they agreed with that. The works' status is in neither, so that an agent
//! that reports costs no rendering.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use ocm_api::{
    addon::v1alpha1::{ManagedClusterAddOn, ManagedClusterAddOnStatus},
    cluster::ManagedCluster,
    finalizers, labels,
    work::ManifestWork,
};
use parking_lot::Mutex;
use serde::Serialize;

use super::works::name_of;
use crate::{AddOnContext, Mode};

/// What is remembered of each key.
#[derive(Default)]
pub struct RenderedMemory {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    fingerprints: HashMap<String, Fingerprints>,
    // How often something was forgotten. What was looked at before is not remembered after.
    forgotten: u64,
}

/// When something was looked at, as far as forgetting goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch(u64);

/// Two fingerprints that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprints {
    /// Of what the manifests are made from.
    pub inputs: u64,
    /// Of the works that agree with them.
    pub works: u64,
}

impl RenderedMemory {
    /// What is remembered of a key.
    pub fn of(&self, key: &str) -> Option<Fingerprints> {
        self.known.lock().fingerprints.get(key).copied()
    }

    /// Now. Take it before looking at what is to be remembered.
    pub fn epoch(&self) -> Epoch {
        Epoch(self.known.lock().forgotten)
    }

    /// The works of a key agreed, at that time, with what its manifests are made from.
    pub fn keep(&self, key: &str, fingerprints: Fingerprints, at: Epoch) {
        let mut known = self.known.lock();
        if known.forgotten == at.0 {
            known.fingerprints.insert(key.to_owned(), fingerprints);
        }
    }

    /// Nothing is known of a key any more.
    pub fn forget(&self, key: &str) {
        let mut known = self.known.lock();
        known.fingerprints.remove(key);
        known.forgotten += 1;
    }
}

/// The fingerprint of what an add-on's manifests are made from.
///
/// Configurations count by the state that is meant for the cluster, which is in the add-on's status: what others change
/// in them before this cluster's turn is no change here.
pub fn inputs(place: &AddOnContext) -> u64 {
    let mut hash = DefaultHasher::new();
    write(&mut hash, &place.install_namespace);
    write(&mut hash, &(&place.hub.id, &place.companions));
    write_addon(&mut hash, &place.addon);
    write_cluster(&mut hash, &place.cluster);
    if let Mode::Hosted(hosting) = &place.mode {
        write(&mut hash, &hosting.name);
        if let Some(cluster) = &hosting.cluster {
            write_cluster(&mut hash, cluster);
        }
    }
    hash.finish()
}

fn write_addon(hash: &mut DefaultHasher, addon: &ManagedClusterAddOn) {
    let metadata = &addon.metadata;
    write(
        hash,
        &(&metadata.uid, &metadata.labels, &metadata.annotations, &addon.spec),
    );
    write(hash, &metadata.deletion_timestamp.is_some());
    let held = metadata.finalizers.iter().flatten();
    let ours: Vec<_> = held.filter(|it| is_ours(it)).collect();
    write(hash, &ours);
    // No status yet and one with nothing but conditions are the same.
    let none = ManagedClusterAddOnStatus::default();
    let status = addon.status.as_ref().unwrap_or(&none);
    for reference in &status.config_references {
        write(
            hash,
            &(&reference.group, &reference.resource, &reference.desired_config),
        );
    }
    write(
        hash,
        &(&status.namespace, &status.registrations, &status.kube_client_driver),
    );
}

/// Whether a finalizer of an add-on is one that this module puts there.
pub fn is_ours(finalizer: &str) -> bool {
    [
        finalizers::ADDON_PRE_DELETE,
        finalizers::ADDON_HOSTING_PRE_DELETE,
        finalizers::ADDON_HOSTING_MANIFESTS,
    ]
    .contains(&finalizer)
}

fn write_cluster(hash: &mut DefaultHasher, cluster: &ManagedCluster) {
    let metadata = &cluster.metadata;
    write(hash, &(&metadata.uid, &metadata.annotations, &cluster.spec));
    write(hash, &metadata.deletion_timestamp.is_some());
    // The hub writes a label for each add-on when its health changes. If that counted,
    // each would have all rendered again.
    let labels = metadata.labels.iter().flatten();
    let said: Vec<_> = labels
        .filter(|(key, _)| !key.starts_with(labels::FEATURE_ADDON_PREFIX))
        .collect();
    write(hash, &said);
    let Some(status) = &cluster.status else { return };
    write(hash, &(&status.version, &status.cluster_claims));
    for condition in &status.conditions {
        write(hash, &(&condition.type_, &condition.status));
    }
}

/// The fingerprint of works: all that could be different from what is wanted, and nothing that their agent reports.
pub fn works<'w>(all: impl IntoIterator<Item = &'w ManifestWork>) -> u64 {
    let mut parts: Vec<_> = all
        .into_iter()
        .map(|work| {
            let mut hash = DefaultHasher::new();
            let metadata = &work.metadata;
            write(&mut hash, &name_of(work));
            write(&mut hash, &(&metadata.uid, metadata.generation));
            write(
                &mut hash,
                &(&metadata.labels, &metadata.annotations, &metadata.owner_references),
            );
            write(&mut hash, &metadata.deletion_timestamp.is_some());
            hash.finish()
        })
        .collect();
    parts.sort_unstable();
    let mut hash = DefaultHasher::new();
    parts.into_iter().for_each(|part| hash.write_u64(part));
    hash.finish()
}

/// The fingerprint of shared works.
pub fn shared_works(all: &[Arc<ManifestWork>]) -> u64 {
    works(all.iter().map(|it| &**it))
}

struct Feed<'h>(&'h mut DefaultHasher);

impl std::io::Write for Feed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn write(hash: &mut DefaultHasher, value: &impl Serialize) {
    serde_json::to_writer(Feed(hash), value).expect("keys are strings, and the hash takes every byte");
    // So that two values never look like one longer one.
    hash.write_u8(0xff);
}

#[cfg(test)]
mod tests {
    use ocm_api::condition::wanted;

    use super::*;

    #[test]
    fn every_change_counts_except_reports_and_feature_labels() {
        let place = AddOnContext::new("cluster1", "a");
        let before = inputs(&place);
        let now = "2026-01-01T12:00:00Z".parse().unwrap();
        let mut reported = place.clone();
        let mut addon = (*place.addon).clone();
        let said = wanted("ManifestApplied", true, "R", "").since(now);
        addon.status.get_or_insert_default().conditions.push(said);
        addon.metadata.resource_version = Some("7".to_owned());
        reported.addon = Arc::new(addon);
        assert_eq!(inputs(&reported), before);
        let mut labelled = place.clone();
        let mut cluster = (*place.cluster).clone();
        cluster.metadata.labels = Some([(format!("{}a", labels::FEATURE_ADDON_PREFIX), "available".to_owned())].into());
        labelled.cluster = Arc::new(cluster);
        assert_eq!(inputs(&labelled), before);

        let changes: [fn(&mut AddOnContext); 5] = [
            |it| it.companions = vec!["b".to_owned()],
            |it| it.install_namespace = "elsewhere".to_owned(),
            |it| Arc::make_mut(&mut it.addon).metadata.annotations = Some([("a".to_owned(), "b".to_owned())].into()),
            |it| Arc::make_mut(&mut it.cluster).metadata.labels = Some([("a".to_owned(), "b".to_owned())].into()),
            |it| {
                it.mode = Mode::Hosted(crate::Hosting {
                    name: "hosting".to_owned(),
                    cluster: None,
                });
            },
        ];
        for change in changes {
            let mut changed = place.clone();
            change(&mut changed);
            assert_ne!(inputs(&changed), before);
        }
    }

    #[test]
    fn fingerprints_from_before_a_forget_are_not_kept() {
        let memory = RenderedMemory::default();
        let fingerprints = Fingerprints { inputs: 1, works: 2 };
        let before = memory.epoch();
        memory.forget("cluster1/a");
        memory.keep("cluster1/a", fingerprints, before);
        assert_eq!(memory.of("cluster1/a"), None);
        memory.keep("cluster1/a", fingerprints, memory.epoch());
        assert_eq!(memory.of("cluster1/a"), Some(fingerprints));
    }

    #[test]
    fn the_order_of_works_is_ignored_but_generations_count() {
        let work = |name: &str, generation: i64| {
            let mut work = ManifestWork::new(name, Default::default());
            work.metadata.generation = Some(generation);
            work
        };
        let (one, two) = (work("a", 1), work("b", 1));
        assert_eq!(works([&one, &two]), works([&two, &one]));
        assert_ne!(works([&one, &two]), works([&one, &work("b", 2)]));
        assert_ne!(works([&one, &two]), works([&one]));
        let mut reported = one.clone();
        reported.status = Some(Default::default());
        reported.metadata.resource_version = Some("7".to_owned());
        assert_eq!(works([&one]), works([&reported]));
    }
}
