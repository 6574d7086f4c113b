//! The way into running pods: to run something beside a container, to join it, and to speak to its ports.
//!
//! What is run has the container's user, variables, directory and view of its volumes, and ends with the container, or
//! as soon as nobody holds it any more. What may be run is what a probe may run; in containers of images that are here
//! for some programs only, these programs and nothing else, so that nobody has a shell by them.

use crate::{
    images::{Refusal, Then},
    logs,
    pod::Prepared,
    process::{LaunchStdio, Process, Spawner},
    terminal::Terminal,
};
use bytes::Bytes;
use futures::{
    StreamExt,
    future::{BoxFuture, ready},
    stream::{self, BoxStream},
};
use k8s_openapi::api::core::v1::Pod;
use kube_primitives::cache::Cache;
use parking_lot::Mutex;
use std::{collections::HashMap, io, net::Ipv4Addr, path::PathBuf, pin::Pin, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    process::ChildStdin,
    sync::{OwnedSemaphorePermit, Semaphore, broadcast},
};
use tokio_util::{io::ReaderStream, sync::CancellationToken};

/// How many pieces of output somebody who has joined a container may be behind. What is older is in the log: a
/// container never waits for those who look on.
pub const PIECES_MAX: usize = 256;
/// What is read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// How many processes are run beside containers at once.
const PROCESSES_MAX: usize = 256;

/// Why a pod cannot be reached into.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// The pod is not on this node.
    #[error("pod {0:?} is not on this node")]
    NoPod(String),
    /// It cannot be done as it is asked for.
    #[error("{0}")]
    Bad(String),
    /// It is not done, whoever asks.
    #[error("{0}")]
    Refused(String),
}

/// Which container, and with what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessRequest {
    /// The container; `None` for the only one.
    pub container: Option<String>,
    /// Whether something is written to its input.
    pub stdin: bool,
    /// Whether it has a terminal.
    pub tty: bool,
}

/// A process whose streams are held. One that was started for it ends when this is dropped.
pub struct ReachedProcess {
    /// Its input, which ends when this is dropped.
    pub stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// What it writes.
    pub stdout: Option<BoxStream<'static, Bytes>>,
    /// What it complains; with a terminal it has one output only.
    pub stderr: Option<BoxStream<'static, Bytes>>,
    /// Takes the width and the height of its terminal.
    pub resize: Option<Box<dyn Fn(u16, u16) + Send>>,
    /// Its exit code.
    pub end: BoxFuture<'static, Result<i32, String>>,
}

/// What begins later, or does not.
pub type ReachStart = BoxFuture<'static, Result<ReachedProcess, String>>;

/// Where what is typed into a container goes.
pub enum LiveInput {
    Pipe(ChildStdin),
    Terminal(Terminal),
}

