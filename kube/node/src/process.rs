//! Processes that never outlive the node.
//!
//! Three things see to it. The kernel kills a process when the thread that spawned it ends (`PR_SET_PDEATHSIG`), so
//! that one thread per node spawns and lives as long as the node. What a process has spawned itself is in its process
//! group, and a warden (a small shell that waits for the end of a pipe from us) kills the groups when we are gone in
//! whatever way. And a file tells the next start what was running, should the whole machine have been too busy for
//! both.

use parking_lot::Mutex;
use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    io::{self, Write},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, mpsc},
};
use tokio::{
    process::{Child, ChildStderr, ChildStdin, ChildStdout},
    sync::oneshot,
};

/// What to run.
#[derive(Debug)]
pub struct Launch {
    pub line: Vec<String>,
    pub environment: BTreeMap<String, OsString>,
    pub directory: PathBuf,
    pub stdio: LaunchStdio,
    /// What it sees of the file system; `None` for what the node sees.
    #[cfg(target_os = "linux")]
    pub view: Option<crate::view::View>,
}

/// What a process has as its standard streams.
#[derive(Debug)]
pub enum LaunchStdio {
    /// Nothing to read, and pipes for what it writes.
    Output,
    /// Pipes in both directions.
    InputAndOutput,
    /// A terminal, which becomes its controlling one: the process leads a session then.
    Terminal(std::fs::File),
}

/// A running process, the leader of a group of its own. Dropping it kills the group.
pub struct Process {
    child: Child,
    pid: i32,
    running: Arc<Running>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// As a container runtime reports it: 128 + N for signal N.
    pub code: i32,
    pub signal: Option<i32>,
}

impl Process {
    /// What it writes; each can be taken once.
    pub fn output(&mut self) -> (Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdout.take(), self.child.stderr.take())
    }

    /// Where what it reads is written to, if there is a pipe; it can be taken once.
    pub fn input(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits for its end, and ends what it has left behind.
    pub async fn wait(&mut self) -> Exit {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.wait().await;
        signal_group(self.pid, libc::SIGKILL);
        self.running.remove(self.pid);
        match status {
            Ok(status) => Exit {
                code: status
                    .code()
                    .unwrap_or_else(|| 128 + status.signal().unwrap_or_default()),
                signal: status.signal(),
            },
            Err(error) => {
                tracing::warn!(%error, pid = self.pid, "could not wait for a process");
                Exit {
                    code: 255,
                    signal: None,
                }
            }
        }
    }

    /// Asks the group to end.
    pub fn terminate(&self) {
        signal_group(self.pid, libc::SIGTERM);
    }

    /// Ends the group.
    pub fn kill(&self) {
        signal_group(self.pid, libc::SIGKILL);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Waited for, its number may be another's already.
        if self.child.id().is_some() {
            signal_group(self.pid, libc::SIGKILL);
            self.running.remove(self.pid);
        }
    }
}

#[expect(unsafe_code, reason = "killpg has no safe binding among our dependencies")]
fn signal_group(pid: i32, signal: i32) {
    if pid > 1 {
        // SAFETY: killpg takes two numbers and touches no memory of ours.
        unsafe { libc::killpg(pid, signal) };
    }
}

type Job = (Launch, oneshot::Sender<io::Result<Process>>);

/// Starts processes. Cloning shares its thread, which ends with the last clone, and with it every process.
#[derive(Clone)]
pub struct Spawner {
    jobs: mpsc::Sender<Job>,
}

