//! Deploys proxy servers and tells of their certificates.
//!
//! Root: ManagedProxyConfiguration. Reads: the authority, the Secrets with certificates, what it writes. Writes: the
//! objects of [`resources`](super::resources); the whole status. Never: what somebody else has changed in an object
//! while the configuration is the same. Upstream: cluster-proxy
//! `pkg/proxyserver/controllers/managedproxyconfiguration_controller.go`.

use std::sync::Arc;

use jiff::Timestamp;
use ocm_addon_sdk::{
    hub::renewal,
    k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret},
    kube::{Api, Client, ResourceExt, core::DynamicObject, core::PartialObjectMeta},
    ocm_api::{
        condition::{self, ConditionUpdate, wanted},
        proxy::{ManagedProxyConfiguration, conditions},
    },
    reconcile::{
        Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Site, StatusField, Step, Watches, async_trait,
        cache::Watching, rbac::Right,
    },
};
use serde_json::Value;

use super::{
    HubOptions, USER_SERVER_SECRET, read,
    resources::{self, GENERATION, RENDERED_HASH, ServerObject, TLS_HASH},
    value,
};

/// The reconciler.
pub struct ProxyServers {
    configurations: Cache<ManagedProxyConfiguration>,
    secrets: Cache<PartialObjectMeta<Secret>>,
    signers: Cache<PartialObjectMeta<Secret>>,
    deployments: Cache<Deployment>,
    client: Option<Client>,
    options: Arc<HubOptions>,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The object; `None` when it is gone.
    pub configuration: Option<Arc<ManagedProxyConfiguration>>,
    /// Whether the authority is there.
    pub has_authority: bool,
    /// What is to be there, and what is.
    pub objects: Vec<(ServerObject, Option<Value>)>,
    /// The end of each certificate that a condition is about.
    pub signed: Vec<(&'static str, Option<Timestamp>)>,
    /// The proxy servers' replicas, where they are deployed.
    pub replicas: Option<i32>,
}

impl ProxyServers {
    /// Over these caches.
    pub fn new(caches: &Caches, options: Arc<HubOptions>) -> Self {
        Self {
            configurations: caches.of(),
            secrets: caches.in_namespace(&options.namespace, Watching::default()),
            signers: caches.in_namespace(&options.signer_namespace, Watching::default()),
            deployments: caches.in_namespace(&options.namespace, Watching::default()),
            client: caches.client().cloned(),
            options,
        }
    }

