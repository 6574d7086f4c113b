//! What a ServiceAccount token of the hub says, and when another one is needed.
//! Upstream: ocm `pkg/registration/register/token`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::Value;

/// With this much of its life left, a token is renewed.
const RENEWED_AT: f64 = 0.2;

/// What we need to know of a token. Nobody checks its signature here: it is ours, and the hub will check it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// The uid of the ServiceAccount.
    pub uid: String,
    /// From when it is valid.
    pub issued_at: Timestamp,
    /// Until when.
    pub expires_at: Timestamp,
}

impl Claims {
    /// Reads them; nothing when it is no token of a ServiceAccount.
    pub fn parse(token: &[u8]) -> Option<Self> {
        let token = std::str::from_utf8(token).ok()?.trim();
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        let claims: Value = serde_json::from_slice(&payload).ok()?;
        let at = |key: &str| Timestamp::from_second(claims[key].as_i64()?).ok();
        Some(Self {
            uid: claims["kubernetes.io"]["serviceaccount"]["uid"].as_str()?.to_owned(),
            issued_at: at("iat")?,
            expires_at: at("exp")?,
        })
    }

    /// When it is to be renewed.
    pub fn renew_at(&self) -> Timestamp {
        let life = self.expires_at.duration_since(self.issued_at);
        self.expires_at
            .checked_sub(life.mul_f64(RENEWED_AT))
            .unwrap_or(self.issued_at)
    }
}

/// Why another token is needed, if one is.
pub fn reason_to_ask(token: Option<&[u8]>, uid: &str, now: Timestamp) -> Option<String> {
    let Some(claims) = token.and_then(Claims::parse) else {
        return Some("there is no token".to_owned());
    };
    if claims.uid != uid {
        return Some("the token is for a ServiceAccount that is gone".to_owned());
    }
    (now >= claims.renew_at()).then(|| format!("the token expires at {}", claims.expires_at))
}

/// The uid of the ServiceAccount out of the message of condition TokenInfrastructureReady,
/// upstream's way of passing it on.
pub fn uid_in(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("(UID: ")?;
    let (uid, _) = rest.split_once(')')?;
    (!uid.is_empty()).then_some(uid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn token(uid: &str, from: i64, to: i64) -> Vec<u8> {
        let claims = json!({"iat": from, "exp": to, "kubernetes.io": {"serviceaccount": {"uid": uid}}});
        format!("h.{}.s", URL_SAFE_NO_PAD.encode(claims.to_string())).into_bytes()
    }

    #[test]
    fn a_token_is_renewed_near_expiry_or_for_another_account() {
        let it = token("u1", 1000, 2000);
        let at = |second| Timestamp::from_second(second).unwrap();
        assert_eq!(reason_to_ask(Some(&it), "u1", at(1799)), None);
        assert!(reason_to_ask(Some(&it), "u1", at(1800)).is_some());
        assert!(reason_to_ask(Some(&it), "u2", at(1100)).is_some());
        assert!(reason_to_ask(Some(b"garbage"), "u1", at(1100)).is_some());
        assert!(reason_to_ask(None, "u1", at(1100)).is_some());
    }

    #[test]
    fn the_uid_is_read_from_upstreams_sentence() {
        let message = "ServiceAccount cluster1/helloworld-agent (UID: 1234-abcd) is ready";
        assert_eq!(uid_in(message), Some("1234-abcd"));
        assert_eq!(uid_in("ServiceAccount is ready"), None);
    }
}
