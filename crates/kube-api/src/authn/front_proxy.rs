//! Users that a trusted proxy names in `X-Remote-*` headers.

use super::{header_texts, x509};
use crate::{identity::User, listen::PeerCertificate};
use http::HeaderMap;
use kube_store::status::Status;
use rustls::server::danger::ClientCertVerifier;
use std::sync::Arc;

/// Which proxies are believed.
pub(super) struct FrontProxy {
    verifier: Arc<dyn ClientCertVerifier>,
    allowed_names: Vec<String>,
}

impl FrontProxy {
    pub fn new(verifier: Arc<dyn ClientCertVerifier>, allowed_names: Vec<String>) -> Self {
        Self {
            verifier,
            allowed_names,
        }
    }

    /// The user in the headers; `None` when there is none or the peer is no such proxy.
    ///
    /// # Errors
    /// 401 when a header of a proxy cannot be read: without it the request would be somebody else's.
    pub fn user(
        &self,
        headers: &HeaderMap,
        peer: &PeerCertificate,
        now: jiff::Timestamp,
    ) -> Result<Option<User>, Status> {
        const USER: &str = "x-remote-user";
        if headers.get(USER).is_none_or(|it| it.is_empty()) {
            return Ok(None);
        }
        let Some(proxy) = x509::common_name(self.verifier.as_ref(), peer, now) else {
            return Ok(None);
        };
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&proxy) {
            return Ok(None);
        }
        let values = |name: &str| header_texts(headers, name).map_err(|_| Status::unauthorized());
        let first = |name: &str| Ok::<_, Status>(values(name)?.into_iter().next().unwrap_or_default());
        let mut user = User {
            username: first(USER)?,
            uid: first("x-remote-uid")?,
            ..User::default()
        };
        user.groups = values("x-remote-group")?;
        for name in headers.keys() {
            if let Some(key) = name.as_str().strip_prefix("x-remote-extra-") {
                user.extra
                    .insert(percent_decode(key).to_lowercase(), values(name.as_str())?);
            }
        }
        Ok(Some(user))
    }
}

/// Decodes `%XX`; text that is not well formed stays as it is.
pub(super) fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail
            .get(..2)
            .and_then(|it| std::str::from_utf8(it).ok())
            .and_then(|it| u8::from_str_radix(it, 16).ok());
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}
