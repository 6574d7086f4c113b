//! A hub with a Channel, clusters that are nothing but their namespaces, and the hub's half.

use std::{fmt::Debug, sync::Arc, time::Duration};

use addon_application::{
    hub::{HubSettings, controllers, webhook::PendingEvents, webhook::WebhookListener},
    source::{SourceContent, SourceInputs, SourceReader},
};
use ocm_addon_sdk::{
    kube::{
        Api,
        api::{Patch, PatchParams},
        core::DynamicObject,
    },
    ocm_api::{
        apps::{GROUP, Subscription},
        crds,
        work::ManifestWork,
    },
    reconcile::{Caches, Clients, async_trait, controller, install::install_crds},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The namespace of people.
pub const NAMESPACE: &str = "ns";
/// The namespace of Channels.
pub const CHANNELS: &str = "ch";
/// What the manifests give the program.
pub const RIGHTS: &str = include_str!("../../deploy/rights.yaml");
/// The namespace of the hub's components.
const OWN: &str = "open-cluster-management";
const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";

/// What every source holds at present, or why none can be read.
pub struct MadeUpSource {
    pub content: Mutex<Result<SourceContent, String>>,
    /// The Secret that it was read with last.
    pub password: Mutex<Option<String>>,
}

#[async_trait]
impl SourceReader for MadeUpSource {
    async fn read(
        &self,
        _: &Subscription,
        inputs: &SourceInputs,
        known: Option<&str>,
    ) -> Result<Option<SourceContent>, String> {
        let data = inputs.primary.secret.as_ref().and_then(|it| it.data.clone());
        let password = data.and_then(|mut it| it.remove("accessToken"));
        *self.password.lock().await = password.and_then(|it| String::from_utf8(it.0).ok());
        let content = self.content.lock().await.clone()?;
        Ok(Some(content).filter(|it| known != Some(it.revision.as_str())))
    }
}

/// A source of one ConfigMap at this commit.
pub fn content(commit: &str) -> SourceContent {
    SourceContent {
        revision: commit.to_owned(),
        objects: vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "other"}}),
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "b"}}),
        ],
        ..SourceContent::default()
    }
}

pub fn made_up_source() -> Arc<MadeUpSource> {
    Arc::new(MadeUpSource {
        content: Mutex::new(Ok(content("0123456789"))),
        password: Mutex::default(),
    })
}

pub struct SubscriptionHub {
    pub site: Site,
    pub source: Arc<MadeUpSource>,
    pub listener: WebhookListener,
    stop: CancellationToken,
}

