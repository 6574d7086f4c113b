//! The standard session: a cluster joins, gets a work, another version of it and none, an add-on, loses it, and leaves.

use agent::Agent;
use credential::KubeconfigSource;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::DynamicObject};
use kube_api::identity::{AUTHENTICATED, MASTERS, User};
use ocm_addon_sdk::agent::hub_client;
use registration::{agent::AgentOptions, hub::HubOptions};
use serde_json::{Value, json};
use testkit::{Site, kinds, objects, wait};
use tokio_util::sync::CancellationToken;

use crate::{
    replay,
    transcript::{self, Line},
    wire::Wire,
};

pub const JOINER: &str = "joiner";
pub const ADMIN: &str = "admin";
pub const BOOTSTRAPPERS: &str = "system:bootstrappers:managedcluster";

const CLUSTERS: &str = "cluster.open-cluster-management.io/v1";
const WORKS: &str = "work.open-cluster-management.io/v1";
const ADD_ONS: &str = "addon.open-cluster-management.io/v1alpha1";

/// What the user waits for before going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Joined,
    WorkSays(&'static str),
    WorkGone,
    AddOnAvailable,
    AddOnGone,
    ClusterGone,
}

/// What the user does: each only after its moment.
fn script() -> Vec<Line> {
    let merge = "application/merge-patch+json";
    let cluster1 = |path: &str| format!("/apis/{}/namespaces/cluster1/{path}", group_of(path));
    vec![
        user("POST", &cluster1("manifestworks"), "application/json", work()),
        user(
            "PATCH",
            &cluster1("manifestworks/one"),
            merge,
            json!({"spec": {"workload": {"manifests": manifests("2")}}}),
        ),
        user("DELETE", &cluster1("manifestworks/one"), "", Value::Null),
        user(
            "POST",
            &format!("/apis/{ADD_ONS}/clustermanagementaddons"),
            "application/json",
            json!({"apiVersion": ADD_ONS, "kind": "ClusterManagementAddOn", "metadata": {"name": "helloworld"},
                "spec": {"addOnMeta": {"displayName": "helloworld"}}}),
        ),
        user(
            "POST",
            &cluster1("managedclusteraddons"),
            "application/json",
            json!({"apiVersion": ADD_ONS, "kind": "ManagedClusterAddOn",
                "metadata": {"name": "helloworld", "namespace": "cluster1"}, "spec": {"installNamespace": "default"}}),
        ),
        user("DELETE", &cluster1("managedclusteraddons/helloworld"), "", Value::Null),
        user(
            "DELETE",
            &format!("/apis/{CLUSTERS}/managedclusters/cluster1"),
            "",
            Value::Null,
        ),
    ]
}

fn group_of(path: &str) -> &'static str {
    if path.starts_with("manifestworks") {
        WORKS
    } else {
        ADD_ONS
    }
}

fn user(verb: &str, path: &str, content_type: &str, body: Value) -> Line {
    Line {
        at: None,
        by: transcript::By::User,
        verb: verb.to_owned(),
        path: path.to_owned(),
        query: String::new(),
        content_type: content_type.to_owned(),
        body,
        code: 0,
    }
}

fn manifests(value: &str) -> Value {
    json!([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"},
        "data": {"value": value}}])
}

fn work() -> Value {
    json!({
        "apiVersion": WORKS, "kind": "ManifestWork", "metadata": {"name": "one", "namespace": "cluster1"},
        "spec": {
            "workload": {"manifests": manifests("1")},
            "manifestConfigs": [{
                "resourceIdentifier": {"group": "", "resource": "configmaps", "name": "one", "namespace": "default"},
                "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "value", "path": ".data.value"}]}],
            }],
        },
    })
}

/// What a line of the user's waits for.
pub fn moment_before(line: &Line) -> Option<Moment> {
    let (_, plural_and_name) = line
        .path
        .split_once("/namespaces/cluster1/")
        .unwrap_or(("", &line.path));
    let last = plural_and_name.rsplit('/').next().unwrap_or_default();
    match (line.verb.as_str(), last) {
        ("POST", "manifestworks") => Some(Moment::Joined),
        ("PATCH", "one") => Some(Moment::WorkSays("1")),
        ("DELETE", "one") => Some(Moment::WorkSays("2")),
        ("POST", "clustermanagementaddons") => Some(Moment::WorkGone),
        ("DELETE", "helloworld") => Some(Moment::AddOnAvailable),
        ("DELETE", "cluster1") => Some(Moment::AddOnGone),
        _ => None,
    }
}

