//! Parts of a hub, each as a process of its own.

use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Namespace, events::v1::Event},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::Api;
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn,
    cluster::{ManagedCluster, ManagedClusterSet, PlacementDecision},
    work::ManifestWork,
};
use serde_json::Value;
use testkit::{objects, wait};

use crate::program::{Bare, Running, get, token};

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
async fn registration_imports_clusters_with_the_gate() {
    let bare = Bare::new().await;
    let _running = bare.run(&[
        "registration",
        "controller",
        "--feature-gates=ClusterImporter=true",
        "--import-renderers=render-auto,render-from-config-secret",
        "--disable-leader-election",
    ]);
    bare.world.hub.apply(CLUSTERS_OF_CLUSTER_API).await;
    let crds: Api<CustomResourceDefinition> = Api::all(bare.client());
    wait::until(&crds, "clusters.cluster.x-k8s.io", "is served", |it| {
        it.is_some_and(|it| objects::is_true(it, "Established"))
    })
    .await;
    let text = "
{apiVersion: v1, kind: Namespace, metadata: {name: waits}}
---
{apiVersion: v1, kind: Secret, metadata: {name: waits-kubeconfig, namespace: waits}, stringData: {value: 'clusters: []'}}
---
{apiVersion: cluster.x-k8s.io/v1beta1, kind: Cluster, metadata: {name: waits, namespace: waits}, status: {phase: Provisioned}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: waits}, spec: {}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: joins}, spec: {hubAcceptsClient: true}}
";
    bare.world.hub.apply(text).await;
    let clusters: Api<ManagedCluster> = Api::all(bare.client());
    // Where the hub is nobody says: the flags are read, and the last of them asks for a Secret.
    wait::until(&clusters, "waits", "it is told what is missing", |it| {
        it.is_some_and(|it| {
            let said = objects::conditions(it);
            said.contains(&"ManagedClusterImportSucceeded=False(ConfigRendererFailed)".to_owned())
        })
    })
    .await;
    wait::until(&clusters, "joins", "accepted", |it| {
        it.is_some_and(|it| objects::is_true(it, "HubAcceptedManagedCluster"))
    })
    .await;
    let events: Api<Event> = Api::namespaced(bare.client(), "default");
    let about = |it: &Event| it.regarding.as_ref().and_then(|it| it.name.clone());
    let told = wait::until_all(&events, "the cluster is told", |it| !it.is_empty()).await;
    let told: Vec<_> = told.iter().filter_map(about).collect();
    assert_eq!(told, ["waits"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_import_renderer_is_refused_by_name() {
    let bare = Bare::new().await;
    let args = [
        "registration",
        "controller",
        "--feature-gates=ClusterImporter=true",
        "--import-renderers=all",
    ];
    let said = bare.run(&args).says("--import-renderers");
    assert!(said.contains("unknown importer renderer all"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_missing_a_kind_is_ready_and_names_it() {
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
async fn separate_processes_handle_works_and_add_ons() {
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
async fn a_second_hub_waits_until_the_leader_stops() {
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
async fn a_program_restarts_when_a_file_it_watches_changes() {
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
async fn the_debug_page_requires_the_right_to_read_placements() {
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
