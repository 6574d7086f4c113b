//! Lists that a client is walking page by page, as they were when it took the first page.
//!
//! The log of changes is short, and clients take minutes for a large list. What a snapshot costs is a pointer per
//! object, and the old state of those that change meanwhile; how many are kept, for how long and how large is bounded.
//! A walk that outlives its snapshot goes on from the log while that reaches back,
//! and is told to start again after that.

use kube_store::Object;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

/// As long as etcd keeps history by default.
const KEPT: Duration = Duration::from_secs(300);
const SNAPSHOTS_MAX: usize = 64;
/// Counted as if every object had changed; the newest snapshot may be larger.
const BYTES_MAX: usize = 128 << 20;

/// The objects of one collection at one revision, in key order.
pub type SnapshotObjects = Arc<[Arc<Object>]>;

struct Snapshot {
    resource: Arc<str>,
    namespace: String,
    revision: u64,
    objects: SnapshotObjects,
    bytes: usize,
    used: Instant,
}

#[derive(Default)]
struct SnapshotList {
    /// Oldest first.
    snapshots: VecDeque<Snapshot>,
    bytes: usize,
    /// Whether somebody will look for what is over.
    sweeping: bool,
}

impl SnapshotList {
    fn forget_old(&mut self, now: Instant) {
        self.snapshots.retain(|it| now.duration_since(it.used) < KEPT);
        self.bytes = self.snapshots.iter().map(|it| it.bytes).sum();
    }
}

/// The snapshots of one server.
#[derive(Default)]
pub struct Snapshots(Arc<Mutex<SnapshotList>>);

impl Snapshots {
    /// The objects that a walk began with.
    pub fn find(&self, resource: &str, namespace: &str, revision: u64) -> Option<SnapshotObjects> {
        let mut kept = self.0.lock();
        let found = kept
            .snapshots
            .iter_mut()
            .find(|it| it.revision == revision && &*it.resource == resource && it.namespace == namespace)?;
        found.used = Instant::now();
        Some(found.objects.clone())
    }

    /// Keeps what a walk begins with.
    pub fn keep(&self, resource: &Arc<str>, namespace: &str, revision: u64, objects: SnapshotObjects) {
        let now = Instant::now();
        let bytes = objects.iter().map(|it| it.json.len()).sum();
        let mut kept = self.0.lock();
        kept.forget_old(now);
        kept.bytes += bytes;
        kept.snapshots.push_back(Snapshot {
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            revision,
            objects,
            bytes,
            used: now,
        });
        while kept.snapshots.len() > SNAPSHOTS_MAX || (kept.bytes > BYTES_MAX && kept.snapshots.len() > 1) {
            let Some(oldest) = kept.snapshots.pop_front() else {
                break;
            };
            kept.bytes -= oldest.bytes;
        }
        if !kept.sweeping {
            kept.sweeping = true;
            let snapshots = Arc::downgrade(&self.0);
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(KEPT).await;
                    let Some(snapshots) = snapshots.upgrade() else { return };
                    let mut kept = snapshots.lock();
                    kept.forget_old(Instant::now());
                    if kept.snapshots.is_empty() {
                        kept.sweeping = false;
                        return;
                    }
                }
            });
        }
    }
}
