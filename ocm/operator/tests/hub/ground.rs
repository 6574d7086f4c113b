//! An embedded API with a ClusterManager and its operator, whose Deployments run as soon as they are written.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures::StreamExt;
use http::{Method, Request, Response};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
    client::Body,
    runtime::watcher,
};
use ocm_api::{condition, operator::ClusterManager};
use ocm_reconcile::{install, rbac::Right};
use operator::{Layout, hub::Options};
use serde_json::{Value, json};
use testkit::{Site, wait};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::{BoxError, Service};

pub const NAMESPACE: &str = "open-cluster-management-hub";
pub const NAME: &str = "cluster-manager";

/// An embedded API with the operator's kinds.
pub struct Ground {
    pub site: Site,
    kubelet: CancellationToken,
}

/// An operator that runs.
pub struct Running {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// Waits until it has ended by itself.
    pub async fn finished(self) {
        for task in self.tasks {
            task.await.unwrap();
        }
    }

    /// Waits until it has ended by itself, and stops it when that takes too long: it had nothing left to do.
    pub async fn finished_within(self, patience: std::time::Duration) {
        let stop = self.stop.clone();
        let finished = self.finished();
        tokio::pin!(finished);
        if tokio::time::timeout(patience, &mut finished).await.is_err() {
            stop.cancel();
            finished.await;
        }
    }

    /// Stops it, as SIGTERM does.
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

const RIGHTS: &[Right] = &[Right::new("", "namespaces", "list", "A right of a hub.")];

pub fn options(layout: Layout) -> Options {
    Options {
        layout,
        compact_rights: RIGHTS,
        ..Options::default()
    }
}

impl Ground {
    pub async fn start() -> Self {
        let site = Site::start().await.unwrap();
        install::install_crds(&site.client(), ocm_api::crds::operator())
            .await
            .unwrap();
        Self {
            site,
            kubelet: CancellationToken::new(),
        }
    }

    pub fn client(&self) -> Client {
        self.site.client()
    }

