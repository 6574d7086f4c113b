//! Users that a trusted proxy names in `X-Remote-*` headers.

use super::{client_verifier, header_texts, x509};
use crate::{identity::User, listen::PeerCertificate};
use http::HeaderMap;
use kube_store::status::Status;
use rustls::{
    DistinguishedName,
    pki_types::{CertificateDer, pem::PemObject},
    server::danger::ClientCertVerifier,
};
use std::sync::Arc;

/// The proxies in front of a server that are believed about who asks: kube-apiserver's `--requestheader-client-ca-file`
/// and `--requestheader-allowed-names`.
#[derive(Clone, Debug)]
pub struct TrustedProxies {
    authorities: Vec<CertificateDer<'static>>,
    /// As it was given; programs that delegate authentication read it in a ConfigMap.
    pem: String,
    allowed_names: Vec<String>,
}

impl TrustedProxies {
    /// Proxies whose certificates one of the authorities in `pem` signed for one of `allowed_names`,
    /// for any name when there are none.
    ///
    /// # Errors
    /// What is wrong with `pem`, for whoever wrote it.
    pub fn from_pem(pem: &str, allowed_names: Vec<String>) -> Result<Self, String> {
        let authorities: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|it| format!("it is no PEM of certificates: {it}"))?;
        if authorities.is_empty() {
            return Err("it holds no certificate in PEM".to_owned());
        }
        client_verifier(&authorities).map_err(|it| format!("a certificate in it cannot be an authority: {it}"))?;
        Ok(Self {
            authorities,
            pem: pem.to_owned(),
            allowed_names,
        })
    }

    /// The authorities in PEM.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Names of the certificates that are believed; none for any.
    pub fn allowed_names(&self) -> &[String] {
        &self.allowed_names
    }
}

/// Which proxies are believed.
pub(super) struct FrontProxy {
    verifier: Arc<dyn ClientCertVerifier>,
    allowed_names: Vec<String>,
}

impl FrontProxy {
    pub fn new(trusted: &TrustedProxies) -> Result<Self, rustls::Error> {
        Ok(Self {
            verifier: client_verifier(&trusted.authorities)?,
            allowed_names: trusted.allowed_names.clone(),
        })
    }

    /// Subjects of the authorities.
    pub fn authorities(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
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
