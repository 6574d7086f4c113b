//! Whom a connection trusts, and as whom it shows itself.

use crate::{SourceAccess, SourceCredentials, SourceError};
use kube_primitives::server_certificate;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WantsClientCert,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use secrecy::ExposeSecret;
use std::sync::Arc;

/// A client certificate with its key.
pub(super) type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The client certificate among the credentials.
pub(super) fn identity(credentials: &SourceCredentials) -> Result<Option<Identity>, SourceError> {
    let SourceCredentials::ClientCertificate { certificate, key } = credentials else {
        return Ok(None);
    };
    let certificates = certificates(certificate, "the client certificate")?;
    let key = PrivateKeyDer::from_pem_slice(key.expose_secret().as_bytes())
        // What it says of the text may quote it.
        .map_err(|_| SourceError::invalid("the key of the client certificate is no private key in PEM"))?;
    Ok(Some((certificates, key)))
}

/// What connections to a server are made with.
pub(super) fn configuration(access: &SourceAccess, identity: Option<Identity>) -> Result<ClientConfig, SourceError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = if access.insecure_skip_verify {
        Arc::new(AnyCertificate(provider.clone()))
    } else {
        let mut trusted = rustls_native_certs::load_native_certs().certs;
        if let Some(bundle) = &access.ca_certificates {
            trusted.extend(certificates(bundle, "the bundle of CA certificates")?);
        }
        server_certificate::verifier(trusted, &provider)
    };
    // Its verifier is replaced below.
    let builder = builder(provider)?;
    let mut tls = match identity {
        Some((certificates, key)) => builder
            .with_client_auth_cert(certificates, key)
            .map_err(|it| SourceError::invalid(format!("the client certificate and its key: {it}")))?,
        None => builder.with_no_client_auth(),
    };
    tls.dangerous().set_certificate_verifier(verifier);
    Ok(tls)
}

/// What no connection can be made with.
pub(super) fn of_nobody() -> Result<ClientConfig, SourceError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(builder(provider)?.with_no_client_auth())
}

fn builder(provider: Arc<CryptoProvider>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, SourceError> {
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|it| SourceError::invalid(format!("TLS: {it}")))?;
    Ok(builder.with_root_certificates(RootCertStore::empty()))
}

fn certificates(pem: &str, what: &str) -> Result<Vec<CertificateDer<'static>>, SourceError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let all = all.map_err(|it| SourceError::invalid(format!("{what} is no PEM: {it}")))?;
    if all.is_empty() {
        return Err(SourceError::invalid(format!("{what} has no certificate in PEM")));
    }
    Ok(all)
}

/// Takes any certificate, as the user asks for it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