/// A piece of output, and the stream that it came from.
type Said = (&'static str, Bytes);

/// One container that runs.
pub struct Live {
    pub uid: String,
    pub container: String,
    /// The address of its pod.
    pub ip: Ipv4Addr,
    /// The directory of its pod.
    pub dir: PathBuf,
    pub prepared: Arc<Prepared>,
    pub spawner: Spawner,
    pub input: tokio::sync::Mutex<Option<LiveInput>>,
    /// Whether its input ends with whoever has typed (`stdinOnce`).
    pub closes_input: bool,
    pub terminal: Option<Terminal>,
    pub output: broadcast::Sender<Said>,
    pub ended: CancellationToken,
}

/// The way into the pods of one node. Cloning shares it.
#[derive(Clone)]
pub struct PodReach {
    inner: Arc<Inner>,
}

struct Inner {
    pods: Cache<Pod>,
    /// By the uid of the pod and the name of the container.
    live: Mutex<HashMap<(String, String), Arc<Live>>>,
    processes: Arc<Semaphore>,
}

/// A container's place among those that run, for as long as it does.
pub struct Entered {
    reach: PodReach,
    live: Arc<Live>,
}

impl Entered {
    /// Shows those who have joined the container what it says.
    pub fn hear(&self) -> impl Fn(&'static str, &[u8]) + Send + use<> {
        let output = self.live.output.clone();
        move |stream, bytes| {
            if !bytes.is_empty() && output.receiver_count() > 0 {
                let _ = output.send((stream, Bytes::copy_from_slice(bytes)));
            }
        }
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let key = (self.live.uid.clone(), self.live.container.clone());
        let mut live = self.reach.inner.live.lock();
        if live.get(&key).is_some_and(|it| Arc::ptr_eq(it, &self.live)) {
            live.remove(&key);
        }
        drop(live);
        self.live.ended.cancel();
    }
}

impl PodReach {
    pub(crate) fn new(pods: Cache<Pod>) -> Self {
        Self {
            inner: Arc::new(Inner {
                pods,
                live: Mutex::default(),
                processes: Arc::new(Semaphore::new(PROCESSES_MAX)),
            }),
        }
    }

    /// A container runs, until what this returns is dropped.
    pub(crate) fn enter(&self, live: Live) -> Entered {
        let live = Arc::new(live);
        let key = (live.uid.clone(), live.container.clone());
        self.inner.live.lock().insert(key, live.clone());
        Entered {
            reach: self.clone(),
            live,
        }
    }

    fn pod(&self, namespace: &str, name: &str) -> Result<Arc<Pod>, ReachError> {
        let found = self.inner.pods.get(namespace, name);
        found.ok_or_else(|| ReachError::NoPod(name.to_owned()))
    }

    /// The container that is meant, if it runs.
    fn container(&self, namespace: &str, pod: &str, asked: Option<&str>) -> Result<Arc<Live>, ReachError> {
        let pod = self.pod(namespace, pod)?;
        let container = logs::choose(&pod, asked).map_err(ReachError::Bad)?;
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let key = (uid, container);
        let live = self.inner.live.lock().get(&key).cloned();
        // As a kubelet says it of one that does not run.
        live.ok_or_else(|| ReachError::Bad(format!("container not found ({:?})", key.1)))
    }

    /// Prepares to run something beside a container.
    ///
    /// # Errors
    /// When the container does not run, or the words are not for it.
    pub fn exec(
        &self,
        namespace: &str,
        pod: &str,
        request: &ProcessRequest,
        words: &[String],
    ) -> Result<ReachStart, ReachError> {
        let live = self.container(namespace, pod, request.container.as_deref())?;
        let line = line(&live, words)?;
        let permit = self.inner.processes.clone().try_acquire_owned();
        let permit = permit.map_err(|_| {
            let text = format!("{PROCESSES_MAX} processes run in the pods of this node by exec already");
            ReachError::Bad(text)
        })?;
        let request = request.clone();
        Ok(Box::pin(async move { start(live, line, &request, permit).await }))
    }

    /// Prepares to join a container: to see what it writes from now on, and to type where it takes input.
    ///
    /// # Errors
    /// When the container does not run.
    pub fn attach(&self, namespace: &str, pod: &str, request: &ProcessRequest) -> Result<ReachStart, ReachError> {
        let live = self.container(namespace, pod, request.container.as_deref())?;
        let stdin = request.stdin;
        Ok(Box::pin(async move { Ok(join(&live, stdin)) }))
    }

    /// Where the ports of a pod are.
    ///
    /// # Errors
    /// When nothing of it runs.
    pub fn address(&self, namespace: &str, pod: &str) -> Result<Ipv4Addr, ReachError> {
        let pod = self.pod(namespace, pod)?;
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        // Not what its status says, which others may write.
        let live = self.inner.live.lock();
        let found = live.values().find(|it| it.uid == uid).map(|it| it.ip);
        found.ok_or_else(|| {
            let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
            let phase = phase.unwrap_or("Pending");
            ReachError::Bad(format!(
                "unable to forward port because pod is not running. Current status={phase}"
            ))
        })
    }

    /// Connects to a port of a pod that [`PodReach::address`] has found.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn connect(address: Ipv4Addr, port: u16) -> io::Result<TcpStream> {
        let stream = TcpStream::connect((address, port)).await;
        stream.map_err(|error| io::Error::new(error.kind(), format!("dial tcp {address}:{port}: {error}")))
    }
}

