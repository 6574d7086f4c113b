//! ManifestWorkReplicaSets on a hub in memory, with agents that say what the test wants.

use std::{collections::BTreeSet, sync::Arc};

use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use ocm_api::{
    cluster::{Placement, PlacementDecision},
    condition, labels,
    work::{ManifestWork, ManifestWorkReplicaSet},
};
use ocm_reconcile::{Cache, Caches, Clients, Running, controller::start_all};
use serde_json::{Value, json};
use testkit::{World, wait};
use tokio_util::sync::CancellationToken;
use work::hub::{Options, controllers, replica_set::sharing::shape};

struct Hub {
    world: World,
    works: Cache<ManifestWork>,
    cancel: CancellationToken,
    running: Vec<Running>,
}

impl Hub {
    /// A hub with these clusters, all of which placement `all` chooses.
    async fn start(clusters: &[String]) -> Self {
        let world = World::new(0).await;
        for cluster in clusters {
            let namespace = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {cluster}}}}}");
            world.hub.apply(&namespace).await;
        }
        let cancel = CancellationToken::new();
        let works = Cache::empty();
        let mut hub = Self {
            world,
            works,
            cancel,
            running: Vec::new(),
        };
        hub.choose("all", clusters).await;
        hub.run().await;
        hub
    }

    async fn run(&mut self) {
        self.cancel = CancellationToken::new();
        let client = self.world.hub.client();
        let caches = Caches::new(client.clone(), self.cancel.clone()).shaped(shape());
        self.works = caches.of();
        let controllers = controllers(&caches, Options::default());
        self.running = start_all(controllers, &Clients::hub(client), &self.cancel);
    }

    async fn restart(&mut self) {
        self.stop().await;
        self.run().await;
    }

    async fn stop(&mut self) {
        self.cancel.cancel();
        for it in std::mem::take(&mut self.running) {
            it.finished.await.unwrap();
        }
    }

    /// What the controller of placements does, in one page.
    async fn choose(&self, name: &str, clusters: &[String]) {
        let client = self.world.hub.client();
        self.world
            .hub
            .apply(&format!(
                "
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {{name: {name}, namespace: default}}
spec: {{}}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: PlacementDecision
metadata:
  name: {name}-decision-1
  namespace: default
  labels:
    cluster.open-cluster-management.io/placement: {name}
    cluster.open-cluster-management.io/decision-group-index: \"0\"
    cluster.open-cluster-management.io/decision-group-name: \"\"
"
            ))
            .await;
        let params = PatchParams::default();
        let decisions: Vec<Value> = clusters
            .iter()
            .map(|it| json!({"clusterName": it, "reason": ""}))
            .collect();
        let api: Api<PlacementDecision> = Api::namespaced(client.clone(), "default");
        let status = json!({"status": {"decisions": decisions}});
        api.patch_status(&format!("{name}-decision-1"), &params, &Patch::Merge(status))
            .await
            .unwrap();
        let api: Api<Placement> = Api::namespaced(client, "default");
        let status = json!({"status": {
            "numberOfSelectedClusters": clusters.len(),
            "decisionGroups": [{"decisionGroupIndex": 0, "decisions": [format!("{name}-decision-1")], "clusterCount": clusters.len()}],
        }});
        api.patch_status(name, &params, &Patch::Merge(status)).await.unwrap();
    }

    fn sets(&self) -> Api<ManifestWorkReplicaSet> {
        Api::namespaced(self.world.hub.client(), "default")
    }

    async fn create(&self, name: &str, placements: &[&str], greeting: &str) -> ManifestWorkReplicaSet {
        let refs: Vec<Value> = placements.iter().map(|it| json!({"name": it})).collect();
        let set = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"placementRefs": refs, "manifestWorkTemplate": template(greeting)}
        });
        let set = serde_json::from_value(set).unwrap();
        self.sets().create(&PostParams::default(), &set).await.unwrap()
    }

    async fn listed(&self, name: &str) -> Vec<ManifestWork> {
        let api: Api<ManifestWork> = Api::all(self.world.hub.client());
        let its = ListParams::default().labels(&format!("{}=default.{name}", labels::MANIFEST_WORK_REPLICA_SET));
        api.list(&its).await.unwrap().items
    }

    /// All agents say that all is well.
    async fn report(&self, name: &str) {
        for work in self.listed(name).await {
            let condition = |r#type: &str| {
                json!({"type": r#type, "status": "True", "reason": "R", "message": "",
                       "observedGeneration": work.metadata.generation, "lastTransitionTime": "2026-01-01T00:00:00Z"})
            };
            let status = json!({"status": {"conditions": [condition("Applied"), condition("Available")]}});
            let api: Api<ManifestWork> = Api::namespaced(self.world.hub.client(), &work.namespace().unwrap());
            let params = PatchParams::default();
            api.patch_status(&work.name_any(), &params, &Patch::Merge(status))
                .await
                .unwrap();
        }
    }

    async fn until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&ManifestWorkReplicaSet) -> bool,
    ) -> ManifestWorkReplicaSet {
        let sets = self.sets();
        let found = wait::until(&sets, name, what, |it| it.is_some_and(&holds));
        found.await.unwrap()
    }

    async fn until_total(&self, name: &str, total: i64) -> ManifestWorkReplicaSet {
        let has = |it: &ManifestWorkReplicaSet| it.status.as_ref().is_some_and(|it| it.summary.total == total);
        self.until(name, &format!("has {total} works"), has).await
    }

    async fn until_complete(&self, name: &str) -> ManifestWorkReplicaSet {
        self.until(name, "is rolled out", |it| {
            let conditions = it.status.iter().flat_map(|it| &it.conditions);
            let conditions: Vec<_> = conditions.cloned().collect();
            condition::find(&conditions, "PlacementRolledOut")
                .is_some_and(|done| done.status == "True" && done.observed_generation == it.metadata.generation)
        })
        .await
    }
}

