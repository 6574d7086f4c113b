//! What a program serves over TLS: whether it lives, what it has done, and the pages of whoever it stands in for.
//! Upstream: library-go `controllercmd`, whose server is the generic one of Kubernetes: health is for everybody, the
//! rest for whom the API server lets in.

use std::{
    convert::Infallible,
    fmt::Write,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result, anyhow};
use arc_swap::ArcSwap;
use async_trait::async_trait;
use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Body, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::Client;
use kube_api::{clock::Clock, pki::Pki};
use ocm_reconcile::{
    access::{self, UserInfo},
    awaited, metrics,
};
use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::CryptoProvider,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::{TLS12, TLS13},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tower::BoxError;
use tracing::warn;

use crate::{environment, health::Ready, sent::Sent};

/// A request, of which everything but the body was read.
pub struct PageRequest {
    /// The method.
    pub method: String,
    /// The path, without the query.
    pub path: String,
    /// The query, without its question mark.
    pub query: String,
    /// The bearer's token.
    pub token: Option<String>,
    /// What comes with it, not read yet.
    pub body: Sent,
}

/// What it is answered.
pub struct PageResponse {
    /// The status code.
    pub code: u16,
    /// The `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: String,
}

impl PageResponse {
    /// A text.
    pub fn text(code: u16, body: impl Into<String>) -> Self {
        Self {
            code,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    /// A JSON document.
    pub fn json(code: u16, body: &Value) -> Self {
        Self {
            code,
            content_type: "application/json",
            body: body.to_string(),
        }
    }

    /// A failure as a Kubernetes API server tells it.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        });
        Self::json(code, &body)
    }
}

/// Whoever answers.
#[async_trait]
pub trait Pages: Send + Sync + 'static {
    /// Answers one request.
    async fn answer(&self, asked: PageRequest) -> PageResponse;
}

/// Serves until `stop`.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ArcSwap<ServerConfig>>,
    pages: Arc<dyn Pages>,
    stop: CancellationToken,
) {
    let handler = move |request, _| answer(request, pages.clone());
    kube_api::listen::serve(listener, tls, handler, stop).await;
}

/// Serves plain HTTP for whoever probes, until the listener fails: one request for each connection, within `deadline`.
pub async fn serve_plain(listener: TcpListener, pages: Arc<dyn Pages>, deadline: Duration) {
    while let Ok((stream, _)) = listener.accept().await {
        let pages = pages.clone();
        let handler = service_fn(move |request| answer(request, pages.clone()).map(Ok::<_, Infallible>));
        let mut http = http1::Builder::new();
        let connection = http.keep_alive(false).serve_connection(TokioIo::new(stream), handler);
        // Whoever asks and does not listen to the answer is not worth a word.
        tokio::spawn(tokio::time::timeout(deadline, connection));
    }
}

/// Answers one request with these pages. Its body is read only by who wants it.
pub async fn answer<B>(request: Request<B>, pages: Arc<dyn Pages>) -> Response<Full<Bytes>>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let bearer = parts.headers.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let asked = PageRequest {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        token: bearer
            .and_then(|it| it.strip_prefix("Bearer "))
            .map(|it| it.trim().to_owned()),
        body: match parts.method {
            Method::GET | Method::HEAD => Sent::new(Full::default()),
            _ => Sent::new(body),
        },
    };
    let answer = pages.answer(asked).await;
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let content_type = HeaderValue::from_static(answer.content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// `/healthz` and its sisters, and the one check that they are made of: a process that answers is healthy. What of it
/// waits for a kind, or is not there, `/readyz?verbose` says, and it is ready all the same. `None` for any other path.
pub fn health(path: &str, query: &str) -> Option<PageResponse> {
    let path = path.trim_matches('/');
    let name = ["healthz", "livez", "readyz"].into_iter().find(|it| {
        let rest = path.strip_prefix(it);
        rest.is_some_and(|it| it.is_empty() || it == "/ping")
    })?;
    let is_verbose = query.split('&').any(|it| it.split('=').next() == Some("verbose"));
    Some(PageResponse::text(
        200,
        if is_verbose {
            let idle = awaited::all().into_iter().filter(|_| name == "readyz");
            let idle: String = idle
                .map(|(who, why)| format!("[!]{who} {}\n", why.replace('\n', " ")))
                .collect();
            format!("[+]ping ok\n{idle}{name} check passed\n")
        } else {
            "ok".to_owned()
        },
    ))
}

/// `/metrics`, whole.
pub fn all_metrics() -> PageResponse {
    let mut text = metrics::text();
    for (name, kind, help, value) in crate::numbers() {
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}");
    }
    PageResponse {
        content_type: "text/plain; version=0.0.4; charset=utf-8",
        ..PageResponse::text(200, text)
    }
}

