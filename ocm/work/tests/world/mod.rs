//! A hub and a cluster on embedded APIs, and one agent between them.

use std::time::Duration;

use futures::{StreamExt, pin_mut};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::ApiResource,
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use testkit::site::Site;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use work::agent::{WorkAgentOptions, hub_hash};

const CLUSTER: &str = "cluster1";

/// More than a loaded machine needs for anything here; what takes longer does not happen.
const PATIENCE: Duration = Duration::from_secs(30);

pub struct World {
    hub_site: Site,
    cluster_site: Site,
    hub: Client,
    cluster: Client,
    agent: Option<(CancellationToken, JoinHandle<()>)>,
}

impl World {
    pub async fn new() -> Self {
        Self::with(ocm_api::crds::managed_cluster()).await
    }

    /// With these definitions on the cluster.
    pub async fn with(of_cluster: Vec<Value>) -> Self {
        let (hub_site, cluster_site) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        let (hub, cluster) = (hub_site.client(), cluster_site.client());
        serve(
            &hub,
            ocm_api::crds::hub(),
            "manifestworks.work.open-cluster-management.io",
        )
        .await;
        serve(
            &cluster,
            of_cluster,
            "appliedmanifestworks.work.open-cluster-management.io",
        )
        .await;
        create(&hub, "v1", "namespaces", None, json!({"metadata": {"name": CLUSTER}})).await;
        let mut world = Self {
            hub_site,
            cluster_site,
            hub,
            cluster,
            agent: None,
        };
        world.start_agent();
        world
    }

    pub fn start_agent(&mut self) {
        let mut options = WorkAgentOptions::new(
            self.hub.clone(),
            self.cluster.clone(),
            CLUSTER,
            &hub_hash("https://hub.example:6443"),
        );
        options.agent_id = "agent".to_owned();
        let cancel = CancellationToken::new();
        self.agent = Some((cancel.clone(), tokio::spawn(work::agent::run(options, cancel))));
    }

    pub async fn stop_agent(&mut self) {
        if let Some((cancel, running)) = self.agent.take() {
            cancel.cancel();
            running.await.unwrap();
        }
    }

    pub async fn stop(mut self) {
        self.stop_agent().await;
        self.hub_site.stop().await;
        self.cluster_site.stop().await;
    }

    fn works(&self) -> Api<DynamicObject> {
        api(
            &self.hub,
            "work.open-cluster-management.io/v1",
            "manifestworks",
            Some(CLUSTER),
        )
    }

    pub async fn create_work(&self, name: &str, spec: Value) {
        let object = json!({"metadata": {"name": name, "namespace": CLUSTER}, "spec": spec});
        create(
            &self.hub,
            "work.open-cluster-management.io/v1",
            "manifestworks",
            Some(CLUSTER),
            object,
        )
        .await;
    }

