//! From a ManagedClusterAddOn to objects on a cluster and back: the manager of the SDK on an embedded hub, agents of
//! the works on embedded clusters.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, Patch, PatchParams},
};
use ocm_addon_sdk::{
    AddOn, AddOnContext, ConfigKind, Health, Probe, ProbeResult, UserError,
    deploy::{AddOnWorks, Deploy, memory::RenderedMemory, plan::Root, rendering::Rendered},
    hub::{Caches, Manager, Options},
    spec_hash,
};
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, annotations, cluster::ManagedCluster, work::ManifestWork};
use ocm_reconcile::{Outcome, Reconciler};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::{Site, objects, wait};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use work::agent::{WorkAgentOptions, hub_hash};

/// An add-on that wants what the test tells it, and counts how often it is asked.
struct Told {
    wants: Mutex<Vec<Value>>,
    asked: AtomicUsize,
}

impl Told {
    fn wanting(wants: Vec<Value>) -> Arc<Self> {
        Arc::new(Self {
            wants: Mutex::new(wants),
            asked: AtomicUsize::new(0),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl AddOn for Told {
    fn name(&self) -> &str {
        "told"
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut wants = self.wants.lock().clone();
        let config = place.config::<ConfigMap>()?.and_then(|it| it.data);
        if let (Some(config), Some(first)) = (config, wants.first_mut()) {
            first["data"]["configured"] = json!(config.get("value"));
        }
        let said = place.addon.annotations().get("example.com/says");
        if let (Some(said), Some(first)) = (said, wants.first_mut()) {
            if said == "nothing sensible" {
                return Err(UserError::new("say something sensible"));
            }
            first["data"]["said"] = said.as_str().into();
        }
        Ok(wants)
    }

    fn health(&self, _: &AddOnContext) -> Health {
        let mut probe = Probe::well_known("", "configmaps", "*", "x").reading("mood", ".data.mood");
        probe.rules.retain(|it| !it.json_paths.is_empty());
        Health::Work(vec![probe])
    }

    fn judge(&self, place: &AddOnContext, results: &[ProbeResult]) -> Result<(), String> {
        match results.first().and_then(|it| it.string("mood")) {
            Some("good") => Ok(()),
            mood => Err(format!("the mood on {} is {mood:?}", place.cluster_name())),
        }
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![ConfigKind::of::<ConfigMap>()]
    }

    fn hosted(&self, _: &AddOnContext) -> bool {
        true
    }
}

struct World {
    hub: Site,
    clusters: Vec<(String, Site)>,
    manager: Manager,
    agents: Vec<JoinHandle<()>>,
    cancel: CancellationToken,
}

impl World {
    async fn new(names: &[&str], told: &Arc<Told>) -> Self {
        let world = testkit::World::new(names.len()).await;
        let cancel = CancellationToken::new();
        let mut agents = Vec::new();
        let mut clusters = Vec::new();
        for (name, site) in names.iter().zip(world.clusters) {
            world
                .hub
                .apply(&format!(
                    "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"
                ))
                .await;
            world
                .hub
                .apply(&format!(
                    "{{apiVersion: {}, kind: ManagedCluster, metadata: {{name: {name}}}, spec: {{hubAcceptsClient: true}}}}",
                    ManagedCluster::API_VERSION
                ))
                .await;
            let hash = hub_hash(&format!("https://hub.example/{name}"));
            let options = WorkAgentOptions::new(world.hub.client(), site.client(), name, &hash);
            agents.push(tokio::spawn(work::agent::run(options, cancel.clone())));
            clusters.push(((*name).to_owned(), site));
        }
        let client = world.hub.client();
        let caches = Caches::new(client.clone(), cancel.clone());
        let manager = Manager::start(client, &caches, Options::default(), cancel.clone())
            .await
            .unwrap();
        manager.add(told.clone()).unwrap();
        Self {
            hub: world.hub,
            clusters,
            manager,
            agents,
            cancel,
        }
    }

    /// Enables the add-on on `cluster1`, with these annotations.
    async fn enable(&self, annotations: &Value) {
        let offered = self
            .hub
            .apply("{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ClusterManagementAddOn, metadata: {name: told}, spec: {}}")
            .await;
        let addon = json!({
            "apiVersion": ManagedClusterAddOn::API_VERSION, "kind": ManagedClusterAddOn::KIND,
            "metadata": {
                "name": "told", "namespace": "cluster1", "annotations": annotations,
                "ownerReferences": [{
                    "apiVersion": "addon.open-cluster-management.io/v1beta1", "kind": "ClusterManagementAddOn",
                    "name": "told", "uid": offered[0].metadata.uid, "controller": true, "blockOwnerDeletion": true
                }]
            },
            "spec": {}
        });
        self.hub.apply(&addon.to_string()).await;
    }

    fn addons(&self) -> Api<ManagedClusterAddOn> {
        Api::namespaced(self.hub.client(), "cluster1")
    }

    fn works(&self, namespace: &str) -> Api<ManifestWork> {
        Api::namespaced(self.hub.client(), namespace)
    }

    fn config_maps(&self, cluster: &str) -> Api<ConfigMap> {
        let site = self.clusters.iter().find(|(name, _)| name == cluster);
        Api::namespaced(site.unwrap().1.client(), "default")
    }

    async fn says(&self, condition: &str) -> ManagedClusterAddOn {
        wait::until(&self.addons(), "told", condition, |it| {
            it.is_some_and(|it| objects::conditions(it).iter().any(|it| it == condition))
        })
        .await
        .expect("it is there")
    }

    async fn annotate(&self, annotations: Value) {
        let patch = json!({"metadata": {"annotations": annotations}});
        let params = PatchParams::default();
        self.addons()
            .patch("told", &params, &Patch::Merge(patch))
            .await
            .unwrap();
    }

    async fn delete(&self) {
        self.addons().delete("told", &DeleteParams::default()).await.unwrap();
    }

    /// Somebody who sees this world for the first time finds nothing to do and nothing to say.
    async fn is_settled(&self) {
        let context = self.manager.context();
        let deploy = Deploy::new(context, &Arc::new(RenderedMemory::default()));
        let works = AddOnWorks::of(&context.caches).0;
        let mut changes = works.changes();
        let mut addons = context.addons.changes();
        let mut left = String::new();
        let settled = async {
            loop {
                changes.borrow_and_update();
                addons.borrow_and_update();
                let seen = deploy.observe("cluster1/told").await.unwrap();
                let plan = Deploy::plan(&seen);
                let last = Deploy::conclude(&seen, &Outcome::default());
                if plan.is_empty() && last.is_empty() {
                    return;
                }
                left = format!("{plan:#}{last:#}").chars().take(2000).collect();
                tokio::select! { _ = changes.changed() => {}, _ = addons.changed() => {} }
            }
        };
        let settled = tokio::time::timeout(wait::PATIENCE, settled).await;
        assert!(settled.is_ok(), "there is something to do for ever:\n{left}");
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.manager.finished().await;
        for agent in self.agents {
            agent.await.unwrap();
        }
        self.hub.stop().await;
        for (_, site) in self.clusters {
            site.stop().await;
        }
    }
}

fn config_map(name: &str, mood: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", "annotations": {}},
        "data": {"mood": mood}
    })
}

fn marked(mut manifest: Value, annotation: &str, value: &str) -> Value {
    manifest["metadata"]["annotations"][annotation] = value.into();
    manifest
}

fn job(name: &str) -> Value {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default", "annotations": {}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "hook", "image": "hook"}]}}}
    });
    marked(job, annotations::ADDON_PRE_DELETE, "")
}

