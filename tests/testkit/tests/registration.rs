//! Registration from end to end: a hub and a cluster in memory, an agent that joins over TLS
//! with the bootstrap identity only.

use std::{sync::Arc, time::Duration};

use credential::KubeconfigSource;
use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    coordination::v1::Lease,
    core::v1::{Namespace, Secret},
    rbac::v1::{ClusterRole, RoleBinding},
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use ocm_api::{
    cluster::{ManagedCluster, ManagedClusterSet},
    condition::{self, Status},
    conditions::managed_cluster,
};
use ocm_reconcile::Cache;
use registration::{
    agent::{AgentError, AgentOptions, HubSession, Phase},
    hub::HubOptions,
};
use serde_json::json;
use testkit::{site::Site, wait};
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

const JOINER: &str = "joiner";
const BOOTSTRAPPERS: &str = "system:bootstrappers:managedcluster";

struct World {
    hub: Site,
    cluster: Site,
    clusters: Cache<ManagedCluster>,
    phases: watch::Sender<Vec<String>>,
    cancel: CancellationToken,
}

struct Agent {
    sessions: watch::Receiver<Option<HubSession>>,
    finished: JoinHandle<Result<(), AgentError>>,
    cancel: CancellationToken,
}

impl World {
    async fn start(auto_accept: bool) -> Self {
        let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
        let cancel = CancellationToken::new();
        let registration = HubOptions {
            auto_accept,
            auto_approved_csr_users: if auto_accept {
                vec![JOINER.to_owned()]
            } else {
                Vec::new()
            },
            ..HubOptions::default()
        };
        let options = hub::Options {
            registration,
            ..hub::Options::default()
        };
        hub::start(hub.client(), options, cancel.clone()).await.unwrap();
        let clusters = Cache::start(Api::all(hub.client()), cancel.clone());
        Self {
            hub,
            cluster,
            clusters,
            phases: watch::Sender::new(Vec::new()),
            cancel,
        }
    }

    fn join(&self, name: &str) -> Agent {
        self.join_with(name, self.hub.kubeconfig(JOINER, &[BOOTSTRAPPERS]).unwrap())
    }

    fn join_with(&self, name: &str, kubeconfig: String) -> Agent {
        self.join_reached_at(name, kubeconfig, &[])
    }

    fn join_reached_at(&self, name: &str, kubeconfig: String, urls: &[&str]) -> Agent {
        let phases = self.phases.clone();
        let (sender, sessions) = watch::channel(None);
        let cancel = self.cancel.child_token();
        let options = AgentOptions {
            cluster_name: Some(name.to_owned()),
            fail_fast: true,
            on_phase: Arc::new(move |it: &Phase| phases.send_modify(|all| all.push(it.to_string()))),
            sessions: sender,
            external_server_urls: urls.iter().map(|it| (*it).to_owned()).collect(),
            ..AgentOptions::new(KubeconfigSource::Inline(kubeconfig), self.cluster.client())
        };
        let finished = tokio::spawn(registration::agent::run(options, cancel.clone()));
        Agent {
            sessions,
            finished,
            cancel,
        }
    }

    /// Waits until the cluster's condition says this, and fails with what there is when it does not within reason.
    async fn until(&self, name: &str, type_: &str, status: Status) {
        let state = |it: &Cache<ManagedCluster>| {
            let cluster = it.named(name)?;
            (condition::status(&cluster.status.as_ref()?.conditions, type_) == Some(status)).then_some(())
        };
        if tokio::time::timeout(Duration::from_secs(30), self.clusters.until(state))
            .await
            .is_err()
        {
            panic!(
                "{type_} of {name} is not {status}: {:#?}\n{:#?}",
                self.clusters.named(name),
                *self.phases.borrow()
            );
        }
    }

    async fn phase(&self, beginning: &str) {
        let mut phases = self.phases.subscribe();
        let found = phases.wait_for(|all| all.iter().any(|it| it.starts_with(beginning)));
        if tokio::time::timeout(Duration::from_secs(30), found).await.is_err() {
            panic!("no phase {beginning}: {:#?}", *self.phases.borrow());
        }
    }

    async fn patch(&self, name: &str, patch: serde_json::Value) {
        // An agent asks for its certificate and makes its cluster side by side.
        let is_there = self.clusters.until(|it| it.named(name));
        let _ = tokio::time::timeout(Duration::from_secs(30), is_there)
            .await
            .expect(name);
        let api: Api<ManagedCluster> = Api::all(self.hub.client());
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }
}

