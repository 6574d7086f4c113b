//! ServiceAccount tokens whose signature is already known to be good: time, audience, and whether the account and the
//! object that the token is bound to still exist.

use super::{BoundObject, CREDENTIAL_ID, Terms, service_account_user};
use crate::{
    identity::User,
    tokens::{ISSUER, LEGACY_ISSUER},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube_store::store::Store;
use serde_json::Value;

/// The user of a token, or `None` when anything about it no longer holds.
pub(super) fn user(
    store: &Store,
    claims: &Value,
    token: &str,
    audiences: &[String],
    now: jiff::Timestamp,
) -> Option<User> {
    match claims["iss"].as_str()? {
        ISSUER => bound(store, claims, audiences, now),
        LEGACY_ISSUER => legacy(store, claims, token, audiences),
        _ => None,
    }
}

/// How long a token is good, and the objects that it needs.
pub(super) fn terms(claims: &Value) -> Terms {
    let kubernetes = &claims["kubernetes.io"];
    let old = |key: &str| &claims[format!("kubernetes.io/serviceaccount/{key}")];
    let namespace = kubernetes["namespace"].as_str().or(old("namespace").as_str());
    let namespace = namespace.unwrap_or_default();
    let object = |resource: &'static str, namespace: &str, name: &Value| -> Option<BoundObject> {
        Some((resource, namespace.into(), name.as_str()?.into()))
    };
    let needed = [
        object("serviceaccounts", namespace, &kubernetes["serviceaccount"]["name"]),
        object("serviceaccounts", namespace, old("service-account.name")),
        object("secrets", namespace, old("secret.name")),
        object("secrets", namespace, &kubernetes["secret"]["name"]),
        object("pods", namespace, &kubernetes["pod"]["name"]),
        object("nodes", "", &kubernetes["node"]["name"]),
    ];
    Terms {
        until: claims["exp"]
            .as_i64()
            .and_then(|it| jiff::Timestamp::from_second(it).ok()),
        grounds: needed.into_iter().flatten().collect(),
    }
}

/// The account's user when it exists with this uid and is not being deleted.
fn account(store: &Store, namespace: &str, name: &str, uid: &str, subject: &Value) -> Option<User> {
    let account = store.get("serviceaccounts", namespace, name)?;
    if account.terminating || *account.uid != *uid {
        return None;
    }
    let user = User {
        uid: uid.to_owned(),
        ..service_account_user(namespace, name)
    };
    (*subject == user.username.as_str()).then_some(user)
}

fn bound(store: &Store, claims: &Value, audiences: &[String], now: jiff::Timestamp) -> Option<User> {
    let now = now.as_second();
    // A little leeway at the start, for a token that another machine's clock dated.
    if claims["exp"].as_i64()? < now || claims["nbf"].as_i64()? > now + 60 {
        return None;
    }
    let meant_for = |wanted: &str| match &claims["aud"] {
        Value::String(it) => it == wanted,
        Value::Array(all) => all.iter().any(|it| it == wanted),
        _ => false,
    };
    let accepted = if audiences.is_empty() {
        meant_for(ISSUER)
    } else {
        audiences.iter().any(|it| meant_for(it))
    };
    if !accepted {
        return None;
    }
    let kubernetes = &claims["kubernetes.io"];
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let namespace = kubernetes["namespace"].as_str()?;
    let holder = &kubernetes["serviceaccount"];
    let mut user = account(
        store,
        namespace,
        holder["name"].as_str()?,
        holder["uid"].as_str()?,
        &claims["sub"],
    )?;
    if let Some(jti) = claims["jti"].as_str() {
        user.extra.insert(CREDENTIAL_ID.into(), vec![format!("JTI={jti}")]);
    }
    for (kind, resource, namespace) in [
        ("pod", "pods", namespace),
        ("secret", "secrets", namespace),
        ("node", "nodes", ""),
    ] {
        let Some(object) = kubernetes.get(kind) else { continue };
        // A node named beside a pod is only information, and may have no object;
        // a token bound to a node alone ends with it.
        let is_aside = kind == "node" && kubernetes.get("pod").is_some();
        let name = text(&object["name"])?;
        let uid = match text(&object["uid"]) {
            None if is_aside => String::new(),
            uid => uid?,
        };
        if !is_aside {
            let held = store.get(resource, namespace, &name)?;
            if *held.uid != *uid || (kind != "pod" && held.terminating) {
                return None;
            }
        }
        if kind != "secret" {
            user.extra
                .insert(format!("authentication.kubernetes.io/{kind}-name"), vec![name]);
            if !uid.is_empty() {
                user.extra
                    .insert(format!("authentication.kubernetes.io/{kind}-uid"), vec![uid]);
            }
        }
    }
    Some(user)
}

fn legacy(store: &Store, claims: &Value, token: &str, audiences: &[String]) -> Option<User> {
    // Such a token names no audience and so is for this server.
    if !audiences.is_empty() && !audiences.iter().any(|it| it == ISSUER) {
        return None;
    }
    let claim = |key: &str| claims[format!("kubernetes.io/serviceaccount/{key}")].as_str();
    let namespace = claim("namespace")?;
    let secret = store.get("secrets", namespace, claim("secret.name")?)?;
    let held = STANDARD.decode(secret.value()["data"]["token"].as_str()?).ok()?;
    if secret.terminating || held != token.as_bytes() {
        return None;
    }
    account(
        store,
        namespace,
        claim("service-account.name")?,
        claim("service-account.uid")?,
        &claims["sub"],
    )
}