fn template(greeting: &str) -> Value {
    json!({"workload": {"manifests": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}, "data": {"greeting": greeting}}
    ]}})
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|it| format!("c{it:03}")).collect()
}

#[tokio::test]
async fn every_cluster_gets_one_work_despite_a_hub_restart() {
    let clusters = names(300);
    let mut hub = Hub::start(&clusters).await;
    // A name with dots is a name like any other.
    hub.create("web.shop.eu", &["all"], "hello").await;
    let some = |it: &Cache<ManifestWork>| (it.len() >= 20).then_some(());
    hub.works.until(some).await;
    hub.restart().await;
    let set = hub.until_total("web.shop.eu", 300).await;
    assert_eq!(set.status.unwrap().summary.applied, 0);
    let works = hub.listed("web.shop.eu").await;
    let places: BTreeSet<_> = works.iter().map(|it| it.namespace().unwrap()).collect();
    assert_eq!((works.len(), places.len()), (300, 300));

    hub.report("web.shop.eu").await;
    let set = hub.until_complete("web.shop.eu").await;
    let status = set.status.unwrap();
    assert_eq!((status.summary.applied, status.summary.available), (300, 300));
    assert_eq!(
        status.placements_summary[0].available_decision_groups,
        "1 (300 / 300 clusters applied)"
    );

    // All of them hold the same manifests in memory, once.
    let kept = hub.works.list();
    let first = &kept[0].spec.workload.manifests;
    assert!(kept.iter().all(|it| it.spec.workload.manifests.is_shared_with(first)));

    // The set goes, and everything with it.
    hub.sets()
        .delete("web.shop.eu", &DeleteParams::default())
        .await
        .unwrap();
    wait::gone(&hub.sets(), "web.shop.eu").await;
    hub.works.until(|it| it.is_empty().then_some(())).await;
    hub.stop().await;
}

#[tokio::test]
async fn a_hub_that_has_nothing_to_do_writes_nothing() {
    let mut hub = Hub::start(&names(5)).await;
    hub.create("web", &["all"], "hello").await;
    hub.until_total("web", 5).await;
    hub.report("web").await;
    let before = hub.until_complete("web").await;
    let versions = |works: Vec<ManifestWork>| -> Vec<_> { works.iter().map(|it| it.resource_version()).collect() };
    let works = versions(hub.listed("web").await);
    // A restart looks at everything again; another set, made later, shows that it has.
    hub.restart().await;
    hub.create("later", &["all"], "later").await;
    hub.until_total("later", 5).await;
    let after = hub.sets().get("web").await.unwrap();
    assert_eq!(after.resource_version(), before.resource_version());
    assert_eq!(versions(hub.listed("web").await), works);
    hub.stop().await;
}

