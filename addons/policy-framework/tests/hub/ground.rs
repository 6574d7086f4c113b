//! A hub with Policies, clusters that are nothing but their namespaces, and the propagator.

use addon_policy_framework::hub::{HubConnection, PropagatorSettings, controllers};
use ocm_addon_sdk::{
    kube::{
        Api, Client, Config, ResourceExt,
        api::{Patch, PatchParams},
        config::{KubeConfigOptions, Kubeconfig},
        core::DynamicObject,
    },
    ocm_api::{crds, policy::Policy},
    reconcile::{Caches, Clients, controller, install::install_crds},
};
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

pub const GROUP: &str = "policy.open-cluster-management.io";
/// The namespace of people.
pub const NAMESPACE: &str = "ns";
const RIGHTS: &str = include_str!("../../deploy/rights.yaml");
const OWN: &str = "open-cluster-management";
const CLUSTER_GROUP: &str = "cluster.open-cluster-management.io";

pub struct Hub {
    pub site: Site,
    stop: CancellationToken,
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Hub {
    /// With these clusters, which Placement `all` chooses, and the propagator.
    pub async fn start(clusters: &[&str]) -> Self {
        let hub = Self::prepare(clusters).await;
        hub.run().await;
        hub
    }

    /// Without the propagator.
    pub async fn prepare(clusters: &[&str]) -> Self {
        let site = Site::start().await.unwrap();
        let mut kinds = crds::add_on(GROUP);
        let of_templates = ["ConfigurationPolicy", "OperatorPolicy", "CertificatePolicy"];
        kinds.retain(|it| of_templates.iter().all(|kind| it["spec"]["names"]["kind"] != *kind));
        kinds.extend(crds::hub());
        install_crds(&site.client(), kinds).await.unwrap();
        let hub = Self {
            site,
            stop: CancellationToken::new(),
        };
        for name in [NAMESPACE, OWN].iter().chain(clusters) {
            hub.apply(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
                .await;
        }
        for name in clusters {
            hub.apply(json!({
                "apiVersion": format!("{CLUSTER_GROUP}/v1"), "kind": "ManagedCluster", "metadata": {"name": name},
                "spec": {"hubAcceptsClient": true},
            }))
            .await;
        }
        hub.place("all", clusters).await;
        hub
    }

    /// The propagator, with the rights of its manifests and no others.
    pub async fn run(&self) {
        self.site.apply(RIGHTS).await;
        let account = format!("system:serviceaccount:{OWN}:governance-policy-propagator");
        let client = self.site.client_as(&account, &[]);
        let kubeconfig = Kubeconfig::from_yaml(&self.site.kubeconfig("nobody", &[]).unwrap()).unwrap();
        let connection = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let settings = PropagatorSettings {
            connection: Some(HubConnection(connection.unwrap())),
            ..PropagatorSettings::default()
        };
        let caches = Caches::new(client.clone(), self.stop.clone());
        controller::start_all(controllers(&caches, &settings), &Clients::hub(client), &self.stop);
    }

    pub fn client(&self) -> Client {
        self.site.client()
    }

    pub async fn apply(&self, object: Value) -> DynamicObject {
        let mut all = self.site.apply(&object.to_string()).await;
        all.pop().unwrap()
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

    /// Binds a Policy, or whatever kind, to a Placement; `more` is what the binding says besides.
    pub async fn bind(&self, placement: &str, (kind, name): (&str, &str), more: Value) {
        let mut binding = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "PlacementBinding",
            "metadata": {"name": format!("{placement}-{}-{name}", kind.to_lowercase()), "namespace": NAMESPACE},
            "placementRef": {"apiGroup": CLUSTER_GROUP, "kind": "Placement", "name": placement},
            "subjects": [{"apiGroup": GROUP, "kind": kind, "name": name}],
        });
        let more = more.as_object().cloned().unwrap_or_default();
        binding.as_object_mut().unwrap().extend(more);
        self.apply(binding).await;
    }

    pub fn roots(&self) -> Api<Policy> {
        self.replicas(NAMESPACE)
    }

    pub fn replicas(&self, cluster: &str) -> Api<Policy> {
        Api::namespaced(self.client(), cluster)
    }

    /// The replica of a Policy on a cluster, once `holds` of it.
    pub async fn replica(&self, cluster: &str, name: &str, what: &str, holds: impl Fn(&Policy) -> bool) -> Policy {
        let name = format!("{NAMESPACE}.{name}");
        let found = wait::until(&self.replicas(cluster), &name, what, |it| it.is_some_and(&holds)).await;
        found.unwrap()
    }

    /// Says the state of a Policy as a cluster does, once it is there.
    pub async fn say(&self, cluster: &str, name: &str, message: &str) {
        let replica = self.replica(cluster, name, "comes", |_| true).await;
        let state = message.split(';').next().unwrap();
        let said = json!({"compliant": state, "details": [{
            "templateMeta": {"name": "template"}, "compliant": state,
            "history": [{"message": message, "lastTimestamp": "2026-01-01T00:00:00Z", "eventName": "event"}],
        }]});
        patch_status(&self.replicas(cluster), &replica.name_any(), said).await;
    }

    /// A Policy of people, once `holds` of it.
    pub async fn root(&self, name: &str, what: &str, holds: impl Fn(&Policy) -> bool) -> Policy {
        let found = wait::until(&self.roots(), name, what, |it| it.is_some_and(&holds)).await;
        found.unwrap()
    }

    /// What is told of an object with this reason, once `count` are.
    pub async fn notes(&self, reason: &str, count: usize) -> Vec<String> {
        let events = self.site.api("events.k8s.io/v1", "Event", NAMESPACE).await;
        let of = |all: &[DynamicObject]| -> Vec<String> {
            let its = all.iter().filter(|it| it.data["reason"] == reason);
            let mut notes: Vec<String> = its
                .map(|it| format!("{}: {}", text(&it.data["type"]), text(&it.data["note"])))
                .collect();
            notes.sort();
            notes
        };
        of(&wait::until_all(&events, reason, |all| of(all).len() >= count).await)
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A Policy of people with one template.
pub fn policy(name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Policy", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"disabled": false, "remediationAction": "inform", "policy-templates": [template("template")]},
    })
}

/// A ConfigurationPolicy as a template.
pub fn template(name: &str) -> Value {
    json!({"objectDefinition": {
        "apiVersion": format!("{GROUP}/v1"), "kind": "ConfigurationPolicy", "metadata": {"name": name},
        "spec": {"severity": "low"},
    }})
}

pub fn state(policy: &Policy) -> Option<&'static str> {
    policy.status.as_ref()?.compliant.map(|it| it.as_str())
}

pub async fn patch_status<K>(api: &Api<K>, name: &str, status: Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

pub async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}
