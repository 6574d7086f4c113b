//! What cluster-proxy is on the hub: answers about one cluster at a time.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use ocm_addon_sdk::{
    AddOn, AddOnContext, AgentSubject, ConfigKind, Permission, Registration, Signing, UserError,
    hub::Trigger,
    k8s_openapi::api::certificates::v1::CertificateSigningRequest,
    ocm_api::{
        addon::v1alpha1::AddOnDeploymentConfig,
        proxy::{ManagedProxyConfiguration, ProxyEntryPointType},
    },
    values::{config, images},
};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{
    CONFIGURATION, HubOptions, LIFETIME, NAMESPACE, SERVICE_PROXY_SECRET, agent_manifests, identities,
    inputs::AgentInputs, inputs::KnownInputs,
};
use crate::NAME;

/// The signer of the tunnel's agents.
pub const SIGNER: &str = "open-cluster-management.io/proxy-agent-signer";

/// Where a ManagedClusterAddOn puts an agent when nobody says another.
const DEFAULT_INSTALL_NAMESPACE: &str = "open-cluster-management-agent-addon";

/// What an agent is rendered with, whatever its cluster.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// The image of addon-agent and service-proxy, where it is not that of the configuration.
    pub image: Option<String>,
    /// Whether the tunnel leads to the API server without a service-proxy, too.
    pub kube_api_proxy: bool,
    /// Whether there is a service-proxy.
    pub service_proxy: bool,
    /// Whether there is a NetworkPolicy.
    pub network_policies: bool,
    /// The namespace of agents, where nobody says another.
    pub namespace: String,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            image: None,
            kube_api_proxy: true,
            service_proxy: true,
            network_policies: false,
            namespace: NAMESPACE.to_owned(),
        }
    }
}

/// The add-on.
pub struct ClusterProxy {
    /// Where the authority is.
    pub hub: Arc<HubOptions>,
    /// How agents are rendered.
    pub agents: AgentOptions,
    /// From what.
    pub inputs: AgentInputs,
}

impl ClusterProxy {
    fn known(&self) -> Result<KnownInputs, UserError> {
        let known = self.inputs.known();
        if known.authority.is_empty() {
            return Err(UserError::new(format!(
                "Secret {}/{}, the authority of the tunnel, is not there yet; it is made for ManagedProxyConfiguration {CONFIGURATION}",
                self.hub.signer_namespace, self.hub.signer_name
            )));
        }
        Ok(known)
    }
}

impl AddOn for ClusterProxy {
    fn name(&self) -> &str {
        NAME
    }

    fn manifests(&self, place: &AddOnContext) -> Result<Vec<Value>, UserError> {
        let known = self.known()?;
        let chosen = place.config::<ManagedProxyConfiguration>()?.map(Arc::new);
        let configuration = chosen
            .or(known.configuration.clone())
            .ok_or_else(|| UserError::new(format!("there is no ManagedProxyConfiguration {CONFIGURATION}")))?;
        let service_proxy = match (self.agents.service_proxy, known.service_proxy.clone()) {
            (false, _) => None,
            (true, Some(pair)) => Some(pair),
            (true, None) => {
                return Err(UserError::new(format!(
                    "failed to get secret {SERVICE_PROXY_SECRET} in the namespace {}: it is written by `cluster-proxy controllers`",
                    self.hub.signer_namespace
                )));
            }
        };
        let config = config::of(place)?;
        let registries = images::registries(&config, &place.cluster)?;
        let agent_image = &configuration.spec.proxy_agent.image;
        agent_manifests::all(&agent_manifests::RenderedAgent {
            place,
            config: &config,
            configuration: &configuration,
            options: &self.agents,
            entry_point: entry_point(&configuration, &known)?,
            authority: &known.authority,
            service_proxy,
            tunnel_image: images::overridden(&registries, agent_image),
            image: images::overridden(&registries, self.agents.image.as_ref().unwrap_or(agent_image)),
        })
    }

    fn registrations(&self, _: &AddOnContext) -> Result<Vec<Registration>, UserError> {
        let known = self.known()?;
        let subject = |user: &str, units| AgentSubject {
            user: user.to_owned(),
            groups: vec![identities::GROUP.to_owned()],
            organizational_units: units,
        };
        let signing = Signing::with_secret(&self.hub.signer_name)
            .in_namespace(&self.hub.signer_namespace)
            .living(LIFETIME);
        Ok(vec![
            Registration::kube_client().for_subject(subject(identities::ADDON_AGENT, Vec::new())),
            Registration::custom_signer(SIGNER)
                .for_subject(subject(identities::PROXY_AGENT, vec![unit(&known.authority)]))
                .signed_by(signing),
        ])
    }

    fn hub_permissions(&self, _: &AddOnContext) -> Result<Vec<Permission>, UserError> {
        let leases = Permission::rule("coordination.k8s.io", &["leases"], &["*"]);
        let reviews = Permission::rule("authentication.k8s.io", &["tokenreviews"], &["create"]);
        Ok(vec![
            Permission::role("cluster-proxy-addon-agent", vec![leases]),
            Permission::role("cluster-proxy-addon-agent-tokenreview", vec![reviews]).on_the_whole_hub(),
        ])
    }

    fn approves(&self, place: &AddOnContext, _: &CertificateSigningRequest) -> bool {
        place.cluster.spec.hub_accepts_client
    }

    fn supported_configs(&self) -> Vec<ConfigKind> {
        vec![
            ConfigKind::of::<ManagedProxyConfiguration>(),
            ConfigKind::of::<AddOnDeploymentConfig>(),
        ]
    }

    fn install_namespace(&self, place: &AddOnContext) -> Result<Option<String>, UserError> {
        if let Some(configured) = config::install_namespace(place)? {
            return Ok(Some(configured));
        }
        let said = Some(&place.install_namespace).filter(|it| !it.is_empty() && **it != DEFAULT_INSTALL_NAMESPACE);
        Ok(Some(said.unwrap_or(&self.agents.namespace).clone()))
    }

    fn waits_for_configuration(&self) -> bool {
        true
    }

    fn follow(&self, trigger: Trigger) {
        self.inputs.follow(trigger);
    }
}

/// A change of the authority changes it, so that agents ask for another certificate.
pub fn unit(authority_pem: &[u8]) -> String {
    let digest = BASE64_STANDARD.encode(Sha256::digest(authority_pem));
    let hex: String = digest.bytes().map(|it| format!("{it:02x}")).collect();
    format!("signer-{hex}")
}

/// Where agents find the proxy servers.
fn entry_point(configuration: &ManagedProxyConfiguration, known: &KnownInputs) -> Result<String, UserError> {
    let server = &configuration.spec.proxy_server;
    let Some(entry) = &server.entrypoint else {
        return Ok("127.0.0.1".to_owned());
    };
    match entry.kind {
        ProxyEntryPointType::PortForward => Ok("127.0.0.1".to_owned()),
        ProxyEntryPointType::Hostname => {
            let host = entry.hostname.as_ref().map(|it| it.value.clone());
            host.filter(|it| !it.is_empty()).ok_or_else(|| {
                UserError::new(format!(
                    "ManagedProxyConfiguration {CONFIGURATION}: spec.proxyServer.entrypoint.hostname.value is missing, which type Hostname needs"
                ))
            })
        }
        ProxyEntryPointType::LoadBalancerService => known
            .load_balancer
            .clone()
            .ok_or_else(|| UserError::new("the load-balancer service for proxy-server ingress is not yet provisioned")),
    }
}
