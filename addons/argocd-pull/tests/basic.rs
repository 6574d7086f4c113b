//! Applications on a hub in memory: they become ManifestWorks, status comes back, and both go together.

use std::{fmt::Debug, time::Duration};

use addon_argocd_pull::{
    application::PulledApplication,
    basic::{BasicPullSettings, controllers},
    words,
};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{Namespace, Secret},
    kube::{
        Api, Resource, ResourceExt,
        api::{DeleteParams, Patch, PatchParams, PostParams},
    },
    ocm_api::{cluster::ManagedCluster, crds, work::ManifestWork},
    reconcile::{Caches, Clients, controller, install::install_crds},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

struct World {
    hub: Site,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Argo CD's definition, as far as the API server is concerned.
fn definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "applications.argoproj.io"},
        "spec": {
            "group": "argoproj.io", "scope": "Namespaced",
            "names": {"kind": "Application", "listKind": "ApplicationList", "plural": "applications", "singular": "application"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": open}}],
        },
    })
}

impl World {
    /// With the controllers running, and Argo CD.
    async fn start() -> Self {
        let world = Self::empty().await;
        world.install_argo_cd().await;
        world.run();
        world
    }

    async fn empty() -> Self {
        let hub = Site::start().await.unwrap();
        install_crds(&hub.client(), crds::hub()).await.unwrap();
        let world = Self {
            hub,
            stop: CancellationToken::new(),
        };
        for name in ["argocd", "c1", "c2"] {
            let _: Namespace = world.create(json!({"metadata": {"name": name}})).await;
        }
        world
    }

    async fn install_argo_cd(&self) {
        install_crds(&self.hub.client(), vec![definition()]).await.unwrap();
    }

