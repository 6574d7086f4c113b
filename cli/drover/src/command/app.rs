//! `drover app refresh NAMESPACE/NAME`, or `drover app refresh NAME -n NAMESPACE`.

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use client::{connect::ApiServer, flags::Global, kinds};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use ocm_api::apps::annotations;
use serde_json::{Value, json};

/// Applications of subscriptions
#[derive(Debug, Subcommand)]
pub enum App {
    /// Have clusters look at the source of a subscription now, whatever its rate
    Refresh(RefreshApp),
}

impl App {
    pub async fn run(self, global: &Global) -> Result<()> {
        match self {
            Self::Refresh(it) => it.run(global).await,
        }
    }
}

#[derive(Debug, Args)]
pub struct RefreshApp {
    /// The subscription; one of the namespace default needs no NAMESPACE
    #[arg(value_name = "[NAMESPACE/]NAME")]
    subscription: String,
    /// The namespace of the subscription, if it is not named before it [default: default]
    #[arg(short, long)]
    namespace: Option<String>,
}

impl RefreshApp {
    async fn run(self, global: &Global) -> Result<()> {
        let (namespace, name) = match (self.subscription.split_once('/'), &self.namespace) {
            (Some(_), Some(_)) => bail!("the namespace is given twice: say NAMESPACE/NAME, or NAME and --namespace"),
            (Some(both), None) => both,
            (None, namespace) => (namespace.as_deref().unwrap_or("default"), self.subscription.as_str()),
        };
        let hub = ApiServer::connect(global).await?;
        let api = hub.namespaced(&kinds::subscription(), namespace);
        match api
            .patch(
                name,
                &PatchParams::default(),
                &Patch::Merge(refreshed(Timestamp::now())),
            )
            .await
        {
            Ok(_) => output::say(format_args!("clusters look at the source of {namespace}/{name} now")),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                bail!("there is no subscription {namespace}/{name}; `drover get subscriptions` lists those there are")
            }
            Err(error) => Err(hub.explain(&format!("could not refresh subscription {namespace}/{name}"), &error)),
        }
    }
}

/// Upstream's way: the hub passes the annotation on, and another value is another look.
fn refreshed(now: Timestamp) -> Value {
    json!({"metadata": {"annotations": {annotations::MANUAL_REFRESH_TIME: now.to_string()}}})
}
