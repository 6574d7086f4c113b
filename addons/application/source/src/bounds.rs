//! How much a source may send, and how long it may take.

use crate::SourceError;
use std::time::Duration;
use tokio::time::Instant;

/// How much is taken from a source before it is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceBounds {
    /// Files of a tree, and objects of a bucket.
    pub files_max: usize,
    /// Bytes of one file. Larger ones of a Git tree are reported and not read; elsewhere it is an error.
    pub file_bytes_max: u64,
    /// Bytes of all files together. A Git server may send twice as many, and a mebibyte of names, as it sends history,
    /// too.
    pub total_bytes_max: u64,
    /// Folders within folders.
    pub depth_max: usize,
    /// How long an operation may take as a whole.
    pub time_max: Duration,
}

impl Default for SourceBounds {
    fn default() -> Self {
        Self {
            files_max: 20_000,
            file_bytes_max: 8 << 20,
            total_bytes_max: 128 << 20,
            depth_max: 64,
            time_max: Duration::from_secs(120),
        }
    }
}

impl SourceBounds {
    /// What a Git server may send. Objects are compressed, so that this is rarely less than the files have.
    pub(crate) fn received_bytes_max(&self) -> u64 {
        self.total_bytes_max.saturating_mul(2).saturating_add(1 << 20)
    }

    /// When an operation that begins now has to have ended.
    pub(crate) fn deadline(&self) -> Deadline {
        let now = Instant::now();
        Deadline {
            // A bound that no clock can hold is none.
            at: now
                .checked_add(self.time_max)
                .unwrap_or(now + Duration::from_secs(86_400)),
            time_max: self.time_max,
        }
    }
}

/// When an operation has to have ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    pub at: Instant,
    time_max: Duration,
}

impl Deadline {
    pub fn has_passed(&self) -> bool {
        Instant::now() >= self.at
    }

    /// What is said about an operation on `url` that did not end in time.
    pub fn missed(&self, url: &str) -> SourceError {
        SourceError::TimedOut {
            url: url.to_owned(),
            seconds: self.time_max.as_secs_f64(),
        }
    }

    /// Waits for an operation on `url`, until the deadline.
    pub async fn holds<T>(
        &self,
        url: &str,
        operation: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        match tokio::time::timeout_at(self.at, operation).await {
            Ok(ended) => ended,
            Err(_) => Err(self.missed(url)),
        }
    }
}
