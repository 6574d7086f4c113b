use std::time::Duration;

use k8s_openapi::{
    ByteString,
    api::certificates::v1::{CertificateSigningRequestCondition, CertificateSigningRequestStatus},
};
use p256::{
    SecretKey,
    ecdsa::{DerSignature, SigningKey},
    elliptic_curve::Generate,
    pkcs8::LineEnding,
};
use x509_cert::{
    builder::{Builder, CertificateBuilder, profile::BuilderProfile},
    certificate::TbsCertificate,
    der::{Decode, DecodePem, EncodePem},
    ext::Extension,
    name::Name,
    request::CertReq,
    serial_number::SerialNumber,
    spki::{SubjectPublicKeyInfoOwned, SubjectPublicKeyInfoRef},
    time::Validity,
};

use super::*;
use crate::csr::{KeyAndRequest, new_key_and_request};

// A bare client certificate: subject and key of the request, no extensions.
struct Client(Name);

impl BuilderProfile for Client {
    fn get_issuer(&self, _: &Name) -> Name {
        "CN=ca".parse().unwrap()
    }
    fn get_subject(&self) -> Name {
        self.0.clone()
    }
    fn build_extensions(
        &self,
        _: SubjectPublicKeyInfoRef<'_>,
        _: SubjectPublicKeyInfoRef<'_>,
        _: &TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        Ok(Vec::new())
    }
}

fn sign(made: &KeyAndRequest, lifetime: Duration) -> Vec<u8> {
    let request = CertReq::from_pem(&made.request_pem).unwrap();
    let ca = SigningKey::from(&SecretKey::generate());
    let key = SubjectPublicKeyInfoOwned::from_der(&x509_cert::der::Encode::to_der(&request.info.public_key).unwrap());
    let validity = Validity::from_now(lifetime).unwrap();
    let builder = CertificateBuilder::new(
        Client(request.info.subject),
        SerialNumber::from(1u32),
        validity,
        key.unwrap(),
    )
    .unwrap();
    builder
        .build::<_, DerSignature>(&ca)
        .unwrap()
        .to_pem(LineEnding::LF)
        .unwrap()
        .into_bytes()
}

fn subject() -> CertificateSubject {
    CertificateSubject::agent("cluster1", "a1b2c")
}

fn seen() -> Seen {
    Seen {
        now: Timestamp::now(),
        threshold: 0.2,
        subject: subject(),
        additional: Data::from([("cluster-name".to_owned(), b"cluster1".to_vec())]),
        data: Data::new(),
        pending: None,
        requests: 0,
    }
}

fn holding(lifetime: Duration) -> Seen {
    let made = new_key_and_request(&subject()).unwrap();
    let mut seen = seen();
    seen.data = seen.additional.clone();
    seen.data.insert(TLS_CRT.to_owned(), sign(&made, lifetime));
    seen.data.insert(TLS_KEY.to_owned(), made.key_pem.into_bytes());
    seen
}

fn pending(made: &KeyAndRequest, condition: Option<&str>, certificate: Option<Vec<u8>>) -> Option<Pending> {
    let mut csr = request("cluster1", &made.request_pem, None);
    csr.metadata.name = Some("cluster1-x7k2p".to_owned());
    let condition = condition.map(|type_| {
        vec![CertificateSigningRequestCondition {
            type_: type_.to_owned(),
            status: "True".to_owned(),
            message: Some("because".to_owned()),
            ..CertificateSigningRequestCondition::default()
        }]
    });
    csr.status = Some(CertificateSigningRequestStatus {
        conditions: condition,
        certificate: certificate.map(ByteString),
    });
    Some(Pending {
        name: "cluster1-x7k2p".to_owned(),
        key_pem: made.key_pem.clone(),
        request: Some(csr),
    })
}

#[test]
fn without_a_certificate_one_is_requested() {
    assert_eq!(
        decide(&seen()),
        CertificateDecision::Create {
            why: "there is no client certificate".to_owned()
        }
    );
}

#[test]
fn ten_requests_on_the_hub_stop_further_ones() {
    let seen = Seen {
        requests: REQUESTS_MAX,
        ..seen()
    };
    assert_eq!(
        decide(&seen),
        CertificateDecision::Refuse {
            why: TOO_MANY.to_owned()
        }
    );
}

