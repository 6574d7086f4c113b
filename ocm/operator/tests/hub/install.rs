//! What is made for a ClusterManager, and what is not.

use std::collections::BTreeMap;

use operator::Layout;
use serde_json::json;
use testkit::wait;

use crate::ground::{Ground, NAME, NAMESPACE, of, options, says};

const COMPONENTS: [&str; 6] = [
    "cluster-manager-addon-manager-controller",
    "cluster-manager-addon-webhook",
    "cluster-manager-placement-controller",
    "cluster-manager-registration-controller",
    "cluster-manager-registration-webhook",
    "cluster-manager-work-webhook",
];

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_in_upstreams_layout_has_its_components() {
    let ground = Ground::start().await;
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.ask(NAME, json!({})).await;
    // Without pods nobody is asked who does not answer.
    let manager = ground.until("is rolling", |it| says(it, "Progressing", "True")).await;
    assert!(says(&manager, "Applied", "True") && says(&manager, "HubRegistrationDegraded", "True"));
    assert!(
        ground
            .names(ADMISSION, "ValidatingWebhookConfiguration", "")
            .await
            .is_empty()
    );
    assert_eq!(ground.deployments().await, COMPONENTS);

    ground.run_pods();
    let manager = ground.until_up_to_date().await;
    let configurations = ground.names(ADMISSION, "ValidatingWebhookConfiguration", "").await;
    assert_eq!(configurations.len(), 3, "{configurations:?}");
    for degraded in ["HubRegistrationDegraded", "HubPlacementDegraded"] {
        ground.until(degraded, |it| says(it, degraded, "False")).await;
    }
    let status = manager.status.unwrap();
    let mut related = BTreeMap::<&str, usize>::new();
    for it in &status.related_resources {
        *related.entry(it.resource.as_str()).or_default() += 1;
    }
    assert_eq!(
        (
            related["deployments"],
            related["customresourcedefinitions"],
            status.generations.len()
        ),
        (6, 12, 6)
    );
    assert_eq!(ground.names("v1", "Service", NAMESPACE).await.len(), 3);
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_that_starts_again_writes_nothing() {
    let ground = Ground::start().await;
    ground.run_pods();
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.ask(NAME, json!({})).await;
    ground.until_up_to_date().await;
    operator.stop().await;
    // The first write kills it.
    let operator = ground.operator_that_dies(options(Layout::Upstream), 0).await;
    tokio::time::timeout(std::time::Duration::from_secs(2), operator.finished())
        .await
        .expect_err("it has written something");
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hub_in_one_deployment_answers_all_webhooks() {
    let ground = Ground::start().await;
    ground.run_pods();
    let operator = ground.operator(options(Layout::Compact)).await;
    ground.ask(NAME, json!({"registrationImagePullSpec": "drover:1"})).await;
    let manager = ground.until_up_to_date().await;
    assert_eq!(ground.deployments().await, ["cluster-manager-registration-controller"]);
    for service in ["registration", "work", "addon"] {
        let name = format!("cluster-manager-{service}-webhook");
        let service = ground.get("v1", "Service", NAMESPACE, &name).await;
        assert_eq!(
            service["spec"]["selector"]["app"],
            "clustermanager-registration-controller"
        );
    }
    let deployment = ground
        .get(
            "apps/v1",
            "Deployment",
            NAMESPACE,
            "cluster-manager-registration-controller",
        )
        .await;
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["args"],
        json!([
            "hub",
            "--leader-elect",
            "--installed-by-operator",
            "--feature-gates=ManifestWorkReplicaSet=false",
            "--webhook-listen=0.0.0.0:9443",
            "--webhook-certificates=/tmp/k8s-webhook-server/serving-certs",
            "--health-listen=0.0.0.0:8443",
            "--tls-min-version=VersionTLS12",
        ])
    );
    // What `clusteradm get hub-info` looks for is named, although it is not there.
    let related = manager.status.unwrap().related_resources;
    for component in COMPONENTS {
        assert!(related.iter().any(|it| it.name == component), "{component}");
    }
    let accounts = ground.names("v1", "ServiceAccount", NAMESPACE).await;
    let ours: Vec<_> = accounts.iter().filter(|it| it.ends_with("-sa")).collect();
    assert_eq!(ours, ["registration-controller-sa"]);
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_turned_off_takes_its_component_away() {
    let ground = Ground::start().await;
    ground.run_pods();
    let operator = ground.operator(options(Layout::Upstream)).await;
    let gates = |work: &str, add_ons: &str| {
        json!({
            "workConfiguration": {"featureGates": [{"feature": "ManifestWorkReplicaSet", "mode": work}]},
            "addOnManagerConfiguration": {"featureGates": [{"feature": "AddonManagement", "mode": add_ons}]},
        })
    };
    ground.ask(NAME, gates("Enable", "Enable")).await;
    ground.until_up_to_date().await;
    assert!(
        ground
            .deployments()
            .await
            .contains(&"cluster-manager-work-controller".to_owned())
    );
    let roles = ground.names(RBAC, "ClusterRole", "").await;
    let of_works = "open-cluster-management:cluster-manager-work:controller".to_owned();
    assert!(roles.contains(&of_works), "{roles:?}");

    ground.ask(NAME, gates("Disable", "Disable")).await;
    let manager = ground.until_up_to_date().await;
    let deployments = ground.deployments().await;
    assert_eq!(deployments.len(), 5, "{deployments:?}");
    assert!(!ground.names(RBAC, "ClusterRole", "").await.contains(&of_works));
    let accounts = ground.names("v1", "ServiceAccount", NAMESPACE).await;
    assert!(
        !accounts.contains(&"addon-manager-controller-sa".to_owned()),
        "{accounts:?}"
    );
    let related = manager.status.unwrap().related_resources;
    assert!(!related.iter().any(|it| it.name.ends_with("work-controller")));
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_of_a_newer_operator_stays_and_is_named() {
    let ground = Ground::start().await;
    ground.run_pods();
    let newer = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: placements.cluster.open-cluster-management.io
  annotations: {operator.open-cluster-management.io/version: 9.0.0}
spec:
  group: cluster.open-cluster-management.io
  names: {kind: Placement, plural: placements}
  scope: Namespaced
  versions: [{name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
";
    ground.site.apply(newer).await;
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.ask(NAME, json!({})).await;
    let manager = ground.until_up_to_date().await;
    let (_, reason, message) = of(&manager, "Applied").unwrap();
    assert_eq!(reason, "ClusterManagerApplied");
    assert!(
        message.contains("placements.cluster.open-cluster-management.io (9.0.0)"),
        "{message}"
    );
    let crd = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let found = ground
        .get(crd.0, crd.1, "", "placements.cluster.open-cluster-management.io")
        .await;
    assert_eq!(
        found["metadata"]["annotations"]["operator.open-cluster-management.io/version"],
        "9.0.0"
    );
    let found = ground
        .get(crd.0, crd.1, "", "manifestworks.work.open-cluster-management.io")
        .await;
    assert_eq!(
        found["metadata"]["annotations"]["operator.open-cluster-management.io/version"],
        "1.3.1"
    );
    let events = ground.site.api("events.k8s.io/v1", "Event", "default").await;
    wait::until_all(&events, "tells of the CRD", |all| {
        all.iter().any(|it| json!(it).to_string().contains("(9.0.0)"))
    })
    .await;
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_changed_or_deleted_is_put_back() {
    let ground = Ground::start().await;
    ground.run_pods();
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.ask(NAME, json!({})).await;
    ground.until_up_to_date().await;
    let name = "cluster-manager-placement-controller";
    let patch = json!({"spec": {"replicas": 0, "template": {"spec": {"nodeSelector": {"a": "b"}}}}});
    ground.patch("apps/v1", "Deployment", NAMESPACE, name, patch).await;
    let deployments = ground.site.api("apps/v1", "Deployment", NAMESPACE).await;
    wait::until_with(&deployments, name, "is put back", |it| {
        it.is_some_and(|it| {
            it.data["spec"]["replicas"] == 1 && it.data["spec"]["template"]["spec"].get("nodeSelector").is_none()
        })
    })
    .await;
    deployments
        .delete("cluster-manager-work-webhook", &Default::default())
        .await
        .unwrap();
    wait::until_with(&deployments, "cluster-manager-work-webhook", "is made again", |it| {
        it.is_some()
    })
    .await;
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_supported_is_refused_and_leaves_nothing() {
    let ground = Ground::start().await;
    let operator = ground.operator(options(Layout::Upstream)).await;
    for driver in ["grpc", "awsirsa"] {
        let drivers =
            json!({"registrationConfiguration": {"registrationDrivers": [{"authType": "csr"}, {"authType": driver}]}});
        ground.ask(NAME, drivers).await;
        let manager = ground.until("is refused", |it| says(it, "Applied", "False")).await;
        let (_, reason, message) = of(&manager, "Applied").unwrap();
        assert_eq!(reason, "RegistrationDriverNotSupported");
        assert!(
            message.starts_with(&format!(
                "spec.registrationConfiguration.registrationDrivers[1].authType: {driver}"
            )),
            "{message}"
        );
    }
    assert!(ground.deployments().await.is_empty());
    ground
        .ask(
            NAME,
            json!({"registrationConfiguration": {"featureGates": [{"feature": "Nonsense", "mode": "Enable"}]}}),
        )
        .await;
    ground.run_pods();
    let manager = ground.until_up_to_date().await;
    let (status, reason, message) = of(&manager, "ValidFeatureGates").unwrap();
    assert_eq!(
        (status.as_str(), reason.as_str()),
        ("False", "InvalidFeatureGatesExisting")
    );
    assert!(message.contains("Registration: Nonsense"), "{message}");
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cluster_manager_has_no_hub() {
    let ground = Ground::start().await;
    ground.run_pods();
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.ask(NAME, json!({})).await;
    ground.until_up_to_date().await;
    ground.ask("second", json!({})).await;
    let is_refused = |it: &ocm_api::operator::ClusterManager| {
        of(it, "Applied")
            .is_some_and(|it| it.1 == "NamespaceTaken" && it.2.contains("ClusterManager cluster-manager is older"))
    };
    wait::until(&ground.managers(), "second", "is refused", |it| {
        it.is_some_and(is_refused)
    })
    .await;
    assert_eq!(ground.deployments().await, COMPONENTS);
    // It takes nothing with it, and nothing holds it.
    ground.managers().delete("second", &Default::default()).await.unwrap();
    wait::gone(&ground.managers(), "second").await;
    assert_eq!(ground.deployments().await, COMPONENTS);
    operator.stop().await;
    ground.stop().await;
}
