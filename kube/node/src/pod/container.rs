//! One container: started when what it needs is there, probed, restarted by its policy, ended with grace.

use super::{
    PodRun, Problem, access,
    backoff::Backoff,
    environment,
    expand::{Room, expand},
    fields,
    probe::{self, Action},
    rewrite::Paths,
    status,
    volumes::Wanted,
};
#[cfg(target_os = "linux")]
use crate::view::View;
use crate::{
    images::{Command, Refusal},
    logs::LogFile,
    process::{Exit, Launch, LaunchStdio, Process},
    reach::{self, Live, LiveInput},
    services::HostsFile,
    terminal::Terminal,
    times,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated, ContainerStatus, LifecycleHandler, Pod};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The most of its last words that a container's status shows.
const LAST_WORDS_BYTES_MAX: usize = 4096;

/// The variable that tells a container the address of its pod, where the pod has one of its own. A program that
/// listens there, and not on every address, leaves the port to other pods.
const ADDRESS_VARIABLE: &str = "POD_ADDRESS";

/// The variable that tells a container where its mounts are on the host, as a JSON object from one to the other. `/` is
/// a directory of the pod, where everything else may be.
const PATHS_VARIABLE: &str = "POD_PATHS";

/// Which list of the pod's status a container is in, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    Init(usize),
    Main(usize),
}

