//! The agent of one add-on with several credentials at once: a token for the hub's API server,
//! and a certificate of a signer of the add-on's own.

use std::sync::Arc;

use credential::{KubeconfigSource, csr, enrol::REQUESTS_MAX};
use k8s_openapi::{
    ByteString,
    api::{certificates::v1::CertificateSigningRequest, core::v1::Secret},
};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use kube_api::pki::certificate;
use ocm_addon_sdk::{AddOn, AddOnContext, Proof, Registration, UserError, registration::Signing};
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, condition, labels};
use p256::{
    ecdsa::SigningKey,
    elliptic_curve::Generate,
    pkcs8::{EncodePrivateKey, LineEnding},
};
use registration::{agent::AgentOptions, hub::HubOptions};
use serde_json::Value;
use testkit::{Site, objects, wait};
use tokio_util::sync::CancellationToken;
use x509_cert::der::EncodePem;

const JOINER: &str = "joiner";
const NAMESPACE: &str = "open-cluster-management-agent-addon";
const SIGNED: &str = "
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ClusterManagementAddOn
metadata: {name: signed}
spec: {}
---
apiVersion: addon.open-cluster-management.io/v1alpha1
kind: ManagedClusterAddOn
metadata: {name: signed, namespace: cluster1}
spec: {}
";

struct Signed;

impl AddOn for Signed {
    fn name(&self) -> &str {
        "signed"
    }

    fn manifests(&self, _: &AddOnContext) -> Result<Vec<Value>, UserError> {
        Ok(Vec::new())
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        Ok(vec![
            Registration::kube_client().with(Proof::Token { lifetime: None }),
            Registration::custom_signer("example.com/signed").signed_by(Signing::with_secret("signed-ca")),
        ])
    }
}

fn authority() -> Secret {
    let key = SigningKey::generate();
    let authority = certificate::authority("signed-ca", &key, jiff::Timestamp::now(), 86400).unwrap();
    let mut secret = Secret::default();
    secret.metadata.name = Some("signed-ca".to_owned());
    secret.string_data = Some(
        [
            ("tls.crt".to_owned(), authority.to_pem(LineEnding::LF).unwrap()),
            (
                "tls.key".to_owned(),
                key.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
            ),
        ]
        .into(),
    );
    secret
}

/// Ten requests that the add-on seems to have made, and a second in which it makes none.
async fn ask_too_often(hub: &Site) {
    let subject = csr::CertificateSubject {
        common_name: "anybody".to_owned(),
        organizations: Vec::new(),
        organizational_units: Vec::new(),
        dns_names: Vec::new(),
    };
    let asked = csr::new_key_and_request(&subject).unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(hub.client());
    let mut request = CertificateSigningRequest::default();
    request.metadata.generate_name = Some("addon-cluster1-signed-".to_owned());
    request.metadata.labels = Some(
        [(labels::CLUSTER_NAME, "cluster1"), (labels::ADDON_NAME, "signed")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    );
    request.spec.request = ByteString(asked.request_pem.into_bytes());
    request.spec.signer_name = "example.com/signed".to_owned();
    request.spec.usages = Some(vec!["client auth".to_owned()]);
    let mut last = None;
    for _ in 0..REQUESTS_MAX {
        let made = requests.create(&PostParams::default(), &request).await.unwrap();
        last = made.metadata.creation_timestamp;
    }
    let dry = PostParams {
        dry_run: true,
        field_manager: None,
    };
    while requests
        .create(&dry, &request)
        .await
        .unwrap()
        .metadata
        .creation_timestamp
        == last
    {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_and_a_certificate_of_another_signer_coexist() {
    let (hub, cluster) = (Site::start().await.unwrap(), Site::start().await.unwrap());
    let cancel = CancellationToken::new();
    let options = hub::Options {
        registration: HubOptions {
            auto_accept: true,
            auto_approved_csr_users: vec![JOINER.to_owned()],
            ..HubOptions::default()
        },
        addons: vec![Arc::new(Signed)],
        ..hub::Options::default()
    };
    hub::start(hub.client_of_hub().await, options, cancel.clone())
        .await
        .unwrap();
    let bootstrap = hub
        .kubeconfig(JOINER, &["system:bootstrappers:managedcluster"])
        .unwrap();
    let options = AgentOptions {
        cluster_name: Some("cluster1".to_owned()),
        ..AgentOptions::new(KubeconfigSource::Inline(bootstrap), cluster.client())
    };
    let mut sessions = options.sessions.subscribe();
    let agent = agent::start(options, cancel.clone()).await.unwrap();
    sessions.wait_for(Option::is_some).await.unwrap();

    let authorities: Api<Secret> = Api::namespaced(hub.client(), "open-cluster-management-hub");
    authorities.create(&PostParams::default(), &authority()).await.unwrap();
    // Those of an add-on of the same name that is gone do not count.
    ask_too_often(&hub).await;
    hub.apply(SIGNED).await;

    let addons: Api<ManagedClusterAddOn> = Api::namespaced(hub.client(), "cluster1");
    for kind in ["ClusterCertificateRotated", "TokenRefreshed"] {
        let says = |it: Option<&ManagedClusterAddOn>| {
            let conditions = it.and_then(|it| it.status.as_ref()).map(|it| &it.conditions);
            conditions
                .and_then(|it| condition::find(it, kind))
                .is_some_and(|it| it.status == "True")
        };
        let found = wait::until(&addons, "signed", kind, says).await.unwrap();
        println!("{:#?}", objects::conditions(&found));
    }
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), NAMESPACE);
    let keys = async |name: &str| -> Vec<String> {
        let secret = secrets.get(name).await.unwrap();
        secret.data.unwrap_or_default().into_keys().collect()
    };
    assert_eq!(
        keys("signed-hub-kubeconfig").await,
        ["cluster-name", "kubeconfig", "token"]
    );
    assert_eq!(
        keys("signed-example.com-signed-client-cert").await,
        ["cluster-name", "tls.crt", "tls.key"]
    );

    addons.delete("signed", &DeleteParams::default()).await.unwrap();
    wait::gone(&addons, "signed").await;
    for name in ["signed-hub-kubeconfig", "signed-example.com-signed-client-cert"] {
        wait::gone(&secrets, name).await;
    }
    cancel.cancel();
    agent.finished().await;
}
