//! A hub, a cluster, and the add-on between them.

use std::time::Duration;

use addon_policy_framework::cluster::{SyncClients, SyncSite, synchronize, uninstall};
use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::{
        api::{
            apps::v1::Deployment,
            core::v1::{Event, Namespace},
        },
        apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    },
    kube::{
        Api, Client, ResourceExt,
        api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
        core::DynamicObject,
    },
    ocm_api::{crds, policy::Policy},
    reconcile::install::install_crds,
};
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

/// The cluster's namespace on the hub.
pub const CLUSTER: &str = "cluster1";
/// The namespace of Policies on the cluster.
pub const MANAGED: &str = "managed";
/// The namespace of the add-on.
pub const AGENT: &str = "agent";

pub const GROUP: &str = "policy.open-cluster-management.io";

pub struct World {
    pub hub: Site,
    pub cluster: Site,
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
        world.run(world.hub.client(), false);
        world
    }

    /// Without the add-on.
    pub async fn prepare() -> Self {
        Self::prepare_with(vec![template_kind("ConfigurationPolicy", "Namespaced")]).await
    }

    /// With the kinds of templates as they are delivered.
    pub async fn start_with_delivered_kinds() -> Self {
        let kinds = ["ConfigurationPolicy", "OperatorPolicy"];
        let delivered = crds::add_on(GROUP).into_iter();
        let delivered = delivered.filter(|it| kinds.iter().any(|kind| it["spec"]["names"]["kind"] == *kind));
        let world = Self::prepare_with(delivered.collect()).await;
        world.run(world.hub.client(), false);
        world
    }

    async fn prepare_with(kinds: Vec<Value>) -> Self {
        let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        let policies = || {
            let all = crds::add_on(GROUP).into_iter();
            all.filter(|it| it["spec"]["names"]["kind"] == "Policy")
                .collect::<Vec<_>>()
        };
        install_crds(&hub.client(), policies()).await.unwrap();
        let mut on_cluster = policies();
        on_cluster.extend(kinds);
        install_crds(&cluster.client(), on_cluster).await.unwrap();
        for (site, name) in [(&hub, CLUSTER), (&cluster, MANAGED), (&cluster, AGENT)] {
            let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            let api: Api<Namespace> = Api::all(site.client());
            api.create(&PostParams::default(), &namespace).await.unwrap();
        }
        Self {
            hub,
            cluster,
            stop: CancellationToken::new(),
        }
    }

    pub fn run(&self, hub: Client, on_hub: bool) {
        let cluster = self.cluster.client();
        self.run_as(SyncClients { hub, cluster }, on_hub);
    }

    pub fn run_as(&self, clients: SyncClients, on_hub: bool) {
        let site = SyncSite {
            namespace: MANAGED.to_owned(),
            namespace_on_hub: CLUSTER.to_owned(),
            on_hub,
            gatekeeper: true,
            own_namespace: AGENT.to_owned(),
            deployment: "addon".to_owned(),
            instance: "host".to_owned(),
        };
        let stop = self.stop.clone();
        tokio::spawn(async move { synchronize(&clients, site, 2, &stop).await });
    }

    pub fn on_hub(&self) -> Api<Policy> {
        Api::namespaced(self.hub.client(), CLUSTER)
    }

    pub fn on_cluster(&self) -> Api<Policy> {
        Api::namespaced(self.cluster.client(), MANAGED)
    }

    /// The replica of a Policy, as the hub's half makes it.
    pub async fn replicate(&self, name: &str, spec: Value) -> Policy {
        let replica = policy(name, CLUSTER, spec);
        self.on_hub().create(&PostParams::default(), &replica).await.unwrap()
    }

    /// Changes the spec of a replica.
    pub async fn change(&self, name: &str, spec: Value) {
        merge(&self.on_hub(), name, json!({"spec": spec})).await;
    }

    /// Objects of a kind of templates on the cluster.
    pub async fn objects(&self, kind: &str) -> Api<DynamicObject> {
        self.cluster.api(&format!("{GROUP}/v1"), kind, MANAGED).await
    }

    /// The object of a template, once `holds` of it.
    pub async fn object(&self, name: &str, what: &str, holds: impl Fn(&DynamicObject) -> bool) -> DynamicObject {
        let api = self.objects("ConfigurationPolicy").await;
        let object = wait::until_with(&api, name, what, |it| it.is_some_and(&holds)).await;
        object.unwrap()
    }

    /// The Policy on the cluster, once `holds` of it.
    pub async fn policy(&self, name: &str, what: &str, holds: impl Fn(&Policy) -> bool) -> Policy {
        let policy = wait::until(&self.on_cluster(), name, what, |it| it.is_some_and(&holds)).await;
        policy.unwrap()
    }

    /// The replica on the hub, once the newest message of its first template is this one.
    pub async fn reported(&self, name: &str, message: &str) -> Policy {
        let says = |it: Option<&Policy>| it.is_some_and(|it| messages(it, 0).first().is_some_and(|it| it == message));
        wait::until(&self.on_hub(), name, message, says).await.unwrap()
    }

    /// Says a state as the controller of a template does: an event, then the status of the object.
    pub async fn say(&self, policy: &str, template: &str, message: &str) {
        let owner = self.on_cluster().get(policy).await.unwrap();
        let now = Timestamp::now();
        let event: Event = serde_json::from_value(json!({
            "metadata": {"name": format!("{policy}.{:x}", now.as_nanosecond()), "namespace": MANAGED},
            "involvedObject": {
                "apiVersion": format!("{GROUP}/v1"), "kind": "Policy", "name": policy, "namespace": MANAGED,
                "uid": owner.uid(),
            },
            "reason": format!("policy: {MANAGED}/{template}"), "message": message, "type": "Normal",
            "lastTimestamp": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }))
        .unwrap();
        let events: Api<Event> = Api::namespaced(self.cluster.client(), MANAGED);
        events.create(&PostParams::default(), &event).await.unwrap();
        let state = message.split(';').next().unwrap();
        let status = Patch::Merge(json!({"status": {"compliant": state}}));
        let api = self.objects("ConfigurationPolicy").await;
        api.patch_status(template, &PatchParams::default(), &status)
            .await
            .unwrap();
    }

    /// What the add-on has told people of a Policy, sorted.
    pub async fn notes(&self, reason: &str) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.cluster.client(), MANAGED);
        let field = format!("reason={reason}");
        let all = events.list(&ListParams::default().fields(&field)).await.unwrap();
        let mut notes: Vec<String> = all.into_iter().filter_map(|it| it.message).collect();
        notes.sort();
        notes.dedup();
        notes
    }

    pub async fn define(&self, definition: Value) {
        let api: Api<CustomResourceDefinition> = Api::all(self.cluster.client());
        let definition = serde_json::from_value(definition).unwrap();
        api.create(&PostParams::default(), &definition).await.unwrap();
    }
}

