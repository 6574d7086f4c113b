//! Bearer tokens.

use super::{certificates::KEYS, text};
use kube_api::tokens::TokenKey;
use serde_json::Value;
use std::sync::LazyLock;

static KEY: LazyLock<TokenKey> = LazyLock::new(|| TokenKey::generate().expect("randomness"));

/// Bearer tokens: nothing that we did not sign is anybody.
pub fn tokens(data: &[u8]) {
    let text = text(data);
    let (pki, authenticator) = &*KEYS;
    assert_eq!(KEY.verify(text), None);
    let now = jiff::Timestamp::now();
    assert!(authenticator.authenticate_token(text, &[], now).is_none());
    let mut headers = http::HeaderMap::new();
    if let Ok(value) = http::HeaderValue::from_bytes(data) {
        headers.insert("authorization", value);
        let _ = authenticator.authenticate(&headers, None, now);
    }
    let _ = TokenKey::from_pem(text).is_some();
    // Claims of any kind, in a token that is ours, and in one that is ours but for one bit. Signing takes far longer
    // than all the rest, and what is signed is no stranger's: so not always.
    let Ok(claims) = serde_json::from_str::<Value>(text) else {
        return;
    };
    let own = pki.token_key().expect("a key in memory").sign(&claims);
    let _ = authenticator.authenticate_token(&own, &[], now);
    let signed = KEY.sign(&claims);
    assert!(KEY.verify(&signed).is_some());
    let (rest, signature) = signed.rsplit_once('.').expect("a token has three parts");
    assert_eq!(KEY.verify(&format!("{rest}A.{signature}")), None);
}