/// What is run for these words.
fn line(live: &Live, words: &[String]) -> Result<Vec<String>, ReachError> {
    let prepared = &live.prepared;
    let paths = &prepared.paths;
    let rewritten: Vec<String> = words.iter().map(|it| paths.rewrite(it)).collect();
    match &prepared.mapped.then {
        Then::OneOf(_) => {
            let line = prepared.mapped.line(&rewritten, &[], &live.dir);
            line.map_err(|refusal| match refusal {
                Refusal::Empty => ReachError::Bad(refusal.to_string()),
                Refusal::Other { programs, .. } => {
                    let asked = words.first().map_or("", String::as_str);
                    ReachError::Refused(format!(
                        "the image of container {:?} stands for {programs} only, and exec asks for {asked:?}",
                        live.container
                    ))
                }
            })
        }
        Then::AllButEntrypoint | Then::Whole => Ok(named_as_asked(words, rewritten)),
    }
}

/// `kubectl cp` takes files out by `tar cf - PATH` and wants to find them by that name, while in a volume they lie
/// elsewhere: tar is told to call them as they were asked for.
fn named_as_asked(words: &[String], rewritten: Vec<String>) -> Vec<String> {
    let ([tar, how, to, path], [.., host]) = (words, &rewritten[..]) else {
        return rewritten;
    };
    let is_cp = tar == "tar" && how.trim_start_matches('-') == "cf" && to == "-";
    // A name in which a pattern would begin, or the expression end, is left as it is.
    let is_plain = |it: &str| it.chars().all(|it| it.is_alphanumeric() || "/-_. @+:".contains(it));
    if !is_cp || host == path || !is_plain(host) || !is_plain(path) {
        return rewritten;
    }
    // It strips the first slash before it looks.
    let pattern = host.trim_start_matches('/').replace('.', "\\.").replace('+', "[+]");
    let transform = format!("--transform=flags=rSH;s,^{pattern},{},", path.trim_start_matches('/'));
    vec![tar.clone(), how.clone(), to.clone(), transform, host.clone()]
}

async fn start(
    live: Arc<Live>,
    line: Vec<String>,
    request: &ProcessRequest,
    permit: OwnedSemaphorePermit,
) -> Result<ReachedProcess, String> {
    let program = line.first().cloned().unwrap_or_default();
    let failed = |error: io::Error| format!("exec: {program:?}: {error}");
    let (stdio, terminal) = match (request.tty, request.stdin) {
        (true, _) => {
            let (terminal, side) = Terminal::open().map_err(failed)?;
            (LaunchStdio::Terminal(side), Some(terminal))
        }
        (false, true) => (LaunchStdio::InputAndOutput, None),
        (false, false) => (LaunchStdio::Output, None),
    };
    let launch = live.prepared.launch(line, stdio);
    let mut process = live.spawner.spawn(launch).await.map_err(failed)?;
    let (out, err) = process.output();
    let input = process.input();
    let ended = live.ended.clone();
    let end = Box::pin(async move {
        let _permit = permit;
        Ok(until_end(process, ended).await)
    });
    Ok(match terminal {
        Some(terminal) => ReachedProcess {
            stdin: request.stdin.then(|| Box::pin(terminal.clone()) as _),
            stdout: Some(pieces(terminal.clone())),
            stderr: None,
            resize: Some(resizer(terminal)),
            end,
        },
        None => ReachedProcess {
            stdin: input.map(|it| Box::pin(it) as _),
            stdout: out.map(pieces),
            stderr: err.map(pieces),
            resize: None,
            end,
        },
    })
}

