//! Building X.509 certificates with the subjects that Kubernetes clients send.
//!
//! A subject with several organisations is one relative name with several values, as Go writes it; most Rust crates
//! cannot hold such a name, so the subject of a request travels as it is, from its DER to the certificate's.

use super::Authority;
use p256::ecdsa::{DerSignature, SigningKey};
use rustls_pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use std::{collections::BTreeSet, net::IpAddr, time::Duration};
use x509_cert::{
    Certificate, TbsCertificate,
    attr::AttributeTypeAndValue,
    builder::{Builder, CertificateBuilder, Error, Result, profile::BuilderProfile},
    der::{
        Decode, Encode, Tag,
        asn1::{Any, GeneralizedTime, Ia5String, ObjectIdentifier, OctetString, SetOfVec},
        oid::AssociatedOid,
    },
    ext::{
        Extension,
        pkix::{
            AuthorityKeyIdentifier, BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
            SubjectKeyIdentifier, name::GeneralName,
        },
    },
    name::Name,
    serial_number::SerialNumber,
    spki::{EncodePublicKey, SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef},
    time::{Time, Validity},
};

const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purpose {
    pub client: bool,
    pub server: bool,
    pub digital_signature: bool,
    pub key_encipherment: bool,
}

/// A certificate to be.
pub struct Request {
    pub subject: Name,
    pub public_key: SubjectPublicKeyInfoOwned,
    pub names: Vec<GeneralName>,
    pub purpose: Purpose,
    pub not_before: jiff::Timestamp,
    /// Cut to what is left of the authority.
    pub not_after: jiff::Timestamp,
}

struct Contents {
    subject: Name,
    issuer: Name,
    extensions: Vec<Extension>,
}

impl BuilderProfile for Contents {
    fn get_issuer(&self, _: &Name) -> Name {
        self.issuer.clone()
    }

    fn get_subject(&self) -> Name {
        self.subject.clone()
    }

    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        _: &TbsCertificate,
    ) -> Result<Vec<Extension>> {
        Ok(self.extensions.clone())
    }
}

fn extension<T: AssociatedOid + Encode>(value: &T, critical: bool) -> Result<Extension> {
    Ok(Extension {
        extn_id: T::OID,
        critical,
        extn_value: OctetString::new(value.to_der()?)?,
    })
}

fn time(at: jiff::Timestamp) -> Result<Time> {
    let seconds = u64::try_from(at.as_second()).unwrap_or_default();
    Ok(Time::GeneralTime(GeneralizedTime::from_unix_duration(
        Duration::from_secs(seconds),
    )?))
}

fn timestamp(time: Time) -> jiff::Timestamp {
    jiff::Timestamp::from_second(time.to_unix_duration().as_secs() as i64).unwrap_or(jiff::Timestamp::MAX)
}

/// A random positive 128-bit serial number.
fn serial() -> Result<SerialNumber> {
    let mut bytes: [u8; 16] = rand::random();
    // The top bit clear keeps it positive without a padding byte; the next one set keeps its length.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::new(&bytes)?)
}

fn key_identifier(key: &SubjectPublicKeyInfoOwned) -> Result<OctetString> {
    let bits = key.subject_public_key.raw_bytes();
    Ok(OctetString::new(&Sha256::digest(bits)[..20])?)
}

fn build(
    contents: Contents,
    validity: Validity,
    public_key: SubjectPublicKeyInfoOwned,
    signer: &SigningKey,
) -> Result<Certificate> {
    CertificateBuilder::new(contents, serial()?, validity, public_key)?.build::<_, DerSignature>(signer)
}

/// The public half of `key`.
///
/// # Errors
/// Never in practice; the encoder is fallible.
pub fn public_key(key: &SigningKey) -> Result<SubjectPublicKeyInfoOwned> {
    let der = key.verifying_key().to_public_key_der()?;
    Ok(SubjectPublicKeyInfoOwned::from_der(der.as_bytes())?)
}

/// A self-signed authority named `CN=<name>`.
///
/// # Errors
/// When the certificate cannot be encoded.
pub fn authority(name: &str, key: &SigningKey, now: jiff::Timestamp, seconds: i64) -> Result<Certificate> {
    let subject = subject(name, &[])?;
    let public_key = public_key(key)?;
    let identifier = key_identifier(&public_key)?;
    let extensions = vec![
        extension(
            &KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment | KeyUsages::KeyCertSign),
            true,
        )?,
        extension(
            &BasicConstraints {
                ca: true,
                path_len_constraint: None,
            },
            true,
        )?,
        extension(&SubjectKeyIdentifier(identifier), false)?,
    ];
    let not_after = now + jiff::SignedDuration::from_secs(seconds);
    let validity = Validity::new(time(now - super::BACKDATE)?, time(not_after)?);
    build(
        Contents {
            issuer: subject.clone(),
            subject,
            extensions,
        },
        validity,
        public_key,
        key,
    )
}

