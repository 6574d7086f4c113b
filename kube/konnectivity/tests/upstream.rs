//! Ours and upstream's against each other: our agent and client with upstream's server, upstream's agent with our
//! server.
//!
//! `$KONNECTIVITY_PROGRAMS` names the folder with upstream's `server` and `agent`, which `.ci/run oracles` builds.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use konnectivity::{
    Client, TunnelAgent, TunnelServer, TunnelStream,
    agent::{self, Io, Opening},
    peer,
    server::{Limits, Port, TlsConfig},
};
use kube_api::pki::{Pki, ServingPair, serving_pair};
use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    process::{Child, Command},
};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

/// What the servers of a world show, and whom they let in.
struct Keys {
    serving: ServingPair,
    clients: Pki,
    folder: tempfile::TempDir,
}

impl Keys {
    fn new() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let now = jiff::Timestamp::now();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let keys = Self {
            serving: serving_pair(&names, now, 3600).unwrap(),
            clients: Pki::open(None, &names, now).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        };
        let agent = keys.clients.issue_client_certificate("agent", &[], 3600, now).unwrap();
        for (name, text) in [
            ("serving-ca.pem", keys.serving.authority_pem.as_str()),
            ("serving.pem", &keys.serving.pair.certificate_pem),
            ("serving.key", &keys.serving.pair.key_pem),
            ("client-ca.pem", keys.clients.ca_pem()),
            ("agent.pem", &agent.certificate_pem),
            ("agent.key", &agent.key_pem),
        ] {
            std::fs::write(keys.folder.path().join(name), text).unwrap();
        }
        keys
    }

    fn file(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.folder.path().join(name).display())
    }

    fn server(&self) -> Arc<ServerConfig> {
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots(self.clients.ca_pem())));
        let mut config = ServerConfig::builder()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(
                chain(&self.serving.pair.certificate_pem),
                key(&self.serving.pair.key_pem),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }

    fn client(&self, name: &str) -> Arc<ClientConfig> {
        let now = jiff::Timestamp::now();
        let pair = self.clients.issue_client_certificate(name, &[], 3600, now).unwrap();
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots(&self.serving.authority_pem))
            .with_client_auth_cert(chain(&pair.certificate_pem), key(&pair.key_pem))
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

fn roots(pem: &str) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in chain(pem) {
        roots.add(certificate).unwrap();
    }
    roots
}

fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .map(Result::unwrap)
        .collect()
}

fn key(pem: &str) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// Upstream's programs; without them the test says that it is skipped.
fn programs() -> Option<PathBuf> {
    let folder = std::env::var_os("KONNECTIVITY_PROGRAMS").map(PathBuf::from);
    if folder.is_none() {
        // Written past the test harness, which would swallow it: nobody should take a skip for a pass.
        let line = "skipped: KONNECTIVITY_PROGRAMS names no folder with upstream's server and agent\n";
        io::stderr().write_all(line.as_bytes()).unwrap();
    }
    folder
}

fn start(program: &Path, arguments: &[String]) -> Child {
    Command::new(program)
        .args(arguments)
        // It tells of each packet.
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

fn connect(port: u16, config: Arc<ClientConfig>) -> Opening {
    Box::pin(async move {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        Ok(Box::new(stream) as Box<dyn Io>)
    })
}

/// Sends back what comes.
async fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    port
}

