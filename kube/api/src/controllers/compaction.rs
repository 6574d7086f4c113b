//! Forgets the events that watches could resume from when they are old: without this, the log of each kind would grow
//! to its bounds, which in a server with many kinds is more than the objects themselves.

use kube_store::Store;
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(60);
/// How many looks an event lives for: five to six minutes, as long as kube-apiserver's `--etcd-compaction-interval`
/// lets it by default.
const KEPT: usize = 5;

/// Which revisions there were at the last looks.
#[derive(Default)]
struct Marks(VecDeque<u64>);

impl Marks {
    /// Looks at the revision of now; answers the one up to which nothing is kept any longer.
    fn look(&mut self, now: u64) -> Option<u64> {
        self.0.push_back(now);
        if self.0.len() > KEPT { self.0.pop_front() } else { None }
    }
}

/// Compacts until `stop` is cancelled.
pub(super) async fn run(store: Arc<Store>, stop: CancellationToken) {
    let mut marks = Marks::default();
    let mut interval = tokio::time::interval(INTERVAL);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = interval.tick() => {}
        }
        if let Some(revision) = marks.look(store.revision()) {
            store.compact(revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_kept_for_five_looks() {
        let mut marks = Marks::default();
        let forgotten: Vec<_> = (1..=8).map(|now| marks.look(now * 10)).collect();
        assert_eq!(forgotten, [None, None, None, None, None, Some(10), Some(20), Some(30)]);
    }
}
