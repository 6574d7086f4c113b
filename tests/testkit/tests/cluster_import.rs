//! Clusters that join without a join command: a hub with the gate ClusterImporter and the rights of a deployed one, and
//! clusters that nobody has prepared.

use hub::Options;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Event, Secret},
};
use kube::{Api, ResourceExt, api::Patch};
use ocm_api::{cluster::ManagedCluster, operator::Klusterlet};
use operator::importer::{self, Renderer};
use serde_json::json;
use testkit::{Site, World, objects, wait};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

const AGENT: &str = "open-cluster-management-agent";
const IMPORTED: &str = "ManagedClusterImportSucceeded=True(ImportSucceed)";

/// Cluster API's kind, as far as anybody looks at it.
fn kind(versions: &[&str]) -> String {
    let version = |it: &&str| {
        json!({
            "name": it, "served": true, "storage": *it == versions[0],
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters.cluster.x-k8s.io"},
        "spec": {
            "group": "cluster.x-k8s.io", "scope": "Namespaced",
            "names": {"kind": "Cluster", "plural": "clusters", "singular": "cluster", "listKind": "ClusterList"},
            "versions": versions.iter().map(version).collect::<Vec<_>>(),
        },
    })
    .to_string()
}

/// A hub that imports clusters.
struct Ground {
    hub: Site,
    stop: CancellationToken,
}

impl Ground {
    async fn new(importer: importer::Options) -> Self {
        let World { hub, .. } = World::new(0).await;
        let stop = CancellationToken::new();
        let options = Options {
            importer: Some(importer),
            ..Options::default()
        };
        hub::start(hub.client_of_hub().await, options, stop.clone())
            .await
            .unwrap();
        Self { hub, stop }
    }

    /// One that tells clusters where it is.
    async fn telling() -> Self {
        Self::new(importer::Options {
            hub_here: Some(("https://hub.example:6443".to_owned(), Some("a CA".to_owned()))),
            ..importer::Options::compact()
        })
        .await
    }

    async fn namespace(&self, name: &str) {
        let text = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.hub.apply(&text.to_string()).await;
    }

    async fn secret(&self, (namespace, name): (&str, &str), metadata: serde_json::Value, key: &str, value: &str) {
        let mut object =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {key: value}});
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["name"] = name.into();
        self.hub.apply(&object.to_string()).await;
    }

    /// A kubeconfig as Cluster API leaves it.
    async fn kubeconfig(&self, cluster: &str, kubeconfig: &str) {
        let labels = json!({"labels": {"cluster.x-k8s.io/cluster-name": cluster}});
        let name = format!("{cluster}-kubeconfig");
        self.secret((cluster, &name), labels, "value", kubeconfig).await;
    }

    async fn cluster_of_cluster_api(&self, name: &str, version: &str, phase: &str) {
        let object = json!({
            "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster",
            "metadata": {"name": name, "namespace": name}, "status": {"phase": phase},
        });
        self.hub.apply(&object.to_string()).await;
    }

    async fn managed_cluster(&self, name: &str) {
        let object = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name}, "spec": {"hubAcceptsClient": true},
        });
        self.hub.apply(&object.to_string()).await;
    }

    /// All that a cluster of Cluster API is, ready to be imported.
    async fn provisioned(&self, name: &str, kubeconfig: &str) {
        self.namespace(name).await;
        self.kubeconfig(name, kubeconfig).await;
        self.cluster_of_cluster_api(name, "v1beta1", "Provisioned").await;
        self.managed_cluster(name).await;
    }

    /// Waits until this is said, and returns the message.
    async fn says(&self, cluster: &str, condition: &str) -> String {
        let clusters: Api<ManagedCluster> = Api::all(self.hub.client());
        let found = wait::until(&clusters, cluster, condition, |it| {
            it.is_some_and(|it| objects::conditions(it).iter().any(|it| it == condition))
        });
        let conditions = found.await.unwrap().status.unwrap().conditions;
        let found = conditions
            .into_iter()
            .find(|it| it.type_ == "ManagedClusterImportSucceeded");
        found.unwrap().message
    }

    async fn stop(self) {
        self.stop.cancel();
        self.hub.stop().await;
    }
}

fn administrator(of: &Site) -> String {
    of.kubeconfig("admin", &["system:masters"]).unwrap()
}

