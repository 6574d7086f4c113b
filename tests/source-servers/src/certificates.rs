//! Certificates for the servers here and for those who ask them.

use p256::{
    SecretKey,
    ecdsa::{DerSignature, SigningKey},
    elliptic_curve::Generate,
    pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding},
};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use std::{sync::Arc, time::Duration};
use x509_cert::{
    Certificate, TbsCertificate,
    builder::{Builder, CertificateBuilder, profile::BuilderProfile},
    der::{
        Decode, Encode, EncodePem,
        asn1::{Ia5String, ObjectIdentifier, OctetString},
        oid::AssociatedOid,
    },
    ext::{
        Extension,
        pkix::{BasicConstraints, ExtendedKeyUsage, SubjectAltName, name::GeneralName},
    },
    name::Name,
    serial_number::SerialNumber,
    spki::{SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef},
    time::{Time, Validity},
};

/// For servers and for clients.
const USAGES: [&str; 2] = ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"];

/// Signs certificates.
pub struct Signer {
    key: SigningKey,
    /// Its own certificate, in PEM.
    pub pem: String,
    certificate: Certificate,
}

struct Draft {
    subject: &'static str,
    is_authority: bool,
}

impl BuilderProfile for Draft {
    fn get_issuer(&self, _: &Name) -> Name {
        "CN=authority".parse().unwrap()
    }

    fn get_subject(&self) -> Name {
        self.subject.parse().unwrap()
    }

    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        _: &TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        let constraints = BasicConstraints {
            ca: self.is_authority,
            path_len_constraint: None,
        };
        let name = GeneralName::DnsName(Ia5String::new("localhost")?);
        let usages = USAGES.map(ObjectIdentifier::new_unwrap).to_vec();
        Ok(vec![
            extension(&constraints, true),
            extension(&SubjectAltName(vec![name]), false),
            extension(&ExtendedKeyUsage(usages), false),
        ])
    }
}

fn extension<T: AssociatedOid + Encode>(value: &T, critical: bool) -> Extension {
    Extension {
        extn_id: T::OID,
        critical,
        extn_value: OctetString::new(value.to_der().unwrap()).unwrap(),
    }
}

fn signed(draft: Draft, key: &SigningKey, signer: &SigningKey) -> Certificate {
    let now = std::time::SystemTime::now();
    let hour = Duration::from_secs(3600);
    let validity = Validity::new(Time::try_from(now - hour).unwrap(), Time::try_from(now + hour).unwrap());
    let public = key.verifying_key().to_public_key_der().unwrap();
    let public = SubjectPublicKeyInfoOwned::from_der(public.as_bytes()).unwrap();
    let serial = SerialNumber::new(&rand::random::<[u8; 8]>().map(|it| it & 0x7f | 1)).unwrap();
    CertificateBuilder::new(draft, serial, validity, public)
        .unwrap()
        .build::<_, DerSignature>(signer)
        .unwrap()
}

impl Signer {
    /// One with a new key.
    pub fn generate() -> Self {
        let key = SigningKey::from(&SecretKey::generate());
        let draft = Draft {
            subject: "CN=authority",
            is_authority: true,
        };
        let certificate = signed(draft, &key, &key);
        Self {
            pem: certificate.to_pem(LineEnding::LF).unwrap(),
            key,
            certificate,
        }
    }

    /// A certificate for `localhost` and its key, in PEM.
    pub fn issue(&self, subject: &'static str) -> (String, String) {
        let key = SigningKey::from(&SecretKey::generate());
        let draft = Draft {
            subject,
            is_authority: false,
        };
        let certificate = signed(draft, &key, &self.key);
        let key = SecretKey::from(&key).to_pkcs8_pem(LineEnding::LF).unwrap();
        (certificate.to_pem(LineEnding::LF).unwrap(), key.to_string())
    }

    /// What a server for `localhost` speaks TLS with, and whether it wants to see who asks.
    pub fn server(&self, wants_clients: bool) -> ServerConfig {
        let key = SigningKey::from(&SecretKey::generate());
        let draft = Draft {
            subject: "CN=server",
            is_authority: false,
        };
        let certificate = signed(draft, &key, &self.key);
        let chain = vec![CertificateDer::from(certificate.to_der().unwrap())];
        let der = SecretKey::from(&key).to_pkcs8_der().unwrap().as_bytes().to_vec();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(der));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if wants_clients {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from(self.certificate.to_der().unwrap()))
                .unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        builder.with_single_cert(chain, key).unwrap()
    }
}
