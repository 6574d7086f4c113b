//! Tokens of an OIDC issuer on this machine: whom they name, and which are refused.

use std::{collections::BTreeMap, sync::Arc};

use addon_cluster_proxy::{
    forward::Body,
    service_proxy::oidc::{Oidc, OidcOptions},
    trust,
    user_server::{self, Answering, Serving},
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use kube_api::pki::serving_pair;
use ocm_addon_sdk::hub::authority::{Authority, Issued, Leaf, LeafUsage};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use x509_parser::prelude::{FromDer, X509Certificate};

/// An issuer with one key.
struct Issuer {
    url: String,
    ca: String,
    key: EncodingKey,
    stop: CancellationToken,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What it serves: a document for each path.
struct Documents(BTreeMap<&'static str, Value>);

impl Answering for Documents {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let found = self.0.get(request.uri().path()).map(Value::to_string);
        let status = if found.is_some() { 200 } else { 404 };
        let body = Full::new(Bytes::from(found.unwrap_or_default()));
        let mut answer = Response::new(body.map_err(|never| match never {}).boxed());
        *answer.status_mut() = status.try_into().unwrap();
        answer
    }
}

/// A key of P-256, and it as a document of keys.
fn key() -> (EncodingKey, Value) {
    let now = Timestamp::now();
    let year = std::time::Duration::from_secs(365 * 24 * 3600);
    let (certificate, key) = Authority::create("keys", year, now).unwrap();
    let authority = Authority::read(certificate.as_bytes(), key.as_bytes()).unwrap();
    let leaf = Leaf {
        common_name: "key".to_owned(),
        names: Vec::new(),
        usage: LeafUsage::Server,
    };
    let Issued {
        certificate_pem,
        key_pem,
    } = authority.issue(&leaf, year, now).unwrap();
    let (chain, _) = trust::pair(certificate_pem.as_bytes(), key_pem.as_bytes()).unwrap();
    let (_, certificate) = X509Certificate::from_der(&chain[0]).unwrap();
    let point = &certificate.public_key().subject_public_key.data;
    let part = |range: std::ops::Range<usize>| BASE64_URL_SAFE_NO_PAD.encode(&point[range]);
    let document = json!({"keys": [{
        "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": "one", "x": part(1..33), "y": part(33..65),
    }]});
    (EncodingKey::from_ec_pem(key_pem.as_bytes()).unwrap(), document)
}

impl Issuer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let (key, keys) = key();
        let discovery = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        let documents = [("/.well-known/openid-configuration", discovery), ("/keys", keys)];
        let shown = serving_pair(&["127.0.0.1".to_owned()], Timestamp::now(), 3600).unwrap();
        let pair = trust::pair(shown.pair.certificate_pem.as_bytes(), shown.pair.key_pem.as_bytes()).unwrap();
        let config = Arc::new(trust::server(pair, None, &Default::default(), false).unwrap());
        let tls: Serving = Arc::new(move || config.clone());
        let stop = CancellationToken::new();
        let ends = stop.clone();
        tokio::spawn(async move {
            user_server::serve(listener, tls, ends.clone(), ends, Arc::new(Documents(documents.into()))).await;
        });
        Self {
            url,
            ca: shown.authority_pem,
            key,
            stop,
        }
    }

    fn options(&self) -> OidcOptions {
        OidcOptions {
            issuer: self.url.clone(),
            client_id: "ocm".to_owned(),
            username_claim: "sub".to_owned(),
            username_prefix: "oidc:".to_owned(),
            groups_claim: "groups".to_owned(),
            groups_prefix: "oidc:".to_owned(),
            reserved_prefixes: vec!["system:".to_owned()],
            algorithms: vec!["ES256".to_owned()],
            required_claims: BTreeMap::new(),
        }
    }

    async fn trusted(&self, options: OidcOptions) -> Oidc {
        let oidc = Oidc::new(options).unwrap();
        oidc.trust(Ok(Some(self.ca.as_bytes()))).await;
        oidc
    }

    /// A token with these claims over those of a good one.
    fn token(&self, changes: Value) -> String {
        let now = Timestamp::now().as_second();
        let mut claims = json!({
            "iss": self.url, "aud": ["ocm"], "sub": "jo", "groups": ["dev"], "iat": now, "exp": now + 600,
        });
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some("one".to_owned());
        jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
    }
}

#[tokio::test]
async fn a_token_of_the_issuer_names_a_user_with_prefixes() {
    let issuer = Issuer::start().await;
    let oidc = issuer.trusted(issuer.options()).await;
    let jo = oidc.user(&issuer.token(json!({}))).await.unwrap().unwrap();
    assert_eq!(jo.name, "oidc:jo");
    assert_eq!(jo.groups, ["oidc:dev", "system:authenticated"]);
}

#[tokio::test]
async fn a_token_that_is_not_for_us_is_refused() {
    let issuer = Issuer::start().await;
    let oidc = issuer.trusted(issuer.options()).await;
    let now = Timestamp::now().as_second();
    for (what, changes) in [
        ("another audience", json!({"aud": "other"})),
        ("another issuer", json!({"iss": "https://other.example"})),
        ("its time is over", json!({"exp": now - 1})),
        ("its time has not come", json!({"nbf": now + 600})),
        ("it never ends", json!({"exp": null})),
        ("no name", json!({"sub": ""})),
    ] {
        assert_eq!(oidc.user(&issuer.token(changes)).await, Ok(None), "{what}");
    }
    // Another key of the same name, and no token at all.
    let (stranger, _) = key();
    let mut header = Header::new(Algorithm::ES256);
    header.kid = Some("one".to_owned());
    let claims = json!({"iss": issuer.url, "aud": "ocm", "sub": "jo", "exp": now + 600});
    let forged = jsonwebtoken::encode(&header, &claims, &stranger).unwrap();
    assert_eq!(oidc.user(&forged).await, Ok(None));
    let unsigned = format!(
        "{}.{}.",
        BASE64_URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#),
        forged.split('.').nth(1).unwrap()
    );
    assert_eq!(oidc.user(&unsigned).await, Ok(None));
    assert_eq!(oidc.user("nonsense").await, Ok(None));
}

#[tokio::test]
async fn reserved_names_of_the_issuer_are_refused() {
    let issuer = Issuer::start().await;
    let bare = OidcOptions {
        username_prefix: "-".to_owned(),
        groups_prefix: String::new(),
        ..issuer.options()
    };
    let oidc = issuer.trusted(bare).await;
    assert_eq!(oidc.user(&issuer.token(json!({"sub": "system:admin"}))).await, Ok(None));
    let masters = issuer.token(json!({"groups": ["system:masters"]}));
    assert_eq!(oidc.user(&masters).await, Ok(None));
}

#[tokio::test]
async fn an_issuer_that_nobody_trusts_is_an_error() {
    let issuer = Issuer::start().await;
    let oidc = Oidc::new(issuer.options()).unwrap();
    let token = issuer.token(json!({}));
    oidc.trust(Err("OIDC CA ConfigMap ns/ca is not available".to_owned()))
        .await;
    assert_eq!(
        oidc.user(&token).await.unwrap_err(),
        "OIDC CA ConfigMap ns/ca is not available"
    );
    // As soon as it is there.
    oidc.trust(Ok(Some(issuer.ca.as_bytes()))).await;
    assert_eq!(oidc.user(&token).await.unwrap().unwrap().name, "oidc:jo");
}
