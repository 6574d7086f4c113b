//! Tokens of an OIDC issuer, judged as a kube-apiserver judges them with its `--oidc-*` flags.
//! Upstream: cluster-proxy `pkg/serviceproxy/oidc_authenticator.go`.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Request, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use jiff::Timestamp;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    jwk::{Jwk, JwkSet},
};
use parking_lot::RwLock;
use rustls::ClientConfig;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Mutex;

use super::callers::User;
use crate::{forward, trust};

/// An issuer that has not answered by then is not there.
const ANSWERED_WITHIN: Duration = Duration::from_secs(15);
/// Keys are asked for again so soon at most, whatever tokens name.
const AGAIN: Duration = Duration::from_secs(10);
/// Keys are asked for again after that, so that one that the issuer has withdrawn counts no longer.
const STALE: Duration = Duration::from_secs(3600);
/// A token may come so many seconds before its time: clocks differ. As in go-oidc.
const EARLY: i64 = 300;
/// More no issuer has to say.
const ANSWER_MAX: usize = 1 << 20;
/// Whom everybody belongs to who has been authenticated.
const AUTHENTICATED: &str = "system:authenticated";

/// What tokens are accepted, and whom they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcOptions {
    /// The issuer, an https URL.
    pub issuer: String,
    /// The audience that tokens have to be for.
    pub client_id: String,
    /// The claim with the user's name.
    pub username_claim: String,
    /// What comes before the name; empty for `<issuer>#`, except for the claim `email`; `-` for nothing.
    pub username_prefix: String,
    /// The claim with groups; empty for none.
    pub groups_claim: String,
    /// What comes before each group.
    pub groups_prefix: String,
    /// Names and groups must not begin with these.
    pub reserved_prefixes: Vec<String>,
    /// Algorithms, such as RS256.
    pub algorithms: Vec<String>,
    /// Claims that a token must have, with their values.
    pub required_claims: BTreeMap<String, String>,
}

impl OidcOptions {
    /// Whether it can be served.
    ///
    /// # Errors
    /// Which flag is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.issuer.is_empty() != self.client_id.is_empty() {
            return Err("--oidc-issuer-url and --oidc-client-id must be specified together".to_owned());
        }
        let url: Result<Uri, _> = self.issuer.parse();
        let is_plain = |it: &Uri| it.scheme_str() == Some("https") && it.host().is_some() && it.query().is_none();
        if !url.as_ref().is_ok_and(is_plain) {
            return Err(format!(
                "invalid OIDC configuration: --oidc-issuer-url: {:?} is no https URL without a query",
                self.issuer
            ));
        }
        if self.reserved_prefixes.iter().any(String::is_empty) {
            return Err("--oidc-reserved-name-prefixes must not contain an empty prefix".to_owned());
        }
        self.algorithms().map(drop)
    }

    fn algorithms(&self) -> Result<Vec<Algorithm>, String> {
        let read = |it: &String| {
            let algorithm = it.parse::<Algorithm>().ok();
            let is_asymmetric = |it: &Algorithm| {
                !matches!(
                    it,
                    Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 | Algorithm::EdDSA
                )
            };
            let algorithm = algorithm.filter(is_asymmetric);
            algorithm.ok_or_else(|| format!("unsupported OIDC signing algorithm {it:?}"))
        };
        self.algorithms.iter().map(read).collect()
    }

    fn prefix(&self) -> String {
        match self.username_prefix.as_str() {
            "-" => String::new(),
            "" if self.username_claim == "email" => String::new(),
            "" => format!("{}#", self.issuer),
            said => said.to_owned(),
        }
    }
}

/// Judges tokens of one issuer.
pub struct Oidc {
    options: OidcOptions,
    algorithms: Vec<Algorithm>,
    /// Whom the issuer's server is trusted by, or why nobody knows.
    trusted: RwLock<Result<Arc<ClientConfig>, String>>,
    keys: Mutex<Keys>,
}

#[derive(Default)]
struct Keys {
    asked: Option<Instant>,
    set: Option<Arc<JwkSet>>,
}

/// What a token came to.
enum Judged {
    Known(User),
    Rejected(String),
}

impl Oidc {
    /// With these options. Whom the issuer's server is trusted by is [said](Self::trust) later.
    ///
    /// # Errors
    /// As [`OidcOptions::check`].
    pub fn new(options: OidcOptions) -> Result<Self, String> {
        options.check()?;
        Ok(Self {
            algorithms: options.algorithms()?,
            options,
            trusted: RwLock::new(Err("oidc authenticator is not initialized".to_owned())),
            keys: Mutex::default(),
        })
    }

    /// Trusts the issuer's server by these certificates, PEM, or by those of the system; or nobody, and why.
    pub async fn trust(&self, certificates: Result<Option<&[u8]>, String>) {
        let config = certificates.and_then(|pem| {
            let roots = match pem {
                Some(pem) => forward::roots(pem).map_err(|error| format!("failed to load oidc CA bundle: {error}")),
                None => Ok(trust::of_system()),
            };
            Ok(trust::client(roots?))
        });
        *self.trusted.write() = config;
        // Whoever is trusted now may have other keys.
        *self.keys.lock().await = Keys::default();
    }

