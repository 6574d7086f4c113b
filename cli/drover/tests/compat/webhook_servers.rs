//! Webhook servers.

use std::path::{Path, PathBuf};

use kube::{Api, Client, Config, api::PostParams};
use kube_api::pki::Pki;
use ocm_api::cluster::ManagedCluster;
use serde_json::{Value, json};

use crate::program::{Bare, Running};

/// Keys for a webhook server in a directory, and how a client trusts them.
fn certificates(directory: &Path) -> Pki {
    let pki = Pki::open(None, &[], jiff::Timestamp::now()).unwrap();
    let pem = |label: &str, der: &[u8]| {
        let text = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let serving = pki.serving();
    let chain: String = serving.chain.iter().map(|it| pem("CERTIFICATE", it)).collect();
    std::fs::write(directory.join("tls.crt"), chain).unwrap();
    std::fs::write(directory.join("tls.key"), pem("PRIVATE KEY", serving.key.secret_der())).unwrap();
    pki
}

async fn post(address: &str, pki: &Pki, path: &str, body: &Value) -> Result<Value, kube::Error> {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.root_cert = Some(vec![pki.authority().der().to_vec()]);
    let request = http::Request::post(path).header("content-type", "application/json");
    Client::try_from(config)?
        .request(request.body(body.to_string().into_bytes()).unwrap())
        .await
}

fn review(operation: &str, user: &str, object: Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "operation": operation, "object": object, "userInfo": {"username": user, "groups": []}},
    })
}

/// What the operator of upstream tells the API server, with the server's address in the place of its Service.
fn configuration(address: &str, pki: &Pki) -> String {
    let ca = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, pki.ca_pem());
    let webhook = |kind: &str, name: &str, path: &str| {
        format!(
            "
apiVersion: admissionregistration.k8s.io/v1
kind: {kind}WebhookConfiguration
metadata: {{name: {name}}}
webhooks:
- name: {name}
  clientConfig: {{url: 'https://{address}{path}', caBundle: {ca}}}
  rules: [{{apiGroups: [cluster.open-cluster-management.io], apiVersions: ['*'], operations: [CREATE, UPDATE], resources: [managedclusters]}}]
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  timeoutSeconds: 10
"
        )
    };
    let mutate = "/mutate-cluster-open-cluster-management-io-v1-managedcluster";
    let validate = "/validate-cluster-open-cluster-management-io-v1-managedcluster";
    let domain = "admission.cluster.open-cluster-management.io";
    let mutating = webhook("Mutating", &format!("managedclustermutators.{domain}"), mutate);
    let validating = webhook("Validating", &format!("managedclustervalidators.{domain}"), validate);
    format!("{mutating}---{validating}")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_server_applies_hub_rules_and_reloads_its_certificate() {
    let bare = Bare::new().await;
    let directory: PathBuf = bare.folder.path().join("certificates");
    std::fs::create_dir(&directory).unwrap();
    let pki = certificates(&directory);
    let directory_text = directory.display().to_string();
    let server = Running::start(&[
        "registration",
        "webhook-server",
        "--kubeconfig",
        &bare.kubeconfig,
        "--bind-address=127.0.0.1",
        "--port=0",
        "--health-probe-port=0",
        "--metrics-port=0",
        "--certdir",
        &directory_text,
    ]);
    let address = server.address("answers reviews");
    let validate = "/validate-cluster-open-cluster-management-io-v1-managedcluster";
    let cluster = json!({
        "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
        "metadata": {"name": "c"}, "spec": {"hubAcceptsClient": true},
    });
    let asked = review("CREATE", "jane", cluster.clone());
    let answer = post(&address, &pki, validate, &asked).await.unwrap();
    assert_eq!(
        (&answer["response"]["uid"], &answer["response"]["allowed"]),
        (&json!("u"), &json!(false))
    );
    assert_eq!(answer["response"]["status"]["code"], 403);
    assert_eq!(
        answer["response"]["status"]["message"],
        "managedclusters/accept.cluster.open-cluster-management.io \"c\" is forbidden: user \"jane\" cannot update the \
         HubAcceptsClient field"
    );
    // Who may is for the API server to say.
    bare.world
        .hub
        .apply(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: accepter}
rules:
- {apiGroups: [register.open-cluster-management.io], resources: [managedclusters/accept], verbs: [update]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: accepter}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: accepter}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}]
",
        )
        .await;
    let answer = post(&address, &pki, validate, &asked).await.unwrap();
    assert_eq!(answer["response"]["allowed"], true, "{answer}");
    let binding = json!({"metadata": {"name": "a", "namespace": "default"}, "spec": {"clusterSet": "a"}});
    let path = "/validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding";
    let answer = post(&address, &pki, path, &review("CREATE", "jane", binding))
        .await
        .unwrap();
    assert_eq!(
        answer["response"]["status"]["message"],
        "managedclustersets/bind.apps \"a\" is forbidden: user \"jane\" is not allowed to bind cluster set \"a\""
    );

    // An API server that is told of it asks it, and passes its words on.
    bare.world.hub.apply(&configuration(&address, &pki)).await;
    let clusters: Api<ManagedCluster> = Api::all(bare.client());
    let mut wrong = cluster.clone();
    wrong["spec"] = json!({"managedClusterClientConfigs": [{"url": "http://a"}]});
    let wrong = serde_json::from_value(wrong).unwrap();
    let refused = clusters
        .create(&PostParams::default(), &wrong)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains(
            "admission webhook \"managedclustervalidators.admission.cluster.open-cluster-management.io\" denied the request: \
             url \"http://a\" is invalid in client configs"
        ),
        "{refused}"
    );
    let cluster = serde_json::from_value(cluster).unwrap();
    let made = clusters.create(&PostParams::default(), &cluster).await.unwrap();
    let labels = made.metadata.labels.unwrap_or_default();
    assert_eq!(labels["cluster.open-cluster-management.io/clusterset"], "default");

    let renewed = certificates(&directory);
    server.says("took up the renewed certificate");
    post(&address, &renewed, validate, &asked).await.unwrap();
    assert!(
        post(&address, &pki, validate, &asked).await.is_err(),
        "the old authority is no longer shown"
    );
}
