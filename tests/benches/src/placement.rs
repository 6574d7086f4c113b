//! Placements: all of them decided from nothing, one label that changes, and what remembering costs.
//!
//! In one process, against an API server in memory, without a socket: what is measured is deciding and writing.

mod joins;
mod world;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use ocm_api::cluster::{
    AddOnPlacementScore, ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
};
use ocm_reconcile::{Cache, Caches, Clients, controller::start_all};
use placement::hub::{controllers, load::clusters, memory::Memory};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    Size, counting,
    statistics::{mebibytes, milliseconds, percentile, round},
};
use world::{Moves, World};

const DEADLINE: Duration = Duration::from_secs(600);
/// Fine enough beside what is measured.
const GLANCE: Duration = Duration::from_micros(200);

/// Measures all of it.
pub async fn measure(size: Size) -> Result<Value> {
    let mut report = fleet(size).await?;
    report["joins"] = joins(size).await?;
    Ok(report)
}

/// A cluster that begins to match and ceases to, alone.
pub async fn joins(size: Size) -> Result<Value> {
    joins::measure(size.placement_joins, size.placement_join_runs).await
}

async fn fleet(size: Size) -> Result<Value> {
    let hub = testkit::World::new(0).await.hub;
    let client = hub.client();
    let world = World::new(size.placement_clusters, size.placements);
    let begun = Instant::now();
    world.load(&client).await?;
    let loaded = begun.elapsed();

    let cancel = CancellationToken::new();
    let caches = Caches::new(client.clone(), cancel.clone());
    // The watches arrive first: what is measured is deciding.
    let (placements, written) = (caches.of::<Placement>(), caches.of::<PlacementDecision>());
    caches.of::<ManagedCluster>();
    caches.of::<ManagedClusterSet>();
    caches.of::<ManagedClusterSetBinding>();
    caches.of::<AddOnPlacementScore>();
    caches.synced().await;
    let chosen = Chosen::over(&written, world.moves(size.placement_changes));

    let begun = Instant::now();
    let running = start_all(controllers(&caches), &Clients::hub(client.clone()), &cancel);
    let memory = Memory::beside(&caches);
    let queue = running[0].queue.clone();
    let decided = || {
        let placements = placements.list();
        let has_status = placements.iter().filter(|it| {
            let status = it.status.as_ref();
            status.is_some_and(|it| !it.conditions.is_empty())
        });
        queue.is_empty() && has_status.count() == size.placements
    };
    until(decided, "not all placements are decided").await?;
    let from_nothing = begun.elapsed();
    let decisions = written.len();

    let api: Api<ManagedCluster> = Api::all(client.clone());
    let mut latencies: HashMap<&'static str, Vec<f64>> = HashMap::new();
    let moves = world.moves(size.placement_changes);
    for one in &moves.all {
        let wanted = world.choosing(&one.cluster, &one.region, &one.environment);
        let patch = json!({"metadata": {"labels": {"region": one.region, "env": one.environment}}});
        let begun = Instant::now();
        api.patch(&one.cluster, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        let written = || chosen.is(&one.cluster, &wanted) && queue.is_empty();
        until(written, "a change is not decided").await?;
        latencies
            .entry(one.label)
            .or_default()
            .push(milliseconds(begun.elapsed()));
    }
    // Events are told a moment later; they are part of what is settled, not of what is measured.
    let told = running[1].queue.clone();
    until(|| told.is_empty(), "events are not told").await?;

    let index = counting::given_back(|| memory.clear());
    cancel.cancel();
    for it in running {
        it.finished.await?;
    }
    let mut all: Vec<f64> = latencies.values().flatten().copied().collect();
    let by_label: serde_json::Map<String, Value> = latencies
        .iter_mut()
        .map(|(label, it)| {
            let shown = json!({"p50": round(percentile(it, 0.5)), "p99": round(percentile(it, 0.99))});
            ((*label).to_owned(), shown)
        })
        .collect();
    Ok(json!({
        "clusters": size.placement_clusters,
        "placements": size.placements,
        "decisionObjects": decisions,
        "loadedSeconds": round(loaded.as_secs_f64()),
        "allFromNothingSeconds": {"measured": round(from_nothing.as_secs_f64()), "promised": 5},
        "labelChangeToWrittenMilliseconds": {
            "p50": round(percentile(&mut all, 0.5)),
            "p99": {"measured": round(percentile(&mut all, 0.99)), "promised": 50},
            "worst": round(percentile(&mut all, 1.0)),
            "byLabel": by_label,
            "samples": all.len(),
        },
        "indexMebibytes": {"measured": mebibytes(index), "promised": 150},
    }))
}

async fn until(mut is_so: impl FnMut() -> bool, what: &str) -> Result<()> {
    let begun = Instant::now();
    while !is_so() {
        ensure!(begun.elapsed() < DEADLINE, "{what} after {DEADLINE:?}");
        tokio::time::sleep(GLANCE).await;
    }
    Ok(())
}

/// Which placements have the clusters that are moved, kept as decisions change.
struct Chosen {
    by_cluster: Arc<Mutex<HashMap<String, BTreeSet<String>>>>,
}

impl Chosen {
    fn over(decisions: &Cache<PlacementDecision>, moves: Moves) -> Self {
        let all = moves.all.into_iter().map(|it| (it.cluster, BTreeSet::new())).collect();
        let by_cluster = Arc::new(Mutex::new(all));
        let kept: Arc<Mutex<HashMap<String, BTreeSet<String>>>> = by_cluster.clone();
        decisions.listen(move |old, new| {
            let mut kept = kept.lock().expect("nobody panics here");
            for (decision, is_in) in [(old, false), (new, true)] {
                let Some(decision) = decision else { continue };
                let name = decision.metadata.name.clone().unwrap_or_default();
                for cluster in clusters(decision) {
                    if let Some(of_it) = kept.get_mut(cluster) {
                        if is_in {
                            of_it.insert(name.clone());
                        } else {
                            of_it.remove(&name);
                        }
                    }
                }
            }
        });
        Self { by_cluster }
    }

    /// Whether all these placements have the cluster, and of those that have all that match no others.
    fn is(&self, cluster: &str, wanted: &BTreeSet<String>) -> bool {
        let kept = self.by_cluster.lock().expect("nobody panics here");
        let Some(decisions) = kept.get(cluster) else {
            return false;
        };
        let placements = decisions.iter().filter_map(|it| Some(it.rsplit_once("-decision-")?.0));
        let all: BTreeSet<&str> = placements.filter(|it| world::takes_all(it)).collect();
        all.len() == wanted.len() && wanted.iter().all(|it| all.contains(it.as_str()))
    }
}
