//! Certificates and requests for them.

use kube_api::{authn::Authenticator, csr, identity::User, listen::PeerCertificate, pki::Pki};
use kube_store::store::{Journal, Record, Store};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};
use std::sync::{Arc, LazyLock};

pub struct Discard;

impl Journal for Discard {
    fn append(&self, _: Record) {}
}

pub static KEYS: LazyLock<(Arc<Pki>, Authenticator)> = LazyLock::new(|| {
    let pki = Arc::new(Pki::open(None, &[], jiff::Timestamp::now()).expect("keys in memory"));
    let store = Arc::new(Store::new([], 0, Arc::new(Discard)));
    let authenticator = Authenticator::new(store, pki.clone()).expect("an authenticator");
    (pki, authenticator)
});

/// The ways in which a certificate request or a certificate comes: PEM in base64, or what TLS hands over.
pub fn certificates(data: &[u8]) {
    use base64::{Engine, prelude::BASE64_STANDARD};
    use rustls::pki_types::{CertificateSigningRequestDer, pem::PemObject};
    let (pki, authenticator) = &*KEYS;
    let now = jiff::Timestamp::now();
    // Bytes as they are, and as PEM of what they are.
    let pem = |bytes: &[u8]| {
        let body = BASE64_STANDARD.encode(bytes);
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
    };
    let der = CertificateSigningRequestDer::from_pem_slice(data).map(|it| it.to_vec());
    for request in [
        data.to_vec(),
        pem(data).into_bytes(),
        pem(&der.unwrap_or_default()).into_bytes(),
    ] {
        let request = Value::from(BASE64_STANDARD.encode(request));
        let _ = csr::SigningRequest::read(&request);
        let object = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "a"},
            "spec": {
                "request": request, "signerName": csr::CLIENT, "usages": ["client auth"], "username": "x", "groups": [],
            },
        });
        let mut created = object.clone();
        if csr::prepare_create(&mut created, &User::new("x", &[])).is_ok() {
            let _ = csr::automatic_approval(&created);
            if let Ok(signed) = csr::sign(pki, &created, now) {
                assert!(signed.starts_with("-----BEGIN CERTIFICATE-----"));
            }
        }
    }
    let certificate = CertificateDer::from_pem_slice(data).unwrap_or_else(|_| CertificateDer::from(data.to_vec()));
    if let Some(peer) = PeerCertificate::new(&[certificate]) {
        // Nobody has our authority's key.
        assert!(
            authenticator
                .authenticate(&http::HeaderMap::new(), Some(&peer), now)
                .is_err()
        );
    }
}
