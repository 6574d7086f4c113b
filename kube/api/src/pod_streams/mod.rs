//! Reaching into running pods: `exec`, `attach` and `port-forward`, over a connection that stops being HTTP.
//!
//! ```text
//!  kubectl ──GET/POST…/exec──▶ verbs::connect   (rights, admission, pod and container: errors are Statuses)
//!          ◀──── 101 ─────────  upgrade         (WebSocket or SPDY/3.1, and which protocol in it)
//!          ◀═══ lanes ═══════▶  web_socket, spdy (bytes ◀─▶ lanes: one for stdin, one for stdout, …)
//!                               session ──▶ process | port_forward ──▶ PodStreams (whoever runs the pods)
//! ```
//!
//! What is done once the connection is upgraded knows lanes only, so every protocol does the same.
//! Everything is bounded: frames, headers, streams, what waits for a slow reader, and how many connections there are.

mod lanes;
mod port_forward;
mod process;
pub(crate) mod session;
mod spdy;
#[cfg(test)]
mod tests;
pub(crate) mod upgrade;
mod web_socket;

use bytes::Bytes;
use futures::{future::BoxFuture, stream::BoxStream};
use std::{io, pin::Pin, sync::Arc};
use tokio::{io::AsyncWrite, net::TcpStream};

/// What is run in a container: `PodExecOptions` of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOptions {
    /// The container; `None` for the only one.
    pub container: Option<String>,
    /// The words to run.
    pub command: Vec<String>,
    /// Which of its streams are wanted.
    pub stdio: StandardStreams,
}

/// What is joined: `PodAttachOptions` of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttachOptions {
    /// The container; `None` for the only one.
    pub container: Option<String>,
    /// Which of its streams are wanted.
    pub stdio: StandardStreams,
}

/// The streams of a process that somebody wants to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StandardStreams {
    /// What it reads.
    pub stdin: bool,
    /// What it writes.
    pub stdout: bool,
    /// What it complains; never with a terminal, which has one output.
    pub stderr: bool,
    /// Whether they are a terminal.
    pub tty: bool,
}

/// The size of a terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// Why a pod cannot be reached into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodStreamError {
    /// The pod is not run here.
    NotFound,
    /// The request cannot be answered as it is; the sentence says why.
    BadRequest(String),
    /// This is not done here, whoever asks; the sentence says why.
    Forbidden(String),
}

/// A process whose streams are held. Dropping it lets the process go, and ends one that was started for it.
pub struct ProcessStreams {
    /// Where its input goes; closed when it is dropped.
    pub stdin: Option<Pin<Box<dyn AsyncWrite + Send>>>,
    /// What it writes.
    pub stdout: Option<BoxStream<'static, Bytes>>,
    /// What it complains.
    pub stderr: Option<BoxStream<'static, Bytes>>,
    /// Is told the size of its terminal.
    pub resize: Option<Box<dyn Fn(TerminalSize) + Send>>,
    /// Its exit code, or what went wrong meanwhile.
    pub end: BoxFuture<'static, Result<i32, String>>,
}

/// Begins when the connection stands; the error is what went wrong then.
pub type ProcessStart = BoxFuture<'static, Result<ProcessStreams, String>>;

/// Connects to a port of one pod.
pub type PodPorts = Arc<dyn Fn(u16) -> BoxFuture<'static, io::Result<TcpStream>> + Send + Sync>;

/// Reaches into pods. Who runs pods on this server's objects hands one over with
/// [`Server::set_pod_streams`](crate::Server::set_pod_streams).
#[async_trait::async_trait]
pub trait PodStreams: Send + Sync + 'static {
    /// Prepares to run something in a container.
    ///
    /// # Errors
    /// When it cannot be done.
    async fn exec(&self, namespace: &str, pod: &str, options: ExecOptions) -> Result<ProcessStart, PodStreamError>;

    /// Prepares to join a container.
    ///
    /// # Errors
    /// When it cannot be done.
    async fn attach(&self, namespace: &str, pod: &str, options: AttachOptions) -> Result<ProcessStart, PodStreamError>;

    /// The ports of a pod.
    ///
    /// # Errors
    /// When there are none.
    async fn ports(&self, namespace: &str, pod: &str) -> Result<PodPorts, PodStreamError>;
}

/// Sub-resources of pods that reach into them.
pub(crate) const STREAMS: &[&str] = &["exec", "attach", "portforward"];

/// How many connections reach into pods at once.
pub(crate) const SESSIONS_MAX: usize = 1024;
