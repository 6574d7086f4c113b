//! Who asks: from the client certificate, the bearer token, or nobody.
//!
//! A credential that is shown but not valid is refused on every path, public ones too; only a request without any
//! credential is anonymous.

mod bootstrap_token;
mod front_proxy;
pub mod impersonation;
mod service_account;
mod x509;

use crate::{
    identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User},
    listen::PeerCertificate,
    pki::Pki,
    tls,
};
use front_proxy::FrontProxy;
pub use front_proxy::TrustedProxies;
use http::{HeaderMap, header::AUTHORIZATION};
use kube_store::{status::Status, store::Store};
use parking_lot::Mutex;
use rustls::{
    DistinguishedName, RootCertStore,
    pki_types::CertificateDer,
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
};
use std::{collections::HashMap, str::Utf8Error, sync::Arc};

/// Key of `User::extra` that names the credential used.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// Entries of half a cache; a fleet has about as many credentials as clusters.
const CACHE_ENTRIES_MAX: usize = 4096;
/// How long an entry stays that nobody asks for, at least; at most twice as long. Pods come and go,
/// each with a token of its own.
const CACHE_TURN: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

/// Answers to repeated questions about one credential, by its SHA-256. What was not asked
/// for between two turns is forgotten.
pub(crate) struct CredentialCache<T>(Mutex<Halves<T>>);

struct Halves<T> {
    /// What was asked for since the last turn.
    recent: HashMap<[u8; 32], T>,
    /// What was asked for before it.
    before: HashMap<[u8; 32], T>,
    turned: jiff::Timestamp,
}

impl<T> Halves<T> {
    fn turn(&mut self, now: jiff::Timestamp) {
        self.before = std::mem::take(&mut self.recent);
        self.turned = now;
    }
}

impl<T> Default for CredentialCache<T> {
    fn default() -> Self {
        Self(Mutex::new(Halves {
            recent: HashMap::new(),
            before: HashMap::new(),
            turned: jiff::Timestamp::UNIX_EPOCH,
        }))
    }
}

impl<T: Clone> CredentialCache<T> {
    fn get(&self, key: &[u8; 32], now: jiff::Timestamp) -> Option<T> {
        let mut halves = self.0.lock();
        if now.duration_since(halves.turned) >= CACHE_TURN {
            halves.turn(now);
        }
        if let Some(found) = halves.recent.get(key) {
            return Some(found.clone());
        }
        let found = halves.before.remove(key)?;
        halves.recent.insert(*key, found.clone());
        Some(found)
    }

    fn put(&self, key: [u8; 32], value: T, now: jiff::Timestamp) {
        let mut halves = self.0.lock();
        if halves.recent.len() >= CACHE_ENTRIES_MAX {
            halves.turn(now);
        }
        halves.recent.insert(key, value);
    }
}

