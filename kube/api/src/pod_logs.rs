//! Who has the logs of pods: whoever runs them, if anybody does.

use bytes::Bytes;
use futures::stream::BoxStream;
use jiff::Timestamp;

/// Which part of a log is wanted: `PodLogOptions` of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLogOptions {
    /// The container; `None` for the only one.
    pub container: Option<String>,
    /// Go on as it grows.
    pub follow: bool,
    /// The start before the present one.
    pub previous: bool,
    /// Only lines from then on.
    pub since: Option<Timestamp>,
    /// Each line with its time.
    pub timestamps: bool,
    /// Only the last lines.
    pub tail_lines: Option<usize>,
    /// No more than this.
    pub limit_bytes: Option<u64>,
}

/// Why there is no log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodLogError {
    /// The pod is not run here.
    NotFound,
    /// The request cannot be answered as it is; the sentence says why.
    BadRequest(String),
    /// Something failed.
    Internal(String),
}

/// Has the logs of pods. Who runs pods on this server's objects hands one over with
/// [`Server::set_pod_logs`](crate::Server::set_pod_logs).
#[async_trait::async_trait]
pub trait PodLogs: Send + Sync + 'static {
    /// Opens the log of one container.
    ///
    /// # Errors
    /// When there is none.
    async fn open(
        &self,
        namespace: &str,
        pod: &str,
        options: PodLogOptions,
    ) -> Result<BoxStream<'static, Bytes>, PodLogError>;
}