    /// Who has a token; `None` when it is none of the issuer, or none that is accepted.
    ///
    /// # Errors
    /// When the issuer cannot be asked.
    pub async fn user(&self, token: &str) -> Result<Option<User>, String> {
        if !self.is_of_issuer(token) {
            return Ok(None);
        }
        match self.judge(token).await? {
            Judged::Known(user) => Ok(Some(user)),
            Judged::Rejected(why) => {
                tracing::debug!("a token of the OIDC issuer is not accepted: {why}");
                Ok(None)
            }
        }
    }

    /// Looked at before anything is asked: most tokens are of somebody else.
    fn is_of_issuer(&self, token: &str) -> bool {
        #[derive(Deserialize)]
        struct Issuer {
            iss: String,
        }
        let payload = token.split('.').nth(1).filter(|_| token.split('.').count() == 3);
        let payload = payload.and_then(|it| BASE64_URL_SAFE_NO_PAD.decode(it).ok());
        let claims = payload.and_then(|it| serde_json::from_slice::<Issuer>(&it).ok());
        claims.is_some_and(|it| it.iss == self.options.issuer)
    }

    async fn judge(&self, token: &str) -> Result<Judged, String> {
        let rejected = |why: String| Ok(Judged::Rejected(why));
        let header = match decode_header(token) {
            Ok(header) => header,
            Err(error) => return rejected(error.to_string()),
        };
        if !self.algorithms.contains(&header.alg) {
            return rejected(format!("algorithm {:?} is not accepted", header.alg));
        }
        let mut validation = Validation::new(header.alg);
        validation.set_audience(&[&self.options.client_id]);
        validation.set_issuer(&[&self.options.issuer]);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.leeway = 0;
        let mut why = "no key of the issuer has signed it".to_owned();
        for key in self.keys(header.kid.as_deref()).await? {
            let Ok(key) = DecodingKey::from_jwk(&key) else { continue };
            match decode::<Map<String, Value>>(token, &key, &validation) {
                Ok(decoded) => {
                    let from = decoded.claims.get("nbf").and_then(Value::as_i64);
                    if from.is_some_and(|it| it > Timestamp::now().as_second() + EARLY) {
                        return rejected("its time has not come".to_owned());
                    }
                    return Ok(match self.options.user(&decoded.claims) {
                        Ok(user) => Judged::Known(user),
                        Err(why) => Judged::Rejected(why),
                    });
                }
                Err(error) => why = error.to_string(),
            }
        }
        rejected(why)
    }

    /// The keys of this name; all of them for a token that names none.
    async fn keys(&self, id: Option<&str>) -> Result<Vec<Jwk>, String> {
        let of = |set: &JwkSet| -> Vec<Jwk> {
            let fits = |it: &&Jwk| id.is_none() || it.common.key_id.as_deref() == id;
            set.keys.iter().filter(fits).cloned().collect()
        };
        let mut keys = self.keys.lock().await;
        let age = keys.asked.map(|it| it.elapsed());
        if let Some(set) = &keys.set
            && age.is_some_and(|it| it < STALE)
        {
            let found = of(set);
            // A token may name any key: it is no reason to ask each time.
            if !found.is_empty() || age.is_some_and(|it| it < AGAIN) {
                return Ok(found);
            }
        } else if age.is_some_and(|it| it < AGAIN) && keys.set.is_none() {
            return Err("the issuer could not be asked for its keys a moment ago".to_owned());
        }
        keys.asked = Some(Instant::now());
        let set = self.fetch().await?;
        let found = of(&set);
        keys.set = Some(Arc::new(set));
        Ok(found)
    }

    async fn fetch(&self) -> Result<JwkSet, String> {
        #[derive(Deserialize)]
        struct Discovery {
            issuer: String,
            jwks_uri: String,
        }
        let issuer = &self.options.issuer;
        let trusted = self.trusted.read().clone()?;
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let found: Discovery = get(&trusted, &url).await?;
        if found.issuer != *issuer {
            let other = found.issuer;
            return Err(format!("{url} is of another issuer, {other:?}"));
        }
        get(&trusted, &found.jwks_uri).await
    }
}

async fn get<T: serde::de::DeserializeOwned>(trusted: &ClientConfig, url: &str) -> Result<T, String> {
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(trusted.clone())
        .https_only()
        .enable_http1()
        .build();
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let failed = |why: &dyn std::fmt::Display| format!("{url}: {why}");
    let request = Request::get(url).body(Empty::new()).map_err(|it| failed(&it))?;
    let answering = async {
        let answer = client.request(request).await.map_err(|it| forward::reason(&it))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
        let body = body.map_err(|it| it.to_string())?.to_bytes();
        if !status.is_success() {
            return Err(status.to_string());
        }
        serde_json::from_slice(&body).map_err(|it| it.to_string())
    };
    let late = |_| Err("it does not answer".to_owned());
    let answer = tokio::time::timeout(ANSWERED_WITHIN, answering).await;
    answer.unwrap_or_else(late).map_err(|it| failed(&it))
}