impl Drop for SubscriptionHub {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl SubscriptionHub {
    /// With these clusters, which Placement `all` chooses.
    pub async fn start(clusters: &[&str]) -> Self {
        let site = Site::start().await.unwrap();
        let mut kinds = crds::add_on(GROUP);
        kinds.extend(crds::hub());
        install_crds(&site.client(), kinds).await.unwrap();
        let source = made_up_source();
        let (stop, events) = (CancellationToken::new(), PendingEvents::default());
        let settings = HubSettings {
            reader: source.clone(),
            sync_interval: Duration::from_secs(3600),
            trusted_identities: true,
            own_namespace: Some(OWN.to_owned()),
            events: events.clone(),
        };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN}});
        site.apply(&namespace.to_string()).await;
        // Not more than the manifests give.
        site.apply(RIGHTS).await;
        let account = format!("system:serviceaccount:{OWN}:multicluster-operators-subscription");
        let client = site.client_as(&account, &[]);
        let caches = Caches::new(client.clone(), stop.clone());
        let hub = Self {
            listener: WebhookListener::new(&caches, events),
            site,
            source,
            stop,
        };
        for name in [NAMESPACE, CHANNELS].iter().chain(clusters) {
            hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
                .await;
        }
        for name in clusters {
            hub.cluster(name, json!({})).await;
        }
        hub.place("all", clusters).await;
        hub.channel("c", "Git", json!({})).await;
        controller::start_all(controllers(&caches, &settings), &Clients::hub(client), &hub.stop);
        hub
    }

    pub async fn apply(&self, object: Value) -> DynamicObject {
        let mut all = self.site.apply(&object.to_string()).await;
        all.pop().unwrap()
    }

    pub async fn cluster(&self, name: &str, labels: Value) {
        self.apply(json!({
            "apiVersion": format!("{CLUSTER_GROUP}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": name, "labels": labels}, "spec": {"hubAcceptsClient": true},
        }))
        .await;
    }

    pub async fn channel(&self, name: &str, kind: &str, annotations: Value) {
        self.apply(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Channel",
            "metadata": {"name": name, "namespace": CHANNELS, "annotations": annotations},
            "spec": {"type": kind, "pathname": "https://github.com/org/app.git"},
        }))
        .await;
    }

    /// A Placement with the decision for these clusters.
    pub async fn place(&self, name: &str, clusters: &[&str]) {
        let api_version = format!("{CLUSTER_GROUP}/v1beta1");
        let metadata = json!({"name": name, "namespace": NAMESPACE});
        self.apply(json!({"apiVersion": api_version, "kind": "Placement", "metadata": metadata, "spec": {}}))
            .await;
        let label = format!("{CLUSTER_GROUP}/placement");
        let name = format!("{name}-decision-1");
        let metadata = json!({"name": name, "namespace": NAMESPACE, "labels": {label: metadata["name"]}});
        self.apply(json!({"apiVersion": api_version, "kind": "PlacementDecision", "metadata": metadata}))
            .await;
        let decisions: Vec<Value> = clusters
            .iter()
            .map(|it| json!({"clusterName": it, "reason": ""}))
            .collect();
        let api = self.site.api(&api_version, "PlacementDecision", NAMESPACE).await;
        patch_status(&api, &name, json!({"decisions": decisions})).await;
    }

    /// A Subscription for the clusters of `all`.
    pub async fn subscribe(&self, name: &str, annotations: Value) {
        self.subscribe_for(name, annotations, by_placement()).await;
    }

    pub async fn subscribe_for(&self, name: &str, annotations: Value, placement: Value) {
        self.apply(json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Subscription",
            "metadata": {"name": name, "namespace": NAMESPACE, "annotations": annotations},
            "spec": {"channel": format!("{CHANNELS}/c"), "placement": placement},
        }))
        .await;
    }

    pub fn subscriptions(&self) -> Api<Subscription> {
        Api::namespaced(self.site.client(), NAMESPACE)
    }

    pub fn works(&self, cluster: &str) -> Api<ManifestWork> {
        Api::namespaced(self.site.client(), cluster)
    }

    /// A Subscription, once `holds` of it.
    pub async fn subscription(&self, name: &str, what: &str, holds: impl Fn(&Subscription) -> bool) -> Subscription {
        let found = wait::until(&self.subscriptions(), name, what, |it| it.is_some_and(&holds)).await;
        found.unwrap()
    }

    /// What a cluster gets of a Subscription, once `holds` of it.
    pub async fn copy(&self, cluster: &str, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let copied = |it: &ManifestWork| it.spec.workload.manifests.read().get(1).map(|it| it.0.clone());
        let name = format!("{NAMESPACE}-{name}");
        let is_it = |it: Option<&ManifestWork>| it.and_then(copied).is_some_and(|it| holds(&it));
        let work = wait::until(&self.works(cluster), &name, what, is_it).await;
        copied(&work.unwrap()).unwrap()
    }

    /// Says as a cluster what became of Subscriptions.
    pub async fn report(&self, cluster: &str, results: Value) {
        let results: Vec<Value> = results
            .as_object()
            .unwrap()
            .iter()
            .map(|(source, result)| json!({"source": source, "result": result}))
            .collect();
        self.apply(json!({
            "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "SubscriptionReport",
            "metadata": {
                "name": cluster, "namespace": cluster, "labels": {"apps.open-cluster-management.io/cluster": "true"},
            },
            "reportType": "Cluster", "results": results,
        }))
        .await;
    }
}

pub fn by_placement() -> Value {
    json!({"placementRef": {"kind": "Placement", "name": "all"}})
}

pub fn phase(subscription: &Subscription) -> (&str, &str) {
    let status = subscription.status.as_ref();
    status.map_or(("", ""), |it| (it.phase.as_str(), it.reason.as_str()))
}

pub async fn patch_status<K>(api: &Api<K>, name: &str, status: Value)
where
    K: Clone + Debug + DeserializeOwned,
{
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

pub async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + Debug + DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}
