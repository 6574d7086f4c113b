//! Users from client certificates: the common name is the user, each organisation a group.

use super::{CREDENTIAL_ID, authenticated};
use crate::{identity::User, listen::PeerCertificate};
use rustls::{pki_types::UnixTime, server::danger::ClientCertVerifier};
use std::{fmt::Write, time::Duration};
use x509_parser::{oid_registry, parse_x509_certificate};

/// What a verified certificate says, and how long it says so.
#[derive(Clone, Debug)]
pub(super) struct CertificateIdentity {
    pub user: User,
    not_before: i64,
    not_after: i64,
}

impl CertificateIdentity {
    pub fn is_valid_at(&self, now: jiff::Timestamp) -> bool {
        (self.not_before..=self.not_after).contains(&now.as_second())
    }

    /// The last moment.
    pub fn until(&self) -> jiff::Timestamp {
        jiff::Timestamp::from_second(self.not_after).unwrap_or(jiff::Timestamp::MAX)
    }
}

/// Checks the chain, the purpose and the time of a certificate, and reads its subject.
pub(super) fn identify(
    verifier: &dyn ClientCertVerifier,
    peer: &PeerCertificate,
    now: jiff::Timestamp,
) -> Option<CertificateIdentity> {
    let (end_entity, intermediates) = peer.chain.split_first()?;
    let seconds = u64::try_from(now.as_second()).ok()?;
    let time = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier.verify_client_cert(end_entity, intermediates, time).ok()?;
    let (_, certificate) = parse_x509_certificate(end_entity).ok()?;
    let (mut username, mut groups) = (String::new(), Vec::new());
    for attribute in certificate.subject().iter_attributes() {
        let value = || attribute.as_str().ok().map(str::to_owned);
        if *attribute.attr_type() == oid_registry::OID_X509_COMMON_NAME {
            // Go keeps the last of several common names.
            username = value()?;
        } else if *attribute.attr_type() == oid_registry::OID_X509_ORGANIZATION_NAME {
            groups.push(value()?);
        }
    }
    if username.is_empty() {
        return None;
    }
    let mut credential = "X509SHA256=".to_owned();
    for byte in peer.sha256 {
        write!(credential, "{byte:02x}").expect("a String takes any text");
    }
    let extra = [(CREDENTIAL_ID.to_owned(), vec![credential])].into();
    let validity = certificate.validity();
    Some(CertificateIdentity {
        user: authenticated(User {
            username,
            uid: String::new(),
            groups,
            extra,
        }),
        not_before: validity.not_before.timestamp(),
        not_after: validity.not_after.timestamp(),
    })
}

/// The common name of a certificate that chains to the verifier's authority.
pub(super) fn common_name(
    verifier: &dyn ClientCertVerifier,
    peer: &PeerCertificate,
    now: jiff::Timestamp,
) -> Option<String> {
    identify(verifier, peer, now).map(|it| it.user.username)
}
