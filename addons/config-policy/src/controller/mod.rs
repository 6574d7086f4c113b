//! The controller of a cluster: evaluates its policies, tells the Policies that own them, and puts right what they
//! enforce.
//!
//! ```text
//! home: where policies live                target: the cluster that they are about
//!   ConfigurationPolicy ---- evaluate ----> objects
//!   status, Events <---------+   ^------- watches of what was read
//!                                |
//! hub: what standalone hub templates look up
//! ```
//!
//! Home and target are one cluster, but in Hosted mode. Ours differs from upstream:
//!
//! 1. A policy that waits for changes is evaluated at once, ten times in a row before it has to wait for
//!    `--evaluation-backoff`; upstream lets it wait from the second time on. One that others undo says so (Event
//!    `PolicyContested`).
//! 2. A kind that comes wakes the policies that wait for it.
//! 3. Objects of one kind and namespace share a watch when many are asked for.
//! 4. Hub templates that cannot be filled in do not keep a policy from being deleted.

mod api;
pub mod counters;
mod due;
mod ended;
pub mod hub_templates;
mod kinds;
mod memory;
mod program;
mod reconciler;
pub mod recorder;
pub mod uninstall;

use std::{fmt::Debug, sync::Arc, time::Duration};

use ocm_addon_sdk::{
    k8s_openapi::{
        api::core::v1::Namespace,
        apiextensions_apiserver::pkg::apis::apiextensions::v1::{
            CustomResourceDefinition, CustomResourceDefinitionSpec,
        },
    },
    kube::{Api, Client, Resource, core::NamespaceResourceScope},
    ocm_api::policy::configuration_policy::{ConfigurationPolicy, NamespaceTarget},
    reconcile::{
        Cache, Caches, Clients, Controller, DynamicWatches, Queue,
        cache::{Watching, key_of},
        metrics::also,
    },
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

pub use api::{LiveCluster, cluster_error};
pub use ended::{EvaluationEnd, STALE_AGAIN};
pub use kinds::Kinds;
pub use memory::{PolicyMemories, PolicyMemory};
pub use program::{PROGRAMS, run};
pub use reconciler::ConfigurationPolicies;

use crate::{
    evaluate::EvaluationSettings,
    operator::{OperatorPolicies, OperatorSettings},
};
use hub_templates::HubTemplates;
use uninstall::Uninstallation;

/// Where a controller works.
#[derive(Clone, Debug)]
pub struct PolicySite {
    /// The namespaces of policies; empty for all.
    pub namespaces: Vec<String>,
    /// The name of the cluster, for hub templates.
    pub cluster: String,
    /// The namespace of its own Deployment.
    pub own_namespace: String,
    /// The name of its own Deployment.
    pub deployment: String,
    /// The host that events are said to come from.
    pub instance: String,
    /// After a burst of evaluations a policy waits so long for the next one.
    pub back_off: Duration,
}

/// The API servers.
#[derive(Clone)]
pub struct PolicyClients {
    /// Where policies live.
    pub home: Client,
    /// What they are about.
    pub target: Client,
    /// What standalone hub templates look up, where that add-on is.
    pub hub: Option<Client>,
}

/// What the policies of one kind read, and what is known of them, by their keys: names alone, so that each kind has its
/// own. Cloning shares it.
#[derive(Clone)]
pub struct PolicyReading {
    /// What the target serves.
    pub kinds: Kinds,
    /// The watches of what policies have read on the target.
    pub watches: DynamicWatches,
    /// What is known of policies.
    pub memories: PolicyMemories,
    /// What fills in hub templates.
    pub hub_templates: HubTemplates,
}

impl PolicyReading {
    /// Of the target and the hub.
    pub fn new(clients: &PolicyClients, cluster: &str, denied: Vec<String>, stop: &CancellationToken) -> Self {
        Self {
            kinds: Kinds::new(clients.target.clone()),
            watches: DynamicWatches::new(clients.target.clone(), stop.clone()),
            memories: PolicyMemories::default(),
            hub_templates: HubTemplates::new(clients, cluster, denied, stop),
        }
    }

    /// Wakes the keys of policies when what they have read changes, or a kind comes that they wait for.
    pub fn wake(&self, definitions: &Cache<CustomResourceDefinition>, queue: &Queue) {
        self.watches.wake(queue);
        self.kinds.follow(definitions, queue);
        self.hub_templates.wake(queue);
    }

    /// Nobody asks for this policy any more.
    pub fn forget(&self, key: &str) {
        self.watches.forget(key);
        self.memories.forget(key);
        self.kinds.wait(key, false);
        self.hub_templates.forget(key);
    }
}

/// What the reconcilers of a controller share.
#[derive(Clone)]
pub struct Evaluating {
    /// The API servers.
    pub clients: PolicyClients,
    /// The policies.
    pub policies: Cache<ConfigurationPolicy>,
    /// The definitions of kinds on the target.
    pub definitions: Cache<CustomResourceDefinition>,
    /// The namespaces of the target.
    pub namespaces: Cache<Namespace>,
    /// What policies read, and what is known of them.
    pub reading: PolicyReading,
    /// Whether the controller is being uninstalled.
    pub uninstallation: Uninstallation,
    /// What holds for all policies.
    pub settings: Arc<EvaluationSettings>,
    /// Where it is.
    pub site: Arc<PolicySite>,
}

impl Evaluating {
    /// Watches the API servers until `stop`.
    pub fn new(
        clients: &PolicyClients,
        site: PolicySite,
        settings: EvaluationSettings,
        stop: &CancellationToken,
    ) -> Self {
        let home =
            Caches::new(clients.home.clone(), stop.clone()).shaped::<CustomResourceDefinition>(|_, it| names_alone(it));
        let target = Caches::new(clients.target.clone(), stop.clone())
            .shaped::<CustomResourceDefinition>(|_, it| names_alone(it))
            .shaped::<Namespace>(|_, it| it.metadata.managed_fields = None);
        Self {
            policies: policies(clients, &site.namespaces, &home, stop),
            definitions: target.watching(rights_may_come_later()),
            namespaces: target.watching(rights_may_come_later()),
            reading: PolicyReading::new(clients, &site.cluster, settings.denied_functions.clone(), stop),
            uninstallation: Uninstallation::new(&home, &site.own_namespace, &site.deployment),
            settings: Arc::new(settings),
            site: Arc::new(site),
            clients: clients.clone(),
        }
    }

    /// Wakes the keys of policies when what they have read changes.
    pub fn wake(&self, queue: &Queue) {
        self.reading.wake(&self.definitions, queue);
        let policies = self.policies.clone();
        let all = queue.clone();
        self.uninstallation.follow(move || {
            for policy in policies.list() {
                all.add(key_of(&*policy));
            }
        });
        // Those that select namespaces are woken by them, whatever their interval.
        let policies = self.policies.clone();
        self.namespaces.subscribe(queue, move |old, new| {
            let labels = |it: Option<&Namespace>| {
                it.map(|it| (it.metadata.labels.clone(), it.metadata.deletion_timestamp.is_some()))
            };
            let changed = labels(old) != labels(new);
            let select = |it: &Arc<ConfigurationPolicy>| changed && !it.spec.namespace_selector.is_empty();
            let selecting = policies.list().into_iter().filter(select);
            selecting.map(|it| key_of(&*it)).collect::<Vec<_>>()
        });
    }

    /// The namespaces that a selector selects.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn selected_namespaces(&self, target: &NamespaceTarget) -> Result<Vec<String>, String> {
        let all = self.namespaces.list();
        crate::evaluate::selected_namespaces(target, &all, self.settings.terminating_namespaces)
    }
}

