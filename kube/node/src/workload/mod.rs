//! The controllers of workloads, which make pods and keep them, and of the budgets that say how many
//! of them may go. They run nothing themselves.
//!
//! One worker takes keys one by one: what one pass writes, the next one sees, as every answer goes into the caches.

mod budget;
mod daemon_set;
mod deployment;
mod disruption;
mod job;
mod pods;
mod replica_set;
mod rollout;
mod stateful_set;

use crate::events::{self, EventType, Recorder};
use futures::FutureExt;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet},
    batch::v1::Job,
    core::v1::{Node, Pod},
    policy::v1::PodDisruptionBudget,
};
use kube::{Api, Client, Resource};
use kube_primitives::{
    cache::{Cache, Watching},
    queue,
};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt::Debug, future::Future, panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// What wants a look.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKey {
    /// An object by kind, namespace and name.
    Object(WorkloadKind, String, String),
    /// A pod without an owner came or changed in this namespace; somebody may want it.
    Orphan(String),
    /// A node came, changed or went.
    Nodes,
    /// Pods of this namespace are others, or their controllers want another number; a budget may count them.
    Counted(String),
}

/// The kinds that own pods, Deployments, and the budgets over pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    Deployment,
    ReplicaSet,
    DaemonSet,
    StatefulSet,
    Job,
    Budget,
}

impl WorkloadKind {
    fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            "ReplicaSet" => Self::ReplicaSet,
            "DaemonSet" => Self::DaemonSet,
            "StatefulSet" => Self::StatefulSet,
            "Job" => Self::Job,
            _ => return None,
        })
    }
}

pub type WorkloadQueue = queue::Queue<WorkloadKey>;

/// What goes wrong on the way: the API server does not answer or refuses.
type Error = kube::Error;

/// When to look again without any event.
type Again = Option<Duration>;

/// Queues what a change of a pod touches.
pub fn pod_changed(queue: &WorkloadQueue, pod: &Pod) {
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    queue.add(WorkloadKey::Counted(namespace.clone()));
    match pods::controller(&pod.metadata) {
        Some(owner) => {
            if let Some(kind) = WorkloadKind::of(&owner.kind) {
                queue.add(WorkloadKey::Object(kind, namespace, owner.name.clone()));
            }
        }
        None if pod.metadata.labels.is_some() => queue.add(WorkloadKey::Orphan(namespace)),
        None => {}
    }
}

/// Queues what a change of a node touches.
pub fn nodes_changed(queue: &WorkloadQueue) {
    queue.add(WorkloadKey::Nodes);
}

/// What the controllers share.
struct Workloads {
    client: Client,
    pods: Cache<Pod>,
    deployments: Cache<Deployment>,
    replica_sets: Cache<ReplicaSet>,
    daemon_sets: Cache<DaemonSet>,
    stateful_sets: Cache<StatefulSet>,
    jobs: Cache<Job>,
    budgets: Cache<PodDisruptionBudget>,
    remarks: disruption::Remarks,
    nodes: Cache<Node>,
    queue: WorkloadQueue,
    recorder: Recorder,
}

/// Runs the controllers until the end.
pub async fn run(
    client: Client,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
    queue: WorkloadQueue,
    recorder: Recorder,
    cancel: CancellationToken,
) {
    let workloads = Workloads {
        deployments: owners(&client, WorkloadKind::Deployment, &queue, &cancel, |it| {
            Some(disruption::of_deployment(it))
        }),
        replica_sets: {
            let queue = queue.clone();
            let changed = move |old: Option<&Arc<ReplicaSet>>, new: Option<&Arc<ReplicaSet>>| {
                for it in old.into_iter().chain(new) {
                    queue.add(key(WorkloadKind::ReplicaSet, &**it));
                    if let Some(owner) = pods::controller(&it.metadata).filter(|it| it.kind == "Deployment") {
                        let namespace = it.metadata.namespace.clone().unwrap_or_default();
                        queue.add(WorkloadKey::Object(
                            WorkloadKind::Deployment,
                            namespace,
                            owner.name.clone(),
                        ));
                    }
                }
                count_again(&queue, old, new, |it| Some(disruption::of_replica_set(it)));
            };
            let cache = Cache::start(Api::<ReplicaSet>::all(client.clone()), cancel.clone());
            cache.listen(changed);
            cache
        },
        daemon_sets: owners(&client, WorkloadKind::DaemonSet, &queue, &cancel, |_| None),
        stateful_sets: owners(&client, WorkloadKind::StatefulSet, &queue, &cancel, |it| {
            Some(disruption::of_stateful_set(it))
        }),
        jobs: owners(&client, WorkloadKind::Job, &queue, &cancel, |_| None),
        budgets: owners(&client, WorkloadKind::Budget, &queue, &cancel, |_| None),
        remarks: disruption::Remarks::default(),
        client,
        pods,
        nodes,
        queue: queue.clone(),
        recorder,
    };
    let all = async {
        workloads.pods.synced().await;
        workloads.nodes.synced().await;
        workloads.deployments.synced().await;
        workloads.replica_sets.synced().await;
        workloads.daemon_sets.synced().await;
        workloads.stateful_sets.synced().await;
        workloads.jobs.synced().await;
        // Budgets are not waited for: they are looked at as they arrive, and where this user may not see them,
        // workloads go on without.
        let workloads = &workloads;
        work(&queue, |key| async move { workloads.look(&key).await }).await;
    };
    tokio::select! {
        () = cancel.cancelled() => {}
        () = all => {}
    }
}

