//! Keeps the authority and the certificates of the proxy servers and of the user-server.
//!
//! Root: ManagedProxyConfiguration. Reads: the Secrets that it names, the authority, the Service of the entry point.
//! Writes: the namespace and the authority where there is none, the Service of a load balancer once, Secrets with
//! certificates. Never: an authority that is there. Upstream: cluster-proxy
//! `pkg/proxyserver/controllers/managedproxyconfiguration_controller.go`.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use ocm_addon_sdk::{
    hub::{
        authority::{Authority, Leaf, LeafUsage},
        renewal,
    },
    k8s_openapi::api::core::v1::{Namespace, Secret, Service, ServicePort, ServiceSpec},
    kube::{Api, Client, ResourceExt, core::PartialObjectMeta},
    ocm_api::proxy::{ManagedProxyConfiguration, ProxyEntryPointType},
    reconcile::{
        Cache, Caches, ObserveError, Plan, Reconciler, Site, Step, Target, Watches, async_trait, cache::Watching,
        plan::typed, rbac::Right,
    },
};

use super::{
    AUTHORITY_LIFETIME, HubOptions, LIFETIME, LOOK_AT_CLOCK, USER_SERVER, USER_SERVER_SECRET, bytes, identities, leaf,
    owned, read, value,
};

/// The reconciler.
pub struct Certificates {
    configurations: Cache<ManagedProxyConfiguration>,
    secrets: Cache<PartialObjectMeta<Secret>>,
    signers: Cache<PartialObjectMeta<Secret>>,
    services: Cache<Service>,
    client: Option<Client>,
    options: Arc<HubOptions>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The object; `None` when it is gone.
    pub configuration: Option<Arc<ManagedProxyConfiguration>>,
    /// Whether the namespace of the proxy servers is there.
    pub has_namespace: bool,
    /// The Service of a load balancer.
    pub entry: Option<Service>,
    /// An authority that is to be written, because there is none.
    pub new_authority: Option<Secret>,
    /// Certificates that are due, and why.
    pub due: Vec<DueSecret>,
    /// When the next one is.
    pub next: Option<Timestamp>,
    /// What is wrong with the authority.
    pub broken: Option<String>,
}

/// A Secret that is to be written.
pub struct DueSecret {
    /// What is there.
    pub present: Option<Secret>,
    /// What is to be there.
    pub wanted: Secret,
    /// Why.
    pub why: &'static str,
}

/// A certificate that has to be there.
pub struct WantedSecret {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// What it is for.
    pub leaf: Leaf,
}

impl Certificates {
    /// Over these caches.
    pub fn new(caches: &Caches, options: Arc<HubOptions>) -> Self {
        Self {
            configurations: caches.of(),
            secrets: caches.in_namespace(&options.namespace, Watching::default()),
            signers: caches.in_namespace(&options.signer_namespace, Watching::default()),
            services: caches.in_namespace(&options.namespace, Watching::default()),
            client: caches.client().cloned(),
            options,
        }
    }
}