    /// From now on the pods of Deployments run whose image is not `broken`.
    pub fn run_pods(&self) {
        let (client, stop) = (self.client(), self.kubelet.clone());
        tokio::spawn(async move {
            let all: Api<Deployment> = Api::all(client.clone());
            let mut events = std::pin::pin!(watcher::watcher(all, watcher::Config::default()));
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = events.next() => event,
                };
                if let Some(Ok(watcher::Event::InitApply(it) | watcher::Event::Apply(it))) = event {
                    run(&client, &it).await;
                }
            }
        });
    }

    /// The operator, with everything that the API lets an administrator do.
    pub async fn operator(&self, options: Options) -> Running {
        self.operator_as(self.client(), options, CancellationToken::new()).await
    }

    pub async fn operator_as(&self, client: Client, options: Options, stop: CancellationToken) -> Running {
        let running = operator::hub::start(client, options, stop.clone()).await;
        Running {
            stop,
            tasks: running.into_iter().map(|it| it.finished).collect(),
        }
    }

    /// The operator, until it has written so many times: then it is as dead as one that was killed.
    pub async fn operator_that_dies(&self, options: Options, writes: usize) -> Running {
        let stop = CancellationToken::new();
        let dying = Dying {
            left: Arc::new(AtomicUsize::new(writes)),
            stop: stop.clone(),
            client: self.client(),
        };
        self.operator_as(Client::new(dying, "default"), options, stop).await
    }

    pub fn managers(&self) -> Api<ClusterManager> {
        Api::all(self.client())
    }

    /// Creates the ClusterManager, or gives it another specification.
    pub async fn ask(&self, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": "operator.open-cluster-management.io/v1", "kind": "ClusterManager",
            "metadata": {"name": name}, "spec": spec,
        });
        let managers = self.managers();
        match managers.get_opt(name).await.unwrap() {
            None => {
                let object = serde_json::from_value(object).unwrap();
                managers.create(&PostParams::default(), &object).await.unwrap();
            }
            Some(found) => {
                let mut object = object;
                object["metadata"] = json!(found.metadata);
                let object = serde_json::from_value(object).unwrap();
                managers.replace(name, &PostParams::default(), &object).await.unwrap();
            }
        }
    }

    /// Waits until the ClusterManager says so of its present generation, and returns it.
    pub async fn until(&self, what: &str, holds: impl Fn(&ClusterManager) -> bool) -> ClusterManager {
        let is_of_now = |it: &ClusterManager| {
            let seen = it.status.as_ref().map(|it| it.observed_generation);
            seen == it.metadata.generation
        };
        let found = wait::until(&self.managers(), NAME, what, |it| {
            it.is_some_and(|it| is_of_now(it) && holds(it))
        })
        .await;
        found.unwrap()
    }

    /// Waits until everything is there, and runs.
    pub async fn until_up_to_date(&self) -> ClusterManager {
        self.until("is up to date", |it| {
            says(it, "Applied", "True") && says(it, "Progressing", "False")
        })
        .await
    }

    /// Names of the objects of a kind, sorted.
    pub async fn names(&self, api_version: &str, kind: &str, namespace: &str) -> Vec<String> {
        let api = self.site.api(api_version, kind, namespace).await;
        let list = api.list(&ListParams::default()).await.unwrap();
        let mut names: Vec<String> = list.iter().map(ResourceExt::name_any).collect();
        names.sort();
        names
    }

    pub async fn deployments(&self) -> Vec<String> {
        self.names("apps/v1", "Deployment", NAMESPACE).await
    }

    pub async fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
        let api = self.site.api(api_version, kind, namespace).await;
        json!(api.get(name).await.unwrap())
    }

    pub async fn patch(&self, api_version: &str, kind: &str, namespace: &str, name: &str, patch: Value) {
        let api = self.site.api(api_version, kind, namespace).await;
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub async fn stop(self) {
        self.kubelet.cancel();
        self.site.stop().await;
    }
}

/// Whether a condition has this status.
pub fn says(manager: &ClusterManager, r#type: &str, status: &str) -> bool {
    of(manager, r#type).is_some_and(|it| it.0 == status)
}

/// Status, reason and message of a condition.
pub fn of(manager: &ClusterManager, r#type: &str) -> Option<(String, String, String)> {
    let found = condition::find(&manager.status.as_ref()?.conditions, r#type)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

async fn run(client: &Client, deployment: &Deployment) {
    let text = json!(deployment).to_string();
    if text.contains(":broken") {
        return;
    }
    let replicas = deployment.spec.replicas.unwrap_or(1);
    let status = json!({
        "observedGeneration": deployment.metadata.generation, "replicas": replicas, "readyReplicas": replicas,
        "availableReplicas": replicas, "updatedReplicas": replicas,
    });
    let now = json!(deployment.status);
    if status
        .as_object()
        .unwrap()
        .iter()
        .all(|(key, value)| now[key] == *value)
    {
        return;
    }
    let api: Api<Deployment> = Api::namespaced(client.clone(), &deployment.namespace().unwrap_or_default());
    let patch = Patch::Merge(json!({ "status": status }));
    // One that is gone meanwhile needs no pods.
    let _ = api
        .patch_status(&deployment.name_any(), &PatchParams::default(), &patch)
        .await;
}

/// A client of a process that is killed when it has written so many times.
#[derive(Clone)]
struct Dying {
    left: Arc<AtomicUsize>,
    stop: CancellationToken,
    client: Client,
}

impl Service<Request<Body>> for Dying {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let spend = |left: usize| left.checked_sub(1);
        let lives = is_read
            || self
                .left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, spend)
                .is_ok();
        if !lives {
            self.stop.cancel();
        }
        let client = self.client.clone();
        Box::pin(async move {
            match lives {
                true => Ok(client.send(request).await?),
                false => Err("the process was killed".into()),
            }
        })
    }
}