/// A page for those whom the API server lets see it.
#[async_trait]
pub trait AuthorizedPage: Send + Sync + 'static {
    /// Whether it is the page of this path.
    fn is_at(&self, path: &str) -> bool;
    /// Answers; `who` asks.
    async fn answer(&self, api: &Client, who: &UserInfo, asked: PageRequest) -> PageResponse;
}

/// The pages of a program that runs controllers.
pub struct ControllerPages {
    /// The API server that says who asks and what they may.
    pub api: Arc<ArcSwap<Client>>,
    /// A page beside health and metrics.
    pub page: Option<Arc<dyn AuthorizedPage>>,
    /// Who says whether it is ready, when that is another question than whether it lives.
    pub ready: Option<Ready>,
}

#[async_trait]
impl Pages for ControllerPages {
    async fn answer(&self, asked: PageRequest) -> PageResponse {
        if let Some(answer) = health(&asked.path, &asked.query) {
            let waits = self.ready.as_ref().is_some_and(|it| !it.is_said());
            if waits && asked.path.trim_matches('/') == "readyz" {
                return PageResponse::text(
                    500,
                    "[+]ping ok\n[-]started failed: it is not ready yet\nreadyz check failed\n",
                );
            }
            return answer;
        }
        let api = Client::clone(&self.api.load());
        let who = match &asked.token {
            None => UserInfo {
                user: "system:anonymous".to_owned(),
                groups: vec!["system:unauthenticated".to_owned()],
                ..UserInfo::default()
            },
            Some(token) => match access::who(&api, token).await {
                Ok(Some(who)) => who,
                Ok(None) => return PageResponse::status(401, "Unauthorized", "Unauthorized"),
                Err(error) => {
                    warn!(%error, "could not ask whose token this is");
                    return PageResponse::status(401, "Unauthorized", "Unauthorized");
                }
            },
        };
        if let Some(page) = self.page.as_ref().filter(|it| it.is_at(&asked.path)) {
            return page.answer(&api, &who, asked).await;
        }
        let verb = asked.method.to_lowercase();
        match access::may_visit(&api, &who, &verb, &asked.path).await {
            Ok(true) if asked.path == "/metrics" => all_metrics(),
            Ok(true) => PageResponse::status(404, "NotFound", "the server could not find the requested resource"),
            Ok(false) => {
                let (user, path) = (&who.user, &asked.path);
                PageResponse::status(
                    403,
                    "Forbidden",
                    &format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\""),
                )
            }
            Err(error) => PageResponse::status(500, "InternalError", &format!("could not ask who may: {error}")),
        }
    }
}

/// Which TLS to serve with.
#[derive(Clone)]
pub struct Tls {
    versions: Vec<&'static SupportedProtocolVersion>,
    provider: Arc<CryptoProvider>,
}

