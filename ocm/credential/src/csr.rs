//! A key and a certificate signing request as Go writes them.
//!
//! Go's `pkix.Name` puts all organizations into ONE relative distinguished name with several values
//! (`O=a + O=b, CN=c`), as PrintableString where the characters allow it. Signers and tests of upstream see exactly
//! that, so we write it that way; common Rust libraries write one RDN each, or drop all but the last.

use std::collections::BTreeSet;

use ocm_api::identity;
use p256::{
    SecretKey,
    ecdsa::{DerSignature, SigningKey},
    elliptic_curve::Generate,
    pkcs8::{EncodePublicKey, LineEnding},
};
use x509_cert::{
    attr::AttributeTypeAndValue,
    builder::{self, Builder},
    der::{
        self, Decode, DecodePem, Encode, EncodePem,
        asn1::{Any, Ia5String, ObjectIdentifier, PrintableStringRef, SetOfVec, Utf8StringRef},
    },
    ext::pkix::{SubjectAltName, name::GeneralName},
    name::{Name, RdnSequence, RelativeDistinguishedName},
    request::{CertReq, RequestBuilder},
};

const ORGANIZATION: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.10");
const ORGANIZATIONAL_UNIT: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.11");
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// For whom a certificate is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSubject {
    /// CN: the user.
    pub common_name: String,
    /// O: the groups.
    pub organizations: Vec<String>,
    /// OU, which only add-ons with a signer of their own make use of.
    pub organizational_units: Vec<String>,
    /// The DNS names to ask for beside the subject. Many signers leave them out of the certificate.
    pub dns_names: Vec<String>,
}

// The name of before, for the time of the change.

impl CertificateSubject {
    /// The subject of the agent of a managed cluster.
    pub fn agent(cluster: &str, agent: &str) -> Self {
        Self {
            common_name: identity::agent_user(cluster, agent),
            organizations: vec![
                identity::cluster_group(cluster),
                identity::MANAGED_CLUSTERS_GROUP.to_owned(),
            ],
            organizational_units: Vec::new(),
            dns_names: Vec::new(),
        }
    }
}

/// A new private key and the request for a certificate for it.
#[derive(Clone)]
pub struct KeyAndRequest {
    /// PEM `EC PRIVATE KEY`.
    pub key_pem: String,
    /// PEM `CERTIFICATE REQUEST`.
    pub request_pem: String,
}

/// Why no request could be made.
#[derive(Debug, thiserror::Error)]
#[error("could not build the certificate signing request: {0}")]
pub struct CsrError(String);

impl From<der::Error> for CsrError {
    fn from(error: der::Error) -> Self {
        Self(error.to_string())
    }
}

impl From<builder::Error> for CsrError {
    fn from(error: builder::Error) -> Self {
        Self(error.to_string())
    }
}

/// Makes a new P-256 key and a request for `subject`.
pub fn new_key_and_request(subject: &CertificateSubject) -> Result<KeyAndRequest, CsrError> {
    request_for(&SecretKey::generate(), subject)
}

/// A request for `subject` with a key that there is already; nothing when it is no PEM of a P-256 key.
pub fn request_with_key(key_pem: &str, subject: &CertificateSubject) -> Option<Result<KeyAndRequest, CsrError>> {
    let key = SecretKey::from_pem(key_pem).ok()?;
    Some(request_for(&key, subject))
}

/// Whether this PEM request asks for a certificate of `subject` for the key.
pub fn asks_for(request_pem: &[u8], key_pem: &str, subject: &CertificateSubject) -> bool {
    let found = CertReq::from_pem(request_pem).ok();
    let Some((found, key)) = found.zip(SecretKey::from_pem(key_pem).ok()) else {
        return false;
    };
    let Ok(public_key) = key.public_key().to_public_key_der() else {
        return false;
    };
    name(subject).is_ok_and(|it| it == found.info.subject)
        && found
            .info
            .public_key
            .to_der()
            .is_ok_and(|it| it == public_key.as_bytes())
}

fn request_for(key: &SecretKey, subject: &CertificateSubject) -> Result<KeyAndRequest, CsrError> {
    let signer = SigningKey::from(key);
    let mut builder = RequestBuilder::new(name(subject)?)?;
    if !subject.dns_names.is_empty() {
        let names = subject.dns_names.iter();
        let names = names.map(|it| Ok(GeneralName::DnsName(Ia5String::new(it)?)));
        builder.add_extension(&SubjectAltName(names.collect::<Result<_, der::Error>>()?))?;
    }
    let request = builder.build::<_, DerSignature>(&signer)?;
    Ok(KeyAndRequest {
        key_pem: key
            .to_sec1_pem(LineEnding::LF)
            .map_err(|error| CsrError(error.to_string()))?
            .to_string(),
        request_pem: request.to_pem(LineEnding::LF)?,
    })
}