    pub async fn patch_work(&self, name: &str, patch: Value) {
        self.works()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub async fn delete_work(&self, name: &str) {
        self.works().delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn work_until(&self, name: &str, state: impl Fn(&Value) -> bool) -> Value {
        until(self.works(), name, |it| it.is_some_and(&state))
            .await
            .expect("the state is one of a present work")
    }

    pub async fn work_until_gone(&self, name: &str) {
        until(self.works(), name, |it| it.is_none()).await;
    }

    pub async fn trace(&self, work: &str) -> Option<Value> {
        let name = format!("{}-{work}", hub_hash("https://hub.example:6443"));
        let traces = api(
            &self.cluster,
            "work.open-cluster-management.io/v1",
            "appliedmanifestworks",
            None,
        );
        traces.get_opt(&name).await.unwrap().map(value)
    }

    pub async fn create_object(&self, version: &str, plural: &str, object: Value) {
        create(&self.cluster, version, plural, Some("default"), object).await;
    }

    pub async fn object(&self, version: &str, plural: &str, name: &str) -> Option<Value> {
        api(&self.cluster, version, plural, Some("default"))
            .get_opt(name)
            .await
            .unwrap()
            .map(value)
    }

    /// One of a kind without namespaces.
    pub async fn create_cluster_object(&self, version: &str, plural: &str, object: Value) {
        create(&self.cluster, version, plural, None, object).await;
    }

    pub async fn cluster_object(&self, version: &str, plural: &str, name: &str) -> Option<Value> {
        let objects = api(&self.cluster, version, plural, None);
        objects.get_opt(name).await.unwrap().map(value)
    }

    pub async fn patch_object(&self, plural: &str, name: &str, patch: Value) {
        let objects = api(&self.cluster, "v1", plural, Some("default"));
        objects
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Server-side apply under this manager, with force.
    pub async fn apply_object(&self, plural: &str, name: &str, manager: &str, object: Value) {
        let objects = api(&self.cluster, "v1", plural, Some("default"));
        let params = PatchParams::apply(manager).force();
        objects.patch(name, &params, &Patch::Apply(object)).await.unwrap();
    }

    /// Deletes an object of any group.
    pub async fn delete_of(&self, version: &str, plural: &str, name: &str) {
        api(&self.cluster, version, plural, Some("default"))
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub async fn delete_object(&self, plural: &str, name: &str) {
        api(&self.cluster, "v1", plural, Some("default"))
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    pub async fn object_until(
        &self,
        plural: &str,
        name: &str,
        state: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        until(api(&self.cluster, "v1", plural, Some("default")), name, state).await
    }
}

async fn serve(client: &Client, mut crds: Vec<Value>, name: &str) {
    crds.retain(|it| it["metadata"]["name"] == name);
    assert_eq!(crds.len(), 1, "{name}");
    ocm_reconcile::install::install_crds(client, crds).await.unwrap();
}

fn api(client: &Client, version: &str, plural: &str, namespace: Option<&str>) -> Api<DynamicObject> {
    let (group, short) = version.split_once('/').unwrap_or(("", version));
    let resource = ApiResource {
        group: group.to_owned(),
        version: short.to_owned(),
        api_version: version.to_owned(),
        kind: kind_of(plural).to_owned(),
        plural: plural.to_owned(),
    };
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

fn kind_of(plural: &str) -> &'static str {
    match plural {
        "clusterrolebindings" => "ClusterRoleBinding",
        "clusterroles" => "ClusterRole",
        "configmaps" => "ConfigMap",
        "manifestworks" => "ManifestWork",
        "namespaces" => "Namespace",
        "roles" => "Role",
        "rolebindings" => "RoleBinding",
        _ => "Any",
    }
}

async fn create(client: &Client, version: &str, plural: &str, namespace: Option<&str>, mut object: Value) {
    object["apiVersion"] = version.into();
    object["kind"] = kind_of(plural).into();
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    api(client, version, plural, namespace)
        .create(&PostParams::default(), &object)
        .await
        .unwrap();
}

fn value(object: DynamicObject) -> Value {
    serde_json::to_value(object).unwrap()
}

async fn until(api: Api<DynamicObject>, name: &str, state: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
    let mut last = None;
    let waiting = async {
        let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let stream = watcher::watcher(api, config).default_backoff();
        pin_mut!(stream);
        let mut listed = None;
        while let Some(event) = stream.next().await.transpose().unwrap_or(None) {
            match event {
                watcher::Event::Init => listed = Some(None),
                watcher::Event::InitApply(object) => listed = Some(Some(value(object))),
                watcher::Event::InitDone => last = listed.take().flatten(),
                watcher::Event::Apply(object) => last = Some(value(object)),
                watcher::Event::Delete(_) => last = None,
            }
            if listed.is_none() && state(last.as_ref()) {
                return;
            }
        }
    };
    let timed = tokio::time::timeout(PATIENCE, waiting).await;
    if timed.is_err() {
        panic!(
            "waited in vain; last seen: {}",
            serde_json::to_string_pretty(&last).unwrap()
        );
    }
    last
}

/// A ConfigMap in the default namespace with one entry.
pub fn config_map(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": {"k": text}
    })
}
