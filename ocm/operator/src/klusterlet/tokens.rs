//! Kubeconfigs of another managed cluster for the agent's pods: each with a token of one ServiceAccount there, asked
//! for with the kubeconfig that the operator was given, and renewed in time. Upstream: ocm
//! `pkg/operator/helpers/sa_syncer.go`. We differ in these: a token that the API server gives for a shorter time than
//! it was asked for is renewed in proportion; `proxy-url` is kept; the token's file is named beside the kubeconfig.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use kube::config::Cluster;
use ocm_reconcile::{Plan, Site, StepId, Target};
use serde_json::{Value, json};

use super::{
    settings::AgentSettings,
    wanted::{derived_target, secret},
};
use crate::objects::{self, Current, WantedObject};

/// For how long a token is asked for.
const SECONDS: i64 = 8640 * 3600;

/// A token that was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The Secret that it is for.
    pub secret: String,
    /// The token.
    pub token: String,
    /// Until when it is good (RFC 3339).
    pub expiration: String,
}

/// What becomes of a kubeconfig for the pods.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// It stays, until then.
    Good(Option<Timestamp>),
    /// It is made anew, for this reason.
    Renew(&'static str),
}

/// The ServiceAccount of a kubeconfig, on the managed cluster.
pub fn account(settings: &AgentSettings, name: &str) -> Target {
    objects::target(
        Site::Cluster,
        "ServiceAccount",
        Some(&settings.klusterlet_namespace),
        name,
    )
}

/// Whether a kubeconfig is still good: that of the right account, of the right server, and young enough.
pub fn fate(secret: Option<&Value>, account: Option<&Value>, cluster: &Cluster, now: Timestamp) -> Fate {
    let Some(secret) = secret else {
        return Fate::Renew("there is none yet");
    };
    let data = |key: &str| decoded(&secret["data"][key]);
    let uid = account.and_then(|it| it["metadata"]["uid"].as_str());
    if uid.is_none() || data("serviceaccount_uid").as_deref() != uid {
        return Fate::Renew("the ServiceAccount is another one");
    }
    if data("kubeconfig").as_deref().map(without_order) != Some(without_order(&kubeconfig(cluster))) {
        return Fate::Renew("the managed cluster is reached otherwise");
    }
    let Some(token) = data("token") else {
        return Fate::Renew("it has no token");
    };
    let Some(expiration) = data("expiration") else {
        // A token of a Secret, which does not expire.
        return Fate::Good(None);
    };
    let Ok(expiration) = expiration.parse::<Timestamp>() else {
        return Fate::Renew("its expiration cannot be read");
    };
    let renewal = expiration - lifetime(&token).unwrap_or(SignedDuration::from_secs(SECONDS)) / 5;
    match now < renewal {
        true => Fate::Good(Some(renewal)),
        false => Fate::Renew("its token is about to expire"),
    }
}

/// For how long a token was given, as it says itself; nothing when it says nothing.
fn lifetime(token: &str) -> Option<SignedDuration> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let seconds = claims["exp"].as_i64()?.checked_sub(claims["iat"].as_i64()?)?;
    (seconds > 0).then(|| SignedDuration::from_secs(seconds))
}

fn decoded(value: &Value) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(value.as_str()?).ok()?;
    String::from_utf8(bytes).ok()
}

/// The document of a kubeconfig, whoever wrote it: what matters is how the cluster is reached.
fn without_order(text: &str) -> Value {
    let document: Value = serde_saphyr::from_str(text).unwrap_or_default();
    let mut cluster = document["clusters"][0]["cluster"].clone();
    if let Some(fields) = cluster.as_object_mut() {
        fields.retain(|_, it| !matches!(it, Value::Null | Value::Bool(false)) && it != "");
    }
    cluster
}

/// Asks for a token.
pub fn ask(plan: &mut Plan, account: Target) -> StepId {
    plan.push(ocm_reconcile::Step::CreateSubresource {
        target: account,
        subresource: "token",
        object: json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": SECONDS},
        }),
    })
}

/// What the API server has answered.
pub fn issued(secret: &str, answer: &Value) -> Option<Issued> {
    let status = &answer["status"];
    Some(Issued {
        secret: secret.to_owned(),
        token: status["token"].as_str()?.to_owned(),
        expiration: status["expirationTimestamp"].as_str()?.to_owned(),
    })
}

/// The Secret with a new kubeconfig.
pub fn renewed(
    settings: &AgentSettings,
    issued: &Issued,
    account: &str,
    cluster: &Cluster,
    current: &Current,
) -> WantedObject {
    let uid = current
        .get(&self::account(settings, account))
        .map(|it| it["metadata"]["uid"].clone());
    let uid = uid.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut data = json!({});
    for (key, value) in [
        ("kubeconfig", kubeconfig(cluster).as_str()),
        ("token", &issued.token),
        ("expiration", &issued.expiration),
        ("serviceaccount_namespace", &settings.klusterlet_namespace),
        ("serviceaccount_name", account),
        ("serviceaccount_uid", &uid),
    ] {
        data[key] = BASE64_STANDARD.encode(value).into();
    }
    secret(
        &derived_target(settings, &issued.secret),
        &settings.labels,
        &data,
        &Value::Null,
    )
}

/// The kubeconfig that pods have beside the token.
fn kubeconfig(cluster: &Cluster) -> String {
    let some = |it: &Option<String>| it.clone().filter(|it| !it.is_empty());
    let mut entry = json!({"server": cluster.server});
    for (key, value) in [
        ("certificate-authority-data", some(&cluster.certificate_authority_data)),
        ("tls-server-name", some(&cluster.tls_server_name)),
        ("proxy-url", some(&cluster.proxy_url)),
    ] {
        if let Some(value) = value {
            entry[key] = value.into();
        }
    }
    // As upstream has it: without a CA of its own nothing is checked, unless the kubeconfig was for a public one.
    if cluster.insecure_skip_tls_verify == Some(true) {
        entry["insecure-skip-tls-verify"] = true.into();
    }
    let document = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "cluster", "cluster": entry}],
        "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
        "current-context": "context",
        "users": [{"name": "user", "user": {"tokenFile": "token"}}],
    });
    serde_saphyr::to_string(&document).expect("a plain document serializes")
}

/// How long until then.
pub fn until(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}
