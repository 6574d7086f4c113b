//! A certificate authority in a Secret, and what it signs.
//!
//! Upstream: addon-framework `pkg/utils/csr_helpers.go`, `DefaultSignerWithExpiry`: the subject and the alternative
//! names of the request, for clients and servers, no longer than the authority itself lives. It reads RSA keys as
//! PKCS#1 only and ignores the lifetime that a request asks for; we read what people have and give no more
//! than was asked.

use std::{net::IpAddr, time::Duration};

use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rand::SystemRandom,
    rsa::{KeyPair as RsaKeyPair, KeySize},
    signature::{
        self, ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, ECDSA_P521_SHA512_ASN1_SIGNING,
        EcdsaKeyPair, KeyPair, VerificationAlgorithm,
    },
};
use jiff::{SignedDuration, Timestamp};
use p256::ecdsa::signature::Keypair;
use sha2::{Digest, Sha256};
use x509_cert::{
    Certificate, TbsCertificate,
    builder::{self, Builder, CertificateBuilder, profile::BuilderProfile},
    der::{
        self, Any, Decode, Encode, EncodePem,
        asn1::{BitString, GeneralizedTime, Ia5String, ObjectIdentifier, OctetString},
        oid::AssociatedOid,
        pem::LineEnding,
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
    spki::{
        self, AlgorithmIdentifierOwned, Document, DynSignatureAlgorithmIdentifier, EncodePublicKey,
        SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef,
    },
    time::{Time, Validity},
};
use x509_parser::{certificate::X509Certificate, pem::Pem};

use super::request::Asked;

/// A cluster's clock may be a little behind the hub's.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);

const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const EC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const P521: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.35");
const RSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");
const ECDSA_SHA256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");
const ECDSA_SHA384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.3");
const ECDSA_SHA512: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.4");
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const CLIENT_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2");

/// A certificate authority.
pub struct Authority {
    certificate: Certificate,
    key: Key,
}

/// What a certificate is issued for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// Its common name.
    pub common_name: String,
    /// Host names and IP addresses, its alternative names.
    pub names: Vec<String>,
    /// Who shows it.
    pub usage: LeafUsage,
}

/// Who shows a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeafUsage {
    /// A server.
    Server,
    /// A client.
    Client,
}

/// A certificate and its key.
pub struct Issued {
    /// The certificate, PEM.
    pub certificate_pem: String,
    /// Its key, PKCS#8 in PEM.
    pub key_pem: String,
}

enum Key {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

/// Why something is no authority, or does not sign.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// There is no certificate.
    #[error("tls.crt holds no PEM certificate")]
    NoCertificate,
    /// There is no key.
    #[error("tls.key holds no PEM private key")]
    NoKey,
    /// A kind of key that we cannot sign with.
    #[error("tls.key is neither an RSA key nor an EC key on P-256, P-384 or P-521, as PKCS#8, PKCS#1 or SEC1")]
    UnknownKey,
    /// The two do not belong together.
    #[error("tls.key is not the key of the certificate in tls.crt")]
    AnotherKey,
    /// Its time is over.
    #[error("the authority's certificate has expired at {0}")]
    Expired(Timestamp),
    /// The certificate could not be made.
    #[error("could not build the certificate: {0}")]
    Build(String),
}

impl From<builder::Error> for AuthorityError {
    fn from(error: builder::Error) -> Self {
        Self::Build(error.to_string())
    }
}

impl From<der::Error> for AuthorityError {
    fn from(error: der::Error) -> Self {
        Self::Build(error.to_string())
    }
}

impl Authority {
    /// Reads an authority from a certificate and its key, both PEM.
    ///
    /// # Errors
    /// When it is none that we can sign with.
    pub fn read(certificate_pem: &[u8], key_pem: &[u8]) -> Result<Self, AuthorityError> {
        let certificate = blocks(certificate_pem)
            .find(|it| it.label == "CERTIFICATE")
            .and_then(|it| Certificate::from_der(&it.contents).ok())
            .ok_or(AuthorityError::NoCertificate)?;
        let key = blocks(key_pem)
            .find(|it| it.label.ends_with("PRIVATE KEY"))
            .ok_or(AuthorityError::NoKey)?;
        let public = certificate.tbs_certificate().subject_public_key_info();
        let key = Key::read(&key.contents, &public.algorithm)?;
        if key.public() != public.subject_public_key.raw_bytes() {
            return Err(AuthorityError::AnotherKey);
        }
        Ok(Self { certificate, key })
    }

