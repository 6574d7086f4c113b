//! `cp-creds`: an exec plugin of client-go that finds the token of a ClusterProfile's cluster.
//! Upstream: managed-serviceaccount `cmd/cp-creds`.

use std::{ffi::OsString, process::ExitCode};

use anyhow::{Context, Result, anyhow, bail};
use ocm_addon_sdk::{
    k8s_openapi::api::core::v1::Secret,
    kube::{Api, Client},
    program::{self, Place},
};
use serde_json::{Value, json};

/// What client-go tells a plugin.
const INFO: &str = "KUBERNETES_EXEC_INFO";
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

const USAGE: &str = "Usage of cp-creds:
      --managed-serviceaccount string   The ManagedServiceAccount whose token is wanted
";

/// Prints an ExecCredential with the token.
pub(crate) fn run(arguments: Vec<OsString>, place: &Place) -> ExitCode {
    let account = match account(program::with_two_dashes(arguments)) {
        Ok(Some(account)) => account,
        Ok(None) => {
            eprint!("Error: --managed-serviceaccount flag is required\n{USAGE}");
            return ExitCode::FAILURE;
        }
        Err(why) => {
            eprint!("Error: {why}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let done = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|it| it.block_on(credential(&account, place)));
    match done {
        Ok(credential) => {
            println!("{credential}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn account(arguments: Vec<OsString>) -> Result<Option<String>, String> {
    const FLAG: &str = "--managed-serviceaccount";
    let mut words = arguments.into_iter().map(|it| it.to_string_lossy().into_owned());
    let mut found = None;
    while let Some(word) = words.next() {
        found = match word.split_once('=') {
            Some((FLAG, value)) => Some(value.to_owned()),
            None if word == FLAG => Some(words.next().ok_or("flag needs an argument: --managed-serviceaccount")?),
            _ => return Err(format!("unknown flag or argument: {word}")),
        };
    }
    Ok(found.filter(|it| !it.is_empty()))
}

async fn credential(account: &str, place: &Place) -> Result<Value> {
    let info = std::env::var(INFO).unwrap_or_default();
    let cluster = cluster(&info)?;
    let client = place.client(None).await?;
    let namespace = namespace(&client);
    let name = format!("{cluster}-{account}");
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let secret = secrets.get(&name).await;
    let secret =
        secret.map_err(|error| anyhow!("failed to get synced credential secret {namespace}/{name}: {error}"))?;
    let token = secret.data.as_ref().and_then(|it| it.get("token"));
    let token = token.filter(|it| !it.0.is_empty());
    let Some(token) = token.and_then(|it| String::from_utf8(it.0.clone()).ok()) else {
        bail!("secret {namespace}/{name} missing or empty \"token\" key");
    };
    Ok(json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }))
}

/// The cluster that client-go speaks of.
fn cluster(info: &str) -> Result<String> {
    if info.is_empty() {
        bail!("${INFO} is empty: this program is called by client-go, as users.exec of a kubeconfig says");
    }
    let info: Value = serde_json::from_str(info).with_context(|| format!("${INFO} is no ExecCredential"))?;
    let config = &info["spec"]["cluster"]["config"];
    if config.is_null() {
        bail!("missing ExecCredential.Spec.Cluster.Config");
    }
    match config["clusterName"].as_str() {
        Some(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => bail!("missing clusterName in ExecCredential.Spec.Cluster.Config"),
    }
}

fn namespace(client: &Client) -> String {
    let said = std::env::var("NAMESPACE").ok().filter(|it| !it.is_empty());
    let of_pod = || {
        std::fs::read_to_string(POD_NAMESPACE)
            .ok()
            .map(|it| it.trim().to_owned())
    };
    said.or_else(|| of_pod().filter(|it| !it.is_empty()))
        .unwrap_or_else(|| client.default_namespace().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cluster_comes_from_the_configuration_of_the_plugin() {
        let info = |config: Value| json!({"spec": {"cluster": {"config": config}}}).to_string();
        assert_eq!(cluster(&info(json!({"clusterName": "c1"}))).unwrap(), "c1");
        let error = |text: &str| cluster(text).unwrap_err().to_string();
        assert_eq!(error("{}"), "missing ExecCredential.Spec.Cluster.Config");
        assert_eq!(
            error(&info(json!({}))),
            "missing clusterName in ExecCredential.Spec.Cluster.Config"
        );
    }

    #[test]
    fn the_account_is_a_flag() {
        let read = |words: &[&str]| account(words.iter().map(OsString::from).collect());
        assert_eq!(read(&["--managed-serviceaccount=a"]), Ok(Some("a".to_owned())));
        assert_eq!(read(&["--managed-serviceaccount", "a"]), Ok(Some("a".to_owned())));
        assert_eq!(read(&[]), Ok(None));
        assert!(read(&["--other"]).is_err());
    }
}
