//! The certificates of webhooks, and who trusts them.

use base64::{Engine, prelude::BASE64_STANDARD};
use operator::Layout;
use serde_json::{Value, json};
use testkit::wait;

use crate::ground::{Ground, NAME, NAMESPACE, options};

const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const VALIDATOR: &str = "managedclustervalidators.admission.cluster.open-cluster-management.io";

fn bundle(config_map: &Value) -> String {
    config_map["data"]["ca-bundle.crt"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_authority_is_trusted_beside_the_old_one() {
    let ground = Ground::start().await;
    ground.run_pods();
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.ask(NAME, json!({})).await;
    ground.until_up_to_date().await;
    let of = async |name: &str| ground.get("v1", "Secret", NAMESPACE, name).await["data"]["tls.crt"].clone();
    let (signer, target) = (of("signer-secret").await, of("work-webhook-serving-cert").await);
    let first = bundle(&ground.get("v1", "ConfigMap", NAMESPACE, "ca-bundle-configmap").await);
    assert_eq!(BASE64_STANDARD.encode(&first), signer.as_str().unwrap());

    let garbage = BASE64_STANDARD.encode("garbage");
    ground
        .patch(
            "v1",
            "Secret",
            NAMESPACE,
            "signer-secret",
            json!({"data": {"tls.key": garbage}}),
        )
        .await;
    let bundles = ground.site.api("v1", "ConfigMap", NAMESPACE).await;
    let now = wait::until_with(&bundles, "ca-bundle-configmap", "has a second authority", |it| {
        it.is_some_and(|it| bundle(&json!(it)).matches("BEGIN CERTIFICATE").count() == 2)
    })
    .await;
    let both = bundle(&json!(now));
    assert!(both.ends_with(&first));
    // What the old one has signed is good as long as it is trusted.
    assert_eq!(of("work-webhook-serving-cert").await, target);
    let trusted = BASE64_STANDARD.encode(&both);
    let configurations = ground.site.api(ADMISSION, "ValidatingWebhookConfiguration", "").await;
    wait::until_with(&configurations, VALIDATOR, "trusts both", |it| {
        it.is_some_and(|it| it.data["webhooks"][0]["clientConfig"]["caBundle"] == trusted)
    })
    .await;
    let definitions = ground
        .site
        .api("apiextensions.k8s.io/v1", "CustomResourceDefinition", "")
        .await;
    let converted = "managedclusteraddons.addon.open-cluster-management.io";
    wait::until_with(&definitions, converted, "trusts both", |it| {
        it.is_some_and(|it| it.data["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == trusted)
    })
    .await;
    operator.stop().await;
    ground.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_lost_or_foreign_is_made_anew() {
    let ground = Ground::start().await;
    ground.run_pods();
    let operator = ground.operator(options(Layout::Upstream)).await;
    ground.ask(NAME, json!({})).await;
    ground.until_up_to_date().await;
    let secrets = ground.site.api("v1", "Secret", NAMESPACE).await;
    let name = "registration-webhook-serving-cert";
    let before = secrets.get(name).await.unwrap();
    secrets.delete(name, &Default::default()).await.unwrap();
    let is_new = |it: &kube::api::DynamicObject| it.data["data"]["tls.crt"] != before.data["data"]["tls.crt"];
    wait::until_with(&secrets, name, "is made anew", |it| it.is_some_and(is_new)).await;

    // One of another name is no certificate of this Service.
    let other = secrets.get("work-webhook-serving-cert").await.unwrap();
    ground
        .patch("v1", "Secret", NAMESPACE, name, json!({"data": other.data["data"]}))
        .await;
    wait::until_with(&secrets, name, "is its own again", |it| {
        it.is_some_and(|it| it.data["data"]["tls.crt"] != other.data["data"]["tls.crt"])
    })
    .await;
    operator.stop().await;
    ground.stop().await;
}
