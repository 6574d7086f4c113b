//! A hub in memory with the controllers for add-ons, and agents that do nothing but say that all is well.

#![allow(dead_code)] // Each test file uses its part.

use std::{sync::Arc, time::Duration};

use addon::{hub::Templates, template::InManager};
use futures::FutureExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use ocm_addon_sdk::{AddOn, hub::Manager};
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::{ManagedCluster, Placement, PlacementDecision},
    condition,
    work::ManifestWork,
};
use ocm_reconcile::{Cache, Caches, Clients, Reconciler, cache::key_of, controller::start_all, install};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use testkit::Site;
use tokio_util::sync::CancellationToken;

pub struct World {
    pub site: Site,
    pub watched: Watched,
    pub caches: Caches,
    pub manager: Manager,
    pub stop: CancellationToken,
}

/// What tests look at.
pub struct Watched {
    pub clusters: Cache<ManagedCluster>,
    pub addons: Cache<ManagedClusterAddOn>,
    pub cluster_management_addons: Cache<ClusterManagementAddOn>,
    pub works: Cache<ManifestWork>,
}

/// Longer than anything takes that works, even on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

impl World {
    pub async fn start(addons: Vec<Arc<dyn AddOn>>) -> Self {
        let site = Site::start().await.unwrap();
        let client = site.client();
        install::install_crds(&client, ocm_api::crds::hub()).await.unwrap();
        let stop = CancellationToken::new();
        let caches = Caches::new(client.clone(), stop.clone());
        let watched = Watched {
            clusters: caches.of(),
            addons: caches.of(),
            cluster_management_addons: caches.of(),
            works: ocm_addon_sdk::deploy::AddOnWorks::among_all(&caches).0,
        };
        let manager = Manager::start(client.clone(), &caches, Default::default(), stop.clone())
            .await
            .unwrap();
        for it in addons {
            manager.add(it).unwrap();
        }
        let templates: Arc<dyn Templates> = Arc::new(InManager::new(manager.clone()));
        let mut controllers = addon::hub::controllers(&caches);
        controllers.push(addon::hub::of_templates(&caches, templates));
        controllers.extend(addon::hub::of_clusters(&caches));
        let running = start_all(controllers, &Clients::hub(client), &stop);
        for it in &running {
            it.queue.begun().await;
        }
        Self {
            site,
            watched,
            caches,
            manager,
            stop,
        }
    }

    pub async fn stop(self) {
        self.stop.cancel();
        self.site.stop().await;
    }

