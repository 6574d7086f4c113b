use aws_lc_rs::{
    encoding::{AsDer, Pkcs8V1Der},
    rsa::KeySize,
    signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey},
};
use x509_cert::der::pem;
use x509_parser::{certificate::X509Certificate, prelude::FromDer};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

fn encoded(label: &str, der: &[u8]) -> Vec<u8> {
    pem::encode_string(label, LineEnding::LF, der).unwrap().into_bytes()
}

/// A self-signed authority until a day after `now`, as PEM, and its key as PKCS#8 and as what is inside of that:
/// PKCS#1 for RSA, SEC1 for EC.
struct Made {
    certificate: Vec<u8>,
    pkcs8: Vec<u8>,
    inner: Vec<u8>,
}

fn inner(pkcs8: &[u8]) -> Vec<u8> {
    let info = p256::pkcs8::PrivateKeyInfoRef::try_from(pkcs8).unwrap();
    info.private_key.as_bytes().to_vec()
}

fn self_signed(key: &Key, public: AlgorithmIdentifierOwned) -> Vec<u8> {
    let public_key = SubjectPublicKeyInfoOwned {
        algorithm: public,
        subject_public_key: BitString::from_bytes(key.public()).unwrap(),
    };
    let subject = credential::csr::name(&credential::csr::CertificateSubject {
        common_name: "authority".to_owned(),
        organizations: Vec::new(),
        organizational_units: Vec::new(),
        dns_names: Vec::new(),
    })
    .unwrap();
    let contents = Contents {
        issuer: subject.clone(),
        subject,
        extensions: vec![
            extension(
                &BasicConstraints {
                    ca: true,
                    path_len_constraint: None,
                },
                true,
            )
            .unwrap(),
        ],
    };
    let half = Half {
        algorithm: key.algorithm().unwrap(),
        public: Public(public_key.to_der().unwrap()),
    };
    let day = SignedDuration::from_hours(24);
    let validity = Validity::new(time(now() - day).unwrap(), time(now() + day).unwrap());
    let mut builder = CertificateBuilder::new(contents, serial().unwrap(), validity, public_key).unwrap();
    let unsigned = builder.finalize(&half).unwrap();
    let signature = BitString::from_bytes(&key.sign(&unsigned).unwrap()).unwrap();
    let certificate = builder.assemble(signature, &half).unwrap();
    certificate.to_pem(LineEnding::LF).unwrap().into_bytes()
}

fn rsa() -> Made {
    let key = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let pkcs8 = AsDer::<Pkcs8V1Der<'_>>::as_der(&key).unwrap().as_ref().to_vec();
    let algorithm = AlgorithmIdentifierOwned {
        oid: RSA,
        parameters: Some(Any::null()),
    };
    Made {
        certificate: self_signed(&Key::Rsa(key), algorithm),
        inner: inner(&pkcs8),
        pkcs8,
    }
}

fn ec(curve: ObjectIdentifier, algorithm: &'static aws_lc_rs::signature::EcdsaSigningAlgorithm) -> Made {
    let key = EcdsaKeyPair::generate(algorithm).unwrap();
    let pkcs8 = key.to_pkcs8v1().unwrap().as_ref().to_vec();
    let algorithm = AlgorithmIdentifierOwned {
        oid: EC,
        parameters: Some(Any::encode_from(&curve).unwrap()),
    };
    Made {
        certificate: self_signed(&Key::Ec(key), algorithm),
        inner: inner(&pkcs8),
        pkcs8,
    }
}

fn asked() -> Asked {
    let subject = credential::csr::CertificateSubject {
        common_name: "c1-greeter".to_owned(),
        organizations: vec!["b".to_owned(), "a".to_owned()],
        organizational_units: vec!["north".to_owned()],
        dns_names: vec!["greeter.addon.open-cluster-management.io".to_owned()],
    };
    let pem = credential::csr::new_key_and_request(&subject).unwrap().request_pem;
    let mut request = k8s_openapi::api::certificates::v1::CertificateSigningRequest::default();
    request.spec.request = k8s_openapi::ByteString(pem.into_bytes());
    super::super::request::read(&request).unwrap()
}

fn signed(authority: &Authority, lifetime: Duration) -> Vec<u8> {
    let pem = authority.sign(&asked(), lifetime, now()).unwrap();
    blocks(pem.as_bytes()).next().unwrap().contents
}

#[test]
fn keys_of_every_kind_sign_what_their_certificate_verifies() {
    let (rsa, small) = (rsa(), ec(P256, &ECDSA_P256_SHA256_ASN1_SIGNING));
    let large = ec(P384, &ECDSA_P384_SHA384_ASN1_SIGNING);
    let kinds: [(
        &str,
        &Made,
        &[u8],
        &'static dyn aws_lc_rs::signature::VerificationAlgorithm,
    ); 6] = [
        ("PRIVATE KEY", &rsa, &rsa.pkcs8, &RSA_PKCS1_2048_8192_SHA256),
        ("RSA PRIVATE KEY", &rsa, &rsa.inner, &RSA_PKCS1_2048_8192_SHA256),
        ("PRIVATE KEY", &small, &small.pkcs8, &ECDSA_P256_SHA256_ASN1),
        ("EC PRIVATE KEY", &small, &small.inner, &ECDSA_P256_SHA256_ASN1),
        ("PRIVATE KEY", &large, &large.pkcs8, &ECDSA_P384_SHA384_ASN1),
        ("EC PRIVATE KEY", &large, &large.inner, &ECDSA_P384_SHA384_ASN1),
    ];
    for (label, made, key, algorithm) in kinds {
        let authority = Authority::read(&made.certificate, &encoded(label, key)).unwrap();
        let certificate = signed(&authority, HOUR);
        let (_, parsed) = X509Certificate::from_der(&certificate).unwrap();
        let public = UnparsedPublicKey::new(algorithm, authority.key.public());
        public
            .verify(parsed.tbs_certificate.as_ref(), &parsed.signature_value.data)
            .unwrap_or_else(|_| panic!("{label}"));
    }
}

