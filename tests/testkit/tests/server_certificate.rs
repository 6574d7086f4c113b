//! Which certificates of a server we trust, by the bundle that a kubeconfig names: what Go's clients trust,
//! and nothing else.

use std::{sync::Arc, time::Duration};

use credential::{Connection, KubeconfigSource, kubeconfig};
use kube::config::Kubeconfig;
use p256::{
    SecretKey,
    ecdsa::{DerSignature, SigningKey},
    elliptic_curve::Generate,
    pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding},
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
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

const SERVER_AUTH: &str = "1.3.6.1.5.5.7.3.1";
const CLIENT_AUTH: &str = "1.3.6.1.5.5.7.3.2";

/// A certificate to be; by default one of a server that is no authority.
struct Draft {
    subject: &'static str,
    issuer: &'static str,
    name: &'static str,
    is_authority: bool,
    usage: &'static str,
    /// From and until when it is valid, in hours from now.
    hours: (i64, i64),
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            subject: "CN=server",
            issuer: "CN=authority",
            name: "localhost",
            is_authority: false,
            usage: SERVER_AUTH,
            hours: (-1, 1),
        }
    }
}

impl BuilderProfile for Draft {
    fn get_issuer(&self, _: &Name) -> Name {
        self.issuer.parse().unwrap()
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
        let name = GeneralName::DnsName(Ia5String::new(self.name)?);
        Ok(vec![
            extension(&constraints, true),
            extension(&SubjectAltName(vec![name]), false),
            extension(&ExtendedKeyUsage(vec![ObjectIdentifier::new_unwrap(self.usage)]), false),
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

fn new_key() -> SigningKey {
    SigningKey::from(&SecretKey::generate())
}

/// The certificate of this draft, for `key`, signed by `signer`.
fn signed(draft: Draft, key: &SigningKey, signer: &SigningKey) -> Certificate {
    let now = std::time::SystemTime::now();
    let at = |hours: i64| {
        let far = Duration::from_secs(hours.unsigned_abs() * 3600);
        let at = if hours < 0 { now - far } else { now + far };
        Time::try_from(at).unwrap()
    };
    let validity = Validity::new(at(draft.hours.0), at(draft.hours.1));
    let public = key.verifying_key().to_public_key_der().unwrap();
    let public = SubjectPublicKeyInfoOwned::from_der(public.as_bytes()).unwrap();
    let serial = SerialNumber::new(&rand::random::<[u8; 8]>().map(|it| it & 0x7f | 1)).unwrap();
    CertificateBuilder::new(draft, serial, validity, public)
        .unwrap()
        .build::<_, DerSignature>(signer)
        .unwrap()
}

fn pem(certificates: &[&Certificate]) -> String {
    certificates
        .iter()
        .map(|it| it.to_pem(LineEnding::LF).unwrap())
        .collect()
}

/// An API server that shows this certificate, and says its version whatever it is asked. Returns its port.
async fn server(shown: &Certificate, key: &SigningKey) -> u16 {
    let chain = vec![CertificateDer::from(shown.to_der().unwrap())];
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(
        SecretKey::from(key).to_pkcs8_der().unwrap().as_bytes().to_vec(),
    ));
    credential::connection::install_crypto_provider();
    let mut tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => asked.push(byte),
                    Err(_) => break,
                }
            }
            let body = serde_json::json!({
                "major": "1", "minor": "37", "gitVersion": "v1.37.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": ""
            });
            let body = body.to_string();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    port
}

fn kubeconfig_trusting(port: u16, bundle: &str) -> String {
    let bundle = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bundle);
    format!(
        "{{apiVersion: v1, kind: Config, current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}],
          clusters: [{{name: a, cluster: {{server: 'https://localhost:{port}', certificate-authority-data: {bundle}}}}}],
          users: [{{name: a, user: {{token: word}}}}]}}"
    )
}

/// What becomes of a request to a server that shows this, by the agent's connection: its answer, or the sentence.
async fn asked(shown: &Certificate, key: &SigningKey, bundle: &str) -> String {
    let port = server(shown, key).await;
    let source = KubeconfigSource::Inline(kubeconfig_trusting(port, bundle));
    let loaded = source.read().await.unwrap();
    let client = Connection::new(&loaded.config).unwrap().client();
    let answer = client.apiserver_version().await;
    match &answer {
        Ok(version) => version.git_version.clone(),
        Err(error) => {
            let problem = kubeconfig::explain("the server", error).to_string();
            problem.split(':').next().unwrap_or_default().to_owned()
        }
    }
}

const ANSWERS: &str = "v1.37.0";
const UNKNOWN: &str = "the certificate of the server was signed by an unknown authority";

