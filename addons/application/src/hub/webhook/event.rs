//! What the event of a Git server says, and whether it is proven. Pure.
//! Ours differs from upstream's: where a Channel names a Secret every event has to be proven with it, whichever server
//! it says it comes from.

use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA512},
};
use http::HeaderMap;
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::apps::{Channel, ChannelType, annotations},
};
use serde_json::Value;

const GITHUB: &str = "X-Github-Event";
const GITLAB: &str = "X-Gitlab-Event";
const BITBUCKET: &str = "X-Event-Key";
const SIGNATURE: &str = "X-Hub-Signature";
const TOKEN: &str = "X-Gitlab-Token";

/// Events that change a branch.
const GITHUB_EVENTS: [&str; 2] = ["push", "pull_request"];
const GITLAB_EVENTS: [&str; 2] = ["Push Hook", "Merge Request Hook"];
const BITBUCKET_EVENTS: [&str; 3] = ["repo:push", "pullrequest:fulfilled", "pr:merged"];

/// Why an event is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookRefusal {
    /// No Git server that is known has sent it.
    Unsupported,
    /// It cannot be read, and why.
    Unreadable(String),
}

/// How an event is proven.
#[derive(Clone, PartialEq, Eq)]
enum Proof {
    /// The body is signed with the secret.
    Signature(String),
    /// The secret itself.
    Token(String),
}

/// A change of a repository.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookEvent {
    /// URLs of the repository, one of which the pathname of a Channel may be.
    urls: Vec<String>,
    /// Parts of a URL, one of which the pathname may contain.
    parts: Vec<String>,
    proof: Option<Proof>,
}

/// Reads an event: the headers and the body of a request. `None` is one that changes no branch.
///
/// # Errors
/// When it is of no known server, or cannot be read.
pub fn event(headers: &HeaderMap, body: &[u8]) -> Result<Option<WebhookEvent>, WebhookRefusal> {
    let header = |name: &str| {
        let value = headers.get(name).and_then(|it| it.to_str().ok());
        value.filter(|it| !it.is_empty())
    };
    let is_one_of = |kind: &str, known: &[&str]| known.iter().any(|it| it.eq_ignore_ascii_case(kind));
    let signature = || header(SIGNATURE).map(|it| Proof::Signature(it.to_owned()));
    if let Some(kind) = header(GITHUB) {
        let payload = payload_of_github(header("Content-Type").unwrap_or_default(), body)?;
        let text = |name: &str| non_empty(&payload["repository"][name]);
        let urls = ["clone_url", "html_url", "url"].iter().filter_map(|it| text(it));
        return Ok(is_one_of(kind, &GITHUB_EVENTS).then(|| WebhookEvent {
            urls: urls.collect(),
            parts: text("full_name").into_iter().collect(),
            proof: signature(),
        }));
    }
    if let Some(kind) = header(BITBUCKET) {
        let payload = read(body)?;
        let repository = &payload["repository"];
        let link = non_empty(&repository["links"]["html"]["href"]);
        return Ok(is_one_of(kind, &BITBUCKET_EVENTS).then(|| WebhookEvent {
            urls: non_empty(&repository["full_name"]).into_iter().collect(),
            parts: link.into_iter().collect(),
            proof: signature(),
        }));
    }
    if let Some(kind) = header(GITLAB) {
        let payload = read(body)?;
        let homepage = non_empty(&payload["repository"]["homepage"]);
        return Ok(is_one_of(kind, &GITLAB_EVENTS).then(|| WebhookEvent {
            urls: homepage.iter().cloned().collect(),
            parts: homepage.into_iter().collect(),
            proof: header(TOKEN).map(|it| Proof::Token(it.to_owned())),
        }));
    }
    Err(WebhookRefusal::Unsupported)
}

fn non_empty(value: &Value) -> Option<String> {
    let text = value.as_str().map(str::trim);
    text.filter(|it| !it.is_empty()).map(str::to_owned)
}

