//! What it decides is tested by calling it; that it runs, against a Kubernetes API in this process.

use std::sync::Arc;

use example_controller::{Seen, WELCOME, Welcome, start};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use kube_api::{
    Options, Server,
    identity::{AUTHENTICATED, MASTERS, User},
};
use ocm_api::cluster::{ManagedCluster, ManagedClusterSpec};
use ocm_reconcile::{Cache, Reconciler, install::install_crds};
use serde_json::json;
use tokio_util::sync::CancellationToken;

fn cluster(accepted: bool) -> ManagedCluster {
    let spec = ManagedClusterSpec {
        hub_accepts_client: accepted,
        ..ManagedClusterSpec::default()
    };
    ManagedCluster::new("cluster1", spec)
}

#[test]
fn a_cluster_is_welcomed_when_it_is_accepted() {
    let plan = |accepted| {
        Welcome::plan(&Seen {
            cluster: Some(Arc::new(cluster(accepted))),
            config_map: None,
        })
        .to_string()
    };
    assert_eq!(
        plan(false).trim(),
        "nothing to do\nwaits: cluster1 waits to be accepted"
    );
    assert_eq!(plan(true).trim(), "hub: create ConfigMap cluster1/welcome");
}

#[tokio::test]
async fn an_edited_welcome_is_restored() {
    let server = Server::open(Options::default()).await.unwrap();
    let hub = Client::new(server.service(User::new("admin", &[MASTERS, AUTHENTICATED])), "default");
    install_crds(&hub, ocm_api::crds::hub()).await.unwrap();
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some("cluster1".to_owned());
    let created = PostParams::default();
    Api::all(hub.clone()).create(&created, &namespace).await.unwrap();
    Api::all(hub.clone()).create(&created, &cluster(true)).await.unwrap();

    let cancel = CancellationToken::new();
    let running = start(hub.clone(), &cancel);

    let config_maps = Cache::<ConfigMap>::start(Api::all(hub.clone()), cancel.child_token());
    // A state is waited for, never a time: what is there after this resourceVersion, and says what it should.
    let welcomed_after = async |version: u64| {
        let look = |it: &Cache<ConfigMap>| {
            let found = it.get("cluster1", WELCOME)?;
            let is_newer = found.resource_version()?.parse::<u64>().ok()? > version;
            (is_newer && found.data.as_ref()?["cluster"] == "cluster1").then_some(())
        };
        config_maps.until(look).await;
    };
    welcomed_after(0).await;

    let edit = Patch::Merge(json!({"data": {"cluster": "another"}}));
    let edited: ConfigMap = Api::namespaced(hub, "cluster1")
        .patch(WELCOME, &PatchParams::default(), &edit)
        .await
        .unwrap();
    welcomed_after(edited.resource_version().unwrap().parse().unwrap()).await;

    cancel.cancel();
    running.finished.await.unwrap();
}
