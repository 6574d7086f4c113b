//! Bootstrap tokens: a short secret that lets a new cluster ask for its first certificate.

use super::Terms;
use crate::identity::User;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube_store::store::Store;

fn is_part(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
}

/// Whether a token looks like `<6>.<16>` of `[a-z0-9]`.
pub(super) fn is_shaped(token: &str) -> bool {
    token
        .split_once('.')
        .is_some_and(|(id, secret)| is_part(id, 6) && is_part(secret, 16))
}

/// Its Secret, which also says how long it is good: whatever has run out is deleted.
pub(super) fn terms(token: &str) -> Terms {
    let name = token.split_once('.').map(|(id, _)| format!("bootstrap-token-{id}"));
    Terms {
        until: None,
        grounds: name
            .map(|it| ("secrets", "kube-system".into(), it.into()))
            .into_iter()
            .collect(),
    }
}

/// The user of a bootstrap token whose Secret exists, agrees and has not expired.
pub(super) fn user(store: &Store, token: &str, now: jiff::Timestamp) -> Option<User> {
    let (id, given) = token.split_once('.')?;
    let secret = store.get("secrets", "kube-system", &format!("bootstrap-token-{id}"))?;
    if secret.terminating {
        return None;
    }
    let value = secret.value();
    let data = |key: &str| {
        let bytes = STANDARD.decode(value["data"][key].as_str()?).ok()?;
        String::from_utf8(bytes).ok()
    };
    if value["type"] != "bootstrap.kubernetes.io/token" || data("token-id")? != id {
        return None;
    }
    let held = data("token-secret")?;
    aws_lc_rs::constant_time::verify_slices_are_equal(held.as_bytes(), given.as_bytes()).ok()?;
    if let Some(expiration) = data("expiration")
        && expiration.parse::<jiff::Timestamp>().map_or(true, |it| it <= now)
    {
        return None;
    }
    if data("usage-bootstrap-authentication")? != "true" {
        return None;
    }
    let mut groups = vec!["system:bootstrappers".to_owned()];
    for group in data("auth-extra-groups")
        .unwrap_or_default()
        .split(',')
        .filter(|it| !it.is_empty())
    {
        if !is_group(group) {
            return None;
        }
        groups.push(group.to_owned());
    }
    groups.sort();
    groups.dedup();
    Some(User {
        username: format!("system:bootstrap:{id}"),
        groups,
        ..User::default()
    })
}

/// `system:bootstrappers:` and up to 256 of `[a-z0-9:-]`, the last of them no `:` or `-`.
fn is_group(group: &str) -> bool {
    let Some(rest) = group.strip_prefix("system:bootstrappers:") else {
        return false;
    };
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    (1..=256).contains(&rest.len())
        && rest.bytes().all(|it| is_plain(it) || it == b':' || it == b'-')
        && rest.bytes().last().is_some_and(is_plain)
}
