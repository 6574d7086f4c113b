//! The binary in the place of upstream's programs: each part of a hub as a process of its own, on an API server on which
//! nothing else of OCM runs.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc,
};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    certificates::v1::CertificateSigningRequest,
    coordination::v1::Lease,
    core::v1::{Namespace, ServiceAccount},
    events::v1::Event,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, Config,
    api::{Patch, PatchParams, PostParams},
};
use kube_api::pki::Pki;
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    cluster::{ManagedCluster, ManagedClusterSet, PlacementDecision},
    work::{AppliedManifestWork, ManifestWork},
};
use serde_json::{Value, json};
use testkit::{World, objects, wait};
use tokio_util::sync::CancellationToken;

/// A program that runs.
struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Running {
    fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_drover"))
            .args(words)
            .env("NO_COLOR", "1")
            .env_remove("DROVER_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let stderr = child.stderr.take().expect("it was asked for");
        let (tell, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for a line of the log that holds this.
    fn says(&self, what: &str) -> String {
        let mut seen = Vec::new();
        loop {
            match self.lines.recv_timeout(wait::PATIENCE) {
                Ok(line) if line.contains(what) => return line,
                Ok(line) => seen.push(line),
                Err(_) => panic!("{what:?} was not said, but:\n{}", seen.join("\n")),
            }
        }
    }

    /// Where it serves what the line with these words names.
    fn address(&self, what: &str) -> String {
        let line = self.says(what);
        let (_, rest) = line.split_once("address=").expect("the line names an address");
        rest.split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// SIGTERM, and the exit code.
    fn stops(&mut self) -> Option<i32> {
        let told = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(told.expect("there is a kill").success());
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended is what we want.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A hub on which nothing runs, and the kubeconfig of its administrator.
struct Bare {
    world: World,
    folder: tempfile::TempDir,
    kubeconfig: String,
}

impl Bare {
    async fn new() -> Self {
        let world = World::new(0).await;
        let folder = tempfile::tempdir().expect("a temporary directory");
        let path = folder.path().join("kubeconfig");
        let text = world.hub.kubeconfig("admin", &["system:masters"]).unwrap();
        std::fs::write(&path, text).unwrap();
        Self {
            world,
            folder,
            kubeconfig: path.display().to_string(),
        }
    }

    fn client(&self) -> Client {
        self.world.hub.client()
    }

    fn run(&self, words: &[&str]) -> Running {
        let own = [
            "--kubeconfig",
            &self.kubeconfig,
            "--listen=127.0.0.1:0",
            "--namespace=default",
        ];
        Running::start(&[words, &own].concat())
    }
}

fn output(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(words)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .expect("the binary runs")
}

#[test]
fn what_upstream_refuses_is_refused_in_its_words_with_its_exit_code() {
    for (words, said) in [
        (
            &["registration", "control"][..],
            "Error: unknown command \"control\" for \"registration\"\n",
        ),
        (&["work", "agent", "--foo"], "Error: unknown flag: --foo\n"),
        (
            &["placement", "controller", "--kubeconfig"],
            "Error: flag needs an argument: --kubeconfig\n",
        ),
        (&["registration", "agent"], "error: bootstrap-kubeconfig is required\n"),
        (
            &["work", "agent", "--workload-agent-workers=0"],
            "error: workload-agent-workers must be >= 1, got 0\n",
        ),
        (
            &["addon", "manager", "--tls-min-version=1"],
            "error: unknown tls version \"1\"\n",
        ),
        (
            &["registration-operator", "hub"],
            "error: registration-operator hub is not supported: nothing acts on ClusterManagers here; `drover init` puts a hub",
        ),
        (
            &["/registration-operator", "klusterlet", "--enable-sync-labels=true"],
            "error: registration-operator klusterlet is not supported: nothing acts on Klusterlets here; `drover join --deploy`",
        ),
        (
            &[
                "/server",
                "grpc",
                "--server-config=/var/run/secrets/hub/grpc/config/config.yaml",
            ],
            "error: server grpc is not supported: hub and agents meet at the hub's Kubernetes API",
        ),
        // Before anything is asked of a server, which is not there.
        (
            &[
                "registration",
                "agent",
                "--registration-auth=awsirsa",
                "--bootstrap-kubeconfig=/nowhere",
            ],
            "error: --registration-auth=awsirsa is not supported: nothing is asked of AWS here",
        ),
        (
            &[
                "registration",
                "controller",
                "--enabled-registration-drivers=csr,grpc",
                "--kubeconfig=/nowhere",
            ],
            "error: --enabled-registration-drivers=grpc is not supported: hub and agents meet at the hub's Kubernetes API",
        ),
        (
            &[
                "work",
                "agent",
                "--workload-source-driver=mqtt",
                "--spoke-cluster-name=a",
            ],
            "error: --workload-source-driver=mqtt is not supported: hub and agents meet at the hub's Kubernetes API",
        ),
        (
            &["work", "manager"],
            "error: unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
        ),
    ] {
        let output = output(words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {stderr}");
        assert!(stderr.starts_with(said), "{words:?}: {stderr}");
    }
    let help = output(&["registration", "agent", "--help"]);
    let stdout = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        help.status.success() && stdout.contains("--bootstrap-kubeconfig <string>"),
        "{stdout}"
    );
    assert_eq!(
        output(&["registration"]).status.code(),
        Some(1),
        "no sub-command is a failure"
    );
    assert!(output(&["registration", "--version"]).status.success());
    assert!(output(&["registration", "controller", "--version"]).status.success());
}

const PLACEMENT: &str = "
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSet, metadata: {name: default}, spec: {}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta2, kind: ManagedClusterSetBinding, metadata: {name: default, namespace: default}, spec: {clusterSet: default}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: cluster1, labels: {cluster.open-cluster-management.io/clusterset: default}}, spec: {}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: all, namespace: default}, spec: {}}
";

#[tokio::test(flavor = "multi_thread")]
async fn placement_alone_chooses_clusters_and_hands_over_when_it_stops() {
    let bare = Bare::new().await;
    let mut first = bare.run(&["placement", "controller"]);
    let address = first.address("health and metrics");
    first.says("leads");
    bare.world.hub.apply(PLACEMENT).await;
    let decisions: Api<PlacementDecision> = Api::namespaced(bare.client(), "default");
    let chosen = wait::until(&decisions, "all-decision-1", "has the cluster", |it| {
        it.is_some_and(|it| it.status.as_ref().is_some_and(|it| !it.decisions.is_empty()))
    });
    assert_eq!(
        chosen.await.unwrap().status.unwrap().decisions[0].cluster_name,
        "cluster1"
    );
    metrics_are_for_those_who_may(&bare, &address, "placement").await;

    let second = bare.run(&["placement", "controller"]);
    second.says("another leads");
    assert_eq!(first.stops(), Some(0));
    // The Lease would last 137 s, which is longer than anybody here waits.
    second.says("leads");
    let leases: Api<Lease> = Api::namespaced(bare.client(), "default");
    let lease = leases.get("placement-lock").await.unwrap().spec.unwrap();
    assert_eq!(
        (lease.lease_duration_seconds, lease.lease_transitions),
        (Some(137), Some(1))
    );
}

/// Asks a program that serves with a certificate of its own making.
async fn get(address: &str, path: &str, token: Option<&str>) -> (u16, String) {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(|it| it.to_owned().into());
    let client = Client::try_from(config).unwrap();
    let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
    let answer = client.send(request).await.unwrap();
    let code = answer.status().as_u16();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap();
    (code, String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

/// A token of a ServiceAccount.
async fn token(bare: &Bare, account: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(bare.client(), "default");
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    let made = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await;
    made.unwrap().status.unwrap().token.unwrap()
}

/// Health is for everybody, metrics for those whom the API server lets see them.
async fn metrics_are_for_those_who_may(bare: &Bare, address: &str, controller: &str) {
    assert_eq!(get(address, "/healthz", None).await, (200, "ok".to_owned()));
    let (code, body) = get(address, "/metrics", None).await;
    assert_eq!(code, 403);
    assert!(
        body.contains(r#"forbidden: User \"system:anonymous\" cannot get path \"/metrics\""#),
        "{body}"
    );
    assert_eq!(get(address, "/metrics", Some("nobody's")).await.0, 401);
    bare.world
        .hub
        .apply(
            "
{apiVersion: v1, kind: ServiceAccount, metadata: {name: scraper, namespace: default}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: stranger, namespace: default}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scraper}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper}
subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]
",
        )
        .await;
    assert_eq!(
        get(address, "/metrics", Some(&token(bare, "stranger").await)).await.0,
        403
    );
    let (code, body) = get(address, "/metrics", Some(&token(bare, "scraper").await)).await;
    assert_eq!(code, 200, "{body}");
    for name in [
        &format!("controller_runtime_reconcile_total{{controller=\"{controller}"),
        &format!("controller_runtime_reconcile_time_seconds_count{{controller=\"{controller}"),
        &format!("workqueue_depth{{name=\"{controller}"),
        "process_resident_memory_bytes ",
        "process_cpu_seconds_total ",
    ] {
        assert!(body.contains(name), "{name} is not in\n{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_leader_is_followed_when_its_lease_is_over() {
    let bare = Bare::new().await;
    let brief = [
        "placement",
        "controller",
        "--leader-election-lease-duration=2s",
        "--leader-election-renew-deadline=1500ms",
        "--leader-election-retry-period=500ms",
    ];
    let mut first = bare.run(&brief);
    first.says("leads");
    let second = bare.run(&brief);
    second.says("another leads");
    first.child.kill().unwrap();
    second.says("leads");
    bare.world.hub.apply(PLACEMENT).await;
    let decisions: Api<PlacementDecision> = Api::namespaced(bare.client(), "default");
    wait::until(&decisions, "all-decision-1", "is there", |it| it.is_some()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn registration_alone_lets_clusters_in() {
    let bare = Bare::new().await;
    let _running = bare.run(&[
        "/registration",
        "--feature-gates=ManagedClusterAutoApproval=true",
        "controller",
        "--labels=team=a",
        "--disable-leader-election",
    ]);
    let sets: Api<ManagedClusterSet> = Api::all(bare.client());
    wait::until(&sets, "default", "is there", |it| it.is_some()).await;
    let cluster = "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: cluster1}, spec: {hubAcceptsClient: true}}";
    bare.world.hub.apply(cluster).await;
    let clusters: Api<ManagedCluster> = Api::all(bare.client());
    wait::until(&clusters, "cluster1", "accepted", |it| {
        it.is_some_and(|it| objects::is_true(it, "HubAcceptedManagedCluster"))
    })
    .await;
    let namespace = Api::<Namespace>::all(bare.client()).get("cluster1").await.unwrap();
    assert_eq!(namespace.metadata.labels.unwrap()["team"], "a");
}

/// Cluster API's kind, as far as anybody looks at it.
const CLUSTERS_OF_CLUSTER_API: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.x-k8s.io}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {kind: Cluster, plural: clusters, singular: cluster, listKind: ClusterList}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_with_the_gate_of_the_importer_keeps_registration_and_says_that_nothing_is_imported() {
    let bare = Bare::new().await;
    let running = bare.run(&[
        "registration",
        "controller",
        "--feature-gates=ClusterImporter=true",
        "--disable-leader-election",
    ]);
    let address = running.address("health and metrics");
    running.says("ClusterImporter");
    bare.world.hub.apply(CLUSTERS_OF_CLUSTER_API).await;
    let crds: Api<CustomResourceDefinition> = Api::all(bare.client());
    wait::until(&crds, "clusters.cluster.x-k8s.io", "is served", |it| {
        it.is_some_and(|it| objects::is_true(it, "Established"))
    })
    .await;
    let text = "
{apiVersion: v1, kind: Namespace, metadata: {name: waits}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: waits, namespace: waits}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: waits}, spec: {}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: joins}, spec: {hubAcceptsClient: true}}
";
    bare.world.hub.apply(text).await;
    let events: Api<Event> = Api::namespaced(bare.client(), "default");
    let told = wait::until_all(&events, "the cluster is told", |it| {
        it.iter()
            .any(|it| it.reason.as_deref() == Some("ClusterImporterNotThere"))
    })
    .await;
    let about = |it: &Event| it.regarding.as_ref().and_then(|it| it.name.clone());
    let told: Vec<_> = told.iter().filter_map(about).collect();
    assert_eq!(told, ["waits"]);
    let clusters: Api<ManagedCluster> = Api::all(bare.client());
    wait::until(&clusters, "joins", "accepted", |it| {
        it.is_some_and(|it| objects::is_true(it, "HubAcceptedManagedCluster"))
    })
    .await;
    let (code, text) = get(&address, "/readyz?verbose", None).await;
    assert_eq!(code, 200);
    let line = text.lines().find(|it| it.starts_with("[!]cluster-importer "));
    assert!(line.is_some_and(|it| it.contains("drover join --deploy")), "{text}");
    assert_eq!(get(&address, "/readyz", None).await, (200, "ok".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_that_waits_for_a_kind_is_ready_and_says_which() {
    let bare = Bare::new().await;
    let crds: Api<CustomResourceDefinition> = Api::all(bare.client());
    let missing = "placements.cluster.open-cluster-management.io";
    crds.delete(missing, &Default::default()).await.unwrap();
    wait::gone(&crds, missing).await;
    let running = bare.run(&["addon", "manager", "--disable-leader-election"]);
    let address = running.address("health and metrics");
    let said = running.says("controller=\"addon-install\"");
    assert!(said.contains("kinds=Placement"), "{said}");
    let (code, text) = get(&address, "/readyz?verbose", None).await;
    let line = text.lines().find(|it| it.starts_with("[!]addon-install waits for "));
    assert!(code == 200 && line.is_some_and(|it| it.contains("Placement")), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn works_and_add_ons_are_looked_after_by_a_process_each() {
    let bare = Bare::new().await;
    let text = "
{apiVersion: v1, kind: Namespace, metadata: {name: cluster1}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: cluster1}, spec: {}}
---
{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: all, namespace: default}, spec: {}}
---
apiVersion: work.open-cluster-management.io/v1alpha1
kind: ManifestWorkReplicaSet
metadata: {name: set, namespace: default}
spec:
  placementRefs: [{name: all}]
  manifestWorkTemplate:
    workload: {manifests: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]}
---
{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ClusterManagementAddOn, metadata: {name: hello}, spec: {}}
---
{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ManagedClusterAddOn, metadata: {name: hello, namespace: cluster1}, spec: {}}
";
    bare.world.hub.apply(text).await;
    let _works = bare.run(&["work", "manager", "--feature-gates=ManifestWorkReplicaSet=true"]);
    let _placements = bare.run(&["placement", "controller"]);
    let mut add_ons = bare.run(&["addon", "manager"]);
    let owned: Api<ManagedClusterAddOn> = Api::namespaced(bare.client(), "cluster1");
    wait::until(&owned, "hello", "has its owner", |it| {
        it.is_some_and(|it| {
            it.metadata
                .owner_references
                .as_ref()
                .is_some_and(|it| it[0].name == "hello")
        })
    })
    .await;
    // The set's clusters come from another process.
    bare.world.hub.apply(PLACEMENT).await;
    let works: Api<ManifestWork> = Api::namespaced(bare.client(), "cluster1");
    wait::until_all(&works, "a work of the set", |it| it.len() == 1).await;
    let leases: Api<Lease> = Api::namespaced(bare.client(), "default");
    for name in ["work-manager-lock", "placement-lock", "manager-lock"] {
        wait::until(&leases, name, "is held", |it| it.is_some()).await;
    }
    assert_eq!(add_ons.stops(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_hubs_wait_for_each_other_when_they_are_told_to() {
    let bare = Bare::new().await;
    let start = || {
        let health = "--health-listen=127.0.0.1:0";
        Running::start(&["hub", "--kubeconfig", &bare.kubeconfig, "--leader-elect", health])
    };
    let mut first = start();
    let address = first.address("health and metrics");
    first.says("hub ready");
    assert_eq!(get(&address, "/readyz", None).await, (200, "ok".to_owned()));
    metrics_are_for_those_who_may(&bare, &address, "managed-cluster-set").await;
    let second = start();
    let address = second.address("health and metrics");
    second.says("another leads");
    // It answers webhooks as the other does.
    assert_eq!(get(&address, "/readyz", None).await, (200, "ok".to_owned()));
    assert_eq!(first.stops(), Some(0));
    second.says("hub ready");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_lives_before_it_is_ready_and_is_ready_before_its_hub_knows_it() {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_program_begins_anew_when_a_file_that_it_was_told_of_changes() {
    let bare = Bare::new().await;
    let file = bare.folder.path().join("watched");
    std::fs::write(&file, "one").unwrap();
    let watched = format!("--terminate-on-files={}", file.display());
    let running = bare.run(&["placement", "controller", &watched]);
    running.says("leads");
    std::fs::write(&file, "two").unwrap();
    running.says("a file of --terminate-on-files has changed");
    running.says("leads");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_debug_page_of_placements_is_for_those_who_may_see_them() {
    let bare = Bare::new().await;
    bare.world.hub.apply(PLACEMENT).await;
    let running = bare.run(&["placement", "debug", "--disable-leader-election"]);
    let address = running.address("health and metrics");
    let path = "/debug/placements/default/all";
    assert_eq!(get(&address, path, None).await.0, 401);
    bare.world
        .hub
        .apply(
            "
{apiVersion: v1, kind: ServiceAccount, metadata: {name: viewer, namespace: default}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: stranger, namespace: default}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: viewer}
rules: [{apiGroups: [cluster.open-cluster-management.io], resources: [placements], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: viewer}
subjects: [{kind: ServiceAccount, name: viewer, namespace: default}]
",
        )
        .await;
    assert_eq!(get(&address, path, Some(&token(&bare, "stranger").await)).await.0, 403);
    let viewer = token(&bare, "viewer").await;
    let (code, body) = get(&address, path, Some(&viewer)).await;
    assert_eq!(code, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["aggregatedScores"][0]["clusterName"], "cluster1");
    assert_eq!(
        get(&address, "/debug/placements/default/none", Some(&viewer)).await.0,
        404
    );
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
async fn a_cluster_that_is_denied_turns_to_the_next_of_its_hubs_and_stays_there() {
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

    // In a new pod the directory is empty; the first hub would take the cluster again, and the cluster stays where it is.
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
async fn an_agent_that_waits_at_its_second_hub_waits_there_after_a_restart_with_the_same_request() {
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
async fn an_agent_of_both_halves_marks_works_with_its_id_of_registration() {
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

/// Keys for a webhook server in a directory, and how a client trusts them.
fn certificates(directory: &Path) -> Pki {
    let pki = Pki::open(None, &[], jiff::Timestamp::now()).unwrap();
    let pem = |label: &str, der: &[u8]| {
        let text = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let serving = pki.serving();
    let chain: String = serving.chain.iter().map(|it| pem("CERTIFICATE", it)).collect();
    std::fs::write(directory.join("tls.crt"), chain).unwrap();
    std::fs::write(directory.join("tls.key"), pem("PRIVATE KEY", serving.key.secret_der())).unwrap();
    pki
}

async fn post(address: &str, pki: &Pki, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![pki.authority().der().to_vec()]);
    let request = http::Request::post(path).header("content-type", "application/json");
    Client::try_from(config)?
        .request(request.body(body.to_string().into_bytes()).unwrap())
        .await
}

fn review(operation: &str, user: &str, object: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": operation, "object": object, "userInfo": {"username": user, "groups": []}},
    })
}

/// What the operator of upstream tells the API server, with the server's address in the place of its Service.
fn configuration(address: &str, pki: &Pki) -> String {
    let ca = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pki.ca_pem());
    let webhook = |kind: &str, name: &str, path: &str| {
        format!(
            "
apiVersion: admissionregistration.k8s.io/v1
kind: {kind}WebhookConfiguration
metadata: {{name: {name}}}
webhooks:
- name: {name}
  clientConfig: {{url: 'https://{address}{path}', caBundle: {ca}}}
  rules: [{{apiGroups: [cluster.open-cluster-management.io], apiVersions: ['*'], operations: [CREATE, UPDATE], resources: [managedclusters]}}]
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 10
"
        )
    };
    let mutate = "/mutate-cluster-open-cluster-management-io-v1-managedcluster";
    let validate = "/validate-cluster-open-cluster-management-io-v1-managedcluster";
    let domain = "admission.cluster.open-cluster-management.io";
    let mutating = webhook("Mutating", &format!("managedclustermutators.{domain}"), mutate);
    let validating = webhook("Validating", &format!("managedclustervalidators.{domain}"), validate);
    format!("{mutating}---{validating}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_server_judges_with_the_hubs_rules_and_takes_up_a_renewed_certificate() {
    let bare = Bare::new().await;
    let directory: PathBuf = bare.folder.path().join("certificates");
    std::fs::create_dir(&directory).unwrap();
    let pki = certificates(&directory);
    let directory_text = directory.display().to_string();
    let server = Running::start(&[
        "registration",
        "webhook-server",
        "--kubeconfig",
        &bare.kubeconfig,
        "--bind-address=127.0.0.1",
        "--port=0",
        "--health-probe-port=0",
        "--metrics-port=0",
        "--certdir",
        &directory_text,
    ]);
    let address = server.address("answers reviews");
    let validate = "/validate-cluster-open-cluster-management-io-v1-managedcluster";
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "c"}, "spec": {"hubAcceptsClient": true},
    });
    let asked = review("CREATE", "jane", cluster.clone());
    let answer = post(&address, &pki, validate, &asked).await.unwrap();
    assert_eq!(
        (&answer["response"]["uid"], &answer["response"]["allowed"]),
        (&json!("u"), &json!(false))
    );
    assert_eq!(answer["response"]["status"]["code"], 403);
    assert_eq!(
        answer["response"]["status"]["message"],
        "managedclusters/accept.cluster.open-cluster-management.io \"c\" is forbidden: user \"jane\" cannot update the \
         HubAcceptsClient field"
    );
    // Who may is for the API server to say.
    bare.world
        .hub
        .apply(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: accepter}
rules:
- {apiGroups: [register.open-cluster-management.io], resources: [managedclusters/accept], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: accepter}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: accepter}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
",
        )
        .await;
    let answer = post(&address, &pki, validate, &asked).await.unwrap();
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    let binding = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": {"clusterSet": "a"}});
    let path = "/validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding";
    let answer = post(&address, &pki, path, &review("CREATE", "jane", binding))
        .await
        .unwrap();
    assert_eq!(
        answer["response"]["status"]["message"],
        "managedclustersets/bind.apps \"a\" is forbidden: user \"jane\" is not allowed to bind cluster set \"a\""
    );

    // An API server that is told of it asks it, and passes its words on.
    bare.world.hub.apply(&configuration(&address, &pki)).await;
    let clusters: Api<ManagedCluster> = Api::all(bare.client());
    let mut wrong = cluster.clone();
    wrong["spec"] = json!({"managedClusterClientConfigs": [{"url": "http://a"}]});
    let wrong = serde_json::from_value(wrong).unwrap();
    let refused = clusters
        .create(&PostParams::default(), &wrong)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains(
            "admission webhook \"managedclustervalidators.admission.cluster.open-cluster-management.io\" denied the request: \
             url \"http://a\" is invalid in client configs"
        ),
        "{refused}"
    );
    let cluster = serde_json::from_value(cluster).unwrap();
    let made = clusters.create(&PostParams::default(), &cluster).await.unwrap();
    let labels = made.metadata.labels.unwrap_or_default();
    assert_eq!(labels["cluster.open-cluster-management.io/clusterset"], "default");

    let renewed = certificates(&directory);
    server.says("took up the renewed certificate");
    post(&address, &renewed, validate, &asked).await.unwrap();
    assert!(
        post(&address, &pki, validate, &asked).await.is_err(),
        "the old authority is no longer shown"
    );
}
