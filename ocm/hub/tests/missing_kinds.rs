//! Parts of a hub on an API server that lacks some of their kinds: an upgrade that is under way,
//! or a part that runs alone.

use hub::{Component, Options};
use k8s_openapi::{
    api::core::v1::ServiceAccount, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Resource,
    api::{DeleteParams, Patch, PatchParams},
};
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, cluster::PlacementDecision};
use ocm_reconcile::install;
use serde_json::{Value, json};
use testkit::{Site, wait};
use tokio_util::sync::CancellationToken;

/// What is missing at first.
const LATE: [&str; 3] = [
    "manifestworks.work.open-cluster-management.io",
    "placements.cluster.open-cluster-management.io",
    "placementdecisions.cluster.open-cluster-management.io",
];

const FIRST: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: cluster1}}
---
{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: cluster1}, spec: {hubAcceptsClient: true}}
---
{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ClusterManagementAddOn, metadata: {name: tokens}, spec: {}}
---
{apiVersion: addon.open-cluster-management.io/v1alpha1, kind: ManagedClusterAddOn, metadata: {name: tokens, namespace: cluster1}, spec: {}}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: chosen}
spec:
  installStrategy: {type: Placements, placements: [{name: all, namespace: default}]}
";

const LATER: &str = "
{apiVersion: cluster.open-cluster-management.io/v1beta1, kind: Placement, metadata: {name: all, namespace: default}, spec: {}}
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: PlacementDecision
metadata:
  name: all-decision-1
  namespace: default
  labels: {cluster.open-cluster-management.io/placement: all, cluster.open-cluster-management.io/decision-group-index: '0'}
";

fn is_late(crd: &Value) -> bool {
    LATE.iter().any(|it| crd["metadata"]["name"] == *it)
}

async fn say<K>(api: &Api<K>, name: &str, status: Value)
where
    K: Resource + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let patch = Patch::Merge(json!({ "status": status }));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_gets_its_token_despite_missing_unneeded_kinds() {
    let site = Site::start().await.unwrap();
    let client = site.client();
    let (late, there): (Vec<Value>, Vec<Value>) = ocm_api::crds::hub().into_iter().partition(is_late);
    assert_eq!(late.len(), LATE.len());
    install::install_crds(&client, there).await.unwrap();
    site.apply(FIRST).await;
    let stop = CancellationToken::new();
    let (of_hub, ends) = (client.clone(), stop.clone());
    let running = tokio::spawn(async move {
        hub::run_component(of_hub, Component::AddOns, &Options::default(), ends).await;
    });

    let addons: Api<ManagedClusterAddOn> = Api::namespaced(client.clone(), "cluster1");
    wait::until(&addons, "tokens", "has its owner", |it| {
        it.is_some_and(|it| it.metadata.owner_references.is_some())
    })
    .await;
    let status = json!({
        "kubeClientDriver": "token", "registrations": [{"signerName": "kubernetes.io/kube-apiserver-client"}],
    });
    say(&addons, "tokens", status).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "cluster1");
    wait::until(&accounts, "tokens-agent", "is made", |it| it.is_some()).await;

    let waiting = |who: &str| {
        let all = ocm_reconcile::awaited::all().into_iter();
        all.filter(|(it, _)| *it == who).map(|(_, why)| why).collect::<Vec<_>>()
    };
    assert!(waiting("addon-token-infrastructure").is_empty());
    // The kinds that are there come first in what it waits for, until they are read.
    let is_missing = |it: &String| it.starts_with("waits for Placement, PlacementDecision");
    let begun = std::time::Instant::now();
    while !matches!(&waiting("addon-install")[..], [install] if is_missing(install)) {
        assert!(begun.elapsed().as_secs() < 60, "{:?}", ocm_reconcile::awaited::all());
        tokio::task::yield_now().await;
    }

    // What waited begins by itself.
    install::install_crds(&client, late).await.unwrap();
    site.apply(LATER).await;
    let decisions: Api<PlacementDecision> = Api::namespaced(client.clone(), "default");
    let decided = json!({"decisions": [{"clusterName": "cluster1", "reason": ""}]});
    say(&decisions, "all-decision-1", decided).await;
    wait::until(&addons, "chosen", "is installed", |it| it.is_some()).await;
    assert!(waiting("addon-install").is_empty());
    stop.cancel();
    running.await.unwrap();

    // Where clusters are missing, they are not taken for clusters that are gone.
    let account = accounts.get("tokens-agent").await.unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = "managedclusters.cluster.open-cluster-management.io";
    definitions.delete(name, &DeleteParams::default()).await.unwrap();
    wait::gone(&definitions, name).await;
    let (stop, of_hub) = (CancellationToken::new(), client.clone());
    let ends = stop.clone();
    let running = tokio::spawn(async move {
        hub::run_component(of_hub, Component::AddOns, &Options::default(), ends).await;
    });
    while waiting("addon-token-infrastructure").is_empty() {
        tokio::task::yield_now().await;
    }
    let [infrastructure] = &waiting("addon-token-infrastructure")[..] else {
        panic!("{:?}", ocm_reconcile::awaited::all());
    };
    assert!(infrastructure.contains("ManagedCluster"), "{infrastructure}");
    let still = accounts.get("tokens-agent").await.unwrap();
    assert_eq!(still.metadata.uid, account.metadata.uid);
    stop.cancel();
    running.await.unwrap();
    site.stop().await;
}