/// Signs `request` with `authority`.
///
/// # Errors
/// When the certificate cannot be encoded.
pub fn sign(authority: &Authority, request: Request) -> Result<Certificate> {
    let issuer = authority.certificate.tbs_certificate();
    let purpose = request.purpose;
    let mut extensions = Vec::new();
    let usage = match (purpose.digital_signature, purpose.key_encipherment) {
        (true, true) => Some(KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment)),
        (true, false) => Some(KeyUsage(KeyUsages::DigitalSignature.into())),
        (false, true) => Some(KeyUsage(KeyUsages::KeyEncipherment.into())),
        (false, false) => None,
    };
    if let Some(usage) = usage {
        extensions.push(extension(&usage, true)?);
    }
    let mut extended = Vec::new();
    if purpose.server {
        extended.push(SERVER_AUTH);
    }
    if purpose.client {
        extended.push(CLIENT_AUTH);
    }
    if !extended.is_empty() {
        extensions.push(extension(&ExtendedKeyUsage(extended), false)?);
    }
    extensions.push(extension(
        &BasicConstraints {
            ca: false,
            path_len_constraint: None,
        },
        true,
    )?);
    let key_identifier = Some(key_identifier(issuer.subject_public_key_info())?);
    extensions.push(extension(
        &AuthorityKeyIdentifier {
            key_identifier,
            ..Default::default()
        },
        false,
    )?);
    if !request.names.is_empty() {
        extensions.push(extension(&SubjectAltName(request.names), false)?);
    }
    let not_after = request.not_after.min(timestamp(issuer.validity().not_after));
    let validity = Validity::new(time(request.not_before)?, time(not_after)?);
    let contents = Contents {
        subject: request.subject,
        issuer: issuer.subject().clone(),
        extensions,
    };
    build(contents, validity, request.public_key, &authority.key)
}

/// The DER of a certificate, as rustls takes it.
///
/// # Errors
/// When the certificate cannot be encoded.
pub fn to_der(certificate: &Certificate) -> Result<CertificateDer<'static>> {
    Ok(CertificateDer::from(certificate.to_der()?))
}

/// A DNS name for the subject alternative names.
///
/// # Errors
/// When the name is not ASCII.
pub fn dns_name(name: &str) -> Result<GeneralName> {
    Ok(GeneralName::DnsName(Ia5String::new(name)?))
}

/// An IP address for the subject alternative names.
///
/// # Errors
/// Never in practice; the encoder is fallible.
pub fn ip_name(address: IpAddr) -> Result<GeneralName> {
    Ok(GeneralName::IpAddress(match address {
        IpAddr::V4(it) => OctetString::new(it.octets().as_slice())?,
        IpAddr::V6(it) => OctetString::new(it.octets().as_slice())?,
    }))
}

/// A subject in the shape that Go writes: all organisations in one relative name, then the common name.
///
/// # Errors
/// When an organisation is named twice.
pub fn subject(common_name: &str, organizations: &[&str]) -> Result<Name> {
    let mut relative_names = Vec::new();
    if !organizations.is_empty() {
        let mut values = SetOfVec::new();
        for organization in organizations {
            values.insert(attribute(ORGANIZATION, organization)?)?;
        }
        relative_names.push(values);
    }
    let mut values = SetOfVec::new();
    values.insert(attribute(COMMON_NAME, common_name)?)?;
    relative_names.push(values);
    Ok(Name::from_der(&relative_names.to_der()?)?)
}

fn attribute(oid: ObjectIdentifier, text: &str) -> Result<AttributeTypeAndValue> {
    let printable = text
        .bytes()
        .all(|it| it.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&it));
    let tag = if printable {
        Tag::PrintableString
    } else {
        Tag::Utf8String
    };
    Ok(AttributeTypeAndValue {
        oid,
        value: Any::new(tag, text.as_bytes()).map_err(Error::from)?,
    })
}

/// From when until when a certificate is valid.
pub fn validity(certificate: &Certificate) -> (jiff::Timestamp, jiff::Timestamp) {
    let validity = certificate.tbs_certificate().validity();
    (timestamp(validity.not_before), timestamp(validity.not_after))
}

/// Whether a serving certificate read from disk can still be used: signed by this authority, for these names, and not
/// to be renewed yet.
pub fn still_serves(
    certificate: &Certificate,
    authority: &Authority,
    names: &BTreeSet<String>,
    now: jiff::Timestamp,
) -> bool {
    let tbs = certificate.tbs_certificate();
    let Ok(identifier) = key_identifier(authority.certificate.tbs_certificate().subject_public_key_info()) else {
        return false;
    };
    let issuer = tbs.get_extension::<AuthorityKeyIdentifier>().ok().flatten();
    if issuer.and_then(|(_, it)| it.key_identifier) != Some(identifier) {
        return false;
    }
    let (from, until) = validity(certificate);
    if from > now || now >= super::renew_at(from, until) {
        return false;
    }
    let Ok(Some((_, SubjectAltName(held)))) = tbs.get_extension::<SubjectAltName>() else {
        return false;
    };
    let held: BTreeSet<String> = held.iter().filter_map(name_text).collect();
    names.is_subset(&held)
}

fn name_text(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(it) => Some(it.as_str().to_owned()),
        GeneralName::IpAddress(it) => match it.as_bytes().len() {
            4 => <[u8; 4]>::try_from(it.as_bytes())
                .ok()
                .map(|it| IpAddr::from(it).to_string()),
            16 => <[u8; 16]>::try_from(it.as_bytes())
                .ok()
                .map(|it| IpAddr::from(it).to_string()),
            _ => None,
        },
        _ => None,
    }
}