#[tokio::test]
async fn a_bundled_server_certificate_trusts_exactly_that_certificate() {
    let (authority, key, other) = (new_key(), new_key(), new_key());
    let leaf = |draft: Draft| signed(draft, &key, &authority);
    let own = |draft: Draft| {
        let issuer = draft.subject;
        signed(Draft { issuer, ..draft }, &key, &key)
    };
    let of_other = |draft: Draft| signed(draft, &other, &authority);

    // The exact certificate, whoever signed it, and whether or not it calls itself an authority.
    for shown in [
        leaf(Draft::default()),
        own(Draft::default()),
        own(Draft {
            is_authority: true,
            ..Draft::default()
        }),
    ] {
        assert_eq!(asked(&shown, &key, &pem(&[&shown])).await, ANSWERS);
        // Beside others.
        let bundle = pem(&[&of_other(Draft::default()), &shown]);
        assert_eq!(asked(&shown, &key, &bundle).await, ANSWERS);
    }

    // The name, the time and the usage count as ever.
    let mut table = vec![
        (
            Draft {
                name: "elsewhere",
                ..Draft::default()
            },
            "the certificate of the server is for another name",
        ),
        (
            Draft {
                hours: (-2, -1),
                ..Draft::default()
            },
            "the certificate of the server has expired",
        ),
        (
            Draft {
                hours: (1, 2),
                ..Draft::default()
            },
            "the certificate of the server is not valid yet",
        ),
    ];
    for (draft, said) in table.drain(..) {
        let shown = leaf(draft);
        assert_eq!(asked(&shown, &key, &pem(&[&shown])).await, said);
    }
    let shown = leaf(Draft {
        usage: CLIENT_AUTH,
        ..Draft::default()
    });
    let said = asked(&shown, &key, &pem(&[&shown])).await;
    assert!(said.starts_with("no TLS connection to the server"), "{said}");

    // Another one of the same authority, of the same key, or with the same text is another one.
    let shown = leaf(Draft::default());
    for listed in [leaf(Draft::default()), of_other(Draft::default())] {
        assert_eq!(asked(&shown, &key, &pem(&[&listed])).await, UNKNOWN);
    }
}

#[tokio::test]
async fn a_servers_certificate_in_the_bundle_is_no_authority() {
    let (authority, listed_key, key) = (new_key(), new_key(), new_key());
    let listed = signed(Draft::default(), &listed_key, &authority);
    // What it has signed, as if it were one.
    let draft = Draft {
        subject: "CN=impostor",
        issuer: "CN=server",
        ..Draft::default()
    };
    let shown = signed(draft, &key, &listed_key);
    assert_eq!(asked(&shown, &key, &pem(&[&listed])).await, UNKNOWN);

    let root = Draft {
        subject: "CN=authority",
        is_authority: true,
        ..Draft::default()
    };
    let root = signed(root, &authority, &authority);
    let shown = signed(Draft::default(), &key, &authority);
    assert_eq!(asked(&shown, &key, &pem(&[&root])).await, ANSWERS);
    // An authority of the same name that has not signed it.
    let namesake = Draft {
        subject: "CN=authority",
        is_authority: true,
        ..Draft::default()
    };
    let namesake = signed(namesake, &listed_key, &listed_key);
    assert_eq!(asked(&shown, &key, &pem(&[&namesake])).await, UNKNOWN);
}

#[tokio::test]
async fn an_add_on_agent_trusts_the_servers_own_certificate() {
    let (authority, key) = (new_key(), new_key());
    let shown = signed(Draft::default(), &key, &authority);
    let port = server(&shown, &key).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, kubeconfig_trusting(port, &pem(&[&shown]))).unwrap();
    Kubeconfig::read_from(&path).unwrap();
    let stop = tokio_util::sync::CancellationToken::new();
    let client = ocm_addon_sdk::agent::hub_client(&path, &stop).await.unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().git_version, ANSWERS);
    stop.cancel();
}

#[tokio::test]
async fn a_bundle_file_is_read_again_after_it_changes() {
    let (authority, key, other) = (new_key(), new_key(), new_key());
    let shown = signed(Draft::default(), &key, &authority);
    let before = signed(Draft::default(), &other, &authority);
    let port = server(&shown, &key).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.crt");
    std::fs::write(&file, pem(&[&before])).unwrap();
    let mut config = kube::Config::new(format!("https://localhost:{port}").parse().unwrap());
    config.root_cert = Some(vec![before.to_der().unwrap()]);
    config.root_cert_file = Some(file.clone());
    let client = Connection::new(&config).unwrap().client();
    assert!(client.apiserver_version().await.is_err());
    std::fs::write(&file, "-----BEGIN CERT").unwrap();
    assert!(client.apiserver_version().await.is_err());
    std::fs::write(&file, pem(&[&shown])).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().git_version, ANSWERS);
}