/// Waits for the moment, by what the hub's API shows.
pub async fn until(hub: &Client, moment: Moment) {
    let (version, kind, namespace, name) = match moment {
        Moment::Joined | Moment::ClusterGone => (CLUSTERS, "ManagedCluster", "", "cluster1"),
        Moment::WorkSays(_) | Moment::WorkGone => (WORKS, "ManifestWork", "cluster1", "one"),
        Moment::AddOnAvailable | Moment::AddOnGone => (ADD_ONS, "ManagedClusterAddOn", "cluster1", "helloworld"),
    };
    let api = kinds::api(hub, version, kind, namespace).await;
    let all = |words: &'static [&'static str]| {
        move |it: Option<&DynamicObject>| words.iter().all(|word| objects::is_true(&it, word))
    };
    let what = format!("{moment:?}");
    match moment {
        Moment::Joined => {
            let words = &[
                "HubAcceptedManagedCluster",
                "ManagedClusterJoined",
                "ManagedClusterConditionAvailable",
            ];
            wait::until_with(&api, name, &what, all(words)).await;
            let leases = kinds::api(hub, "coordination.k8s.io/v1", "Lease", "cluster1").await;
            let renewed = |it: Option<&DynamicObject>| it.is_some_and(|it| it.data["spec"]["renewTime"].is_string());
            wait::until_with(&leases, "managed-cluster-lease", "is renewed", renewed).await;
        }
        Moment::WorkSays(value) => {
            let says = |it: Option<&DynamicObject>| {
                all(&["Applied", "Available"])(it)
                    && it.is_some_and(|it| {
                        let first = "/status/resourceStatus/manifests/0/statusFeedback/values/0/fieldValue/string";
                        it.data.pointer(first).is_some_and(|it| it == value)
                    })
            };
            wait::until_with(&api, name, &what, says).await;
        }
        Moment::AddOnAvailable => {
            wait::until_with(&api, name, &what, all(&["Available", "ClusterCertificateRotated"])).await;
        }
        Moment::WorkGone | Moment::AddOnGone | Moment::ClusterGone => wait::gone(&api, name).await,
    }
}

/// Today's hub.
pub async fn start_hub(client: Client, cancel: &CancellationToken) -> hub::Hub {
    let options = hub::Options {
        registration: HubOptions {
            auto_accept: true,
            auto_approved_csr_users: vec![JOINER.to_owned()],
            ..HubOptions::default()
        },
        addons: vec![addon_helloworld::program().add_on()],
        ..hub::Options::default()
    };
    hub::start(client, options, cancel.clone()).await.unwrap()
}

pub fn admin(site: &Site, wire: &Wire) -> Client {
    wire.spy(site, User::new(ADMIN, &[MASTERS, AUTHENTICATED]))
}

/// Today's agent, which joins with this kubeconfig.
pub async fn start_agent(bootstrap: String, cluster: Client, cancel: &CancellationToken) -> Agent {
    let options = AgentOptions {
        cluster_name: Some("cluster1".to_owned()),
        agent_id: Some("agent1".to_owned()),
        ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), cluster)
    };
    agent::start(options, cancel.clone()).await.unwrap()
}

/// The add-on's agent, as soon as it has a credential.
pub async fn be_add_on(cluster: Client, stop: CancellationToken) {
    let secrets: Api<Secret> = Api::namespaced(cluster.clone(), "default");
    let secret = wait::until(&secrets, "helloworld-hub-kubeconfig", "exists", |it| it.is_some()).await;
    let folder = tempfile::tempdir().unwrap();
    for (key, value) in secret.iter().flat_map(|it| &it.data).flatten() {
        std::fs::write(folder.path().join(key), &value.0).unwrap();
    }
    let hub = hub_client(&folder.path().join("kubeconfig"), &stop).await.unwrap();
    let agent = ocm_addon_sdk::AddOnAgent {
        add_on: "helloworld".to_owned(),
        cluster: "cluster1".to_owned(),
        namespace: "default".to_owned(),
        hub: Some(hub),
        managed: cluster.clone(),
        home: cluster,
        stop,
    };
    addon_helloworld::program().be(agent).await.unwrap();
}

/// The session between today's hub and today's agent.
pub async fn record() -> Vec<Line> {
    let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
    let (wire, cancel) = (Wire::default(), CancellationToken::new());
    // Both are written down: the hub's client in the process, and whoever comes to the tap.
    let running = start_hub(wire.spy(&hub, hub.user_of_hub().await), &cancel).await;
    let address = wire.tap(&hub).await.to_string();
    let bootstrap = hub.kubeconfig(JOINER, &[BOOTSTRAPPERS]).unwrap();
    let bootstrap = bootstrap.replace(&hub.address.to_string(), &address);
    let agent = start_agent(bootstrap, cluster.client(), &cancel).await;
    let add_on_stop = cancel.child_token();
    let mut add_on = None;
    let admin = admin(&hub, &wire);
    for line in script() {
        if let Some(moment) = moment_before(&line) {
            until(&hub.client(), moment).await;
            if moment == Moment::AddOnGone {
                add_on_stop.cancel();
            }
        }
        replay::send(&admin, &line).await.unwrap();
        if line.path.ends_with("/managedclusteraddons") {
            add_on = Some(tokio::spawn(be_add_on(cluster.client(), add_on_stop.clone())));
        }
    }
    until(&hub.client(), Moment::ClusterGone).await;
    cancel.cancel();
    add_on.unwrap().await.unwrap();
    agent.finished().await;
    running.finished().await;
    transcript::lines(&wire.exchanges())
}

/// Waits until the hub has accepted the cluster.
pub async fn accepted(hub: &Client) {
    let api = kinds::api(hub, CLUSTERS, "ManagedCluster", "").await;
    let accepted = |it: Option<&DynamicObject>| objects::is_true(&it, "HubAcceptedManagedCluster");
    wait::until_with(&api, "cluster1", "is accepted", accepted).await;
}