/// Resource, namespace and name of an object without which a credential is not good.
pub type BoundObject = (&'static str, Box<str>, Box<str>);

/// On what terms a credential is good.
#[derive(Debug, Default)]
pub struct Terms {
    /// When it stops being good by itself.
    pub until: Option<jiff::Timestamp>,
    /// What it stops being good with, or may.
    pub grounds: Vec<BoundObject>,
}

/// Finds the user of a request.
pub struct Authenticator {
    store: Arc<Store>,
    pki: Arc<Pki>,
    clients: Arc<dyn ClientCertVerifier>,
    certificates: CredentialCache<x509::CertificateIdentity>,
    tokens: CredentialCache<Arc<serde_json::Value>>,
    front_proxy: Option<FrontProxy>,
}

/// Accepts certificates of these authorities for client authentication.
fn client_verifier(authorities: &[CertificateDer<'static>]) -> Result<Arc<dyn ClientCertVerifier>, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.clone())?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), tls::provider()).build();
    verifier.map_err(|error| rustls::Error::General(error.to_string()))
}

impl Authenticator {
    /// An authenticator for the clients of `pki`'s authority and the tokens and Secrets in `store`.
    ///
    /// # Errors
    /// When the authority's certificate cannot be a trust anchor.
    pub fn new(store: Arc<Store>, pki: Arc<Pki>) -> Result<Self, rustls::Error> {
        let clients = client_verifier(std::slice::from_ref(pki.authority().der()))?;
        let (certificates, tokens) = (CredentialCache::default(), CredentialCache::default());
        Ok(Self {
            store,
            pki,
            clients,
            certificates,
            tokens,
            front_proxy: None,
        })
    }

    /// Also believes the `X-Remote-*` headers of these proxies.
    ///
    /// # Errors
    /// When an authority's certificate cannot be a trust anchor.
    pub fn with_front_proxy(mut self, trusted: &TrustedProxies) -> Result<Self, rustls::Error> {
        self.front_proxy = Some(FrontProxy::new(trusted)?);
        Ok(self)
    }

    /// Subjects of the authorities of the proxies that are believed.
    pub fn proxy_authorities(&self) -> &[DistinguishedName] {
        self.front_proxy.as_ref().map_or(&[], FrontProxy::authorities)
    }

    /// The user of a request, before impersonation.
    ///
    /// # Errors
    /// 401 when a credential is shown and not valid.
    pub fn authenticate(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerCertificate>,
        now: jiff::Timestamp,
    ) -> Result<User, Status> {
        if let Some(peer) = peer {
            if let Some(proxy) = &self.front_proxy
                && let Some(user) = proxy.user(headers, peer, now)?
            {
                return Ok(authenticated(user));
            }
            let identity = self.certificates.get(&peer.sha256, now).or_else(|| {
                let identity = x509::identify(self.clients.as_ref(), peer, now)?;
                self.certificates.put(peer.sha256, identity.clone(), now);
                Some(identity)
            });
            if let Some(identity) = identity.filter(|it| it.is_valid_at(now)) {
                return Ok(identity.user);
            }
        }
        match (bearer(headers), peer) {
            (Some(token), _) => self
                .authenticate_token(&token, &[], now)
                .ok_or_else(Status::unauthorized),
            (None, Some(_)) => Err(Status::unauthorized()),
            (None, None) => Ok(User::new(ANONYMOUS, &[UNAUTHENTICATED])),
        }
    }

    /// On what terms the credential of a request is good that was found good.
    pub fn terms(&self, headers: &HeaderMap, peer: Option<&PeerCertificate>, now: jiff::Timestamp) -> Terms {
        let identity = peer.and_then(|it| self.certificates.get(&it.sha256, now));
        if let Some(identity) = identity.filter(|it| it.is_valid_at(now)) {
            return Terms {
                until: Some(identity.until()),
                grounds: Vec::new(),
            };
        }
        let Some(token) = bearer(headers) else {
            return Terms::default();
        };
        if bootstrap_token::is_shaped(&token) {
            return bootstrap_token::terms(&token);
        }
        let claims = self.claims(&token, now);
        claims.map(|it| service_account::terms(&it)).unwrap_or_default()
    }

    /// The user of a bearer token that is meant for one of `audiences`; for this server when there are none.
    pub fn authenticate_token(&self, token: &str, audiences: &[String], now: jiff::Timestamp) -> Option<User> {
        let user = if bootstrap_token::is_shaped(token) {
            // Bootstrap tokens know no audience: they are for this server only.
            if !audiences.is_empty() && !audiences.iter().any(|it| it == crate::tokens::ISSUER) {
                return None;
            }
            bootstrap_token::user(&self.store, token, now)?
        } else {
            self.service_account(token, audiences, now)?
        };
        Some(authenticated(user))
    }

    /// The ServiceAccount of a token, when both are still good.
    fn service_account(&self, token: &str, audiences: &[String], now: jiff::Timestamp) -> Option<User> {
        let claims = self.claims(token, now)?;
        service_account::user(&self.store, &claims, token, audiences, now)
    }

    /// What a token says that this server signed.
    fn claims(&self, token: &str, now: jiff::Timestamp) -> Option<Arc<serde_json::Value>> {
        use sha2::{Digest, Sha256};
        let hash: [u8; 32] = Sha256::digest(token).into();
        // Only the signature is remembered; everything that can end a token is looked at again, so a deleted account or
        // Secret is refused by the very next request.
        self.tokens.get(&hash, now).or_else(|| {
            let claims = Arc::new(self.pki.existing_token_key().ok()??.verify(token)?);
            self.tokens.put(hash, claims.clone(), now);
            Some(claims)
        })
    }
}

/// All values of a header. One that cannot be read is an error: it is no value left out.
fn header_texts(headers: &HeaderMap, name: &str) -> Result<Vec<String>, Utf8Error> {
    let all = headers.get_all(name).iter();
    all.map(|it| std::str::from_utf8(it.as_bytes()).map(str::to_owned))
        .collect()
}

/// The token of `Authorization: Bearer`. One that is no text is nobody's, and not left out.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = String::from_utf8_lossy(headers.get(AUTHORIZATION)?.as_bytes());
    let (scheme, token) = value.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then(|| token.to_owned())
}

/// Adds the group of every authenticated user.
pub(crate) fn authenticated(mut user: User) -> User {
    if !user.is_in(AUTHENTICATED) && !user.is_in(UNAUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

/// Name, groups and nothing else of a ServiceAccount.
pub fn service_account_user(namespace: &str, name: &str) -> User {
    User {
        username: format!("system:serviceaccount:{namespace}:{name}"),
        groups: vec![
            "system:serviceaccounts".into(),
            format!("system:serviceaccounts:{namespace}"),
        ],
        ..User::default()
    }
}

/// Namespace and name of a ServiceAccount's user name.
pub fn service_account_of(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

#[cfg(test)]
mod tests;