impl Tls {
    /// Reads `--tls-min-version` and `--tls-cipher-suites`. TLS older than 1.2 nobody serves here;
    /// the suites of TLS 1.3 are all there, as in Go.
    pub fn read(min_version: &str, cipher_suites: &str) -> Result<Self> {
        let versions = match min_version {
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => vec![&TLS13, &TLS12],
            "VersionTLS13" => vec![&TLS13],
            other => return Err(anyhow!("unknown tls version {other:?}")),
        };
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        let wanted: Vec<&str> = cipher_suites
            .split(',')
            .map(str::trim)
            .filter(|it| !it.is_empty())
            .collect();
        if !wanted.is_empty() {
            let name = |it: &rustls::SupportedCipherSuite| format!("{:?}", it.suite()).replacen("TLS13_", "TLS_", 1);
            let known: Vec<String> = provider.cipher_suites.iter().map(name).collect();
            // Go also has suites without forward secrecy or with CBC. Who lists them among others gets the others.
            let is_old = |it: &str| it.starts_with("TLS_") && (it.contains("_CBC_") || it.starts_with("TLS_RSA_"));
            for suite in wanted.iter().filter(|it| !known.iter().any(|known| known == *it)) {
                if !is_old(suite) {
                    return Err(anyhow!("Cipher suite {suite} not supported or doesn't exist"));
                }
                warn!(%suite, "this cipher suite is not served with");
            }
            provider
                .cipher_suites
                .retain(|it| it.tls13().is_some() || wanted.contains(&name(it).as_str()));
        }
        Ok(Self {
            versions,
            provider: Arc::new(provider),
        })
    }

    /// The server's side with this certificate.
    pub fn with(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Arc<ServerConfig>, rustls::Error> {
        let is_only_13 = self.provider.cipher_suites.iter().all(|it| it.tls13().is_some());
        let versions = if is_only_13 { &[&TLS13][..] } else { &self.versions };
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(versions)?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// The server's side with the certificate in these files.
    pub fn with_files(&self, certificate: &std::path::Path, key: &std::path::Path) -> Result<Arc<ServerConfig>> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| anyhow!("{} cannot be read: {error}", certificate.display()))?;
        let key_der =
            PrivateKeyDer::from_pem_file(key).map_err(|error| anyhow!("{} cannot be read: {error}", key.display()))?;
        let (certificate, key) = (certificate.display(), key.display());
        self.with(chain, key_der)
            .with_context(|| format!("{certificate} and {key} do not fit"))
    }

    /// The server's side with a certificate that this process has just made, as upstream's does when it is given none.
    /// It is renewed in time, until `stop`.
    pub fn self_signed(&self, stop: &CancellationToken) -> Result<Arc<ArcSwap<ServerConfig>>> {
        let host = std::env::var("POD_NAME").ok().filter(|it| !it.is_empty());
        let names: Vec<String> = host.into_iter().collect();
        let clock = Clock::default();
        let pki = Arc::new(Pki::open(None, &names, clock.now()).context("could not make a certificate")?);
        let rules = self.clone();
        let config = move |pki: &Pki| {
            let serving = pki.serving();
            rules.with(serving.chain.clone(), serving.key.clone_key())
        };
        let shown = Arc::new(ArcSwap::new(config(&pki)?));
        tokio::spawn(kube_api::tls::keep(pki, shown.clone(), config, clock, stop.clone()));
        Ok(shown)
    }
}

/// Reads `HOST:PORT` as an address to listen on; an empty host is every address, which in a pod that has one of its
/// own is the pod's.
pub fn address(text: &str) -> Result<SocketAddr> {
    let mut address = parse(text)?;
    address.set_ip(of_pod(address.ip()));
    Ok(address)
}

/// Where to listen for whoever wants to listen on this address. Embedded nodes have no network for each pod and tell a
/// pod its address in this variable: a program that listened on all of them would take the port from every other pod.
pub fn of_pod(ip: IpAddr) -> IpAddr {
    own_address(ip, environment::variable("POD_ADDRESS").as_deref())
}

fn own_address(ip: IpAddr, of_pod: Option<&str>) -> IpAddr {
    let own = of_pod.and_then(|it| it.parse().ok());
    own.filter(|_| ip.is_unspecified()).unwrap_or(ip)
}