#[test]
fn a_certificate_is_kept_for_four_fifths_of_its_life() {
    let seen = holding(Duration::from_secs(1000));
    let CertificateDecision::Keep { until } = decide(&seen) else {
        panic!("{:?}", decide(&seen))
    };
    let seconds = until.duration_since(seen.now).as_secs();
    assert!((790..=801).contains(&seconds), "{seconds}");
}

#[test]
fn a_certificate_is_renewed_when_the_threshold_is_reached() {
    let mut seen = holding(Duration::from_secs(1000));
    seen.now += Duration::from_secs(790);
    assert!(matches!(decide(&seen), CertificateDecision::Keep { .. }));
    seen.now += Duration::from_secs(15);
    assert!(matches!(decide(&seen), CertificateDecision::Create { .. }));
}

#[test]
fn another_cluster_name_needs_another_certificate() {
    let seen = Seen {
        subject: CertificateSubject::agent("cluster10", "a1b2c"),
        ..holding(Duration::from_secs(1000))
    };
    assert_eq!(
        decide(&seen),
        CertificateDecision::Create {
            why: "the client certificate is for another subject".to_owned()
        }
    );
}

#[test]
fn a_request_waits_for_approval_and_then_for_the_signer() {
    let made = new_key_and_request(&subject()).unwrap();
    let waits = |condition| {
        decide(&Seen {
            pending: pending(&made, condition, None),
            ..seen()
        })
    };
    assert_eq!(
        waits(None),
        CertificateDecision::Wait {
            why: "the certificate signing request cluster1-x7k2p is not approved yet".to_owned()
        }
    );
    assert_eq!(
        waits(Some("Approved")),
        CertificateDecision::Wait {
            why: "the certificate signing request cluster1-x7k2p is not signed yet".to_owned()
        }
    );
    assert_eq!(
        waits(Some("Denied")),
        CertificateDecision::Refuse {
            why: "the certificate signing request cluster1-x7k2p is denied: because".to_owned()
        }
    );
}

#[test]
fn an_issued_certificate_is_saved_with_key_and_additional_data() {
    let made = new_key_and_request(&subject()).unwrap();
    let certificate = sign(&made, Duration::from_secs(1000));
    let decision = decide(&Seen {
        pending: pending(&made, Some("Approved"), Some(certificate)),
        ..seen()
    });
    let CertificateDecision::Save { data, .. } = decision else {
        panic!("{decision:?}")
    };
    assert_eq!(
        data.keys().map(String::as_str).collect::<Vec<_>>(),
        ["cluster-name", "tls.crt", "tls.key"]
    );
    assert!(matches!(
        decide(&Seen { data, ..seen() }),
        CertificateDecision::Keep { .. }
    ));
}

#[test]
fn a_certificate_for_another_key_is_not_saved() {
    let (made, other) = (
        new_key_and_request(&subject()).unwrap(),
        new_key_and_request(&subject()).unwrap(),
    );
    let certificate = sign(&other, Duration::from_secs(1000));
    let decision = decide(&Seen {
        pending: pending(&made, Some("Approved"), Some(certificate)),
        ..seen()
    });
    assert!(matches!(decision, CertificateDecision::Reset { .. }), "{decision:?}");
}

#[test]
fn requests_of_cluster10_are_not_those_of_cluster1() {
    let mut csr = request("cluster10", "", None);
    csr.metadata.name = Some("cluster10-abcde".to_owned());
    assert!(is_of_cluster(&csr, "cluster10"));
    assert!(!is_of_cluster(&csr, "cluster1"));
}

#[test]
fn a_rotation_is_reported_with_go_dates() {
    let at = |it: &str| it.parse().unwrap();
    assert_eq!(
        rotated(at("2023-05-28T14:08:57Z"), at("2024-05-27T14:08:57Z")),
        "client certificate rotated starting from 2023-05-28 14:08:57 +0000 UTC to 2024-05-27 14:08:57 +0000 UTC"
    );
}

#[test]
fn requests_older_than_the_current_cluster_are_ignored() {
    let at = |text: &str| Time(text.parse().unwrap());
    let mut request = CertificateSigningRequest::default();
    let noon = at("2026-01-01T12:00:00Z");
    assert!(is_of_life(&request, Some(&noon)), "nobody knows when it was made");
    request.metadata.creation_timestamp = Some(noon.clone());
    assert!(is_of_life(&request, None));
    assert!(is_of_life(&request, Some(&noon)), "in the same second");
    assert!(!is_of_life(&request, Some(&at("2026-01-01T12:00:01Z"))));
}
