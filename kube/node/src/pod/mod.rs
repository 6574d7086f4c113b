//! One pod, from the moment this node takes it until it is gone.

mod access;
pub mod address;
mod backoff;
mod container;
mod environment;
mod expand;
pub mod fields;
mod files;
mod host_path;
mod probe;
mod rewrite;
mod status;
mod volumes;

pub use container::Prepared;
pub use files::{private_dir, stays_inside};

use crate::{
    events::{self, EventType},
    node::NodeServices,
    references::{Held, Known, Reference},
    times,
};
use access::Tokens;
use address::PodAddress;
use container::{Restart, Slot};
use files::Files;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod, PodStatus};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use status::Progress;
use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use volumes::Wanted;

/// How long a write to the API server waits before it is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Why something of a pod is not there yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The first answer of the API server is under way.
    NotYet,
    /// No command stands for this image.
    Image(String),
    /// What stands for this image is not for what the container asks for.
    Refused(String, String),
    /// A volume cannot be made.
    Mount(String),
    /// The environment refers to something that is missing.
    Config(String),
    /// The container cannot be made as it is.
    Create(String),
}

impl Problem {
    /// The reason and the message of the container that waits for it.
    fn waiting(&self) -> (&'static str, String) {
        match self {
            Self::NotYet => ("ContainerCreating", String::new()),
            Self::Image(image) => (
                "ErrImagePull",
                format!(
                    "no command stands for image {image:?} on this node, which runs processes and pulls no images; \
                     name one with --node-image-map '{image}=COMMAND'"
                ),
            ),
            Self::Refused(image, text) => (
                "ErrImagePull",
                format!("{text} (image {image:?}); name a command of yours with --node-image-map '{image}=COMMAND'"),
            ),
            Self::Mount(text) => ("ContainerCreating", text.clone()),
            Self::Config(text) => ("CreateContainerConfigError", text.clone()),
            Self::Create(text) => ("CreateContainerError", text.clone()),
        }
    }
}

/// What ends a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ending {
    /// It was deleted, and waits for us to say that it has ended.
    Deleted,
    /// Its object is gone.
    Gone,
    /// It ran for longer than it may.
    Deadline,
    /// The node stops; the next one goes on with the pod.
    NodeStops,
}

/// One pod on this node.
pub struct PodRun {
    pub(crate) ground: Arc<NodeServices>,
    uid: String,
    namespace: String,
    name: String,
    dir: PathBuf,
    address: PodAddress,
    latest: watch::Receiver<Option<Arc<Pod>>>,
    /// The last state that was seen, also after the object is gone.
    seen: RwLock<Arc<Pod>>,
    progress: Mutex<Progress>,
    changed: Notify,
    /// What was written last.
    written: Mutex<Option<PodStatus>>,
    /// What is watched for it.
    held: Mutex<BTreeMap<Reference, Arc<Held>>>,
    volumes: Mutex<BTreeMap<String, Wanted>>,
    tokens: tokio::sync::Mutex<Tokens>,
    access: Mutex<Option<Files>>,
    grace: Mutex<Option<Duration>>,
    stop: CancellationToken,
    kill: CancellationToken,
}

/// Runs a pod until it is gone or the node stops. `latest` is `None` when the object is gone.
pub async fn run(ground: Arc<NodeServices>, pod: Arc<Pod>, latest: watch::Receiver<Option<Arc<Pod>>>) {
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    if !stays_inside(&uid) || uid.contains('/') {
        tracing::warn!(%uid, "a pod whose uid is no file name is not run");
        return;
    }
    let dir = ground.pods_dir.join(&uid);
    let run = Arc::new(PodRun {
        progress: Mutex::new(begin(&pod, dir.is_dir())),
        uid,
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        name: pod.metadata.name.clone().unwrap_or_default(),
        dir,
        address: PodAddress::claim(&pod),
        latest,
        seen: RwLock::new(pod),
        changed: Notify::new(),
        written: Mutex::default(),
        held: Mutex::default(),
        volumes: Mutex::default(),
        tokens: tokio::sync::Mutex::default(),
        access: Mutex::default(),
        grace: Mutex::default(),
        stop: CancellationToken::new(),
        kill: CancellationToken::new(),
        ground,
    });
    run.live().await;
}

