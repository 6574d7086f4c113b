//! What an add-on's agent needs: a way to the hub that follows its renewed credential, a way to the cluster,
//! and a life that others can see.
//!
//! An agent is an async function that is given an [`AddOnAgent`]. [`AddOnProgram`] makes a program of it.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use ocm_addon_sdk::agent::{AddOnAgent, Result};
//!
//! /// Says how many ConfigMaps there are in the cluster's namespace on the hub, whenever that changes.
//! async fn count(agent: AddOnAgent) -> Result<()> {
//!     let maps = agent.watch(agent.hub_objects::<ConfigMap>()?);
//!     agent.whenever(&[&maps], async || {
//!         println!("{} ConfigMaps for {}", maps.len(), agent.cluster);
//!         Ok(())
//!     })
//!     .await
//! }
//! ```

pub(crate) mod connect;
mod controller;
mod flags;
mod lease;
pub(crate) mod program;
pub(crate) mod proxy;
mod whenever;

use std::{fmt::Debug, hash::Hash};

use anyhow::Context;
use kube::{Api, Client, Resource, api::ListParams, core::NamespaceResourceScope, runtime::watcher};
use ocm_reconcile::{Clients, Plan, Site, execute};
use serde::{Serialize, de::DeserializeOwned};
use tokio_util::sync::CancellationToken;

use connect::Trust;
pub use connect::hub_client;
pub use controller::Controller;
pub use flags::AgentFlags;
pub use lease::renew;
pub use ocm_reconcile::Cache;
pub use program::AddOnProgram;
pub use whenever::Changing;

/// What an agent's functions return: any error will do, it is logged with what led to it.
pub type Result<T> = anyhow::Result<T>;

/// What the author of an agent is given.
#[derive(Clone)]
pub struct AddOnAgent {
    /// The add-on's name.
    pub add_on: String,
    /// The managed cluster's name, which is its namespace on the hub.
    pub cluster: String,
    /// The namespace the agent runs in.
    pub namespace: String,
    /// The hub, as the add-on's agent on this cluster; `None` when the add-on is not registered there.
    pub hub: Option<Client>,
    /// The managed cluster.
    pub managed: Client,
    /// The cluster the agent runs on: the managed one, unless the agent is hosted.
    pub home: Client,
    /// Cancelled when the agent is to stop.
    pub stop: CancellationToken,
}

impl AddOnAgent {
    /// Connects as the flags say. Waits for the hub's kubeconfig if that is not there yet, and ends early with `stop`.
    ///
    /// # Errors
    /// When a kubeconfig cannot be used, or there is none.
    pub async fn connect(add_on: &str, flags: &AgentFlags, stop: &CancellationToken) -> Result<Self> {
        Self::connect_trusting(add_on, flags, &Trust::Any, stop).await
    }

    async fn connect_trusting(
        add_on: &str,
        flags: &AgentFlags,
        trust: &Trust,
        stop: &CancellationToken,
    ) -> Result<Self> {
        let home = connect::home(None, trust).await?;
        let managed = match &flags.managed_kubeconfig {
            Some(path) => connect::home(Some(path), trust).await?,
            None => home.clone(),
        };
        let hub = match &flags.hub_kubeconfig {
            Some(path) => Some(connect::hub_client_trusting(path, trust, stop).await?),
            None => None,
        };
        Ok(Self {
            add_on: flags.addon_name.clone().unwrap_or_else(|| add_on.to_owned()),
            cluster: flags.cluster_name.clone(),
            namespace: flags.addon_namespace.clone(),
            hub,
            managed,
            home,
            stop: stop.clone(),
        })
    }