impl OidcOptions {
    /// Whom the claims of a verified token name.
    fn user(&self, claims: &Map<String, Value>) -> Result<User, String> {
        for (claim, wanted) in &self.required_claims {
            if claims.get(claim).and_then(Value::as_str) != Some(wanted) {
                return Err(format!("claim {claim} is not {wanted:?}"));
            }
        }
        let claim = &self.username_claim;
        let name = claims.get(claim).and_then(Value::as_str).unwrap_or_default();
        if name.is_empty() {
            return Err(format!("claim {claim} is missing"));
        }
        if claim == "email"
            && let Some(verified) = claims.get("email_verified")
            && verified != &Value::Bool(true)
        {
            return Err("the email is not verified".to_owned());
        }
        let mut groups = Vec::new();
        if !self.groups_claim.is_empty() {
            let said = claims.get(&self.groups_claim).unwrap_or(&Value::Null);
            let all: Vec<&Value> = match said {
                Value::Null => Vec::new(),
                Value::Array(all) => all.iter().collect(),
                one => vec![one],
            };
            for one in all {
                let group = one.as_str();
                let group = group.ok_or_else(|| format!("claim {} is no list of texts", self.groups_claim))?;
                groups.push(format!("{}{group}", self.groups_prefix));
            }
        }
        let name = format!("{}{name}", self.prefix());
        for prefix in &self.reserved_prefixes {
            if name.starts_with(prefix) {
                return Err(format!("username cannot use the reserved {prefix} prefix"));
            }
            if groups.iter().any(|it| it.starts_with(prefix)) {
                return Err(format!("groups cannot use the reserved {prefix} prefix"));
            }
        }
        groups.push(AUTHENTICATED.to_owned());
        Ok(User { name, groups })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn options() -> OidcOptions {
        OidcOptions {
            issuer: "https://issuer.example".to_owned(),
            client_id: "ocm".to_owned(),
            username_claim: "sub".to_owned(),
            username_prefix: String::new(),
            groups_claim: "groups".to_owned(),
            groups_prefix: "oidc:".to_owned(),
            reserved_prefixes: vec!["system:".to_owned()],
            algorithms: vec!["RS256".to_owned()],
            required_claims: BTreeMap::new(),
        }
    }

    fn user(options: &OidcOptions, claims: Value) -> Result<User, String> {
        options.user(claims.as_object().unwrap())
    }

    #[test]
    fn claims_become_a_user_with_prefixes() {
        let jo = user(&options(), json!({"sub": "jo", "groups": ["a", "b"]})).unwrap();
        assert_eq!(jo.name, "https://issuer.example#jo");
        assert_eq!(jo.groups, ["oidc:a", "oidc:b", "system:authenticated"]);
        let one = user(&options(), json!({"sub": "jo", "groups": "a"})).unwrap();
        assert_eq!(one.groups[0], "oidc:a");
        let mail = OidcOptions {
            username_claim: "email".to_owned(),
            ..options()
        };
        assert_eq!(user(&mail, json!({"email": "a@b"})).unwrap().name, "a@b");
        assert!(user(&mail, json!({"email": "a@b", "email_verified": false})).is_err());
        assert!(user(&options(), json!({})).unwrap_err().contains("sub is missing"));
    }

    #[test]
    fn reserved_names_are_refused_after_prefixes() {
        let bare = OidcOptions {
            username_prefix: "-".to_owned(),
            groups_prefix: String::new(),
            ..options()
        };
        assert_eq!(
            user(&bare, json!({"sub": "system:admin"})).unwrap_err(),
            "username cannot use the reserved system: prefix"
        );
        assert_eq!(
            user(&bare, json!({"sub": "jo", "groups": ["system:masters"]})).unwrap_err(),
            "groups cannot use the reserved system: prefix"
        );
        assert!(user(&options(), json!({"sub": "jo", "groups": ["system:masters"]})).is_ok());
    }

    #[test]
    fn required_claims_have_to_be_there() {
        let strict = OidcOptions {
            required_claims: [("hd".to_owned(), "example.com".to_owned())].into(),
            ..options()
        };
        assert!(user(&strict, json!({"sub": "jo"})).is_err());
        assert!(user(&strict, json!({"sub": "jo", "hd": "example.com"})).is_ok());
    }

    #[test]
    fn options_that_cannot_be_served_are_refused() {
        let wrong = |change: &dyn Fn(&mut OidcOptions)| {
            let mut it = options();
            change(&mut it);
            it.check().unwrap_err()
        };
        assert_eq!(
            wrong(&|it| it.client_id.clear()),
            "--oidc-issuer-url and --oidc-client-id must be specified together"
        );
        assert!(wrong(&|it| it.issuer = "http://i".to_owned()).contains("is no https URL"));
        assert!(wrong(&|it| it.reserved_prefixes.push(String::new())).contains("empty prefix"));
        assert_eq!(
            wrong(&|it| it.algorithms = vec!["HS256".to_owned()]),
            "unsupported OIDC signing algorithm \"HS256\""
        );
    }
}
