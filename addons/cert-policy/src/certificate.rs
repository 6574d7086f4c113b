//! A Secret as the controller keeps it: the facts of its certificate, and nothing else of what it holds. Private keys
//! and other data are dropped while the API server's answer is read.
//! Upstream: cert-policy-controller `parseCertificate`, `controllers/util/certificates_util.go`.

use std::collections::BTreeMap;

use base64::{Engine, prelude::BASE64_STANDARD};
use ocm_addon_sdk::{
    k8s_openapi::{NamespaceResourceScope, api::core::v1::Secret},
    kube::{Resource, core::ObjectMeta},
};
use serde::Deserialize;
use x509_parser::{extensions::GeneralName, prelude::FromDer, prelude::X509Certificate};

use crate::pem;

/// Labels of Secrets.
pub mod labels {
    /// Under which key of the data the certificate is, if not under `tls.crt`.
    pub const KEY: &str = "certificate_key_name";
    /// What the certificate is called in reports.
    pub const NAME: &str = "certificate-name";
    /// The same, as cert-manager writes it.
    pub const CERT_MANAGER_NAME: &str = "certmanager.k8s.io/certificate-name";
}

const KEY: &str = "tls.crt";

/// What of a certificate counts. Times are seconds since 1970: a certificate without an end has one that no `Timestamp`
/// holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateFacts {
    /// From when on it is valid.
    pub from: i64,
    /// When it expires.
    pub until: i64,
    /// Whether it is that of an authority.
    pub ca: bool,
    /// The DNS names that it is for.
    pub names: Vec<String>,
}

impl CertificateFacts {
    /// Of the first certificate of a chain; nothing if the text has none, or a block that is no certificate.
    pub fn read(text: &[u8]) -> Option<Self> {
        let mut first = None;
        for block in pem::blocks(text)? {
            let facts = Self::of_der(&block)?;
            first.get_or_insert(facts);
        }
        first
    }

    fn of_der(der: &[u8]) -> Option<Self> {
        let (rest, certificate) = X509Certificate::from_der(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let names = certificate.subject_alternative_name().ok()?;
        let names = names.iter().flat_map(|it| &it.value.general_names);
        let mut names: Vec<String> = names
            .filter_map(|it| match it {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            })
            .collect();
        names.shrink_to_fit();
        let validity = certificate.validity();
        Some(Self {
            from: validity.not_before.timestamp(),
            until: validity.not_after.timestamp(),
            ca: certificate.basic_constraints().ok()?.is_some_and(|it| it.value.ca),
            names,
        })
    }
}

/// A Secret, of which only its certificate is known.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Answer")]
pub struct CertificateSecret {
    /// Name, namespace, UID and version; labels where there is a certificate.
    pub metadata: ObjectMeta,
    /// Its certificate, if it has one.
    pub certificate: Option<CertificateFacts>,
}

impl CertificateSecret {
    /// What the certificate is called.
    pub fn certificate_name(&self) -> &str {
        let label = |name: &str| self.labels().get(name).map(String::as_str).filter(|it| !it.is_empty());
        label(labels::NAME)
            .or_else(|| label(labels::CERT_MANAGER_NAME))
            .unwrap_or_else(|| self.name())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Whether it has these labels.
    pub fn has_labels(&self, wanted: &BTreeMap<String, String>) -> bool {
        let labels = self.labels();
        wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
    }

    /// Whether somebody who looks at certificates sees a difference.
    pub fn differs(&self, other: &Self) -> bool {
        self.certificate != other.certificate || self.metadata.labels != other.metadata.labels
    }

    fn labels(&self) -> &BTreeMap<String, String> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        self.metadata.labels.as_ref().unwrap_or(&NONE)
    }
}

/// What the API server says of a Secret.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    data: Option<BTreeMap<String, Option<String>>>,
}

impl From<Answer> for CertificateSecret {
    fn from(Answer { metadata, data }: Answer) -> Self {
        let key = metadata.labels.as_ref().and_then(|it| it.get(labels::KEY));
        let key = key.map(String::as_str).filter(|it| !it.is_empty()).unwrap_or(KEY);
        let text = data.as_ref().and_then(|it| it.get(key)?.as_deref());
        let bytes = text.and_then(|it| BASE64_STANDARD.decode(it).ok());
        let certificate = bytes.and_then(|it| CertificateFacts::read(&it));
        Self {
            metadata: ObjectMeta {
                name: metadata.name,
                namespace: metadata.namespace,
                uid: metadata.uid,
                resource_version: metadata.resource_version,
                labels: metadata.labels.filter(|_| certificate.is_some()),
                ..ObjectMeta::default()
            },
            certificate,
        }
    }
}