#[tokio::test]
async fn a_foreign_work_blocks_the_set_until_it_is_deleted() {
    let mut hub = Hub::start(&names(2)).await;
    hub.create("web", &["all"], "hello").await;
    hub.until_total("web", 2).await;
    let work = hub.listed("web").await.remove(0);
    let (cluster, name) = (work.namespace().unwrap(), work.name_any());
    hub.sets().delete("web", &DeleteParams::default()).await.unwrap();
    hub.works.until(|it| it.is_empty().then_some(())).await;

    let api: Api<ManifestWork> = Api::namespaced(hub.world.hub.client(), &cluster);
    let foreign = json!({"metadata": {"name": name, "namespace": cluster}, "spec": template("mine")});
    let foreign: ManifestWork = serde_json::from_value(foreign).unwrap();
    api.create(&PostParams::default(), &foreign).await.unwrap();
    wait::gone(&hub.sets(), "web").await;
    hub.create("web", &["all"], "hello").await;
    let says = |it: &ManifestWorkReplicaSet, status: &str, text: &str| {
        let conditions = it.status.as_ref().map(|it| it.conditions.clone()).unwrap_or_default();
        condition::find(&conditions, "ManifestworkApplied")
            .is_some_and(|it| it.status == status && it.message.contains(text))
    };
    hub.until("web", "says so", |it| {
        says(it, "False", "is not ours; it is left alone")
    })
    .await;
    hub.until_total("web", 1).await;
    let left = api.get(&name).await.unwrap();
    assert_eq!(left.spec.workload.manifests.read()[0].0["data"]["greeting"], "mine");

    api.delete(&name, &DeleteParams::default()).await.unwrap();
    hub.until_total("web", 2).await;
    hub.report("web").await;
    hub.until("web", "is as expected", |it| says(it, "True", "")).await;
    hub.stop().await;
}

#[tokio::test]
async fn overlapping_placements_come_and_go_without_a_second_work() {
    let clusters = names(4);
    let mut hub = Hub::start(&clusters[..3]).await;
    hub.world
        .hub
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: c003}}")
        .await;
    hub.choose("more", &clusters[1..]).await;
    hub.create("web", &["all", "more"], "hello").await;
    let set = hub.until_total("web", 4).await;
    hub.report("web").await;
    hub.until_complete("web").await;
    let uids = |works: Vec<ManifestWork>| -> BTreeSet<_> { works.iter().map(|it| it.uid().unwrap()).collect() };
    let before = uids(hub.listed("web").await);
    assert_eq!(before.len(), 4);

    // The first placement lets go of all but one; the works stay where the other wants them.
    hub.choose("all", &clusters[..1]).await;
    let moved = |it: &ManifestWorkReplicaSet| {
        let status = it.status.as_ref();
        status.is_some_and(|it| it.placements_summary.iter().map(|it| it.summary.total).eq([1, 3]))
    };
    hub.until("web", "counts one and three", moved).await;
    assert_eq!(uids(hub.listed("web").await), before);

    // A template that comes now reaches all of them once.
    let patch = json!({"spec": {"manifestWorkTemplate": template("good morning")}});
    let name = set.name_any();
    hub.sets()
        .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let told = |it: &Cache<ManifestWork>| {
        let works = it.list();
        let says =
            |it: &Arc<ManifestWork>| it.spec.workload.manifests.read()[0].0["data"]["greeting"] == "good morning";
        (works.len() == 4 && works.iter().all(says)).then_some(())
    };
    hub.works.until(told).await;
    hub.report("web").await;
    hub.until_complete("web").await;
    assert!(
        hub.listed("web")
            .await
            .iter()
            .all(|it| it.metadata.generation == Some(2))
    );
    hub.stop().await;
}

#[tokio::test]
async fn labels_reach_waiting_works_without_starting_their_rollout() {
    let mut hub = Hub::start(&names(3)).await;
    hub.create("web", &["all"], "hello").await;
    hub.until_total("web", 3).await;
    hub.report("web").await;
    hub.until_complete("web").await;
    let patch = |patch: Value| {
        let sets = hub.sets();
        async move {
            sets.patch("web", &PatchParams::default(), &Patch::Merge(patch))
                .await
                .unwrap()
        }
    };
    let progressive = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
    patch(json!({"spec": {
        "placementRefs": [{"name": "all", "rolloutStrategy": progressive}],
        "manifestWorkTemplate": template("good morning")
    }}))
    .await;
    let count = |greeting: &'static str, label: Option<&'static str>, wanted: usize| {
        move |it: &Cache<ManifestWork>| {
            let works = it.list();
            let said = works.iter().filter(|it| {
                it.spec.workload.manifests.read()[0].0["data"]["greeting"] == greeting
                    && it.labels().get("team").map(String::as_str) == label
            });
            (said.count() == wanted).then_some(())
        }
    };
    hub.works.until(count("good morning", None, 1)).await;
    patch(json!({"metadata": {"labels": {"team": "a"}}})).await;
    hub.works.until(count("hello", Some("a"), 2)).await;
    hub.works.until(count("good morning", Some("a"), 1)).await;
    hub.until_total("web", 1).await;
    // And they leave with the set's.
    patch(json!({"metadata": {"labels": {"team": null}}})).await;
    hub.works.until(count("hello", None, 2)).await;
    let set = hub.until_total("web", 1).await;
    assert_eq!(set.status.unwrap().summary.desired_total, 3);
    hub.stop().await;
}