/// The distinguished name as Go orders it: all organizations in one RDN, then the common name.
pub fn name(subject: &CertificateSubject) -> Result<Name, CsrError> {
    let mut rdns = Vec::new();
    let common_name = std::slice::from_ref(&subject.common_name);
    for (oid, values) in [
        (ORGANIZATION, subject.organizations.as_slice()),
        (ORGANIZATIONAL_UNIT, &subject.organizational_units),
        (COMMON_NAME, common_name),
    ] {
        let mut set = SetOfVec::new();
        // A set holds each value once, and Go's parser takes a group that is named twice for one as well.
        let once: BTreeSet<_> = values.iter().collect();
        for value in once {
            let value = directory_string(value)?;
            set.insert(AttributeTypeAndValue { oid, value })?;
        }
        if !set.is_empty() {
            rdns.push(RelativeDistinguishedName::from(set));
        }
    }
    // The only way from parts to a Name in this library is through its encoding.
    Ok(Name::from_der(&RdnSequence::from(rdns).to_der()?)?)
}

fn directory_string(text: &str) -> Result<Any, CsrError> {
    Ok(match PrintableStringRef::new(text) {
        Ok(printable) => Any::encode_from(&printable)?,
        Err(_) => Any::encode_from(&Utf8StringRef::new(text)?)?,
    })
}

#[cfg(test)]
mod tests {
    use x509_parser::{certification_request::X509CertificationRequest, prelude::FromDer};

    use super::*;

    fn der_of(pem: &str) -> Vec<u8> {
        x509_parser::pem::Pem::iter_from_buffer(pem.as_bytes())
            .next()
            .expect("one block")
            .expect("a PEM block")
            .contents
    }

    #[test]
    fn all_organizations_share_one_rdn_before_the_common_name() {
        let made = new_key_and_request(&CertificateSubject::agent("cluster1", "a1b2c")).unwrap();
        let der = der_of(&made.request_pem);
        let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
        let subject = &request.certification_request_info.subject;
        let shape: Vec<Vec<(String, String)>> = subject
            .iter_rdn()
            .map(|rdn| {
                rdn.iter()
                    .map(|it| (it.attr_type().to_id_string(), it.as_str().unwrap().to_owned()))
                    .collect()
            })
            .collect();
        let organization = |value: &str| ("2.5.4.10".to_owned(), value.to_owned());
        assert_eq!(
            shape,
            [
                vec![
                    organization("system:open-cluster-management:cluster1"),
                    organization("system:open-cluster-management:managed-clusters")
                ],
                vec![(
                    "2.5.4.3".to_owned(),
                    "system:open-cluster-management:cluster1:a1b2c".to_owned()
                )],
            ]
        );
    }

    #[test]
    fn the_values_are_printable_strings_as_go_writes_them() {
        let subject = name(&CertificateSubject::agent("cluster1", "a1b2c")).unwrap();
        let tags: Vec<_> = subject
            .as_ref()
            .iter()
            .flat_map(|rdn| rdn.iter().map(|it| der::Tagged::tag(&it.value)))
            .collect();
        assert!(tags.iter().all(|it| *it == der::Tag::PrintableString), "{tags:?}");
    }

    #[test]
    fn an_add_on_request_has_its_units_and_dns_name() {
        let subject = CertificateSubject {
            common_name: "user".to_owned(),
            organizations: vec!["b".to_owned(), "a".to_owned(), "b".to_owned()],
            organizational_units: vec!["unit".to_owned()],
            dns_names: vec!["helloworld.addon.open-cluster-management.io".to_owned()],
        };
        let made = new_key_and_request(&subject).unwrap();
        let der = der_of(&made.request_pem);
        let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
        assert_eq!(
            request.certification_request_info.subject.to_string(),
            "O=a + O=b, OU=unit, CN=user"
        );
        let names: Vec<_> = request
            .requested_extensions()
            .unwrap()
            .map(|it| format!("{it:?}"))
            .collect();
        assert_eq!(names.len(), 1);
        assert!(
            names[0].contains("DNSName(\"helloworld.addon.open-cluster-management.io\")"),
            "{names:?}"
        );
    }

    #[test]
    fn every_request_has_its_own_key_and_upstreams_pem_labels() {
        let subject = CertificateSubject::agent("cluster1", "a1b2c");
        let (one, two) = (
            new_key_and_request(&subject).unwrap(),
            new_key_and_request(&subject).unwrap(),
        );
        assert_ne!(one.key_pem, two.key_pem);
        assert!(one.key_pem.starts_with("-----BEGIN EC PRIVATE KEY-----\n"));
        assert!(one.request_pem.starts_with("-----BEGIN CERTIFICATE REQUEST-----\n"));
    }
}