    /// The objects of a kind in the cluster's namespace on the hub.
    ///
    /// # Errors
    /// When the agent has no way to the hub.
    pub fn hub_objects<K>(&self) -> Result<Api<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Ok(Api::namespaced(self.way_to_hub()?, &self.cluster))
    }

    /// The objects of a kind in the add-on's namespace on the managed cluster.
    pub fn objects<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.managed.clone(), &self.namespace)
    }

    /// Watches everything `api` shows, for as long as the agent runs.
    pub fn watch<K>(&self, api: Api<K>) -> Cache<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        Cache::start(api, self.stop.clone())
    }

    /// Watches what a label selector matches.
    pub fn watch_labelled<K>(&self, api: Api<K>, selector: &str) -> Cache<K>
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Clone + Eq + Hash + Default + Send + Sync,
    {
        Cache::start_with(api, watcher::Config::default().labels(selector), self.stop.clone())
    }

    /// Makes an object on the managed cluster what `wanted` is: creates it when there is none, sends only what differs
    /// from `current`, and nothing when they agree. An object of that name that `current` does not know is left as it
    /// is.
    ///
    /// # Errors
    /// When the API server does not take it.
    pub async fn save<K>(&self, current: Option<&K>, wanted: &K) -> Result<()>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        carry_out(&self.on_cluster(), &saving(Site::Cluster, current, wanted)).await
    }

    /// The same as [`save`](Self::save) on the hub, where the agent may do what its add-on's
    /// [`hub_permissions`](crate::AddOn::hub_permissions) allow: `create` and `patch`.
    ///
    /// ```no_run
    /// use ocm_addon_sdk::{agent::{AddOnAgent, Result}, k8s_openapi::api::core::v1::ConfigMap};
    ///
    /// /// Tells the hub, in the cluster's namespace there, how many ConfigMaps the add-on's namespace has.
    /// async fn tell(agent: AddOnAgent) -> Result<()> {
    ///     let here = agent.watch(agent.objects::<ConfigMap>());
    ///     let told = agent.watch(agent.hub_objects::<ConfigMap>()?);
    ///     agent.whenever(&[&here, &told], async || {
    ///         let before = told.get(&agent.cluster, "count");
    ///         let mut after = before.as_deref().cloned().unwrap_or_default();
    ///         after.metadata.name = Some("count".to_owned());
    ///         after.metadata.namespace = Some(agent.cluster.clone());
    ///         after.data = Some([("count".to_owned(), here.len().to_string())].into());
    ///         agent.save_on_hub(before.as_deref(), &after).await
    ///     })
    ///     .await
    /// }
    /// ```
    ///
    /// # Errors
    /// When the hub does not take it, or the agent has no way there.
    pub async fn save_on_hub<K>(&self, current: Option<&K>, wanted: &K) -> Result<()>
    where
        K: Resource<DynamicType = ()> + Serialize,
    {
        carry_out(&self.on_hub()?, &saving(Site::Hub, current, wanted)).await
    }

    /// Deletes an object on the managed cluster; that it is gone already is fine.
    ///
    /// # Errors
    /// When the API server does not delete it.
    pub async fn delete<K>(&self, object: &K) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
    {
        let mut plan = Plan::new();
        plan.delete(Site::Cluster, object);
        carry_out(&self.on_cluster(), &plan).await
    }

    /// Deletes an object on the hub, which the add-on's [`hub_permissions`](crate::AddOn::hub_permissions) have to
    /// allow; that it is gone already is fine.
    ///
    /// # Errors
    /// When the hub does not delete it, or the agent has no way there.
    pub async fn delete_on_hub<K>(&self, object: &K) -> Result<()>
    where
        K: Resource<DynamicType = ()>,
    {
        let mut plan = Plan::new();
        plan.delete(Site::Hub, object);
        carry_out(&self.on_hub()?, &plan).await
    }

    /// Deletes everything that `api` shows and a label selector matches, on the managed cluster.
    ///
    /// # Errors
    /// When the API server does not list or delete it.
    pub async fn delete_labelled<K>(&self, api: Api<K>, selector: &str) -> Result<()>
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let found = api.list(&ListParams::default().labels(selector)).await;
        for object in found.with_context(|| format!("could not list what is labelled {selector}"))? {
            self.delete(&object).await?;
        }
        Ok(())
    }

    fn on_cluster(&self) -> Clients {
        Clients::cluster(self.managed.clone())
    }

    fn on_hub(&self) -> Result<Clients> {
        Ok(Clients::hub(self.way_to_hub()?))
    }

    fn way_to_hub(&self) -> Result<Client> {
        let hub = self.hub.clone();
        hub.context("this agent was started without --hub-kubeconfig")
    }
}

/// What makes an object what is wanted: nothing when it is.
fn saving<K>(site: Site, current: Option<&K>, wanted: &K) -> Plan
where
    K: Resource<DynamicType = ()> + Serialize,
{
    let mut plan = Plan::new();
    match current {
        None => {
            plan.create(site, wanted);
        }
        Some(current) => {
            plan.change(site, current, wanted);
        }
    }
    plan
}

async fn carry_out(clients: &Clients, plan: &Plan) -> Result<()> {
    let outcome = execute(clients, plan).await;
    match outcome.stages.into_iter().flatten().find_map(std::result::Result::err) {
        Some(error) => Err(anyhow::Error::new(error).context(format!("could not {plan}").trim().to_owned())),
        None => Ok(()),
    }
}
