//! Agents: of one half or both, with one hub or several.

use std::path::Path;

use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::Namespace};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use ocm_api::{cluster::ManagedCluster, work::AppliedManifestWork};
use serde_json::json;
use testkit::{objects, wait};
use tokio_util::sync::CancellationToken;

use crate::program::{Bare, Running, get};

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_live_before_ready_and_ready_before_accepted() {
    let bare = Bare::new().await;
    let health = "--health-listen=127.0.0.1:0";
    let words = ["agent", "--kubeconfig", &bare.kubeconfig, "--cluster-name=edge", health];
    // There is nothing to join with.
    let waiting = Running::start(&words);
    waiting.address("health and metrics");
    waiting.says("has no Secret open-cluster-management-agent/bootstrap-hub-kubeconfig");
    let running = Running::start(&[&words[..], &["--bootstrap-kubeconfig", &bare.kubeconfig]].concat());
    let address = running.address("health and metrics");
    let clusters: Api<ManagedCluster> = Api::all(bare.client());
    wait::until(&clusters, "edge", "asks to be let in", |it| it.is_some()).await;
    assert_eq!(get(&address, "/healthz", None).await, (200, "ok".to_owned()));
    assert_eq!(get(&address, "/readyz", None).await, (200, "ok".to_owned()));
    assert_eq!(get(&address, "/metrics", None).await.0, 403);
}

/// A hub that lets in whoever asks.
async fn open_hub(stop: &CancellationToken) -> Bare {
    let bare = Bare::new().await;
    let mut options = hub::Options::default();
    options.registration.auto_accept = true;
    options.registration.auto_approved_csr_users = vec!["admin".to_owned()];
    hub::start(bare.client(), options, stop.clone()).await.unwrap();
    bare
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_cluster_switches_to_its_next_hub_and_stays() {
    let stop = CancellationToken::new();
    let (first, second) = (open_hub(&stop).await, open_hub(&stop).await);
    let cluster = Bare::new().await;
    let directory = cluster.folder.path().join("hub").display().to_string();
    let files = [&first, &second].map(|it| format!("--bootstrap-kubeconfigs={}", it.kubeconfig));
    let words = [
        "registration",
        "agent",
        "--feature-gates=MultipleHubs=true",
        &files[0],
        &files[1],
        "--spoke-cluster-name=edge",
        "--hub-kubeconfig-dir",
        &directory,
        "--disable-leader-election",
    ];
    let mut agent = cluster.run(&words);
    let joined = async |hub: &Bare| {
        let clusters: Api<ManagedCluster> = Api::all(hub.client());
        wait::until(&clusters, "edge", "joined", |it| {
            it.is_some_and(|it| objects::is_true(it, "ManagedClusterJoined"))
        })
        .await;
        clusters
    };
    let clusters = joined(&first).await;
    let deny = json!({"spec": {"hubAcceptsClient": false}});
    clusters
        .patch("edge", &PatchParams::default(), &Patch::Merge(&deny))
        .await
        .unwrap();
    joined(&second).await;
    // The work agent beside it finds the new hub where it has found the old one.
    agent.says("wrote the hub's credential");
    assert_eq!(agent.stops(), Some(0));

    // In a new pod the directory is empty; the first hub would take the cluster again,
    // and the cluster stays where it is.
    let accept = json!({"spec": {"hubAcceptsClient": true}});
    clusters
        .patch("edge", &PatchParams::default(), &Patch::Merge(&accept))
        .await
        .unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let mut agent = cluster.run(&words);
    let chosen = agent.says("hub chosen");
    assert!(chosen.contains(&second.world.hub.address.to_string()), "{chosen}");
    assert_eq!(agent.stops(), Some(0));
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_agent_keeps_its_request_at_its_second_hub() {
    let stop = CancellationToken::new();
    let second = Bare::new().await;
    hub::start(second.client(), hub::Options::default(), stop.clone())
        .await
        .unwrap();
    let cluster = Bare::new().await;
    // Nobody listens at the first.
    let gone = second.folder.path().join("gone");
    let text = std::fs::read_to_string(&second.kubeconfig).unwrap();
    let port = second.world.hub.address.port();
    std::fs::write(&gone, text.replace(&format!(":{port}"), ":1")).unwrap();
    let directory = cluster.folder.path().join("hub").display().to_string();
    let words = [
        "registration",
        "agent",
        "--feature-gates=MultipleHubs=true",
        &format!("--bootstrap-kubeconfigs={}", gone.display()),
        &format!("--bootstrap-kubeconfigs={}", second.kubeconfig),
        "--spoke-cluster-name=edge",
        "--hub-kubeconfig-dir",
        &directory,
        "--disable-leader-election",
    ];
    let requests: Api<CertificateSigningRequest> = Api::all(second.client());
    let names = async || -> Vec<String> {
        let all = requests.list(&Default::default()).await.unwrap().items;
        all.iter().filter_map(|it| it.metadata.name.clone()).collect()
    };
    let mut asked = Vec::new();
    for _ in 0..2 {
        let mut agent = cluster.run(&words);
        agent.says("awaiting acceptance: the certificate signing request");
        let now = names().await;
        assert!(asked.is_empty() || asked == now, "{asked:?}, and then {now:?}");
        asked = now;
        assert_eq!(agent.stops(), Some(0));
    }
    assert_eq!(asked.len(), 1);

    let approval = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Admin"}]}});
    requests
        .patch_approval(&asked[0], &PatchParams::default(), &Patch::Merge(&approval))
        .await
        .unwrap();
    let clusters: Api<ManagedCluster> = Api::all(second.client());
    let accept = json!({"spec": {"hubAcceptsClient": true}});
    clusters
        .patch("edge", &PatchParams::default(), &Patch::Merge(&accept))
        .await
        .unwrap();
    let mut agent = cluster.run(&words);
    wait::until(&clusters, "edge", "joined", |it| {
        it.is_some_and(|it| objects::is_true(it, "ManagedClusterJoined"))
    })
    .await;
    assert_eq!(names().await, asked);
    assert!(!std::path::Path::new(&directory).join("pending.key").exists());
    assert_eq!(agent.stops(), Some(0));
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_combined_agent_writes_its_agent_name_as_agent_id() {
    let stop = CancellationToken::new();
    let (hub, cluster) = (open_hub(&stop).await, Bare::new().await);
    let kinds = ocm_api::crds::managed_cluster();
    ocm_reconcile::install::install_crds(&cluster.client(), kinds)
        .await
        .unwrap();
    let directory = cluster.folder.path().join("hub").display().to_string();
    let agent = cluster.run(&[
        "registration-operator",
        "agent",
        "--bootstrap-kubeconfig",
        &hub.kubeconfig,
        "--spoke-cluster-name=edge",
        "--hub-kubeconfig-dir",
        &directory,
        "--disable-leader-election",
    ]);
    agent.says("wrote the hub's credential");
    let namespaces: Api<Namespace> = Api::all(hub.world.hub.client());
    wait::until(&namespaces, "edge", "is made for the cluster", |it| it.is_some()).await;
    let work = json!({
        "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "a", "namespace": "edge"},
        "spec": {"workload": {"manifests": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}},
        ]}},
    });
    hub.world.hub.apply(&work.to_string()).await;
    let traces: Api<AppliedManifestWork> = Api::all(cluster.client());
    let traces = wait::until_all(&traces, "the work's trace", |it| it.len() == 1).await;
    let name = std::fs::read_to_string(Path::new(&directory).join("agent-name")).unwrap();
    assert_eq!(traces[0].spec.agent_id, name);
    stop.cancel();
}
