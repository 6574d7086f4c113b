//! What agents are rendered from besides their configuration: the authority, the certificate of service-proxies, and
//! the address of a load balancer.
//!
//! Root: ManagedProxyConfiguration `cluster-proxy`. Reads: the Secrets and the Service. Writes: nothing; has the add-on
//! asked anew on every cluster when something differs.

use std::sync::Arc;

use ocm_addon_sdk::{
    hub::Trigger,
    k8s_openapi::api::core::v1::{Secret, Service},
    kube::{Client, ResourceExt, core::PartialObjectMeta},
    ocm_api::proxy::ManagedProxyConfiguration,
    reconcile::{Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Watches, async_trait, cache::Watching},
};
use parking_lot::RwLock;

use super::{CONFIGURATION, HubOptions, SERVICE_PROXY_SECRET, certificates, read, value};

/// What is known. Cloning shares it.
#[derive(Clone, Default)]
pub struct AgentInputs {
    known: Arc<RwLock<KnownInputs>>,
    trigger: Arc<RwLock<Option<Trigger>>>,
}

/// What agents are rendered from.
#[derive(Clone, Default, PartialEq)]
pub struct KnownInputs {
    /// The configuration named `cluster-proxy`.
    pub configuration: Option<Arc<ManagedProxyConfiguration>>,
    /// The authority, PEM; empty while there is none.
    pub authority: Vec<u8>,
    /// The certificate of service-proxies and its key, PEM.
    pub service_proxy: Option<(Vec<u8>, Vec<u8>)>,
    /// The address of the load balancer.
    pub load_balancer: Option<String>,
}

impl AgentInputs {
    /// What is known now.
    pub fn known(&self) -> KnownInputs {
        self.known.read().clone()
    }

    /// From now on the add-on is asked anew when something differs.
    pub fn follow(&self, trigger: Trigger) {
        *self.trigger.write() = Some(trigger);
    }

    /// Takes in what there is now.
    pub fn set(&self, now: KnownInputs) {
        if *self.known.read() == now {
            return;
        }
        *self.known.write() = now;
        if let Some(trigger) = &*self.trigger.read() {
            trigger.everywhere();
        }
    }
}

/// The reconciler.
pub struct InputsReader {
    configurations: Cache<ManagedProxyConfiguration>,
    secrets: Cache<PartialObjectMeta<Secret>>,
    services: Cache<Service>,
    client: Option<Client>,
    options: Arc<HubOptions>,
    inputs: AgentInputs,
}

impl InputsReader {
    /// Over these caches, into `inputs`.
    pub fn new(caches: &Caches, options: Arc<HubOptions>, inputs: AgentInputs) -> Self {
        Self {
            configurations: caches.of(),
            secrets: caches.in_namespace(&options.signer_namespace, Watching::default()),
            services: caches.in_namespace(&options.namespace, Watching::default()),
            client: caches.client().cloned(),
            options,
            inputs,
        }
    }
}

#[async_trait]
impl Reconciler for InputsReader {
    const NAME: &'static str = "cluster-proxy-agent-inputs";
    type Seen = KnownInputs;

    fn watches(&self, watches: &mut Watches) {
        let signer = self.options.signer_name.clone();
        watches
            .root(&self.configurations)
            .wakes(&self.secrets, move |old, new| {
                let name = old.or(new).map(|it| it.name_any()).unwrap_or_default();
                (name == signer || name == SERVICE_PROXY_SECRET).then(|| CONFIGURATION.to_owned())
            })
            .wakes(&self.services, |_, _| Some(CONFIGURATION.to_owned()));
    }

    async fn observe(&self, name: &str) -> Result<KnownInputs, ObserveError> {
        if name != CONFIGURATION {
            return Ok(self.inputs.known());
        }
        let Some(configuration) = self.configurations.get("", name) else {
            return Ok(KnownInputs::default());
        };
        let HubOptions {
            signer_namespace,
            signer_name,
            ..
        } = &*self.options;
        let client = self.client.as_ref();
        let signer = read::<Secret>(client, signer_namespace, signer_name).await?;
        let of_proxies = read::<Secret>(client, signer_namespace, SERVICE_PROXY_SECRET).await?;
        let pair = of_proxies.map(|it| (value(&it, "tls.crt").to_vec(), value(&it, "tls.key").to_vec()));
        let mut load_balancer = None;
        if let Some(wanted) = certificates::load_balancer(&configuration) {
            let namespace = &configuration.spec.proxy_server.namespace;
            let service = read::<Service>(client, namespace, &wanted.name_any()).await?;
            load_balancer = certificates::entry_address(service.as_ref());
        }
        Ok(KnownInputs {
            authority: signer.map(|it| value(&it, "ca.crt").to_vec()).unwrap_or_default(),
            service_proxy: pair.filter(|(certificate, key)| !certificate.is_empty() && !key.is_empty()),
            load_balancer,
            configuration: Some(configuration),
        })
    }

    fn plan(_: &KnownInputs) -> Plan {
        Plan::new()
    }

    fn remember(&self, seen: &KnownInputs, _: &Outcome) {
        self.inputs.set(seen.clone());
    }
}
