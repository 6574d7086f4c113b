//! `drover proxy kubeconfig`.

use std::{
    fs::OpenOptions,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use clap::Args;
use client::connect::ApiServer;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::Api;
use ocm_api::authentication::ManagedServiceAccount;
use serde_json::json;

use super::{
    check_offered,
    user_server::{self, UserServerAddress},
};

/// Whom a cluster is reached as, and how.
#[derive(Debug, Args)]
pub struct Reach {
    /// The cluster
    #[arg(short, long, value_name = "CLUSTER")]
    pub cluster: String,
    /// The ManagedServiceAccount of the cluster to be
    #[arg(long, value_name = "MANAGEDSERVICEACCOUNT")]
    pub sa: String,
    /// The URL of the user-server [default: what ManagedProxyConfiguration cluster-proxy says]
    #[arg(long, value_name = "URL")]
    pub user_server: Option<String>,
}

#[derive(Debug, Args)]
pub struct WriteKubeconfig {
    #[command(flatten)]
    reach: Reach,
    /// The file to write [default: what is written goes to standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl WriteKubeconfig {
    pub async fn write(&self, hub: &ApiServer) -> Result<()> {
        let (text, users) = self.reach.kubeconfig(hub).await?;
        if users.forwarded.is_some() {
            bail!(
                "the user-server is reached by this process alone: say where it is exposed with --user-server, or in \
                 annotation proxy.open-cluster-management.io/user-server-url of ManagedProxyConfiguration cluster-proxy; \
                 or use `drover proxy kubectl`"
            );
        }
        match &self.output {
            None => output::print(&text),
            Some(path) => {
                save(path, &text)?;
                output::print(&format!("wrote {}\n", path.display()))
            }
        }
    }
}

impl Reach {
    /// The kubeconfig, and the way that has to stay open while it is used.
    pub async fn kubeconfig(&self, hub: &ApiServer) -> Result<(String, UserServerAddress)> {
        check_offered(hub).await?;
        let token = token(hub, &self.cluster, &self.sa).await?;
        let users = user_server::find(hub, self.user_server.as_deref()).await?;
        let ca = serde_json::to_value(ByteString(users.ca.clone().into_bytes()))?;
        let (cluster, account) = (&self.cluster, format!("{}/{}", self.cluster, self.sa));
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{
                "name": cluster,
                "cluster": {"server": format!("{}/{cluster}", users.url), "certificate-authority-data": ca},
            }],
            "users": [{"name": account, "user": {"token": token}}],
            "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": account}}],
            "current-context": cluster,
        });
        Ok((serde_saphyr::to_string(&kubeconfig)?, users))
    }
}

/// The token of a ManagedServiceAccount.
async fn token(hub: &ApiServer, cluster: &str, name: &str) -> Result<String> {
    let accounts: Api<ManagedServiceAccount> = Api::namespaced(hub.client.clone(), cluster);
    let account = accounts.get_opt(name).await;
    let account = account.map_err(|error| hub.explain("could not read the ManagedServiceAccount", &error))?;
    let Some(account) = account else {
        bail!("cluster {cluster} has no ManagedServiceAccount {name}; create it in namespace {cluster} of the hub");
    };
    let reference = account.status.and_then(|it| it.token_secret_ref);
    let Some(reference) = reference else {
        bail!("ManagedServiceAccount {cluster}/{name} has no token yet; see `drover why` for what it waits for");
    };
    let secrets: Api<Secret> = Api::namespaced(hub.client.clone(), cluster);
    let secret = secrets.get(&reference.name).await;
    let secret = secret.map_err(|error| hub.explain("could not read the token", &error))?;
    let token = secret.data.and_then(|mut it| it.remove("token"));
    let token = token.and_then(|it| String::from_utf8(it.0).ok());
    token.with_context(|| format!("Secret {cluster}/{} has no token", reference.name))
}

/// Writes a file that nobody else may read.
pub fn save(path: &Path, text: &str) -> Result<()> {
    let write = || {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(path)?.write_all(text.as_bytes())
    };
    write().with_context(|| format!("could not write {}", path.display()))
}
