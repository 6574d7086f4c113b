//! Whether a certificate request is signed with the key that it asks a certificate for.

use std::sync::OnceLock;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use x509_cert::{
    der::{Decode, Encode},
    request::CertReq,
    spki::AlgorithmIdentifierOwned,
};
use x509_parser::prelude::{FromDer, X509CertificationRequest};

/// Whether this request, as DER, is signed with the key that it asks a certificate for. Without that somebody could
/// have a key certified that is another's.
pub fn is_signed_by_its_key(der: &[u8]) -> bool {
    static PROVIDER: OnceLock<CryptoProvider> = OnceLock::new();
    let Ok((_, parsed)) = X509CertificationRequest::from_der(der) else {
        return false;
    };
    let signed = parsed.certification_request_info.raw;
    let Ok(request) = CertReq::from_der(der) else {
        return false;
    };
    let key = &request.info.public_key;
    let (Some(algorithm), Some(signature)) = (inside(&key.algorithm), inside(&request.algorithm)) else {
        return false;
    };
    // A signature is whole bytes; one that claims unused bits would be another encoding of the same signature.
    let (Some(key_bits), Some(signature_bits)) = (key.subject_public_key.as_bytes(), request.signature.as_bytes())
    else {
        return false;
    };
    let provider = PROVIDER.get_or_init(aws_lc_rs::default_provider);
    provider.signature_verification_algorithms.all.iter().any(|it| {
        it.public_key_alg_id().as_ref() == algorithm
            && it.signature_alg_id().as_ref() == signature
            && it.verify_signature(key_bits, signed, signature_bits).is_ok()
    })
}

/// rustls names algorithms by the inside of their DER sequence.
fn inside(of: &AlgorithmIdentifierOwned) -> Option<Vec<u8>> {
    let mut der = of.oid.to_der().ok()?;
    if let Some(parameters) = &of.parameters {
        der.extend(parameters.to_der().ok()?);
    }
    Some(der)
}
