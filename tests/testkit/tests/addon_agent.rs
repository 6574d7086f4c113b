//! The agent's half of add-ons: a hub and a cluster in memory, and an agent that has joined over TLS with its own
//! rights only. No add-on has a manager here: the tests say what that would say.

use std::{sync::Arc, time::Duration};

use agent::Agent;
use credential::{KubeconfigSource, certificate::Chain};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Secret};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use ocm_api::{
    addon::v1alpha1::{ManagedClusterAddOn, ManagedClusterAddOnSpec},
    condition::{self, Condition},
};
use registration::{agent::AgentOptions, hub::HubOptions};
use serde_json::{Value, json};
use testkit::{site::Site, wait};
use tokio_util::sync::CancellationToken;

const JOINER: &str = "joiner";
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";
const USER: &str = "system:open-cluster-management:cluster:cluster1:addon:helloworld:agent:abcde";
const GROUP: &str = "system:open-cluster-management:cluster:cluster1:addon:helloworld";

struct World {
    hub: Site,
    cluster: Site,
    cancel: CancellationToken,
}

impl World {
    async fn start() -> Self {
        let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        let cancel = CancellationToken::new();
        let registration = HubOptions {
            auto_accept: true,
            auto_approved_csr_users: vec![JOINER.to_owned()],
            ..HubOptions::default()
        };
        let options = hub::Options {
            registration,
            ..hub::Options::default()
        };
        hub::start(hub.client(), options, cancel.clone()).await.unwrap();
        Self { hub, cluster, cancel }
    }

    /// An agent of cluster1 that has a session with the hub.
    async fn join(&self) -> (Agent, CancellationToken) {
        let bootstrap = self
            .hub
            .kubeconfig(JOINER, &["system:bootstrappers:managedcluster"])
            .unwrap();
        let options = AgentOptions {
            cluster_name: Some("cluster1".to_owned()),
            ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), self.cluster.client())
        };
        let mut sessions = options.sessions.subscribe();
        let cancel = self.cancel.child_token();
        let agent = agent::start(options, cancel.clone()).await.unwrap();
        let session = sessions.wait_for(Option::is_some);
        tokio::time::timeout(wait::PATIENCE, session)
            .await
            .expect("a session")
            .unwrap();
        (agent, cancel)
    }

    fn addons(&self) -> Api<ManagedClusterAddOn> {
        Api::namespaced(self.hub.client(), "cluster1")
    }

    fn requests(&self) -> Api<CertificateSigningRequest> {
        Api::all(self.hub.client())
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.cluster.client(), namespace)
    }

    /// Creates the add-on helloworld and says what the hub's half would say.
    async fn enable(&self, namespace: &str, status: Value) {
        let addon = ManagedClusterAddOn {
            metadata: ObjectMeta {
                name: Some("helloworld".to_owned()),
                ..ObjectMeta::default()
            },
            spec: ManagedClusterAddOnSpec {
                install_namespace: namespace.to_owned(),
                ..Default::default()
            },
            status: None,
        };
        self.addons().create(&PostParams::default(), &addon).await.unwrap();
        self.say(status).await;
    }

    async fn say(&self, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        let patched = self
            .addons()
            .patch_status("helloworld", &PatchParams::default(), &patch)
            .await;
        patched.unwrap();
    }

    async fn say_registered(&self) {
        let subject = json!({"user": USER, "groups": [GROUP, "system:open-cluster-management:addon:helloworld"]});
        self.say(json!({"registrations": [{"signerName": SIGNER, "subject": subject}]}))
            .await;
    }

    /// Waits for the add-on's request and returns it.
    async fn request(&self) -> CertificateSigningRequest {
        let open = |it: &CertificateSigningRequest| {
            it.name_any().starts_with("addon-") && it.status.as_ref().is_none_or(|it| it.conditions.is_none())
        };
        let all = wait::until_all(&self.requests(), "the add-on asks for a certificate", |all| {
            all.iter().any(open)
        })
        .await;
        all.into_iter().find(open).unwrap()
    }

    async fn decide(&self, request: &CertificateSigningRequest, word: &str) {
        let condition = json!({"type": word, "status": "True", "reason": "Test", "message": "by the test"});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        let decided = self
            .requests()
            .patch_approval(&request.name_any(), &PatchParams::default(), &patch)
            .await;
        decided.unwrap();
    }

    async fn until(&self, type_: &str, holds: impl Fn(&Condition) -> bool) -> Condition {
        let find = |it: &ManagedClusterAddOn| {
            let conditions = &it.status.as_ref()?.conditions;
            condition::find(conditions, type_).filter(|it| holds(it)).cloned()
        };
        let found = wait::until(&self.addons(), "helloworld", type_, |it| it.and_then(find).is_some()).await;
        found.as_ref().and_then(find).unwrap()
    }

    async fn renew(&self, namespace: &str, at: jiff::Timestamp) {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "helloworld", "namespace": namespace},
            "spec": {"leaseDurationSeconds": 60, "renewTime": format!("{at:.6}")},
        });
        self.cluster.apply(&lease.to_string()).await;
    }

    async fn stop(self, agent: Agent) {
        self.cancel.cancel();
        agent.finished().await;
    }
}