/// Looks at one key after the other, for ever. A look that panics is one that failed: all others wait for this worker,
/// and after a restart the same object would end it again.
async fn work<L>(queue: &WorkloadQueue, look: impl Fn(WorkloadKey) -> L)
where
    L: Future<Output = Result<Again, Error>>,
{
    loop {
        let key = queue.next().await;
        match AssertUnwindSafe(look(key.clone())).catch_unwind().await {
            Ok(Ok(again)) => queue.done(&key, again),
            Ok(Err(error)) => {
                let delay = queue.failed(&key);
                tracing::debug!(?key, %error, ?delay, "will try again");
            }
            // What it said has been written where panics are written.
            Err(_) => {
                let delay = queue.failed(&key);
                tracing::error!(?key, ?delay, "a look at an object panicked, will try again");
            }
        }
    }
}

fn key<K: Resource>(kind: WorkloadKind, object: &K) -> WorkloadKey {
    let meta = object.meta();
    WorkloadKey::Object(
        kind,
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}

/// Has the budgets of a namespace looked at when a controller of pods came, went or wants another number of them.
fn count_again<K: Resource>(
    queue: &WorkloadQueue,
    old: Option<&Arc<K>>,
    new: Option<&Arc<K>>,
    wants: impl Fn(&K) -> Option<i32>,
) {
    let count = |it: Option<&Arc<K>>| it.map(|it| (it.meta().uid.clone(), wants(it)));
    if count(old) != count(new)
        && let Some(it) = new.or(old)
    {
        queue.add(WorkloadKey::Counted(it.meta().namespace.clone().unwrap_or_default()));
    }
}

/// The objects of one kind, which are looked at when they change; `wants` tells how many pods one that scales asks for.
fn owners<K>(
    client: &Client,
    kind: WorkloadKind,
    queue: &WorkloadQueue,
    cancel: &CancellationToken,
    wants: fn(&K) -> Option<i32>,
) -> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let queue = queue.clone();
    let watching = Watching {
        // Who runs workloads may be refused the budgets.
        forbidden_at_first: kind == WorkloadKind::Budget,
        ..Watching::default()
    };
    let cache = Cache::start_watching(Api::<K>::all(client.clone()), watching, cancel.clone());
    cache.listen(move |old, new| {
        old.into_iter().chain(new).for_each(|it| queue.add(key(kind, &**it)));
        count_again(&queue, old, new, wants);
    });
    cache
}

