//! Whether the controller is being uninstalled: its Deployment says so, or the definition of its kind goes. Then
//! policies are let go, and nothing that they have made is removed.
//! Upstream: config-policy-controller `cleanupImmediately`, `pkg/triggeruninstall`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use ocm_addon_sdk::{
    k8s_openapi::{
        api::apps::v1::Deployment, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    },
    kube::{self, Api, Client, ResourceExt, api::ListParams, runtime::watcher},
    ocm_api::policy::{annotations::UNINSTALLING, configuration_policy::ConfigurationPolicy},
    reconcile::{
        Cache, Caches, Clients, Plan, Site, Step, StepId, Target, cache::Watching, execute, execute::sentence,
    },
};
use serde_json::json;
use tracing::info;

const DEFINITION: &str = "configurationpolicies.policy.open-cluster-management.io";
/// Between two looks at what is left.
const BETWEEN: Duration = Duration::from_secs(1);

/// Whether the controller is being uninstalled. Cloning shares it.
#[derive(Clone)]
pub struct Uninstallation {
    deployment: Cache<Deployment>,
    definition: Cache<CustomResourceDefinition>,
    is_on: Arc<[AtomicBool; 2]>,
}

fn named(name: &str) -> Watching {
    Watching {
        selection: watcher::Config::default().fields(&format!("metadata.name={name}")),
        forbidden_at_first: true,
        ..Watching::default()
    }
}

impl Uninstallation {
    /// Watches the Deployment of this name, and the definition of ConfigurationPolicies.
    pub fn new(caches: &Caches, namespace: &str, name: &str) -> Self {
        Self {
            deployment: caches.in_namespace(namespace, named(name)),
            definition: caches.watching(named(DEFINITION)),
            is_on: Arc::default(),
        }
    }

    /// Calls `changed` whenever it turns on or off.
    pub fn follow(&self, changed: impl Fn() + Send + Sync + 'static) {
        let changed = Arc::new(changed);
        let (is_on, tell) = (self.is_on.clone(), changed.clone());
        self.deployment.listen(move |_, new| {
            let said = |it: &Arc<Deployment>| {
                let annotation = it.annotations().get(UNINSTALLING).map(String::as_str);
                !matches!(annotation, None | Some("" | "false"))
            };
            set(&is_on[0], new.is_some_and(said), &*tell);
        });
        let is_on = self.is_on.clone();
        self.definition.listen(move |_, new| {
            let stays = |it: &Arc<CustomResourceDefinition>| it.metadata.deletion_timestamp.is_none();
            set(&is_on[1], !new.is_some_and(stays), &*changed);
        });
    }

    /// Whether it is.
    pub fn is_on(&self) -> bool {
        self.is_on.iter().any(|it| it.load(Ordering::Relaxed))
    }
}

fn set(flag: &AtomicBool, on: bool, changed: &dyn Fn()) {
    if flag.swap(on, Ordering::Relaxed) != on {
        info!(on, "whether the controller is being uninstalled");
        changed();
    }
}

/// What `trigger-uninstall` is told.
#[derive(Clone, Debug)]
pub struct UninstallTrigger {
    /// The Deployment of the controller.
    pub deployment: String,
    /// Its namespace.
    pub deployment_namespace: String,
    /// The namespaces of policies.
    pub policy_namespaces: Vec<String>,
    /// After this time it gives up.
    pub timeout: Duration,
}

/// Says that the controller is being uninstalled, and returns when no policy has a finalizer any more.
///
/// # Errors
/// When the API server, or the controller, does not do it in time.
pub async fn trigger(client: &Client, it: &UninstallTrigger) -> Result<()> {
    let all = async {
        annotate(client, it).await?;
        let_go(client, it).await
    };
    match tokio::time::timeout(it.timeout, all).await {
        Ok(done) => done,
        Err(_) => bail!(
            "after {} s there are still ConfigurationPolicies with finalizers; raise --timeout-seconds, or see whether the \
             controller runs",
            it.timeout.as_secs()
        ),
    }
}

async fn annotate(client: &Client, it: &UninstallTrigger) -> Result<()> {
    loop {
        let mut plan = Plan::new();
        plan.push(Step::MergePatch {
            target: Target::namespaced::<Deployment>(Site::Cluster, &it.deployment_namespace, &it.deployment),
            subresource: None,
            patch: json!({"metadata": {"annotations": {UNINSTALLING: Timestamp::now().to_string()}}}),
        });
        let outcome = execute(&Clients::cluster(client.clone()), &plan).await;
        let error: Option<(StepId, _)> = outcome.errors().next();
        match error {
            None => return Ok(()),
            Some((_, error)) if matches!(error.code(), Some(409 | 429 | 500 | 503 | 504)) => {
                tokio::time::sleep(BETWEEN).await;
            }
            Some((_, error)) => bail!(
                "could not annotate Deployment {}/{}: {}",
                it.deployment_namespace,
                it.deployment,
                sentence(error)
            ),
        }
    }
}

async fn let_go(client: &Client, it: &UninstallTrigger) -> Result<()> {
    loop {
        let mut left = 0;
        for namespace in &it.policy_namespaces {
            let api: Api<ConfigurationPolicy> = Api::namespaced(client.clone(), namespace);
            let policies = match api.list(&ListParams::default()).await {
                Ok(policies) => policies.items,
                // The definition is gone, and all policies with it.
                Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
                Err(error) => {
                    return Err(error).with_context(|| format!("could not list the policies of namespace {namespace}"));
                }
            };
            left += policies.iter().filter(|it| !it.finalizers().is_empty()).count();
        }
        if left == 0 {
            info!("no policy has a finalizer");
            return Ok(());
        }
        info!(policies = left, "policies have finalizers");
        tokio::time::sleep(BETWEEN).await;
    }
}
