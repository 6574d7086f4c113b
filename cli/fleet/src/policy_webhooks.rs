//! What the policy framework refuses when it is written, on a Kubernetes that is not ours: the webhooks of
//! `governance-policy-propagator`, answered as the hub's own are. Inside the embedded hub
//! [`PolicyAdmission`](crate::policy_admission::PolicyAdmission) refuses the same.

use std::sync::Arc;

use addon_policy_framework::hub::{PropagatorWebhooks, WebhookServer, admission};
use anyhow::Result;
use async_trait::async_trait;
use kube::Client;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use webhooks::add_on::{AddOnWebhooks, JudgeAtPath, OwnCertificate, VALIDATING};

/// The Secret of the certificate that the propagators make. Upstream's, `propagator-webhook-server-cert`, is of whoever
/// makes one for them.
const OWN_CERTIFICATE: &str = "propagator-webhook-own-cert";

/// Answers the propagator's webhooks.
pub struct ReviewServer;

#[async_trait]
impl WebhookServer for ReviewServer {
    async fn start(&self, hub: &Client, asked: PropagatorWebhooks, stop: &CancellationToken) -> Result<()> {
        webhooks(asked).start(hub, stop).await.map(drop)
    }
}

fn judge((path, rule): &(&'static str, fn(&Value) -> Result<(), String>)) -> JudgeAtPath {
    (*path, Arc::new(*rule))
}

fn webhooks(asked: PropagatorWebhooks) -> AddOnWebhooks {
    let own = asked.namespace.map(|namespace| OwnCertificate {
        namespace,
        secret: OWN_CERTIFICATE,
        service: admission::SERVICE,
        configurations: &[(VALIDATING, admission::CONFIGURATION)],
    });
    AddOnWebhooks {
        address: asked.address,
        certificates: asked.certificates,
        own,
        judges: admission::REVIEWS.iter().map(judge).collect(),
        tls_min_version: asked.tls_min_version,
        tls_cipher_suites: asked.tls_cipher_suites,
    }
}

#[cfg(test)]
#[path = "policy_webhooks_tests.rs"]
mod tests;