async fn until_end(mut process: Process, ended: CancellationToken) -> i32 {
    tokio::select! {
        exit = process.wait() => return exit.code,
        () = ended.cancelled() => {}
    }
    process.kill();
    process.wait().await.code
}

fn resizer(terminal: Terminal) -> Box<dyn Fn(u16, u16) + Send> {
    Box::new(move |width, height| terminal.resize(width, height))
}

fn pieces(from: impl AsyncRead + Send + 'static) -> BoxStream<'static, Bytes> {
    let pieces = ReaderStream::with_capacity(from, BUFFER_BYTES);
    pieces.filter_map(|it| ready(it.ok())).boxed()
}

fn join(live: &Arc<Live>, stdin: bool) -> ReachedProcess {
    let ended = live.ended.clone();
    ReachedProcess {
        stdin: stdin.then(|| typed(live.clone())),
        stdout: Some(said(live, "stdout")),
        stderr: live.terminal.is_none().then(|| said(live, "stderr")),
        resize: live.terminal.clone().map(resizer),
        end: Box::pin(async move {
            ended.cancelled().await;
            Ok(0)
        }),
    }
}

/// What a container says from now on.
fn said(live: &Live, stream: &'static str) -> BoxStream<'static, Bytes> {
    let (receiver, ended) = (live.output.subscribe(), live.ended.clone());
    let pieces = stream::unfold((receiver, ended), |(mut receiver, ended)| async move {
        loop {
            let next = tokio::select! {
                biased;
                next = receiver.recv() => next,
                // What was said before has been received: the sender says nothing after it has ended.
                () = ended.cancelled() => return None,
            };
            match next {
                Ok(it) => return Some((it, (receiver, ended))),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    });
    let of_stream = pieces.filter_map(move |(from, bytes)| ready((from == stream).then_some(bytes)));
    of_stream.boxed()
}

/// The input of a container. One types at a time; another waits for its turn.
fn typed(live: Arc<Live>) -> Pin<Box<dyn AsyncWrite + Send>> {
    let (ours, mut theirs) = tokio::io::duplex(BUFFER_BYTES);
    let ended = live.ended.clone();
    let copy = async move {
        let mut input = live.input.lock().await;
        let copied = match input.as_mut() {
            Some(LiveInput::Pipe(it)) => tokio::io::copy(&mut theirs, it).await,
            Some(LiveInput::Terminal(it)) => tokio::io::copy(&mut theirs, it).await,
            // What is typed into nothing is gone.
            None => tokio::io::copy(&mut theirs, &mut tokio::io::sink()).await,
        };
        if live.closes_input || copied.is_err() {
            input.take();
        }
    };
    tokio::spawn(async move {
        tokio::select! {
            () = copy => {}
            () = ended.cancelled() => {}
        }
    });
    Box::pin(ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_calls_files_of_volumes_as_they_were_asked_for() {
        let named = |words: &[&str], rewritten: &[&str]| {
            let owned = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            named_as_asked(&owned(words), owned(rewritten)).join(" ")
        };
        assert_eq!(
            named(&["tar", "cf", "-", "/data/a"], &["tar", "cf", "-", "/pods/1.2/a"]),
            "tar cf - --transform=flags=rSH;s,^pods/1\\.2/a,data/a, /pods/1.2/a"
        );
        let same = ["tar", "cf", "-", "a"];
        assert_eq!(named(&same, &same), "tar cf - a");
        assert_eq!(
            named(&["tar", "cf", "-", "/data/,e"], &["tar", "cf", "-", "/pods/,e"]),
            "tar cf - /pods/,e"
        );
        let out = ["tar", "xmf", "-", "-C", "/data"];
        assert_eq!(named(&out, &out), "tar xmf - -C /data");
    }
}