impl Workloads {
    async fn look(&self, key: &WorkloadKey) -> Result<Again, Error> {
        match key {
            WorkloadKey::Orphan(namespace) => {
                let add = |key| self.queue.add(key);
                self.replica_sets
                    .list_in(namespace)
                    .iter()
                    .for_each(|it| add(self::key(WorkloadKind::ReplicaSet, &**it)));
                self.daemon_sets
                    .list_in(namespace)
                    .iter()
                    .for_each(|it| add(self::key(WorkloadKind::DaemonSet, &**it)));
                self.stateful_sets
                    .list_in(namespace)
                    .iter()
                    .for_each(|it| add(self::key(WorkloadKind::StatefulSet, &**it)));
                Ok(None)
            }
            WorkloadKey::Counted(namespace) => {
                let budgets = self.budgets.list_in(namespace);
                budgets
                    .iter()
                    .for_each(|it| self.queue.add(self::key(WorkloadKind::Budget, &**it)));
                Ok(None)
            }
            WorkloadKey::Nodes => {
                let sets = self.daemon_sets.list();
                sets.iter()
                    .for_each(|it| self.queue.add(self::key(WorkloadKind::DaemonSet, &**it)));
                Ok(None)
            }
            // One that is gone needs nothing: its pods are collected.
            WorkloadKey::Object(WorkloadKind::Deployment, namespace, name) => {
                match self.deployments.get(namespace, name) {
                    Some(it) => self.deployment(&it).await,
                    None => Ok(None),
                }
            }
            WorkloadKey::Object(WorkloadKind::ReplicaSet, namespace, name) => {
                match self.replica_sets.get(namespace, name) {
                    Some(it) => self.replica_set(&it).await,
                    None => Ok(None),
                }
            }
            WorkloadKey::Object(WorkloadKind::DaemonSet, namespace, name) => {
                match self.daemon_sets.get(namespace, name) {
                    Some(it) => self.daemon_set(&it).await,
                    None => Ok(None),
                }
            }
            WorkloadKey::Object(WorkloadKind::StatefulSet, namespace, name) => {
                match self.stateful_sets.get(namespace, name) {
                    Some(it) => self.stateful_set(&it).await,
                    None => Ok(None),
                }
            }
            WorkloadKey::Object(WorkloadKind::Job, namespace, name) => match self.jobs.get(namespace, name) {
                Some(it) => self.job(&it).await,
                None => Ok(None),
            },
            WorkloadKey::Object(WorkloadKind::Budget, namespace, name) => match self.budgets.get(namespace, name) {
                Some(it) => self.budget(&it).await,
                None => {
                    self.budget_gone(namespace, name);
                    Ok(None)
                }
            },
        }
    }

    fn api<K>(&self, namespace: Option<&str>) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), namespace.unwrap_or_default())
    }

    /// Tells an event about one of the owners.
    fn tell<K>(
        &self,
        owner: &K,
        component: &'static str,
        kind: EventType,
        reason: &'static str,
        text: impl Into<String>,
    ) where
        K: Resource,
        K::DynamicType: Default,
    {
        self.recorder
            .tell(events::reference(owner), component, kind, reason, text);
    }

    /// Writes a status if it differs from the one that is known, and puts the answer into the cache.
    async fn write_status<K, S>(&self, cache: &Cache<K>, object: &K, before: Option<&S>, after: &S) -> Result<(), Error>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug
            + Send
            + Sync
            + 'static,
        K::DynamicType: Default,
        S: Serialize + PartialEq,
    {
        if before == Some(after) {
            return Ok(());
        }
        let mut patch = serde_json::to_value(after).map_err(Error::SerdeError)?;
        let before = serde_json::to_value(before).map_err(Error::SerdeError)?;
        if let (Some(patch), Some(before)) = (patch.as_object_mut(), before.as_object()) {
            for field in before.keys() {
                patch.entry(field.clone()).or_insert(serde_json::Value::Null);
            }
        }
        let meta = object.meta();
        let patch = serde_json::json!({"metadata": {"uid": meta.uid}, "status": patch});
        let name = meta.name.as_deref().unwrap_or_default();
        let api = self.api::<K>(meta.namespace.as_deref());
        let params = kube::api::PatchParams::default();
        let written = api.patch_status(name, &params, &kube::api::Patch::Merge(&patch)).await;
        match written {
            Ok(written) => cache.put(written),
            // It is gone, or another one of its name.
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use tokio::sync::Notify;

    #[tokio::test]
    async fn a_panicking_reconcile_is_retried_and_blocks_no_other() {
        let job = |name: &str| WorkloadKey::Object(WorkloadKind::Job, "default".to_owned(), name.to_owned());
        let (queue, looks, done) = (WorkloadQueue::default(), Mutex::new(Vec::new()), Notify::new());
        queue.add(job("bad"));
        let look = |key: WorkloadKey| {
            looks.lock().push(key.clone());
            match looks.lock().len() {
                1 => queue.add(job("good")),
                3.. => done.notify_one(),
                _ => {}
            }
            let is_bad = key == job("bad");
            async move {
                assert!(!is_bad, "a look at a bad object panics");
                Ok(None)
            }
        };
        tokio::select! {
            () = work(&queue, look) => {}
            () = done.notified() => {}
        }
        assert_eq!(*looks.lock(), [job("bad"), job("good"), job("bad")]);
    }
}
