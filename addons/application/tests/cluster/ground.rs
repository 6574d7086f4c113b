//! A hub with a Channel, a cluster, the add-on between them, and a source whose content the test says.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use addon_application::{
    cluster::{
        ClusterClients, ClusterReaders, controllers,
        helm::{ChartContent, ChartPlace, ChartReader},
    },
    source::{SourceContent, SourceInputs, SourceReader},
};
use kube_api::admission::Admission;
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Namespace},
    kube::{
        Api, ResourceExt,
        api::{DeleteParams, Patch, PatchParams, PostParams},
    },
    ocm_api::{
        apps::{self, Channel, Subscription, SubscriptionReport, SubscriptionStatus},
        crds,
    },
    reconcile::{async_trait, install::install_crds},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

pub const CLUSTER: &str = "cluster1";
pub const CHANNELS: &str = "channels";
pub const TEAM: &str = "team";

/// What sources hold.
pub struct Source {
    pub content: Mutex<Result<SourceContent, String>>,
    pub reads: AtomicUsize,
}

#[async_trait]
impl SourceReader for Source {
    async fn read(
        &self,
        _: &Subscription,
        _: &SourceInputs,
        known: Option<&str>,
    ) -> Result<Option<SourceContent>, String> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        let content = self.content.lock().clone()?;
        Ok(Some(content).filter(|it| known != Some(it.revision.as_str())))
    }
}

/// Charts have tests of their own.
#[async_trait]
impl ChartReader for Source {
    async fn read(&self, _: &ChartPlace) -> Result<ChartContent, String> {
        Err("there are no charts".to_owned())
    }
}

pub struct World {
    pub hub: Site,
    pub cluster: Site,
    pub source: Arc<Source>,
    pub stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub async fn start() -> Self {
        let world = Self::prepare().await;
        world.run();
        world
    }

    /// Without the add-on.
    pub async fn prepare() -> Self {
        Self::prepare_with(Vec::new()).await
    }

    /// Without the add-on, on a cluster with this admission.
    pub async fn prepare_with(admission: Vec<Arc<dyn Admission>>) -> Self {
        let hub = Site::start().await.unwrap();
        let cluster = Site::start_with(admission).await.unwrap();
        for site in [&hub, &cluster] {
            install_crds(&site.client(), crds::add_on(apps::GROUP)).await.unwrap();
        }
        let world = Self {
            hub,
            cluster,
            source: Arc::new(Source {
                content: Mutex::new(Ok(SourceContent::default())),
                reads: AtomicUsize::new(0),
            }),
            stop: CancellationToken::new(),
        };
        for (site, name) in [(&world.hub, CLUSTER), (&world.hub, CHANNELS), (&world.cluster, TEAM)] {
            namespace(site, name).await;
        }
        let channel: Channel = serde_json::from_value(json!({
            "metadata": {"name": "git", "namespace": CHANNELS},
            "spec": {"type": "Git", "pathname": "https://example.com/shop.git"},
        }))
        .unwrap();
        let channels: Api<Channel> = Api::namespaced(world.hub.client(), CHANNELS);
        channels.create(&PostParams::default(), &channel).await.unwrap();
        world
    }

    pub fn run(&self) {
        let clients = ClusterClients {
            hub: Some(self.hub.client()),
            cluster: self.cluster.client(),
        };
        let readers = ClusterReaders {
            sources: self.source.clone(),
            charts: self.source.clone(),
        };
        for (controller, clients) in controllers(&clients, CLUSTER, &readers, &self.stop) {
            controller.start(clients, self.stop.clone());
        }
    }

    /// From now on the source holds these objects.
    pub fn holds(&self, revision: &str, objects: &[Value]) {
        *self.source.content.lock() = Ok(SourceContent {
            revision: revision.to_owned(),
            objects: objects.to_vec(),
            ..SourceContent::default()
        });
    }

    pub fn fails(&self, why: &str) {
        *self.source.content.lock() = Err(why.to_owned());
    }

