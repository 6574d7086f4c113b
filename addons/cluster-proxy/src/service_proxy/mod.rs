//! The service-proxy: takes requests of a user-server on a cluster, asks who the caller is, and passes them on.
//! Upstream: cluster-proxy `pkg/serviceproxy/`.

pub mod callers;
pub mod oidc;

use std::{io, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{
    forward::{self, Body, Client, DialTarget, Wire},
    headers,
    target::ServiceTarget,
    user_server::Answering,
};
use callers::{Caller, Callers};

/// A Service that does not answer by then is not there.
const DIALLED_WITHIN: Duration = Duration::from_secs(10);
/// Whose certificate an API server shows, however it is reached.
const API_SERVER: &str = "kubernetes.default.svc";

/// The cluster's API server.
#[derive(Clone)]
pub struct ClusterApi {
    /// Where it is: `host:port`.
    pub address: String,
    /// The name in its certificate.
    pub name: String,
    /// Whom it is trusted by.
    pub tls: Arc<ClientConfig>,
    /// The token of the proxy's own ServiceAccount, read each time: it is renewed.
    pub token: Arc<dyn Fn() -> io::Result<String> + Send + Sync>,
}

/// A service-proxy.
pub struct ServiceProxy {
    client: Client,
    api_server: ClusterApi,
    callers: Callers,
}

impl ServiceProxy {
    /// For this API server; `services` has the certificates of Services.
    pub fn new(api_server: ClusterApi, services: Arc<ClientConfig>, callers: Callers) -> Self {
        let of_dial = api_server.clone();
        let dial: DialTarget = Arc::new(move |uri: Uri| {
            let (api_server, services) = (of_dial.clone(), services.clone());
            Box::pin(async move {
                let host = uri.host().unwrap_or_default().to_owned();
                let (address, name, tls) = if host == API_SERVER {
                    (api_server.address, api_server.name, api_server.tls)
                } else {
                    (format!("{host}:{}", uri.port_u16().unwrap_or(443)), host, services)
                };
                let connecting = tokio::time::timeout(DIALLED_WITHIN, TcpStream::connect(&address));
                let stream = connecting
                    .await
                    .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, format!("{address} does not answer")))??;
                stream.set_nodelay(true)?;
                if uri.scheme_str() == Some("http") {
                    return Ok(Wire::new(stream));
                }
                let name = ServerName::try_from(name).map_err(io::Error::other)?;
                Ok(Wire::new(TlsConnector::from(tls).connect(name, stream).await?))
            })
        });
        Self {
            client: Client::new(dial),
            api_server,
            callers,
        }
    }

    async fn pass(&self, mut request: Request<Incoming>) -> Response<Body> {
        let Some(target) = wanted(request.headers()) else {
            return forward::error(StatusCode::BAD_REQUEST, "invalid request headers");
        };
        let path = request
            .uri()
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str);
        let to = if target.is_api_server() {
            format!("https://{API_SERVER}{path}")
        } else {
            let ServiceTarget {
                proto,
                namespace,
                service,
                port,
            } = &target;
            format!("{proto}://{service}.{namespace}.svc:{port}{path}")
        };
        let Ok(to) = to.parse() else {
            return forward::error(StatusCode::BAD_REQUEST, "invalid request headers");
        };
        *request.uri_mut() = to;
        for name in headers::ALL {
            request.headers_mut().remove(name);
        }
        request.headers_mut().remove(header::HOST);
        if target.is_api_server()
            && let Err((status, why)) = self.identify(request.headers_mut()).await
        {
            return forward::error(status, &why);
        }
        match self.client.forward(request).await {
            Ok(answer) => answer,
            Err(why) => forward::error(
                StatusCode::BAD_GATEWAY,
                &format!("proxy to the target failed because {why}"),
            ),
        }
    }

    /// Leaves the caller's token, or puts an impersonation in its place.
    async fn identify(&self, headers: &mut HeaderMap) -> Result<(), (StatusCode, String)> {
        // Who impersonates does so with his own token and his own rights.
        if !self.callers.are_asked() || headers.keys().any(is_impersonation) {
            return Ok(());
        }
        let token = bearer(headers);
        let caller = self.callers.who(token).await;
        match caller.map_err(|why| (StatusCode::UNAUTHORIZED, why))? {
            Caller::OfCluster => Ok(()),
            Caller::Impersonated(user) => {
                let own = (self.api_server.token)();
                let own = own.map_err(|error| {
                    let why = format!("the token of the proxy cannot be read: {error}");
                    (StatusCode::INTERNAL_SERVER_ERROR, why)
                })?;
                impersonate(headers, &user.name, &user.groups, own.trim()).ok_or_else(|| {
                    let why = "the name or a group of the caller cannot be a header";
                    (StatusCode::UNAUTHORIZED, why.to_owned())
                })
            }
        }
    }
}

