//! Clusters that wait for an import are told that nothing imports them: the importer is not there yet, and who has
//! turned its gate on has to know.
//!
//! Root: ManagedCluster. Reads: the Cluster of Cluster API that stands for it. Writes: an Event about it, once. Never:
//! the cluster. Upstream: ocm `pkg/registration/hub/importer`, of which this knows who waits.

mod cluster_api;
mod waiting;

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kube::ResourceExt;
use ocm_api::cluster::ManagedCluster;
use ocm_reconcile::{
    Cache, Caches, ObserveError, Outcome, Plan, Reconciler, Watches, async_trait,
    awaited::{self, Said},
    cache::{key_of, split_key},
    rbac::Right,
};
use parking_lot::Mutex;
use tracing::warn;

use self::{
    cluster_api::ClusterApiCluster,
    waiting::{owner, waits},
};
use super::permissions;

/// Who is not there.
const WHO: &str = "cluster-importer";
/// What everybody is told of it.
const NOT_THERE: &str = "the importer that the gate ClusterImporter turns on is not there yet, and nothing is imported; \
                             everything else of registration works. Bring clusters in with `drover join --deploy`";

/// The reconciler.
pub struct Imports {
    clusters: Cache<ManagedCluster>,
    owners: Cache<ClusterApiCluster>,
    told: Mutex<BTreeSet<String>>,
    /// For as long as this runs, the process says what is not there.
    _said: Said,
}

/// What a plan is made from.
pub struct Seen {
    /// The time.
    pub now: Timestamp,
    /// The cluster's name.
    pub name: String,
    /// The cluster; `None` when it is gone.
    pub cluster: Option<Arc<ManagedCluster>>,
    /// The Cluster of Cluster API that it is, as `namespace/name`, if that is there.
    pub owner: Option<String>,
    /// Whether it was told.
    pub is_told: bool,
}

impl Imports {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        warn!(gate = "ClusterImporter", "{NOT_THERE}");
        Self {
            clusters: caches.of(),
            owners: caches.of(),
            told: Mutex::default(),
            _said: awaited::say(WHO, NOT_THERE),
        }
    }
}

#[async_trait]
impl Reconciler for Imports {
    const NAME: &'static str = "cluster-import";
    const WORKERS: usize = super::WORKERS;
    const RIGHTS: &'static [Right] = &[permissions::EVENTS];
    type Seen = Seen;

    /// Clusters of both kinds, those of Cluster API wherever that is installed.
    fn watches(&self, watches: &mut Watches) {
        let clusters = self.clusters.clone();
        let waking = watches.root(&self.clusters).wakes(&self.owners, move |old, new| {
            let (None, Some(new)) = (old, new) else {
                return Vec::new();
            };
            let key = key_of(new);
            let all = clusters.list().into_iter().filter(|it| owner(it) == key);
            all.map(|it| it.name_any()).collect()
        });
        waking.not_awaited();
    }

    async fn observe(&self, name: &str) -> Result<Seen, ObserveError> {
        let cluster = self.clusters.named(name);
        let owner = cluster.as_deref().map(owner).filter(|it| {
            let (namespace, name) = split_key(it);
            self.owners.get(namespace, name).is_some()
        });
        Ok(Seen {
            now: Timestamp::now(),
            name: name.to_owned(),
            is_told: self.told.lock().contains(name),
            cluster,
            owner,
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let waiting = seen.cluster.as_deref().filter(|it| waits(it));
        let (Some(cluster), Some(owner), false) = (waiting, &seen.owner, seen.is_told) else {
            return plan;
        };
        plan.push(waiting::event(cluster, owner, seen.now));
        plan
    }

    fn remember(&self, seen: &Seen, _: &Outcome) {
        match (seen.cluster.as_deref().filter(|it| waits(it)), &seen.owner) {
            // If it waits again, it is told again.
            (None, _) => self.told.lock().remove(&seen.name),
            (Some(_), Some(_)) => self.told.lock().insert(seen.name.clone()),
            (Some(_), None) => false,
        };
    }
}

#[cfg(test)]
mod tests {
    use ocm_reconcile::Step;
    use serde_json::{Value, json};

    use super::{
        waiting::{IMPORTED, OWNER},
        *,
    };

    fn told(metadata: Value, conditions: Value) -> Vec<String> {
        let cluster = json!({"metadata": metadata, "spec": {}, "status": {"conditions": conditions}});
        let cluster: ManagedCluster = serde_json::from_value(cluster).unwrap();
        let seen = Seen {
            now: Timestamp::UNIX_EPOCH,
            name: "c1".to_owned(),
            owner: Some(owner(&cluster)),
            cluster: Some(Arc::new(cluster)),
            is_told: false,
        };
        let steps = Imports::plan(&seen).stages.into_iter().flatten();
        let note = |step| match step {
            Step::Event(it) => it.note,
            other => panic!("{other}"),
        };
        steps.map(note).collect()
    }

    #[test]
    fn only_clusters_waiting_for_an_import_are_reported() {
        let named = told(json!({"name": "c1", "annotations": {OWNER: "capi/one"}}), json!([]));
        assert!(
            named[0].starts_with("The Cluster capi/one is not imported: "),
            "{named:?}"
        );
        let default = told(json!({"name": "c1"}), json!([]));
        assert!(
            default[0].starts_with("The Cluster c1/c1 is not imported: "),
            "{default:?}"
        );
        let imported = json!([{"type": IMPORTED, "status": "True", "reason": "ImportSucceed", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
        assert!(told(json!({"name": "c1"}), imported).is_empty());
        let leaving = json!({"name": "c1", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(told(leaving, json!([])).is_empty());
    }
}
