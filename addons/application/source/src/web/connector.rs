//! The way to a server: straight, or through the proxy that the environment names for it, as Go's `net/http` does.

use http::{Uri, uri::Scheme};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::{
        legacy::connect::{HttpConnector, proxy::Tunnel},
        proxy::matcher::{Intercept, Matcher},
    },
    rt::TokioIo,
};
use rustls::ClientConfig;
use std::{
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::net::TcpStream;
use tower::{BoxError, Service};

/// How long one attempt to connect may take. A dead address of a name that has several must not eat the whole time.
const CONNECTED_WITHIN: Duration = Duration::from_secs(15);

pub(super) type Connector = HttpsConnector<Dialer>;

/// A connector that speaks TLS where the URL says so.
pub(super) fn connector(tls: ClientConfig) -> Connector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECTED_WITHIN));
    let dialer = Dialer {
        tcp,
        environment: Arc::new(Matcher::from_env()),
    };
    HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(dialer)
}

/// Makes connections below TLS.
#[derive(Clone)]
pub(super) struct Dialer {
    tcp: HttpConnector,
    environment: Arc<Matcher>,
}

impl Service<Uri> for Dialer {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        match proxy(&server, &self.environment) {
            None => {
                let connecting = self.tcp.call(server);
                Box::pin(async move { Ok(connecting.await?) })
            }
            Some(proxy) if proxy.uri().scheme() == Some(&Scheme::HTTP) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp.clone());
                if let Some(authorization) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(authorization.clone());
                }
                let connecting = tunnel.call(with_port(server));
                Box::pin(async move { Ok(connecting.await?) })
            }
            Some(proxy) => {
                let scheme = proxy.uri().scheme_str().unwrap_or_default().to_owned();
                Box::pin(async move { Err(format!("the proxy on the way is one of {scheme}; http ones work").into()) })
            }
        }
    }
}

/// The proxy on the way to a server. There is none on the way to this very machine, as in Go.
fn proxy(server: &Uri, environment: &Matcher) -> Option<Intercept> {
    let host = server.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback());
    if is_here { None } else { environment.intercept(server) }
}

/// A tunnel without a port leads to that of TLS.
fn with_port(server: Uri) -> Uri {
    if server.port().is_some() || server.scheme() != Some(&Scheme::HTTP) {
        return server;
    }
    let authority = format!("{}:80", server.host().unwrap_or_default());
    let with_port = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(authority)
        .path_and_query("/")
        .build();
    with_port.unwrap_or(server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn the_environment_names_the_proxy_of_a_server() {
        let environment = Matcher::builder()
            .all("http://user:secret@proxy.example.com:3128")
            .no("internal.example.com")
            .build();
        let way = |server: &str| proxy(&server.parse().unwrap(), &environment).map(|it| it.uri().to_string());
        assert_eq!(
            way("https://github.com/"),
            Some("http://proxy.example.com:3128/".to_owned())
        );
        assert_eq!(way("https://internal.example.com/"), None);
        assert_eq!(way("http://127.0.0.1:80/"), None);
        assert_eq!(way("http://[::1]:80/"), None);
    }

    #[tokio::test]
    async fn a_connection_goes_through_the_proxy() {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut dialer = Dialer {
            tcp: HttpConnector::new(),
            environment: Arc::new(Matcher::builder().all(format!("http://me:secret@{address}")).build()),
        };
        let proxy = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            String::from_utf8(asked).unwrap()
        };
        let (connection, asked) = tokio::join!(dialer.call("http://git.example.com/a".parse().unwrap()), proxy);
        assert!(connection.is_ok());
        assert!(asked.starts_with("CONNECT git.example.com:80 HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("Basic bWU6c2VjcmV0"), "{asked}");
        dialer.environment = Arc::new(Matcher::builder().all("socks5://proxy.example.com").build());
        let refused = dialer
            .call("http://git.example.com/a".parse().unwrap())
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("http ones work"), "{refused}");
    }

    #[test]
    fn a_tunnel_for_plain_http_names_its_port() {
        assert_eq!(
            with_port("http://a.example.com/x".parse().unwrap()).port_u16(),
            Some(80)
        );
        assert_eq!(with_port("https://a.example.com/x".parse().unwrap()).port_u16(), None);
        assert_eq!(
            with_port("http://a.example.com:81/x".parse().unwrap()).port_u16(),
            Some(81)
        );
    }
}