impl Spawner {
    /// Kills what an earlier node has left running, and starts the thread. `record` is the file
    /// that remembers processes.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub fn start(record: PathBuf) -> io::Result<Self> {
        kill_leftovers(&record);
        let (jobs, wanted) = mpsc::channel::<Job>();
        let runtime = tokio::runtime::Handle::current();
        let running = Arc::new(Running {
            record,
            state: Mutex::default(),
        });
        std::thread::Builder::new().name("kube-node".into()).spawn(move || {
            let _in_runtime = runtime.enter();
            for (launch, answer) in wanted {
                // Nobody may be waiting any more; then the process ends as it is dropped.
                let _ = answer.send(spawn(launch, &running));
            }
        })?;
        Ok(Self { jobs })
    }

    /// Starts a process.
    ///
    /// # Errors
    /// What the system says when the program cannot be run.
    pub async fn spawn(&self, launch: Launch) -> io::Result<Process> {
        let (answer, answered) = oneshot::channel();
        let gone = || io::Error::other("the node has stopped");
        self.jobs.send((launch, answer)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

fn spawn(launch: Launch, running: &Arc<Running>) -> io::Result<Process> {
    let (program, args) = launch
        .line
        .split_first()
        .ok_or_else(|| io::Error::other("there is no command"))?;
    let mut command = std::process::Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(launch.environment)
        .current_dir(launch.directory);
    let leads_session = match launch.stdio {
        LaunchStdio::Terminal(terminal) => {
            command
                .stdin(terminal.try_clone()?)
                .stdout(terminal.try_clone()?)
                .stderr(terminal);
            // With the session comes a group of its own.
            true
        }
        LaunchStdio::Output => {
            let command = command.stdin(Stdio::null());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
            false
        }
        LaunchStdio::InputAndOutput => {
            let command = command.stdin(Stdio::piped());
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
            false
        }
    };
    // First: whoever enters a namespace of users is not told any more that his parent has died.
    #[cfg(target_os = "linux")]
    if let Some(view) = launch.view {
        enter(&mut command, view);
    }
    die_with_this_thread(&mut command, leads_session);
    let child = tokio::process::Command::from(command).spawn()?;
    let pid = child.id().and_then(|it| i32::try_from(it).ok()).unwrap_or_default();
    running.add(pid);
    Ok(Process {
        child,
        pid,
        running: running.clone(),
    })
}

#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a view is entered between fork and exec")]
fn enter(command: &mut std::process::Command, view: crate::view::View) {
    // SAFETY: `enter` allocates nothing and takes no lock.
    unsafe { command.pre_exec(move || view.enter()) };
}

/// Of `linux/close_range.h`.
#[cfg(target_os = "linux")]
const CLOSE_RANGE_CLOEXEC: u32 = 4;

#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "a child's wish to die with its parent is expressed between fork and exec"
)]
fn die_with_this_thread(command: &mut std::process::Command, leads_session: bool) {
    let parent = i32::try_from(std::process::id()).unwrap_or_default();
    let ask = move || {
        // SAFETY: prctl, setsid, ioctl, close_range, getppid and _exit are safe between fork and exec, and take no
        // memory of ours.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The terminal is its input by now, and becomes the one that sends it Ctrl-C.
            if leads_session && (libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) != 0) {
                return Err(io::Error::last_os_error());
            }
            // What we were handed open by whoever started us is no business of a container. An old kernel cannot do it.
            libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, CLOSE_RANGE_CLOEXEC);
            // The parent may have died before the wish was heard.
            if libc::getppid() != parent {
                libc::_exit(137);
            }
        }
        Ok(())
    };
    // SAFETY: `ask` allocates nothing and takes no lock.
    unsafe { command.pre_exec(ask) };
}

#[cfg(not(target_os = "linux"))]
fn die_with_this_thread(_: &mut std::process::Command, _: bool) {}

/// The processes that run now, in memory, with the warden and on disk.
struct Running {
    record: PathBuf,
    state: Mutex<RunningState>,
}

#[derive(Default)]
struct RunningState {
    /// When each process was started, as the kernel counts; with it a number is a process for good.
    since: HashMap<i32, u64>,
    warden: Option<std::process::Child>,
}

/// Reads lines `+ PID` and `- PID` and kills the groups that are left when there are no more.
const WARDEN: &str = "p=' '; while read -r o n; do case $o in +) p=\"$p$n \";; *) p=\"${p%% $n *} ${p#* $n }\";; esac; done; \
                      for n in $p; do kill -s KILL -- \"-$n\" 2>/dev/null; done";

impl Running {
    fn add(&self, pid: i32) {
        let mut state = self.state.lock();
        if state.warden.is_none() {
            state.warden = warden()
                .inspect_err(
                    |error| tracing::warn!(%error, "nobody will end the children of processes when this one is killed"),
                )
                .ok();
        }
        state.since.insert(pid, started(pid).unwrap_or_default());
        self.tell(&mut state, '+', pid);
    }

    fn remove(&self, pid: i32) {
        let mut state = self.state.lock();
        if state.since.remove(&pid).is_some() {
            self.tell(&mut state, '-', pid);
        }
    }

    fn tell(&self, state: &mut RunningState, sign: char, pid: i32) {
        let told = state
            .warden
            .as_mut()
            .and_then(|it| it.stdin.as_mut())
            .map(|it| writeln!(it, "{sign} {pid}"));
        if let Some(Err(_)) = told {
            // Somebody has ended it; the next process gets a new one, which is told of all of them then.
            if let Some(mut warden) = state.warden.take() {
                let _ = warden.kill();
                let _ = warden.wait();
            }
        }
        let lines: String = state
            .since
            .iter()
            .map(|(pid, since)| format!("{pid} {since}\n"))
            .collect();
        if let Err(error) = std::fs::write(&self.record, lines) {
            tracing::debug!(%error, "could not remember which processes run");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let warden = self.state.get_mut().warden.take();
        if let Some(mut warden) = warden {
            drop(warden.stdin.take());
            let _ = warden.wait();
        }
        let _ = std::fs::remove_file(&self.record);
    }
}

fn warden() -> io::Result<std::process::Child> {
    std::process::Command::new("/bin/sh")
        .args(["-c", WARDEN])
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C on a terminal goes to our group, and the warden outlives us by a moment.
        .process_group(0)
        .spawn()
}

/// The start of a process in clock ticks since boot: field 22 of its stat, counted after the name,
/// which may hold blanks.
fn started(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(19)?.parse().ok()
}

fn kill_leftovers(record: &Path) {
    let Ok(lines) = std::fs::read_to_string(record) else {
        return;
    };
    for line in lines.lines() {
        let Some((pid, since)) = line.split_once(' ') else {
            continue;
        };
        let (Ok(pid), Ok(since)) = (pid.parse(), since.parse::<u64>()) else {
            continue;
        };
        if since != 0 && started(pid) == Some(since) {
            tracing::warn!(pid, "ending a process that an earlier run has left behind");
            signal_group(pid, libc::SIGKILL);
        }
    }
    let _ = std::fs::remove_file(record);
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncBufReadExt, BufReader};