pub fn policy(name: &str, namespace: &str, spec: Value) -> Policy {
    let labels = json!({
        format!("{GROUP}/cluster-name"): CLUSTER, format!("{GROUP}/cluster-namespace"): CLUSTER,
        format!("{GROUP}/root-policy"): name,
    });
    let mut spec = spec;
    spec["disabled"] = false.into();
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace, "labels": labels}, "spec": spec,
    }))
    .unwrap()
}

/// A Policy with these templates.
pub fn of(templates: Value) -> Value {
    json!({"policy-templates": templates})
}

/// A ConfigurationPolicy as a template.
pub fn configuration(name: &str) -> Value {
    json!({"objectDefinition": {
        "apiVersion": format!("{GROUP}/v1"), "kind": "ConfigurationPolicy", "metadata": {"name": name},
        "spec": {"severity": "low", "pruneObjectBehavior": "DeleteAll"},
    }})
}

pub fn messages(policy: &Policy, template: usize) -> Vec<String> {
    let details = policy.status.as_ref().and_then(|it| it.details.get(template));
    let history = details.map(|it| it.history.as_slice()).unwrap_or_default();
    history.iter().map(|it| it.message.clone()).collect()
}

pub fn state(policy: &Policy) -> Option<&'static str> {
    policy.status.as_ref()?.compliant.map(|it| it.as_str())
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

/// The definition of a kind that Policies carry.
pub fn template_kind(kind: &str, scope: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase()).replace("ys", "ies");
    definition(
        &plural,
        kind,
        GROUP,
        "v1",
        scope,
        json!({format!("{GROUP}/policy-type"): "template"}),
    )
}

pub fn definition(plural: &str, kind: &str, group: &str, version: &str, scope: &str, labels: Value) -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let spec = json!({"type": "object", "properties": {
        "remediationAction": {"type": "string", "enum": ["Inform", "inform", "Enforce", "enforce"]},
        "severity": {"type": "string"},
        "pruneObjectBehavior": {"type": "string", "default": "None"},
        "enforcementAction": {"type": "string"},
        "crd": open,
    }});
    json!({
        "metadata": {"name": format!("{plural}.{group}"), "labels": labels},
        "spec": {
            "group": group, "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": open}}},
            }],
        },
    })
}

/// The Deployment of the add-on, under the name that its rights are for.
pub async fn deploy(world: &World) -> Api<Deployment> {
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "addon", "namespace": AGENT},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    }))
    .unwrap();
    let deployments: Api<Deployment> = Api::namespaced(world.cluster.client(), AGENT);
    deployments.create(&PostParams::default(), &deployment).await.unwrap();
    deployments
}

/// What runs before the add-on goes.
pub async fn uninstall(client: &Client) {
    let trigger = uninstall::Trigger {
        deployment: "addon".to_owned(),
        deployment_namespace: AGENT.to_owned(),
        policy_namespace: MANAGED.to_owned(),
        settle: Duration::ZERO,
        timeout: wait::PATIENCE,
    };
    uninstall::trigger(client, &trigger).await.unwrap();
}