    pub fn subscriptions(&self) -> Api<Subscription> {
        Api::namespaced(self.cluster.client(), TEAM)
    }

    pub fn maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client(), namespace)
    }

    pub fn statuses(&self) -> Api<SubscriptionStatus> {
        Api::namespaced(self.cluster.client(), TEAM)
    }

    /// Brings a Subscription to the cluster, as the hub's half does.
    pub async fn subscribe(&self, name: &str, annotations: Value, spec: Value) {
        let mut subscription = json!({
            "metadata": {"name": name, "namespace": TEAM, "annotations": {
                apps::annotations::HOSTING_SUBSCRIPTION: format!("{TEAM}/{name}"),
            }},
            "spec": {"channel": format!("{CHANNELS}/git"), "placement": {"local": true}},
        });
        for (key, value) in annotations.as_object().unwrap() {
            subscription["metadata"]["annotations"][key] = value.clone();
        }
        for (key, value) in spec.as_object().unwrap() {
            subscription["spec"][key] = value.clone();
        }
        let subscription: Subscription = serde_json::from_value(subscription).unwrap();
        self.subscriptions()
            .create(&PostParams::default(), &subscription)
            .await
            .unwrap();
    }

    /// Has the source looked at again, as a refresh by hand.
    pub async fn refresh(&self, name: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {apps::annotations::MANUAL_REFRESH_TIME: value}}});
        self.patch(name, patch).await;
    }

    pub async fn patch(&self, name: &str, patch: Value) {
        let params = PatchParams::default();
        self.subscriptions()
            .patch(name, &params, &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub async fn unsubscribe(&self, name: &str) {
        self.subscriptions()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// The Subscription, once it is told to be in this phase for this reason.
    pub async fn told(&self, name: &str, phase: &str, reason: &str) {
        let api = self.subscriptions();
        let what = format!("is {phase}: {reason}");
        wait::until_with(&api, name, &what, |it| {
            let status = it.and_then(|it| it.status.as_ref());
            status.is_some_and(|it| it.phase == phase && it.reason == reason)
        })
        .await;
    }

    /// The SubscriptionStatus as lines, once it has this phase.
    pub async fn packages(&self, name: &str, phase: &str) -> Vec<String> {
        let is_in = |it: Option<&SubscriptionStatus>| {
            let whole = it.and_then(|it| it.statuses.subscription.as_ref());
            whole.is_some_and(|it| it.phase == phase)
        };
        let status = wait::until_with(&self.statuses(), name, &format!("is {phase}"), is_in)
            .await
            .unwrap();
        let line = |it: &apps::SubscriptionUnitStatus| {
            let mut line = format!("{} {}/{} {}", it.kind, it.namespace, it.name, it.phase);
            if !it.message.is_empty() {
                line += ": ";
                line += &it.message;
            }
            line
        };
        status.statuses.packages.iter().map(line).collect()
    }

    /// The report of the cluster, once it says this of the Subscription.
    pub async fn reported(&self, name: &str, result: &str) {
        let api: Api<SubscriptionReport> = Api::namespaced(self.hub.client(), CLUSTER);
        let source = format!("{TEAM}/{name}");
        wait::until_with(&api, CLUSTER, &format!("says {source} {result}"), |it| {
            let results = it.map(|it| it.results.as_slice()).unwrap_or_default();
            results.iter().any(|it| it.source == source && it.result == result)
        })
        .await;
    }
}

pub async fn namespace(site: &Site, name: &str) {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let api: Api<Namespace> = Api::all(site.client());
    api.create(&PostParams::default(), &namespace).await.unwrap();
}

pub fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

pub fn value(map: &ConfigMap, key: &str) -> String {
    map.data
        .as_ref()
        .and_then(|it| it.get(key))
        .cloned()
        .unwrap_or_default()
}

pub fn owner(map: &ConfigMap) -> String {
    map.annotations()
        .get(apps::annotations::HOSTING_SUBSCRIPTION)
        .cloned()
        .unwrap_or_default()
}
