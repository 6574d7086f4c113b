//! Whether a token is to be renewed: plain functions.
//! Upstream: managed-serviceaccount `pkg/addon/agent/controller/tokenreconcile.go`.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use ocm_addon_sdk::{k8s_openapi::api::core::v1::Secret, ocm_api::authentication::ManagedServiceAccount};
use serde::Deserialize;

/// The keys of a Secret with a token.
pub const TOKEN: &str = "token";
/// The certificates that the cluster's API server is trusted by.
pub const CA: &str = "ca.crt";

/// What a look at a token says before the cluster is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// It is to be renewed, and why.
    Renew(&'static str),
    /// It is well until then, if the cluster knows it.
    Ask {
        /// The token.
        token: String,
        /// When it is to be renewed.
        until: Timestamp,
    },
    /// It cannot be judged.
    Unreadable(&'static str),
}

/// The claims that count.
#[derive(Deserialize)]
struct Claims {
    #[serde(default)]
    sub: Option<String>,
    #[serde(default)]
    iat: Option<f64>,
    #[serde(default)]
    exp: Option<f64>,
}

/// Judges the token in a Secret: first what is missing, then whose it is, then its age.
pub fn judge(
    account: &ManagedServiceAccount,
    secret: Option<&Secret>,
    subject: &str,
    ca: &[u8],
    now: Timestamp,
) -> Judgement {
    let status = account.status.as_ref();
    let reference = status.and_then(|it| it.token_secret_ref.as_ref());
    let expiration = status.and_then(|it| it.expiration_timestamp.as_ref());
    let (Some(reference), Some(expiration), Some(secret)) = (reference, expiration, secret) else {
        return Judgement::Renew("there is none");
    };
    let data = |key: &str| {
        secret
            .data
            .as_ref()
            .and_then(|it| it.get(key))
            .map(|it| it.0.as_slice())
    };
    let Some(token) = data(TOKEN).filter(|it| !it.is_empty()) else {
        return Judgement::Renew("its Secret has no token");
    };
    if data(CA) != Some(ca) {
        return Judgement::Renew("its Secret does not have the certificates of the cluster");
    }
    let claims = match claims(token) {
        Ok(claims) => claims,
        Err(why) => return Judgement::Unreadable(why),
    };
    match claims.sub.as_deref() {
        None => return Judgement::Unreadable("sub claim not found in token claims"),
        Some(its) if its != subject => return Judgement::Renew("it is of another ServiceAccount"),
        Some(_) => {}
    }
    let until = threshold(reference.last_refresh_timestamp.0, expiration.0, &claims);
    if now > until {
        return Judgement::Renew("most of its life is over");
    }
    match String::from_utf8(token.to_vec()) {
        Ok(token) => Judgement::Ask { token, until },
        Err(_) => Judgement::Unreadable("invalid JWT token format"),
    }
}

/// After four fifths of the token's life. The time it was written is by our clock and its end by the cluster's: where
/// the end is the one that the token itself names, its life is what the token says, however far the clocks are apart.
fn threshold(refreshed: Timestamp, expiration: Timestamp, claims: &Claims) -> Timestamp {
    let of_token = claims.iat.zip(claims.exp).filter(|(iat, exp)| {
        let differs = exp - expiration.as_second() as f64;
        exp > iat && differs.abs() < 1.0
    });
    let life = match of_token {
        Some((iat, exp)) => SignedDuration::try_from_secs_f64(exp - iat).unwrap_or(SignedDuration::ZERO),
        None => expiration.duration_since(refreshed),
    };
    // As Go divides: the fifth first, and whole.
    let nanoseconds = life.as_nanos() / 5 * 4;
    let fifths = SignedDuration::from_nanos(i64::try_from(nanoseconds).unwrap_or(i64::MAX));
    refreshed.checked_add(fifths).unwrap_or(expiration)
}

/// Reads the claims without looking at the signature, which the cluster does.
fn claims(token: &[u8]) -> Result<Claims, &'static str> {
    const INVALID: &str = "invalid JWT token format";
    let parts: Vec<&[u8]> = token.split(|it| *it == b'.').collect();
    let [_, payload, _] = parts[..] else {
        return Err(INVALID);
    };
    let payload = payload.strip_suffix(b"=").unwrap_or(payload);
    let json = URL_SAFE_NO_PAD.decode(payload).map_err(|_| INVALID)?;
    serde_json::from_slice(&json).map_err(|_| INVALID)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SUBJECT: &str = "system:serviceaccount:agent:ci";

    fn jwt(claims: &Value) -> String {
        let encode = |it: &str| URL_SAFE_NO_PAD.encode(it);
        format!("{}.{}.{}", encode("{}"), encode(&claims.to_string()), encode("x"))
    }

    fn account(refreshed: &str, expiration: &str) -> ManagedServiceAccount {
        let status = json!({
            "expirationTimestamp": expiration,
            "tokenSecretRef": {"name": "ci", "lastRefreshTimestamp": refreshed},
        });
        serde_json::from_value(json!({"metadata": {"name": "ci"}, "spec": {"rotation": {}}, "status": status})).unwrap()
    }

    fn secret(token: &str) -> Secret {
        serde_json::from_value(json!({"data": {"token": base64(token), "ca.crt": base64("ca")}})).unwrap()
    }

    fn base64(text: &str) -> String {
        base64::engine::general_purpose::STANDARD.encode(text)
    }

    fn judged(account: &ManagedServiceAccount, token: &str, now: &str) -> Judgement {
        judge(account, Some(&secret(token)), SUBJECT, b"ca", now.parse().unwrap())
    }

    #[test]
    fn a_token_is_renewed_after_four_fifths_of_its_life() {
        let account = account("2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z");
        let token = jwt(&json!({"sub": SUBJECT}));
        let until = "2026-01-01T00:08:00Z".parse().unwrap();
        let ask = Judgement::Ask {
            token: token.clone(),
            until,
        };
        assert_eq!(judged(&account, &token, "2026-01-01T00:08:00Z"), ask);
        assert!(matches!(
            judged(&account, &token, "2026-01-01T00:08:01Z"),
            Judgement::Renew(_)
        ));
    }

    #[test]
    fn clocks_that_differ_do_not_renew_in_a_circle() {
        // The cluster is an hour behind: its tokens of ten minutes end before they were written.
        let exp: Timestamp = "2025-12-31T23:10:00Z".parse().unwrap();
        let claims = json!({"sub": SUBJECT, "iat": exp.as_second() - 600, "exp": exp.as_second()});
        let behind = account("2026-01-01T00:00:00Z", "2025-12-31T23:10:00Z");
        let token = jwt(&claims);
        let until = "2026-01-01T00:08:00Z".parse().unwrap();
        let ask = Judgement::Ask {
            token: token.clone(),
            until,
        };
        assert_eq!(judged(&behind, &token, "2026-01-01T00:00:01Z"), ask);
        // Who writes another end into the status has the token renewed.
        let told = account("2026-01-01T00:00:00Z", "2025-12-01T00:00:00Z");
        assert!(matches!(
            judged(&told, &token, "2026-01-01T00:00:01Z"),
            Judgement::Renew(_)
        ));
    }

    #[test]
    fn what_is_missing_or_of_another_is_renewed() {
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        let known = account("2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z");
        let renews = |it: Judgement| assert!(matches!(it, Judgement::Renew(_)), "{it:?}");
        renews(judge(&known, None, SUBJECT, b"ca", now));
        let good = secret(&jwt(&json!({"sub": SUBJECT})));
        renews(judge(
            &ManagedServiceAccount::default(),
            Some(&good),
            SUBJECT,
            b"ca",
            now,
        ));
        renews(judge(&known, Some(&good), SUBJECT, b"other", now));
        renews(judge(&known, Some(&Secret::default()), SUBJECT, b"ca", now));
        renews(judged(
            &known,
            &jwt(&json!({"sub": "system:serviceaccount:other:ci"})),
            "2026-01-01T00:01:00Z",
        ));
    }

    #[test]
    fn a_token_that_is_none_is_told() {
        let known = account("2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z");
        let now = "2026-01-01T00:01:00Z";
        let unreadable = |why| Judgement::Unreadable(why);
        assert_eq!(judged(&known, "garbage", now), unreadable("invalid JWT token format"));
        assert_eq!(judged(&known, "a.%.c", now), unreadable("invalid JWT token format"));
        assert_eq!(
            judged(&known, &jwt(&json!({})), now),
            unreadable("sub claim not found in token claims")
        );
    }
}