fn is_over(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// What is known of a pod that an earlier node may have run: its processes are gone, its starts still count.
fn begin(pod: &Pod, dir_is_there: bool) -> Progress {
    let spec = pod.spec.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let init = spec.init_containers.unwrap_or_default();
    let has_init = !init.is_empty();
    let of = |container: &k8s_openapi::api::core::v1::Container, is_init: bool| {
        let before = if is_init {
            &status.init_container_statuses
        } else {
            &status.container_statuses
        };
        let before = before.iter().flatten().find(|it| it.name == container.name);
        let Some(before) = before.filter(|it| it.container_id.is_some()) else {
            return status::fresh(container, is_init, has_init);
        };
        let mut now = before.clone();
        now.ready = false;
        if let Some(running) = before.state.as_ref().and_then(|it| it.running.as_ref()) {
            now.started = Some(false);
            now.state = Some(status::terminated(ContainerStateTerminated {
                container_id: before.container_id.clone(),
                exit_code: 137,
                reason: Some("Error".into()),
                message: Some("the node was stopped".into()),
                started_at: running.started_at.clone(),
                finished_at: Some(times::now()),
                ..ContainerStateTerminated::default()
            }));
        }
        if is_init && !dir_is_there {
            now.state = Some(status::waiting("PodInitializing", ""));
        }
        now
    };
    Progress {
        mounted: false,
        since: status.start_time.clone().or_else(|| Some(times::now())),
        init: init.iter().map(|it| of(it, true)).collect(),
        main: spec.containers.iter().map(|it| of(it, false)).collect(),
        ended: false,
        failed: None,
    }
}

impl PodRun {
    async fn live(self: Arc<Self>) {
        let mut latest = self.latest.clone();
        let ending = if is_over(&self.pod()) {
            self.until_ending(&mut latest, None).await
        } else {
            let mut tasks = JoinSet::new();
            tasks.spawn(self.clone().report());
            let run = self.clone();
            let mut work = tokio::spawn(async move {
                run.clone().work().await;
                run.address.release();
            });
            let ending = self.until_ending(&mut latest, self.deadline()).await;
            let grace = match &ending {
                Ending::NodeStops => self.asked_grace().min(self.ground.stop_grace),
                _ => self.asked_grace(),
            };
            *self.grace.lock() = Some(grace);
            if ending == Ending::Gone {
                self.kill.cancel();
            }
            if ending == Ending::Deadline {
                let text = "Pod was active on the node longer than the specified deadline";
                self.progress.lock().failed = Some(("DeadlineExceeded", text.into()));
            }
            self.stop.cancel();
            loop {
                tokio::select! {
                    biased;
                    _ = &mut work => break,
                    // Whoever has no more patience deletes it with a grace of zero.
                    Ok(()) = latest.changed() => {
                        if latest.borrow_and_update().is_none() {
                            self.kill.cancel();
                        }
                    }
                }
            }
            tasks.shutdown().await;
            self.progress.lock().ended = ending == Ending::Deleted;
            if matches!(ending, Ending::Deleted | Ending::Deadline) {
                self.write_status().await;
            }
            match ending {
                Ending::Deadline => self.until_ending(&mut latest, None).await,
                other => other,
            }
        };
        match ending {
            Ending::NodeStops => return,
            Ending::Deleted => self.let_go().await,
            Ending::Gone | Ending::Deadline => {}
        }
        self.ground.logs.forget(&self.uid);
        if let Some(services) = &self.ground.services {
            services.forget(&self.dir.join("hosts"));
        }
        if let Err(error) = std::fs::remove_dir_all(&self.dir)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!(pod = %self.name, %error, "could not remove the directory of a pod");
        }
    }

    /// Waits for whatever ends the pod.
    async fn until_ending(&self, latest: &mut watch::Receiver<Option<Arc<Pod>>>, deadline: Option<Instant>) -> Ending {
        loop {
            let now = latest.borrow_and_update().clone();
            match now {
                None => return Ending::Gone,
                Some(pod) => {
                    let deleted = pod.metadata.deletion_timestamp.is_some();
                    let before = std::mem::replace(&mut *self.seen.write(), pod.clone());
                    // Files and conditions may show them.
                    if before.metadata.labels != pod.metadata.labels
                        || before.metadata.annotations != pod.metadata.annotations
                    {
                        self.ground.references.changed();
                    }
                    self.changed.notify_one();
                    if deleted {
                        return Ending::Deleted;
                    }
                }
            }
            let too_long = async {
                match deadline {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.ground.cancel.cancelled() => return Ending::NodeStops,
                changed = latest.changed() => if changed.is_err() {
                    return Ending::NodeStops;
                },
                () = too_long => return Ending::Deadline,
            }
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let seconds = self.pod().spec.as_ref()?.active_deadline_seconds?;
        let since = self.progress.lock().since.as_ref()?.0;
        let due = times::after(since, times::of_seconds(seconds));
        // What is later than the clock can tell does not end it.
        Instant::now().checked_add(times::until(Timestamp::now(), due))
    }

    /// The pod as it was seen last.
    fn pod(&self) -> Arc<Pod> {
        self.seen.read().clone()
    }

    /// How long its containers may take to end.
    fn asked_grace(&self) -> Duration {
        let pod = self.pod();
        let own = pod.spec.as_ref().and_then(|it| it.termination_grace_period_seconds);
        times::of_seconds(pod.metadata.deletion_grace_period_seconds.or(own).unwrap_or(30))
    }

    fn grace(&self) -> Duration {
        self.grace.lock().unwrap_or_else(|| self.asked_grace())
    }

    fn look_up(&self, reference: &Reference) -> Known {
        self.held.lock().get(reference).map_or(Known::NotYet, |it| it.now())
    }

    fn has_access(&self) -> bool {
        self.access.lock().is_some()
    }

    fn volume_dir(&self, name: &str) -> Option<(PathBuf, Wanted)> {
        let wanted = self.volumes.lock().get(name).cloned()?;
        let dir = match &wanted {
            Wanted::Host(path, _) => path.clone(),
            Wanted::Claim(claim) => self.ground.claims_dir.join(format!("{}_{claim}", self.namespace)),
            Wanted::Files(_) | Wanted::Empty => self.dir.join("volumes").join(name),
        };
        Some((dir, wanted))
    }

    /// Tells an event about the pod or one of its containers.
    fn tell(&self, reason: &'static str, container: Option<&str>, text: &str) {
        self.event(EventType::Normal, reason, container, text);
    }

    fn warn(&self, reason: &'static str, container: Option<&str>, text: &str) {
        self.event(EventType::Warning, reason, container, text);
    }

    fn event(&self, kind: EventType, reason: &'static str, container: Option<&str>, text: &str) {
        let mut about = events::reference(&*self.pod());
        about.field_path = container.map(|it| {
            let pod = self.pod();
            let init = pod
                .spec
                .as_ref()
                .and_then(|it| it.init_containers.as_deref())
                .unwrap_or_default();
            let list = if init.iter().any(|one| one.name == it) {
                "initContainers"
            } else {
                "containers"
            };
            format!("spec.{list}{{{it}}}")
        });
        self.ground.recorder.tell(about, "kubelet", kind, reason, text);
    }

    /// Everything from the empty directory to the last container's end.
    async fn work(self: Arc<Self>) {
        self.hold_references();
        if !self.until_mounted().await {
            return;
        }
        self.progress.lock().mounted = true;
        self.changed.notify_one();
        let mut beside = JoinSet::new();
        beside.spawn(self.clone().keep_volumes_current());
        let sidecars_stop = CancellationToken::new();
        let mut sidecars = JoinSet::new();
        if self.initialize(&mut sidecars, &sidecars_stop).await {
            self.run_main().await;
        }
        sidecars_stop.cancel();
        while sidecars.join_next().await.is_some() {}
        beside.shutdown().await;
    }

    /// Runs the init containers in order; those that stay go on beside. Tells whether the others may start.
    async fn initialize(self: &Arc<Self>, sidecars: &mut JoinSet<()>, sidecars_stop: &CancellationToken) -> bool {
        let pod = self.pod();
        let restart = Restart::of(&pod);
        let init = pod
            .spec
            .as_ref()
            .and_then(|it| it.init_containers.as_deref())
            .unwrap_or_default();
        for (at, container) in init.iter().enumerate() {
            let slot = Slot::Init(at);
            if status::is_sidecar(container) {
                let (run, container, stop) = (self.clone(), container.clone(), sidecars_stop.clone());
                sidecars.spawn(async move {
                    run.run_container(slot, &container, Restart::Always, &stop).await;
                });
                if !self.until_started(at).await {
                    return false;
                }
                continue;
            }
            let done = status::end(&self.progress.lock().init[at]).is_some_and(|it| it.exit_code == 0);
            if !done && !self.run_container(slot, container, restart.of_init(), &self.stop).await {
                return false;
            }
            self.change(slot, |it| it.ready = true);
        }
        !self.stop.is_cancelled()
    }

    async fn until_started(&self, at: usize) -> bool {
        let mut changes = self.ground.statuses.subscribe();
        loop {
            changes.mark_unchanged();
            if self.progress.lock().init[at].started == Some(true) {
                return true;
            }
            tokio::select! {
                () = self.stop.cancelled() => return false,
                changed = changes.changed() => if changed.is_err() {
                    return false;
                },
            }
        }
    }

    async fn run_main(self: &Arc<Self>) {
        let pod = self.pod();
        let restart = Restart::of(&pod);
        let mut running = JoinSet::new();
        for (at, container) in pod.spec.iter().flat_map(|it| it.containers.iter()).enumerate() {
            // One that ended in an earlier run, and was not to be started again then, is not started now.
            let over = status::end(&self.progress.lock().main[at]).is_some_and(|it| match restart {
                Restart::Always => false,
                Restart::OnFailure => it.exit_code == 0,
                Restart::Never => true,
            });
            if over {
                continue;
            }
            let (run, container) = (self.clone(), container.clone());
            running.spawn(async move {
                let stop = run.stop.clone();
                run.run_container(Slot::Main(at), &container, restart, &stop).await;
            });
        }
        while running.join_next().await.is_some() {}
    }

    /// Watches everything that the pod refers to.
    fn hold_references(&self) {
        let pod = self.pod();
        let mut wanted = volumes::references(&pod);
        let spec = pod.spec.as_ref();
        let init = spec.iter().flat_map(|it| it.init_containers.iter().flatten());
        for container in init.chain(spec.iter().flat_map(|it| it.containers.iter())) {
            wanted.extend(environment::references(&self.namespace, container));
        }
        wanted.push(access::account(&pod));
        let mut held = self.held.lock();
        for reference in wanted {
            held.entry(reference.clone())
                .or_insert_with(|| self.ground.references.hold(&reference));
        }
    }

    /// Waits until the volumes can be made, and makes them. `false` when the pod ends before.
    async fn until_mounted(&self) -> bool {
        let mut changes = self.ground.references.changes();
        let mut told = None;
        loop {
            changes.mark_unchanged();
            match self.mount().await {
                Ok(()) => return true,
                Err(Problem::NotYet) => {}
                Err(problem) if told.as_ref() == Some(&problem) => {}
                Err(problem) => {
                    let (_, text) = problem.waiting();
                    self.warn("FailedMount", None, &format!("MountVolume.SetUp failed: {text}"));
                    told = Some(problem);
                    self.changed.notify_one();
                }
            }
            let retry = async {
                match told {
                    // A token is not watched, it is asked for.
                    Some(_) => tokio::time::sleep(RETRY * 5).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stop.cancelled() => return false,
                changed = changes.changed() => if changed.is_err() {
                    return false;
                },
                () = retry => {}
            }
        }
    }

    /// Brings the volumes to what they should hold now.
    async fn mount(&self) -> Result<(), Problem> {
        let failed = |error: std::io::Error| Problem::Mount(error.to_string());
        let pod = self.pod();
        for name in ["volumes", "home", "tmp"] {
            private_dir(&self.dir.join(name)).map_err(failed)?;
        }
        let wants_access = access::wants_access(&pod, &self.look_up(&access::account(&pod)))?;
        let wants_access = wants_access && self.ground.api_server.is_some();
        let mut wishes = volumes::token_wishes(&pod);
        wishes.extend(wants_access.then(access::own_wish));
        self.renew_tokens(&wishes).await?;
        let tokens: BTreeMap<_, _> = {
            let tokens = self.tokens.lock().await;
            wishes
                .iter()
                .filter_map(|it| Some((it.clone(), tokens.get(it)?)))
                .collect()
        };
        if wants_access {
            let token = tokens.get(&access::own_wish()).cloned().unwrap_or_default();
            let wanted = self.account_files(token);
            let mut access = self.access.lock();
            if access.as_ref() != Some(&wanted) {
                let dir = self.dir.join("serviceaccount");
                files::replace(&dir, &wanted).map_err(failed)?;
                self.write_kubeconfig(&self.dir.join("kubeconfig"), &dir)
                    .map_err(failed)?;
                *access = Some(wanted);
            }
        }
        let look_up = |it: &_| self.look_up(it);
        let token = |it: &_| tokens.get(it).cloned();
        let sources = volumes::Sources {
            pod: &pod,
            ip: self.address.ip(),
            node: self.capacity(),
            look_up: &look_up,
            token: &token,
        };
        for volume in pod.spec.iter().flat_map(|it| it.volumes.iter().flatten()) {
            let wanted = sources.wanted(volume)?;
            if self.volumes.lock().get(&volume.name) != Some(&wanted) {
                self.make(&volume.name, wanted).map_err(failed)?;
            }
        }
        Ok(())
    }

    fn make(&self, name: &str, wanted: Wanted) -> std::io::Result<()> {
        let other = |text: String| Err(std::io::Error::other(text));
        if !stays_inside(name) || name.contains('/') {
            return other(format!("{name:?} is no name of a volume"));
        }
        self.volumes.lock().insert(name.to_owned(), wanted.clone());
        let made = self.volume_dir(name).map(|(dir, wanted)| match &wanted {
            Wanted::Files(files) => files::replace(&dir, files),
            Wanted::Claim(claim) if !stays_inside(claim) => other(format!("{claim:?} is no name of a claim")),
            Wanted::Empty | Wanted::Claim(_) => private_dir(&dir),
            Wanted::Host(path, kind) => host_path::provide(path, kind, &self.ground.host_dir),
        });
        let made = made.unwrap_or(Ok(()));
        if made.is_err() {
            self.volumes.lock().remove(name);
        }
        made
    }

    /// Follows what the volumes show, and renews tokens.
    async fn keep_volumes_current(self: Arc<Self>) {
        let mut changes = self.ground.references.changes();
        loop {
            changes.mark_unchanged();
            // What was deleted meanwhile stays as it was, as with a kubelet.
            if let Err(problem) = self.mount().await {
                tracing::debug!(pod = %self.name, ?problem, "volumes stay as they were");
            }
            let renew = self.tokens.lock().await.renew_in(Timestamp::now());
            let renew = async {
                match renew {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = changes.changed() => if changed.is_err() {
                    return;
                },
                () = renew => {}
            }
        }
    }

    /// Writes the status whenever something has changed.
    async fn report(self: Arc<Self>) {
        loop {
            self.write_status().await;
            self.changed.notified().await;
            self.ground.statuses.send_modify(|it| *it += 1);
        }
    }

    async fn write_status(&self) {
        loop {
            let pod = self.pod();
            let progress = self.progress.lock().clone();
            let written = self.written.lock().clone();
            let conditions = written
                .as_ref()
                .and_then(|it| it.conditions.clone())
                .unwrap_or_default();
            let status = status::status(&pod, &progress, self.address.ip(), &conditions, Timestamp::now());
            if written.as_ref() == Some(&status) {
                return;
            }
            let before = written.or_else(|| pod.status.clone()).unwrap_or_default();
            let api: Api<Pod> = Api::namespaced(self.ground.client.clone(), &self.namespace);
            let patch = json!({"metadata": {"uid": self.uid}, "status": merge(&before, &status)});
            match api
                .patch_status(&self.name, &PatchParams::default(), &Patch::Merge(&patch))
                .await
            {
                Ok(_) => {
                    *self.written.lock() = Some(status);
                    return;
                }
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(error) => tracing::debug!(pod = %self.name, %error, "could not write a pod's status, will retry"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Says that the pod has ended; with that its object goes.
    async fn let_go(&self) {
        let api: Api<Pod> = Api::namespaced(self.ground.client.clone(), &self.namespace);
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                ..Preconditions::default()
            }),
            ..DeleteParams::default()
        };
        loop {
            match api.delete(&self.name, &params).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(error) => tracing::debug!(pod = %self.name, %error, "could not let a pod go, will retry"),
            }
            tokio::select! {
                () = self.ground.cancel.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }
}

/// A merge patch from one status to another.
fn merge(before: &PodStatus, after: &PodStatus) -> Value {
    let mut patch = serde_json::to_value(after).unwrap_or_default();
    let before = serde_json::to_value(before).unwrap_or_default();
    if let (Some(patch), Some(before)) = (patch.as_object_mut(), before.as_object()) {
        for field in before.keys() {
            patch.entry(field.clone()).or_insert(Value::Null);
        }
    }
    patch
}
