//! When the members of a set are to be counted anew.

use std::time::Duration;

use kube::ResourceExt;
use ocm_api::cluster::{ManagedCluster, ManagedClusterSet, Membership};
use ocm_reconcile::{Cache, Queue};

/// How long clusters that come and go are gathered before a set is counted anew: a thousand that come at once would
/// have all of them counted, and the number written, a thousand times.
const GATHER: Duration = Duration::from_millis(200);
/// And for each cluster there is, because counting looks at all of them: the share of the time that it takes stays the
/// same, a second for ten thousand.
const GATHER_EACH: Duration = Duration::from_micros(100);

/// Has sets counted anew that clusters enter or leave, in a moment.
pub(super) fn wake(queue: &Queue, sets: &Cache<ManagedClusterSet>, clusters: &Cache<ManagedCluster>) {
    let (queue, sets, all) = (queue.clone(), sets.clone(), clusters.clone());
    clusters.listen(move |old, new| {
        let many = u32::try_from(all.len()).unwrap_or(u32::MAX);
        for set in sets_with_other_members(&sets, old.map(|it| &**it), new.map(|it| &**it)) {
            queue.add_after(set, GATHER.max(GATHER_EACH * many));
        }
    });
}

/// The sets that a cluster enters or leaves. Who was and stays a member changes no number:
/// the set of all clusters is not counted anew for a label.
fn sets_with_other_members(
    sets: &Cache<ManagedClusterSet>,
    old: Option<&ManagedCluster>,
    new: Option<&ManagedCluster>,
) -> Vec<String> {
    if old
        .zip(new)
        .is_some_and(|(old, new)| old.metadata.labels == new.metadata.labels)
    {
        return Vec::new();
    }
    let differs = |set: &ManagedClusterSet| {
        let members = Membership::of([set]);
        let [before, after] = [old, new].map(|it| it.is_some_and(|it| members.has(it)));
        before != after
    };
    let sets = sets.list().into_iter().filter(|it| differs(it));
    sets.map(|it| it.name_any()).collect()
}