/// The name that an agent was put on a cluster for, and the kubeconfig that it joins with.
async fn agent_of(site: &Site) -> (String, String) {
    let klusterlets: Api<Klusterlet> = Api::all(site.client());
    let klusterlet = klusterlets.get("klusterlet").await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(site.client(), AGENT);
    deployments.get("klusterlet").await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(site.client(), AGENT);
    let secret = secrets.get_opt("bootstrap-hub-kubeconfig").await.unwrap();
    let data = secret
        .and_then(|it| it.data?.remove("kubeconfig"))
        .map(|it| it.0)
        .unwrap_or_default();
    (klusterlet.spec.cluster_name, String::from_utf8(data).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_cluster_api_gets_an_agent_once() {
    let ground = Ground::telling().await;
    let cluster = Site::start().await.unwrap();
    ground.hub.apply(&kind(&["v1beta1"])).await;
    ground.namespace("c1").await;
    ground.managed_cluster("c1").await;
    ground.cluster_of_cluster_api("c1", "v1beta1", "Provisioning").await;
    let said = ground
        .says("c1", "ManagedClusterImportSucceeded=False(KubeConfigNotFound)")
        .await;
    assert_eq!(said, "Secret for kubeconfig is not found.");
    ground.cluster_of_cluster_api("c1", "v1beta1", "Provisioned").await;
    let said = ground
        .says("c1", "ManagedClusterImportSucceeded=False(KubeConfigGetFailed)")
        .await;
    assert_eq!(said, "Secret c1/c1-kubeconfig is not there");
    ground.kubeconfig("c1", &administrator(&cluster)).await;
    assert_eq!(ground.says("c1", IMPORTED).await, "");

    let (name, bootstrap) = agent_of(&cluster).await;
    assert_eq!(name, "c1");
    assert!(
        bootstrap.contains("https://hub.example:6443") && bootstrap.contains("token: "),
        "{bootstrap}"
    );
    let events: Api<Event> = Api::namespaced(ground.hub.client(), "default");
    let has_all = |it: &[Event]| {
        let reasons: Vec<_> = it.iter().filter_map(|it| it.reason.as_deref()).collect();
        ["KubeConfigNotFound", "KubeConfigGetFailed", "ManagedClusterImported"]
            .iter()
            .all(|it| reasons.contains(it))
    };
    wait::until_all(&events, "each change is an event", has_all).await;

    // Whatever is done to it later is its own affair, although the hub looks at it again.
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), AGENT);
    deployments.delete("klusterlet", &Default::default()).await.unwrap();
    let clusters: Api<ManagedCluster> = Api::all(ground.hub.client());
    let labelled = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    clusters.patch("c1", &Default::default(), &labelled).await.unwrap();
    let other = Site::start().await.unwrap();
    ground.provisioned("c2", &administrator(&other)).await;
    ground.says("c2", IMPORTED).await;
    assert!(deployments.get_opt("klusterlet").await.unwrap().is_none());
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_api_may_come_later_in_any_version() {
    let ground = Ground::telling().await;
    let cluster = Site::start().await.unwrap();
    ground.namespace("c1").await;
    ground.managed_cluster("c1").await;
    ground.kubeconfig("c1", &administrator(&cluster)).await;
    // Something that needs no Cluster API is imported meanwhile.
    let other = Site::start().await.unwrap();
    ground.namespace("c2").await;
    ground.managed_cluster("c2").await;
    let wanted = json!({"annotations": {"open-cluster-management.io/delete-after-import": "true"}});
    ground
        .secret(
            ("c2", "auto-import-secret"),
            wanted,
            "kubeconfig",
            &administrator(&other),
        )
        .await;
    ground.says("c2", IMPORTED).await;
    let secrets: Api<Secret> = Api::namespaced(ground.hub.client(), "c2");
    wait::gone(&secrets, "auto-import-secret").await;

    ground.hub.apply(&kind(&["v1beta2", "v1alpha9"])).await;
    ground.cluster_of_cluster_api("c1", "v1beta2", "Provisioned").await;
    ground.says("c1", IMPORTED).await;
    assert_eq!(agent_of(&cluster).await.0, "c1");
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_corrected_kubeconfig_is_used_at_once() {
    let ground = Ground::telling().await;
    let cluster = Site::start().await.unwrap();
    ground.hub.apply(&kind(&["v1beta1"])).await;
    let good = administrator(&cluster);
    let marker = cluster.address.to_string();
    assert!(good.contains(&marker));
    ground.provisioned("c1", "a: [").await;
    let failed = "ManagedClusterImportSucceeded=False(KubeConfigGetFailed)";
    let said = ground.says("c1", failed).await;
    assert!(
        said.starts_with("Secret c1/c1-kubeconfig holds no kubeconfig"),
        "{said}"
    );
    // Of somebody whom the cluster does not let.
    ground.kubeconfig("c1", &cluster.kubeconfig("mary", &[]).unwrap()).await;
    let said = ground
        .says("c1", "ManagedClusterImportSucceeded=False(ImportFailed)")
        .await;
    assert!(
        said.contains("forbids it") && said.contains("Secret c1/c1-kubeconfig"),
        "{said}"
    );
    ground.kubeconfig("c1", &good).await;
    ground.says("c1", IMPORTED).await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn values_from_a_secret_decide_what_is_installed() {
    let ground = Ground::new(importer::Options {
        renderers: vec![Renderer::FromConfigSecret],
        ..importer::Options::default()
    })
    .await;
    let cluster = Site::start().await.unwrap();
    ground.hub.apply(&kind(&["v1beta1"])).await;
    ground.provisioned("c1", &administrator(&cluster)).await;
    let failed = "ManagedClusterImportSucceeded=False(ConfigRendererFailed)";
    let said = ground.says("c1", failed).await;
    assert!(
        said.starts_with("Secret c1/cluster-import-config is not there"),
        "{said}"
    );
    let values = "klusterlet: {mode: Default}\nbootstrapHubKubeConfig: from the secret\n";
    ground
        .secret(("c1", "cluster-import-config"), json!({}), "values.yaml", values)
        .await;
    ground.says("c1", IMPORTED).await;
    assert_eq!(
        agent_of(&cluster).await,
        ("c1".to_owned(), "from the secret".to_owned())
    );
    let deployments: Api<Deployment> = Api::namespaced(cluster.client(), AGENT);
    let deployment = deployments.get("klusterlet").await.unwrap();
    let image = deployment.spec.template.spec.unwrap().containers[0].image.clone();
    assert_eq!(
        image.as_deref(),
        Some("quay.io/open-cluster-management/registration-operator:v1.3.1")
    );
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_that_are_away_hinder_no_other() {
    let ground = Ground::telling().await;
    let cluster = Site::start().await.unwrap();
    ground.hub.apply(&kind(&["v1beta1"])).await;
    let good = administrator(&cluster);
    // It takes connections and says nothing, and nobody listens at port 1.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let leading_to = |address: &str| good.replace(&cluster.address.to_string(), address);
    for number in 0..8 {
        let address = silent.local_addr().unwrap().to_string();
        ground
            .provisioned(&format!("silent{number}"), &leading_to(&address))
            .await;
    }
    ground.provisioned("away", &leading_to("127.0.0.1:1")).await;
    ground.provisioned("there", &good).await;
    ground.says("there", IMPORTED).await;
    let failed = "ManagedClusterImportSucceeded=False(ImportFailed)";
    let said = ground.says("away", failed).await;
    assert!(said.starts_with("https://127.0.0.1:1 does not answer"), "{said}");
    let said = ground.says("silent0", failed).await;
    assert!(said.contains("does not answer"), "{said}");
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_of_another_cluster_is_not_taken_over() {
    let ground = Ground::telling().await;
    let cluster = Site::start().await.unwrap();
    ground.hub.apply(&kind(&["v1beta1"])).await;
    ground.provisioned("c1", &administrator(&cluster)).await;
    ground.says("c1", IMPORTED).await;
    ground.provisioned("c2", &administrator(&cluster)).await;
    let said = ground
        .says("c2", "ManagedClusterImportSucceeded=False(ImportFailed)")
        .await;
    assert!(said.contains("is ManagedCluster c1 already"), "{said}");
    assert_eq!(agent_of(&cluster).await.0, "c1");
    let klusterlets: Api<Klusterlet> = Api::all(cluster.client());
    let names: Vec<_> = klusterlets
        .list(&Default::default())
        .await
        .unwrap()
        .items
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!(names, ["klusterlet"]);
    ground.stop().await;
}