#[test]
fn a_signed_certificate_has_exactly_the_requested_subject_and_usages() {
    let made = ec(P256, &ECDSA_P256_SHA256_ASN1_SIGNING);
    let authority = Authority::read(&made.certificate, &encoded("PRIVATE KEY", &made.pkcs8)).unwrap();
    let certificate = signed(&authority, HOUR);
    let (_, parsed) = X509Certificate::from_der(&certificate).unwrap();
    assert_eq!(parsed.subject().to_string(), "O=a + O=b, OU=north, CN=c1-greeter");
    assert_eq!(parsed.issuer().to_string(), "CN=authority");
    let names = parsed.subject_alternative_name().unwrap().unwrap();
    assert_eq!(
        format!("{:?}", names.value.general_names),
        "[DNSName(\"greeter.addon.open-cluster-management.io\")]"
    );
    assert!(!parsed.is_ca());
    let usage = parsed.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && usage.key_encipherment() && !usage.key_cert_sign());
    let extended = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.client_auth && extended.server_auth);
    assert_eq!(parsed.validity().not_after.timestamp(), now().as_second() + 3600);
    assert!(parsed.validity().not_before.timestamp() < now().as_second());
}

#[test]
fn no_certificate_outlives_its_authority() {
    let made = ec(P256, &ECDSA_P256_SHA256_ASN1_SIGNING);
    let authority = Authority::read(&made.certificate, &encoded("PRIVATE KEY", &made.pkcs8)).unwrap();
    let certificate = signed(&authority, HOUR * 48);
    let (_, parsed) = X509Certificate::from_der(&certificate).unwrap();
    assert_eq!(parsed.validity().not_after.timestamp(), now().as_second() + 24 * 3600);
    let later = now() + SignedDuration::from_hours(25);
    assert_eq!(
        authority.sign(&asked(), HOUR, later).unwrap_err().to_string(),
        "the authority's certificate has expired at 2026-06-02T12:00:00Z"
    );
}

#[test]
fn what_is_no_authority_is_refused_and_says_why() {
    let (one, other) = (
        ec(P256, &ECDSA_P256_SHA256_ASN1_SIGNING),
        ec(P256, &ECDSA_P256_SHA256_ASN1_SIGNING),
    );
    let why = |certificate: &[u8], key: &[u8]| Authority::read(certificate, key).err().unwrap().to_string();
    let key = encoded("PRIVATE KEY", &one.pkcs8);
    assert_eq!(why(b"", &key), "tls.crt holds no PEM certificate");
    assert_eq!(why(&one.certificate, b""), "tls.key holds no PEM private key");
    assert_eq!(
        why(&other.certificate, &key),
        "tls.key is not the key of the certificate in tls.crt"
    );
    assert!(why(&rsa().certificate, &key).starts_with("tls.key is neither an RSA key nor an EC key"));
}

#[test]
fn a_certificate_is_issued_for_names_and_addresses() {
    let (authority_pem, key_pem) = Authority::create("authority", HOUR * 48, now()).unwrap();
    let authority = Authority::read(authority_pem.as_bytes(), key_pem.as_bytes()).unwrap();
    let leaf = Leaf {
        common_name: "a:b".to_owned(),
        names: ["*", "*.example.com", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
        usage: LeafUsage::Server,
    };
    let issued = authority.issue(&leaf, HOUR, now()).unwrap();
    let der = blocks(issued.certificate_pem.as_bytes()).next().unwrap().contents;
    let (_, certificate) = X509Certificate::from_der(&der).unwrap();
    let der = blocks(authority_pem.as_bytes()).next().unwrap().contents;
    let (_, signer) = X509Certificate::from_der(&der).unwrap();
    assert!(Authority::has_signed(&signer, &certificate));
    let common_name = certificate.subject().iter_common_name().next().unwrap();
    assert_eq!(common_name.as_str(), Ok("a:b"));
    let names = certificate.subject_alternative_name().unwrap().unwrap();
    assert_eq!(names.value.general_names.len(), 4);
    let usage = certificate.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && !usage.client_auth);
    let end = certificate.validity().not_after.timestamp();
    assert_eq!(end, now().as_second() + 3600);
    assert!(
        EcdsaKeyPair::from_private_key_der(
            &ECDSA_P256_SHA256_ASN1_SIGNING,
            &blocks(issued.key_pem.as_bytes()).next().unwrap().contents,
        )
        .is_ok()
    );
}
