//! The certificate requests with which clusters join a hub, as their agents write them.

use std::str::FromStr;

use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use p256::ecdsa::{DerSignature, SigningKey};
use x509_cert::{
    builder::{Builder, RequestBuilder},
    der::EncodePem,
    name::Name,
};

/// A request for `cluster` that asks to be `subject`, made with the bootstrap credential.
pub fn with_subject(cluster: &str, subject: &str) -> CertificateSigningRequest {
    let key = SigningKey::from_slice(&[7; 32]).unwrap();
    let request = RequestBuilder::new(Name::from_str(subject).unwrap()).unwrap();
    let pem = request
        .build::<_, DerSignature>(&key)
        .unwrap()
        .to_pem(Default::default())
        .unwrap();
    let mut csr = CertificateSigningRequest::default();
    let label = "open-cluster-management.io/cluster-name".to_owned();
    csr.metadata.labels = Some([(label, cluster.to_owned())].into());
    csr.spec.signer_name = "kubernetes.io/kube-apiserver-client".into();
    csr.spec.request = ByteString(pem.into_bytes());
    csr.spec.username = Some("system:serviceaccount:open-cluster-management:agent-registration-bootstrap".into());
    csr
}

/// What the agent of `cluster` asks for, as `user`.
pub fn of_agent(cluster: &str, user: &str) -> CertificateSigningRequest {
    let group = format!("system:open-cluster-management:{cluster}");
    let mut csr = with_subject(
        cluster,
        &format!("CN={group}:abcde,O={group}+O=system:open-cluster-management:managed-clusters"),
    );
    csr.metadata.name = Some(format!("{cluster}-xyz"));
    csr.spec.username = Some(user.into());
    csr
}