#[async_trait]
impl Reconciler for Certificates {
    const NAME: &'static str = "cluster-proxy-certificates";
    const RIGHTS: &'static [Right] = &[
        Right::new(
            "",
            "secrets",
            "get create update",
            "The authority and the certificates are kept.",
        ),
        Right::new("", "services", "get create", "A load balancer is made once."),
        Right::new("", "namespaces", "get create", "The proxy servers have a namespace."),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let (all, signer) = (self.configurations.clone(), self.options.signer_name.clone());
        let every = move || all.list().iter().map(|it| it.name_any()).collect::<Vec<_>>();
        let of_service = every.clone();
        watches
            .root(&self.configurations)
            .wakes(&self.secrets, |old, new| {
                let owners = old.or(new).map(|it| it.owner_references().to_vec());
                owners
                    .into_iter()
                    .flatten()
                    .filter_map(|it| (it.kind == ManagedProxyConfiguration::KIND).then_some(it.name))
            })
            .wakes(&self.signers, move |old, new| {
                let is_it = old.or(new).is_some_and(|it| it.name_any() == signer);
                if is_it { every() } else { Vec::new() }
            })
            .wakes(&self.services, move |_, _| of_service());
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let mut seen = Seen {
            now: Timestamp::now(),
            configuration: self.configurations.get("", name),
            has_namespace: true,
            entry: None,
            new_authority: None,
            due: Vec::new(),
            next: None,
            broken: None,
        };
        let Some(configuration) = seen.configuration.clone() else {
            return Ok(seen);
        };
        let client = self.client.as_ref();
        let namespace = &configuration.spec.proxy_server.namespace;
        seen.has_namespace = self.has_namespace(namespace).await?;
        if let Some(wanted) = load_balancer(&configuration) {
            seen.entry = read(client, namespace, &wanted.name_any()).await?;
        }
        let HubOptions {
            signer_namespace,
            signer_name,
            ..
        } = &*self.options;
        let Some(signer) = read::<Secret>(client, signer_namespace, signer_name).await? else {
            seen.new_authority = Some(new_authority(&configuration, &self.options, seen.now)?);
            return Ok(seen);
        };
        let authority = match Authority::read(value(&signer, "ca.crt"), value(&signer, "ca.key")) {
            Ok(authority) => authority,
            Err(error) => {
                let why = format!("Secret {signer_namespace}/{signer_name} is no authority: {error}");
                seen.broken = Some(why);
                return Ok(seen);
            }
        };
        for wanted in wanted(&configuration, seen.entry.as_ref()) {
            let present = read::<Secret>(client, &wanted.namespace, &wanted.name).await?;
            match due(present, &wanted, &authority, &signer, &configuration, seen.now)? {
                Ok(due) => seen.due.push(due),
                Err(at) => seen.next = Some(seen.next.map_or(at, |before| before.min(at))),
            }
        }
        Ok(seen)
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(configuration) = seen.configuration.as_deref() else {
            return plan;
        };
        if configuration.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        if !seen.has_namespace {
            let mut namespace = Namespace::default();
            namespace.metadata.name = Some(configuration.spec.proxy_server.namespace.clone());
            plan.create(Site::Hub, &namespace);
            plan.stage();
        }
        if let (Some(wanted), None) = (load_balancer(configuration), &seen.entry) {
            plan.create(Site::Hub, &wanted);
        }
        if let Some(why) = &seen.broken {
            plan.refuse(why.clone());
        }
        if let Some(authority) = &seen.new_authority {
            plan.create(Site::Hub, authority);
        }
        if waits_for_address(configuration, seen.entry.as_ref()) {
            plan.wait("external ip not yet provisioned");
            return plan;
        }
        for due in &seen.due {
            plan.remark(format!("Secret {}: {}", due.wanted.name_any(), due.why));
            write(&mut plan, due);
        }
        if let Some(next) = seen.next {
            plan.look_again(renewal::until(next, seen.now).min(LOOK_AT_CLOCK));
        }
        plan
    }
}

impl Certificates {
    async fn has_namespace(&self, name: &str) -> Result<bool, ObserveError> {
        let client = self.client.clone().ok_or("there is no client of the hub")?;
        let found = Api::<Namespace>::all(client).get_opt(name).await?;
        Ok(found.is_some())
    }
}

/// The address of a load balancer is a name in the certificates.
fn waits_for_address(configuration: &ManagedProxyConfiguration, entry: Option<&Service>) -> bool {
    load_balancer(configuration).is_some() && entry_address(entry).is_none()
}

/// The first address that a load balancer has been given.
pub fn entry_address(service: Option<&Service>) -> Option<String> {
    let status = service?.status.as_ref()?.load_balancer.as_ref()?;
    status.ingress.as_ref()?.first()?.ip.clone().filter(|it| !it.is_empty())
}

/// The Service of an entry point of type LoadBalancerService.
pub fn load_balancer(configuration: &ManagedProxyConfiguration) -> Option<Service> {
    let server = &configuration.spec.proxy_server;
    let entry = server.entrypoint.as_ref()?;
    if entry.kind != ProxyEntryPointType::LoadBalancerService {
        return None;
    }
    let said = entry.load_balancer_service.clone().unwrap_or_default();
    let port = |name: &str, port| ServicePort {
        name: Some(name.to_owned()),
        port,
        ..ServicePort::default()
    };
    let mut service = Service {
        metadata: owned(configuration, &server.namespace, &said.name),
        spec: Some(ServiceSpec {
            selector: Some(super::resources::selector()),
            type_: Some("LoadBalancer".to_owned()),
            ports: Some(vec![port("proxy-server", 8090), port("agent-server", 8091)]),
            ..ServiceSpec::default()
        }),
        status: None,
    };
    service.metadata.annotations = Some(said.annotations()).filter(|it| !it.is_empty());
    Some(service)
}

