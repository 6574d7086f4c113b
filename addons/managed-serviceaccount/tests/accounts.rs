//! The agent between a hub and a cluster in memory: tokens come, are renewed, come back, and go.

use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Instant,
};

use addon_managed_serviceaccount::{
    agent::{self, AgentClients},
    hub::{Gates, controllers},
};
use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{
    k8s_openapi::api::{
        authentication::v1::TokenReview,
        core::v1::{Namespace, Secret, ServiceAccount},
    },
    kube::{
        Api, ResourceExt,
        api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams},
        core::DynamicObject,
    },
    ocm_api::{
        authentication::{ManagedServiceAccount, labels},
        condition, crds,
        multicluster::ClusterProfile,
    },
    reconcile::{Caches, Clients, controller, install::install_crds},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

const CLUSTER: &str = "cluster1";
const AGENT: &str = "agent";

struct World {
    hub: Site,
    cluster: Site,
    /// Seconds by which the agent's clock is ahead.
    ahead: Arc<AtomicI64>,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl World {
    async fn start() -> Self {
        let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        let group = "authentication.open-cluster-management.io";
        install_crds(&hub.client(), crds::add_on(group)).await.unwrap();
        for (site, name) in [(&hub, CLUSTER), (&cluster, AGENT)] {
            let namespace = Namespace {
                metadata: named(name),
                ..Namespace::default()
            };
            let api: Api<Namespace> = Api::all(site.client());
            api.create(&PostParams::default(), &namespace).await.unwrap();
        }
        let world = Self {
            hub,
            cluster,
            ahead: Arc::default(),
            stop: CancellationToken::new(),
        };
        world.start_agent();
        world
    }

    fn start_agent(&self) {
        let clusters = AgentClients {
            hub: self.hub.client(),
            managed: self.cluster.client(),
        };
        let (hub, managed) = clusters.caches(&self.stop);
        let site = agent::AgentSite {
            cluster: CLUSTER.to_owned(),
            namespace: AGENT.to_owned(),
            ca: b"certificates".to_vec(),
        };
        let ahead = self.ahead.clone();
        let clock = Arc::new(move || Timestamp::now() + SignedDuration::from_secs(ahead.load(Ordering::Relaxed)));
        let controller = agent::controller(&clusters, &hub, &managed, site, clock);
        controller.start(clusters.clients(), self.stop.clone());
    }

    fn accounts(&self) -> Api<ManagedServiceAccount> {
        Api::namespaced(self.hub.client(), CLUSTER)
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.hub.client(), CLUSTER)
    }

    fn service_accounts(&self) -> Api<ServiceAccount> {
        Api::namespaced(self.cluster.client(), AGENT)
    }

    async fn create(&self, name: &str, spec: Value) -> ManagedServiceAccount {
        let text = json!({"metadata": {"name": name, "namespace": CLUSTER}, "spec": spec});
        let account = serde_json::from_value(text).unwrap();
        self.accounts().create(&PostParams::default(), &account).await.unwrap()
    }

    /// The token, once it is another than `before`.
    async fn token(&self, name: &str, before: &str) -> String {
        let is_new = |it: Option<&Secret>| it.is_some_and(|it| token(it) != before);
        let secret = wait::until(&self.secrets(), name, "a new token", is_new).await.unwrap();
        token(&secret)
    }

    async fn said(&self, name: &str, text: &str) -> ManagedServiceAccount {
        let says = |it: Option<&ManagedServiceAccount>| {
            let conditions = it.and_then(|it| it.status.as_ref()).map(|it| it.conditions.as_slice());
            let reported = condition::find(conditions.unwrap_or_default(), "TokenReported");
            reported.is_some_and(|it| format!("{} {}: {}", it.status, it.reason, it.message).starts_with(text))
        };
        wait::until(&self.accounts(), name, text, says).await.unwrap()
    }

    /// Who the cluster takes the holder of a token for.
    async fn who(&self, token: &str) -> Option<String> {
        let review = json!({"metadata": {}, "spec": {"token": token}});
        let api: Api<TokenReview> = Api::all(self.cluster.client());
        let review = serde_json::from_value(review).unwrap();
        let status = api.create(&PostParams::default(), &review).await.unwrap().status?;
        let is_known = status.authenticated == Some(true);
        status.user.filter(|_| is_known)?.username
    }

