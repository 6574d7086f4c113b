//! A cluster with a controller.

use std::time::Duration;

use addon_config_policy::{
    controller::{PolicyClients, PolicySite, control},
    evaluate::EvaluationSettings,
    operator::OperatorSettings,
};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace},
    kube::{
        Api, Client, ResourceExt,
        api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    },
    ocm_api::{
        crds,
        policy::{OCM_POLICY_NAMESPACE, configuration_policy::ConfigurationPolicy},
    },
    reconcile::install::install_crds,
};
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

/// The namespace of policies.
pub const MANAGED: &str = "managed";
/// A namespace of objects.
pub const APP: &str = "app";
/// The namespace of the controller.
pub const AGENT: &str = "agent";

pub struct World {
    pub cluster: Site,
    pub hub: Option<Client>,
    pub operators: Option<OperatorSettings>,
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

    /// Without the controller.
    pub async fn prepare() -> Self {
        let cluster = Site::start().await.unwrap();
        let kinds = crds::add_on("policy.open-cluster-management.io").into_iter();
        let kind = kinds.filter(|it| {
            ["ConfigurationPolicy", "OperatorPolicy"]
                .iter()
                .any(|kind| it["spec"]["names"]["kind"] == *kind)
        });
        install_crds(&cluster.client(), kind.collect()).await.unwrap();
        let world = Self {
            cluster,
            hub: None,
            operators: None,
            stop: CancellationToken::new(),
        };
        for name in [MANAGED, APP, AGENT, OCM_POLICY_NAMESPACE] {
            world.namespace(name, json!({})).await;
        }
        world
    }

    pub fn run(&self) {
        let clients = PolicyClients {
            home: self.cluster.client(),
            target: self.cluster.client(),
            hub: self.hub.clone(),
        };
        let site = PolicySite {
            namespaces: vec![MANAGED.to_owned(), OCM_POLICY_NAMESPACE.to_owned()],
            cluster: "cluster1".to_owned(),
            own_namespace: AGENT.to_owned(),
            deployment: "controller".to_owned(),
            instance: "host".to_owned(),
            back_off: Duration::from_secs(2),
        };
        let stop = self.stop.clone();
        let (settings, operators) = (EvaluationSettings::default(), self.operators.clone());
        tokio::spawn(async move { control(&clients, site, settings, operators, 2, &stop).await });
    }

    pub fn policies(&self) -> Api<ConfigurationPolicy> {
        Api::namespaced(self.cluster.client(), MANAGED)
    }

    pub fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client(), APP)
    }

    pub async fn namespace(&self, name: &str, labels: Value) {
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap();
        let api: Api<Namespace> = Api::all(self.cluster.client());
        api.create(&PostParams::default(), &namespace).await.unwrap();
    }

    /// A policy that a Policy owns.
    pub async fn apply(&self, name: &str, spec: Value) -> ConfigurationPolicy {
        let policy: ConfigurationPolicy = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": MANAGED, "ownerReferences": [{
                "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy", "name": "ns.owner", "uid": "1-2-3",
            }]},
            "spec": spec,
        }))
        .unwrap();
        let created = self.policies().create(&PostParams::default(), &policy).await;
        created.unwrap()
    }

    /// The policy, once `holds` of it.
    pub async fn policy(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&ConfigurationPolicy) -> bool,
    ) -> ConfigurationPolicy {
        let policy = wait::until(&self.policies(), name, what, |it| it.is_some_and(&holds)).await;
        policy.unwrap()
    }

    /// The policy, once its newest message is this one.
    pub async fn says(&self, name: &str, message: &str) -> ConfigurationPolicy {
        self.policy(name, message, |it| messages(it).first().is_some_and(|it| it == message))
            .await
    }

    /// What the Policy that owns all was told, the oldest first.
    pub async fn told(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), MANAGED);
        let all = events.list(&ListParams::default()).await.unwrap();
        let mut told: Vec<_> = all
            .into_iter()
            .filter(|it| it.involved_object.kind.as_deref() == Some("Policy"))
            .map(|it| (it.name_any(), it.message.unwrap_or_default()))
            .collect();
        told.sort();
        told.into_iter().map(|(_, message)| message).collect()
    }

    /// The notes of events about policies, by their reason.
    pub async fn notes(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), MANAGED);
        let all = events.list(&ListParams::default()).await.unwrap();
        let of_reason = all.into_iter().filter(|it| it.reason.as_deref() == Some(reason));
        of_reason.filter_map(|it| it.message).collect()
    }

    pub async fn map(&self, name: &str, data: Value) {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}, "data": data})).unwrap();
        self.maps().create(&PostParams::default(), &map).await.unwrap();
    }

    /// A ConfigMap, once it has this under the key `a`.
    pub async fn map_has(&self, name: &str, value: &str) -> ConfigMap {
        let has =
            |it: Option<&ConfigMap>| it.and_then(|it| it.data.as_ref()?.get("a").cloned()).as_deref() == Some(value);
        wait::until(&self.maps(), name, value, has).await.unwrap()
    }
}

/// A policy with one object template for a ConfigMap in [`APP`].
pub fn map_policy(action: &str, r#type: &str, name: &str, data: Value) -> Value {
    json!({"remediationAction": action, "object-templates": [map_template(r#type, name, data)]})
}

pub fn map_template(r#type: &str, name: &str, data: Value) -> Value {
    json!({"complianceType": r#type, "objectDefinition": {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": APP}, "data": data,
    }})
}

pub fn messages(policy: &ConfigurationPolicy) -> Vec<String> {
    let history = policy.status.iter().flat_map(|it| &it.history);
    history.map(|it| it.message.clone()).collect()
}

pub fn related(policy: &ConfigurationPolicy) -> Vec<(String, String, String)> {
    let all = policy.status.iter().flat_map(|it| &it.related_objects);
    all.map(|it| (it.object.metadata.name.clone(), it.compliant.clone(), it.reason.clone()))
        .collect()
}

pub async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

pub async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
}
