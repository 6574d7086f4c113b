//! An HTTP client for servers of strangers: bounded, with a deadline, and careful with what it tells to whom.
//!
//! It follows redirects itself, since that is where credentials leak: they go to the origin that they were given for
//! (scheme, host and port) and nowhere else, client certificates included, and never from TLS to plain text.

mod connector;
mod tls;

use crate::{
    SourceAccess, SourceCredentials, SourceError,
    bounds::Deadline,
    error::{chain, shown},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use connector::{Connector, connector};
use http::{
    HeaderMap, HeaderValue, Method, Request, StatusCode,
    header::{AUTHORIZATION, LOCATION, USER_AGENT},
};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use rustls::ClientConfig;
use secrecy::ExposeSecret;
use std::{error::Error, sync::OnceLock};
use url::{Origin, Url};

const REDIRECTS_MAX: usize = 5;

type Sender = Client<Connector, Full<Bytes>>;

/// A client for one server, and for those that it refers to.
pub(crate) struct WebClient {
    /// Who gets the credentials.
    origin: Origin,
    authorization: Option<HeaderValue>,
    to_origin: Sender,
    /// Made when the origin first refers to another one.
    to_others: OnceLock<Sender>,
    /// Whom others are trusted by; it has no credentials.
    access: SourceAccess,
    /// Whether it has any credentials at all, for the advice in a message.
    has_credentials: bool,
}

/// An answer, whose body is still to be read.
pub(crate) struct WebAnswer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    /// What answered in the end.
    pub url: Url,
    pub body: Incoming,
}

impl WebClient {
    /// A client that gives the credentials to the origin of `base`. A user and a password in the URL count when there
    /// are no other credentials.
    pub fn new(base: &Url, access: &SourceAccess) -> Result<Self, SourceError> {
        if !matches!(base.scheme(), "http" | "https") || base.host_str().is_none() {
            return Err(SourceError::invalid(format!("{} is no URL of HTTP", shown(base))));
        }
        let authorization = match &access.credentials {
            SourceCredentials::None if !base.username().is_empty() || base.password().is_some() => {
                let decoded = |text: &str| {
                    percent_encoding::percent_decode_str(text)
                        .decode_utf8_lossy()
                        .into_owned()
                };
                Some(basic(
                    &decoded(base.username()),
                    &decoded(base.password().unwrap_or_default()),
                )?)
            }
            // A bucket's key signs each request by itself.
            SourceCredentials::None | SourceCredentials::ClientCertificate { .. } | SourceCredentials::S3 { .. } => {
                None
            }
            SourceCredentials::Basic { user, password } => Some(basic(user, password.expose_secret())?),
            SourceCredentials::AuthHeader(value) => Some(secret_header(value.expose_secret().trim())?),
            SourceCredentials::SshKey { .. } => {
                return Err(SourceError::invalid(format!(
                    "{} is reached by HTTP, and the credentials are a key of SSH: give a user and a password, or an \
                     ssh:// URL",
                    shown(base)
                )));
            }
        };
        let identity = tls::identity(&access.credentials)?;
        let tls = match base.scheme() {
            "https" => tls::configuration(access, identity)?,
            // Nothing is encrypted on the way to this origin, and to read whom the system trusts takes a while.
            _ => tls::of_nobody()?,
        };
        Ok(Self {
            origin: base.origin(),
            authorization,
            to_origin: sender(tls),
            to_others: OnceLock::new(),
            access: SourceAccess {
                credentials: SourceCredentials::None,
                ..access.clone()
            },
            has_credentials: !matches!(access.credentials, SourceCredentials::None) || !base.username().is_empty(),
        })
    }

    /// Whether requests to this URL carry credentials.
    pub fn trusts(&self, url: &Url) -> bool {
        url.origin() == self.origin
    }

    fn to_others(&self) -> Result<&Sender, SourceError> {
        if let Some(made) = self.to_others.get() {
            return Ok(made);
        }
        let made = sender(tls::configuration(&self.access, None)?);
        Ok(self.to_others.get_or_init(|| made))
    }

