//! How an agent reaches a server: straight, or through a proxy. That is the `proxy-url` of its kubeconfig, or what the
//! environment says in `HTTPS_PROXY` and `NO_PROXY`, as the `proxyConfig` of an AddOnDeploymentConfig puts it into a
//! pod.
//!
//! Upstream's agents do so because Go's `net/http` does. kube's own client would need another feature of it, and then
//! compares the proxy with `NO_PROXY` instead of the server.

use crate::program::Io;
use anyhow::{Context, Result};
use http::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::{
        legacy::{
            Client as HyperClient,
            connect::{Connection, HttpConnector, proxy::Tunnel},
        },
        proxy::matcher::{Intercept, Matcher},
    },
    rt::{TokioExecutor, TokioIo},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt, retry::RetryPolicy},
};
use kube_primitives::server_certificate;
use rustls::pki_types::{CertificateDer, ServerName};
use tower::{BoxError, Service, ServiceBuilder, retry::RetryLayer};

/// A client for the server of `config`, through the proxy that `named` or else the environment names.
pub(super) fn client(mut config: Config, named: Option<&str>) -> Result<Client> {
    // What kube itself has made of the environment.
    config.proxy_url = None;
    let proxy = on_the_way(&config.cluster_url, named, &Matcher::from_env())?;
    let Some(proxy) = proxy else {
        return straight(&config);
    };
    if proxy.uri().scheme_str() == Some("https") {
        through(&config, &proxy, over_tls(&config, tcp(&config))?)
    } else {
        through(&config, &proxy, tcp(&config))
    }
}

/// A connection to a server, through the proxy that the environment names.
pub(crate) async fn dial(host: &str, port: u16, tls: &rustls::ClientConfig) -> Result<Box<dyn Io>> {
    let server: Uri = format!("https://{host}:{port}")
        .parse()
        .context("the server's address")?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let unreachable = || format!("could not reach {host}:{port}");
    let Some(proxy) = on_the_way(&server, None, &Matcher::from_env())? else {
        let stream = tcp.call(server).await.with_context(unreachable)?;
        return Ok(Box::new(stream.into_inner()));
    };
    let mut tls = tls.clone();
    tls.alpn_protocols.clear();
    let through = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let mut tunnel = Tunnel::new(proxy.uri().clone(), through.enable_http1().wrap_connector(tcp));
    if let Some(authorization) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(authorization.clone());
    }
    let stream = tunnel.call(server).await;
    let stream = stream.map_err(|it| anyhow::anyhow!("{it}")).with_context(unreachable)?;
    Ok(Box::new(TokioIo::new(stream)))
}

/// A client for the server of `config`, whatever the environment says of proxies.
pub(super) fn straight(config: &Config) -> Result<Client> {
    over(config, tcp(config))
}

fn tcp(config: &Config) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    tcp
}

/// TLS over this, which trusts whom the bundle of `config` vouches for.
fn over_tls<C>(config: &Config, connector: C) -> Result<HttpsConnector<C>>
where
    C: Service<Uri>,
{
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // It can only fail when somebody else was faster, which serves as well.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    }
    let mut tls = config.rustls_client_config()?;
    if let Some(bundle) = config.root_cert.as_ref().filter(|_| !config.accept_invalid_certs) {
        let bundle = bundle.iter().cloned().map(CertificateDer::from);
        let provider = tls.crypto_provider();
        let verifier = match &config.root_cert_file {
            Some(path) => server_certificate::verifier_of_file(path, bundle, provider),
            None => server_certificate::verifier(bundle, provider),
        };
        tls.dangerous().set_certificate_verifier(verifier);
    }
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let builder = match &config.tls_server_name {
        Some(name) => {
            let name = ServerName::try_from(name.clone()).with_context(|| format!("tls-server-name {name:?}"))?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
        None => builder,
    };
    Ok(builder.enable_http1().wrap_connector(connector))
}

/// The proxy on the way to a server, if there is one.
fn on_the_way(server: &Uri, named: Option<&str>, environment: &Matcher) -> Result<Option<Intercept>> {
    let found = match named.filter(|it| !it.is_empty()) {
        // Whoever names a proxy for a server means this server.
        Some(url) => Some(
            Matcher::builder()
                .all(url)
                .build()
                .intercept(server)
                .with_context(|| format!("proxy-url {url:?} is no URL of a proxy"))?,
        ),
        None if is_here(server) => None,
        None => environment.intercept(server),
    };
    if let Some(proxy) = &found
        && !matches!(proxy.uri().scheme_str(), Some("http" | "https"))
    {
        anyhow::bail!(
            "the proxy {} is none that makes tunnels: http and https ones are",
            proxy.uri()
        );
    }
    Ok(found)
}

/// Whether a server is on this very machine, to which no proxy is on the way; Go has it so, too.
fn is_here(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback())
}