/// The rights of a controller may come after it.
fn rights_may_come_later() -> Watching {
    Watching {
        forbidden_at_first: true,
        ..Watching::default()
    }
}

/// Of definitions only the names are read.
fn names_alone(definition: &mut CustomResourceDefinition) {
    definition.metadata.managed_fields = None;
    definition.metadata.annotations = None;
    let spec = &mut definition.spec;
    let versions = spec.versions.drain(..).map(|mut it| {
        it.schema = None;
        it.additional_printer_columns = None;
        it
    });
    *spec = CustomResourceDefinitionSpec {
        versions: versions.collect(),
        group: spec.group.clone(),
        names: spec.names.clone(),
        scope: spec.scope.clone(),
        ..CustomResourceDefinitionSpec::default()
    };
}

/// The policies of some namespaces, or of all where none is named.
pub fn policies<K>(clients: &PolicyClients, namespaces: &[String], home: &Caches, stop: &CancellationToken) -> Cache<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    match namespaces {
        [] => home.watching(rights_may_come_later()),
        [one] => home.in_namespace(one, rights_may_come_later()),
        several => {
            // They have few policies together.
            let cache = Cache::empty();
            for namespace in several {
                let api = Api::namespaced(clients.home.clone(), namespace);
                tokio::spawn(cache.clone().feed(api, rights_may_come_later(), stop.clone()));
            }
            cache
        }
    }
}

/// The reconcilers of a controller, with the clients that they write with.
pub fn controllers(on: &Evaluating, workers: usize, operators: Option<OperatorPolicies>) -> Vec<(Controller, Clients)> {
    let home = || Clients::cluster(on.clients.home.clone());
    let mut controllers = vec![(Controller::new(ConfigurationPolicies::new(on)).workers(workers), home())];
    controllers.extend(operators.map(|it| (Controller::new(it).workers(workers), home())));
    controllers
}

/// Evaluates the policies of a cluster, with those of operators where they have settings; ends with `stop`.
pub async fn control(
    clients: &PolicyClients,
    site: PolicySite,
    settings: EvaluationSettings,
    operators: Option<OperatorSettings>,
    workers: usize,
    stop: &CancellationToken,
) {
    let on = Evaluating::new(clients, site, settings, stop);
    also("configuration-policy-controller", counters::text);
    let operators = operators.map(|it| OperatorPolicies::new(&on, it, stop));
    let running: Vec<_> = controllers(&on, workers, operators)
        .into_iter()
        .map(|(it, clients)| it.start(clients, stop.clone()))
        .collect();
    for one in running {
        let _ = one.finished.await;
    }
}
