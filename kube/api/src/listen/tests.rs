use super::*;
use crate::{
    authn::Authenticator,
    fixture,
    pki::{KeyPair, Pki},
    tls,
};
use http::StatusCode;
use http_body_util::{BodyExt, Empty, Full};
use rustls::{
    ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore, SupportedProtocolVersion,
    pki_types::{PrivateKeyDer, ServerName, pem::PemObject},
    version::{TLS12, TLS13},
};
use std::net::SocketAddr;
use tokio::task::JoinHandle;
use tokio_rustls::{TlsConnector, client};

struct Server {
    pki: Arc<Pki>,
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// A server that answers with the user's name and groups.
async fn start() -> Server {
    let now = jiff::Timestamp::now();
    let pki = Arc::new(Pki::open(None, &[], now).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Arc::new(ArcSwap::new(tls::server_config(&pki, &[]).unwrap()));
    let authenticator = Arc::new(Authenticator::new(fixture::store(&[]), pki.clone()).unwrap());
    let stop = CancellationToken::new();
    let handler = move |request: Request<Incoming>, peer: Option<Arc<PeerCertificate>>| {
        let found = authenticator.authenticate(request.headers(), peer.as_deref(), jiff::Timestamp::now());
        async move {
            let (code, text) = match found {
                Ok(user) => (200, format!("{} {:?}", user.username, user.groups)),
                Err(status) => (status.code, status.message),
            };
            Response::builder()
                .status(code)
                .body(Full::new(Bytes::from(text)))
                .unwrap()
        }
    };
    let task = tokio::spawn(serve(listener, config, handler, stop.clone()));
    Server {
        pki,
        address,
        stop,
        task,
    }
}

fn client(
    pki: &Pki,
    pair: Option<&KeyPair>,
    alpn: &[&str],
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(pki.authority().der().clone()).unwrap();
    let builder = ClientConfig::builder_with_provider(tls::provider())
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match pair {
        None => builder.with_no_client_auth(),
        Some(pair) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(pair.certificate_pem.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(pair.key_pem.as_bytes()).unwrap(),
            )
            .unwrap(),
    };
    config.alpn_protocols = alpn.iter().map(|it| it.as_bytes().to_vec()).collect();
    Arc::new(config)
}

async fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> client::TlsStream<TcpStream> {
    let stream = TcpStream::connect(address).await.unwrap();
    TlsConnector::from(config)
        .connect(ServerName::try_from("kubernetes.default.svc").unwrap(), stream)
        .await
        .unwrap()
}

/// One request over HTTP/2 or HTTP/1.1, whichever was negotiated; also says which.
async fn get(stream: client::TlsStream<TcpStream>, headers: &[(&str, &str)]) -> (StatusCode, String, http::Version) {
    let mut request = Request::builder()
        .uri("https://localhost/healthz")
        .header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let response = if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        let (mut send, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        send.send_request(request).await.unwrap()
    } else {
        let (mut send, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        tokio::spawn(connection);
        send.send_request(request).await.unwrap()
    };
    let (status, version) = (response.status(), response.version());
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap(), version)
}

#[tokio::test]
async fn clients_without_certificates_are_anonymous_on_every_protocol_version() {
    let server = start().await;
    for version in [&TLS12, &TLS13] {
        for (alpn, wanted) in [
            (&["h2", "http/1.1"][..], http::Version::HTTP_2),
            (&["http/1.1"], http::Version::HTTP_11),
            (&[], http::Version::HTTP_11),
        ] {
            let stream = connect(server.address, client(&server.pki, None, alpn, version)).await;
            let (status, text, spoken) = get(stream, &[]).await;
            assert_eq!((status.as_u16(), spoken), (200, wanted));
            assert_eq!(text, r#"system:anonymous ["system:unauthenticated"]"#);
        }
    }
    server.stop.cancel();
    server.task.await.unwrap();
}

#[tokio::test]
async fn a_client_with_a_certificate_is_its_subject() {
    let server = start().await;
    let pair = server
        .pki
        .issue_client_certificate("agent", &["a", "b"], 3600, jiff::Timestamp::now())
        .unwrap();
    for version in [&TLS12, &TLS13] {
        let stream = connect(server.address, client(&server.pki, Some(&pair), &["h2"], version)).await;
        let (status, text, _) = get(stream, &[]).await;
        assert_eq!(
            (status.as_u16(), text.as_str()),
            (200, r#"agent ["a", "b", "system:authenticated"]"#)
        );
    }
}

#[tokio::test]
async fn an_untrusted_certificate_passes_the_handshake_and_gets_401() {
    let server = start().await;
    let now = jiff::Timestamp::now();
    let other = Pki::open(None, &[], now).unwrap();
    let pair = other
        .issue_client_certificate("agent", &["system:masters"], 3600, now)
        .unwrap();
    for version in [&TLS12, &TLS13] {
        let stream = connect(server.address, client(&server.pki, Some(&pair), &["h2"], version)).await;
        let (status, text, _) = get(stream, &[]).await;
        assert_eq!((status.as_u16(), text.as_str()), (401, "Unauthorized"));
    }
}

#[tokio::test]
async fn a_certificate_without_its_key_does_not_pass_the_handshake() {
    let server = start().await;
    let now = jiff::Timestamp::now();
    let admin = server
        .pki
        .issue_client_certificate("admin", &["system:masters"], 3600, now)
        .unwrap();
    let other = server.pki.issue_client_certificate("other", &[], 3600, now).unwrap();
    let stolen = KeyPair {
        certificate_pem: admin.certificate_pem,
        key_pem: other.key_pem,
    };
    let der = CertificateDer::from_pem_slice(stolen.certificate_pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(stolen.key_pem.as_bytes()).unwrap();
    // rustls itself refuses to pair them, so the resolver hands the pair over unchecked.
    #[derive(Debug)]
    struct Unchecked(Arc<rustls::sign::CertifiedKey>);
    impl rustls::client::ResolvesClientCert for Unchecked {
        fn resolve(&self, _: &[&[u8]], _: &[rustls::SignatureScheme]) -> Option<Arc<rustls::sign::CertifiedKey>> {
            Some(self.0.clone())
        }
        fn has_certs(&self) -> bool {
            true
        }
    }
    let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
    let mut config = (*client(&server.pki, None, &["h2"], &TLS12)).clone();
    config.client_auth_cert_resolver = Arc::new(Unchecked(Arc::new(rustls::sign::CertifiedKey::new(vec![der], key))));
    let stream = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    assert!(
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn an_invalid_token_gets_401_even_on_a_public_path() {
    let server = start().await;
    let stream = connect(server.address, client(&server.pki, None, &["h2"], &TLS13)).await;
    assert_eq!(get(stream, &[("authorization", "Bearer nonsense")]).await.0, 401);
}

#[tokio::test]
async fn a_second_connection_resumes_the_session_and_keeps_the_identity() {
    let server = start().await;
    let pair = server
        .pki
        .issue_client_certificate("agent", &[], 3600, jiff::Timestamp::now())
        .unwrap();
    let config = client(&server.pki, Some(&pair), &["http/1.1"], &TLS13);
    let first = connect(server.address, config.clone()).await;
    assert_eq!(first.get_ref().1.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    get(first, &[]).await;
    let second = connect(server.address, config).await;
    assert_eq!(second.get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!(get(second, &[]).await.1, r#"agent ["system:authenticated"]"#);
}

#[tokio::test]
async fn stopping_lets_a_running_request_end_and_then_closes() {
    let now = jiff::Timestamp::now();
    let pki = Arc::new(Pki::open(None, &[], now).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Arc::new(ArcSwap::new(tls::server_config(&pki, &[]).unwrap()));
    let (stop, arrived, finish) = (
        CancellationToken::new(),
        CancellationToken::new(),
        CancellationToken::new(),
    );
    let handler = {
        let (arrived, finish) = (arrived.clone(), finish.clone());
        move |_: Request<Incoming>, _: Option<Arc<PeerCertificate>>| {
            let (arrived, finish) = (arrived.clone(), finish.clone());
            async move {
                arrived.cancel();
                finish.cancelled().await;
                Response::new(Full::new(Bytes::from_static(b"done")))
            }
        }
    };
    let task = tokio::spawn(serve(listener, config, handler, stop.clone()));
    let stream = connect(address, client(&pki, None, &["h2"], &TLS13)).await;
    let answer = tokio::spawn(async move { get(stream, &[]).await });
    arrived.cancelled().await;
    stop.cancel();
    finish.cancel();
    assert_eq!(answer.await.unwrap().1, "done");
    task.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[test]
fn the_drain_deadline_exceeds_the_slowest_pair_of_webhooks() {
    // One that mutates and one that validates, with the longest `timeoutSeconds` that there is.
    let webhooks = 2 * Duration::from_secs(30);
    assert!(DRAIN_DEADLINE >= webhooks);
}

#[tokio::test]
async fn plain_http_gets_a_sentence_instead_of_an_alert() {
    let server = start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.ends_with("Client sent an HTTP request to an HTTPS server.\n"),
        "{answer}"
    );
}
