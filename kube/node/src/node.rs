//! The node: what is shared by everything that runs on it, how it starts and how it stops.

use crate::{
    events::Recorder,
    images::ImageMap,
    logs::Logs,
    pod::{self, fields::Capacity},
    process::Spawner,
    reach::PodReach,
    references::References,
    register, schedule,
    services::Services,
    workload,
};
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::{Api, Client};
use kube_primitives::cache::Cache;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    io,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What pods are told about the API server.
#[derive(Clone, Debug)]
pub struct ApiServer {
    /// A name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// PEM of the certificates that it is verified with.
    pub ca_pem: String,
}

/// How to start a node.
#[derive(Clone, Debug)]
pub struct Options {
    /// The name of the Node.
    pub name: String,
    /// Where pods have their files; private to the node.
    pub dir: PathBuf,
    /// Which commands stand for which images.
    pub images: ImageMap,
    /// What pods are told about the API server; `None` gives them no credentials.
    pub api_server: Option<ApiServer>,
    /// How long pods get to end when the node stops, if they do not want less.
    pub stop_grace: Duration,
    /// Whether the controllers of Deployments and their like run here too. Kubernetes' own controller manager has them.
    pub workloads: bool,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The directory cannot be used.
    #[error("the directory {path} of the node cannot be used")]
    Directory { path: String, source: io::Error },
    /// The system gives no thread.
    #[error("could not start the thread that spawns processes")]
    Thread(#[source] io::Error),
}

/// What everything on the node shares.
pub struct NodeServices {
    pub client: Client,
    pub pods_dir: PathBuf,
    pub claims_dir: PathBuf,
    /// Where pods may have something made that they name on the host.
    pub host_dir: PathBuf,
    pub images: ImageMap,
    pub api_server: Option<ApiServer>,
    pub stop_grace: Duration,
    pub capacity: Capacity,
    pub spawner: Spawner,
    pub recorder: Recorder,
    pub references: References,
    pub logs: Logs,
    pub reach: PodReach,
    /// The names of Services, where containers can see them.
    pub services: Option<Services>,
    /// Changes when any container's state does.
    pub statuses: watch::Sender<u64>,
    pub cancel: CancellationToken,
}

/// A running node.
pub struct Node {
    name: String,
    logs: Logs,
    reach: PodReach,
    tasks: TaskTracker,
}

impl Node {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The logs of its pods.
    pub fn logs(&self) -> &Logs {
        &self.logs
    }

    /// The way into its pods.
    pub fn reach(&self) -> &PodReach {
        &self.reach
    }

    /// Waits until everything has ended after the cancellation: when this returns, no process of it is left.
    pub async fn finished(self) {
        self.tasks.wait().await;
    }
}

/// Starts a node against the API of `client`, which may be any Kubernetes. It stops with `cancel`.
///
/// # Errors
/// When the directory cannot be used.
pub async fn start(client: Client, options: Options, cancel: CancellationToken) -> Result<Node, StartError> {
    let pods_dir = options.dir.join("pods");
    let claims_dir = options.dir.join("claims");
    let host_dir = options.dir.join("host");
    for dir in [&pods_dir, &claims_dir, &host_dir] {
        pod::private_dir(dir).map_err(|source| StartError::Directory {
            path: dir.display().to_string(),
            source,
        })?;
    }
    // Containers have their own working directory, from which a relative path would lead elsewhere.
    let absolute = |dir: PathBuf| {
        std::fs::canonicalize(&dir).map_err(|source| StartError::Directory {
            path: dir.display().to_string(),
            source,
        })
    };
    let (pods_dir, claims_dir, host_dir) = (absolute(pods_dir)?, absolute(claims_dir)?, absolute(host_dir)?);
    let pods_of_before = directories(&pods_dir);
    let spawner = Spawner::start(options.dir.join("running")).map_err(StartError::Thread)?;
    let tasks = TaskTracker::new();
    let recorder = Recorder::start(client.clone(), options.name.clone(), cancel.clone());
    let capacity = register::capacity();
    let pods = Cache::start(Api::<Pod>::all(client.clone()), cancel.clone());
    let nodes = Cache::start(Api::<NodeObject>::all(client.clone()), cancel.clone());
    let services = sees_files(&options.dir)
        .then(|| Services::start(client.clone(), pods.clone(), options.api_server.clone(), cancel.clone()));
    let ground = Arc::new(NodeServices {
        services,
        logs: Logs::new(pods_dir.clone(), pods.clone()),
        reach: PodReach::new(pods.clone()),
        references: References::new(client.clone()),
        client: client.clone(),
        pods_dir,
        claims_dir,
        host_dir,
        images: options.images,
        api_server: options.api_server,
        stop_grace: options.stop_grace,
        capacity,
        spawner,
        recorder: recorder.clone(),
        statuses: watch::Sender::new(0),
        cancel: cancel.clone(),
    });
    let known = pods.clone();
    let (to_schedule, to_work_on) = (schedule::queue(), workload::WorkloadQueue::default());
    let triggers = Arc::new(Triggers {
        schedule: to_schedule.clone(),
        workloads: options.workloads.then(|| to_work_on.clone()),
        runs: Mutex::default(),
        ground: Arc::downgrade(&ground),
        tasks: tasks.clone(),
        name: options.name.clone(),
    });
    let told = triggers.clone();
    pods.listen(move |old, new| told.pod(old, new));
    nodes.listen(move |_, _| triggers.node());
    tasks.spawn(register::keep(
        client.clone(),
        options.name.clone(),
        capacity,
        cancel.clone(),
    ));
    tasks.spawn(schedule::run(schedule::Scheduler {
        client: client.clone(),
        name: options.name.clone(),
        pods: pods.clone(),
        nodes: nodes.clone(),
        queue: to_schedule,
        recorder: recorder.clone(),
        cancel: cancel.clone(),
    }));
    if options.workloads {
        tasks.spawn(workload::run(client, pods, nodes, to_work_on, recorder, cancel.clone()));
    }
    tasks.spawn(forget_gone(pods_of_before, ground.clone(), cancel.clone(), known));
    let (logs, reach) = (ground.logs.clone(), ground.reach.clone());
    // The ground lives until the node stops: pods come and go.
    tasks.spawn(async move {
        cancel.cancelled().await;
        drop(ground);
    });
    tasks.close();
    Ok(Node {
        name: options.name,
        logs,
        reach,
        tasks,
    })
}

/// Whether containers can be shown files where they look for them.
#[cfg(target_os = "linux")]
fn sees_files(dir: &std::path::Path) -> bool {
    crate::view::View::is_possible(dir)
}

#[cfg(not(target_os = "linux"))]
fn sees_files(_: &std::path::Path) -> bool {
    false
}

fn directories(dir: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|it| it.file_name().into_string().ok()).collect()
}