    async fn present(&self, it: &ServerObject) -> Result<Option<Value>, ObserveError> {
        let client = self.client.clone().ok_or("there is no client of the hub")?;
        let namespace = it.target.namespace.as_deref().unwrap_or_default();
        let api = Api::<DynamicObject>::namespaced_with(client, namespace, &it.target.api_resource);
        let found = api.get_opt(&it.target.name).await?;
        Ok(found.map(serde_json::to_value).transpose()?)
    }
}

#[async_trait]
impl Reconciler for ProxyServers {
    const NAME: &'static str = "cluster-proxy-servers";
    const STATUS: &'static [StatusField] = &[
        StatusField::condition(ManagedProxyConfiguration::KIND, conditions::PROXY_SERVER_DEPLOYED),
        StatusField::condition(ManagedProxyConfiguration::KIND, conditions::PROXY_SERVER_SECRET_SIGNED),
        StatusField::condition(ManagedProxyConfiguration::KIND, conditions::AGENT_SERVER_SECRET_SIGNED),
        StatusField::condition(ManagedProxyConfiguration::KIND, conditions::USER_SERVER_SECRET_SIGNED),
        StatusField::new(ManagedProxyConfiguration::KIND, "lastObservedGeneration"),
    ];
    const RIGHTS: &'static [Right] = &[
        Right::new(
            "",
            "serviceaccounts",
            "get create update",
            "The proxy servers have an account.",
        ),
        Right::new(
            "",
            "services secrets",
            "get create update",
            "Clients find the proxy servers.",
        ),
        Right::new(
            "apps",
            "deployments",
            "get create update",
            "The proxy servers are deployed.",
        ),
        Right::new(
            "rbac.authorization.k8s.io",
            "roles rolebindings",
            "get create update",
            "Agents reach the proxy servers by port-forward.",
        ),
        // Nobody gives more than he has.
        Right::new(
            "",
            "pods pods/portforward",
            "*",
            "Agents reach the proxy servers by port-forward.",
        ),
    ];
    type Seen = Seen;

    fn watches(&self, watches: &mut Watches) {
        let all = self.configurations.clone();
        let every = move || all.list().iter().map(|it| it.name_any()).collect::<Vec<_>>();
        let (of_secret, of_signer) = (every.clone(), every.clone());
        watches
            .root(&self.configurations)
            .wakes(&self.secrets, move |_, _| of_secret())
            .wakes(&self.signers, move |_, _| of_signer())
            .wakes(&self.deployments, move |_, _| every());
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let mut seen = Seen {
            now: Timestamp::now(),
            configuration: self.configurations.get("", name),
            has_authority: false,
            objects: Vec::new(),
            signed: Vec::new(),
            replicas: (!self.options.deploys_servers).then_some(1),
        };
        let Some(configuration) = seen.configuration.clone() else {
            return Ok(seen);
        };
        let options = &self.options;
        let client = self.client.as_ref();
        let signer = read::<Secret>(client, &options.signer_namespace, &options.signer_name).await?;
        let Some(signer) = signer else { return Ok(seen) };
        seen.has_authority = true;
        for rendered in resources::all(&configuration, value(&signer, "ca.crt"), options) {
            let present = self.present(&rendered).await?;
            if rendered.target.api_resource.kind == "Deployment"
                && let Some(present) = &present
            {
                let replicas = present["status"]["replicas"].as_i64().unwrap_or_default();
                seen.replicas = Some(replicas.try_into()?);
            }
            seen.objects.push((rendered, present));
        }
        let secrets = &configuration.spec.authentication.dump.secrets;
        let mut signed = vec![
            (
                conditions::PROXY_SERVER_SECRET_SIGNED,
                &secrets.signing_proxy_server_secret_name,
            ),
            (
                conditions::AGENT_SERVER_SECRET_SIGNED,
                &secrets.signing_agent_server_secret_name,
            ),
        ];
        let users = USER_SERVER_SECRET.to_owned();
        if configuration.spec.user_server.is_some() {
            signed.push((conditions::USER_SERVER_SECRET_SIGNED, &users));
        }
        for (condition, name) in signed {
            let secret = read::<Secret>(client, &configuration.spec.proxy_server.namespace, name).await?;
            let end = secret.and_then(|it| renewal::expiry(value(&it, "tls.crt")));
            seen.signed.push((condition, end));
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
        if !seen.has_authority {
            plan.wait("there is no authority yet");
        }
        for (rendered, present) in &seen.objects {
            put(&mut plan, rendered, present.as_ref());
            plan.stage();
        }
        plan
    }

    fn conclude(seen: &Seen, outcome: &Outcome) -> Plan {
        let mut plan = Plan::new();
        let Some(configuration) = seen.configuration.as_deref().filter(|_| seen.has_authority) else {
            return plan;
        };
        let mut new = configuration.clone();
        let status = new.status.get_or_insert_default();
        if outcome.succeeded() {
            status.last_observed_generation = configuration.metadata.generation;
        }
        for update in said(seen) {
            condition::set(&mut status.conditions, update, seen.now);
        }
        if configuration.spec.user_server.is_none() {
            condition::remove(&mut status.conditions, conditions::USER_SERVER_SECRET_SIGNED);
        }
        plan.status(Site::Hub, configuration, &new);
        plan
    }
}