fn parse(text: &str) -> Result<SocketAddr> {
    let whole = if text.starts_with(':') {
        format!("0.0.0.0{text}")
    } else {
        text.to_owned()
    };
    let whole = whole.replacen("localhost:", "127.0.0.1:", 1);
    whole
        .parse()
        .with_context(|| format!("{text:?} is no address to listen on; write HOST:PORT"))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;

    #[test]
    fn tls_flags_that_mean_nothing_are_refused() {
        let refused = |version: &str, suites: &str| Tls::read(version, suites).err().map(|it| it.to_string());
        assert_eq!(refused("", ""), None);
        assert_eq!(refused("VersionTLS13", ""), None);
        assert_eq!(
            refused("VersionTLS14", "").unwrap(),
            "unknown tls version \"VersionTLS14\""
        );
        let good = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA";
        assert_eq!(refused("", good), None);
        assert_eq!(
            refused("", "TLS_FOO").unwrap(),
            "Cipher suite TLS_FOO not supported or doesn't exist"
        );
    }

    #[test]
    fn health_endpoints_answer_everybody_and_give_details_on_request() {
        let body = |path: &str, query: &str| health(path, query).map(|it| it.body);
        assert_eq!(body("/healthz", ""), Some("ok".to_owned()));
        assert_eq!(
            body("/readyz/", "verbose"),
            Some("[+]ping ok\nreadyz check passed\n".to_owned())
        );
        assert_eq!(body("/healthz/ping", ""), Some("ok".to_owned()));
        assert_eq!(body("/healthz/etcd", ""), None);
        assert_eq!(body("/metrics", ""), None);
    }

    #[tokio::test]
    async fn who_is_not_ready_lives_all_the_same() {
        let ready = Ready::default();
        let site = testkit::Site::start().await.unwrap();
        let pages = ControllerPages {
            api: Arc::new(ArcSwap::from_pointee(site.client())),
            page: None,
            ready: Some(ready.clone()),
        };
        let ask = async |path: &str| {
            let asked = PageRequest {
                method: "GET".to_owned(),
                path: path.to_owned(),
                query: String::new(),
                token: None,
                body: Sent::new(Full::default()),
            };
            pages.answer(asked).await.code
        };
        assert_eq!((ask("/healthz").await, ask("/livez").await), (200, 200));
        assert_eq!(ask("/readyz").await, 500);
        ready.say();
        assert_eq!(ask("/readyz").await, 200);
    }

    #[tokio::test]
    async fn a_probe_over_plain_http_may_arrive_in_pieces() {
        struct Echo;
        #[async_trait]
        impl Pages for Echo {
            async fn answer(&self, request: PageRequest) -> PageResponse {
                PageResponse::text(200, request.path)
            }
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let serving = tokio::spawn(serve_plain(listener, Arc::new(Echo), Duration::from_secs(30)));
        for piece in ["GET /heal", "thz?a=b HTTP/1.1\r\nHost: a\r\n\r\n"] {
            stream.write_all(piece.as_bytes()).await.unwrap();
        }
        let mut answer = String::new();
        // It ends because the server closes the connection.
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\n/healthz"), "{answer}");
        serving.abort();
    }

    #[test]
    fn an_address_may_leave_its_host_out() {
        assert_eq!(parse(":8443").unwrap().to_string(), "0.0.0.0:8443");
        assert_eq!(parse("localhost:1").unwrap().to_string(), "127.0.0.1:1");
        assert!(parse("8443").is_err());
    }

    #[test]
    fn in_a_pod_every_address_means_the_pods_own() {
        let of = |ip: &str, pod: Option<&str>| own_address(ip.parse().unwrap(), pod).to_string();
        assert_eq!(of("0.0.0.0", Some("127.3.2.1")), "127.3.2.1");
        assert_eq!(of("::", Some("127.3.2.1")), "127.3.2.1");
        assert_eq!(of("127.0.0.1", Some("127.3.2.1")), "127.0.0.1");
        assert_eq!(of("0.0.0.0", Some("nowhere")), "0.0.0.0");
        assert_eq!(of("0.0.0.0", None), "0.0.0.0");
    }
}