/// When a container that ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    /// The policy of the pod's main containers.
    pub fn of(pod: &Pod) -> Self {
        match pod.spec.as_ref().and_then(|it| it.restart_policy.as_deref()) {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    /// The policy of an init container, which is done when it succeeds.
    pub fn of_init(self) -> Self {
        match self {
            Self::Always => Self::OnFailure,
            other => other,
        }
    }

    fn again(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

/// A container with everything that it needs to be started.
pub struct Prepared {
    line: Vec<String>,
    environment: BTreeMap<String, OsString>,
    directory: PathBuf,
    pub paths: Paths,
    /// What stands for its image.
    pub mapped: Command,
    last_words: PathBuf,
    #[cfg(target_os = "linux")]
    view: Option<View>,
}

impl Prepared {
    /// The same place, with other words.
    pub fn launch(&self, line: Vec<String>, stdio: LaunchStdio) -> Launch {
        Launch {
            line,
            environment: self.environment.clone(),
            directory: self.directory.clone(),
            stdio,
            #[cfg(target_os = "linux")]
            view: self.view.clone(),
        }
    }
}

/// A container that was just started.
struct Started {
    process: Process,
    log: Arc<LogFile>,
    terminal: Option<Terminal>,
}

impl PodRun {
    /// Runs a container until it is not to be started again, or `stop` is cancelled. Tells whether it succeeded.
    pub(super) async fn run_container(
        self: &Arc<Self>,
        slot: Slot,
        container: &Container,
        restart: Restart,
        stop: &CancellationToken,
    ) -> bool {
        let mut backoff = Backoff::default();
        loop {
            let Some(prepared) = self.until_prepared(slot, container, stop).await else {
                return false;
            };
            let prepared = Arc::new(prepared);
            let began = Instant::now();
            let code = match self.start(slot, container, &prepared).await {
                Ok(started) => self.attend(slot, container, &prepared, started, stop).await,
                Err(text) => {
                    self.did_not_start(slot, container, &prepared, &text);
                    128
                }
            };
            if stop.is_cancelled() || !restart.again(code) {
                return code == 0;
            }
            let pause = backoff.after(began.elapsed());
            if pause > Duration::ZERO {
                let text = format!(
                    "restarting failed container={} in pod {}",
                    container.name,
                    self.full_name()
                );
                let state = status::waiting("CrashLoopBackOff", &format!("back-off {}s {text}", pause.as_secs()));
                self.change(slot, |it| {
                    it.last_state = it.state.take();
                    it.state = Some(state);
                });
                self.warn("BackOff", Some(&container.name), &format!("Back-off {text}"));
                tokio::select! {
                    () = stop.cancelled() => return false,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }

    /// Waits for everything that the container needs.
    async fn until_prepared(&self, slot: Slot, container: &Container, stop: &CancellationToken) -> Option<Prepared> {
        let mut changes = self.ground.references.changes();
        let mut told = None;
        loop {
            changes.mark_unchanged();
            match self.prepare(container) {
                Ok(prepared) => return (!stop.is_cancelled()).then_some(prepared),
                Err(Problem::NotYet) => {}
                Err(problem) if told.as_ref() == Some(&problem) => {}
                Err(problem) => {
                    let (reason, message) = problem.waiting();
                    let state = status::waiting(reason, &message);
                    self.change(slot, |it| {
                        if status::end(it).is_some() {
                            it.last_state = it.state.take();
                        }
                        it.state = Some(state);
                    });
                    self.warn("Failed", Some(&container.name), &format!("Error: {message}"));
                    told = Some(problem);
                }
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                changed = changes.changed() => changed.ok()?,
            }
        }
    }

    fn prepare(&self, container: &Container) -> Result<Prepared, Problem> {
        let pod = self.pod();
        let image = container.image.as_deref().unwrap_or_default();
        let mapped = self
            .ground
            .images
            .find(image)
            .ok_or_else(|| Problem::Image(image.to_owned()))?;
        let refused = |refusal: Refusal| match refusal {
            Refusal::Empty => Problem::Create(refusal.to_string()),
            Refusal::Other { .. } => Problem::Refused(image.to_owned(), refusal.to_string()),
        };
        mapped.check_probes(container).map_err(refused)?;
        let look_up = |it: &_| self.look_up(it);
        let sources = environment::Sources {
            pod: &pod,
            ip: self.address.ip(),
            node: self.ground.capacity,
            look_up: &look_up,
        };
        let mut room = Room::default();
        let variables = environment::resolve(container, self.given_variables(&pod), &sources, &mut room)?;
        let last_words = self.dir.join("last-words").join(&container.name);
        let paths = self.paths(container, &variables, &last_words, &mut room)?;
        let mut rewritten = |field: &str, words: Option<&Vec<String>>| -> Result<Vec<String>, Problem> {
            let words = words.into_iter().flatten().enumerate();
            let rewritten = words.map(|(at, word)| {
                let expanded = expand(word, &mut room, |name| variables.get(name).map(String::as_str));
                let expanded = expanded.map_err(|error| Problem::Create(format!("{field}[{at}]: {error}")))?;
                Ok(paths.rewrite(&expanded))
            });
            rewritten.collect()
        };
        let line = mapped.line(
            &rewritten("command", container.command.as_ref())?,
            &rewritten("args", container.args.as_ref())?,
            &self.dir,
        );
        let line = line.map_err(refused)?;
        let directory = match container.working_dir.as_deref().filter(|it| !it.is_empty()) {
            Some(it) => paths.host(it).unwrap_or_else(|| it.into()),
            None => self.dir.join("home"),
        };
        let directory = if directory.is_dir() {
            directory
        } else {
            self.dir.join("home")
        };
        let mut environment: BTreeMap<String, OsString> = variables
            .into_iter()
            .filter(|(name, _)| mapped.takes_variable(name))
            .map(|(name, value)| (name, paths.rewrite(&value).into()))
            .collect();
        self.add_host_variables(&mut environment);
        // Whatever the container says: its programs write where this leads them.
        environment.insert(PATHS_VARIABLE.to_owned(), self.paths_variable(&paths).into());
        Ok(Prepared {
            #[cfg(target_os = "linux")]
            view: self.view(&paths, &last_words, &directory, &line),
            line,
            environment,
            directory,
            paths,
            mapped: mapped.clone(),
            last_words,
        })
    }

    /// The variables that every container has and may refer to.
    fn given_variables(&self, pod: &Pod) -> BTreeMap<String, String> {
        let hostname = pod.spec.as_ref().and_then(|it| it.hostname.clone());
        let mut variables = BTreeMap::from([("HOSTNAME".to_owned(), hostname.unwrap_or_else(|| self.name.clone()))]);
        if self.address.is_own() {
            variables.insert(ADDRESS_VARIABLE.to_owned(), self.address.ip().to_string());
        }
        if let Some(server) = &self.ground.api_server {
            let port = server.port.to_string();
            for (name, value) in [
                ("KUBERNETES_SERVICE_HOST", server.host.clone()),
                ("KUBERNETES_SERVICE_PORT", port.clone()),
                ("KUBERNETES_SERVICE_PORT_HTTPS", port),
            ] {
                variables.insert(name.to_owned(), value);
            }
        }
        variables
    }

    /// What a process of the host needs besides: the programs' path, a home and a temporary directory of its own.
    fn add_host_variables(&self, environment: &mut BTreeMap<String, OsString>) {
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let mut add = |name: &str, value: OsString| {
            environment.entry(name.to_owned()).or_insert(value);
        };
        add("PATH", path);
        add("HOME", self.dir.join("home").into());
        add("TMPDIR", self.dir.join("tmp").into());
        if self.has_access() {
            add("KUBECONFIG", self.dir.join("kubeconfig").into());
        }
    }

    /// What the container sees of the file system, where the machine allows that it sees more than the host.
    #[cfg(target_os = "linux")]
    fn view(&self, paths: &Paths, last_words: &Path, directory: &Path, line: &[String]) -> Option<View> {
        let services = self.ground.services.as_ref()?;
        let hosts = self.dir.join("hosts");
        let made = || {
            if let Some(parent) = last_words.parent() {
                super::files::private_dir(parent)?;
            }
            // It is mounted, so that it has to be there.
            std::fs::File::options().create(true).append(true).open(last_words)?;
            let root = self.dir.join("view");
            super::files::private_dir(&root)?;
            services.keep(&hosts, self.hosts_file())?;
            let mut wanted: Vec<_> = paths
                .pairs()
                .map(|(path, host)| (path.into(), host.to_owned()))
                .collect();
            if paths.host("/etc/hosts").is_none() {
                wanted.push((PathBuf::from("/etc/hosts"), hosts.clone()));
            }
            View::new(&root, &wanted, directory, &[&self.dir, Path::new(&line[0])])
        };
        let made: std::io::Result<View> = made();
        made.inspect_err(
            |error| tracing::warn!(pod = %self.name, %error, "a container sees the files of the host alone"),
        )
        .ok()
    }

    /// The pod's own lines of its hosts file. Its loopback is its address.
    fn hosts_file(&self) -> HostsFile {
        let pod = self.pod();
        let spec = pod.spec.as_ref();
        let ip = self.address.ip().to_string();
        let hostname = spec
            .and_then(|it| it.hostname.clone())
            .unwrap_or_else(|| self.name.clone());
        let mut own = format!("{ip} {hostname}\n");
        for alias in spec.into_iter().flat_map(|it| it.host_aliases.iter().flatten()) {
            let is_here = alias.ip.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback());
            let to = if is_here { &ip } else { &alias.ip };
            own.push_str(&format!(
                "{to} {}\n",
                alias.hostnames.iter().flatten().cloned().collect::<Vec<_>>().join(" ")
            ));
        }
        HostsFile {
            namespace: self.namespace.clone(),
            own,
        }
    }

    /// Where the paths of a container are, for programs that know them without being told.
    fn paths_variable(&self, paths: &Paths) -> String {
        let mut all: BTreeMap<&str, &Path> = paths.pairs().collect();
        let root = self.dir.join("root");
        all.insert("/", &root);
        serde_json::to_string(&all).unwrap_or_default()
    }

    fn paths(
        &self,
        container: &Container,
        variables: &BTreeMap<String, String>,
        last_words: &Path,
        room: &mut Room,
    ) -> Result<Paths, Problem> {
        let mut pairs = Vec::new();
        for (at, mount) in container.volume_mounts.iter().flatten().enumerate() {
            let root = self.volume_dir(&mount.name);
            let root = root.ok_or_else(|| Problem::Create(format!("volume {:?} is not there", mount.name)))?;
            let below = match (&mount.sub_path, &mount.sub_path_expr) {
                (Some(it), _) if !it.is_empty() => it.clone(),
                (_, Some(it)) => {
                    let expanded = expand(it, room, |name| variables.get(name).map(String::as_str));
                    expanded.map_err(|error| Problem::Create(format!("volumeMounts[{at}].subPathExpr: {error}")))?
                }
                _ => String::new(),
            };
            if !below.is_empty() && !super::files::stays_inside(&below) {
                return Err(Problem::Create(format!("subPath {below:?} leaves its volume")));
            }
            let host = if below.is_empty() { root.0 } else { root.0.join(&below) };
            // As a kubelet, what is missing in a directory of the pod's own becomes one.
            if matches!(root.1, Wanted::Empty | Wanted::Claim(_)) && !host.exists() {
                super::files::private_dir(&host).map_err(|error| Problem::Create(error.to_string()))?;
            }
            pairs.push((mount.mount_path.clone(), host));
        }
        if pairs
            .iter()
            .all(|(path, _)| path.trim_end_matches('/') != access::ACCOUNT_PATH)
            && self.has_access()
        {
            pairs.push((access::ACCOUNT_PATH.to_owned(), self.dir.join("serviceaccount")));
        }
        let words = container.termination_message_path.clone();
        pairs.push((
            words.unwrap_or_else(|| "/dev/termination-log".into()),
            last_words.to_owned(),
        ));
        Ok(Paths::new(pairs))
    }

    async fn start(&self, slot: Slot, container: &Container, prepared: &Prepared) -> Result<Started, String> {
        let start = self.next_start(slot);
        if let Some(parent) = prepared.last_words.parent() {
            super::files::private_dir(parent).map_err(|error| error.to_string())?;
        }
        std::fs::write(&prepared.last_words, "").map_err(|error| error.to_string())?;
        let log = self.ground.logs.create(&self.uid, &container.name, start);
        let log = log.map_err(|error| format!("could not create its log: {error}"))?;
        let (stdio, terminal) = match (container.tty, container.stdin) {
            (Some(true), _) => {
                let (terminal, side) = Terminal::open().map_err(|error| error.to_string())?;
                (LaunchStdio::Terminal(side), Some(terminal))
            }
            (_, Some(true)) => (LaunchStdio::InputAndOutput, None),
            _ => (LaunchStdio::Output, None),
        };
        let launch = prepared.launch(prepared.line.clone(), stdio);
        let spawned = self.ground.spawner.spawn(launch).await;
        let process = spawned.map_err(|error| {
            log.close();
            format!("failed to run {:?}: {error}", prepared.line[0])
        })?;
        let always_ready = container.readiness_probe.is_none() && container.startup_probe.is_none();
        let started = container.startup_probe.is_none();
        let image = container.image.clone().unwrap_or_default();
        self.change(slot, |it| {
            if status::end(it).is_some() {
                it.last_state = it.state.take();
            }
            it.state = Some(status::running(Timestamp::now()));
            it.restart_count = start;
            it.container_id = Some(format!("process://{:032x}", rand::random::<u128>()));
            it.image_id = image;
            it.ready = always_ready;
            it.started = Some(started);
        });
        self.tell(
            "Started",
            Some(&container.name),
            &format!("Started container {}", container.name),
        );
        Ok(Started { process, log, terminal })
    }

    /// The number of the next start. A container that was never started begins with zero.
    fn next_start(&self, slot: Slot) -> i32 {
        self.with(slot, |it| {
            let began = it.container_id.is_some();
            it.restart_count.saturating_add(i32::from(began))
        })
    }

    fn did_not_start(&self, slot: Slot, container: &Container, prepared: &Prepared, text: &str) {
        let start = self.next_start(slot);
        let now = times::now();
        let state = status::terminated(ContainerStateTerminated {
            exit_code: 128,
            reason: Some("StartError".into()),
            message: Some(text.to_owned()),
            started_at: Some(now.clone()),
            finished_at: Some(now),
            ..ContainerStateTerminated::default()
        });
        let _ = std::fs::remove_file(&prepared.last_words);
        self.change(slot, |it| {
            if status::end(it).is_some() {
                it.last_state = it.state.take();
            }
            it.restart_count = start;
            it.container_id = Some(format!("process://{:032x}", rand::random::<u128>()));
            it.state = Some(state);
            it.ready = false;
        });
        self.warn("Failed", Some(&container.name), &format!("Error: {text}"));
    }

    /// Stays with a process until its end, and tells the end.
    async fn attend(
        self: &Arc<Self>,
        slot: Slot,
        container: &Container,
        prepared: &Arc<Prepared>,
        started: Started,
        stop: &CancellationToken,
    ) -> i32 {
        let Started {
            mut process,
            log,
            terminal,
        } = started;
        let input = match (&terminal, process.input()) {
            (Some(terminal), _) if container.stdin == Some(true) => Some(LiveInput::Terminal(terminal.clone())),
            (_, pipe) => pipe.map(LiveInput::Pipe),
        };
        let live = self.ground.reach.enter(Live {
            uid: self.uid.clone(),
            container: container.name.clone(),
            ip: self.address.ip(),
            dir: self.dir.clone(),
            prepared: prepared.clone(),
            spawner: self.ground.spawner.clone(),
            input: tokio::sync::Mutex::new(input),
            closes_input: container.stdin_once == Some(true),
            terminal: terminal.clone(),
            output: tokio::sync::broadcast::Sender::new(reach::PIECES_MAX),
            ended: CancellationToken::new(),
        });
        let hear = || live.hear();
        let (out, err) = process.output();
        let out = match terminal {
            Some(it) => Some(tokio::spawn(log.clone().copy("stdout", it, hear()))),
            None => out.map(|it| tokio::spawn(log.clone().copy("stdout", it, hear()))),
        };
        let err = err.map(|it| tokio::spawn(log.clone().copy("stderr", it, hear())));
        let hook = container.lifecycle.as_ref().and_then(|it| it.post_start.as_ref());
        let unwell = async {
            if let Some(hook) = hook
                && let Err(text) = self.hook(container, prepared, hook).await
            {
                self.warn(
                    "FailedPostStartHook",
                    Some(&container.name),
                    &format!("PostStartHook failed: {text}"),
                );
                return "FailedPostStartHook";
            }
            self.probe(slot, container, prepared).await
        };
        let exit = tokio::select! {
            biased;
            exit = process.wait() => Some(exit),
            () = stop.cancelled() => None,
            _ = unwell => {
                self.tell("Killing", Some(&container.name), &format!("Container {} failed its probe, will be restarted", container.name));
                None
            }
        };
        let exit = match exit {
            Some(exit) => exit,
            None => self.end(slot, container, prepared, &mut process, stop).await,
        };
        // What it wrote last is in the pipes still; a grandchild that holds them open has been killed with the group.
        for copying in [out, err].into_iter().flatten() {
            let _ = tokio::time::timeout(Duration::from_secs(1), copying).await;
        }
        drop(live);
        log.close();
        self.ended(slot, container, prepared, exit);
        exit.code
    }

    /// Ends a process: its hook, the polite signal, and when the time is over the other one.
    async fn end(
        &self,
        slot: Slot,
        container: &Container,
        prepared: &Prepared,
        process: &mut Process,
        stop: &CancellationToken,
    ) -> Exit {
        if stop.is_cancelled() {
            self.tell(
                "Killing",
                Some(&container.name),
                &format!("Stopping container {}", container.name),
            );
        }
        self.change(slot, |it| it.ready = false);
        // A grace may be longer than any clock runs, which only a sleep knows how to wait for.
        let grace_ends = tokio::time::sleep(self.grace());
        let hook = container.lifecycle.as_ref().and_then(|it| it.pre_stop.as_ref());
        let politely = async {
            if let Some(hook) = hook {
                let done = tokio::select! {
                    done = self.hook(container, prepared, hook) => done,
                    // Nothing is left to prepare for.
                    exit = process.wait() => return exit,
                };
                if let Err(text) = done {
                    self.warn(
                        "FailedPreStopHook",
                        Some(&container.name),
                        &format!("PreStopHook failed: {text}"),
                    );
                }
            }
            process.terminate();
            process.wait().await
        };
        tokio::select! {
            biased;
            () = self.kill.cancelled() => {}
            exit = politely => return exit,
            () = grace_ends => {}
        }
        process.kill();
        process.wait().await
    }

    async fn hook(&self, container: &Container, prepared: &Prepared, hook: &LifecycleHandler) -> Result<(), String> {
        let action = if let Some(it) = &hook.exec {
            Action::Exec(it)
        } else if let Some(it) = &hook.http_get {
            Action::Http(it)
        } else if let Some(it) = &hook.sleep {
            Action::Sleep(times::of_seconds(it.seconds))
        } else {
            return Ok(());
        };
        probe::ask(self, container, prepared, &action).await
    }

    /// Probes for as long as the container is well enough; the answer says what it failed.
    async fn probe(&self, slot: Slot, container: &Container, prepared: &Prepared) -> &'static str {
        if let Some(it) = &container.startup_probe {
            let mut started = false;
            probe::watch(self, container, prepared, it, "Startup", |well| {
                started = well;
                false
            })
            .await;
            if !started {
                return "Unhealthy";
            }
            let always_ready = container.readiness_probe.is_none();
            self.change(slot, |it| {
                it.started = Some(true);
                it.ready = always_ready;
            });
        }
        let ready = async {
            match &container.readiness_probe {
                None => std::future::pending().await,
                Some(it) => {
                    probe::watch(self, container, prepared, it, "Readiness", |well| {
                        self.change(slot, |it| it.ready = well);
                        true
                    })
                    .await;
                }
            }
        };
        let live = async {
            match &container.liveness_probe {
                None => std::future::pending().await,
                Some(it) => probe::watch(self, container, prepared, it, "Liveness", |well| well).await,
            }
        };
        tokio::select! {
            () = ready => "Unhealthy",
            () = live => "Unhealthy",
        }
    }

    fn ended(&self, slot: Slot, container: &Container, prepared: &Prepared, exit: Exit) {
        let mut message = std::fs::read(&prepared.last_words).unwrap_or_default();
        let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        if message.is_empty() && exit.code != 0 && falls_back {
            message = self.last_log_lines(slot, container);
        }
        message.truncate(LAST_WORDS_BYTES_MAX);
        self.change(slot, |it| {
            let began = it.state.as_ref().and_then(|it| it.running.as_ref()?.started_at.clone());
            it.state = Some(status::terminated(ContainerStateTerminated {
                container_id: it.container_id.clone(),
                exit_code: exit.code,
                reason: Some(if exit.code == 0 { "Completed" } else { "Error" }.into()),
                message: (!message.is_empty()).then(|| String::from_utf8_lossy(&message).into_owned()),
                started_at: began,
                finished_at: Some(times::now()),
                // A shell's 143 is a code, a process that did not catch the signal has none: Kubernetes shows the code.
                signal: None,
            }));
            it.ready = false;
            it.started = Some(false);
        });
    }

    /// The end of the log, without the times.
    fn last_log_lines(&self, slot: Slot, container: &Container) -> Vec<u8> {
        let start = self.with(slot, |it| it.restart_count);
        let text = self
            .ground
            .logs
            .tail(&self.uid, &container.name, start, LAST_WORDS_BYTES_MAX / 2);
        text.unwrap_or_default()
    }

    /// Changes the status of a container, and has it written.
    pub(super) fn change(&self, slot: Slot, change: impl FnOnce(&mut ContainerStatus)) {
        self.with(slot, change);
        self.changed.notify_one();
    }

    fn with<T>(&self, slot: Slot, look: impl FnOnce(&mut ContainerStatus) -> T) -> T {
        let mut progress = self.progress.lock();
        match slot {
            Slot::Init(at) => look(&mut progress.init[at]),
            Slot::Main(at) => look(&mut progress.main[at]),
        }
    }

    fn full_name(&self) -> String {
        format!("{}_{}({})", self.name, self.namespace, self.uid)
    }

    pub(super) fn capacity(&self) -> fields::Capacity {
        self.ground.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::Restart;

    #[test]
    fn an_init_container_that_succeeded_is_done() {
        assert!(Restart::Always.again(0));
        assert!(!Restart::Always.of_init().again(0));
        assert!(Restart::Always.of_init().again(1));
        assert!(!Restart::Never.of_init().again(1));
        assert!(Restart::OnFailure.again(1) && !Restart::OnFailure.again(0));
    }
}