/// The conditions.
fn said(seen: &Seen) -> Vec<ConditionUpdate> {
    let message = format!("Replicas: {}", seen.replicas.unwrap_or_default());
    let deployed = match seen.replicas {
        Some(_) => wanted(conditions::PROXY_SERVER_DEPLOYED, true, "SuccessfullyDeployed", message),
        None => wanted(conditions::PROXY_SERVER_DEPLOYED, false, "NotYetDeployed", message),
    };
    let signed = seen.signed.iter().map(|(condition, end)| match end {
        Some(end) => wanted(
            condition,
            true,
            "SuccessfullySigned",
            format!("Expiry:{}", go_time(*end)),
        ),
        None => wanted(condition, false, "NotYetSigned", ""),
    });
    std::iter::once(deployed).chain(signed).collect()
}

/// As Go prints a time.
fn go_time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()
}

/// Creates an object, or puts it in the place of one that was rendered from something else.
fn put(plan: &mut Plan, rendered: &ServerObject, present: Option<&Value>) {
    let ServerObject { target, object } = rendered;
    let Some(present) = present else {
        plan.push(Step::Create {
            target: target.clone(),
            object: object.clone(),
        });
        return;
    };
    let (is, wants) = (&present["metadata"]["annotations"], &object["metadata"]["annotations"]);
    let generation = |it: &Value| it[GENERATION].as_str().and_then(|it| it.parse::<i64>().ok());
    let is_older = generation(is).unwrap_or_default() < generation(wants).unwrap_or_default();
    if !is_older && [RENDERED_HASH, TLS_HASH].iter().all(|it| is[it] == wants[it]) {
        return;
    }
    let mut new = object.clone();
    let kept = &present["metadata"];
    for field in ["resourceVersion", "uid"] {
        new["metadata"][field] = kept[field].clone();
    }
    // Others have theirs there, such as the Deployment's controller.
    if let Some(of_others) = kept["annotations"].as_object() {
        let mut all = of_others.clone();
        all.extend(new["metadata"]["annotations"].as_object().cloned().unwrap_or_default());
        new["metadata"]["annotations"] = all.into();
    }
    if target.api_resource.kind == "Service" {
        // The API server has given them.
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if !present["spec"][field].is_null() {
                new["spec"][field] = present["spec"][field].clone();
            }
        }
    }
    plan.push(Step::Replace {
        target: target.clone(),
        subresource: None,
        object: new,
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rendered(generation: i64, replicas: i32) -> Vec<ServerObject> {
        let configuration = serde_json::from_value(json!({
            "metadata": {"name": "cluster-proxy", "uid": "u", "generation": generation},
            "spec": {"authentication": {}, "proxyServer": {"image": "i", "replicas": replicas},
                "proxyAgent": {"image": "i"}},
        }));
        resources::all(&configuration.unwrap(), b"ca", &HubOptions::default())
    }

    #[test]
    fn an_object_is_replaced_only_for_another_rendering() {
        let old = rendered(1, 1);
        for (now, is_replaced) in [(rendered(1, 1), false), (rendered(2, 3), true), (rendered(1, 2), true)] {
            let mut plan = Plan::new();
            put(&mut plan, &now[3], Some(&old[3].object));
            assert_eq!(!plan.is_empty(), is_replaced);
        }
        // What was edited since stays.
        let mut edited = old[3].object.clone();
        edited["spec"]["replicas"] = 7.into();
        let mut plan = Plan::new();
        put(&mut plan, &old[3], Some(&edited));
        assert!(plan.is_empty());
    }

    #[test]
    fn a_service_keeps_its_address() {
        let (old, new) = (rendered(1, 1), rendered(2, 1));
        let mut present = old[1].object.clone();
        present["spec"]["clusterIP"] = "10.0.0.7".into();
        let mut plan = Plan::new();
        put(&mut plan, &new[1], Some(&present));
        let written = serde_json::to_string(&format!("{plan:?}")).unwrap();
        assert!(written.contains("10.0.0.7"), "{written}");
    }

    #[test]
    fn an_expiry_is_told_as_go_prints_it() {
        let at = "2026-06-01T12:00:00Z".parse().unwrap();
        assert_eq!(go_time(at), "2026-06-01 12:00:00 +0000 UTC");
    }
}
