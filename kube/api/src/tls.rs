//! TLS as a Kubernetes API server speaks it: client certificates are asked for and never required, and the handshake
//! accepts any of them. Whether a certificate means anything is authentication's business, so that a client with a
//! certificate of the wrong authority gets a readable 401 rather than a TLS alert.

use crate::{clock::Clock, pki::Pki};
use arc_swap::ArcSwap;
use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// The one cryptography provider of this crate, named everywhere so that no process-wide default is needed.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: std::sync::OnceLock<Arc<CryptoProvider>> = std::sync::OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())).clone()
}

/// Takes any client certificate whose key the client proves to hold.
#[derive(Debug)]
struct AnyClientCertificate {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The server side of TLS with the keys of `pki`: 1.2 and 1.3, HTTP/2 before HTTP/1.1, and tickets so that agents
/// resume their sessions. `others` are subjects of further authorities whose certificates clients may show: many
/// clients keep one to themselves whose authority the server does not name.
///
/// # Errors
/// When the serving key does not fit its certificate.
pub fn server_config(pki: &Pki, others: &[DistinguishedName]) -> Result<Arc<ServerConfig>, Error> {
    let provider = provider();
    let mut hints = pki.authority().subject_hint();
    hints.extend_from_slice(others);
    let verifier = AnyClientCertificate {
        hints,
        algorithms: provider.signature_verification_algorithms,
    };
    let serving = pki.serving();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(serving.chain.clone(), serving.key.clone_key())?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = aws_lc_rs::Ticketer::new()?;
    // One ticket is enough: our clients resume one connection at a time, and each ticket carries the client's chain.
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}

/// How often it is looked whether the serving certificate has to be renewed. Rather this than one long wait: a machine
/// that slept, or whose clock was set, has another time than the wait has counted.
const LOOK_AGAIN: Duration = Duration::from_secs(60 * 60);

/// Renews the serving certificate of `pki` in time, and has new connections shown it; those that are open go on as they
/// are. `config` makes a configuration of the certificate that is there. Ends with `stop`.
pub async fn keep(
    pki: Arc<Pki>,
    shown: Arc<ArcSwap<ServerConfig>>,
    config: impl Fn(&Pki) -> Result<Arc<ServerConfig>, Error>,
    clock: Clock,
    stop: CancellationToken,
) {
    let mut told = false;
    loop {
        let now = clock.now();
        if let Some(until) = pki.authority_ends(now).filter(|_| !told) {
            warn!(%until, "the server's authority ends: give it a new data directory before, and have its clients join that");
            told = true;
        }
        match pki.renew(now) {
            Ok(false) => {}
            Ok(true) => match config(&pki) {
                Ok(next) => {
                    shown.store(next);
                    info!("renewed the serving certificate");
                }
                Err(error) => warn!(%error, "the renewed serving certificate cannot be shown"),
            },
            Err(error) => warn!(%error, "could not renew the serving certificate, will retry"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = clock.wait(LOOK_AGAIN) => {}
        }
    }
}

#[cfg(test)]
mod tests;