/// Removes the directories of pods that went while no node was there.
async fn forget_gone(before: Vec<String>, ground: Arc<NodeServices>, cancel: CancellationToken, pods: Cache<Pod>) {
    tokio::select! {
        () = cancel.cancelled() => return,
        () = pods.synced() => {}
    }
    let here: Vec<String> = pods.list().iter().filter_map(|it| it.metadata.uid.clone()).collect();
    for uid in before.iter().filter(|it| !here.contains(it)) {
        // A leftover costs some space, no more.
        let _ = std::fs::remove_dir_all(ground.pods_dir.join(uid));
    }
}

/// Who is told what the watches show.
struct Triggers {
    schedule: schedule::SchedulingQueue,
    workloads: Option<workload::WorkloadQueue>,
    runs: Mutex<HashMap<String, watch::Sender<Option<Arc<Pod>>>>>,
    ground: Weak<NodeServices>,
    tasks: TaskTracker,
    name: String,
}

impl Triggers {
    fn pod(&self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>) {
        let uid = |it: &Arc<Pod>| it.metadata.uid.clone().unwrap_or_default();
        if let Some(old) = old
            && new.map(uid) != Some(uid(old))
            && let Some(run) = self.runs.lock().remove(&uid(old))
        {
            run.send_replace(None);
        }
        let takes_room = |it: &&Arc<Pod>| schedule::takes_room(it, &self.name);
        if old.filter(takes_room).is_some() && new.filter(takes_room).is_none() {
            self.schedule.add(schedule::everything());
        }
        if let Some(new) = new {
            let node = new
                .spec
                .as_ref()
                .and_then(|it| it.node_name.as_deref())
                .unwrap_or_default();
            if node.is_empty() {
                self.schedule.add(schedule::key(new));
            } else if node == self.name {
                self.run(uid(new), new);
            }
        }
        if let Some(queue) = &self.workloads {
            old.into_iter()
                .chain(new)
                .for_each(|it| workload::pod_changed(queue, it));
        }
    }

    fn run(&self, uid: String, pod: &Arc<Pod>) {
        let mut runs = self.runs.lock();
        if let Some(run) = runs.get(&uid) {
            run.send_replace(Some(pod.clone()));
            return;
        }
        if let Some(ground) = self.ground.upgrade()
            && !ground.cancel.is_cancelled()
        {
            let (tell, latest) = watch::channel(Some(pod.clone()));
            runs.insert(uid, tell);
            self.tasks.spawn(pod::run(ground, pod.clone(), latest));
        }
    }

    fn node(&self) {
        self.schedule.add(schedule::everything());
        if let Some(queue) = &self.workloads {
            workload::nodes_changed(queue);
        }
    }
}
