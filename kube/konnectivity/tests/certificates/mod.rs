//! An authority for both ports, as cluster-proxy has one.

use std::sync::Arc;

use kube_api::pki::Pki;
use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

#[derive(Clone)]
pub struct Authority(Arc<Pki>);

impl Authority {
    pub fn new() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let names = ["localhost".to_owned()];
        Self(Arc::new(Pki::open(None, &names, jiff::Timestamp::now()).unwrap()))
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.authority().der().clone()).unwrap();
        Arc::new(roots)
    }

    pub fn server(&self) -> Arc<ServerConfig> {
        let verifier = WebPkiClientVerifier::builder(self.roots()).build().unwrap();
        let serving = self.0.serving();
        let mut config = ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(serving.chain.clone(), serving.key.clone_key())
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    pub fn client(&self, name: &str) -> Arc<ClientConfig> {
        let pair = self
            .0
            .issue_client_certificate(name, &["group"], 3600, jiff::Timestamp::now())
            .unwrap();
        let chain = CertificateDer::pem_slice_iter(pair.certificate_pem.as_bytes())
            .map(Result::unwrap)
            .collect();
        let key = PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).unwrap();
        let mut config = ClientConfig::builder()
            .with_root_certificates(self.roots())
            .with_client_auth_cert(chain, key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}
