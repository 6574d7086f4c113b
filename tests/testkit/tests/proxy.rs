//! A kubeconfig with `proxy-url`: the API server is reached through a proxy, which is spoken to plainly or over TLS.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use credential::{Connection, KubeconfigSource};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube_api::pki::Pki;
use rustls::ServerConfig;
use testkit::Site;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// A proxy that lets those through who know the word `user:secret`, and counts them.
struct Proxy {
    url: String,
    tunnels: Arc<AtomicUsize>,
    /// Its own authority, when it is spoken to over TLS.
    ca: String,
    /// Its own certificate.
    own: String,
}

impl Proxy {
    async fn start(over_tls: bool) -> Self {
        let pki = Pki::open(None, &[], jiff::Timestamp::now()).unwrap();
        let serving = pki.serving();
        let tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(serving.chain.clone(), serving.key.clone_key())
            .unwrap();
        let acceptor = over_tls.then(|| TlsAcceptor::from(Arc::new(tls)));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let tunnels = Arc::new(AtomicUsize::new(0));
        let count = tunnels.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, count) = (acceptor.clone(), count.clone());
                tokio::spawn(async move {
                    match acceptor {
                        None => serve(stream, &count).await,
                        Some(acceptor) => match acceptor.accept(stream).await {
                            Ok(stream) => serve(stream, &count).await,
                            Err(error) => Err(error),
                        },
                    }
                });
            }
        });
        let scheme = if over_tls { "https" } else { "http" };
        Self {
            url: format!("{scheme}://user:secret@{address}"),
            tunnels,
            ca: pki.ca_pem().to_owned(),
            own: pem(&serving.chain[0]),
        }
    }
}

async fn serve(mut stream: impl AsyncRead + AsyncWrite + Unpin, tunnels: &AtomicUsize) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await?);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    // base64 of `user:secret`
    if !request.contains("Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=\r\n") {
        return stream
            .write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            .await;
    }
    let target = request.strip_prefix("CONNECT ").and_then(|it| it.split(' ').next());
    let mut server = TcpStream::connect(target.expect("a tunnel is asked for")).await?;
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    tunnels.fetch_add(1, Ordering::SeqCst);
    copy_bidirectional(&mut stream, &mut server).await.map(|_| ())
}

/// The kubeconfig of the site's administrator, through the proxy, and trusting it beside the site.
fn through(site: &Site, url: &str, ca: &str) -> KubeconfigSource {
    let text = site.kubeconfig("admin", &["system:masters"]).unwrap();
    let mut kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
    let cluster = kubeconfig.clusters[0].cluster.as_mut().unwrap();
    cluster.proxy_url = Some(url.to_owned());
    let both = format!("{}{ca}", site.server.pki().ca_pem());
    cluster.certificate_authority_data = Some(base64(both.as_bytes()));
    KubeconfigSource::Inline(serde_saphyr::to_string(&kubeconfig).unwrap())
}

fn pem(certificate: &[u8]) -> String {
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        base64(certificate)
    )
}

fn base64(bytes: &[u8]) -> String {
    serde_json::to_value(k8s_openapi::ByteString(bytes.to_vec()))
        .ok()
        .and_then(|it| it.as_str().map(str::to_owned))
        .expect("bytes are base64 in JSON")
}

async fn namespaces(source: &KubeconfigSource) -> Result<usize, String> {
    let loaded = source.read().await.map_err(|it| it.to_string())?;
    let connection = Connection::new(&loaded.config).map_err(|it| it.to_string())?;
    let api: Api<Namespace> = Api::all(connection.client());
    let mut text = String::new();
    match api.list(&kube::api::ListParams::default()).await {
        Ok(list) => Ok(list.items.len()),
        Err(error) => {
            let mut next: Option<&dyn std::error::Error> = Some(&error);
            while let Some(it) = next {
                text.push_str(&format!("{it}; "));
                next = it.source();
            }
            Err(text)
        }
    }
}

#[tokio::test]
async fn an_api_server_is_reachable_through_plain_and_tls_proxies() {
    let site = Site::start().await.unwrap();
    for over_tls in [false, true] {
        let proxy = Proxy::start(over_tls).await;
        let source = through(&site, &proxy.url, &proxy.ca);
        assert!(namespaces(&source).await.unwrap() > 0);
        assert_eq!(proxy.tunnels.load(Ordering::SeqCst), 1, "over TLS: {over_tls}");
    }
    site.stop().await;
}

#[tokio::test]
async fn a_tls_proxy_can_be_trusted_by_its_own_certificate() {
    let site = Site::start().await.unwrap();
    let (proxy, other) = (Proxy::start(true).await, Proxy::start(true).await);
    let source = through(&site, &proxy.url, &proxy.own);
    assert!(namespaces(&source).await.unwrap() > 0);
    assert_eq!(proxy.tunnels.load(Ordering::SeqCst), 1);
    let why = namespaces(&through(&site, &other.url, &proxy.own)).await.unwrap_err();
    assert!(why.contains("invalid peer certificate"), "{why}");

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let KubeconfigSource::Inline(text) = source else {
        panic!("it is a text");
    };
    std::fs::write(&path, text).unwrap();
    let stop = CancellationToken::new();
    let client = ocm_addon_sdk::agent::hub_client(&path, &stop).await.unwrap();
    let found = Api::<Namespace>::all(client).list(&Default::default()).await.unwrap();
    assert!(!found.items.is_empty());
    assert_eq!(proxy.tunnels.load(Ordering::SeqCst), 2);
    stop.cancel();
    site.stop().await;
}

#[tokio::test]
async fn an_add_on_agent_reaches_its_hub_through_proxies() {
    let site = Site::start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    for over_tls in [false, true] {
        let proxy = Proxy::start(over_tls).await;
        let KubeconfigSource::Inline(text) = through(&site, &proxy.url, &proxy.ca) else {
            panic!("it is a text");
        };
        let path = folder.path().join(format!("kubeconfig-{over_tls}"));
        std::fs::write(&path, text).unwrap();
        let stop = CancellationToken::new();
        let connecting = ocm_addon_sdk::agent::hub_client(&path, &stop);
        let client = tokio::time::timeout(testkit::wait::PATIENCE, connecting).await;
        let client = client.expect("the kubeconfig can be used").unwrap();
        let found = Api::<Namespace>::all(client).list(&Default::default()).await.unwrap();
        assert!(!found.items.is_empty());
        assert_eq!(proxy.tunnels.load(Ordering::SeqCst), 1, "over TLS: {over_tls}");
        stop.cancel();
    }
    site.stop().await;
}

#[tokio::test]
async fn a_refusing_proxy_is_named_with_its_response() {
    let site = Site::start().await.unwrap();
    let proxy = Proxy::start(false).await;
    let stranger = proxy.url.replace("user:secret@", "");
    let why = namespaces(&through(&site, &stranger, "")).await.unwrap_err();
    assert!(
        why.contains("makes no tunnel") && why.contains("407 Proxy Authentication Required"),
        "{why}"
    );
    let why = namespaces(&through(&site, "socks5://127.0.0.1:1", ""))
        .await
        .unwrap_err();
    assert!(why.starts_with("proxy-url socks5://127.0.0.1:1"), "{why}");
    site.stop().await;
}
