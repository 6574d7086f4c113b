//! ServiceAccount tokens: JSON Web Tokens signed with RS256, checked against one key only.
//!
//! Written here rather than taken from a JWT crate: one algorithm and one key leave nothing to negotiate, so there is
//! no algorithm confusion to guard against and no process-wide provider to install.

use aws_lc_rs::{
    encoding::{AsDer, PublicKeyX509Der},
    rand::SystemRandom,
    rsa::{self, KeySize},
    signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, UnparsedPublicKey},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The issuer of bound tokens, and the audience that the API server itself accepts.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The issuer of tokens in Secrets.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";

/// The key that signs and checks ServiceAccount tokens.
pub struct TokenKey {
    key: rsa::KeyPair,
    pkcs8: Vec<u8>,
    id: String,
}

impl TokenKey {
    /// A new 2048-bit RSA key; `None` when the system gives no randomness.
    pub fn generate() -> Option<Self> {
        Self::new(rsa::KeyPair::generate(KeySize::Rsa2048).ok()?)
    }

    /// Reads a key back from `to_pem`.
    pub fn from_pem(pem: &str) -> Option<Self> {
        let der = PrivatePkcs8KeyDer::from_pem_slice(pem.as_bytes()).ok()?;
        Self::new(rsa::KeyPair::from_pkcs8(der.secret_pkcs8_der()).ok()?)
    }

    fn new(key: rsa::KeyPair) -> Option<Self> {
        let spki: PublicKeyX509Der<'_> = key.public_key().as_der().ok()?;
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(spki.as_ref()));
        let pkcs8 = key.as_der().ok()?.as_ref().to_vec();
        Some(Self { key, pkcs8, id })
    }

    /// The private key as PKCS#8 PEM.
    pub fn to_pem(&self) -> String {
        pem("PRIVATE KEY", &self.pkcs8)
    }

    /// base64url of the SHA-256 of the public key: the `kid` of its tokens.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Signs claims.
    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "RS256", "kid": self.id});
        let mut token = URL_SAFE_NO_PAD.encode(header.to_string());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims.to_string(), &mut token);
        let mut signature = vec![0; self.key.public_modulus_len()];
        self.key
            .sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                token.as_bytes(),
                &mut signature,
            )
            .expect("a 2048-bit key signs a SHA-256 digest");
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// The claims of a token that this key signed. Says nothing about time, audience or whether the account exists.
    pub fn verify(&self, token: &str) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        let header: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
        if header["alg"] != "RS256" || header.get("kid").is_some_and(|it| *it != self.id.as_str()) {
            return None;
        }
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.key.public_key().as_ref());
        public.verify(signed.as_bytes(), &signature).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()
    }

    /// The document of `/openid/v1/jwks`.
    pub fn jwks(&self) -> Value {
        let public = self.key.public_key();
        let encode = |it: &[u8]| URL_SAFE_NO_PAD.encode(it);
        json!({"keys": [{
            "use": "sig", "kty": "RSA", "kid": self.id, "alg": "RS256",
            "n": encode(public.modulus().big_endian_without_leading_zero()),
            "e": encode(public.exponent().big_endian_without_leading_zero()),
        }]})
    }
}

/// The document of `/.well-known/openid-configuration`; `server` is the server's own URL.
pub fn openid_configuration(server: &str) -> Value {
    json!({
        "issuer": ISSUER,
        "jwks_uri": format!("{server}/openid/v1/jwks"),
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    })
}

/// A token is valid as long as the Secret and the account exist; it has no expiry and no audience.
pub fn legacy_claims(namespace: &str, account: &str, account_uid: &str, secret: &str) -> Value {
    json!({
        "iss": LEGACY_ISSUER,
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": account,
        "kubernetes.io/serviceaccount/service-account.uid": account_uid,
        "sub": format!("system:serviceaccount:{namespace}:{account}"),
    })
}

/// What a bound token is for.
pub struct Bound<'a> {
    pub namespace: &'a str,
    pub account: &'a str,
    pub account_uid: &'a str,
    pub audiences: &'a [String],
    pub seconds: i64,
    /// `pod`, `secret` or `node`, with the object's name and uid: the token ends with the first. After a pod comes its
    /// node, with an empty uid if there is no such object.
    pub objects: &'a [(&'static str, String, String)],
}

/// The claims of a token from a TokenRequest.
pub fn bound_claims(bound: &Bound<'_>, now: jiff::Timestamp) -> Value {
    let now = now.as_second();
    let mut kubernetes = json!({
        "namespace": bound.namespace,
        "serviceaccount": {"name": bound.account, "uid": bound.account_uid},
    });
    for (kind, name, uid) in bound.objects {
        kubernetes[*kind] = match uid.as_str() {
            "" => json!({"name": name}),
            uid => json!({"name": name, "uid": uid}),
        };
    }
    json!({
        "aud": bound.audiences,
        "exp": now.saturating_add(bound.seconds),
        "iat": now,
        "nbf": now,
        "iss": ISSUER,
        "jti": uuid::Uuid::new_v4().to_string(),
        "kubernetes.io": kubernetes,
        "sub": format!("system:serviceaccount:{}:{}", bound.namespace, bound.account),
    })
}

/// One PEM block.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    use base64::engine::general_purpose::STANDARD;
    let text = STANDARD.encode(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signed_token_verifies_and_a_changed_one_does_not() {
        let key = TokenKey::generate().unwrap();
        let token = key.sign(&json!({"sub": "a"}));
        assert_eq!(key.verify(&token), Some(json!({"sub": "a"})));
        let parts: Vec<&str> = token.split('.').collect();
        let other = URL_SAFE_NO_PAD.encode(r#"{"sub":"b"}"#);
        assert_eq!(key.verify(&format!("{}.{other}.{}", parts[0], parts[2])), None);
        let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
        assert_eq!(key.verify(&format!("{none}.{}.", parts[1])), None);
        let again = TokenKey::from_pem(&key.to_pem()).unwrap();
        assert_eq!(again.id(), key.id());
        assert_eq!(again.verify(&token), Some(json!({"sub": "a"})));
        assert_eq!(key.jwks()["keys"][0]["e"], "AQAB");
    }

    #[test]
    fn another_servers_key_does_not_verify() {
        let token = TokenKey::generate().unwrap().sign(&json!({"sub": "a"}));
        assert_eq!(TokenKey::generate().unwrap().verify(&token), None);
    }
}
