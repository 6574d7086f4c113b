//! HTTPS calls that the server makes itself: to the webhooks of admission and of conversion.
//!
//! Connections are pooled by authority. There is one pool per bundle of authorities, so that a configuration that is
//! written again keeps its connections.

mod services;

use crate::tls;
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::Client,
    rt::{TokioExecutor, TokioTimer},
};
use kube_primitives::server_certificate;
use kube_store::Store;
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls_pki_types::{CertificateDer, pem::PemObject};
use serde_json::Value;
use std::{collections::HashMap, sync::Arc, time::Duration};

/// An answer larger than this is no answer. An object is 3 MiB at most; a list of them is converted in pieces.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Pools that are kept: there are about as many webhooks with an authority of their own.
const POOLS_MAX: usize = 64;
/// How much of an answer that is an error is shown.
const SHOWN_CHARS_MAX: usize = 2048;

/// Whom to call, as `clientConfig` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookTarget {
    /// Without the timeout.
    url: String,
    /// PEM; empty for the host's own authorities.
    authorities: Bytes,
}

impl WebhookTarget {
    /// Reads a `clientConfig`.
    ///
    /// # Errors
    /// What it lacks; a configuration that was accepted lacks nothing.
    pub fn read(config: &Value) -> Result<Self, String> {
        use base64::{Engine, engine::general_purpose::STANDARD};
        let authorities = match config["caBundle"].as_str() {
            Some(text) => STANDARD
                .decode(text)
                .map_err(|it| format!("caBundle is no base64: {it}"))?,
            None => Vec::new(),
        };
        let service = &config["service"];
        let url = match (config["url"].as_str(), service["name"].as_str()) {
            (Some(url), _) => url.to_owned(),
            (None, Some(name)) => {
                let namespace = service["namespace"].as_str().unwrap_or_default();
                let port = service["port"].as_u64().unwrap_or(443);
                let path = service["path"].as_str().unwrap_or("/");
                let slash = if path.starts_with('/') { "" } else { "/" };
                format!("https://{name}.{namespace}.svc:{port}{slash}{path}")
            }
            (None, None) => return Err("webhook configuration must have either service or URL".to_owned()),
        };
        Ok(Self {
            url,
            authorities: authorities.into(),
        })
    }

    fn with_timeout(&self, timeout: Duration) -> String {
        let mark = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{mark}timeout={}s", self.url, timeout.as_secs())
    }
}

type Pool = Client<HttpsConnector<services::Dial>, Full<Bytes>>;

/// Calls webhooks.
pub struct Caller {
    dial: services::Dial,
    pools: Mutex<HashMap<Bytes, Pool>>,
}

impl Caller {
    /// One that finds Services in this store.
    pub fn new(store: Arc<Store>) -> Self {
        Self {
            dial: services::Dial::new(store),
            pools: Mutex::default(),
        }
    }

    /// Posts JSON and reads the answer.
    ///
    /// # Errors
    /// The reason in the words of a Go client, which people search for.
    pub async fn post(&self, target: &WebhookTarget, body: Bytes, timeout: Duration) -> Result<Value, String> {
        let url = target.with_timeout(timeout);
        let failed = |why: &str| format!("Post \"{url}\": {why}");
        let uri: Uri = url
            .parse()
            .map_err(|it: http::uri::InvalidUri| failed(&it.to_string()))?;
        let pool = self.pool(&target.authorities).map_err(|it| failed(&it))?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "application/json, */*")
            .header(header::USER_AGENT, HeaderValue::from_static("kube-apiserver-admission"))
            .body(Full::new(body))
            .map_err(|it| failed(&it.to_string()))?;
        let exchange = async {
            let response = pool.request(request).await.map_err(|it| failed(&reason(&it)))?;
            let status = response.status().as_u16();
            let is_text = is_text(response.headers());
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|it| failed(&it.to_string()))?.to_bytes();
            if !(200..300).contains(&status) {
                let said = status_text(&body).filter(|_| !is_text);
                return Err(said.unwrap_or_else(|| refused(status, is_text.then_some(&*body))));
            }
            serde_json::from_slice(&body).map_err(|it| format!("couldn't get version/kind; json parse error: {it}"))
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(failed("context deadline exceeded")))
    }

    fn pool(&self, authorities: &Bytes) -> Result<Pool, String> {
        let mut pools = self.pools.lock();
        if let Some(pool) = pools.get(authorities) {
            return Ok(pool.clone());
        }
        let config = ClientConfig::builder_with_provider(tls::provider())
            .with_safe_default_protocol_versions()
            .map_err(|it| it.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(server_certificate::verifier(bundle(authorities)?, &tls::provider()))
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_only()
            .enable_all_versions()
            .wrap_connector(self.dial.clone());
        let pool: Pool = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        if pools.len() >= POOLS_MAX {
            pools.clear();
        }
        pools.insert(authorities.clone(), pool.clone());
        Ok(pool)
    }
}