async fn data(config_maps: &Api<ConfigMap>, name: &str, key: &str, value: &str) {
    wait::until(config_maps, name, &format!("{key} is {value}"), |it| {
        let data = it.and_then(|it| it.data.as_ref());
        data.and_then(|it| it.get(key)).is_some_and(|it| it == value)
    })
    .await;
}

/// Does what a Job's controller would do when its pod has succeeded.
async fn complete(site: &Site, name: &str) {
    let jobs = site.api("batch/v1", "Job", "default").await;
    wait::until_with::<DynamicObject>(&jobs, name, "is there", |it| it.is_some()).await;
    let now = "2026-01-01T12:00:00Z";
    let status = json!({"status": {
        "succeeded": 1, "startTime": now, "completionTime": now,
        "conditions": [
            {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now},
            {"type": "Complete", "status": "True", "lastTransitionTime": now}
        ]
    }});
    jobs.patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_arrive_change_and_go_and_health_follows() {
    let told = Told::wanting(vec![config_map("x", "bad")]);
    let world = World::new(&["cluster1"], &told).await;
    world.enable(&json!({"example.com/says": "hello"})).await;
    data(&world.config_maps("cluster1"), "x", "said", "hello").await;
    world.says("ManifestApplied=True(AddonManifestApplied)").await;
    let addon = world.says("Available=False(ProbeUnavailable)").await;
    let status = serde_json::to_value(&addon).unwrap()["status"].clone();
    assert_eq!(status["healthCheck"]["mode"], "Customized");
    let said = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["type"] == "Available");
    assert_eq!(
        said.unwrap()["message"],
        "Probe addon unavailable with err the mood on cluster1 is Some(\"bad\")"
    );
    world.is_settled().await;

    // A change of the add-on reaches the cluster; a change that only the author knows of does when he says so.
    world.annotate(json!({"example.com/says": "goodbye"})).await;
    data(&world.config_maps("cluster1"), "x", "said", "goodbye").await;
    *told.wants.lock() = vec![config_map("x", "good"), config_map("y", "good")];
    world.manager.trigger("cluster1", "told");
    data(&world.config_maps("cluster1"), "y", "mood", "good").await;
    world.says("Available=True(ProbeAvailable)").await;

    // A refusal is told, and what is on the cluster stays.
    world.annotate(json!({"example.com/says": "nothing sensible"})).await;
    world.says("ManifestApplied=False(ManifestWorkApplyFailed)").await;
    data(&world.config_maps("cluster1"), "x", "said", "goodbye").await;
    world.annotate(json!({"example.com/says": "hello"})).await;
    world.says("ManifestApplied=True(AddonManifestApplied)").await;

    // What the author wants no longer goes; when it is nothing, the work goes too.
    *told.wants.lock() = vec![config_map("y", "good")];
    world.manager.trigger("cluster1", "told");
    wait::gone(&world.config_maps("cluster1"), "x").await;
    told.wants.lock().clear();
    world.manager.trigger("cluster1", "told");
    wait::gone(&world.works("cluster1"), "addon-told-deploy-0").await;
    wait::gone(&world.config_maps("cluster1"), "y").await;
    world.says("Available=Unknown(WorkNotFound)").await;
    world.is_settled().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_reports_do_not_rerender_and_modified_works_are_repaired() {
    let told = Told::wanting(vec![config_map("x", "good")]);
    let world = World::new(&["cluster1"], &told).await;
    world.enable(&json!({})).await;
    world.says("Available=True(ProbeAvailable)").await;
    world.is_settled().await;
    let asked = told.asked();

    // Health goes up and down without the author being asked once more.
    let works = world.works("cluster1");
    let report = json!({"status": {"conditions": [{
        "type": "Available", "status": "False", "reason": "ResourcesNotAvailable", "message": "1 of 1 resources are not available",
        "lastTransitionTime": "2026-01-01T12:00:00Z"
    }]}});
    works
        .patch_status("addon-told-deploy-0", &PatchParams::default(), &Patch::Merge(report))
        .await
        .unwrap();
    world.says("Available=True(ProbeAvailable)").await;
    assert_eq!(told.asked(), asked);

    // What is changed in the work is put right, its label included, without which no watch of ours shows it.
    let tampered = json!({"metadata": {"labels": null}, "spec": {"workload": {"manifests": [config_map("x", "bad")]}}});
    works
        .patch("addon-told-deploy-0", &PatchParams::default(), &Patch::Merge(tampered))
        .await
        .unwrap();
    wait::until(&works, "addon-told-deploy-0", "is as it was", |it| {
        it.is_some_and(|it| !it.labels().is_empty() && it.spec.workload.manifests.read()[0].0["data"]["mood"] == "good")
    })
    .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_configuration_always_waits_for_the_clusters_turn() {
    let told = Told::wanting(vec![config_map("x", "good")]);
    let world = World::new(&["cluster1"], &told).await;
    let config = |value: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config", "namespace": "default"},
            "data": {"value": value}
        })
    };
    // What the configuration controller of the hub would say when the cluster's turn has come.
    let meant = async |value: &str| {
        let desired = json!({"namespace": "default", "name": "config", "specHash": spec_hash::of(&config(value))});
        let reference = json!({"group": "", "resource": "configmaps", "name": "config", "desiredConfig": desired});
        let patch = json!({"status": {"configReferences": [reference]}});
        world
            .addons()
            .patch_status("told", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    };
    world.hub.apply(&config("old").to_string()).await;
    world.enable(&json!({})).await;
    meant("old").await;
    data(&world.config_maps("cluster1"), "x", "configured", "old").await;
    world.is_settled().await;

    // What else happens there is done with the configuration that the cluster has.
    world.hub.apply(&config("new").to_string()).await;
    world.annotate(json!({"example.com/says": "hello"})).await;
    data(&world.config_maps("cluster1"), "x", "said", "hello").await;
    data(&world.config_maps("cluster1"), "x", "configured", "old").await;

    // A manager that was not there when it changed does not know that one, and leaves everything as it is.
    let stop = CancellationToken::new();
    let caches = Caches::new(world.hub.client(), stop.clone());
    let manager = Manager::start(world.hub.client(), &caches, Options::default(), stop.clone())
        .await
        .unwrap();
    manager.add(told.clone()).unwrap();
    let deploy = Deploy::new(manager.context(), &Arc::new(RenderedMemory::default()));
    let held = async |deploy: &Deploy| {
        let seen = deploy.observe("cluster1/told").await.unwrap();
        matches!(&seen.root, Root::Here(here) if matches!(here.rendered(&seen.works), Rendered::Held(_)))
    };
    let before = world.works("cluster1").get("addon-told-deploy-0").await.unwrap();
    let looking = async {
        while !held(&deploy).await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(wait::PATIENCE, looking)
        .await
        .expect("it is never held");
    let after = world.works("cluster1").get("addon-told-deploy-0").await.unwrap();
    assert_eq!(after.metadata.generation, before.metadata.generation);
    stop.cancel();
    manager.finished().await;

    meant("new").await;
    data(&world.config_maps("cluster1"), "x", "configured", "new").await;
    data(&world.config_maps("cluster1"), "x", "said", "hello").await;
    world.is_settled().await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_mebibytes_of_manifests_are_split_into_accepted_works() {
    let mut wants: Vec<_> = (0..48)
        .map(|number| {
            let mut it = config_map(&format!("m{number}"), "good");
            it["data"]["filler"] = "x".repeat(64 * 1024).into();
            it
        })
        .collect();
    wants.push(config_map("x", "good"));
    let told = Told::wanting(wants);
    let world = World::new(&["cluster1"], &told).await;
    world.enable(&json!({})).await;
    world.says("ManifestApplied=True(AddonManifestApplied)").await;
    world.says("Available=True(ProbeAvailable)").await;
    let works = world.works("cluster1").list(&Default::default()).await.unwrap();
    assert_eq!(works.items.len(), 8);
    let held: usize = works.iter().map(|it| it.spec.workload.manifests.len()).sum();
    assert_eq!(held, 49);
    world.is_settled().await;

    // One that grows stays where it is; one that goes leaves the others alone.
    let before: Vec<_> = works.iter().map(|it| (it.name_any(), it.metadata.generation)).collect();
    told.wants.lock()[7]["data"]["mood"] = "better".into();
    world.manager.trigger("cluster1", "told");
    data(&world.config_maps("cluster1"), "m7", "mood", "better").await;
    world.is_settled().await;
    let after = world.works("cluster1").list(&Default::default()).await.unwrap();
    let changed = after
        .iter()
        .filter(|it| !before.contains(&(it.name_any(), it.metadata.generation)))
        .count();
    assert_eq!(changed, 1);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_add_on_removes_its_objects_except_orphaned_ones() {
    let stays = marked(config_map("stays", "good"), annotations::ADDON_DELETION_ORPHAN, "");
    let told = Told::wanting(vec![config_map("x", "good"), stays]);
    let world = World::new(&["cluster1"], &told).await;
    world.enable(&json!({})).await;
    world.says("Available=True(ProbeAvailable)").await;
    world.delete().await;
    wait::gone(&world.works("cluster1"), "addon-told-deploy-0").await;
    wait::gone(&world.config_maps("cluster1"), "x").await;
    assert!(world.config_maps("cluster1").get_opt("stays").await.unwrap().is_some());
    wait::gone(&world.addons(), "told").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hook_runs_before_the_add_on_goes() {
    let told = Told::wanting(vec![config_map("x", "good"), job("hook")]);
    let world = World::new(&["cluster1"], &told).await;
    world.enable(&json!({})).await;
    let addon = world.says("Available=True(ProbeAvailable)").await;
    assert_eq!(
        addon.finalizers(),
        ["addon.open-cluster-management.io/addon-pre-delete"]
    );
    let site = &world.clusters[0].1;
    let jobs = site.api("batch/v1", "Job", "default").await;
    assert!(jobs.get_opt("hook").await.unwrap().is_none());

    world.delete().await;
    world
        .says("HookManifestCompleted=False(HookManifestIsNotCompleted)")
        .await;
    assert!(world.config_maps("cluster1").get_opt("x").await.unwrap().is_some());
    complete(site, "hook").await;
    wait::gone(&world.addons(), "told").await;
    wait::gone(&world.works("cluster1"), "addon-told-pre-delete").await;
    wait::gone(&world.works("cluster1"), "addon-told-deploy-0").await;
    wait::gone(&world.config_maps("cluster1"), "x").await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hosted_add_on_uses_two_clusters_and_leaves_both() {
    let place = annotations::ADDON_HOSTED_MANIFEST_LOCATION;
    let told = Told::wanting(vec![
        marked(config_map("x", "good"), place, "hosting"),
        marked(config_map("here", "good"), place, "managed"),
        marked(config_map("nowhere", "good"), place, "none"),
        marked(job("hook"), place, "hosting"),
    ]);
    let world = World::new(&["cluster1", "hosting"], &told).await;
    world
        .enable(&json!({annotations::ADDON_HOSTING_CLUSTER: "hosting"}))
        .await;
    world.says("HostingClusterValidity=True(HostingClusterValid)").await;
    world.says("HostingManifestApplied=True(AddonManifestApplied)").await;
    let addon = world.says("Available=True(ProbeAvailable)").await;
    assert_eq!(
        addon.finalizers(),
        [
            "addon.open-cluster-management.io/hosting-addon-pre-delete",
            "addon.open-cluster-management.io/hosting-manifests-cleanup"
        ]
    );
    data(&world.config_maps("hosting"), "x", "mood", "good").await;
    data(&world.config_maps("cluster1"), "here", "mood", "good").await;
    for cluster in ["cluster1", "hosting"] {
        assert!(world.config_maps(cluster).get_opt("nowhere").await.unwrap().is_none());
    }
    world.is_settled().await;

    world.delete().await;
    complete(&world.clusters[1].1, "hook").await;
    wait::gone(&world.addons(), "told").await;
    wait::gone(&world.config_maps("hosting"), "x").await;
    wait::gone(&world.config_maps("cluster1"), "here").await;
    wait::until_all(
        &world.works("hosting"),
        "no work is left on the hosting cluster",
        |it| it.is_empty(),
    )
    .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosting_clusters_are_cleaned_when_leaving_and_used_when_joining() {
    let place = annotations::ADDON_HOSTED_MANIFEST_LOCATION;
    let told = Told::wanting(vec![
        config_map("here", "good"),
        marked(config_map("x", "good"), place, "hosting"),
    ]);
    let world = World::new(&["cluster1", "hosting"], &told).await;
    let clusters: Api<ManagedCluster> = Api::all(world.hub.client());
    clusters.delete("hosting", &DeleteParams::default()).await.unwrap();
    world
        .enable(&json!({annotations::ADDON_HOSTING_CLUSTER: "hosting"}))
        .await;
    world.says("HostingClusterValidity=False(HostingClusterInvalid)").await;
    world
        .hub
        .apply("{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: hosting}, spec: {}}")
        .await;
    world.says("HostingManifestApplied=True(AddonManifestApplied)").await;
    data(&world.config_maps("hosting"), "x", "mood", "good").await;

    clusters.delete("hosting", &DeleteParams::default()).await.unwrap();
    wait::gone(&world.config_maps("hosting"), "x").await;
    wait::until(&world.addons(), "told", "nothing holds it", |it| {
        it.is_some_and(|it| it.finalizers().is_empty())
    })
    .await;
    world.says("HostingClusterValidity=False(HostingClusterInvalid)").await;

    // At home everything is at home.
    world.annotate(json!({annotations::ADDON_HOSTING_CLUSTER: null})).await;
    data(&world.config_maps("cluster1"), "x", "mood", "good").await;
    wait::until(&world.addons(), "told", "nothing is said of hosting", |it| {
        it.is_some_and(|it| !objects::conditions(it).iter().any(|it| it.starts_with("Hosting")))
    })
    .await;
    world.is_settled().await;
    world.stop().await;
}
