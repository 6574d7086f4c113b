//! A cluster, and what others would have put there.

use std::{fmt::Debug, time::Duration};

use addon_argocd_pull::cluster::{
    ADD_ON_NAMESPACE, ArgoNamespaces, ArgoOperatorSettings, certificate::AgentCertificate, controllers,
    installation::OperatorInstallation,
};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret},
    kube::{
        Api, Client, Resource,
        api::{DeleteParams, Patch, PatchParams, PostParams},
        core::NamespaceResourceScope,
    },
    reconcile::{Caches, Clients, Reconciler, controller, settle::settle},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use testkit::site::Site;
use tokio_util::sync::CancellationToken;

pub const OPERATOR: &str = "argocd-operator-system";
pub const ARGO_CD: &str = "argocd";
pub const DEPLOYMENT: &str = "argocd-operator-controller-manager";
pub const MARKER: &str = "argocd-agent-addon-pause";
/// What a reconciler here works on.
pub const KEY: &str = "argocd-operator";

pub struct World {
    pub cluster: Site,
    pub stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Nothing is looked at again unless something happens.
pub fn settings() -> ArgoOperatorSettings {
    ArgoOperatorSettings {
        namespaces: ArgoNamespaces::default(),
        operator_image: "example.com/operator:1".to_owned(),
        sync_interval: Duration::from_secs(86_400),
    }
}

impl World {
    /// With the namespace of the add-on.
    pub async fn start() -> Self {
        let world = Self {
            cluster: Site::start().await.unwrap(),
            stop: CancellationToken::new(),
        };
        world.namespace(ADD_ON_NAMESPACE).await;
        world
    }

    /// Runs mode addon.
    pub fn run(&self, settings: &ArgoOperatorSettings) {
        let caches = Caches::new(self.client(), self.stop.clone());
        let all = controllers(&self.client(), &caches, settings);
        controller::start_all(all, &Clients::cluster(self.client()), &self.stop);
    }

    /// What the installation writes until it has nothing to do, beginning with what is there now.
    pub async fn installs(&self, settings: &ArgoOperatorSettings) -> String {
        let caches = Caches::new(self.client(), self.stop.clone());
        let installation = OperatorInstallation::new(&self.client(), &caches, settings);
        caches.synced().await;
        self.settles(&installation).await
    }

    /// The same of the agent's certificate.
    pub async fn certifies(&self, settings: &ArgoOperatorSettings) -> String {
        let caches = Caches::new(self.client(), self.stop.clone());
        let certificate = AgentCertificate::new(&self.client(), &caches, settings);
        caches.synced().await;
        self.settles(&certificate).await
    }

    async fn settles<R: Reconciler>(&self, reconciler: &R) -> String {
        let clients = Clients::cluster(self.client());
        settle(reconciler, &clients, KEY, 5).await.unwrap().concat()
    }

    pub fn client(&self) -> Client {
        self.cluster.client()
    }

    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client(), namespace)
    }

    pub fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client())
    }

    pub async fn namespace(&self, name: &str) {
        self.create(&self.all::<Namespace>(), json!({"metadata": {"name": name}}))
            .await;
    }

    pub async fn create<K>(&self, api: &Api<K>, object: Value) -> K
    where
        K: Clone + Debug + Serialize + DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn patch<K>(&self, api: &Api<K>, name: &str, patch: Value) -> K
    where
        K: Clone + Debug + DeserializeOwned,
    {
        let patch = Patch::Merge(patch);
        api.patch(name, &PatchParams::default(), &patch).await.unwrap()
    }

    pub async fn delete<K>(&self, api: &Api<K>, name: &str)
    where
        K: Clone + Debug + DeserializeOwned,
    {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// What an administrator writes who wants mode addon to stand still.
    pub async fn pause(&self) {
        let marker = json!({"metadata": {"name": MARKER, "namespace": OPERATOR}, "data": {"paused": "true"}});
        self.create(&self.api::<ConfigMap>(OPERATOR), marker).await;
    }

    /// What the registration of add-ons writes when the hub has signed.
    pub async fn sign(&self, text: &str) -> Secret {
        let name = "argocd-agent-addon-open-cluster-management.io-argocd-agent-addon-client-cert";
        let data = json!({"tls.crt": format!("certificate {text}"), "tls.key": format!("key {text}"), "other": "x"});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": ADD_ON_NAMESPACE},
            "stringData": data,
        });
        let params = PatchParams::apply("registration").force();
        let api: Api<Secret> = self.api(ADD_ON_NAMESPACE);
        api.patch(name, &params, &Patch::Apply(secret)).await.unwrap()
    }
}
