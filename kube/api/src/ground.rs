//! What the server gives to its own controllers besides objects: keys and permissions.

use crate::{
    context::ServerContext,
    controllers::{ServerAccess, TokenClaims, Unsignable},
    csr,
    identity::{AccessDecision, Attributes, User},
    tokens,
};
use jiff::Timestamp;
use serde_json::Value;
use std::sync::{Arc, Weak};

/// The server, seen by its controllers. Weak, so that controllers do not keep a stopped server alive.
pub struct ServerGround {
    server: Weak<ServerContext>,
}

impl ServerGround {
    pub fn new(server: &Arc<ServerContext>) -> Self {
        Self {
            server: Arc::downgrade(server),
        }
    }
}

const STOPPED: &str = "the server is stopping";

impl ServerAccess for ServerGround {
    fn root_ca(&self) -> String {
        self.server
            .upgrade()
            .map(|it| it.pki.ca_pem().to_owned())
            .unwrap_or_default()
    }

    fn sign(&self, request: &Value, now: Timestamp) -> Result<String, Unsignable> {
        let unsignable = |reason: &str, message: String| Unsignable {
            reason: reason.into(),
            message,
        };
        let server = self
            .server
            .upgrade()
            .ok_or_else(|| unsignable("ServerStopping", STOPPED.into()))?;
        csr::sign(&server.pki, request, now).map_err(|it| unsignable("SignerValidationFailure", it.0))
    }

    fn mint(&self, claims: &TokenClaims) -> Result<String, String> {
        let server = self.server.upgrade().ok_or(STOPPED)?;
        let key = server.pki.token_key().map_err(|it| it.to_string())?;
        let TokenClaims {
            namespace,
            service_account,
            service_account_uid,
            secret,
            ..
        } = claims;
        Ok(key.sign(&tokens::legacy_claims(
            namespace,
            service_account,
            service_account_uid,
            secret,
        )))
    }

    fn authorize(&self, user: &User, attributes: &Attributes) -> AccessDecision {
        self.server
            .upgrade()
            .map_or(AccessDecision::NoOpinion, |it| it.authorize(user, attributes))
    }
}
