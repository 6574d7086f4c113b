//! The hub's half: certificates, the proxy servers, what clusters get, and ways to clusters in ClusterProfiles.

pub mod access_providers;
pub mod add_on;
pub mod agent_manifests;
pub mod certificates;
pub mod inputs;
pub mod proxy_server;
pub mod resources;
pub mod service_proxy_certificate;

use std::{sync::Arc, time::Duration};

use ocm_addon_sdk::{
    hub::authority::{Leaf, LeafUsage},
    k8s_openapi::{
        ByteString,
        api::core::v1::Secret,
        apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
    },
    kube::{self, Api, Client, Resource},
    ocm_api::proxy::ManagedProxyConfiguration,
    reconcile::{Caches, Controller, ObserveError},
};
use serde::de::DeserializeOwned;

use crate::tls_profile::ServingProfile;

/// The one ManagedProxyConfiguration that agents are rendered from.
pub const CONFIGURATION: &str = "cluster-proxy";
/// The namespace of everything, on the hub and on clusters, where nobody says another.
pub const NAMESPACE: &str = "open-cluster-management-cluster-proxy";
/// The Secret of the authority.
pub const SIGNER: &str = "cluster-proxy-signer";
/// The Secret with the certificate of the user-server.
pub const USER_SERVER_SECRET: &str = "cluster-proxy-user-serving-cert";
/// The Secret with the certificate of all service-proxies.
pub const SERVICE_PROXY_SECRET: &str = "cluster-proxy-service-proxy-server-cert";
/// The Service and the Deployment of the user-server.
pub const USER_SERVER: &str = "cluster-proxy-addon-user";
/// Whom a certificate names.
pub mod identities {
    /// The authority.
    pub const AUTHORITY: &str = "open-cluster-management:cluster-proxy";
    /// The group of all agents.
    pub const GROUP: &str = "open-cluster-management:cluster-proxy";
    /// An agent of the tunnel.
    pub const PROXY_AGENT: &str = "open-cluster-management:cluster-proxy:proxy-agent";
    /// An agent at the hub's API server.
    pub const ADDON_AGENT: &str = "open-cluster-management:cluster-proxy:addon-agent";
    /// What a proxy server shows to clients.
    pub const PROXY_SERVER: &str = "open-cluster-management:cluster-proxy:proxy-server";
    /// What a proxy server shows to agents.
    pub const AGENT_SERVER: &str = "open-cluster-management:cluster-proxy:agent-server";
    /// A client of the proxy servers.
    pub const PROXY_CLIENT: &str = "open-cluster-management:cluster-proxy:proxy-client";
}

/// How long certificates live.
pub const LIFETIME: Duration = Duration::from_secs(180 * 24 * 3600);
/// How long the authority lives, as client-go makes one.
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// A wait for months is one until somebody looks at the clock.
const LOOK_AT_CLOCK: Duration = Duration::from_secs(24 * 3600);

/// What the hub's half is told.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// The namespace of the authority's Secret, where the manager looks for the certificate of service-proxies, too.
    pub signer_namespace: String,
    /// The name of the authority's Secret.
    pub signer_name: String,
    /// The namespace that the certificate of service-proxies is written to.
    pub certificates_namespace: String,
    /// The namespace of the proxy servers whose Secrets are watched: that of the ManagedProxyConfiguration.
    pub namespace: String,
    /// Of the proxy servers' containers.
    pub image_pull_policy: String,
    /// What servers accept.
    pub tls: ServingProfile,
    /// Whether proxy servers are deployed; otherwise they are in a process that is there already.
    pub deploys_servers: bool,
}

impl Default for HubOptions {
    fn default() -> Self {
        Self {
            signer_namespace: "default".to_owned(),
            signer_name: SIGNER.to_owned(),
            certificates_namespace: "default".to_owned(),
            namespace: NAMESPACE.to_owned(),
            image_pull_policy: "IfNotPresent".to_owned(),
            tls: ServingProfile::default(),
            deploys_servers: true,
        }
    }
}

/// The reconcilers of the manager.
pub fn controllers(caches: &Caches, options: &Arc<HubOptions>) -> Vec<Controller> {
    vec![
        Controller::new(certificates::Certificates::new(caches, options.clone())),
        Controller::new(proxy_server::ProxyServers::new(caches, options.clone())),
    ]
}

/// The reconciler that feeds the add-on.
pub fn of_inputs(caches: &Caches, options: &Arc<HubOptions>, inputs: &inputs::AgentInputs) -> Controller {
    Controller::new(inputs::InputsReader::new(caches, options.clone(), inputs.clone()))
}

/// The reconciler of the gate ClusterProfile.
pub fn of_cluster_profiles(caches: &Caches, options: &Arc<HubOptions>) -> Controller {
    Controller::new(access_providers::AccessProviders::new(caches, options.clone()))
}

/// The reconciler of the sub-command `controllers`.
pub fn of_service_proxies(caches: &Caches, options: &Arc<HubOptions>) -> Controller {
    Controller::new(service_proxy_certificate::ServiceProxyCertificate::new(
        caches,
        options.clone(),
    ))
}

/// Everything belongs to its configuration and goes with it.
fn owner(configuration: &ManagedProxyConfiguration) -> OwnerReference {
    OwnerReference {
        api_version: ManagedProxyConfiguration::api_version(&()).into_owned(),
        kind: ManagedProxyConfiguration::KIND.to_owned(),
        name: configuration.metadata.name.clone().unwrap_or_default(),
        uid: configuration.metadata.uid.clone().unwrap_or_default(),
        block_owner_deletion: Some(true),
        controller: None,
    }
}

fn owned(configuration: &ManagedProxyConfiguration, namespace: &str, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        owner_references: Some(vec![owner(configuration)]),
        ..ObjectMeta::default()
    }
}

fn leaf(common_name: &str, names: Vec<String>, usage: LeafUsage) -> Leaf {
    Leaf {
        common_name: common_name.to_owned(),
        names,
        usage,
    }
}

/// A value of a Secret.
fn value<'a>(secret: &'a Secret, key: &str) -> &'a [u8] {
    let data = secret.data.as_ref().and_then(|it| it.get(key));
    data.map(|it| it.0.as_slice()).unwrap_or_default()
}

fn bytes(text: impl Into<Vec<u8>>) -> ByteString {
    ByteString(text.into())
}

/// Reads an object that is not worth a cache.
async fn read<K>(client: Option<&Client>, namespace: &str, name: &str) -> Result<Option<K>, ObserveError>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let client = client.ok_or("there is no client of the hub")?.clone();
    let found = Api::<K>::namespaced(client, namespace).get_opt(name).await;
    found.map_err(|error| format!("could not read {} {namespace}/{name}: {error}", K::kind(&())).into())
}
