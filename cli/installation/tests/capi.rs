//! Finding a cluster that Cluster API has made, on its management cluster.

use std::path::Path;

use client::flags::Global;
use installation::capi::CapiFlags;
use serde_json::json;
use testkit::Site;

const KIND: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.x-k8s.io}
spec:
  group: cluster.x-k8s.io
  scope: Namespaced
  names: {kind: Cluster, plural: clusters, singular: cluster, listKind: ClusterList}
  versions:
  - name: v1beta2
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const GLOBAL: Global = Global {
    kubeconfig: None,
    context: None,
    log: None,
};

async fn found(management: &Path, cluster: &str) -> Result<String, String> {
    let flags = CapiFlags {
        capi_import: true,
        capi_kubeconfig: Some(management.to_owned()),
        capi_cluster_name: Some(cluster.to_owned()),
    };
    let found = flags.kubeconfig(&GLOBAL).await.map_err(|error| error.to_string())?;
    let (kubeconfig, from) = found.expect("it is asked for");
    let server = kubeconfig.clusters[0].cluster.clone().and_then(|it| it.server);
    Ok(format!("{} {from}", server.unwrap_or_default()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_found_when_its_kubeconfig_is_there() {
    let site = Site::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let management = folder.path().join("management");
    std::fs::write(&management, site.kubeconfig("admin", &["system:masters"]).unwrap()).unwrap();
    let said = found(&management, "capi/one").await.unwrap_err();
    assert!(said.contains("has no Clusters of Cluster API"), "{said}");

    site.apply(KIND).await;
    let said = found(&management, "capi/one").await.unwrap_err();
    assert!(said.starts_with("there is no Cluster capi/one at https://"), "{said}");

    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "capi"}, "status": {"phase": "Provisioning"},
    });
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "capi"}});
    for object in [namespace, cluster] {
        site.apply(&object.to_string()).await;
    }
    let said = found(&management, "capi/one").await.unwrap_err();
    let wanted = "Secret capi/one-kubeconfig is not there yet: Cluster capi/one is Provisioning; try again later";
    assert_eq!(said, wanted);

    let kubeconfig = "
current-context: a
contexts: [{name: a, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: 'https://c.example:6443'}}]
users: [{name: u, user: {token: t}}]
";
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one-kubeconfig", "namespace": "capi"},
        "stringData": {"value": kubeconfig},
    });
    site.apply(&secret.to_string()).await;
    let found = found(&management, "capi/one").await;
    assert_eq!(
        found.as_deref(),
        Ok("https://c.example:6443 Secret capi/one-kubeconfig")
    );
    site.stop().await;
}

#[tokio::test]
async fn without_the_flag_nothing_is_asked() {
    assert!(CapiFlags::default().kubeconfig(&GLOBAL).await.unwrap().is_none());
}