fn keys(secret: &Secret) -> Vec<&str> {
    secret.data.iter().flatten().map(|(key, _)| key.as_str()).collect()
}

const CREDENTIAL: &str = "helloworld-hub-kubeconfig";

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_gets_a_certificate_in_a_working_kubeconfig() {
    let world = World::start().await;
    let (agent, _) = world.join().await;
    world.enable("default", json!({})).await;
    world.say_registered().await;

    let request = world.request().await;
    assert!(request.name_any().starts_with("addon-cluster1-helloworld-"));
    let requester = request.spec.username.clone().unwrap();
    assert!(
        requester.starts_with("system:open-cluster-management:cluster1:"),
        "{requester}"
    );
    world.decide(&request, "Approved").await;

    let said = world.until("ClusterCertificateRotated", |it| it.status == "True").await;
    assert_eq!(said.reason, "ClientCertificateUpdated");
    assert!(
        said.message.starts_with("client certificate rotated starting from "),
        "{said:?}"
    );
    let secret = world.secrets("default").get(CREDENTIAL).await.unwrap();
    assert_eq!(keys(&secret), ["cluster-name", "kubeconfig", "tls.crt", "tls.key"]);
    let data = secret.data.clone().unwrap();
    assert_eq!(data["cluster-name"].0, b"cluster1");
    let chain = Chain::parse(&data["tls.crt"].0).unwrap();
    assert_eq!(chain.common_name, USER);
    assert_eq!(chain.organizations.len(), 2);

    // With the two files beside it, the kubeconfig lets its bearer in as the add-on's agent.
    let folder = tempfile::tempdir().unwrap();
    for (key, value) in &data {
        std::fs::write(folder.path().join(key), &value.0).unwrap();
    }
    let loaded = KubeconfigSource::Path(folder.path().join("kubeconfig"))
        .read()
        .await
        .unwrap();
    let client = credential::connection::client(&loaded.config).unwrap();
    let refused = Api::<Secret>::default_namespaced(client)
        .list(&ListParams::default())
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains(&format!("User \"{USER}\" cannot list")), "{refused}");

    let addon = world.addons().get("helloworld").await.unwrap();
    assert_eq!(
        serde_json::to_value(addon.status.unwrap().kube_client_driver).unwrap(),
        json!("csr")
    );
    world.stop(agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_is_written_as_soon_as_its_namespace_exists() {
    let world = World::start().await;
    let (agent, _) = world.join().await;
    world.enable("later", json!({})).await;
    world.say_registered().await;
    let request = world.request().await;
    world.decide(&request, "Approved").await;
    let signed = |it: Option<&CertificateSigningRequest>| {
        it.is_some_and(|it| it.status.as_ref().is_some_and(|it| it.certificate.is_some()))
    };
    wait::until(&world.requests(), &request.name_any(), "is signed", signed).await;
    world
        .cluster
        .apply("{apiVersion: v1, kind: Namespace, metadata: {name: later}}")
        .await;
    wait::until(&world.secrets("later"), CREDENTIAL, "exists", |it| it.is_some()).await;
    world.until("ClusterCertificateRotated", |it| it.status == "True").await;
    world.stop(agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn available_follows_the_lease() {
    let world = World::start().await;
    let (agent, _) = world.join().await;
    world.enable("default", json!({})).await;
    let said = world.until("Available", |it| it.status == "Unknown").await;
    assert_eq!(said.reason, "ManagedClusterAddOnLeaseNotFound");
    world.renew("default", jiff::Timestamp::now()).await;
    let said = world.until("Available", |it| it.status == "True").await;
    assert_eq!(
        (said.reason.as_str(), said.message.as_str()),
        ("ManagedClusterAddOnLeaseUpdated", "helloworld add-on is available.")
    );
    // A lease that runs out in a moment: the word changes with no event from anywhere.
    let almost = jiff::Timestamp::now() - Duration::from_millis(299_500);
    world.renew("default", almost).await;
    let said = world.until("Available", |it| it.status == "False").await;
    assert_eq!(said.reason, "ManagedClusterAddOnLeaseUpdateStopped");
    world.stop(agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_deleted_during_agent_downtime_leaves_no_secret() {
    let world = World::start().await;
    let (agent, cancel) = world.join().await;
    world.enable("default", json!({})).await;
    world.say_registered().await;
    let request = world.request().await;
    world.decide(&request, "Approved").await;
    wait::until(&world.secrets("default"), CREDENTIAL, "exists", |it| it.is_some()).await;
    cancel.cancel();
    agent.finished().await;
    world
        .addons()
        .delete("helloworld", &DeleteParams::default())
        .await
        .unwrap();
    let (agent, _) = world.join().await;
    wait::gone(&world.secrets("default"), CREDENTIAL).await;
    world.stop(agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_namespace_and_another_subject_move_and_renew_the_secret() {
    let world = World::start().await;
    let (agent, _) = world.join().await;
    world.enable("default", json!({})).await;
    world.say_registered().await;
    let request = world.request().await;
    world.decide(&request, "Approved").await;
    wait::until(&world.secrets("default"), CREDENTIAL, "exists", |it| it.is_some()).await;
    world.say(json!({"namespace": "kube-public"})).await;
    let request = world.request().await;
    world.decide(&request, "Approved").await;
    wait::until(&world.secrets("kube-public"), CREDENTIAL, "exists", |it| it.is_some()).await;
    wait::gone(&world.secrets("default"), CREDENTIAL).await;
    let before = world.secrets("kube-public").get(CREDENTIAL).await.unwrap();
    let subject = json!({"user": "another", "groups": ["g"]});
    world
        .say(json!({"registrations": [{"signerName": SIGNER, "subject": subject}]}))
        .await;
    let request = world.request().await;
    world.decide(&request, "Approved").await;
    let renewed = |it: Option<&Secret>| it.is_some_and(|it| it.data != before.data);
    let after = wait::until(&world.secrets("kube-public"), CREDENTIAL, "is renewed", renewed).await;
    let chain = Chain::parse(&after.unwrap().data.unwrap()["tls.crt"].0).unwrap();
    assert_eq!(chain.common_name, "another");
    world.stop(agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_request_is_reported_and_not_repeated() {
    let world = World::start().await;
    let (agent, _) = world.join().await;
    world.enable("default", json!({})).await;
    world.say_registered().await;
    let request = world.request().await;
    world.decide(&request, "Denied").await;
    let said = world
        .until("ClusterCertificateRotated", |it| it.status == "False")
        .await;
    assert_eq!(said.reason, "ClientCertificateUpdateFailed");
    assert!(said.message.ends_with("is denied: by the test"), "{said:?}");
    world.stop(agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_driver_saves_a_token_of_the_service_account() {
    let world = World::start().await;
    let joined = world.join().await;
    // The cluster leaves it to the add-on, which wants tokens of an hour; a second set
    // of workers tells what it does in words.
    let (agent, cancel) = joined;
    cancel.cancel();
    agent.finished().await;
    let stop = world.cancel.child_token();
    let kubeconfig = world
        .hub
        .kubeconfig("system:open-cluster-management:cluster1:a", &[])
        .unwrap();
    let loaded = KubeconfigSource::Inline(kubeconfig).read().await.unwrap();
    let options = addon::agent::AddOnAgentOptions {
        hub: world.hub.client(),
        cluster: world.cluster.client(),
        management: None,
        cluster_name: "cluster1".to_owned(),
        hub_kubeconfig: Arc::new(loaded),
        clusters: ocm_reconcile::Cache::holding([]),
        driver: None,
        token_seconds: None,
        lease_grace: addon::agent::AddOnAgentOptions::LEASE_GRACE,
    };
    let running = tokio::spawn(addon::agent::run(options, stop));
    world.enable("default", json!({})).await;
    let wish = json!({"metadata": {"annotations": {
        "addon.open-cluster-management.io/kube-client-driver": "token",
        "addon.open-cluster-management.io/token-expiration-seconds": "3600",
    }}});
    world
        .addons()
        .patch("helloworld", &PatchParams::default(), &Patch::Merge(&wish))
        .await
        .unwrap();
    world
        .say(json!({"registrations": [{"signerName": SIGNER, "subject": {"user": USER}}]}))
        .await;
    let user = "system:serviceaccount:cluster1:helloworld-agent";
    let told = |it: Option<&ManagedClusterAddOn>| {
        let status = it.and_then(|it| it.status.as_ref());
        status.is_some_and(|it| it.registrations.first().is_some_and(|it| it.subject.user == user))
    };
    wait::until(&world.addons(), "helloworld", "names the account", told).await;
    // The hub makes the account, and says that it did.
    let said = world.until("TokenRefreshed", |it| it.status == "True").await;
    assert!(
        said.message.starts_with("Addon token refreshed, expires at "),
        "{said:?}"
    );
    let secret = world.secrets("default").get(CREDENTIAL).await.unwrap();
    assert_eq!(keys(&secret), ["cluster-name", "kubeconfig", "token"]);
    let claims = addon::agent::token::Claims::parse(&secret.data.as_ref().unwrap()["token"].0).unwrap();
    assert_eq!(claims.expires_at.duration_since(claims.issued_at).as_secs(), 3600);
    let folder = tempfile::tempdir().unwrap();
    for (key, value) in secret.data.iter().flatten() {
        std::fs::write(folder.path().join(key), &value.0).unwrap();
    }
    let loaded = KubeconfigSource::Path(folder.path().join("kubeconfig"))
        .read()
        .await
        .unwrap();
    let client: Client = credential::connection::client(&loaded.config).unwrap();
    let refused = Api::<Secret>::default_namespaced(client)
        .list(&ListParams::default())
        .await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains(&format!("User \"{user}\" cannot list")), "{refused}");
    world.cancel.cancel();
    running.await.unwrap();
}
