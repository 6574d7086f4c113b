//! Users that a trusted proxy names in `X-Remote-*` headers.

use super::x509;
use crate::{identity::User, listen::PeerCertificate};
use http::HeaderMap;
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
    pub fn user(&self, headers: &HeaderMap, peer: &PeerCertificate, now: jiff::Timestamp) -> Option<User> {
        let text = |name: &str| {
            headers
                .get(name)
                .and_then(|it| it.to_str().ok())
                .filter(|it| !it.is_empty())
        };
        let username = text("x-remote-user")?.to_owned();
        let proxy = x509::common_name(self.verifier.as_ref(), peer, now)?;
        if !self.allowed_names.is_empty() && !self.allowed_names.contains(&proxy) {
            return None;
        }
        let values = |name: &http::HeaderName| {
            headers
                .get_all(name)
                .iter()
                .filter_map(|it| it.to_str().ok())
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let mut user = User {
            username,
            uid: text("x-remote-uid").unwrap_or_default().to_owned(),
            ..User::default()
        };
        user.groups = values(&http::HeaderName::from_static("x-remote-group"));
        for name in headers.keys() {
            if let Some(key) = name.as_str().strip_prefix("x-remote-extra-") {
                user.extra.insert(percent_decode(key).to_lowercase(), values(name));
            }
        }
        Some(user)
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