fn read(body: &[u8]) -> Result<Value, WebhookRefusal> {
    serde_json::from_slice(body).map_err(|error| WebhookRefusal::Unreadable(format!("the payload is no JSON: {error}")))
}

fn payload_of_github(content_type: &str, body: &[u8]) -> Result<Value, WebhookRefusal> {
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    match content_type {
        "application/json" => read(body),
        "application/x-www-form-urlencoded" => {
            let mut fields = url::form_urlencoded::parse(body);
            let payload = fields.find(|(name, _)| name == "payload");
            let Some((_, payload)) = payload else {
                return Err(WebhookRefusal::Unreadable("the form has no payload".to_owned()));
            };
            read(payload.as_bytes())
        }
        other => Err(WebhookRefusal::Unreadable(format!("Unsupported Content-Type: {other}"))),
    }
}

impl WebhookEvent {
    /// Whether a Channel is one of the repository and wants to hear of it.
    pub fn concerns(&self, channel: &Channel) -> bool {
        let pathname = channel.spec.pathname.as_str();
        let enabled = channel.annotations().get(annotations::WEBHOOK_ENABLED);
        enabled.is_some_and(|it| it.eq_ignore_ascii_case("true"))
            && channel.spec.channel_type() == Some(ChannelType::Git)
            && (self.urls.iter().any(|it| it.eq_ignore_ascii_case(pathname))
                || self.parts.iter().any(|it| pathname.contains(it.as_str())))
    }

    /// Whether it is proven with the secret that a Channel names. Whoever names none believes everybody.
    pub fn is_proven(&self, body: &[u8], secret: Option<&[u8]>) -> bool {
        match (secret, &self.proof) {
            (None, _) => true,
            (Some([]), _) | (Some(_), None) => false,
            (Some(secret), Some(Proof::Token(token))) => verify_slices_are_equal(secret, token.as_bytes()).is_ok(),
            (Some(secret), Some(Proof::Signature(signature))) => is_signed(signature, body, secret),
        }
    }
}

