//! Runs any number of add-ons with one set of reconcilers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use ocm_reconcile::{Caches, Clients, Controller, Queue, cache::key_of};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    Context, Options, approval::Approval, config_hashes::ConfigHashes, default_hashes::DefaultHashes,
    open_requests::OpenRequests, registration::Registrations, registry::AddError,
    shared_permissions::SharedPermissions, signing::Signer, trigger::Trigger,
};
use crate::{
    AddOn, HubInfo,
    deploy::{Deploy, memory::RenderedMemory},
};

/// The namespace whose uid tells one hub from another.
const LANDMARK: &str = "kube-system";

/// Runs add-ons. Cloning shares it.
///
/// ```no_run
/// use std::sync::Arc;
/// use ocm_addon_sdk::{AddOn, hub::{Caches, Manager, Options}};
/// use tokio_util::sync::CancellationToken;
///
/// /// Beside whatever else the process does on the hub, over the same watches.
/// async fn run(client: kube::Client, add_on: Arc<dyn AddOn>) -> Result<(), Box<dyn std::error::Error>> {
///     let stop = CancellationToken::new();
///     let caches = Caches::new(client.clone(), stop.clone());
///     let manager = Manager::start(client, &caches, Options::default(), stop).await?;
///     manager.add(add_on)?;
///     manager.finished().await;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Manager {
    context: Context,
    queues: Vec<(Keys, Queue)>,
    open: OpenRequests,
    // What the manifests were last made from.
    rendered: Arc<RenderedMemory>,
    running: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

/// What the keys of a controller are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// `cluster/add-on`.
    ManagedClusterAddOns,
    /// Names of add-ons.
    ClusterManagementAddOns,
    /// Names of certificate requests.
    CertificateSigningRequests,
}

/// Why add-ons cannot run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The hub did not say who it is.
    #[error("could not read the hub's namespace {LANDMARK}, by which one hub is told from another")]
    Hub(#[source] kube::Error),
    /// An add-on cannot be taken in.
    #[error("could not take in add-on {0}")]
    Add(String, #[source] AddError),
}

/// Runs these add-ons until cancelled: the whole of an add-on's controller process.
///
/// # Errors
/// When the hub cannot be asked who it is, or an add-on cannot be taken in.
pub async fn run(client: Client, add_ons: Vec<Arc<dyn AddOn>>, cancel: CancellationToken) -> Result<(), StartError> {
    start(client, add_ons, cancel).await?.finished().await;
    Ok(())
}

/// Starts what [`run`] runs. It ends with `cancel`.
///
/// # Errors
/// As [`run`].
pub async fn start(
    client: Client,
    add_ons: Vec<Arc<dyn AddOn>>,
    cancel: CancellationToken,
) -> Result<Manager, StartError> {
    let caches = Caches::new(client.clone(), cancel.clone());
    let mut options = Options::default();
    // Where the program itself runs, its authorities are.
    if let Ok(namespace) = std::env::var("POD_NAMESPACE") {
        options.namespace = namespace;
    }
    let manager = Manager::start(client, &caches, options, cancel).await?;
    for add_on in add_ons {
        let name = add_on.name().to_owned();
        manager.add(add_on).map_err(|error| StartError::Add(name, error))?;
    }
    Ok(manager)
}

impl Manager {
    /// Starts the reconcilers, each when the caches that it reads have arrived. They end with `cancel`.
    /// No add-on runs yet.
    ///
    /// # Errors
    /// When the hub cannot be asked who it is.
    pub async fn start(
        client: Client,
        caches: &Caches,
        options: Options,
        cancel: CancellationToken,
    ) -> Result<Self, StartError> {
        let id = match Api::<Namespace>::all(client.clone()).get(LANDMARK).await {
            Ok(landmark) => landmark.uid().unwrap_or_default(),
            // A program of its own need not be allowed to. Its agents have names that are the same on every hub then.
            Err(kube::Error::Api(status)) if status.code == 403 => String::new(),
            Err(error) => return Err(StartError::Hub(error)),
        };
        let hub = HubInfo {
            id,
            namespace: options.namespace.clone(),
        };
        let (context, rendered) = (Context::over(caches, hub, options), Arc::default());
        let (mut queues, mut running) = (Vec::new(), Vec::new());
        for (keys, controller) in list(&context, &rendered) {
            queues.push((keys, controller.queue().clone()));
            let started = controller.start(Clients::hub(client.clone()), cancel.clone());
            running.push(started.finished);
        }
        Ok(Self {
            open: OpenRequests::of(caches),
            context,
            queues,
            rendered,
            running: Arc::new(Mutex::new(running)),
        })
    }

    /// Ends when all reconcilers have begun, because the caches that they read have arrived.
    pub async fn begun(&self) {
        for (_, queue) in &self.queues {
            queue.begun().await;
        }
    }

    fn add_key(&self, of: Keys, key: &str) {
        let queues = self.queues.iter().filter(|(keys, _)| *keys == of);
        queues.for_each(|(_, queue)| queue.add(key));
    }

    /// Runs an add-on from now on.
    ///
    /// # Errors
    /// When it has no name, one of its name runs already, or it names a kind of configuration wrongly.
    pub fn add(&self, add_on: Arc<dyn AddOn>) -> Result<(), AddError> {
        self.take_in(add_on, false)
    }

    /// Runs an add-on that is made of AddOnTemplates from now on: on those clusters whose configuration names one.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_template(&self, add_on: Arc<dyn AddOn>) -> Result<(), AddError> {
        self.take_in(add_on, true)
    }

    fn take_in(&self, add_on: Arc<dyn AddOn>, of_template: bool) -> Result<(), AddError> {
        let name = add_on.name().to_owned();
        let entry = self.context.registry.add(add_on, of_template)?;
        entry.supported.iter().for_each(|kind| self.context.configs.watch(kind));
        entry.add_on.follow(Trigger::new(self, &name));
        self.add_key(Keys::ClusterManagementAddOns, &name);
        self.trigger_all(&name);
        Ok(())
    }

    /// Runs an add-on no longer. What it has made stays.
    pub fn remove(&self, name: &str) -> bool {
        let removed = self.context.registry.remove(name).is_some();
        if removed {
            self.context.claims.retire(name);
        }
        removed
    }

    /// Looks at an add-on on a cluster anew, because something changed that only its author can know of.
    pub fn trigger(&self, cluster: &str, addon: &str) {
        self.look_at(&format!("{cluster}/{addon}"));
    }

    /// Looks at an add-on anew on every cluster.
    pub fn trigger_all(&self, addon: &str) {
        for it in self.context.addons.list() {
            if it.name_any() == addon {
                self.look_at(&key_of(&*it));
            }
        }
    }

    fn look_at(&self, key: &str) {
        self.rendered.forget(key);
        self.add_key(Keys::ManagedClusterAddOns, key);
        for request in self.open.get(key) {
            self.add_key(Keys::CertificateSigningRequests, &request);
        }
    }

    /// What the reconcilers have in common.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Ends when all reconcilers have ended, which they do after they were cancelled.
    pub async fn finished(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        futures::future::join_all(running).await;
    }
}