    /// A cluster that is there and well.
    pub async fn cluster(&self, name: &str) {
        let client = self.site.client();
        let namespace: Namespace = read(json!({"metadata": {"name": name}}));
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        let clusters: Api<ManagedCluster> = Api::all(client);
        clusters
            .create(
                &PostParams::default(),
                &read(json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": true}})),
            )
            .await
            .unwrap();
        let available = json!({"status": {"conditions": [said("ManagedClusterConditionAvailable", "True", "ManagedClusterAvailable")]}});
        patch_status(&clusters, name, available).await;
    }

    /// What a placement in `default` chooses from now on, in groups of at most a hundred.
    pub async fn choose(&self, placement: &str, clusters: &[String]) {
        let client = self.site.client();
        let placements: Api<Placement> = Api::namespaced(client.clone(), "default");
        if placements.get_opt(placement).await.unwrap().is_none() {
            let it = read(json!({"metadata": {"name": placement, "namespace": "default"}, "spec": {}}));
            placements.create(&PostParams::default(), &it).await.unwrap();
        }
        let decisions: Api<PlacementDecision> = Api::namespaced(client, "default");
        for (number, some) in clusters.chunks(100).enumerate() {
            let name = format!("{placement}-decision-{number}");
            if decisions.get_opt(&name).await.unwrap().is_none() {
                let it = read(json!({"metadata": {"name": name, "namespace": "default", "labels": {
                    "cluster.open-cluster-management.io/placement": placement,
                    "cluster.open-cluster-management.io/decision-group-index": "0",
                }}}));
                decisions.create(&PostParams::default(), &it).await.unwrap();
            }
            let chosen: Vec<Value> = some.iter().map(|it| json!({"clusterName": it, "reason": ""})).collect();
            patch_status(&decisions, &name, json!({"status": {"decisions": chosen}})).await;
        }
        patch_status(
            &placements,
            placement,
            json!({"status": {"numberOfSelectedClusters": clusters.len()}}),
        )
        .await;
    }

    /// Agents of all clusters, which find every work applied and available as soon as they see it.
    pub fn agents(&self) {
        let (client, works, stop) = (self.site.client(), self.watched.works.clone(), self.stop.clone());
        let seen = Arc::new(tokio::sync::Semaphore::new(16));
        works.listen(move |_, new| {
            let Some(work) = new.filter(|it| !is_well(it)).cloned() else {
                return;
            };
            let (client, stop, seen) = (client.clone(), stop.clone(), seen.clone());
            tokio::spawn(async move {
                let _slot = seen.acquire().await;
                let namespace = work.metadata.namespace.clone().unwrap();
                let works: Api<ManifestWork> = Api::namespaced(client, &namespace);
                let at = |r#type: &str| {
                    let mut it = said(r#type, "True", "Done");
                    it["observedGeneration"] = json!(work.metadata.generation);
                    it
                };
                let well = json!({"status": {"conditions": [at("Applied"), at("Available")]}});
                let name = work.metadata.name.clone().unwrap();
                if !stop.is_cancelled() {
                    let _ = works
                        .patch_status(&name, &PatchParams::default(), &Patch::Merge(&well))
                        .await;
                }
            });
        });
    }

    pub async fn until<T>(&self, what: &str, mut state: impl FnMut(&Watched) -> Option<T>) -> T {
        let watched = &self.watched;
        let found = async {
            let mut changes = (
                watched.addons.changes(),
                watched.cluster_management_addons.changes(),
                watched.works.changes(),
                watched.clusters.changes(),
            );
            loop {
                changes.0.borrow_and_update();
                changes.1.borrow_and_update();
                changes.2.borrow_and_update();
                changes.3.borrow_and_update();
                if let Some(found) = state(watched) {
                    return found;
                }
                tokio::select! {
                    _ = changes.0.changed() => {}
                    _ = changes.1.changed() => {}
                    _ = changes.2.changed() => {}
                    _ = changes.3.changed() => {}
                }
            }
        };
        match tokio::time::timeout(PATIENCE, found).await {
            Ok(found) => found,
            Err(_) => panic!(
                "\"{what}\" did not come about; now:\n{:#?}\n{:#?}",
                watched.cluster_management_addons.list().first(),
                watched.addons.list().first()
            ),
        }
    }

    /// The clusters that have the add-on.
    pub fn clusters_with(watched: &Watched, addon: &str) -> Vec<String> {
        let all = watched.addons.list();
        let named = all.iter().filter(|it| it.metadata.name.as_deref() == Some(addon));
        named.filter_map(|it| it.metadata.namespace.clone()).collect()
    }

    /// Waits until none of the controllers would write anything.
    pub async fn until_all_pages_are_empty(&self) {
        use addon::hub::{
            annotation, availability, configuration, feature, install, owner, progressing, progression,
            token_infrastructure,
        };
        let caches = &self.caches;
        self.until("all pages are empty", |watched| {
            let offers: Vec<String> = watched
                .cluster_management_addons
                .list()
                .iter()
                .map(|it| it.name_any())
                .collect();
            let addons: Vec<String> = watched.addons.list().iter().map(|it| key_of(&**it)).collect();
            let clusters: Vec<String> = watched.clusters.list().iter().map(|it| it.name_any()).collect();
            let pages = [
                page(&install::Install::new(caches), &offers),
                page(&progression::Progression::new(caches), &offers),
                page(&configuration::Configuration::new(caches), &offers),
                page(&owner::Owner::new(caches), &addons),
                page(&annotation::Annotation::new(caches), &addons),
                page(&progressing::Progressing::new(caches), &addons),
                page(&availability::Availability::new(caches), &addons),
                page(&token_infrastructure::TokenInfrastructure::new(caches), &addons),
                page(&feature::Feature::new(caches), &clusters),
            ];
            pages.concat().is_empty().then_some(())
        })
        .await;
    }

    pub async fn offer(&self, addon: Value) {
        let offers: Api<ClusterManagementAddOn> = Api::all(self.site.client());
        offers.create(&PostParams::default(), &read(addon)).await.unwrap();
    }

    pub fn addons(&self, cluster: &str) -> Api<ManagedClusterAddOn> {
        Api::namespaced(self.site.client(), cluster)
    }
}

/// What a reconciler would write now.
fn page<R: Reconciler>(reconciler: &R, keys: &[String]) -> String {
    let plan = |key: &String| {
        let seen = reconciler.observe(key).now_or_never().expect("it reads caches only");
        R::plan(&seen.expect("caches can be read"))
    };
    let plans = keys.iter().map(plan).filter(|it| !it.is_empty());
    plans.map(|it| it.to_string()).collect()
}

fn is_well(work: &ManifestWork) -> bool {
    let conditions = work.status.as_ref().map_or(&[][..], |it| &it.conditions);
    condition::find(conditions, "Applied").is_some_and(|it| it.observed_generation == work.metadata.generation)
}

pub fn said(r#type: &str, status: &str, reason: &str) -> Value {
    json!({"type": r#type, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

pub fn read<K: DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

pub async fn patch_status<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Resource + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}