    /// A new authority of this name: certificate and key, PEM. The key is an RSA key, because the signers of Go's
    /// controllers sign with no other.
    ///
    /// # Errors
    /// When no key can be made.
    pub fn create(name: &str, lifetime: Duration, now: Timestamp) -> Result<(String, String), AuthorityError> {
        let failed = |_| AuthorityError::Build("no key can be made".to_owned());
        let key = RsaKeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
        let secret: Pkcs8V1Der<'_> = key.as_der().map_err(failed)?;
        let key_pem = der::pem::encode_string("PRIVATE KEY", LineEnding::LF, secret.as_ref());
        let key_pem = key_pem.map_err(|error| AuthorityError::Build(error.to_string()))?;
        let public_key = SubjectPublicKeyInfoOwned {
            algorithm: AlgorithmIdentifierOwned {
                oid: RSA,
                parameters: Some(Any::null()),
            },
            subject_public_key: BitString::from_bytes(key.public_key().as_ref())?,
        };
        let subject: Name = format!("CN={name}").parse()?;
        let usage = KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment | KeyUsages::KeyCertSign;
        let constraints = BasicConstraints {
            ca: true,
            path_len_constraint: None,
        };
        let contents = Contents {
            subject: subject.clone(),
            issuer: subject,
            extensions: vec![
                extension(&KeyUsage(usage), true)?,
                extension(&constraints, true)?,
                extension(&SubjectKeyIdentifier(identifier(&public_key)?), false)?,
            ],
        };
        let until = SignedDuration::try_from(lifetime).ok();
        let until = until.and_then(|it| now.checked_add(it).ok()).unwrap_or(Timestamp::MAX);
        let validity = Validity::new(time(now - SignedDuration::from_secs(1))?, time(until)?);
        let key = Key::Rsa(key);
        let half = Half {
            algorithm: key.algorithm()?,
            public: Public(public_key.to_der()?),
        };
        let mut builder = CertificateBuilder::new(contents, serial()?, validity, public_key)?;
        let unsigned = builder.finalize(&half)?;
        let signature = BitString::from_bytes(&key.sign(&unsigned)?)?;
        let certificate = builder.assemble(signature, &half)?;
        Ok((certificate.to_pem(LineEnding::LF)?, key_pem))
    }

    /// Whether the authority has signed this certificate, DER.
    pub fn has_signed(authority: &X509Certificate<'_>, certificate: &X509Certificate<'_>) -> bool {
        let algorithm = certificate.signature_algorithm.algorithm.to_id_string();
        let verification: &dyn VerificationAlgorithm = match algorithm.as_str() {
            it if it == RSA_SHA256.to_string() => &signature::RSA_PKCS1_2048_8192_SHA256,
            it if it == ECDSA_SHA256.to_string() => &signature::ECDSA_P256_SHA256_ASN1,
            it if it == ECDSA_SHA384.to_string() => &signature::ECDSA_P384_SHA384_ASN1,
            it if it == ECDSA_SHA512.to_string() => &signature::ECDSA_P521_SHA512_ASN1,
            _ => return false,
        };
        let key = &authority.public_key().subject_public_key.data;
        let signed = certificate.tbs_certificate.as_ref();
        verification
            .verify_sig(key, signed, &certificate.signature_value.data)
            .is_ok()
    }

    /// A certificate, as PEM, for what was asked, until `lifetime` is over or the authority itself.
    ///
    /// # Errors
    /// When the authority has expired.
    pub fn sign(&self, asked: &Asked, lifetime: Duration, now: Timestamp) -> Result<String, AuthorityError> {
        let public_key = SubjectPublicKeyInfoOwned::from_der(&asked.public_key_der)?;
        let names = asked.names.iter().flatten();
        let names = names.map(|it| Ok(GeneralName::DnsName(Ia5String::new(it)?)));
        let names = names.collect::<Result<Vec<_>, der::Error>>()?;
        let subject = Name::from_der(&asked.subject_der)?;
        self.certify(
            subject,
            public_key,
            names,
            vec![SERVER_AUTH, CLIENT_AUTH],
            lifetime,
            now,
        )
    }

