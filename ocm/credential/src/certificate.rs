//! What a certificate chain says: for whom, and from when to when.

use std::collections::BTreeSet;

use jiff::Timestamp;
use p256::{SecretKey, pkcs8::EncodePublicKey};
use x509_parser::{pem::Pem, prelude::X509Certificate};

/// The subject of the first certificate of a chain, and the time in which the whole chain is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// CN.
    pub common_name: String,
    /// All O values, in however many RDNs they came.
    pub organizations: BTreeSet<String>,
    /// All OU values.
    pub organizational_units: BTreeSet<String>,
    /// The latest `notBefore`.
    pub not_before: Timestamp,
    /// The earliest `notAfter`.
    pub not_after: Timestamp,
    // DER of the SubjectPublicKeyInfo of the first certificate.
    public_key: Vec<u8>,
}

/// Why a chain could not be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// There is no PEM block in it.
    #[error("no PEM certificate found")]
    Empty,
    /// A block is no certificate.
    #[error("block {0} is no X.509 certificate")]
    NotACertificate(usize),
}

impl Chain {
    /// Reads a PEM bundle; the first certificate is the leaf.
    pub fn parse(pem: &[u8]) -> Result<Self, ChainError> {
        let mut chain: Option<Self> = None;
        for (position, block) in Pem::iter_from_buffer(pem).enumerate() {
            let block = block.map_err(|_| ChainError::NotACertificate(position + 1))?;
            let certificate = block
                .parse_x509()
                .map_err(|_| ChainError::NotACertificate(position + 1))?;
            let (not_before, not_after) = validity(&certificate);
            match &mut chain {
                None => {
                    let all = |oid| {
                        certificate
                            .subject()
                            .iter_by_oid(oid)
                            .filter_map(|it| it.as_str().ok().map(str::to_owned))
                            .collect::<BTreeSet<_>>()
                    };
                    chain = Some(Self {
                        common_name: all(&x509_parser::oid_registry::OID_X509_COMMON_NAME)
                            .into_iter()
                            .next()
                            .unwrap_or_default(),
                        organizations: all(&x509_parser::oid_registry::OID_X509_ORGANIZATION_NAME),
                        organizational_units: all(&x509_parser::oid_registry::OID_X509_ORGANIZATIONAL_UNIT),
                        not_before,
                        not_after,
                        public_key: certificate.public_key().raw.to_vec(),
                    });
                }
                Some(chain) => {
                    chain.not_before = chain.not_before.max(not_before);
                    chain.not_after = chain.not_after.min(not_after);
                }
            }
        }
        chain.ok_or(ChainError::Empty)
    }

    /// Whether some certificate of the chain is no longer valid.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.not_after
    }

    /// How much of its life is left, from 1 (new) to 0 (over).
    pub fn remaining(&self, now: Timestamp) -> f64 {
        let total = self.not_after.duration_since(self.not_before).as_secs_f64();
        let left = self.not_after.duration_since(now).as_secs_f64();
        if total <= 0.0 {
            0.0
        } else {
            (left / total).clamp(0.0, 1.0)
        }
    }

    /// When only `fraction` of its life will be left.
    pub fn when_remaining(&self, fraction: f64) -> Timestamp {
        let total = self.not_after.duration_since(self.not_before);
        self.not_after
            .checked_sub(total.mul_f64(fraction))
            .unwrap_or(self.not_before)
    }

    /// Whether this PEM private key (P-256) belongs to the leaf.
    pub fn belongs_to(&self, key_pem: &[u8]) -> bool {
        let Some(key) = std::str::from_utf8(key_pem)
            .ok()
            .and_then(|it| SecretKey::from_pem(it).ok())
        else {
            return false;
        };
        key.public_key()
            .to_public_key_der()
            .is_ok_and(|it| it.as_bytes() == self.public_key)
    }
}

fn validity(certificate: &X509Certificate<'_>) -> (Timestamp, Timestamp) {
    let at = |seconds| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    let validity = certificate.validity();
    (at(validity.not_before.timestamp()), at(validity.not_after.timestamp()))
}