/// The certificates that a configuration asks for.
pub fn wanted(configuration: &ManagedProxyConfiguration, entry: Option<&Service>) -> Vec<WantedSecret> {
    let spec = &configuration.spec;
    let server = &spec.proxy_server;
    let namespace = &server.namespace;
    let own = spec.authentication.signer.self_signed.as_ref();
    let mut names: Vec<String> = own.map(|it| it.additional_sans.clone()).unwrap_or_default();
    let service = &server.in_cluster_service_name;
    names.extend(["127.0.0.1".to_owned(), "localhost".to_owned()]);
    names.extend([format!("{service}.{namespace}"), format!("{service}.{namespace}.svc")]);
    if let Some(entry) = &server.entrypoint
        && entry.kind == ProxyEntryPointType::Hostname
    {
        names.extend(entry.hostname.as_ref().map(|it| it.value.clone()));
    }
    names.extend(entry_address(entry).filter(|_| load_balancer(configuration).is_some()));
    let secrets = &spec.authentication.dump.secrets;
    let of_servers = [
        (
            &secrets.signing_proxy_server_secret_name,
            identities::PROXY_SERVER,
            LeafUsage::Server,
        ),
        (
            &secrets.signing_agent_server_secret_name,
            identities::AGENT_SERVER,
            LeafUsage::Server,
        ),
        (
            &secrets.signing_proxy_client_secret_name,
            identities::PROXY_CLIENT,
            LeafUsage::Client,
        ),
    ];
    let secret = |name: &str, leaf| WantedSecret {
        namespace: namespace.clone(),
        name: name.to_owned(),
        leaf,
    };
    let mut all: Vec<WantedSecret> = of_servers
        .into_iter()
        .map(|(name, identity, usage)| secret(name, leaf(identity, names.clone(), usage)))
        .collect();
    if let Some(users) = &spec.user_server {
        let mut names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let domains = ["", ".svc", ".svc.cluster.local"].map(|it| format!("{USER_SERVER}.{namespace}{it}"));
        names.push(USER_SERVER.to_owned());
        names.extend(domains);
        names.extend(users.additional_sans.iter().cloned());
        all.push(secret(USER_SERVER_SECRET, leaf(USER_SERVER, names, LeafUsage::Server)));
    }
    all
}

/// A certificate that is due, or when it will be.
///
/// # Errors
/// When the authority does not sign.
pub fn due(
    present: Option<Secret>,
    wanted: &WantedSecret,
    authority: &Authority,
    signer: &Secret,
    configuration: &ManagedProxyConfiguration,
    now: Timestamp,
) -> Result<Result<DueSecret, Timestamp>, ObserveError> {
    let authority_pem = value(signer, "ca.crt");
    let judged = match &present {
        None => Err("there is none"),
        Some(it) if value(it, "ca.crt") != authority_pem => Err("the authority has changed"),
        Some(it) if value(it, "tls.key").is_empty() => Err("the key is missing"),
        Some(it) => renewal::renewal(value(it, "tls.crt"), authority_pem, &wanted.leaf, now),
    };
    let why = match judged {
        Ok(at) => return Ok(Err(at)),
        Err(why) => why,
    };
    let issued = authority.issue(&wanted.leaf, LIFETIME, now)?;
    // As library-go writes it: the authority follows.
    let mut chain = issued.certificate_pem.into_bytes();
    chain.extend_from_slice(authority_pem);
    let secret = Secret {
        metadata: owned(configuration, &wanted.namespace, &wanted.name),
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(BTreeMap::from([
            ("tls.crt".to_owned(), bytes(chain)),
            ("tls.key".to_owned(), bytes(issued.key_pem)),
            ("ca.crt".to_owned(), bytes(authority_pem)),
        ])),
        ..Secret::default()
    };
    Ok(Ok(DueSecret {
        present,
        wanted: secret,
        why,
    }))
}

/// Writes a Secret; one that is there keeps its type and what else it says.
pub fn write(plan: &mut Plan, due: &DueSecret) {
    let Some(present) = &due.present else {
        plan.create(Site::Hub, &due.wanted);
        return;
    };
    let mut new = present.clone();
    new.data
        .get_or_insert_default()
        .extend(due.wanted.data.clone().unwrap_or_default());
    let owners = new.metadata.owner_references.get_or_insert_default();
    for owner in due.wanted.owner_references() {
        if !owners.iter().any(|it| it.uid == owner.uid) {
            owners.push(owner.clone());
        }
    }
    let target = Target::of(Site::Hub, &new);
    let object = typed(&new, &target.api_resource);
    plan.push(Step::Replace {
        target,
        subresource: None,
        object,
    });
}

