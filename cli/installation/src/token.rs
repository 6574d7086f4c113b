//! What clusters join with: a token of a ServiceAccount, which expires, or a bootstrap token, which does not.
//! Upstream: clusteradm `pkg/helpers/client.go`, `pkg/cmd/get/token` and `pkg/cmd/delete/token`. Its `delete token`
//! leaves the binding of bootstrap tokens; ours takes both.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use client::{bootstrap::Invitation, connect::ApiServer};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::ListParams};
use ocm_api::namespaces;
use serde_json::{Value, json};

use crate::{Line, Mode};

/// The namespace of bootstrap tokens.
const SYSTEM: &str = "kube-system";
/// What the names of their Secrets begin with.
const PREFIX: &str = "bootstrap-token-";
/// The label of those that are for clusters to join with.
const SELECTOR: &str = "app=cluster-manager";

/// Makes an invitation of the bootstrap token that is there.
///
/// # Errors
/// When there is none, or the API server cannot be asked.
pub async fn of_bootstrap_secret(hub: &ApiServer, server: Option<&str>) -> Result<Invitation> {
    let mut secrets = bootstrap_secrets(hub).await?;
    secrets.sort_by_key(|it| it.metadata.creation_timestamp.as_ref().map(|it| it.0));
    let text = |secret: &Secret, key: &str| -> Option<String> {
        String::from_utf8(secret.data.as_ref()?.get(key)?.0.clone()).ok()
    };
    let token = secrets.pop();
    let token = token.and_then(|it| Some(format!("{}.{}", text(&it, "token-id")?, text(&it, "token-secret")?)));
    let token = token.ok_or_else(|| {
        anyhow!(
            "{} has no bootstrap token for clusters to join with (a Secret {SYSTEM}/{PREFIX}... with the label {SELECTOR}): \
             `drover init --use-bootstrap-token` makes one",
            hub.server
        )
    })?;
    Ok(Invitation {
        server: server.unwrap_or(&hub.server).trim_end_matches('/').to_owned(),
        token,
        ca: hub.ca.clone(),
    })
}

async fn bootstrap_secrets(hub: &ApiServer) -> Result<Vec<Secret>> {
    let secrets: Api<Secret> = Api::namespaced(hub.client.clone(), SYSTEM);
    let listed = secrets.list(&ListParams::default().labels(SELECTOR)).await;
    let listed = listed.map_err(|error| hub.explain("could not look for a bootstrap token", &error))?;
    let is_token = |it: &Secret| it.metadata.name.as_deref().is_some_and(|it| it.starts_with(PREFIX));
    Ok(listed.items.into_iter().filter(is_token).collect())
}

/// Lets a bootstrap token that is there stay what it is: the chart makes up another one every time, and whoever has
/// been told the old one could not join any more.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn keep_what_is_there(hub: &ApiServer, objects: &mut [Value]) -> Result<()> {
    let is_token = |it: &&mut Value| it["kind"] == "Secret" && it["type"] == "bootstrap.kubernetes.io/token";
    let Some(made) = objects.iter_mut().find(is_token) else {
        return Ok(());
    };
    for secret in bootstrap_secrets(hub).await? {
        let found = secret.data.unwrap_or_default();
        if let (true, Some(it)) = (
            secret.metadata.name.as_deref() == made["metadata"]["name"].as_str(),
            found.get("token-secret"),
        ) {
            made["data"]["token-secret"] = json!(it);
        }
    }
    Ok(())
}

/// Everything that clusters join with, in the order in which it is made.
///
/// # Errors
/// When the API server cannot be asked.
pub async fn objects(hub: &ApiServer) -> Result<Vec<Value>> {
    let all = hub::bootstrap::objects().into_iter().map(|it| it.into_manifest());
    let mut all: Vec<Value> = all.filter(|it| it["kind"] != "Namespace").collect();
    for secret in bootstrap_secrets(hub).await? {
        all.push(json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret.metadata.name, "namespace": SYSTEM},
        }));
    }
    Ok(all)
}

/// Takes away what clusters join with: no token that was handed out is good for anything any more.
///
/// # Errors
/// What the API server refuses, and when it is no hub.
pub async fn delete(hub: &ApiServer, mode: Mode, timeout: Duration) -> Result<Vec<Line>> {
    if !crate::operated::has_crd(hub, crate::hub::CRD).await? && !crate::former::hub_is_there(hub).await? {
        bail!(
            "this is not a hub: {} has no ClusterManager and no {}",
            hub.server,
            namespaces::HUB
        );
    }
    crate::remove(hub, &objects(hub).await?, mode, timeout).await
}