    fn launch(script: &str) -> Launch {
        Launch {
            #[cfg(target_os = "linux")]
            view: None,
            line: ["/bin/sh", "-c", script].map(str::to_owned).into(),
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".into())]),
            directory: "/".into(),
            stdio: LaunchStdio::Output,
        }
    }

    fn lives(pid: i32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|it| !it.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z')))
    }

    async fn first_line(process: &mut Process) -> String {
        let (out, _) = process.output();
        let mut lines = BufReader::new(out.unwrap()).lines();
        lines.next_line().await.unwrap().unwrap()
    }

    async fn until_dead(pid: i32) {
        let dead = async {
            while lives(pid) {
                tokio::task::yield_now().await;
            }
        };
        let patience = tokio::time::timeout(testkit::wait::PATIENCE, dead).await;
        patience.expect("a process that should have been killed lives on");
    }

    #[tokio::test]
    async fn the_children_of_a_process_end_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let spawner = Spawner::start(dir.path().join("running")).unwrap();
        let mut process = spawner.spawn(launch("sleep 1000 & echo $!; exit 3")).await.unwrap();
        let child: i32 = first_line(&mut process).await.parse().unwrap();
        assert_eq!(process.wait().await, Exit { code: 3, signal: None });
        until_dead(child).await;
    }

    #[tokio::test]
    async fn a_signal_is_reported_as_by_a_container_runtime() {
        let dir = tempfile::tempdir().unwrap();
        let spawner = Spawner::start(dir.path().join("running")).unwrap();
        let mut process = spawner.spawn(launch("echo ready; exec sleep 1000")).await.unwrap();
        first_line(&mut process).await;
        process.terminate();
        let exit = Exit {
            code: 143,
            signal: Some(15),
        };
        assert_eq!(process.wait().await, exit);
    }

    #[tokio::test]
    async fn processes_end_when_the_thread_that_spawned_them_does() {
        let dir = tempfile::tempdir().unwrap();
        let spawner = Spawner::start(dir.path().join("running")).unwrap();
        let mut process = spawner.spawn(launch("echo ready; exec sleep 1000")).await.unwrap();
        first_line(&mut process).await;
        drop(spawner);
        assert_eq!(process.wait().await.signal, Some(libc::SIGKILL));
    }

    #[tokio::test]
    async fn the_warden_ends_the_groups_that_are_left() {
        let mut child = warden().unwrap();
        let group = |script: &str| {
            let mut command = std::process::Command::new("/bin/sh");
            command.args(["-c", script]).process_group(0).spawn().unwrap()
        };
        let (mut ended, mut left) = (group("sleep 1000"), group("sleep 1000"));
        let pids = [&ended, &left].map(|it| i32::try_from(it.id()).unwrap());
        let mut pipe = child.stdin.take().unwrap();
        writeln!(pipe, "+ {}\n+ {}\n- {}", pids[0], pids[1], pids[0]).unwrap();
        drop(pipe);
        child.wait().unwrap();
        until_dead(pids[1]).await;
        left.wait().unwrap();
        assert!(lives(pids[0]), "what was taken from the list is left alone");
        signal_group(pids[0], libc::SIGKILL);
        ended.wait().unwrap();
    }

    #[tokio::test]
    async fn what_an_earlier_run_left_is_ended_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let record = dir.path().join("running");
        let mut command = std::process::Command::new("/bin/sleep");
        let mut left = command.arg("1000").process_group(0).spawn().unwrap();
        let pid = i32::try_from(left.id()).unwrap();
        // A process that has the number of another one's is left alone: this test itself.
        let me = std::process::id();
        std::fs::write(&record, format!("{pid} {}\n{me} 1\n", started(pid).unwrap())).unwrap();
        let _spawner = Spawner::start(record).unwrap();
        until_dead(pid).await;
        assert!(!left.wait().unwrap().success());
    }
}
