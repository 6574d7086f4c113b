//! A hub with a Channel, a cluster with a Subscription, and the add-on between them as it runs on clusters.

use std::{collections::BTreeMap, sync::Arc};

use addon_application::{
    cluster::{ClusterClients, ClusterReaders, controllers},
    source::SourceFetcher,
};
use ocm_addon_sdk::{
    k8s_openapi::{
        ByteString,
        api::core::v1::{ConfigMap, Namespace, Secret},
    },
    kube::{
        Api,
        api::{DeleteParams, Patch, PatchParams, PostParams},
    },
    ocm_api::{
        apps::{self, Channel, HelmRelease, Subscription, SubscriptionReport},
        crds,
    },
    reconcile::install::install_crds,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

pub const CLUSTER: &str = "cluster1";
pub const CHANNELS: &str = "channels";
pub const TEAM: &str = "team";
pub const NAME: &str = "app";

/// What `me` and `secret` are in a request.
pub const BASIC: &str = "Basic bWU6c2VjcmV0";

pub struct World {
    pub hub: Site,
    pub cluster: Site,
    pub stop: CancellationToken,
    cache: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    pub async fn start() -> Self {
        let cache = tempfile::tempdir().unwrap();
        let world = Self {
            hub: Site::start().await.unwrap(),
            cluster: Site::start().await.unwrap(),
            stop: CancellationToken::new(),
            cache,
        };
        for site in [&world.hub, &world.cluster] {
            install_crds(&site.client(), crds::add_on(apps::GROUP)).await.unwrap();
        }
        for (site, name) in [(&world.hub, CLUSTER), (&world.hub, CHANNELS), (&world.cluster, TEAM)] {
            let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            let api: Api<Namespace> = Api::all(site.client());
            api.create(&PostParams::default(), &namespace).await.unwrap();
        }
        let sources = Arc::new(SourceFetcher::in_folder(world.cache.path(), &[]));
        let clients = ClusterClients {
            hub: Some(world.hub.client()),
            cluster: world.cluster.client(),
        };
        let readers = ClusterReaders {
            sources: sources.clone(),
            charts: sources,
        };
        for (controller, clients) in controllers(&clients, CLUSTER, &readers, &world.stop) {
            controller.start(clients, world.stop.clone());
        }
        world
    }

    /// The Channel, with a Secret that holds this.
    pub async fn channel(&self, kind: &str, pathname: &str, secret: &[(&str, &str)]) {
        self.channel_named(["source", "login"], kind, pathname, secret).await;
    }

    /// A Channel of this name, with a Secret of this name that holds this.
    pub async fn channel_named(
        &self,
        [name, login_name]: [&str; 2],
        kind: &str,
        pathname: &str,
        secret: &[(&str, &str)],
    ) {
        let secrets: Api<Secret> = Api::namespaced(self.hub.client(), CHANNELS);
        let mut secret = login(secret);
        secret.metadata.name = Some(login_name.to_owned());
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        let channel: Channel = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": CHANNELS},
            "spec": {"type": kind, "pathname": pathname, "secretRef": {"name": login_name}},
        }))
        .unwrap();
        let channels: Api<Channel> = Api::namespaced(self.hub.client(), CHANNELS);
        channels.create(&PostParams::default(), &channel).await.unwrap();
    }

    /// From now on the Channel's Secret holds this.
    pub async fn log_in_with(&self, secret: &[(&str, &str)]) {
        let secrets: Api<Secret> = Api::namespaced(self.hub.client(), CHANNELS);
        let patch = Patch::Merge(login(secret));
        secrets.patch("login", &PatchParams::default(), &patch).await.unwrap();
    }

    fn subscriptions(&self) -> Api<Subscription> {
        Api::namespaced(self.cluster.client(), TEAM)
    }

    pub fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client(), TEAM)
    }

    pub fn releases(&self) -> Api<HelmRelease> {
        Api::namespaced(self.cluster.client(), TEAM)
    }

    /// Brings the Subscription to the cluster, as the hub's half does.
    pub async fn subscribe(&self, annotations: Value, spec: Value) {
        let mut subscription = json!({
            "metadata": {"name": NAME, "namespace": TEAM, "annotations": annotations},
            "spec": spec,
        });
        subscription["metadata"]["annotations"][apps::annotations::HOSTING_SUBSCRIPTION] =
            format!("{TEAM}/{NAME}").into();
        subscription["spec"]["channel"] = format!("{CHANNELS}/source").into();
        subscription["spec"]["placement"] = json!({"local": true});
        let subscription: Subscription = serde_json::from_value(subscription).unwrap();
        self.subscriptions()
            .create(&PostParams::default(), &subscription)
            .await
            .unwrap();
    }

    /// Has the source looked at again, as a refresh by hand.
    pub async fn refresh(&self, value: &str) {
        let patch = json!({"metadata": {"annotations": {apps::annotations::MANUAL_REFRESH_TIME: value}}});
        self.subscriptions()
            .patch(NAME, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .unwrap();
    }

    pub async fn unsubscribe(&self) {
        self.subscriptions()
            .delete(NAME, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// Waits until the Subscription is told to be in this phase for this reason, and the hub hears the same.
    pub async fn told(&self, phase: &str, reason: &str) {
        let what = format!("is {phase}: {reason}");
        wait::until_with(&self.subscriptions(), NAME, &what, |it| {
            let status = it.and_then(|it| it.status.as_ref());
            status.is_some_and(|it| it.phase == phase && it.reason == reason)
        })
        .await;
        let result = if phase == "Subscribed" { "deployed" } else { "failed" };
        let reports: Api<SubscriptionReport> = Api::namespaced(self.hub.client(), CLUSTER);
        wait::until_with(&reports, CLUSTER, result, |it| {
            let results = it.map(|it| it.results.as_slice()).unwrap_or_default();
            results.iter().any(|it| it.result == result)
        })
        .await;
    }

    /// A ConfigMap, once it has this value.
    pub async fn map(&self, name: &str, key: &str, value: &str) -> ConfigMap {
        wait::until_with(&self.maps(), name, &format!("has {key}={value}"), |it| {
            let data = it.and_then(|it| it.data.as_ref());
            data.is_some_and(|it| it.get(key).is_some_and(|it| it == value))
        })
        .await
        .unwrap()
    }

    pub async fn has_map(&self, name: &str) -> bool {
        self.maps().get_opt(name).await.unwrap().is_some()
    }
}

fn login(secret: &[(&str, &str)]) -> Secret {
    let data: BTreeMap<_, _> = secret
        .iter()
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
        .collect();
    let mut secret: Secret = serde_json::from_value(json!({"metadata": {"name": "login"}})).unwrap();
    secret.data = Some(data);
    secret
}

/// A ConfigMap as a file.
pub fn map(name: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata: {data}\n")
}