    fn run(&self) {
        let caches = Caches::new(self.hub.client(), self.stop.clone());
        let settings = BasicPullSettings {
            cleanup_interval: Duration::from_secs(3600),
            ..BasicPullSettings::default()
        };
        controller::start_all(
            controllers(&caches, &settings),
            &Clients::hub(self.hub.client()),
            &self.stop,
        );
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = ocm_addon_sdk::kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.hub.client(), namespace)
    }

    fn applications(&self) -> Api<PulledApplication> {
        self.api("argocd")
    }

    fn works(&self, cluster: &str) -> Api<ManifestWork> {
        self.api(cluster)
    }

    /// Creates an object where its namespace says.
    async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let mut typed = object.clone();
        typed["apiVersion"] = K::api_version(&()).into();
        typed["kind"] = K::kind(&()).into();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let api = self.hub.api(&K::api_version(&()), &K::kind(&()), namespace).await;
        let made = api
            .create(&PostParams::default(), &serde_json::from_value(typed).unwrap())
            .await;
        serde_json::from_value(serde_json::to_value(made.unwrap()).unwrap()).unwrap()
    }

    async fn cluster(&self, name: &str) {
        let _: ManagedCluster = self
            .create(json!({"metadata": {"name": name}, "spec": {"hubAcceptsClient": true}}))
            .await;
    }

    async fn application(&self, more: Value) -> PulledApplication {
        let mut object = json!({
            "metadata": {
                "name": "guestbook", "namespace": "argocd",
                "labels": {words::PULL: "true"}, "annotations": {words::CLUSTER: "c1", words::SKIP_RECONCILE: "true"},
            },
            "spec": {"project": "default", "destination": {"name": "c1", "namespace": "guests"}},
        });
        for (key, value) in more.as_object().unwrap() {
            match key.as_str() {
                "finalizers" => object["metadata"]["finalizers"] = value.clone(),
                _ => object[key] = value.clone(),
            }
        }
        self.create(object).await
    }

    async fn work(&self, application: &PulledApplication) -> ManifestWork {
        let name = application.work_name();
        let found = wait::until(&self.works("c1"), &name, "is created", |it| it.is_some()).await;
        found.unwrap()
    }

    /// What the cluster says of it.
    async fn say(&self, work: &str, values: &[(&str, &str)]) {
        let value =
            |(name, text): &(&str, &str)| json!({"name": name, "fieldValue": {"type": "String", "string": text}});
        let values: Vec<Value> = values.iter().map(value).collect();
        let meta = json!({"ordinal": 0, "group": "argoproj.io", "version": "v1alpha1", "kind": "Application",
            "resource": "applications", "name": "guestbook", "namespace": "argocd"});
        let manifest = json!({"resourceMeta": meta, "statusFeedback": {"values": values}, "conditions": []});
        let status = json!({"status": {"resourceStatus": {"manifests": [manifest]}}});
        let patch = Patch::Merge(status);
        self.works("c1")
            .patch_status(work, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + Debug + DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_becomes_a_work_and_loses_its_operation() {
    let world = World::start().await;
    world.cluster("c1").await;
    let application = world
        .application(json!({"operation": {"sync": {"revision": "HEAD"}}}))
        .await;
    let work = world.work(&application).await;
    assert_eq!(work.labels()[words::PULL], "true");
    assert_eq!(work.annotations()[words::HUB_NAMESPACE], "argocd");
    assert_eq!(work.annotations()[words::HUB_NAME], "guestbook");
    let without = |it: Option<&PulledApplication>| it.is_some_and(|it| !it.fields.contains_key("operation"));
    wait::until(&world.applications(), "guestbook", "no operation", without).await;
    // The change is wrapped, too.
    let spec = json!({"spec": {"source": {"path": "x"}}, "metadata": {"labels": {"team": "a"}}});
    merge(&world.applications(), "guestbook", spec).await;
    let name = work.name_any();
    let follows = |it: Option<&ManifestWork>| {
        it.is_some_and(|it| it.spec.workload.manifests.read()[0].0["spec"]["source"]["path"] == "x")
    };
    let work = wait::until(&world.works("c1"), &name, "follows", follows)
        .await
        .unwrap();
    // The operation is still there: no cluster has heard of it yet.
    let expected = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
        "metadata": {"name": "guestbook", "namespace": "argocd", "labels": {"team": "a"}},
        "operation": {"sync": {"revision": "HEAD"}},
        "spec": {
            "project": "default", "source": {"path": "x"},
            "destination": {"name": "", "server": "https://kubernetes.default.svc", "namespace": "guests"},
        },
    });
    assert_eq!(work.spec.workload.manifests.read()[0].0, expected);
    // Somebody else's word is replaced, and what an Application without the label says reaches nobody.
    merge(&world.works("c1"), &name, json!({"metadata": {"labels": {"x": "y"}}})).await;
    let clean = |it: Option<&ManifestWork>| it.is_some_and(|it| !it.labels().contains_key("x"));
    wait::until(&world.works("c1"), &name, "clean labels", clean).await;
    let unlabelled = json!({"metadata": {"labels": {words::PULL: null}}, "spec": {"source": {"path": "y"}}});
    merge(&world.applications(), "guestbook", unlabelled).await;
    delete(&world.works("c1"), &name).await;
    wait::gone(&world.works("c1"), &name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_waits_for_its_kind_and_its_cluster() {
    let world = World::empty().await;
    world.run();
    world.install_argo_cd().await;
    let application = world.application(json!({})).await;
    world.cluster("c2").await;
    let secrets: Api<Secret> = world.api("argocd");
    wait::until(&secrets, "c2-secret", "a Secret", |it| it.is_some()).await;
    assert!(
        world
            .works("c1")
            .list(&Default::default())
            .await
            .unwrap()
            .items
            .is_empty()
    );
    world.cluster("c1").await;
    world.work(&application).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_comes_back_with_progress_first() {
    let world = World::start().await;
    world.cluster("c1").await;
    let application = world.application(json!({})).await;
    let name = world.work(&application).await.name_any();
    let mut seen = Vec::new();
    let api = world.applications();
    let mut watch = std::pin::pin!(versions_of(&api));
    begun(&mut watch).await;
    let values = [
        ("healthStatus", "Healthy"),
        ("syncStatus", "Synced"),
        ("operationStateStartedAt", "2026-01-01T00:00:00Z"),
        ("operationStatePhase", "Succeeded"),
        ("syncRevision", "abc"),
    ];
    world.say(&name, &values[..1]).await;
    world.say(&name, &values).await;
    while let Some(health) = next_health(&mut watch).await {
        let is_last = health == "Healthy";
        seen.push(health);
        if is_last {
            break;
        }
    }
    seen.dedup();
    assert_eq!(seen, ["Progressing", "Healthy"]);
    let expected = json!({
        "health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "abc"},
        "operationState": {"phase": "Succeeded", "startedAt": "2026-01-01T00:00:00Z", "operation": {}},
    });
    assert_eq!(api.get("guestbook").await.unwrap().fields["status"], expected);
    world
        .say(&name, &[("healthStatus", "Degraded"), ("syncStatus", "OutOfSync")])
        .await;
    let degraded =
        |it: Option<&PulledApplication>| it.is_some_and(|it| it.fields["status"]["health"]["status"] == "Degraded");
    let told = wait::until(&api, "guestbook", "degraded", degraded).await.unwrap();
    assert_eq!(
        told.fields["status"]["sync"],
        json!({"status": "OutOfSync", "revision": ""})
    );
}

type Events = ocm_addon_sdk::kube::runtime::watcher::Event<PulledApplication>;

/// Every version of every Application.
fn versions_of(
    api: &Api<PulledApplication>,
) -> impl futures::Stream<Item = Result<Events, ocm_addon_sdk::kube::runtime::watcher::Error>> + use<> {
    ocm_addon_sdk::kube::runtime::watcher(api.clone(), Default::default())
}

/// Returns when the watch shows every further change.
async fn begun<S>(watch: &mut std::pin::Pin<&mut S>)
where
    S: futures::Stream<Item = Result<Events, ocm_addon_sdk::kube::runtime::watcher::Error>>,
{
    use futures::StreamExt;
    let list = async { while !matches!(watch.next().await, Some(Ok(Events::InitDone)) | None) {} };
    tokio::time::timeout(wait::PATIENCE, list).await.unwrap();
}

async fn next_health<S>(watch: &mut std::pin::Pin<&mut S>) -> Option<String>
where
    S: futures::Stream<Item = Result<Events, ocm_addon_sdk::kube::runtime::watcher::Error>>,
{
    use futures::StreamExt;
    let next = async {
        loop {
            let event = watch.next().await?;
            let application = match event {
                Ok(Events::Apply(it) | Events::InitApply(it)) => it,
                _ => continue,
            };
            let health = application
                .fields
                .get("status")
                .and_then(|it| it.pointer("/health/status"));
            if let Some(Value::String(text)) = health {
                return Some(text.clone());
            }
        }
    };
    tokio::time::timeout(wait::PATIENCE, next).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_work_goes_with_its_application() {
    let world = World::start().await;
    world.cluster("c1").await;
    let application = world.application(json!({})).await;
    let first = world.work(&application).await.name_any();
    delete(&world.applications(), "guestbook").await;
    wait::gone(&world.works("c1"), &first).await;
    // With the finalizer it goes first, and others hold the Application.
    let finalizers = json!({"finalizers": [words::RESOURCES_FINALIZER, "example.com/mine"]});
    let application = world.application(finalizers).await;
    let second = world.work(&application).await.name_any();
    assert_ne!(first, second);
    delete(&world.applications(), "guestbook").await;
    wait::gone(&world.works("c1"), &second).await;
    let only_mine = |it: Option<&PulledApplication>| it.is_some_and(|it| it.finalizers() == ["example.com/mine"]);
    wait::until(&world.applications(), "guestbook", "one finalizer", only_mine).await;
    merge(
        &world.applications(),
        "guestbook",
        json!({"metadata": {"finalizers": null}}),
    )
    .await;
    wait::gone(&world.applications(), "guestbook").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn works_left_over_are_deleted_at_start() {
    let world = World::empty().await;
    world.install_argo_cd().await;
    let work = |name: &str, label: &str, annotations: Value| {
        let labels = json!({words::PULL: label});
        let metadata = json!({"name": name, "namespace": "c1", "labels": labels, "annotations": annotations});
        json!({"metadata": metadata, "spec": {"workload": {"manifests": []}}})
    };
    let gone = json!({words::HUB_NAMESPACE: "argocd", words::HUB_NAME: "gone"});
    let there = json!({words::HUB_NAMESPACE: "argocd", words::HUB_NAME: "guestbook"});
    world.application(json!({})).await;
    for (name, label, annotations) in [
        ("orphan", "true", &gone),
        ("kept", "true", &there),
        ("other-label", "false", &gone),
        ("half", "true", &json!({words::HUB_NAME: "gone"})),
    ] {
        let _: ManifestWork = world.create(work(name, label, annotations.clone())).await;
    }
    world.run();
    wait::gone(&world.works("c1"), "orphan").await;
    world.cluster("c1").await;
    let all = |all: &[ManifestWork]| all.len() == 4;
    let left = wait::until_all(&world.works("c1"), "three and that of the Application", all).await;
    let mut left: Vec<String> = left.iter().map(ResourceExt::name_any).collect();
    left.retain(|it| !it.starts_with("guestbook-"));
    left.sort();
    assert_eq!(left, ["half", "kept", "other-label"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_has_a_secret_while_it_is_there() {
    let world = World::start().await;
    let foreign = json!({"metadata": {"name": "c2-secret", "namespace": "argocd", "labels": {words::SECRET_TYPE: "cluster"}},
        "stringData": {"name": "c2", "server": "https://mine"}});
    let _: Secret = world.create(foreign).await;
    for name in ["c1", "c2"] {
        world.cluster(name).await;
    }
    let secrets: Api<Secret> = world.api("argocd");
    let secret = wait::until(&secrets, "c1-secret", "a Secret", |it| it.is_some())
        .await
        .unwrap();
    let told = |secret: &Secret| {
        let data = secret.data.clone().unwrap_or_default();
        let text = |it: &Vec<u8>| String::from_utf8(it.clone()).unwrap();
        data.iter()
            .map(|(key, value)| format!("{key}={}", text(&value.0)))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(&secret), ["name=c1", "server=https://c1-control-plane:6443"]);
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
    assert_eq!(secret.labels()[words::SECRET_TYPE], "cluster");
    assert_eq!(secret.labels().len(), 1);
    let kept = secrets.get("c2-secret").await.unwrap();
    assert_eq!(told(&kept), ["name=c2", "server=https://mine"]);
    let clusters: Api<ManagedCluster> = Api::all(world.hub.client());
    delete(&clusters, "c1").await;
    wait::gone(&secrets, "c1-secret").await;
}