fn bundle(authorities: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    if authorities.is_empty() {
        // As Go does on Linux.
        let files = [
            "/etc/ssl/certs/ca-certificates.crt",
            "/etc/pki/tls/certs/ca-bundle.crt",
            "/etc/ssl/cert.pem",
        ];
        let own = std::env::var("SSL_CERT_FILE").ok();
        let files = own.iter().map(String::as_str).chain(files);
        let pem = files
            .into_iter()
            .find_map(|it| std::fs::read(it).ok())
            .unwrap_or_default();
        return Ok(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect());
    }
    let failed = |it: &dyn std::fmt::Display| format!("unable to load root certificates: {it}");
    let listed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authorities).collect();
    match listed.map_err(|it| failed(&it))? {
        none if none.is_empty() => Err(failed(&"unable to parse bytes as PEM block")),
        listed => Ok(listed),
    }
}

/// Why there was no answer, as Go says it where people know Go's words.
fn reason(error: &hyper_util::client::legacy::Error) -> String {
    let mut at: &(dyn std::error::Error + 'static) = error;
    loop {
        if let Some(error) = at.downcast_ref::<rustls::Error>() {
            return certificate(error);
        }
        // An io::Error that carries another error says nothing itself.
        let next = match at.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => at.source(),
        };
        match next {
            Some(next) => at = next,
            None => return at.to_string(),
        }
    }
}

fn certificate(error: &rustls::Error) -> String {
    use rustls::{CertificateError as Bad, Error};
    let said = match error {
        Error::InvalidCertificate(Bad::UnknownIssuer | Bad::BadSignature) => {
            "certificate signed by unknown authority".to_owned()
        }
        Error::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "certificate has expired or is not yet valid".to_owned()
        }
        Error::InvalidCertificate(Bad::NotValidForNameContext { expected, presented }) => {
            format!(
                "certificate is valid for {}, not {}",
                presented.join(", "),
                expected.to_str()
            )
        }
        other => return format!("remote error: tls: {other}"),
    };
    format!("tls: failed to verify certificate: x509: {said}")
}

/// What a `Status` says that came instead of the answer; client-go tells it rather than its own words.
fn status_text(body: &[u8]) -> Option<String> {
    let status: Value = serde_json::from_slice(body).ok()?;
    let is_failure = status["kind"] == "Status" && status["apiVersion"] == "v1" && status["status"] == "Failure";
    let text = status["message"].as_str().filter(|_| is_failure)?;
    Some(text.chars().take(SHOWN_CHARS_MAX).collect())
}

/// Whether the body is meant for people, as client-go sees it.
fn is_text(headers: &http::HeaderMap) -> bool {
    let media = headers
        .get(header::CONTENT_TYPE)
        .map(|it| it.to_str().unwrap_or_default());
    media.is_none_or(|it| it.is_empty() || it.trim_start().to_ascii_lowercase().starts_with("text/"))
}

/// What client-go says of an answer that is an error.
fn refused(status: u16, body: Option<&[u8]>) -> String {
    let text = body.map_or("unknown", |it| std::str::from_utf8(it).unwrap_or_default().trim());
    let text: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    let fixed = match status {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => return text,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if text.is_empty() || text == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => return text,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => return format!("an error on the server ({text:?}) has prevented the request from succeeding"),
        _ => return format!("the server responded with the status code {status} but did not return more information"),
    };
    fixed.to_owned()
}
