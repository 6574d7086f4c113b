//! From a token and an address to the kubeconfig that an agent bootstraps with: the hub's CA is found and checked
//! first. Upstream: clusteradm `join`, which sends the token to whoever answers. We ask without it, unless the caller
//! says so.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use client::{
    bootstrap::{self, Invitation},
    connect::ApiServer,
};
use kube::config::{Cluster, Kubeconfig};

/// Why a hub's CA is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is in a file.
    File(PathBuf),
    /// It has this fingerprint.
    Hash(String),
    /// It is the first that answered.
    FirstAnswer,
    /// The same, and the token is sent to whoever answers, if nothing is told without it: as clusteradm does.
    SendToken,
}

/// A hub as a cluster is told about it.
#[derive(Clone, Debug)]
pub struct HubAccess {
    /// Its URL.
    pub server: String,
    /// What the cluster joins with.
    pub token: String,
    /// Why its CA is believed.
    pub trust: Trust,
}

/// How an agent reaches a hub, where that is not how we do.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// Whether it asks for the hub's address inside its network.
    pub internal_endpoint: bool,
    /// A proxy between them.
    pub proxy_url: Option<String>,
    /// The proxy's CA.
    pub proxy_ca_file: Option<PathBuf>,
}

impl HubAccess {
    /// What to bootstrap with, and a remark about why the hub is believed.
    ///
    /// # Errors
    /// When the hub does not answer, or is another one.
    pub async fn invitation(&self) -> Result<(Invitation, Option<String>)> {
        let server = self.server.trim_end_matches('/').to_owned();
        let (ca, remark) = match &self.trust {
            Trust::File(path) => (Some(bootstrap::read_ca(path)?), None),
            Trust::Hash(hash) => some(bootstrap::discover_ca(&server, Some(hash)).await?),
            Trust::FirstAnswer => some(bootstrap::discover_ca(&server, None).await?),
            Trust::SendToken => match bootstrap::discover_ca(&server, None).await {
                Ok(found) => some(found),
                Err(_) => bootstrap::discover_ca_with_token(&server, &self.token).await?,
            },
        };
        let invitation = Invitation {
            server,
            token: self.token.clone(),
            ca,
        };
        Ok((invitation, remark))
    }
}

fn some((ca, remark): (String, Option<String>)) -> (Option<String>, Option<String>) {
    (Some(ca), remark)
}

impl Route {
    /// The kubeconfig as an agent gets it.
    ///
    /// # Errors
    /// When the hub does not say where it is reached inside its network, or a CA file is none.
    pub async fn apply(&self, kubeconfig: &Kubeconfig) -> Result<Kubeconfig> {
        let mut made = kubeconfig.clone();
        if self.internal_endpoint {
            let hub = ApiServer::of(kubeconfig.clone(), "the bootstrap kubeconfig").await?;
            let server = bootstrap::public_server(&hub).await?;
            let server = server.with_context(|| {
                format!(
                    "{} does not say where it is reached inside its network (kube-public/cluster-info): leave \
                     --force-internal-endpoint-lookup out",
                    hub.server
                )
            })?;
            set_server(&mut made, &server);
        }
        if let Some(url) = &self.proxy_url {
            let ca = self.proxy_ca_file.as_deref().map(bootstrap::read_ca).transpose();
            let ca = ca.context("--proxy-ca-file")?;
            for cluster in clusters(&mut made) {
                cluster.proxy_url = Some(url.clone());
                if let Some(ca) = &ca {
                    trust_as_well(cluster, ca)?;
                }
            }
        } else if self.proxy_ca_file.is_some() {
            bail!("--proxy-ca-file is the CA of a proxy: name the proxy with --proxy-url");
        }
        Ok(made)
    }
}

/// Adds a CA to those that a kubeconfig's cluster trusts.
fn trust_as_well(cluster: &mut Cluster, ca: &str) -> Result<()> {
    let mut all = match &cluster.certificate_authority_data {
        None => String::new(),
        Some(data) => {
            let data = BASE64_STANDARD.decode(data).context("the hub's CA is no base64")?;
            String::from_utf8(data).context("the hub's CA is no text")?
        }
    };
    if !all.contains(ca.trim()) {
        if !all.is_empty() && !all.ends_with('\n') {
            all.push('\n');
        }
        all += ca;
    }
    cluster.certificate_authority_data = Some(BASE64_STANDARD.encode(all));
    Ok(())
}

/// Changes the address of a kubeconfig's server.
pub fn set_server(kubeconfig: &mut Kubeconfig, server: &str) {
    for cluster in clusters(kubeconfig) {
        cluster.server = Some(server.to_owned());
    }
}

fn clusters(kubeconfig: &mut Kubeconfig) -> impl Iterator<Item = &mut Cluster> {
    kubeconfig.clusters.iter_mut().filter_map(|it| it.cluster.as_mut())
}

/// Reads the URL of a proxy.
///
/// # Errors
/// When it is none that an agent could use.
pub fn parse_proxy(text: &str) -> Result<String, String> {
    let parsed: http::Uri = text.parse().map_err(|error| format!("it is not a URL: {error}"))?;
    match (parsed.scheme_str(), parsed.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(text.to_owned()),
        _ => Err("write http://HOST:PORT or https://HOST:PORT".to_owned()),
    }
}

/// The bytes of a kubeconfig file that somebody else has made, with what it names inlined.
///
/// # Errors
/// When it is none.
pub async fn read(path: &Path) -> Result<Kubeconfig> {
    let kubeconfig = client::connect::read(path)?;
    let loaded = credential::kubeconfig::load(&path.display().to_string(), kubeconfig).await?;
    Ok(loaded.kubeconfig)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig() -> Kubeconfig {
        let invitation = Invitation {
            server: "https://hub:6443".into(),
            token: "t".into(),
            ca: Some(bootstrap::pem(&[1])),
        };
        Kubeconfig::from_yaml(&invitation.kubeconfig().unwrap()).unwrap()
    }

    #[tokio::test]
    async fn an_agent_behind_a_proxy_trusts_its_ca_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("proxy.crt");
        std::fs::write(&path, bootstrap::pem(&[2])).unwrap();
        let route = Route {
            proxy_url: Some("http://proxy:3128".into()),
            proxy_ca_file: Some(path.clone()),
            ..Route::default()
        };
        let made = route.apply(&kubeconfig()).await.unwrap();
        let cluster = made.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.proxy_url.as_deref(), Some("http://proxy:3128"));
        let ca = BASE64_STANDARD
            .decode(cluster.certificate_authority_data.as_ref().unwrap())
            .unwrap();
        assert_eq!(String::from_utf8(ca).unwrap().matches("BEGIN CERTIFICATE").count(), 2);
        let alone = Route {
            proxy_url: None,
            ..route.clone()
        };
        assert!(
            alone
                .apply(&kubeconfig())
                .await
                .unwrap_err()
                .to_string()
                .contains("--proxy-url")
        );
        std::fs::write(&path, "none").unwrap();
        assert!(route.apply(&kubeconfig()).await.is_err());
    }

    #[test]
    fn a_proxy_is_an_http_url() {
        assert!(parse_proxy("http://10.0.0.1:3128").is_ok());
        for text in ["10.0.0.1:3128", "ftp://a", "http://", "x"] {
            assert!(parse_proxy(text).is_err(), "{text}");
        }
    }
}
