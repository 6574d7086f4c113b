//! Where the user-server is, and whom it is trusted by.

use anyhow::{Result, bail};
use client::connect::ApiServer;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use ocm_api::proxy::{ManagedProxyConfiguration, annotations::USER_SERVER_URL};

use super::{NAME, forward::LocalPort};

/// The Secret with its certificate.
const SECRET: &str = "cluster-proxy-user-serving-cert";
/// The labels of its pods, and its port.
const PODS: &str = "component=cluster-proxy-addon-user";
const PORT: u16 = 9092;

/// The user-server.
pub struct UserServerAddress {
    /// An https URL without a slash at its end.
    pub url: String,
    /// The authority of its certificate, PEM.
    pub ca: String,
    /// The way to it, if that ends with this process.
    pub forwarded: Option<LocalPort>,
}

/// Finds the user-server: where `said` says, where its ManagedProxyConfiguration says, or in a pod of the hub, to which
/// a port of this machine leads then.
pub async fn find(hub: &ApiServer, said: Option<&str>) -> Result<UserServerAddress> {
    let configurations: Api<ManagedProxyConfiguration> = Api::all(hub.client.clone());
    let configuration = configurations.get_opt(NAME).await;
    let configuration = configuration.map_err(|error| hub.explain("could not read the configuration", &error))?;
    let Some(configuration) = configuration else {
        bail!("the hub has no ManagedProxyConfiguration {NAME}");
    };
    let namespace = &configuration.spec.proxy_server.namespace;
    let secrets: Api<Secret> = Api::namespaced(hub.client.clone(), namespace);
    let secret = secrets.get_opt(SECRET).await;
    let secret = secret.map_err(|error| hub.explain("could not read the user-server's certificate", &error))?;
    let ca = secret.and_then(|it| it.data?.remove("ca.crt"));
    let Some(ca) = ca.and_then(|it| String::from_utf8(it.0).ok()) else {
        bail!(
            "Secret {namespace}/{SECRET} has no ca.crt; the hub has a user-server only where ManagedProxyConfiguration \
             {NAME} has spec.userServer"
        );
    };
    let annotations = configuration.metadata.annotations.unwrap_or_default();
    if let Some(url) = said.or(annotations.get(USER_SERVER_URL).map(String::as_str)) {
        let url = url.trim_end_matches('/').to_owned();
        return Ok(UserServerAddress {
            url,
            ca,
            forwarded: None,
        });
    }
    let port = LocalPort::open(&hub.upgrading_client()?, namespace, PODS, PORT).await?;
    Ok(UserServerAddress {
        url: format!("https://{}", port.address),
        ca,
        forwarded: Some(port),
    })
}