/// Whether a signature, as `sha1=…`, is that of the body.
fn is_signed(signature: &str, body: &[u8], secret: &[u8]) -> bool {
    let Some((kind, hex)) = signature.split_once('=') else {
        return false;
    };
    let algorithm = match kind {
        "sha1" => HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => HMAC_SHA256,
        "sha512" => HMAC_SHA512,
        _ => return false,
    };
    let digits = hex.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = digits
        .map(|it| {
            let text = std::str::from_utf8(it).ok().filter(|it| it.len() == 2)?;
            u8::from_str_radix(text, 16).ok()
        })
        .collect();
    let key = hmac::Key::new(algorithm, secret);
    // Compared in constant time.
    bytes.is_some_and(|it| hmac::verify(&key, body, &it).is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headers(all: &[(&str, &str)]) -> HeaderMap {
        let all = all.iter().map(|(name, value)| {
            let name: http::HeaderName = name.parse().unwrap();
            (name, value.parse().unwrap())
        });
        all.collect()
    }

    fn channel(pathname: &str, enabled: &str) -> Channel {
        let annotations = json!({annotations::WEBHOOK_ENABLED: enabled});
        let metadata = json!({"name": "c", "namespace": "ch", "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"type": "GitHub", "pathname": pathname}})).unwrap()
    }

    fn github() -> Value {
        json!({"repository": {
            "full_name": "org/app", "clone_url": "https://github.com/org/app.git", "html_url": "https://github.com/org/app",
            "url": "https://api.github.com/repos/org/app",
        }})
    }

    const JSON: (&str, &str) = ("Content-Type", "application/json");

    #[test]
    fn a_push_concerns_channels_of_its_repository() {
        let body = github().to_string();
        let push = event(&headers(&[(GITHUB, "push"), JSON]), body.as_bytes())
            .ok()
            .flatten()
            .unwrap();
        for pathname in [
            "https://github.com/org/app",
            "https://api.github.com/repos/org/app",
            "git@x:org/app.git",
        ] {
            assert!(push.concerns(&channel(pathname, "True")), "{pathname}");
        }
        assert!(!push.concerns(&channel("https://github.com/org/other", "true")));
        assert!(!push.concerns(&channel("https://github.com/org/app", "false")));
        let mut chart = channel("https://github.com/org/app", "true");
        chart.spec.r#type = "HelmRepo".to_owned();
        assert!(!push.concerns(&chart));
        assert!(event(&headers(&[(GITHUB, "star"), JSON]), body.as_bytes()) == Ok(None));
    }

    #[test]
    fn a_form_holds_the_payload_of_github() {
        let body = format!("payload={}", github().to_string().replace('"', "%22").replace(' ', "+"));
        let form = ("Content-Type", "application/x-www-form-urlencoded");
        let pulled = event(&headers(&[(GITHUB, "pull_request"), form]), body.as_bytes());
        assert!(
            pulled
                .ok()
                .flatten()
                .unwrap()
                .concerns(&channel("https://github.com/org/app.git", "true"))
        );
        let refused = event(&headers(&[(GITHUB, "push"), ("Content-Type", "text/plain")]), b"{}");
        let why = WebhookRefusal::Unreadable("Unsupported Content-Type: text/plain".to_owned());
        assert!(refused == Err(why));
    }

    #[test]
    fn other_servers_are_told_by_their_headers() {
        let gitlab = json!({"repository": {"homepage": "https://gitlab.com/org/app", "url": "u"}}).to_string();
        let sent = headers(&[(GITLAB, "Push Hook"), (TOKEN, "t")]);
        let pushed = event(&sent, gitlab.as_bytes()).ok().flatten().unwrap();
        assert!(pushed.concerns(&channel("https://gitlab.com/org/app.git", "true")));
        assert!(pushed.is_proven(b"", Some(b"t")) && !pushed.is_proven(b"", Some(b"T")));
        let href = json!({"html": {"href": "https://bitbucket.org/org/app"}});
        let bitbucket = json!({"repository": {"full_name": "org/app", "links": href}}).to_string();
        let pushed = event(&headers(&[(BITBUCKET, "repo:push")]), bitbucket.as_bytes())
            .ok()
            .flatten()
            .unwrap();
        assert!(pushed.concerns(&channel("https://bitbucket.org/org/app.git", "true")));
        assert!(event(&headers(&[JSON]), b"{}") == Err(WebhookRefusal::Unsupported));
        assert!(matches!(
            event(&headers(&[(GITLAB, "Push Hook")]), b"x"),
            Err(WebhookRefusal::Unreadable(_))
        ));
    }

    #[test]
    fn an_event_without_a_repository_concerns_nobody() {
        for name in [GITHUB, GITLAB, BITBUCKET] {
            for kind in ["push", "Push Hook", "repo:push"] {
                let sent = event(&headers(&[(name, kind), JSON]), b"{}").ok().flatten();
                assert!(
                    !sent.is_some_and(|it| it.concerns(&channel("https://x", "true"))),
                    "{name} {kind}"
                );
            }
        }
    }

    #[test]
    fn a_signature_is_that_of_the_body() {
        let signed = |signature: &str| {
            let sent = headers(&[(GITHUB, "push"), JSON, (SIGNATURE, signature)]);
            let event = event(&sent, b"{}").ok().flatten().unwrap();
            event.is_proven(b"The quick brown fox jumps over the lazy dog", Some(b"key"))
        };
        assert!(signed("sha1=de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9"));
        assert!(signed(
            "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"
        ));
        for wrong in [
            "sha1=de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d8",
            "sha1=de7",
            "sha1=+e",
            "md5=00",
            "x",
            "sha1=",
        ] {
            assert!(!signed(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_secret_has_to_be_proven() {
        let plain = event(&headers(&[(BITBUCKET, "repo:push")]), b"{}")
            .ok()
            .flatten()
            .unwrap();
        assert!(plain.is_proven(b"{}", None));
        assert!(!plain.is_proven(b"{}", Some(b"key")) && !plain.is_proven(b"{}", Some(b"")));
    }
}