    /// A new key and a certificate for it, both PEM, until `lifetime` is over or the authority itself.
    ///
    /// # Errors
    /// When the authority has expired, or a name cannot be in a certificate.
    pub fn issue(&self, leaf: &Leaf, lifetime: Duration, now: Timestamp) -> Result<Issued, AuthorityError> {
        let failed = |_| AuthorityError::Build("no key can be made".to_owned());
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
        let secret = key.to_pkcs8v1().map_err(failed)?;
        let key_pem = der::pem::encode_string("PRIVATE KEY", LineEnding::LF, secret.as_ref());
        let key_pem = key_pem.map_err(|error| AuthorityError::Build(error.to_string()))?;
        let public_key = SubjectPublicKeyInfoOwned {
            algorithm: AlgorithmIdentifierOwned {
                oid: EC,
                parameters: Some(Any::from(P256)),
            },
            subject_public_key: BitString::from_bytes(key.public_key().as_ref())?,
        };
        let names = leaf.names.iter().map(|it| {
            Ok(match it.parse::<IpAddr>() {
                Ok(IpAddr::V4(address)) => GeneralName::IpAddress(OctetString::new(address.octets())?),
                Ok(IpAddr::V6(address)) => GeneralName::IpAddress(OctetString::new(address.octets())?),
                Err(_) => GeneralName::DnsName(Ia5String::new(it)?),
            })
        });
        let names = names.collect::<Result<Vec<_>, der::Error>>()?;
        let usage = match leaf.usage {
            LeafUsage::Server => SERVER_AUTH,
            LeafUsage::Client => CLIENT_AUTH,
        };
        let subject: Name = format!("CN={}", leaf.common_name).parse()?;
        let certificate_pem = self.certify(subject, public_key, names, vec![usage], lifetime, now)?;
        Ok(Issued {
            certificate_pem,
            key_pem,
        })
    }

    fn certify(
        &self,
        subject: Name,
        public_key: SubjectPublicKeyInfoOwned,
        names: Vec<GeneralName>,
        usages: Vec<ObjectIdentifier>,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<String, AuthorityError> {
        let own = self.certificate.tbs_certificate();
        let until = timestamp(own.validity().not_after);
        if until <= now {
            return Err(AuthorityError::Expired(until));
        }
        let not_before = (now - BACKDATE).max(timestamp(own.validity().not_before)).min(now);
        let not_after = SignedDuration::try_from(lifetime)
            .ok()
            .and_then(|it| now.checked_add(it).ok())
            .map_or(until, |it| it.min(until));
        let contents = Contents {
            subject,
            issuer: own.subject().clone(),
            extensions: self.extensions(names, usages, &public_key)?,
        };
        let validity = Validity::new(time(not_before)?, time(not_after)?);
        let half = Half {
            algorithm: self.key.algorithm()?,
            public: Public(own.subject_public_key_info().to_der()?),
        };
        let mut builder = CertificateBuilder::new(contents, serial()?, validity, public_key)?;
        let unsigned = builder.finalize(&half)?;
        let signature = BitString::from_bytes(&self.key.sign(&unsigned)?)?;
        let certificate = builder.assemble(signature, &half)?;
        Ok(certificate.to_pem(LineEnding::LF)?)
    }

    fn extensions(
        &self,
        names: Vec<GeneralName>,
        usages: Vec<ObjectIdentifier>,
        key: &SubjectPublicKeyInfoOwned,
    ) -> Result<Vec<Extension>, der::Error> {
        let mut extensions = vec![
            extension(
                &KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyEncipherment),
                true,
            )?,
            extension(&ExtendedKeyUsage(usages), false)?,
            extension(
                &BasicConstraints {
                    ca: false,
                    path_len_constraint: None,
                },
                true,
            )?,
            extension(&SubjectKeyIdentifier(identifier(key)?), false)?,
            extension(
                &AuthorityKeyIdentifier {
                    key_identifier: Some(self.identifier()?),
                    ..AuthorityKeyIdentifier::default()
                },
                false,
            )?,
        ];
        if !names.is_empty() {
            extensions.push(extension(&SubjectAltName(names), false)?);
        }
        Ok(extensions)
    }

    // What the authority calls itself, so that a certificate leads to it.
    fn identifier(&self) -> Result<OctetString, der::Error> {
        let own = self.certificate.tbs_certificate();
        let named = own.get_extension::<SubjectKeyIdentifier>().ok().flatten();
        match named {
            Some((_, it)) => Ok(it.0),
            None => identifier(own.subject_public_key_info()),
        }
    }
}