    /// Asks, and follows redirects. The answer may be of any status.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Bytes,
        deadline: Deadline,
    ) -> Result<WebAnswer, SourceError> {
        let mut url = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send_once(method.clone(), &url, &headers, body.clone(), deadline);
            let answer = deadline.holds(&shown(&url), answer).await?;
            let Some(next) = redirect(&answer)? else {
                return Ok(answer);
            };
            if method != Method::GET && method != Method::HEAD {
                let reason = format!("it redirects a {method} to {}: use that URL", shown(&next));
                return Err(SourceError::unreachable(&shown(&url), reason));
            }
            url = next;
        }
        let reason = format!("it redirects more than {REDIRECTS_MAX} times");
        Err(SourceError::unreachable(&shown(&url), reason))
    }

    async fn send_once(
        &self,
        method: Method,
        url: &Url,
        headers: &HeaderMap,
        body: Bytes,
        deadline: Deadline,
    ) -> Result<WebAnswer, SourceError> {
        let trusted = self.trusts(url);
        let mut target = url.clone();
        let _ = target.set_username("");
        let _ = target.set_password(None);
        target.set_fragment(None);
        let mut request = Request::builder().method(method).uri(target.as_str());
        if let Some(all) = request.headers_mut() {
            all.insert(USER_AGENT, HeaderValue::from_static("drover"));
            for (name, value) in headers {
                // What signs a request is for the origin alone.
                if trusted || name != AUTHORIZATION {
                    all.insert(name, value.clone());
                }
            }
            if let Some(authorization) = self.authorization.as_ref().filter(|_| trusted) {
                all.insert(AUTHORIZATION, authorization.clone());
            }
        }
        let request = request
            .body(Full::new(body))
            .map_err(|it| SourceError::invalid(format!("{} cannot be asked for: {it}", shown(url))))?;
        let sender = if trusted { &self.to_origin } else { self.to_others()? };
        let sent = tokio::time::timeout_at(deadline.at, sender.request(request)).await;
        let sent = sent.map_err(|_| deadline.missed(&shown(url)))?;
        let (head, body) = sent
            .map_err(|it| SourceError::unreachable(&shown(url), advised(&it)))?
            .into_parts();
        Ok(WebAnswer {
            status: head.status,
            headers: head.headers,
            url: url.clone(),
            body,
        })
    }

    /// What a status that is no success means for `what`.
    pub fn refusal(&self, answer: &WebAnswer, what: &str) -> SourceError {
        let url = shown(&answer.url);
        let status = answer.status;
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::PROXY_AUTHENTICATION_REQUIRED => {
                let advice = if !self.has_credentials {
                    "give credentials"
                } else if self.trusts(&answer.url) {
                    "the credentials are wrong, or may not read this"
                } else {
                    "it is another host than the credentials are for, and did not get them"
                };
                SourceError::login_needed(&url, format!("{status}, {advice}"))
            }
            StatusCode::NOT_FOUND | StatusCode::GONE => SourceError::not_found(&url, what),
            status => SourceError::unreachable(&url, format!("it answers {status}")),
        }
    }
}

impl WebAnswer {
    /// The body, as long as it has at most `max` bytes.
    pub async fn bytes(mut self, max: u64, deadline: Deadline) -> Result<Vec<u8>, SourceError> {
        let url = shown(&self.url);
        let mut all = Vec::new();
        while let Some(chunk) = next_chunk(&mut self.body, &url, deadline).await? {
            if (all.len() + chunk.len()) as u64 > max {
                return Err(SourceError::too_large(&url, format!("it has more than {max} bytes")));
            }
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }
}

fn sender(tls: ClientConfig) -> Sender {
    Client::builder(TokioExecutor::new()).build(connector(tls))
}

/// What comes next of a body, until its end.
pub(crate) async fn next_chunk(
    body: &mut Incoming,
    url: &str,
    deadline: Deadline,
) -> Result<Option<Bytes>, SourceError> {
    loop {
        let frame = tokio::time::timeout_at(deadline.at, body.frame()).await;
        let Some(frame) = frame.map_err(|_| deadline.missed(url))? else {
            return Ok(None);
        };
        let frame = frame.map_err(|it| SourceError::unreachable(url, chain(&it)))?;
        // What is no data are trailers, and the end.
        match frame.into_data() {
            Ok(data) if data.is_empty() => {}
            Ok(data) => return Ok(Some(data)),
            Err(_) => return Ok(None),
        }
    }
}

/// Where an answer sends us, if it does.
fn redirect(answer: &WebAnswer) -> Result<Option<Url>, SourceError> {
    if !matches!(answer.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let from = shown(&answer.url);
    let location = answer.headers.get(LOCATION).and_then(|it| it.to_str().ok());
    let next = location.and_then(|it| answer.url.join(it).ok());
    let Some(next) = next.filter(|it| matches!(it.scheme(), "http" | "https") && it.host_str().is_some()) else {
        return Err(SourceError::corrupt(&from, "it redirects to what is no URL of HTTP"));
    };
    if answer.url.scheme() == "https" && next.scheme() == "http" {
        let reason = format!("it redirects to {}, which is not encrypted", shown(&next));
        return Err(SourceError::unreachable(&from, reason));
    }
    Ok(Some(next))
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, SourceError> {
    secret_header(&format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

fn secret_header(value: &str) -> Result<HeaderValue, SourceError> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| SourceError::invalid("the authorization header has characters that no header may have"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Why a request failed, and what helps.
fn advised(error: &(dyn Error + 'static)) -> String {
    let text = chain(error);
    let untrusted = ["UnknownIssuer", "invalid peer certificate", "InvalidCertificate"];
    if untrusted.iter().any(|it| text.contains(it)) {
        return format!("{text}: give the CA certificates that vouch for it");
    }
    text
}
