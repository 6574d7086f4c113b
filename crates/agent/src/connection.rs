//! The one connection to the hub that everything an agent does goes over.
//! Upstream: client-go opens one HTTP/2 connection per client configuration, and each of its two agents makes several.
//! kube's own client speaks HTTP/1.1, which is one connection for every watch; this one speaks HTTP/2 only, so that all
//! watches of an agent are streams of a single connection.

use std::time::Duration;

use http::Uri;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Client, Config,
    client::{Body, ConfigExt},
};
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// How long a hub may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// How often an open connection is asked whether it still lives, and how long it may take to answer. A hub that vanished
/// without a word (a firewall that forgot us, a machine without power) is noticed within their sum; half of it would
/// double the idle traffic of a thousand agents.
const PING_EVERY: Duration = Duration::from_secs(20);
const PING_ANSWER: Duration = Duration::from_secs(10);

/// Why no client could be made; nothing has been sent yet.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be spoken to over TLS.
    #[error("the hub's address {0} does not start with https://")]
    NotHttps(Uri),
    /// Certificates or keys are unusable.
    #[error("the hub's credential cannot be used")]
    Credential(#[source] Box<kube::Error>),
    /// `tls-server-name` is no name.
    #[error("{0:?} is no name that a certificate could have")]
    ServerName(String),
}

/// A client for the hub that `config` names. It connects when first used, again whenever the connection is lost, and
/// keeps its TLS sessions, so that a reconnect costs one round trip less.
pub fn connect(config: Config) -> Result<Client, ConnectError> {
    if config.cluster_url.scheme() != Some(&http::uri::Scheme::HTTPS) {
        return Err(ConnectError::NotHttps(config.cluster_url));
    }
    let credential = |error| ConnectError::Credential(Box::new(error));
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(PING_EVERY));
    let mut tls = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config().map_err(credential)?)
        .https_only();
    if let Some(name) = &config.tls_server_name {
        let parsed = name
            .clone()
            .try_into()
            .map_err(|_| ConnectError::ServerName(name.clone()))?;
        tls = tls.with_server_name_resolver(FixedServerNameResolver::new(parsed));
    }
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_only(true)
        .http2_keep_alive_interval(PING_EVERY)
        .http2_keep_alive_timeout(PING_ANSWER)
        .http2_keep_alive_while_idle(true)
        .build(tls.enable_http2().wrap_connector(tcp));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(credential)?)
        .layer(config.extra_headers_layer().map_err(credential)?)
        .map_err(BoxError::from)
        .service(http);
    Ok(Client::new(service.boxed_clone(), config.default_namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hub_without_tls_is_refused_before_anything_is_sent() {
        let config = Config::new("http://hub.example".parse().unwrap());
        assert!(matches!(connect(config), Err(ConnectError::NotHttps(_))));
    }

    #[tokio::test]
    async fn a_client_is_made_without_speaking_to_the_hub() {
        let mut config = Config::new("https://127.0.0.1:1".parse().unwrap());
        config.tls_server_name = Some("hub.example".into());
        assert!(connect(config.clone()).is_ok());
        config.tls_server_name = Some("not a name".into());
        assert!(matches!(connect(config), Err(ConnectError::ServerName(_))));
    }
}
