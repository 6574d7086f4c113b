//! Fills the Secrets that ask for a ServiceAccount token, and removes those whose ServiceAccount is gone.
//!
//! root: Secret of type `kubernetes.io/service-account-token`; reads: its ServiceAccount; writes: the Secret's data and
//! its uid annotation, or deletes it; never: other Secrets.

use super::{
    controller::{ServerAccess, ServerController, TokenClaims, tolerate},
    queue::{Key, Queue},
};
use crate::local::Local;
use base64::{Engine, prelude::BASE64_STANDARD};
use kube_store::{
    Object,
    status::Status,
    store::{Change, Event},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const ID: &str = "secrets";
const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// See the header of this file.
pub(super) struct TokenSecrets {
    pub local: Local,
    pub ground: Arc<dyn ServerAccess>,
}

/// What a token Secret needs.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Nothing,
    Remove,
    Fill,
}

/// Decides from the Secret and the uid of the ServiceAccount it names, if that exists.
fn step(secret: &Value, account_uid: Option<&str>, root_ca: &str) -> Step {
    let Some(uid) = account_uid else { return Step::Remove };
    let named = secret["metadata"]["annotations"][ACCOUNT_UID]
        .as_str()
        .unwrap_or_default();
    if !named.is_empty() && named != uid {
        return Step::Remove; // made for a namesake that was deleted
    }
    let data = &secret["data"];
    let filled = ["token", "namespace"]
        .iter()
        .all(|it| data[*it].as_str().is_some_and(|it| !it.is_empty()));
    if filled && named == uid && data["ca.crt"] == BASE64_STANDARD.encode(root_ca) {
        Step::Nothing
    } else {
        Step::Fill
    }
}

/// Whether the bytes can be those of a token Secret: most Secrets are not, and need not be parsed.
fn may_be_token(object: &Object) -> bool {
    object.json.windows(TYPE.len()).any(|it| it == TYPE.as_bytes())
}

#[async_trait::async_trait]
impl ServerController for TokenSecrets {
    fn name(&self) -> &'static str {
        "service-account-token"
    }

    fn notice(&self, event: &Event, queue: &Queue) {
        let object = &event.object;
        match object.resource.as_ref() {
            ID if event.change != Change::Deleted && may_be_token(object) => queue.add(Key::of(object)),
            "serviceaccounts" if event.change != Change::Modified => {
                let secrets = self.local.store().list(ID, &object.namespace).0;
                secrets
                    .iter()
                    .filter(|it| may_be_token(it))
                    .for_each(|it| queue.add(Key::of(it)));
            }
            _ => {}
        }
    }

    fn survey(&self, queue: &Queue) {
        let secrets = self.local.store().list(ID, "").0;
        secrets
            .iter()
            .filter(|it| may_be_token(it))
            .for_each(|it| queue.add(Key::of(it)));
    }

    async fn reconcile(&self, key: &Key, _: &Queue) -> Result<Option<Duration>, Status> {
        let Some(object) = self
            .local
            .store()
            .get(ID, &key.namespace, &key.name)
            .filter(|it| !it.terminating)
        else {
            return Ok(None);
        };
        let secret = object.value();
        if secret["type"] != TYPE {
            return Ok(None);
        }
        let name = secret["metadata"]["annotations"][ACCOUNT].as_str().unwrap_or_default();
        let account = self.local.store().get("serviceaccounts", &key.namespace, name);
        let root_ca = self.ground.root_ca();
        match (
            step(&secret, account.as_ref().map(|it| it.uid.as_ref()), &root_ca),
            account,
        ) {
            (Step::Remove, _) => {
                let uid = Some(object.uid.as_ref());
                tolerate(
                    self.local
                        .delete(ID, &key.namespace, &key.name, uid, Some("Background"))
                        .await,
                )?;
            }
            (Step::Fill, Some(account)) => {
                let claims = TokenClaims {
                    namespace: key.namespace.to_string(),
                    service_account: name.to_owned(),
                    service_account_uid: account.uid.to_string(),
                    secret: key.name.to_string(),
                    secret_uid: object.uid.to_string(),
                };
                let token = match secret["data"]["token"].as_str().filter(|it| !it.is_empty()) {
                    Some(token) => token.to_owned(),
                    None => BASE64_STANDARD.encode(self.ground.mint(&claims).map_err(Status::internal)?),
                };
                let patch = json!({
                    "metadata": {
                        "resourceVersion": object.revision.to_string(),
                        "annotations": {ACCOUNT_UID: account.uid.as_ref()},
                    },
                    "data": {
                        "token": token,
                        "ca.crt": BASE64_STANDARD.encode(root_ca),
                        "namespace": BASE64_STANDARD.encode(key.namespace.as_bytes()),
                    },
                });
                tolerate(self.local.merge_patch(ID, &key.namespace, &key.name, "", patch).await)?;
            }
            _ => {}
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_secret_is_filled_and_removed_with_its_account() {
        let mut secret = json!({"metadata": {"annotations": {ACCOUNT: "sa"}}});
        assert_eq!(step(&secret, None, "ca"), Step::Remove);
        assert_eq!(step(&secret, Some("u"), "ca"), Step::Fill);
        secret["metadata"]["annotations"][ACCOUNT_UID] = "u".into();
        secret["data"] = json!({"token": "dA==", "namespace": "bg==", "ca.crt": BASE64_STANDARD.encode("ca")});
        assert_eq!(step(&secret, Some("u"), "ca"), Step::Nothing);
        assert_eq!(step(&secret, Some("u"), "renewed ca"), Step::Fill);
        assert_eq!(step(&secret, Some("v"), "ca"), Step::Remove);
    }
}