fn new_authority(
    configuration: &ManagedProxyConfiguration,
    options: &HubOptions,
    now: Timestamp,
) -> Result<Secret, ObserveError> {
    let (certificate, key) = Authority::create(identities::AUTHORITY, AUTHORITY_LIFETIME, now)?;
    Ok(Secret {
        metadata: owned(configuration, &options.signer_namespace, &options.signer_name),
        data: Some(BTreeMap::from([
            ("ca.crt".to_owned(), bytes(certificate)),
            ("ca.key".to_owned(), bytes(key)),
        ])),
        ..Secret::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn configuration(entry: Value) -> ManagedProxyConfiguration {
        serde_json::from_value(json!({
            "metadata": {"name": "cluster-proxy", "uid": "u"},
            "spec": {
                "authentication": {"signer": {"selfSigned": {"additionalSANs": ["more.example"]}}},
                "proxyServer": {"image": "i", "namespace": "ns", "entrypoint": entry},
                "proxyAgent": {"image": "i"},
                "userServer": {"additionalSANs": ["users.example"]},
            },
        }))
        .unwrap()
    }

    fn seen(configuration: ManagedProxyConfiguration) -> Seen {
        Seen {
            now: Timestamp::UNIX_EPOCH,
            configuration: Some(Arc::new(configuration)),
            has_namespace: true,
            entry: None,
            new_authority: None,
            due: Vec::new(),
            next: None,
            broken: None,
        }
    }

    #[test]
    fn certificates_have_the_names_of_their_entry_point() {
        let host = configuration(json!({"type": "Hostname", "hostname": {"value": "hub.example"}}));
        let all = wanted(&host, None);
        let names: Vec<_> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(
            names,
            ["proxy-server", "agent-server", "proxy-client", USER_SERVER_SECRET]
        );
        assert_eq!(
            all[0].leaf.names,
            [
                "more.example",
                "127.0.0.1",
                "localhost",
                "proxy-entrypoint.ns",
                "proxy-entrypoint.ns.svc",
                "hub.example",
            ]
        );
        assert_eq!(all[2].leaf.usage, LeafUsage::Client);
        assert_eq!(
            all[3].leaf.names,
            [
                "127.0.0.1",
                "localhost",
                "cluster-proxy-addon-user",
                "cluster-proxy-addon-user.ns",
                "cluster-proxy-addon-user.ns.svc",
                "cluster-proxy-addon-user.ns.svc.cluster.local",
                "users.example",
            ]
        );
    }

    #[test]
    fn a_load_balancer_is_made_once_and_waited_for() {
        let balanced = configuration(json!({
            "type": "LoadBalancerService", "loadBalancerService": {"annotations": [{"key": "a/b", "value": "c"}]},
        }));
        let mut seen = seen(balanced);
        let plan = Certificates::plan(&seen).to_string();
        assert!(plan.contains("create Service ns/proxy-agent-entrypoint"), "{plan}");
        assert!(plan.contains("external ip not yet provisioned"), "{plan}");
        let mut service = load_balancer(seen.configuration.as_ref().unwrap()).unwrap();
        assert_eq!(service.annotations()["a/b"], "c");
        service.status = serde_json::from_value(json!({"loadBalancer": {"ingress": [{"ip": "203.0.113.7"}]}})).unwrap();
        seen.entry = Some(service);
        assert_eq!(Certificates::plan(&seen).to_string().trim(), "nothing to do");
        let all = wanted(seen.configuration.as_ref().unwrap(), seen.entry.as_ref());
        assert_eq!(all[1].leaf.names.last().unwrap(), "203.0.113.7");
    }

    #[test]
    fn a_certificate_is_written_again_when_it_differs() {
        let configuration = configuration(json!({"type": "PortForward"}));
        let now = Timestamp::now();
        let signer = new_authority(&configuration, &HubOptions::default(), now).unwrap();
        let authority = Authority::read(value(&signer, "ca.crt"), value(&signer, "ca.key")).unwrap();
        let one = wanted(&configuration, None).remove(0);
        let judge = |present| due(present, &one, &authority, &signer, &configuration, now).unwrap();
        let Ok(first) = judge(None) else {
            panic!("nothing is due")
        };
        assert_eq!(first.why, "there is none");
        let chain = String::from_utf8_lossy(value(&first.wanted, "tls.crt")).into_owned();
        assert_eq!(chain.matches("BEGIN CERTIFICATE").count(), 2);
        assert!(judge(Some(first.wanted.clone())).is_err());
        let mut broken = first.wanted.clone();
        broken.data.as_mut().unwrap().remove("tls.key");
        let Ok(again) = judge(Some(broken)) else {
            panic!("nothing is due")
        };
        assert_eq!(again.why, "the key is missing");
    }
}
