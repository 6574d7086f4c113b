//! Whether the add-on is being uninstalled: its own Deployment says so. Then nothing is synchronized any more, and
//! finalizers are let go. Upstream: `controllers/uninstall/`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use ocm_addon_sdk::{
    k8s_openapi::api::apps::v1::Deployment,
    kube::{self, Api, Client, ResourceExt, api::ListParams, runtime::watcher},
    ocm_api::policy::{Policy, annotations::UNINSTALLING},
    reconcile::{
        Cache, Caches, Clients, Plan, Site, Step, StepError, Target, cache::Watching, execute, execute::sentence,
    },
};
use serde_json::json;
use tracing::{info, warn};

/// What waits for an uninstallation to be called off looks again after this time.
pub const LOOK_AGAIN: Duration = Duration::from_secs(300);
/// The controllers see the annotation before Policies are deleted.
pub const SETTLE: Duration = Duration::from_secs(5);
/// Between two attempts to delete all Policies.
const BETWEEN: Duration = Duration::from_secs(2);

/// Whether the add-on is being uninstalled. Cloning shares it.
#[derive(Clone)]
pub struct Uninstallation {
    /// The Deployment of this process.
    pub deployment: Cache<Deployment>,
    is_on: Arc<AtomicBool>,
}

impl Uninstallation {
    /// Watches the Deployment of this name. One that was never there says nothing: somebody runs the program by hand.
    pub fn new(caches: &Caches, namespace: &str, name: &str) -> Self {
        let field = format!("metadata.name={name}");
        let watching = Watching {
            selection: watcher::Config::default().fields(&field),
            forbidden_at_first: true,
            ..Watching::default()
        };
        let deployment: Cache<Deployment> = caches.in_namespace(namespace, watching);
        let is_on = Arc::new(AtomicBool::new(false));
        let set = is_on.clone();
        deployment.listen(move |_, new| {
            let annotation = |it: &Arc<Deployment>| it.annotations().get(UNINSTALLING).is_some_and(|it| it == "true");
            let on = new.is_none_or(annotation);
            if set.swap(on, Ordering::Relaxed) != on {
                info!(on, "whether the add-on is being uninstalled");
            }
        });
        Self { deployment, is_on }
    }

    /// Whether it is.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }
}

/// What `trigger-uninstall` is told.
#[derive(Clone, Debug)]
pub struct Trigger {
    /// The Deployment of the controllers.
    pub deployment: String,
    /// Its namespace.
    pub deployment_namespace: String,
    /// The namespaces whose Policies are deleted.
    pub policy_namespace: String,
    /// So long the controllers have to see it before Policies are deleted.
    pub settle: Duration,
    /// After this time it gives up.
    pub timeout: Duration,
}

/// Says that the add-on is being uninstalled, and deletes all Policies. Returns when none is left.
///
/// # Errors
/// When the API server does not do it in time.
pub async fn trigger(client: &Client, it: &Trigger) -> Result<()> {
    let all = async {
        annotate(client, it).await?;
        tokio::time::sleep(it.settle).await;
        delete_policies(client, it).await
    };
    match tokio::time::timeout(it.timeout, all).await {
        Ok(done) => done,
        Err(_) => bail!(
            "after {} s there are still Policies in namespace {}; raise --timeout-seconds, or see which finalizers they \
             have",
            it.timeout.as_secs(),
            it.policy_namespace
        ),
    }
}

async fn annotate(client: &Client, it: &Trigger) -> Result<()> {
    let mut plan = Plan::new();
    plan.push(Step::MergePatch {
        target: Target::namespaced::<Deployment>(Site::Cluster, &it.deployment_namespace, &it.deployment),
        subresource: None,
        patch: json!({"metadata": {"annotations": {UNINSTALLING: "true"}}}),
    });
    let clients = Clients::cluster(client.clone());
    loop {
        let outcome = execute(&clients, &plan).await;
        match outcome.errors().next() {
            None => return Ok(()),
            Some((_, StepError::Kube(error))) if is_passing(error) => {
                warn!(%error, "could not annotate the Deployment, will retry");
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

fn is_passing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if [409, 429, 500, 503, 504].contains(&status.code))
}

async fn delete_policies(client: &Client, it: &Trigger) -> Result<()> {
    let api: Api<Policy> = Api::namespaced(client.clone(), &it.policy_namespace);
    let clients = Clients::cluster(client.clone());
    loop {
        let mut plan = Plan::new();
        match api.list(&ListParams::default()).await {
            Ok(list) if list.items.is_empty() => {
                info!("no Policies are left");
                return Ok(());
            }
            Ok(list) => {
                info!(policies = list.items.len(), "Policies are left");
                for policy in &list.items {
                    plan.delete(Site::Cluster, policy);
                }
            }
            Err(error) if is_passing(&error) => warn!(%error, "could not list Policies, will retry"),
            Err(error) => {
                let context = format!("could not list the Policies of namespace {}", it.policy_namespace);
                return Err(error).context(context);
            }
        }
        let outcome = execute(&clients, &plan).await;
        if !outcome.succeeded() {
            warn!(error = %outcome.error_text(), "could not delete all Policies, will retry");
        }
        tokio::time::sleep(BETWEEN).await;
    }
}
