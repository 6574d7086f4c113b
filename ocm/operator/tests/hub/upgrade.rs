//! From one layout to the other, from our former chart, and an upgrade that fails.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use operator::Layout;
use serde_json::json;
use testkit::wait;

use crate::ground::{Ground, NAME, NAMESPACE, of, options};

#[tokio::test(flavor = "multi_thread")]
async fn layouts_follow_each_other_in_place() {
    let ground = Ground::start().await;
    ground.run_pods();
    ground.ask(NAME, json!({})).await;
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.until_up_to_date().await;
    let uid = async |kind: &str, api: &str, name: &str| {
        ground.get(api, kind, NAMESPACE, name).await["metadata"]["uid"].clone()
    };
    let name = "cluster-manager-registration-controller";
    let (deployment, account) = (
        uid("Deployment", "apps/v1", name).await,
        uid("ServiceAccount", "v1", "registration-controller-sa").await,
    );
    operator.stop().await;
    let deployments = ground.site.api("apps/v1", "Deployment", NAMESPACE).await;
    for (layout, count) in [(Layout::Compact, 1), (Layout::Upstream, 6), (Layout::Compact, 1)] {
        let operator = ground.operator(options(layout)).await;
        wait::until_all(&deployments, "has the components", |all| all.len() == count).await;
        ground.until_up_to_date().await;
        let app = match layout {
            Layout::Compact => "clustermanager-registration-controller",
            Layout::Upstream => "cluster-manager-work-webhook",
        };
        let services = ground.site.api("v1", "Service", NAMESPACE).await;
        wait::until_with(&services, "cluster-manager-work-webhook", "leads to the pods", |it| {
            it.is_some_and(|it| it.data["spec"]["selector"]["app"] == app)
        })
        .await;
        assert_eq!(uid("Deployment", "apps/v1", name).await, deployment);
        assert_eq!(uid("ServiceAccount", "v1", "registration-controller-sa").await, account);
        operator.stop().await;
    }
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_fails_is_said_and_takes_nothing_away() {
    let ground = Ground::start().await;
    ground.run_pods();
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.ask(NAME, json!({"registrationImagePullSpec": "r:1"})).await;
    ground.until_up_to_date().await;
    ground.ask(NAME, json!({"registrationImagePullSpec": "r:broken"})).await;
    let name = "cluster-manager-registration-controller";
    let rolling = ground.until("is rolling", |it| {
        of(it, "Progressing").is_some_and(|it| it.0 == "True" && it.2.contains(name))
    });
    rolling.await;
    let pods: Api<Pod> = Api::namespaced(ground.client(), NAMESPACE);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{name}-x"), "namespace": NAMESPACE, "labels": {
            "app": "clustermanager-registration-controller", "open-cluster-management.io/created-by-clustermanager": NAME,
        }},
        "spec": {"containers": [{"name": "c", "image": "r:broken"}]},
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap())
        .await
        .unwrap();
    let status = json!({"status": {"containerStatuses": [{
        "name": "c", "image": "r:broken", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}},
    }]}});
    pods.patch_status(&format!("{name}-x"), &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    let manager = ground
        .until("says which image", |it| {
            of(it, "Progressing").is_some_and(|it| it.2.contains("r:broken"))
        })
        .await;
    let (_, _, message) = of(&manager, "Progressing").unwrap();
    assert!(
        message.ends_with(&format!(
            "pod {name}-x of Deployment {name}: ImagePullBackOff: cannot pull image r:broken"
        )),
        "{message}"
    );
    assert_eq!(
        ground
            .names("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "")
            .await
            .len(),
        3
    );
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_former_hub_goes_when_the_new_pods_run() {
    let ground = Ground::start().await;
    let former = "
{apiVersion: v1, kind: Namespace, metadata: {name: open-cluster-management-hub}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: drover-hub, namespace: open-cluster-management-hub}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: 'open-cluster-management:drover-hub'}, rules: []}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: drover-hub, namespace: open-cluster-management-hub}
spec:
  selector: {matchLabels: {app: drover-hub}}
  template: {metadata: {labels: {app: drover-hub}}, spec: {containers: [{name: hub, image: 'drover:0'}]}}
";
    ground.site.apply(former).await;
    let operator = ground.operator(options(Layout::Compact)).await;
    ground.ask(NAME, json!({})).await;
    ground
        .until("is rolling", |it| {
            of(it, "Progressing").is_some_and(|it| it.0 == "True")
        })
        .await;
    assert_eq!(ground.deployments().await.len(), 2);
    ground.run_pods();
    let deployments = ground.site.api("apps/v1", "Deployment", NAMESPACE).await;
    wait::gone(&deployments, "drover-hub").await;
    let roles = ground.site.api("rbac.authorization.k8s.io/v1", "ClusterRole", "").await;
    wait::gone(&roles, "open-cluster-management:drover-hub").await;
    ground.until_up_to_date().await;
    operator.stop().await;
    ground.stop().await;
}