impl Resource for CertificateSecret {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind(_: &()) -> std::borrow::Cow<'_, str> {
        Secret::kind(&())
    }
    fn group(_: &()) -> std::borrow::Cow<'_, str> {
        Secret::group(&())
    }
    fn version(_: &()) -> std::borrow::Cow<'_, str> {
        Secret::version(&())
    }
    fn plural(_: &()) -> std::borrow::Cow<'_, str> {
        Secret::plural(&())
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::made::{Made, pem};

    fn secret(labels: Value, data: &[(&str, &str)]) -> CertificateSecret {
        let data: BTreeMap<_, _> = data
            .iter()
            .map(|(key, it)| (*key, BASE64_STANDARD.encode(it)))
            .collect();
        let answer = json!({
            "kind": "Secret", "apiVersion": "v1", "type": "kubernetes.io/tls", "data": data,
            "metadata": {
                "name": "s", "namespace": "ns", "uid": "u", "resourceVersion": "3", "labels": labels,
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\": {\"tls.key\": \"a2V5\"}}"},
            },
        });
        serde_json::from_value(answer).unwrap()
    }

    fn certificate() -> String {
        pem(&Made {
            from: 1_000,
            until: 5_000,
            ca: true,
            names: &["a.example", "*.b.example"],
        })
    }

    #[test]
    fn of_a_secret_only_its_certificate_is_kept() {
        let kept = secret(
            json!({"a": "b"}),
            &[("tls.crt", &certificate()), ("tls.key", "private")],
        );
        let facts = CertificateFacts {
            from: 1_000,
            until: 5_000,
            ca: true,
            names: vec!["a.example".to_owned(), "*.b.example".to_owned()],
        };
        assert_eq!(kept.certificate.as_ref(), Some(&facts));
        let text = format!("{kept:?}");
        assert!(
            !text.contains("private") && !text.contains("a2V5") && !text.contains("CERTIFICATE"),
            "{text}"
        );
        let other = secret(json!({"a": "b"}), &[("ca.crt", &certificate())]);
        assert!(other.certificate.is_none() && other.metadata.labels.is_none());
    }

    #[test]
    fn a_label_names_the_key_of_the_certificate() {
        let labels = json!({"certificate_key_name": "ca.crt"});
        assert!(
            secret(labels.clone(), &[("ca.crt", &certificate())])
                .certificate
                .is_some()
        );
        assert!(secret(labels, &[("tls.crt", &certificate())]).certificate.is_none());
        let empty = json!({"certificate_key_name": ""});
        assert!(secret(empty, &[("tls.crt", &certificate())]).certificate.is_some());
    }

    #[test]
    fn labels_name_the_certificate_in_reports() {
        let named = |labels: Value| {
            let secret = secret(labels, &[("tls.crt", &certificate())]);
            secret.certificate_name().to_owned()
        };
        assert_eq!(named(json!({})), "s");
        assert_eq!(named(json!({"certmanager.k8s.io/certificate-name": "c"})), "c");
        assert_eq!(
            named(json!({"certmanager.k8s.io/certificate-name": "c", "certificate-name": "d"})),
            "d"
        );
        assert_eq!(named(json!({"certificate-name": ""})), "s");
    }

    #[test]
    fn a_chain_counts_as_its_first_certificate() {
        let issuer = pem(&Made {
            until: 9_000,
            ..Made::default()
        });
        let facts = CertificateFacts::read(format!("{}{issuer}", certificate()).as_bytes());
        assert_eq!(facts.unwrap().until, 5_000);
    }

    #[test]
    fn what_is_no_certificate_makes_it_none() {
        let key = "-----BEGIN PRIVATE KEY-----\nYWJj\n-----END PRIVATE KEY-----\n";
        assert_eq!(CertificateFacts::read(key.as_bytes()), None);
        assert_eq!(
            CertificateFacts::read(format!("{}{key}", certificate()).as_bytes()),
            None
        );
        assert_eq!(CertificateFacts::read(b"text"), None);
        let cut = certificate().replacen("MII", "MIJ", 1);
        assert_eq!(CertificateFacts::read(cut.as_bytes()), None);
    }
}
