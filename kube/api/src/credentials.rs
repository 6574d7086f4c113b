//! What a request shows of who asks, kept for as long as its answer goes on.

use crate::{
    authn::{self, Authenticator, Terms},
    authz::Rbac,
    identity::User,
    listen::PeerCertificate,
};
use http::{HeaderMap, header};
use kube_store::status::Status;
use std::sync::Arc;

/// What a request showed.
#[derive(Clone)]
pub struct Credentials {
    /// The headers that say who asks.
    headers: HeaderMap,
    peer: Option<Arc<PeerCertificate>>,
    /// Who asks from within the process, and shows nothing.
    own: Option<User>,
}

/// Who asks, and in whose name.
pub struct Identified {
    /// Whose credentials they are. What is asked is counted in this name: whom somebody impersonates,
    /// they choose freely.
    pub real: User,
    /// Who is served: another than the real one when that one impersonates.
    pub user: User,
}

const IMPERSONATE: &str = "impersonate-";

impl Credentials {
    /// The credentials of a request.
    pub fn new(headers: &HeaderMap, peer: Option<Arc<PeerCertificate>>, own: Option<User>) -> Self {
        let says_who = |name: &str| {
            name == header::AUTHORIZATION.as_str() || name.starts_with(IMPERSONATE) || name.starts_with("x-remote-")
        };
        let said = headers.iter().filter(|(name, _)| says_who(name.as_str()));
        Self {
            headers: said.map(|(name, value)| (name.clone(), value.clone())).collect(),
            peer,
            own,
        }
    }

    /// Whose they are now.
    ///
    /// # Errors
    /// 401 and 403 as [`identify`].
    pub fn identify(&self, authenticator: &Authenticator, rbac: &Rbac) -> Result<Identified, Status> {
        identify(
            authenticator,
            rbac,
            &self.headers,
            self.peer.as_deref(),
            self.own.clone(),
        )
    }

    /// Whether they are somebody's who asks in the name of another.
    pub fn impersonates(&self) -> bool {
        self.headers.keys().any(|it| it.as_str().starts_with(IMPERSONATE))
    }

    /// What they need to be good, and how long they are.
    pub fn terms(&self, authenticator: &Authenticator) -> Terms {
        if self.own.is_some() {
            return Terms::default();
        }
        let now = jiff::Timestamp::now();
        authenticator.terms(&self.headers, self.peer.as_deref(), now)
    }
}

/// Who is asking. `own` is set for clients in the process, which show no credentials.
///
/// # Errors
/// 401 for a credential that is not good; 403 for an impersonation that is not allowed.
pub fn identify(
    authenticator: &Authenticator,
    rbac: &Rbac,
    headers: &HeaderMap,
    peer: Option<&PeerCertificate>,
    own: Option<User>,
) -> Result<Identified, Status> {
    let real = match own {
        Some(user) => user,
        None => authenticator.authenticate(headers, peer, jiff::Timestamp::now())?,
    };
    let user = authn::impersonation::impersonate(real.clone(), headers, |user, attributes| {
        rbac.authorize(user, attributes)
    })?;
    Ok(Identified { real, user })
}
