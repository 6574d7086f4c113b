//! Keeps the certificate that all service-proxies show.
//!
//! Root: the Secret of the authority. Reads: the Secret with the certificate. Writes: it. Never: the authority.
//! Upstream: cluster-proxy `pkg/controllers/certcontroller.go`.

use std::sync::Arc;

use jiff::Timestamp;
use ocm_addon_sdk::{
    hub::{
        authority::{Authority, LeafUsage},
        renewal,
    },
    k8s_openapi::api::core::v1::Secret,
    kube::{Client, core::PartialObjectMeta, runtime::watcher},
    ocm_api::proxy::ManagedProxyConfiguration,
    reconcile::{Cache, Caches, ObserveError, Plan, Reconciler, Watches, async_trait, cache::Watching, rbac::Right},
};

use super::{
    CONFIGURATION, HubOptions, LOOK_AT_CLOCK, SERVICE_PROXY_SECRET,
    certificates::{self, DueSecret, WantedSecret},
    leaf, read, value,
};

/// Names in the certificate: it is one for all clusters.
const NAMES: [&str; 4] = ["*", "localhost", "127.0.0.1", "*.open-cluster-management.proxy"];

/// The reconciler.
pub struct ServiceProxyCertificate {
    signers: Cache<PartialObjectMeta<Secret>>,
    secrets: Cache<PartialObjectMeta<Secret>>,
    configurations: Cache<ManagedProxyConfiguration>,
    client: Option<Client>,
    options: Arc<HubOptions>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// A certificate that is due.
    pub due: Option<DueSecret>,
    /// When the next one is.
    pub next: Option<Timestamp>,
    /// What is missing.
    pub waits: Option<String>,
}

impl ServiceProxyCertificate {
    /// Over these caches.
    pub fn new(caches: &Caches, options: Arc<HubOptions>) -> Self {
        let named = |name: &str| Watching {
            selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
            ..Watching::default()
        };
        Self {
            signers: caches.in_namespace(&options.signer_namespace, named(&options.signer_name)),
            secrets: caches.in_namespace(&options.certificates_namespace, named(SERVICE_PROXY_SECRET)),
            configurations: caches.of(),
            client: caches.client().cloned(),
            options,
        }
    }
}

#[async_trait]
impl Reconciler for ServiceProxyCertificate {
    const NAME: &'static str = "cluster-proxy-service-proxy-certificate";
    const RIGHTS: &'static [Right] = &[Right::new(
        "",
        "secrets",
        "get create update",
        "The certificate of service-proxies is kept.",
    )];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let HubOptions {
            signer_namespace,
            signer_name,
            ..
        } = &*self.options;
        let key = format!("{signer_namespace}/{signer_name}");
        let of_configuration = key.clone();
        watches
            .root(&self.signers)
            .wakes(&self.secrets, move |_, _| Some(key.clone()))
            // Whose owner it has.
            .wakes(&self.configurations, move |_, _| Some(of_configuration.clone()));
    }

    async fn observe(&self, _: &str) -> Result<Seen, ObserveError> {
        let mut seen = Seen {
            now: Timestamp::now(),
            due: None,
            next: None,
            waits: None,
        };
        let HubOptions {
            signer_namespace,
            signer_name,
            certificates_namespace,
            ..
        } = &*self.options;
        let client = self.client.as_ref();
        let Some(configuration) = self.configurations.get("", CONFIGURATION) else {
            seen.waits = Some(format!("there is no ManagedProxyConfiguration {CONFIGURATION}"));
            return Ok(seen);
        };
        let Some(signer) = read::<Secret>(client, signer_namespace, signer_name).await? else {
            seen.waits = Some(format!("there is no Secret {signer_namespace}/{signer_name}"));
            return Ok(seen);
        };
        let authority = Authority::read(value(&signer, "ca.crt"), value(&signer, "ca.key"))?;
        let wanted = WantedSecret {
            namespace: certificates_namespace.clone(),
            name: SERVICE_PROXY_SECRET.to_owned(),
            leaf: leaf("service-proxy", NAMES.map(str::to_owned).to_vec(), LeafUsage::Server),
        };
        let present = read::<Secret>(client, &wanted.namespace, &wanted.name).await?;
        match certificates::due(present, &wanted, &authority, &signer, &configuration, seen.now)? {
            Ok(due) => seen.due = Some(due),
            Err(at) => seen.next = Some(at),
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        if let Some(why) = &seen.waits {
            plan.wait(why.clone());
        }
        if let Some(due) = &seen.due {
            plan.remark(due.why);
            certificates::write(&mut plan, due);
        }
        if let Some(next) = seen.next {
            plan.look_again(renewal::until(next, seen.now).min(LOOK_AT_CLOCK));
        }
        plan
    }
}
