use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn work(cluster: &str, version: u64, data: &str, generation: i64, conditions: &[(&str, &str)]) -> ManifestWork {
    let conditions: Vec<Value> = conditions
        .iter()
        .map(|(r#type, status)| {
            json!({"type": r#type, "status": status, "reason": "R", "message": "",
                   "observedGeneration": generation, "lastTransitionTime": "2026-01-01T12:00:00Z"})
        })
        .collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": "web", "namespace": cluster, "uid": cluster, "generation": generation,
            "resourceVersion": version.to_string(),
            "labels": {
                "work.open-cluster-management.io/manifestworkreplicaset": "default.web.eu",
                "work.open-cluster-management.io/placementname": "p"
            }
        },
        "spec": {"workload": {"manifests": [{"kind": "ConfigMap", "data": {"k": data}}]}},
        "status": {"conditions": conditions}
    }))
    .unwrap()
}

type Told = Arc<Mutex<Vec<(String, WorkChange)>>>;

fn counted() -> (Cache<ManifestWork>, WorksBySet, Told) {
    let (works, told) = (Cache::empty(), Told::default());
    let hears = told.clone();
    let by_set = WorksBySet::over(&works, Timestamp::now);
    by_set.listen(move |key, change| hears.lock().push((key.to_owned(), change)));
    (works, by_set, told)
}

fn said(told: &Told) -> Vec<WorkChange> {
    let all = std::mem::take(&mut *told.lock());
    assert!(all.iter().all(|(key, _)| key == "default/web.eu"), "{all:?}");
    all.into_iter().map(|(_, change)| change).collect()
}

#[test]
fn each_change_of_a_work_is_classified_correctly() {
    let (works, by_set, told) = counted();
    works.put(work("c1", 1, "a", 1, &[]));
    works.put(work("c2", 2, "a", 1, &[]));
    assert_eq!(said(&told), [WorkChange::Content, WorkChange::Content]);
    let spec = by_set.members("default.web.eu")[0].spec;
    let counts = || {
        let it = by_set.counts("default.web.eu", "p", spec);
        (it.total, it.applied, it.available, it.succeeded)
    };
    assert_eq!(counts(), (2, 0, 0, 0));
    works.put(work("c1", 3, "a", 1, &[("Applied", "True")]));
    assert_eq!((said(&told), counts()), (vec![WorkChange::Counts], (2, 1, 0, 0)));
    works.put(work("c1", 4, "a", 1, &[("Applied", "True"), ("Available", "True")]));
    assert_eq!((said(&told), counts()), (vec![WorkChange::Rollout], (2, 1, 1, 1)));
    // The same once more, and feedback that nobody counts.
    works.put(work(
        "c1",
        5,
        "a",
        1,
        &[("Applied", "True"), ("Available", "True"), ("Other", "True")],
    ));
    assert_eq!((said(&told), counts()), (vec![], (2, 1, 1, 1)));
    works.put(work("c1", 6, "edited", 2, &[("Applied", "True")]));
    assert_eq!((said(&told), counts()), (vec![WorkChange::Content], (1, 0, 0, 0)));
    let mut leaving = work("c2", 7, "a", 1, &[]);
    leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T12:00:00Z")).unwrap();
    works.put(leaving);
    assert_eq!((said(&told), counts()), (vec![WorkChange::Content], (0, 0, 0, 0)));
    // Somebody takes it out of the set.
    let mut other = work("c1", 8, "edited", 2, &[]);
    other.metadata.labels = None;
    works.put(other);
    assert_eq!(said(&told), [WorkChange::Content]);
    assert_eq!(by_set.members("default.web.eu").len(), 1);
}

#[test]
fn what_a_server_answers_counts_as_what_it_was_given() {
    let (works, by_set, _) = counted();
    let wanted = Fingerprint::of(&work("c1", 1, "wanted", 1, &[]).spec);
    works.put(work("c1", 1, "answered", 1, &[("Applied", "True")]));
    let answered = by_set.members("default.web.eu")[0].spec;
    assert_ne!(wanted, answered);
    by_set.answered("default.web.eu", wanted, answered);
    assert_eq!(by_set.members("default.web.eu")[0].spec, wanted);
    let it = by_set.counts("default.web.eu", "p", wanted);
    assert_eq!((it.total, it.applied), (1, 1));
    works.put(work("c2", 2, "answered", 1, &[]));
    assert_eq!(by_set.counts("default.web.eu", "p", wanted).total, 2);
}

#[test]
fn counters_agree_with_a_recount_whatever_happens() {
    let (works, by_set, _) = counted();
    let mut seed = 7u64;
    let mut roll = |sides: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % sides
    };
    for version in 1..3000 {
        let cluster = format!("c{}", roll(10));
        let truth = |it: u64| if it == 0 { "False" } else { "True" };
        let conditions = [
            ("Applied", truth(roll(2))),
            ("Available", truth(roll(2))),
            ("Degraded", truth(roll(3))),
        ];
        let data = ["a", "b"][roll(2) as usize];
        let mut it = work(&cluster, version, data, version as i64 / 3, &conditions);
        if roll(5) == 0 {
            it.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T12:00:00Z")).unwrap();
        }
        if roll(7) == 0 {
            it.labels_mut()
                .insert("work.open-cluster-management.io/placementname".into(), "q".into());
        }
        if roll(9) == 0 {
            it.metadata.labels = None;
        }
        works.put(it);
        let members = by_set.members("default.web.eu");
        let mut recount: HashMap<(String, Fingerprint), WorkCounts> = HashMap::new();
        for it in members.iter().filter(|it| !it.is_leaving()) {
            recount
                .entry((it.placement().to_owned(), it.spec))
                .or_default()
                .add(it, 1);
        }
        for ((placement, spec), counts) in &recount {
            assert_eq!(by_set.counts("default.web.eu", placement, *spec), *counts);
        }
        let held = by_set.sets.lock();
        let held: usize = held
            .get("default.web.eu")
            .map_or(0, |it| it.counts.values().map(HashMap::len).sum());
        assert_eq!(held, recount.len());
    }
}
