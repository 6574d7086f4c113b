//! Deletes bootstrap tokens when they expire.
//!
//! root: Secret of type `bootstrap.kubernetes.io/token` in kube-system; writes: deletes it; never:
//! a token without expiration.

use super::{
    controller::{ServerController, tolerate, until},
    queue::{Key, Queue},
};
use crate::local::Local;
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use kube_store::{
    status::Status,
    store::{Change, Event},
};
use serde_json::Value;
use std::time::Duration;

const ID: &str = "secrets";
const NAMESPACE: &str = "kube-system";
const TYPE: &str = "bootstrap.kubernetes.io/token";

/// See the header of this file.
pub(super) struct BootstrapTokens {
    pub local: Local,
}

/// When the token expires; `None` when it is no bootstrap token or never does. An unreadable time has expired: such a
/// token lets nobody in.
fn expires_at(secret: &Value) -> Option<Timestamp> {
    if secret["type"] != TYPE {
        return None;
    }
    let encoded = secret["data"]["expiration"].as_str()?;
    let text = BASE64_STANDARD
        .decode(encoded)
        .ok()
        .and_then(|it| String::from_utf8(it).ok());
    Some(
        text.and_then(|it| it.trim().parse().ok())
            .unwrap_or(Timestamp::UNIX_EPOCH),
    )
}

#[async_trait::async_trait]
impl ServerController for BootstrapTokens {
    fn name(&self) -> &'static str {
        "token-cleaner"
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        let ours = object.resource.as_ref() == ID && object.namespace.as_ref() == NAMESPACE;
        if ours && event.change != Change::Deleted {
            queue.add(Key::of(object));
        }
    }

    fn survey(&self, queue: &Queue) {
        self.local
            .store()
            .list(ID, NAMESPACE)
            .0
            .iter()
            .for_each(|it| queue.add(Key::of(it)));
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let Some(object) = self.local.store().get(ID, NAMESPACE, &key.name) else {
            return Ok(None);
        };
        let Some(expires) = expires_at(&object.value()) else {
            return Ok(None);
        };
        let wait = until(Timestamp::now(), expires);
        if !wait.is_zero() {
            return Ok(Some(wait));
        }
        tolerate(
            self.local
                .delete(ID, NAMESPACE, &key.name, Some(&object.uid), Some("Background"))
                .await,
        )?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_bootstrap_token_with_an_expiration_expires() {
        let at = "2026-01-02T03:04:05Z";
        let secret = json!({"type": TYPE, "data": {"expiration": BASE64_STANDARD.encode(at)}});
        assert_eq!(expires_at(&secret), at.parse().ok());
        assert_eq!(
            expires_at(&json!({"type": TYPE, "data": {"expiration": "!"}})),
            Some(Timestamp::UNIX_EPOCH)
        );
        assert_eq!(expires_at(&json!({"type": TYPE, "data": {}})), None);
        assert_eq!(
            expires_at(&json!({"type": "Opaque", "data": {"expiration": BASE64_STANDARD.encode(at)}})),
            None
        );
    }
}
