//! Runs any number of add-ons with one set of reconcilers.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt};
use ocm_reconcile::{Clients, Queue, Reconciler, awaited::Need, cache::key_of, spawn_when};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    Caches, Context, Options,
    approval::Approval,
    claims::Claims,
    config_hashes::{self, ConfigHashes},
    default_hashes::{self, DefaultHashes},
    open_requests::OpenRequests,
    registration::{self, Registrations},
    registry::{AddError, Registry},
    shared_permissions::SharedPermissions,
    signing::Signer,
};
use crate::{
    AddOn, Hub,
    deploy::{Deploy, memory::Memory, reconciler},
};

/// How many keys one reconciler works on at a time. Upstream has 1; ours share nothing between keys.
const WORKERS: usize = 4;

/// The namespace whose uid tells one hub from another.
const LANDMARK: &str = "kube-system";

/// Runs add-ons. Cloning shares it.
#[derive(Clone)]
pub struct Manager {
    context: Context,
    // Queues whose keys are `cluster/add-on`.
    places: Vec<Queue>,
    // Queues whose keys are names of add-ons.
    names: Vec<Queue>,
    // Queues whose keys are names of certificate requests.
    requests: Vec<Queue>,
    open: Arc<OpenRequests>,
    // What the manifests were last made from.
    rendered: Arc<Memory>,
    running: Arc<Mutex<Vec<JoinHandle<()>>>>,
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
    let caches = Caches::start(&client, &cancel);
    let mut options = Options::default();
    // Where the program itself runs, its authorities are.
    if let Ok(namespace) = std::env::var("POD_NAMESPACE") {
        options.namespace = namespace;
    }
    let manager = Manager::start(client, caches, options, cancel).await?;
    for add_on in add_ons {
        let name = add_on.name().to_owned();
        manager.add(add_on).map_err(|error| StartError::Add(name, error))?;
    }
    Ok(manager)
}

impl Manager {
    /// Starts the reconcilers, each when the caches that it reads have arrived. They end with `cancel`. No add-on runs yet.
    ///
    /// # Errors
    /// When the hub cannot be asked who it is.
    pub async fn start(
        client: Client,
        caches: Caches,
        options: Options,
        cancel: CancellationToken,
    ) -> Result<Self, StartError> {
        let id = match Api::<Namespace>::all(client.clone()).get(LANDMARK).await {
            Ok(landmark) => landmark.uid().unwrap_or_default(),
            // A program of its own need not be allowed to. Its agents have names that are the same on every hub then.
            Err(kube::Error::Api(status)) if status.code == 403 => String::new(),
            Err(error) => return Err(StartError::Hub(error)),
        };
        let context = Context {
            hub: Arc::new(Hub {
                id,
                namespace: options.namespace.clone(),
            }),
            client,
            caches,
            registry: Registry::default(),
            claims: Claims::default(),
            options: Arc::new(options),
        };
        let mut manager = Self {
            open: OpenRequests::of(&context.caches.requests),
            context,
            places: Vec::new(),
            names: Vec::new(),
            requests: Vec::new(),
            rendered: Arc::default(),
            running: Arc::default(),
        };
        manager.start_all(&cancel);
        Ok(manager)
    }

    /// The one list of what runs for add-ons.
    fn start_all(&mut self, cancel: &CancellationToken) {
        let context = self.context.clone();
        let caches = context.caches.clone();
        let places = || vec![Need::of(&caches.addons), Need::of(&caches.clusters)];
        // RBAC objects that we may not list are looked at one by one: a program of its own need not be allowed to.
        let rights = |mut needs: Vec<Need>| {
            needs.extend([
                Need::if_allowed(&caches.roles),
                Need::if_allowed(&caches.role_bindings),
                Need::if_allowed(&caches.cluster_roles),
                Need::if_allowed(&caches.cluster_role_bindings),
            ]);
            needs
        };
        let with = |mut needs: Vec<Need>, more: Need| {
            needs.push(more);
            needs
        };

        let deploy = Deploy::new(&context, &self.rendered);
        let all = context.clone();
        let queue = self.go(
            with(places(), Need::of(&caches.works)),
            deploy,
            move |queue| reconciler::subscribe(&all, queue),
            cancel,
        );
        self.places.push(queue);

        let all = context.clone();
        let queue = self.go(
            with(rights(places()), Need::of(&caches.cluster_management_addons)),
            Registrations::new(&context),
            move |queue| registration::subscribe(&all, queue),
            cancel,
        );
        self.places.push(queue);

        let claims = context.claims.clone();
        let queue = self.go(
            rights(vec![Need::of(&caches.addons)]),
            SharedPermissions::new(&context),
            move |queue| claims.subscribe(queue),
            cancel,
        );
        self.names.push(queue);

        let all = context.clone();
        let queue = self.go(
            places(),
            ConfigHashes::new(&context),
            move |queue| config_hashes::subscribe(&all, queue),
            cancel,
        );
        self.places.push(queue);

        let all = context.clone();
        let queue = self.go(
            vec![Need::of(&caches.cluster_management_addons)],
            DefaultHashes::new(&context),
            move |queue| default_hashes::subscribe(&all, queue),
            cancel,
        );
        self.names.push(queue);

        let (open, all) = (self.open.clone(), context.clone());
        let queue = self.go(
            with(places(), Need::of(&caches.requests)),
            Approval::new(&context),
            move |queue| open.subscribe(&all, queue),
            cancel,
        );
        self.requests.push(queue);

        let (open, all, queue) = (self.open.clone(), context.clone(), Queue::awaiting());
        let signer = Signer::new(&context, &queue, cancel);
        self.requests.push(queue.clone());
        self.go_with(
            with(places(), Need::of(&caches.requests)),
            signer,
            move |queue| open.subscribe(&all, queue),
            queue,
            cancel,
        );
    }

    fn go<R: Reconciler>(
        &self,
        needs: Vec<Need>,
        reconciler: R,
        subscribe: impl FnOnce(&Queue) + Send + 'static,
        cancel: &CancellationToken,
    ) -> Queue {
        let queue = Queue::awaiting();
        self.go_with(needs, reconciler, subscribe, queue.clone(), cancel);
        queue
    }

    fn go_with<R: Reconciler>(
        &self,
        needs: Vec<Need>,
        reconciler: R,
        subscribe: impl FnOnce(&Queue) + Send + 'static,
        queue: Queue,
        cancel: &CancellationToken,
    ) {
        let clients = Clients::hub(self.context.client.clone());
        let running = spawn_when(needs, reconciler, subscribe, clients, queue, WORKERS, cancel.clone());
        self.running.lock().push(running.finished);
    }

    /// Ends when all reconcilers have begun, because the caches that they read have arrived.
    pub async fn begun(&self) {
        for queue in self.places.iter().chain(&self.names).chain(&self.requests) {
            queue.begun().await;
        }
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
        entry
            .supported
            .iter()
            .for_each(|kind| self.context.caches.configs.watch(kind));
        self.names.iter().for_each(|queue| queue.add(&name));
        for addon in self.context.caches.addons.list() {
            if addon.name_any() == name {
                self.look_at(&key_of(&*addon));
            }
        }
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

    fn look_at(&self, key: &str) {
        self.rendered.forget(key);
        self.places.iter().for_each(|queue| queue.add(key));
        for request in self.open.get(key) {
            self.requests.iter().for_each(|queue| queue.add(&request));
        }
    }

    /// What the reconcilers stand on.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Ends when all reconcilers have ended, which they do after they were cancelled.
    pub async fn finished(&self) {
        let running = std::mem::take(&mut *self.running.lock());
        futures::future::join_all(running).await;
    }
}
