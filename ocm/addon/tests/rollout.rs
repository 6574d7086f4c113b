//! A changed configuration reaches two hundred clusters a quarter at a time, watched by somebody who counts.

mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use ocm_addon_sdk::{AddOn, AddOnContext, ConfigKind, Health, UserError};
use ocm_api::addon::v1alpha1::{AddOnDeploymentConfig, ManagedClusterAddOn};
use parking_lot::Mutex;
use serde_json::{Value, json};
use world::{World, read};

const CLUSTERS: usize = 200;

struct Configured;

impl AddOn for Configured {
    fn name(&self) -> &str {
        "configured"
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let hash = place.configs.first().map(|it| it.spec_hash.clone());
        Ok(vec![json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "configured", "namespace": "default"}, "data": {"hash": hash},
        })])
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<AddOnDeploymentConfig>()]
    }

    fn health(&self, _: &AddOnContext) -> Health {
        Health::None
    }

    fn waits_for_configuration(&self) -> bool {
        true
    }
}

/// What somebody sees who watches the add-ons from now on.
#[derive(Default)]
struct Record {
    /// The configuration that everybody had before.
    before: Option<String>,
    under_way: BTreeSet<String>,
    most: usize,
    told: BTreeMap<String, Instant>,
    written: BTreeMap<String, f64>,
}

fn hashes(addon: &ManagedClusterAddOn) -> (Option<String>, Option<String>) {
    let reference = addon.status.as_ref().and_then(|it| it.config_references.first());
    let desired = reference
        .and_then(|it| it.desired_config.as_ref())
        .map(|it| it.spec_hash.clone());
    let applied = reference
        .and_then(|it| it.last_applied_config.as_ref())
        .map(|it| it.spec_hash.clone());
    (desired, applied)
}

fn is_done(addon: &ManagedClusterAddOn) -> bool {
    let (desired, applied) = hashes(addon);
    desired.as_ref().is_some_and(|it| !it.is_empty()) && desired == applied
}

fn config(value: &str) -> Value {
    json!({
        "apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "x", "namespace": "default"},
        "spec": {"customizedVariables": [{"name": "A", "value": value}]},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_clusters_are_under_way_than_a_quarter() {
    let world = World::start(vec![Arc::new(Configured)]).await;
    let names: Vec<String> = (0..CLUSTERS).map(|it| format!("c{it:03}")).collect();
    for it in &names {
        world.cluster(it).await;
    }
    let configs: Api<AddOnDeploymentConfig> = Api::namespaced(world.site.client(), "default");
    configs
        .create(&PostParams::default(), &read(config("1")))
        .await
        .unwrap();
    world.agents();
    world.choose("all", &names).await;
    world
        .offer(json!({
            "metadata": {"name": "configured"},
            "spec": {
                "supportedConfigs": [{
                    "group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs",
                    "defaultConfig": {"namespace": "default", "name": "x"},
                }],
                "installStrategy": {"type": "Placements", "placements": [{
                    "namespace": "default", "name": "all",
                    "rolloutStrategy": {"type": "Progressive", "progressive": {"maxConcurrency": "25%"}},
                }]},
            },
        }))
        .await;
    let all_done = |watched: &world::Watched| {
        let addons = watched.addons.list();
        (addons.len() == CLUSTERS && addons.iter().all(|it| is_done(it))).then(|| hashes(&addons[0]).0)
    };
    let before = world.until("everybody has the first configuration", all_done).await;
    is_completed(&world).await;

    let record = Arc::new(Mutex::new(Record {
        before: before.clone(),
        ..Record::default()
    }));
    let seen = record.clone();
    world.watched.addons.listen(move |_, new| {
        let Some(addon) = new else { return };
        let mut seen = seen.lock();
        let (desired, applied) = hashes(addon);
        let cluster = addon.namespace().unwrap();
        if desired != seen.before && desired != applied {
            seen.told.entry(cluster.clone()).or_insert_with(Instant::now);
            seen.under_way.insert(cluster);
        } else {
            seen.under_way.remove(&cluster);
        }
        seen.most = seen.most.max(seen.under_way.len());
    });
    let seen = record.clone();
    world.watched.works.listen(move |old, new| {
        let changed =
            matches!((old, new), (Some(old), Some(new)) if old.metadata.generation != new.metadata.generation);
        let Some(work) = new.filter(|_| changed) else { return };
        let cluster = work.namespace().unwrap();
        let mut seen = seen.lock();
        if let Some(told) = seen.told.get(&cluster).copied() {
            seen.written
                .entry(cluster)
                .or_insert(told.elapsed().as_secs_f64() * 1000.0);
        }
    });
    configs
        .patch("x", &PatchParams::default(), &Patch::Merge(config("2")))
        .await
        .unwrap();
    world
        .until("everybody has the second configuration", |watched| {
            all_done(watched).filter(|it| *it != before)
        })
        .await;
    is_completed(&world).await;
    world.until_all_pages_are_empty().await;
    {
        let record = record.lock();
        assert_eq!((record.told.len(), record.under_way.len()), (CLUSTERS, 0));
        assert!(
            record.most <= CLUSTERS / 4,
            "{} clusters were under way at once",
            record.most
        );
        assert!(record.most > 1, "they went one by one");
        assert_eq!(
            record.written.len(),
            CLUSTERS,
            "every work was written once it was its cluster's turn"
        );
        let mut times: Vec<f64> = record.written.values().copied().collect();
        times.sort_by(f64::total_cmp);
        println!(
            "at most {} under way; told to work written: p50 {:.1} ms, p99 {:.1} ms",
            record.most,
            times[CLUSTERS / 2],
            times[CLUSTERS * 99 / 100]
        );
    }
    world.stop().await;
}

async fn is_completed(world: &World) {
    let message = "selected clusters 200. configured addons 200/200 completed with no errors, 0 failed 0 timeout.";
    world
        .until("the progression is completed", |watched| {
            let offer = watched.cluster_management_addons.named("configured")?;
            let progression = offer.status.as_ref()?.install_progressions.first()?.clone();
            let reference = progression.config_references.first()?;
            let is_applied = reference.last_applied_config == reference.desired_config;
            (is_applied && progression.conditions.first()?.message == message).then_some(())
        })
        .await;
}