    /// Has the agent look again.
    async fn touch(&self, name: &str) {
        let patch = json!({"metadata": {"annotations": {"touched": Timestamp::now().to_string()}}});
        merge(&self.accounts(), name, patch).await;
    }
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value)
where
    K: Clone + Debug + DeserializeOwned,
{
    let patch = Patch::Merge(patch);
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn delete<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    api.delete(name, &DeleteParams::default()).await.unwrap();
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn token(secret: &Secret) -> String {
    let data = secret.data.as_ref().and_then(|it| it.get("token"));
    data.map(|it| String::from_utf8(it.0.clone()).unwrap())
        .unwrap_or_default()
}

fn plain() -> Value {
    json!({"rotation": {}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_on_the_hub_works_on_the_cluster() {
    let world = World::start().await;
    let account = world.create("ci", plain()).await;
    let token = world.token("ci", "").await;
    assert_eq!(
        world.who(&token).await.as_deref(),
        Some("system:serviceaccount:agent:ci")
    );
    let secret = world.secrets().get("ci").await.unwrap();
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
    let data = secret.data.as_ref().unwrap();
    assert_eq!(data.keys().collect::<Vec<_>>(), ["ca.crt", "token"]);
    assert_eq!(data["ca.crt"].0, b"certificates");
    assert_eq!(secret.labels()[labels::IS_MANAGED], "true");
    let owner = serde_json::to_value(secret.owner_references()).unwrap();
    assert_eq!(
        owner,
        json!([{
            "apiVersion": "authentication.open-cluster-management.io/v1beta1", "kind": "ManagedServiceAccount",
            "name": "ci", "uid": account.uid().unwrap(),
        }])
    );
    let account = world.said("ci", "True TokenReported: ").await;
    let status = account.status.unwrap();
    assert!(condition::is_true(&status.conditions, "SecretCreated"));
    let life = status.expiration_timestamp.unwrap().0.duration_since(Timestamp::now());
    assert!(life > SignedDuration::from_hours(8630), "{life}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_after_four_fifths_of_its_life() {
    let world = World::start().await;
    world.create("ci", json!({"rotation": {"validity": "10m"}})).await;
    let first = world.token("ci", "").await;
    let reference = |it: &ManagedServiceAccount| it.status.as_ref()?.token_secret_ref.clone();
    let before = reference(&world.said("ci", "True").await).unwrap();
    world.ahead.store(490, Ordering::Relaxed);
    world.touch("ci").await;
    let second = world.token("ci", &first).await;
    let is_later = |it: Option<&ManagedServiceAccount>| {
        let reference = it.and_then(reference);
        reference.is_some_and(|it| it.last_refresh_timestamp.0 > before.last_refresh_timestamp.0)
    };
    wait::until(&world.accounts(), "ci", "a later time", is_later).await;
    assert_ne!(second, first);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_secret_or_service_account_comes_back() {
    let world = World::start().await;
    world.create("ci", plain()).await;
    let first = world.token("ci", "").await;
    world.said("ci", "True").await;
    delete(&world.secrets(), "ci").await;
    let second = world.token("ci", &first).await;
    let before = world.service_accounts().get("ci").await.unwrap();
    delete(&world.service_accounts(), "ci").await;
    let third = world.token("ci", &second).await;
    assert_ne!(world.service_accounts().get("ci").await.unwrap().uid(), before.uid());
    assert_eq!(world.who(&second).await, None);
    assert!(world.who(&third).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_labelled_service_account_goes() {
    let world = World::start().await;
    let mut old = ServiceAccount {
        metadata: named("old"),
        ..ServiceAccount::default()
    };
    old.metadata.namespace = Some(AGENT.to_owned());
    let created = world.service_accounts().create(&PostParams::default(), &old).await;
    created.unwrap();
    for name in ["old", "new"] {
        world.create(name, plain()).await;
        world.said(name, "True").await;
    }
    let kept = world.service_accounts().get("old").await.unwrap();
    assert!(kept.labels().is_empty(), "{kept:?}");
    let made = world.service_accounts().get("new").await.unwrap();
    assert_eq!(made.labels()[labels::IS_MANAGED], "true");
    for name in ["old", "new"] {
        delete(&world.accounts(), name).await;
    }
    wait::gone(&world.service_accounts(), "new").await;
    let still = world.service_accounts().get("old").await.unwrap();
    assert_eq!(still.uid(), kept.uid());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_wrong_is_told() {
    let world = World::start().await;
    world.create("short", json!({"rotation": {"validity": "soon"}})).await;
    let failed = "False TokenReportFailed: failed to";
    let text = format!("{failed} request token for service-account: spec.rotation.validity: \"soon\"");
    world.said("short", &text).await;
    // Not ours, and so not overwritten.
    let foreign = json!({"metadata": {"name": "foreign", "namespace": CLUSTER}, "stringData": {"a": "b"}});
    let foreign: Secret = serde_json::from_value(foreign).unwrap();
    world.secrets().create(&PostParams::default(), &foreign).await.unwrap();
    world.create("foreign", plain()).await;
    let text = format!("{failed} create the token secret: Secret cluster1/foreign is there already");
    world.said("foreign", &text).await;
    // A token that is none is told, until its Secret is deleted.
    world.create("ci", plain()).await;
    world.token("ci", "").await;
    world.said("ci", "True").await;
    let garbage = json!({"stringData": {"token": "garbage"}});
    merge(&world.secrets(), "ci", garbage).await;
    let text = format!("{failed} make a decision on token creation: invalid JWT token format");
    world.said("ci", &text).await;
    delete(&world.secrets(), "ci").await;
    world.said("ci", "True").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn both_versions_are_served() {
    let world = World::start().await;
    let spec = json!({"rotation": {"validity": "1h"}, "ttlSecondsAfterCreation": 90000});
    world.create("ci", spec).await;
    let old = "authentication.open-cluster-management.io/v1alpha1";
    let old = world.hub.api(old, "ManagedServiceAccount", CLUSTER).await;
    let seen: DynamicObject = old.get("ci").await.unwrap();
    assert_eq!(
        seen.data["spec"]["rotation"],
        json!({"enabled": true, "validity": "1h"})
    );
    let zero = json!({"metadata": {"name": "zero"}, "spec": {"rotation": {}, "ttlSecondsAfterCreation": 0}});
    let zero: ManagedServiceAccount = serde_json::from_value(zero).unwrap();
    let error = world.accounts().create(&PostParams::default(), &zero).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("ttlSecondsAfterCreation"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_ends_and_its_token_is_copied_meanwhile() {
    let world = World::start().await;
    install_crds(&world.hub.client(), crds::hub()).await.unwrap();
    let caches = Caches::new(world.hub.client(), world.stop.clone());
    let gates = Gates {
        ephemeral_identity: true,
        cluster_profile: true,
    };
    let clients = Clients::hub(world.hub.client());
    controller::start_all(controllers(&caches, gates), &clients, &world.stop);
    let labels_of_profile = json!({
        "x-k8s.io/cluster-manager": "open-cluster-management", "open-cluster-management.io/cluster-name": CLUSTER,
    });
    let profile = json!({
        "metadata": {"name": CLUSTER, "namespace": "default", "labels": labels_of_profile},
        "spec": {"displayName": CLUSTER, "clusterManager": {"name": "open-cluster-management"}},
    });
    let profile: ClusterProfile = serde_json::from_value(profile).unwrap();
    let profiles: Api<ClusterProfile> = Api::namespaced(world.hub.client(), "default");
    profiles.create(&PostParams::default(), &profile).await.unwrap();
    world
        .create("ci", json!({"rotation": {}, "ttlSecondsAfterCreation": 4}))
        .await;
    let wanted = json!({"metadata": {"labels": {labels::SYNC_TO_CLUSTER_PROFILE: "true"}}});
    merge(&world.accounts(), "ci", wanted).await;
    world.said("ci", "True").await;
    let copies: Api<Secret> = Api::namespaced(world.hub.client(), "default");
    let copy = wait::until(&copies, "cluster1-ci", "a copy", |it| it.is_some()).await;
    let copy = copy.unwrap();
    // Who labels it while its token comes may have it come anew: the copy follows.
    let token_of_hub = token(&world.secrets().get("ci").await.unwrap());
    let follows = |it: Option<&Secret>| it.is_some_and(|it| token(it) == token_of_hub);
    wait::until(&copies, "cluster1-ci", "the same token", follows).await;
    assert_eq!(copy.labels()[labels::SYNCED_FROM], "cluster1-ci");
    wait::gone(&world.accounts(), "ci").await;
    wait::gone(&copies, "cluster1-ci").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_accounts_get_a_hundred_tokens() {
    let world = World::start().await;
    let begun = Instant::now();
    for index in 0..100 {
        world.create(&format!("a{index}"), plain()).await;
    }
    let all_told = |all: &[ManagedServiceAccount]| {
        let told = |it: &&ManagedServiceAccount| it.status.as_ref().is_some_and(|it| it.token_secret_ref.is_some());
        all.iter().filter(told).count() == 100
    };
    wait::until_all(&world.accounts(), "a hundred tokens", all_told).await;
    println!("100 tokens in {:?}", begun.elapsed());
}
