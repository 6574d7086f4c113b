//! Whether the certificate that a server shows is to be trusted: one rule for every connection that we make.
//!
//! Upstream: Go's `crypto/x509`, `Certificate.Verify`. A bundle lists authorities, and it may list a server's own
//! certificate, which then is trusted when it is shown, byte by byte the same, whoever signed it and whether or not it
//! calls itself an authority. Its name, its time and its usage count as those of any other. rustls knows authorities
//! only, and takes any certificate of a bundle for one: here, as in Go, what is no authority vouches
//! for nobody but itself.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    server::ParsedCertificate,
};
use x509_parser::{certificate::X509Certificate, prelude::FromDer, x509::X509Version};

/// What trusts the servers that a bundle of certificates vouches for.
pub fn verifier(
    bundle: impl IntoIterator<Item = CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    let listed: Vec<_> = bundle.into_iter().collect();
    let mut roots = RootCertStore::empty();
    // One that cannot be read vouches for nobody, as in Go.
    roots.add_parsable_certificates(listed.iter().filter(|it| is_authority(it)).cloned());
    let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    Arc::new(Bundle {
        listed,
        // It fails when there are none.
        authorities: authorities.build().ok(),
        algorithms: provider.signature_verification_algorithms,
    })
}

/// The same for a bundle in a file of PEM that others replace, as a pod's `ca.crt`. `bundle` is what it holds now; what
/// cannot be read later changes nothing.
pub fn verifier_of_file(
    path: &Path,
    bundle: impl IntoIterator<Item = CertificateDer<'static>>,
    provider: &Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    Arc::new(File {
        path: path.to_owned(),
        provider: provider.clone(),
        last: Mutex::new((Vec::new(), verifier(bundle, provider))),
    })
}

/// Whether a certificate may vouch for others (Go: `CheckSignatureFrom`).
fn is_authority(der: &CertificateDer<'_>) -> bool {
    // What this parser does not read, the one that verifies may.
    let Ok((_, certificate)) = X509Certificate::from_der(der) else {
        return true;
    };
    let may = match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        // Certificates could not say so before there were extensions.
        Ok(None) => certificate.version() != X509Version::V3,
        Err(_) => false,
    };
    may && match certificate.key_usage() {
        Ok(usage) => usage.is_none_or(|it| it.value.key_cert_sign()),
        Err(_) => false,
    }
}

#[derive(Debug)]
struct Bundle {
    listed: Vec<CertificateDer<'static>>,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.listed.iter().any(|it| it == shown) {
            check_time_and_usage(shown, now)?;
            verify_server_name(&ParsedCertificate::try_from(shown)?, name)?;
            return Ok(ServerCertVerified::assertion());
        }
        match &self.authorities {
            Some(authorities) => authorities.verify_server_cert(shown, others, name, ocsp, now),
            None => Err(CertificateError::UnknownIssuer.into()),
        }
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

#[derive(Debug)]
struct File {
    path: PathBuf,
    provider: Arc<CryptoProvider>,
    /// What was read last, and what it means.
    last: Mutex<(Vec<u8>, Arc<dyn ServerCertVerifier>)>,
}

impl File {
    // A handshake is rare, and the file is small.
    fn present(&self) -> Arc<dyn ServerCertVerifier> {
        // What is behind a poisoned lock is a pair, whole.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(text) = std::fs::read(&self.path)
            && text != last.0
        {
            let listed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
            if let Some(listed) = listed.ok().filter(|it| !it.is_empty()) {
                *last = (text, verifier(listed, &self.provider));
            }
        }
        last.1.clone()
    }
}

impl ServerCertVerifier for File {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.present().verify_server_cert(shown, others, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn check_time_and_usage(shown: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, certificate) = X509Certificate::from_der(shown).map_err(|_| CertificateError::BadEncoding)?;
    let at = |seconds: i64| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds.try_into().unwrap_or(0)));
    let validity = certificate.validity();
    let not_before = at(validity.not_before.timestamp());
    let not_after = at(validity.not_after.timestamp());
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
    }
    let usage = certificate
        .extended_key_usage()
        .map_err(|_| CertificateError::BadEncoding)?;
    if usage.is_some_and(|it| !it.value.any && !it.value.server_auth) {
        return Err(CertificateError::InvalidPurpose.into());
    }
    Ok(())
}