/// The controllers of add-ons over these caches, for who wants to know what they read and write.
pub fn controllers(caches: &Caches, options: Options) -> Vec<Controller> {
    let hub = HubInfo {
        id: String::new(),
        namespace: options.namespace.clone(),
    };
    let all = list(&Context::over(caches, hub, options), &Arc::default());
    all.into_iter().map(|(_, controller)| controller).collect()
}

/// The one list of what runs for add-ons.
fn list(context: &Context, rendered: &Arc<RenderedMemory>) -> Vec<(Keys, Controller)> {
    vec![
        (
            Keys::ManagedClusterAddOns,
            Controller::new(Deploy::new(context, rendered)),
        ),
        (Keys::ManagedClusterAddOns, Controller::new(Registrations::new(context))),
        (Keys::ManagedClusterAddOns, Controller::new(ConfigHashes::new(context))),
        (
            Keys::ClusterManagementAddOns,
            Controller::new(SharedPermissions::new(context)),
        ),
        (
            Keys::ClusterManagementAddOns,
            Controller::new(DefaultHashes::new(context)),
        ),
        (
            Keys::CertificateSigningRequests,
            Controller::new(Approval::new(context)),
        ),
        (Keys::CertificateSigningRequests, Controller::new(Signer::new(context))),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn controllers_are_listed_without_a_server_and_share_no_status() {
        let all = controllers(&Caches::unfed(), Options::default());
        let names: Vec<_> = all.iter().map(|it| it.name).collect();
        assert_eq!(
            names,
            [
                "addon-deploy",
                "addon-registration",
                "addon-config",
                "addon-shared-permissions",
                "management-addon-config",
                "addon-csr-approval",
                "addon-csr-signing",
            ]
        );
        let mut authors = BTreeMap::new();
        for controller in &all {
            assert!(controller.watches.iter().any(|it| it.wakes), "{}", controller.name);
            for field in controller.status.iter().filter(|it| it.shared.is_empty()) {
                let of = (field.kind, field.field, field.condition);
                assert_eq!(authors.insert(of, controller.name), None, "{field}");
            }
        }
    }
}