impl Key {
    fn read(der: &[u8], of: &AlgorithmIdentifierOwned) -> Result<Self, AuthorityError> {
        let unknown = |_| AuthorityError::UnknownKey;
        if of.oid == RSA {
            let read = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der));
            return read.map(Self::Rsa).map_err(unknown);
        }
        let curve = of
            .parameters
            .as_ref()
            .and_then(|it| it.decode_as::<ObjectIdentifier>().ok());
        let algorithm = match curve {
            Some(P256) if of.oid == EC => &ECDSA_P256_SHA256_ASN1_SIGNING,
            Some(P384) if of.oid == EC => &ECDSA_P384_SHA384_ASN1_SIGNING,
            Some(P521) if of.oid == EC => &ECDSA_P521_SHA512_ASN1_SIGNING,
            _ => return Err(AuthorityError::UnknownKey),
        };
        // Takes PKCS#8 and SEC1 alike.
        EcdsaKeyPair::from_private_key_der(algorithm, der)
            .map(Self::Ec)
            .map_err(unknown)
    }

    fn public(&self) -> &[u8] {
        match self {
            Self::Rsa(key) => key.public_key().as_ref(),
            Self::Ec(key) => key.public_key().as_ref(),
        }
    }

    fn algorithm(&self) -> Result<AlgorithmIdentifierOwned, der::Error> {
        Ok(match self {
            Self::Rsa(_) => AlgorithmIdentifierOwned {
                oid: RSA_SHA256,
                parameters: Some(Any::null()),
            },
            Self::Ec(key) => AlgorithmIdentifierOwned {
                // An uncompressed point: a byte, and two numbers of the size of the curve.
                oid: match key.public_key().as_ref().len() {
                    65 => ECDSA_SHA256,
                    97 => ECDSA_SHA384,
                    _ => ECDSA_SHA512,
                },
                parameters: None,
            },
        })
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, AuthorityError> {
        let failed = |_| AuthorityError::Build("the key does not sign".to_owned());
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let mut signed = vec![0; key.public_modulus_len()];
                key.sign(&signature::RSA_PKCS1_SHA256, &random, message, &mut signed)
                    .map_err(failed)?;
                Ok(signed)
            }
            Self::Ec(key) => Ok(key.sign(&random, message).map_err(failed)?.as_ref().to_vec()),
        }
    }
}

fn blocks(pem: &[u8]) -> impl Iterator<Item = Pem> + '_ {
    Pem::iter_from_buffer(pem).map_while(Result::ok)
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
    ) -> builder::Result<Vec<Extension>> {
        Ok(self.extensions.clone())
    }
}

// What the builder wants to know of a key; the signature itself is made outside of it,
// because the key may be of any kind.
struct Half {
    algorithm: AlgorithmIdentifierOwned,
    public: Public,
}

#[derive(Clone)]
struct Public(Vec<u8>);

impl Keypair for Half {
    type VerifyingKey = Public;

    fn verifying_key(&self) -> Public {
        self.public.clone()
    }
}

impl DynSignatureAlgorithmIdentifier for Half {
    fn signature_algorithm_identifier(&self) -> spki::Result<AlgorithmIdentifierOwned> {
        Ok(self.algorithm.clone())
    }
}

impl EncodePublicKey for Public {
    fn to_public_key_der(&self) -> spki::Result<Document> {
        Ok(Document::try_from(self.0.as_slice())?)
    }
}

fn extension<T: AssociatedOid + Encode>(value: &T, critical: bool) -> Result<Extension, der::Error> {
    Ok(Extension {
        extn_id: T::OID,
        critical,
        extn_value: OctetString::new(value.to_der()?)?,
    })
}

fn identifier(key: &SubjectPublicKeyInfoOwned) -> Result<OctetString, der::Error> {
    OctetString::new(&Sha256::digest(key.subject_public_key.raw_bytes())[..20])
}

fn serial() -> Result<SerialNumber, der::Error> {
    let mut bytes: [u8; 16] = rand::random();
    // The top bit clear keeps it positive without a padding byte; the next one set keeps its length.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    SerialNumber::new(&bytes)
}

fn time(at: Timestamp) -> Result<Time, der::Error> {
    let seconds = u64::try_from(at.as_second()).unwrap_or_default();
    Ok(Time::GeneralTime(GeneralizedTime::from_unix_duration(
        Duration::from_secs(seconds),
    )?))
}

fn timestamp(time: Time) -> Timestamp {
    let seconds = i64::try_from(time.to_unix_duration().as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
#[path = "authority_tests.rs"]
mod tests;