fn through<C>(config: &Config, proxy: &Intercept, connector: C) -> Result<Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let mut tunnel = Tunnel::new(proxy.uri().clone(), connector);
    if let Some(authorization) = proxy.basic_auth() {
        tunnel = tunnel.with_auth(authorization.clone());
    }
    over(config, tunnel)
}

fn over<C>(config: &Config, connector: C) -> Result<Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
{
    let connector = over_tls(config, connector)?;
    let sender: HyperClient<_, Body> = HyperClient::builder(TokioExecutor::new()).build(connector);
    let again = config
        .default_retry
        .then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(again)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(sender);
    Ok(Client::new(service, config.default_namespace.clone()))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    const HUB: &str = "https://hub.example.com:6443";

    fn way(server: &str, named: Option<&str>, environment: &Matcher) -> Option<String> {
        let found = on_the_way(&server.parse().unwrap(), named, environment).unwrap();
        found.map(|it| it.uri().to_string())
    }

    #[test]
    fn a_kubeconfig_names_the_proxy_or_else_the_environment_does() {
        let environment = Matcher::builder()
            .https("http://environment:3128")
            .no("10.0.0.0/8, .internal");
        let environment = environment.build();
        let of_environment = Some("http://environment:3128/".to_owned());
        let table = [
            (HUB, None, of_environment.clone()),
            (HUB, Some(""), of_environment),
            (HUB, Some("https://named:8443"), Some("https://named:8443/".to_owned())),
            ("https://10.1.2.3:6443", None, None),
            ("https://hub.internal", None, None),
            (
                "https://hub.internal",
                Some("http://named:1"),
                Some("http://named:1/".to_owned()),
            ),
            ("https://127.0.0.1:6443", None, None),
            ("https://[::1]:6443", None, None),
            ("https://localhost:6443", None, None),
        ];
        for (server, named, wanted) in table {
            assert_eq!(way(server, named, &environment), wanted, "{server} {named:?}");
        }
        assert_eq!(way(HUB, None, &Matcher::builder().build()), None);
    }

    #[test]
    fn a_proxy_that_makes_no_tunnels_is_refused() {
        let none = Matcher::builder().build();
        for url in ["socks5://named:1080", "ftp://named", "::"] {
            assert!(on_the_way(&HUB.parse().unwrap(), Some(url), &none).is_err(), "{url}");
        }
    }

    #[tokio::test]
    async fn an_agent_requests_a_proxy_tunnel_to_its_hub() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = format!("http://user:secret@{}", listener.local_addr().unwrap());
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = Vec::new();
            while !text.ends_with(b"\r\n\r\n") {
                text.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").await.unwrap();
            String::from_utf8(text).unwrap()
        });
        let config = Config::new(HUB.parse().unwrap());
        let client = client(config, Some(&proxy)).unwrap();
        assert!(client.apiserver_version().await.is_err());
        let asked = asked.await.unwrap();
        assert!(
            asked.starts_with("CONNECT hub.example.com:6443 HTTP/1.1\r\n"),
            "{asked}"
        );
        // user:secret
        assert!(asked.to_lowercase().contains("proxy-authorization: basic "), "{asked}");
        assert!(asked.contains("dXNlcjpzZWNyZXQ="), "{asked}");
    }
}