impl Agent {
    async fn session(&mut self) -> HubSession {
        let wait = self.sessions.wait_for(Option::is_some);
        tokio::time::timeout(Duration::from_secs(30), wait)
            .await
            .expect("a session")
            .unwrap()
            .clone()
            .unwrap()
    }

    async fn no_session(&mut self) {
        let wait = self.sessions.wait_for(Option::is_none);
        tokio::time::timeout(Duration::from_secs(30), wait)
            .await
            .expect("no session")
            .unwrap();
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.finished.await.unwrap().unwrap();
    }
}

async fn secret(world: &World) -> Secret {
    let api: Api<Secret> = Api::namespaced(world.cluster.client(), "open-cluster-management-agent");
    api.get("hub-kubeconfig-secret").await.unwrap()
}

async fn gone<K>(api: Api<K>, name: &str)
where
    K: kube::Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    let gone = kube::runtime::wait::await_condition(api, name, |it: Option<&K>| it.is_none());
    tokio::time::timeout(Duration::from_secs(30), gone)
        .await
        .expect(name)
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_joins_is_accepted_and_available_with_upstreams_objects() {
    let world = World::start(true).await;
    let mut agent = world.join("cluster1");
    world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
    world
        .until("cluster1", managed_cluster::CLOCK_SYNCED, Status::True)
        .await;
    let session = agent.session().await;
    assert_eq!(session.cluster, "cluster1");

    let cluster = world.clusters.named("cluster1").unwrap();
    assert!(cluster.spec.hub_accepts_client);
    let status = cluster.status.as_ref().unwrap();
    assert!(condition::is_true(&status.conditions, managed_cluster::HUB_ACCEPTED));
    assert!(condition::is_true(&status.conditions, managed_cluster::JOINED));
    assert!(!status.version.kubernetes.is_empty());

    let data = secret(&world).await.data.unwrap();
    let keys: Vec<_> = data.keys().map(String::as_str).collect();
    assert_eq!(keys, ["agent-name", "cluster-name", "kubeconfig", "tls.crt", "tls.key"]);

    let client = world.hub.client();
    let requests = Api::<CertificateSigningRequest>::all(client.clone())
        .list(&ListParams::default())
        .await
        .unwrap();
    assert_eq!(requests.items.len(), 1);
    assert!(requests.items[0].name_any().starts_with("cluster1-"));
    let approval = &requests.items[0].status.as_ref().unwrap().conditions.as_ref().unwrap()[0];
    assert_eq!(
        approval.reason.as_deref(),
        Some("AutoApprovedByHubCSRApprovingController")
    );
    let namespace = Api::<Namespace>::all(client.clone()).get("cluster1").await.unwrap();
    assert_eq!(
        namespace.labels()["open-cluster-management.io/cluster-name"],
        "cluster1"
    );
    Api::<Lease>::namespaced(client.clone(), "cluster1")
        .get("managed-cluster-lease")
        .await
        .unwrap();
    for name in ["registration", "work"] {
        let name = format!("open-cluster-management:managedcluster:{name}");
        Api::<ClusterRole>::all(client.clone()).get(&name).await.unwrap();
    }
    for name in ["default", "global"] {
        Api::<ManagedClusterSet>::all(client.clone()).get(name).await.unwrap();
    }
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_waits_for_both_consents_of_an_administrator() {
    let world = World::start(false).await;
    let agent = world.join("cluster1");
    world
        .phase("awaiting acceptance: the certificate signing request")
        .await;
    world
        .patch("cluster1", json!({"spec": {"hubAcceptsClient": true}}))
        .await;
    world
        .until("cluster1", managed_cluster::HUB_ACCEPTED, Status::True)
        .await;
    decide(&world, &requests(&world).await[0].name_any(), "Approved").await;
    world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
    agent.stop().await;
}

async fn requests(world: &World) -> Vec<CertificateSigningRequest> {
    let api: Api<CertificateSigningRequest> = Api::all(world.hub.client());
    api.list(&ListParams::default()).await.unwrap().items
}

async fn decide(world: &World, request: &str, verdict: &str) {
    let api: Api<CertificateSigningRequest> = Api::all(world.hub.client());
    let conditions = json!([{"type": verdict, "status": "True", "reason": "Admin"}]);
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    api.patch_approval(request, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_is_resumed_after_a_restart() {
    let world = World::start(false).await;
    let waits = "awaiting acceptance: the certificate signing request";
    // It has not said which agent it is, either.
    let agent = world.join("cluster1");
    world.phase(waits).await;
    agent.stop().await;
    let asked = requests(&world).await.remove(0).name_any();

    world.phases.send_modify(Vec::clear);
    let agent = world.join("cluster1");
    world.phase(waits).await;
    agent.stop().await;
    let all: Vec<_> = requests(&world).await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(all, std::slice::from_ref(&asked), "the same one, and no other");

    // Somebody approves it while nobody waits.
    decide(&world, &asked, "Approved").await;
    world
        .patch("cluster1", json!({"spec": {"hubAcceptsClient": true}}))
        .await;
    let mut agent = world.join("cluster1");
    agent.session().await;
    assert_eq!(requests(&world).await.len(), 1);
    let keys: Vec<_> = secret(&world).await.data.unwrap().into_keys().collect();
    assert_eq!(keys, ["agent-name", "cluster-name", "kubeconfig", "tls.crt", "tls.key"]);
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_or_missing_request_is_recreated_after_restart() {
    let world = World::start(false).await;
    let waits = "awaiting acceptance: the certificate signing request";
    let agent = world.join("cluster1");
    world.phase(waits).await;
    agent.stop().await;
    let denied = requests(&world).await.remove(0).name_any();
    decide(&world, &denied, "Denied").await;

    // It waits for the one that it knows until it sees what became of it.
    let api: Api<CertificateSigningRequest> = Api::all(world.hub.client());
    let agent = world.join("cluster1");
    let all = wait::until_all(&api, "another request", |it| it.len() == 2).await;
    agent.stop().await;
    for it in all {
        api.delete(&it.name_any(), &DeleteParams::default()).await.unwrap();
    }

    let agent = world.join("cluster1");
    wait::until_all(&api, "a request in their place", |it| it.len() == 1).await;
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_cluster_loses_its_session_until_accepted_again() {
    let world = World::start(true).await;
    let mut agent = world.join("cluster1");
    world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
    let session = agent.session().await;
    world
        .patch("cluster1", json!({"spec": {"hubAcceptsClient": false}}))
        .await;
    world
        .until("cluster1", managed_cluster::HUB_ACCEPTED, Status::False)
        .await;
    agent.no_session().await;
    assert!(session.ended.is_cancelled());
    let leases: Api<Lease> = Api::namespaced(session.client.clone(), "cluster1");
    let denied = leases
        .get("managed-cluster-lease")
        .await
        .expect_err("a denied cluster may not read its namespace");
    assert!(
        matches!(&denied, kube::Error::Api(status) if status.code == 403),
        "{denied}"
    );
    world
        .patch("cluster1", json!({"spec": {"hubAcceptsClient": true}}))
        .await;
    world
        .until("cluster1", managed_cluster::HUB_ACCEPTED, Status::True)
        .await;
    agent.session().await;
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recreated_cluster_gets_its_client_urls_again() {
    let world = World::start(true).await;
    let kubeconfig = world.hub.kubeconfig(JOINER, &[BOOTSTRAPPERS]).unwrap();
    let agent = world.join_reached_at("cluster1", kubeconfig, &["https://here"]);
    let urls = |it: &ManagedCluster| -> Vec<String> {
        let configs = it.spec.managed_cluster_client_configs.iter();
        configs.map(|it| it.url.clone()).collect()
    };
    let api: Api<ManagedCluster> = Api::all(world.hub.client());
    // Without any, and with those of somebody else; accepted at once, and later.
    for (others, accepts) in [(json!([]), true), (json!([{"url": "https://there"}]), false)] {
        world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
        api.delete("cluster1", &DeleteParams::default()).await.unwrap();
        gone(api.clone(), "cluster1").await;
        let anew = json!({"metadata": {"name": "cluster1"},
            "spec": {"hubAcceptsClient": accepts, "managedClusterClientConfigs": others}});
        let mut wanted: Vec<_> = others.as_array().unwrap().iter().map(|it| it["url"].clone()).collect();
        wanted.push(json!("https://here"));
        let anew: ManagedCluster = serde_json::from_value(anew).unwrap();
        api.create(&PostParams::default(), &anew).await.unwrap();
        let told = world.clusters.until(|it| {
            let cluster = it.named("cluster1")?;
            (json!(urls(&cluster)) == json!(wanted)).then_some(())
        });
        tokio::time::timeout(Duration::from_secs(30), told)
            .await
            .expect("the client configs are told");
    }

    // What an administrator takes away from a cluster that has joined stays away.
    world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
    world
        .patch("cluster1", json!({"spec": {"managedClusterClientConfigs": []}}))
        .await;
    world
        .patch("cluster1", json!({"spec": {"hubAcceptsClient": false}}))
        .await;
    world
        .until("cluster1", managed_cluster::HUB_ACCEPTED, Status::False)
        .await;
    world
        .patch("cluster1", json!({"spec": {"hubAcceptsClient": true}}))
        .await;
    world
        .until("cluster1", managed_cluster::HUB_ACCEPTED, Status::True)
        .await;
    let none: Vec<String> = Vec::new();
    assert_eq!(urls(&world.clusters.named("cluster1").unwrap()), none);
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_credential_is_replaced_without_a_restart() {
    let world = World::start(true).await;
    let mut agent = world.join("cluster1");
    agent.session().await;
    let before = secret(&world).await;
    let api: Api<Secret> = Api::namespaced(world.cluster.client(), "open-cluster-management-agent");
    api.delete("hub-kubeconfig-secret", &DeleteParams::default())
        .await
        .unwrap();
    agent.no_session().await;
    agent.session().await;
    let after = secret(&world).await;
    let of = |secret: &Secret, key: &str| secret.data.as_ref().unwrap()[key].0.clone();
    assert_ne!(of(&before, "tls.key"), of(&after, "tls.key"));
    assert_eq!(of(&before, "agent-name"), of(&after, "agent-name"));
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_agent_uses_the_credential_it_has() {
    let world = World::start(true).await;
    let mut agent = world.join("cluster1");
    agent.session().await;
    agent.stop().await;
    let before = secret(&world).await;
    let mut agent = world.join("cluster1");
    agent.session().await;
    assert_eq!(
        before.metadata.resource_version,
        secret(&world).await.metadata.resource_version
    );
    let requests: Api<CertificateSigningRequest> = Api::all(world.hub.client());
    assert_eq!(requests.list(&ListParams::default()).await.unwrap().items.len(), 1);
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_managed_namespace_that_is_deleted_comes_back_at_once() {
    let world = World::start(true).await;
    let agent = world.join("cluster1");
    world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
    let wanting = json!({"status": {"managedNamespaces": [{"name": "team", "clusterSet": "prod"}]}});
    Api::<ManagedCluster>::all(world.hub.client())
        .patch_status("cluster1", &PatchParams::default(), &Patch::Merge(wanting))
        .await
        .unwrap();
    let told = |it: &Cache<ManagedCluster>| {
        let cluster = it.named("cluster1")?;
        let entry = cluster.status.as_ref()?.managed_namespaces.first()?;
        condition::is_true(&entry.conditions, "NamespaceAvailable").then_some(())
    };
    tokio::time::timeout(Duration::from_secs(30), world.clusters.until(told))
        .await
        .expect("the namespace is made");
    let namespaces: Api<Namespace> = Api::all(world.cluster.client());
    let first = namespaces.get("team").await.unwrap().metadata.uid;
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    // The agent looks by itself once a minute: this is sooner.
    let back = kube::runtime::wait::await_condition(namespaces, "team", |it: Option<&Namespace>| {
        it.is_some_and(|it| it.metadata.uid != first)
    });
    tokio::time::timeout(Duration::from_secs(30), back)
        .await
        .expect("it comes back")
        .unwrap();
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_cluster_leaves_no_permissions_behind() {
    let world = World::start(true).await;
    let mut agent = world.join("cluster1");
    agent.session().await;
    agent.stop().await;
    let client: Client = world.hub.client();
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    clusters.delete("cluster1", &DeleteParams::default()).await.unwrap();
    gone(clusters, "cluster1").await;
    let role = "open-cluster-management:managedcluster:cluster1";
    gone(Api::<ClusterRole>::all(client.clone()), role).await;
    for which in ["registration", "work"] {
        gone(
            Api::<RoleBinding>::namespaced(client.clone(), "cluster1"),
            &format!("{role}:{which}"),
        )
        .await;
    }
    gone(
        Api::<ClusterRole>::all(client.clone()),
        "open-cluster-management:managedcluster:registration",
    )
    .await;
    Api::<Namespace>::all(client)
        .get("cluster1")
        .await
        .expect("the namespace stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_of_a_cluster_does_not_take_over() {
    let world = World::start(true).await;
    let mut first = world.join("cluster1");
    first.session().await;
    world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
    let before = world.clusters.named("cluster1").unwrap();
    let elsewhere = Site::start().await.unwrap();
    let other = World {
        cluster: elsewhere,
        phases: watch::Sender::new(Vec::new()),
        ..world
    };
    let second = other.join("cluster1");
    other
        .phase("awaiting acceptance: the certificate signing request")
        .await;
    let requests: Api<CertificateSigningRequest> = Api::all(other.hub.client());
    let all = requests.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 2);
    let approved = all
        .iter()
        .filter(|it| it.status.as_ref().is_some_and(|it| it.certificate.is_some()))
        .count();
    assert_eq!(approved, 1);
    assert!(second.sessions.borrow().is_none());
    assert!(first.sessions.borrow().is_some());
    let served_by = |it: &ManagedCluster| it.annotations()["registration.open-cluster-management.io/served-by"].clone();
    assert_eq!(
        served_by(&before),
        served_by(&other.clusters.named("cluster1").unwrap())
    );
    second.stop().await;
    first.stop().await;
}

// A certificate of the hub for the agent `abcde` of cluster1 that has this long to live,
// of a life begun five minutes ago.
async fn with_credential(world: &World, seconds: i64) {
    let subject = credential::csr::CertificateSubject::agent("cluster1", "abcde");
    let groups: Vec<_> = subject.organizations.iter().map(String::as_str).collect();
    let pki = world.hub.server.pki();
    let pair = pki
        .issue_client_certificate(&subject.common_name, &groups, seconds, jiff::Timestamp::now())
        .unwrap();
    let kubeconfig = world.hub.kubeconfig(JOINER, &[BOOTSTRAPPERS]).unwrap();
    let bootstrap = KubeconfigSource::Inline(kubeconfig).read().await.unwrap();
    let mut data = credential::hub_secret::additional_data(&bootstrap, "cluster1", "abcde");
    data.insert("tls.crt".to_owned(), pair.certificate_pem.into_bytes());
    data.insert("tls.key".to_owned(), pair.key_pem.into_bytes());
    let client = world.cluster.client();
    let namespace = json!({"metadata": {"name": "open-cluster-management-agent"}});
    let namespace: Namespace = serde_json::from_value(namespace).unwrap();
    Api::all(client.clone())
        .create(&Default::default(), &namespace)
        .await
        .unwrap();
    let mut secret: Secret = serde_json::from_value(json!({"metadata": {"name": "hub-kubeconfig-secret"}})).unwrap();
    secret.data = Some(credential::hub_secret::encoded(data));
    Api::namespaced(client, "open-cluster-management-agent")
        .create(&Default::default(), &secret)
        .await
        .unwrap();
    // The hub knows the cluster of old.
    let cluster: ManagedCluster =
        serde_json::from_value(json!({"metadata": {"name": "cluster1"}, "spec": {"hubAcceptsClient": true}})).unwrap();
    Api::all(world.hub.client())
        .create(&Default::default(), &cluster)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiring_certificate_is_renewed_without_ending_the_session() {
    let world = World::start(true).await;
    with_credential(&world, 60).await;
    let mut agent = world.join("cluster1");
    let session = agent.session().await;
    world
        .until("cluster1", managed_cluster::CERTIFICATE_ROTATED, Status::True)
        .await;
    world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
    let requests: Api<CertificateSigningRequest> = Api::all(world.hub.client());
    let all = requests.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 1);
    // Asked for with the certificate itself, not with the bootstrap identity.
    assert_eq!(
        all[0].spec.username.as_deref(),
        Some("system:open-cluster-management:cluster1:abcde")
    );
    let data = secret(&world).await.data.unwrap();
    let chain = credential::certificate::Chain::parse(&data["tls.crt"].0).unwrap();
    assert!(chain.remaining(jiff::Timestamp::now()) > 0.9);
    assert!(!session.ended.is_cancelled());
    let leases: Api<Lease> = Api::namespaced(session.client.clone(), "cluster1");
    leases
        .get("managed-cluster-lease")
        .await
        .expect("the connection goes on");
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_an_expired_certificate_joins_again() {
    let world = World::start(true).await;
    with_credential(&world, -1).await;
    let mut agent = world.join("cluster1");
    world.phase("credential lost: the client certificate expired").await;
    assert_eq!(agent.session().await.agent, "abcde");
    agent.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_hub_plans_empty_pages() {
    use ocm_reconcile::{Caches, Clients, settle::settle};
    use registration::hub::{
        cluster_roles::ClusterRoles, default_sets::DefaultSets, lifecycle::Lifecycle, taints::Taints,
    };

    let world = World::start(true).await;
    let agent = world.join("cluster1");
    world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
    world
        .until("cluster1", managed_cluster::CLOCK_SYNCED, Status::True)
        .await;
    agent.stop().await;
    let client = world.hub.client();
    let caches = Caches::new(client.clone(), world.cancel.clone());
    let clients = Clients::hub(client);
    let options = Arc::new(HubOptions::default());
    let none: Vec<String> = Vec::new();
    let lifecycle = Lifecycle::new(&caches, &options);
    let roles = ClusterRoles::new(&caches, &options);
    let (taints, default_sets) = (Taints::new(&caches, &options), DefaultSets::new(&caches));
    caches.synced().await;
    assert_eq!(settle(&lifecycle, &clients, "cluster1", 2).await.unwrap(), none);
    assert_eq!(settle(&roles, &clients, "shared", 2).await.unwrap(), none);
    assert_eq!(settle(&taints, &clients, "cluster1", 2).await.unwrap(), none);
    for set in ["default", "global"] {
        assert_eq!(settle(&default_sets, &clients, set, 2).await.unwrap(), none);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_in_a_bound_set_gets_an_accurate_profile() {
    use ocm_api::{cluster::ManagedClusterSetBinding, multicluster::ClusterProfile};
    use ocm_reconcile::{Caches, Clients, settle::settle};
    use registration::hub::{
        cluster_profiles::ClusterProfiles, cluster_sets::ClusterSets, managed_namespaces::ManagedNamespaces,
        set_bindings::SetBindings,
    };

    // No hub runs here: each reconciler is turned by hand.
    let hub = Site::start().await.unwrap();
    let client = hub.client();
    ocm_reconcile::install::install_crds(&client, ocm_api::crds::hub())
        .await
        .unwrap();
    let create = PostParams::default();
    let set = json!({"metadata": {"name": "prod"}, "spec": {"managedNamespaces": [{"name": "team"}]}});
    let sets: Api<ManagedClusterSet> = Api::all(client.clone());
    sets.create(&create, &serde_json::from_value(set).unwrap())
        .await
        .unwrap();
    let binding = json!({"metadata": {"name": "prod"}, "spec": {"clusterSet": "prod"}});
    let bindings: Api<ManagedClusterSetBinding> = Api::namespaced(client.clone(), "default");
    bindings
        .create(&create, &serde_json::from_value(binding).unwrap())
        .await
        .unwrap();
    let label = json!({"cluster.open-cluster-management.io/clusterset": "prod"});
    let cluster = json!({"metadata": {"name": "cluster1", "labels": label}, "spec": {}});
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    clusters
        .create(&create, &serde_json::from_value(cluster).unwrap())
        .await
        .unwrap();
    let said =
        json!({"status": {"version": {"kubernetes": "v1.34.1"}, "clusterClaims": [{"name": "region", "value": "eu"}]}});
    clusters
        .patch_status("cluster1", &PatchParams::default(), &Patch::Merge(said))
        .await
        .unwrap();

    let stop = CancellationToken::new();
    let clients = Clients::hub(client.clone());
    let mut written = Vec::new();
    for _ in 0..4 {
        // Fresh caches for each round, which have seen what the one before wrote.
        let caches = Caches::new(client.clone(), stop.clone());
        let shown = ClusterProfiles::new(&caches);
        let (bound, counted) = (SetBindings::new(&caches), ClusterSets::new(&caches));
        let told = ManagedNamespaces::new(&caches);
        caches.synced().await;
        let once = |it: Result<Vec<String>, _>| it.map_or_else(|_: ocm_reconcile::ObserveError| 1, |it| it.len());
        // First, because the caches may hear of the others' writes while they go on.
        let shown = once(settle(&shown, &clients, "default/cluster1", 1).await);
        let bound = once(settle(&bound, &clients, "default/prod", 1).await);
        let counted = once(settle(&counted, &clients, "prod", 1).await);
        let told = once(settle(&told, &clients, "cluster1", 1).await);
        written.push((bound, counted, told, shown));
    }
    // The profile waits for the binding to hold, is made, and told what its cluster says.
    assert_eq!(written, [(1, 1, 1, 0), (0, 0, 0, 1), (0, 0, 0, 1), (0, 0, 0, 0)]);
    let profiles: Api<ClusterProfile> = Api::namespaced(client.clone(), "default");
    let status = profiles.get("cluster1").await.unwrap().status.unwrap();
    assert_eq!(status.version.kubernetes, "v1.34.1");
    assert_eq!(
        (status.properties[0].name.as_str(), status.properties[0].value.as_str()),
        ("region", "eu")
    );
    stop.cancel();
    hub.stop().await;
}

/// A way to the hub that counts connections and can be cut.
struct Way {
    address: std::net::SocketAddr,
    connections: Arc<std::sync::atomic::AtomicUsize>,
    open: watch::Sender<bool>,
}

impl Way {
    async fn to(hub: std::net::SocketAddr) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let open = watch::Sender::new(true);
        let (counter, state) = (connections.clone(), open.subscribe());
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                if !*state.borrow() {
                    continue;
                }
                counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                let mut state = state.clone();
                tokio::spawn(async move {
                    let mut far = tokio::net::TcpStream::connect(hub).await.unwrap();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = state.wait_for(|open| !open) => {}
                    }
                });
            }
        });
        Self {
            address,
            connections,
            open,
        }
    }

    fn connections(&self) -> usize {
        self.connections.load(std::sync::atomic::Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_uses_one_connection_that_recovers_after_hub_downtime() {
    let world = World::start(true).await;
    let way = Way::to(world.hub.address).await;
    let kubeconfig = world.hub.kubeconfig(JOINER, &[BOOTSTRAPPERS]).unwrap();
    let kubeconfig = kubeconfig.replace(&world.hub.address.to_string(), &way.address.to_string());
    let mut agent = world.join_with("cluster1", kubeconfig);
    world.until("cluster1", managed_cluster::AVAILABLE, Status::True).await;
    agent.session().await;
    // One with the bootstrap credential, one with the agent's own, which carries watches, heartbeat and status alike.
    assert_eq!(way.connections(), 2);
    way.open.send_replace(false);
    world
        .patch("cluster1", json!({"spec": {"hubAcceptsClient": false}}))
        .await;
    world
        .until("cluster1", managed_cluster::HUB_ACCEPTED, Status::False)
        .await;
    assert!(agent.sessions.borrow().is_some(), "an agent that hears nothing goes on");
    way.open.send_replace(true);
    agent.no_session().await;
    agent.stop().await;
}

#[tokio::test]
async fn an_unreachable_bootstrap_kubeconfig_is_reported_in_one_sentence() {
    let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
    let kubeconfig = hub.kubeconfig(JOINER, &[BOOTSTRAPPERS]).unwrap();
    let address = hub.address;
    hub.stop().await;
    let options = AgentOptions {
        cluster_name: Some("cluster1".to_owned()),
        fail_fast: true,
        ..AgentOptions::new(KubeconfigSource::Inline(kubeconfig), cluster.client())
    };
    let problem = registration::agent::run(options, CancellationToken::new())
        .await
        .expect_err("nobody answers");
    let sentence = problem.to_string();
    assert!(
        sentence.starts_with(&format!("https://{address} does not answer (")),
        "{sentence}"
    );
}

#[tokio::test]
async fn a_hub_with_another_ca_is_reported_in_one_sentence() {
    let (hub, stranger) = (Site::start().await.unwrap(), Site::start().await.unwrap());
    let kubeconfig = stranger.kubeconfig(JOINER, &[BOOTSTRAPPERS]).unwrap();
    let kubeconfig = kubeconfig.replace(&stranger.address.to_string(), &hub.address.to_string());
    let options = AgentOptions {
        cluster_name: Some("cluster1".to_owned()),
        fail_fast: true,
        ..AgentOptions::new(KubeconfigSource::Inline(kubeconfig), stranger.client())
    };
    let problem = registration::agent::run(options, CancellationToken::new())
        .await
        .expect_err("an unknown CA");
    let sentence = problem.to_string();
    assert!(sentence.contains("was signed by an unknown authority"), "{sentence}");
}
