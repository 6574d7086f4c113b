//! The add-on kinds through the API, in both versions, as a client sees them.

use futures::TryStreamExt;
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use ocm_api::addon::{v1alpha1, v1beta1};
use serde_json::json;
use testkit::World;

const ADD_ON: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: cluster1}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: helloworld, namespace: cluster1}
spec: {}
";

const CLUSTER_MANAGEMENT: &str = "
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: helloworld}
spec:
  addOnMeta: {displayName: Hello}
  addOnConfiguration: {crdName: old.example.com}
  supportedConfigs:
  - {group: addon.open-cluster-management.io, resource: addondeploymentconfigs, defaultConfig: {namespace: default, name: global}}
  - {group: '', resource: configmaps}
";

fn annotation<K: Resource>(object: &K) -> Option<&str> {
    let annotations = object.meta().annotations.as_ref()?;
    let key = "addon.open-cluster-management.io/v1alpha1-install-namespace";
    annotations.get(key).map(String::as_str)
}

#[tokio::test]
async fn an_add_on_of_v1alpha1_reads_and_changes_as_v1beta1() {
    let world = World::new(0).await;
    world.hub.apply(ADD_ON).await;
    let alpha: Api<v1alpha1::ManagedClusterAddOn> = Api::namespaced(world.hub.client(), "cluster1");
    let beta: Api<v1beta1::ManagedClusterAddOn> = Api::namespaced(world.hub.client(), "cluster1");
    let seen = beta.get("helloworld").await.unwrap();
    assert_eq!(annotation(&seen), Some("open-cluster-management-agent-addon"));

    let patch = json!({"spec": {"configs": [{"group": "g", "resource": "r", "name": "c"}]}});
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
    let patched = beta.patch("helloworld", &parameters, &patch).await.unwrap();
    assert_eq!(patched.spec.configs[0].name, "c");
    let status = json!({"status": {"registrations": [
        {"type": "kubeClient", "kubeClient": {"subject": {"user": "u"}, "driver": "csr"}},
    ]}});
    let patch = Patch::Merge(status);
    beta.patch_status("helloworld", &parameters, &patch).await.unwrap();

    let stored = alpha.get("helloworld").await.unwrap();
    assert_eq!(annotation(&stored), None);
    assert_eq!(stored.spec.install_namespace, "open-cluster-management-agent-addon");
    assert_eq!(stored.spec.configs[0].name, "c");
    let status = stored.status.unwrap();
    assert_eq!(
        status.registrations[0].signer_name,
        "kubernetes.io/kube-apiserver-client"
    );
    assert_eq!(status.registrations[0].subject.user, "u");
    assert_eq!(status.kube_client_driver, Some(ocm_api::addon::KubeClientDriver::Csr));
}

#[tokio::test]
async fn what_v1beta1_cannot_say_survives_its_writers() {
    let world = World::new(0).await;
    world.hub.apply(CLUSTER_MANAGEMENT).await;
    let alpha: Api<v1alpha1::ClusterManagementAddOn> = Api::all(world.hub.client());
    let beta: Api<v1beta1::ClusterManagementAddOn> = Api::all(world.hub.client());
    let mut seen = beta.get("helloworld").await.unwrap();
    let names: Vec<_> = seen.spec.default_configs.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["global", v1beta1::NO_DEFAULT_CONFIG]);
    seen.spec.add_on_meta.display_name = "Hello again".to_owned();
    beta.replace("helloworld", &PostParams::default(), &seen).await.unwrap();
    let stored = alpha.get("helloworld").await.unwrap();
    assert_eq!(stored.spec.add_on_meta.display_name, "Hello again");
    assert_eq!(stored.spec.add_on_configuration.crd_name, "old.example.com");
    assert_eq!(stored.spec.supported_configs[1].default_config, None);
    assert_eq!(stored.annotations().len(), 0);
}

#[tokio::test]
async fn a_watch_of_either_version_sees_writes_in_the_other() {
    let world = World::new(0).await;
    world.hub.apply(ADD_ON).await;
    let alpha: Api<v1alpha1::ManagedClusterAddOn> = Api::namespaced(world.hub.client(), "cluster1");
    let beta: Api<v1beta1::ManagedClusterAddOn> = Api::namespaced(world.hub.client(), "cluster1");
    let start = alpha.get("helloworld").await.unwrap().resource_version().unwrap();
    let mut in_alpha = Box::pin(alpha.watch(&WatchParams::default(), &start).await.unwrap());
    let mut in_beta = Box::pin(beta.watch(&WatchParams::default(), &start).await.unwrap());
    let parameters = PatchParams::default();
    let moved = Patch::Merge(json!({"spec": {"installNamespace": "elsewhere"}}));
    alpha.patch("helloworld", &parameters, &moved).await.unwrap();
    let annotations = json!({"addon.open-cluster-management.io/v1alpha1-install-namespace": "further"});
    let moved = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    beta.patch("helloworld", &parameters, &moved).await.unwrap();
    for wanted in ["elsewhere", "further"] {
        let event = in_alpha.try_next().await.unwrap();
        let Some(WatchEvent::Modified(seen)) = event else {
            panic!("{event:?}")
        };
        assert_eq!(seen.spec.install_namespace, wanted);
        let event = in_beta.try_next().await.unwrap();
        let Some(WatchEvent::Modified(seen)) = event else {
            panic!("{event:?}")
        };
        assert_eq!(annotation(&seen), Some(wanted));
    }
}
