//! What the add-on application-manager refuses and fills in when it is written, on a Kubernetes that is not ours: the
//! webhooks of `multicluster-operators-subscription`, answered as the hub's own are. Inside the embedded hub
//! [`ApplicationAdmission`](crate::application_admission::ApplicationAdmission) does the same.

use std::sync::Arc;

use addon_application::{
    ApplicationWebhookServer, ApplicationWebhooks,
    hub::{
        admission::{self, ChannelAdmission},
        identity::{self, ObjectWriter},
    },
};
use anyhow::Result;
use async_trait::async_trait;
use kube::Client;
use ocm_reconcile::access::{self, Attributes, UserInfo};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use webhooks::add_on::{AddOnWebhooks, Judge, MUTATING, OwnCertificate, VALIDATING};

/// The Secret of the certificate that the programs make.
const OWN_CERTIFICATE: &str = "application-manager-webhook-own-cert";

/// Answers the webhooks.
pub struct ApplicationReviews;

#[async_trait]
impl ApplicationWebhookServer for ApplicationReviews {
    async fn start(&self, hub: &Client, asked: ApplicationWebhooks, stop: &CancellationToken) -> Result<()> {
        webhooks(hub, asked).start(hub, stop).await.map(drop)
    }
}

fn webhooks(hub: &Client, asked: ApplicationWebhooks) -> AddOnWebhooks {
    let own = asked.namespace.map(|namespace| OwnCertificate {
        namespace,
        secret: OWN_CERTIFICATE,
        service: admission::SERVICE,
        configurations: &[
            (VALIDATING, admission::CHANNEL_WEBHOOK),
            (MUTATING, admission::IDENTITY_CONFIGURATION),
        ],
    });
    AddOnWebhooks {
        address: asked.address,
        certificates: asked.certificates,
        own,
        judges: vec![
            (admission::CHANNEL_PATH, Arc::new(Channels(asked.channels))),
            (admission::IDENTITY_PATH, Arc::new(Identities(hub.clone()))),
        ],
        tls_min_version: String::new(),
        tls_cipher_suites: String::new(),
    }
}

struct Channels(ChannelAdmission);

#[async_trait]
impl Judge for Channels {
    async fn judge(&self, request: &Value) -> Result<Option<Value>, String> {
        self.0.judge(request).map(|()| None)
    }
}

struct Identities(Client);

#[async_trait]
impl Judge for Identities {
    async fn judge(&self, request: &Value) -> Result<Option<Value>, String> {
        let beside = request["subResource"].as_str().is_some_and(|it| !it.is_empty());
        let old = match request["operation"].as_str().filter(|_| !beside) {
            Some("CREATE") => None,
            Some("UPDATE") => Some(&request["oldObject"]),
            _ => return Ok(None),
        };
        let object = &request["object"];
        let info = &request["userInfo"];
        let groups = info["groups"].as_array().into_iter().flatten();
        let by = UserInfo {
            user: info["username"].as_str().unwrap_or_default().to_owned(),
            groups: groups.filter_map(|it| Some(it.as_str()?.to_owned())).collect(),
            ..UserInfo::default()
        };
        let mut is_believed = identity::is_claimed(object, old);
        for resource in identity::IMPERSONATED {
            let asked = Attributes {
                verb: "impersonate".to_owned(),
                resource: resource.to_owned(),
                ..Attributes::default()
            };
            // Whom the API server does not know to have the right has not.
            is_believed = is_believed && access::may(&self.0, &by, &asked).await.unwrap_or(false);
        }
        let writer = ObjectWriter {
            user: &by.user,
            groups: &by.groups,
        };
        let annotations = identity::attributed(object, old, writer, is_believed);
        Ok(annotations.map(|it| json!([{"op": "add", "path": "/metadata/annotations", "value": it}])))
    }
}

#[cfg(test)]
#[path = "application_webhooks_tests.rs"]
mod tests;