impl Answering for ServiceProxy {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.pass(request).await
    }
}

/// What the headers say; `None` when one is missing or is none.
fn wanted(sent: &HeaderMap) -> Option<ServiceTarget> {
    let text = |name: &str| {
        let mut all = sent.get_all(name).iter();
        let one = all.next()?.to_str().ok()?;
        let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '.';
        (all.next().is_none() && !one.is_empty() && one.chars().all(is_plain)).then(|| one.to_owned())
    };
    let target = ServiceTarget {
        proto: text(headers::PROTO)?,
        namespace: text(headers::NAMESPACE)?,
        service: text(headers::SERVICE)?,
        port: text(headers::PORT)?,
    };
    matches!(target.proto.as_str(), "http" | "https").then_some(target)
}

fn is_impersonation(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name, "impersonate-user" | "impersonate-group" | "impersonate-uid")
        || name.starts_with("impersonate-extra-")
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = text.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// One header for each group, and the proxy's own token.
fn impersonate(headers: &mut HeaderMap, name: &str, groups: &[String], token: &str) -> Option<()> {
    let old: Vec<HeaderName> = headers
        .keys()
        .filter(|it| it.as_str().starts_with("impersonate-"))
        .cloned()
        .collect();
    for old in old {
        headers.remove(old);
    }
    headers.insert("impersonate-user", HeaderValue::from_str(name).ok()?);
    for group in groups {
        headers.append("impersonate-group", HeaderValue::from_str(group).ok()?);
    }
    let mut token = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    token.set_sensitive(true);
    headers.insert(header::AUTHORIZATION, token);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_all_headers_is_refused() {
        let mut sent = HeaderMap::new();
        for (name, value) in ServiceTarget::api_server().headers() {
            assert_eq!(wanted(&sent), None);
            sent.insert(name, HeaderValue::from_str(value).unwrap());
        }
        assert_eq!(wanted(&sent), Some(ServiceTarget::api_server()));
        // Two of one name, or a path in a name.
        sent.append(headers::SERVICE, HeaderValue::from_static("x"));
        assert_eq!(wanted(&sent), None);
        sent.insert(headers::SERVICE, HeaderValue::from_static("a/b"));
        assert_eq!(wanted(&sent), None);
    }

    #[test]
    fn an_impersonation_takes_the_place_of_the_token() {
        let mut sent = HeaderMap::new();
        sent.insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer of-hub"));
        sent.insert("impersonate-extra-x", HeaderValue::from_static("y"));
        assert!(sent.keys().any(is_impersonation));
        impersonate(&mut sent, "jo", &["a".to_owned(), "b".to_owned()], "own").unwrap();
        assert_eq!(sent[header::AUTHORIZATION], "Bearer own");
        assert_eq!(sent["impersonate-user"], "jo");
        assert_eq!(sent.get_all("impersonate-group").iter().count(), 2);
        assert!(!sent.contains_key("impersonate-extra-x"));
        assert_eq!(impersonate(&mut sent, "a\nb", &[], "own"), None);
    }
}
