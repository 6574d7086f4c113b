use std::path::Path;

use http::Request;
use kube::{
    Api, Config,
    api::{Patch, PatchParams, PostParams},
    core::DynamicObject,
};
use kube_api::pki::{ServingPair, serving_pair};
use ocm_api::{crds, policy};
use ocm_reconcile::install::install_crds;
use serde_json::json;
use testkit::{Site, wait};

use super::*;

const POLICY: &str = "/validate-policy-open-cluster-management-io-v1-policy";
const SET: &str = "/validate-policy-open-cluster-management-io-v1beta1-policyset";
const NAMESPACE: &str = "open-cluster-management";
const TOO_LONG: &str = "the combined length of the policy namespace and name cannot exceed 62 characters";
const RIGHTS: &str = include_str!("../../../addons/policy-framework/deploy/rights.yaml");
const CONFIGURATION: &str = include_str!("../../../addons/policy-framework/deploy/webhooks.yaml");

fn pair() -> ServingPair {
    serving_pair(&["127.0.0.1".to_owned()], jiff::Timestamp::now(), 3600).unwrap()
}

fn put(pair: &ServingPair, folder: &Path) {
    std::fs::write(folder.join("tls.crt"), &pair.pair.certificate_pem).unwrap();
    std::fs::write(folder.join("tls.key"), &pair.pair.key_pem).unwrap();
}

fn asked(folder: &Path, namespace: Option<&str>) -> PropagatorWebhooks {
    PropagatorWebhooks {
        address: ([127, 0, 0, 1], 0).into(),
        certificates: folder.to_owned(),
        namespace: namespace.map(str::to_owned),
        tls_min_version: String::new(),
        tls_cipher_suites: String::new(),
    }
}

/// Somebody who trusts the authority of this certificate alone.
fn caller(address: std::net::SocketAddr, pair: &ServingPair) -> Client {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    let (_, pem) = x509_parser::pem::parse_x509_pem(pair.authority_pem.as_bytes()).unwrap();
    config.root_cert = Some(vec![pem.contents]);
    Client::try_from(config).unwrap()
}

async fn post(client: &Client, path: &str, request: Value) -> Result<Value, kube::Error> {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
    client
        .request(Request::post(path).body(review.to_string().into_bytes()).unwrap())
        .await
}

fn named(name: &str) -> Value {
    json!({
        "apiVersion": "policy.open-cluster-management.io/v1", "kind": "Policy",
        "metadata": {"namespace": "default", "name": name},
        "spec": {"disabled": false, "remediationAction": "inform", "policy-templates": []},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn reviews_are_answered_over_tls() {
    let site = Site::start().await.unwrap();
    let (folder, pair, stop) = (tempfile::tempdir().unwrap(), pair(), CancellationToken::new());
    put(&pair, folder.path());
    let started = webhooks(asked(folder.path(), None)).start(&site.client(), &stop).await;
    let client = caller(started.unwrap().unwrap(), &pair);
    let created = |object: Value| json!({"uid": "1", "operation": "CREATE", "object": object});
    let allowed = post(&client, POLICY, created(named("short"))).await.unwrap();
    assert_eq!(
        allowed,
        json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {"uid": "1", "allowed": true},
        })
    );
    let refused = post(&client, POLICY, created(named(&"x".repeat(60)))).await.unwrap();
    assert_eq!(
        refused["response"],
        json!({
            "uid": "1", "allowed": false, "status": {
                "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden", "message": TOO_LONG,
            },
        })
    );
    // A name does not change any more; what is deleted is not judged.
    for operation in ["UPDATE", "DELETE"] {
        let request = json!({"uid": "1", "operation": operation, "object": named(&"x".repeat(60))});
        let answer = post(&client, POLICY, request).await.unwrap();
        assert_eq!(answer["response"]["allowed"], true, "{operation}");
    }
    let set = json!({"spec": {"policies": [], "exclusions": [{"policyName": "a", "clusters": []}]}});
    let refused = post(&client, SET, created(set)).await.unwrap();
    assert_eq!(
        refused["response"]["status"]["message"],
        "policy in spec.exclusions is not listed in spec.policies: a"
    );
    assert!(matches!(
        post(&client, "/other", json!({})).await,
        Err(kube::Error::Api(status)) if status.code == 404
    ));
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_certificate_is_shown() {
    let site = Site::start().await.unwrap();
    let (folder, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    let (old, new) = (pair(), pair());
    put(&old, folder.path());
    let started = webhooks(asked(folder.path(), None)).start(&site.client(), &stop).await;
    let address = started.unwrap().unwrap();
    let request = || json!({"uid": "1", "operation": "CREATE", "object": named("short")});
    assert!(post(&caller(address, &old), POLICY, request()).await.is_ok());
    assert!(post(&caller(address, &new), POLICY, request()).await.is_err());
    put(&new, folder.path());
    let shown = async { while post(&caller(address, &new), POLICY, request()).await.is_err() {} };
    tokio::time::timeout(wait::PATIENCE, shown).await.unwrap();
    assert!(post(&caller(address, &old), POLICY, request()).await.is_err());
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_trusts_the_certificate_that_is_kept() {
    let site = Site::start().await.unwrap();
    let (folder, stop) = (tempfile::tempdir().unwrap(), CancellationToken::new());
    install_crds(&site.client(), crds::add_on(policy::GROUP)).await.unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    site.apply(&namespace.to_string()).await;
    site.apply(RIGHTS).await;
    site.apply(CONFIGURATION).await;
    // Not more than the manifests give.
    let account = format!("system:serviceaccount:{NAMESPACE}:governance-policy-propagator");
    let propagator = site.client_as(&account, &[]);
    let asked = asked(folder.path(), Some(NAMESPACE));
    let started = webhooks(asked).start(&propagator, &stop).await;
    let address = started.unwrap().unwrap();
    // Whoever applies the manifests again leaves to the program what it has told the API server.
    let port = format!("targetPort: {}", address.port());
    site.apply(&CONFIGURATION.replace("targetPort: 9443", &port)).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "propagator", "namespace": NAMESPACE, "labels": {"webhook-origin": "governance-policy-propagator"},
        },
        "spec": {"containers": [{"name": "a", "image": "a"}]},
    });
    site.apply(&pod.to_string()).await;
    let pods = site.api("v1", "Pod", NAMESPACE).await;
    let ready = json!({"status": {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}});
    let parameters = PatchParams::default();
    pods.patch_status("propagator", &parameters, &Patch::Merge(ready))
        .await
        .unwrap();
    let policies: Api<DynamicObject> = site
        .api("policy.open-cluster-management.io/v1", "Policy", "default")
        .await;
    let create = async |name: &str| {
        let object: DynamicObject = serde_json::from_value(named(name)).unwrap();
        policies
            .create(
                &PostParams {
                    dry_run: true,
                    ..PostParams::default()
                },
                &object,
            )
            .await
    };
    let long = "x".repeat(60);
    let refusal = async {
        loop {
            if let Err(error) = create(&long).await {
                return error.to_string();
            }
        }
    };
    let refusal = tokio::time::timeout(wait::PATIENCE, refusal).await.unwrap();
    assert!(
        refusal.contains(&format!(
            "admission webhook \"policy.open-cluster-management.io.webhook\" denied the request: {TOO_LONG}"
        )),
        "{refusal}"
    );
    create("short").await.unwrap();
    stop.cancel();
}
