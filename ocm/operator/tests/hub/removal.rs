//! How a hub goes, and that it goes on going after a death in any phase.

use operator::{Layout, hub::Options};
use serde_json::json;
use testkit::wait;

use crate::ground::{Ground, NAME, NAMESPACE, of, options};

const CRD: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");

async fn is_clean(ground: &Ground) {
    wait::gone(&ground.managers(), NAME).await;
    let crds = ground.names(CRD.0, CRD.1, "").await;
    let left: Vec<_> = crds
        .iter()
        .filter(|it| !it.contains("operator.") && it.contains("open-cluster-management"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let roles = ground.names("rbac.authorization.k8s.io/v1", "ClusterRole", "").await;
    assert!(!roles.iter().any(|it| it.contains("cluster-manager")), "{roles:?}");
    for kind in ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"] {
        let left = ground.names("admissionregistration.k8s.io/v1", kind, "").await;
        assert!(left.is_empty(), "{left:?}");
    }
    let namespaces = ground.site.api("v1", "Namespace", "").await;
    wait::gone(&namespaces, NAMESPACE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_waits_for_its_clusters_and_says_so() {
    let ground = Ground::start().await;
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.ask(NAME, json!({})).await;
    // Without pods nobody answers webhooks, and so nobody is asked.
    ground
        .until("is applied", |it| of(it, "Applied").is_some_and(|it| it.0 == "True"))
        .await;
    let cluster = "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: c1, finalizers: [a.b/held]}, spec: {}}";
    ground.site.apply(cluster).await;
    ground.managers().delete(NAME, &Default::default()).await.unwrap();
    let says = |it: &ocm_api::operator::ClusterManager| {
        of(it, "Applied").is_some_and(|it| {
            it.1 == "RemainingCRDs"
                && it.2.contains("managedclusters.cluster.open-cluster-management.io")
                && it.2.contains("ManagedCluster c1 (finalizers: a.b/held)")
        })
    };
    wait::until(&ground.managers(), NAME, "names the CRD", |it| it.is_some_and(says)).await;
    // Those before it are gone, and those after it are there, as is whoever cleans up.
    let crds = ground.names(CRD.0, CRD.1, "").await;
    assert!(!crds.contains(&"manifestworks.work.open-cluster-management.io".to_owned()));
    assert!(crds.contains(&"manifestworkreplicasets.work.open-cluster-management.io".to_owned()));
    assert_eq!(ground.deployments().await.len(), 6);

    let patch = json!({"metadata": {"finalizers": null}});
    ground
        .patch(
            "cluster.open-cluster-management.io/v1",
            "ManagedCluster",
            "",
            "c1",
            patch,
        )
        .await;
    is_clean(&ground).await;
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crds_stay_when_the_operator_is_told_so() {
    let ground = Ground::start().await;
    ground.run_pods();
    let skipping = Options {
        skip_remove_crds: true,
        ..options(Layout::Upstream)
    };
    let operator = ground.operator(skipping).await;
    ground.ask(NAME, json!({})).await;
    ground.until_up_to_date().await;
    ground.managers().delete(NAME, &Default::default()).await.unwrap();
    wait::gone(&ground.managers(), NAME).await;
    let name = "managedclusters.cluster.open-cluster-management.io";
    let found = ground.get(CRD.0, CRD.1, "", name).await;
    assert!(
        found["metadata"]["annotations"]
            .get("operator.open-cluster-management.io/version")
            .is_none()
    );
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_killed_at_any_write_goes_on_later() {
    let ground = Ground::start().await;
    ground.run_pods();
    for writes in [0, 2, 7, 20, 45] {
        ground.ask(NAME, json!({})).await;
        let operator = ground.operator_that_dies(options(Layout::Upstream), writes).await;
        operator.finished().await;
        let operator = ground.operator(options(Layout::Upstream)).await;
        ground.until_up_to_date().await;
        operator.stop().await;

        ground.managers().delete(NAME, &Default::default()).await.unwrap();
        let operator = ground.operator_that_dies(options(Layout::Upstream), writes / 2).await;
        operator.finished_within(std::time::Duration::from_secs(2)).await;
        let operator = ground.operator(options(Layout::Upstream)).await;
        is_clean(&ground).await;
        operator.stop().await;
    }
    ground.stop().await;
}