/// Tries until it opens: programs take a while to start.
async fn opened(client: impl AsyncFn() -> io::Result<TunnelStream>) -> TunnelStream {
    let begun = Instant::now();
    loop {
        match client().await {
            Ok(stream) => return stream,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

/// A megabyte there and back.
async fn exchange(mut stream: TunnelStream) {
    let sent: Vec<u8> = (0..1_000_000u32).map(|it| it as u8).collect();
    let (mut read, mut write) = tokio::io::split(&mut stream);
    let mut got = vec![0; sent.len()];
    let writing = async { write.write_all(&sent).await.unwrap() };
    let reading = async { read.read_exact(&mut got).await.unwrap() };
    tokio::join!(writing, reading);
    assert!(got == sent);
}

#[tokio::test(flavor = "multi_thread")]
async fn our_agent_and_client_speak_to_upstreams_server() {
    let Some(programs) = programs() else { return };
    let keys = Keys::new();
    let (front, agents) = (free_port().await, free_port().await);
    let _server = start(
        &programs.join("server"),
        &[
            format!("--server-port={front}"),
            format!("--agent-port={agents}"),
            format!("--health-port={}", free_port().await),
            format!("--admin-port={}", free_port().await),
            "--proxy-strategies=destHost".to_owned(),
            "--server-count=1".to_owned(),
            keys.file("server-ca-cert", "client-ca.pem"),
            keys.file("server-cert", "serving.pem"),
            keys.file("server-key", "serving.key"),
            keys.file("cluster-ca-cert", "client-ca.pem"),
            keys.file("cluster-cert", "serving.pem"),
            keys.file("cluster-key", "serving.key"),
        ],
    );
    let config = keys.client("agent");
    let agent = TunnelAgent::new(agent::Options {
        id: "ours".to_owned(),
        identifiers: "host=c1&ipv4=127.0.0.1".to_owned(),
        server: Arc::new(move || connect(agents, config.clone())),
        target: Arc::new(|address: String| agent::tcp(address.replace("c1:", "127.0.0.1:"))),
        connections: 1_000,
    });
    let stop = CancellationToken::new();
    let (running, of_run) = (agent.clone(), stop.clone());
    tokio::spawn(async move { running.run(of_run, Duration::from_secs(1)).await });
    let port = echo().await;
    let address = format!("c1:{port}");
    let dial = async || {
        let io = connect(front, keys.client("client")).await?;
        Client::connect(io).await?.dial(&address).await
    };
    exchange(opened(dial).await).await;
    let client = Client::connect(connect(front, keys.client("client")).await.unwrap())
        .await
        .unwrap();
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let stream = client.dial(&address).await.unwrap();
        all.spawn(exchange(stream));
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    let unknown = client.dial("c2:1").await.err().unwrap().to_string();
    assert!(unknown.to_lowercase().contains("no agent available"), "{unknown}");
    let refused = client.dial("127.0.0.1:1").await.err().unwrap().to_string();
    assert!(refused.contains("refused"), "{refused}");
    stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn upstreams_agent_speaks_to_our_server() {
    let Some(programs) = programs() else { return };
    let keys = Keys::new();
    let server = TunnelServer::new("ours", 1, Limits::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let agents = listener.local_addr().unwrap().port();
    let stop = CancellationToken::new();
    let config = keys.server();
    let tls: TlsConfig = Arc::new(move || config.clone());
    let (serving, of_serving) = (server.clone(), stop.clone());
    tokio::spawn(async move {
        let admit = peer::only("agent");
        serving.serve(Port::Agents, listener, tls, admit, of_serving).await;
    });
    let _agent = start(
        &programs.join("agent"),
        &[
            "--proxy-server-host=127.0.0.1".to_owned(),
            format!("--proxy-server-port={agents}"),
            format!("--health-server-port={}", free_port().await),
            format!("--admin-server-port={}", free_port().await),
            "--agent-identifiers=ipv4=127.0.0.1".to_owned(),
            keys.file("ca-cert", "serving-ca.pem"),
            keys.file("agent-cert", "agent.pem"),
            keys.file("agent-key", "agent.key"),
        ],
    );
    let port = echo().await;
    let address = format!("127.0.0.1:{port}");
    exchange(opened(async || server.dial(&address).await).await).await;
    // It knows no windows: who does not read is closed, and the others go on.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endless = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let data = vec![7; 64 << 10];
        while stream.write_all(&data).await.is_ok() {}
    });
    let mut slow = server.dial(&endless.to_string()).await.unwrap();
    let open = server.connections();
    let begun = Instant::now();
    while server.connections() == open {
        assert!(begun.elapsed() < Duration::from_secs(60), "it was not closed");
        tokio::task::yield_now().await;
    }
    exchange(server.dial(&address).await.unwrap()).await;
    let error = tokio::io::copy(&mut slow, &mut tokio::io::sink()).await.err().unwrap();
    assert_eq!(error.to_string(), "the client does not read what comes");
    let refused = server.dial("127.0.0.1:1").await.err().unwrap().to_string();
    assert!(refused.contains("refused"), "{refused}");
    stop.cancel();
}
