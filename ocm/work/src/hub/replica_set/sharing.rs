//! The works of a ManifestWorkReplicaSet hold their manifests once in memory, however many clusters there are.

use std::collections::HashMap;

use ocm_api::work::{
    ManifestWork, Manifests,
    manifests::{is_same_generation, pack},
};
use parking_lot::Mutex;

use super::{fingerprint::Fingerprint, names};

/// For [`Cache::start_shaped`](ocm_reconcile::Cache::start_shaped): lets works of sets that bring the same share it,
/// and packs what the others bring.
pub fn shape() -> impl Fn(Option<&ManifestWork>, &mut ManifestWork) + Send + Sync + 'static {
    let known = Mutex::new(HashMap::new());
    move |present, work| share(&known, present, work)
}

fn share(known: &Mutex<HashMap<Fingerprint, Manifests>>, present: Option<&ManifestWork>, work: &mut ManifestWork) {
    let is_of_set = names::label_of_meta(&work.metadata).is_some();
    if !is_of_set || present.is_some_and(|it| is_same_generation(it, work)) {
        return pack(present, work);
    }
    let manifests = &mut work.spec.workload.manifests;
    if manifests.is_empty() {
        return;
    }
    let fingerprint = Fingerprint::of_manifests(manifests);
    let mut known = known.lock();
    match known.get(&fingerprint) {
        Some(same) => *manifests = same.clone(),
        None => {
            // A new one is rare; then those go that no work has any more.
            known.retain(|_, it| it.holders() > 1);
            known.insert(fingerprint, manifests.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(cluster: &str, generation: i64, data: &str) -> ManifestWork {
        serde_json::from_value(json!({
            "metadata": {
                "name": "web", "namespace": cluster, "uid": cluster, "generation": generation,
                "labels": {"work.open-cluster-management.io/manifestworkreplicaset": "default.web"}
            },
            "spec": {"workload": {"manifests": [{"kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": data}}]}}
        }))
        .unwrap()
    }

    #[test]
    fn works_that_bring_the_same_share_it() {
        let shape = shape();
        let shaped = |present: Option<&ManifestWork>, mut work: ManifestWork| {
            shape(present, &mut work);
            work
        };
        let shares = |one: &ManifestWork, other: &ManifestWork| {
            let other = &other.spec.workload.manifests;
            one.spec.workload.manifests.is_shared_with(other)
        };
        let one = shaped(None, work("cluster1", 1, "v"));
        let two = shaped(None, work("cluster2", 1, "v"));
        assert!(shares(&one, &two));
        // A report of its agent: the same generation.
        let reported = shaped(Some(&two), work("cluster2", 1, "v"));
        assert!(shares(&one, &reported));
        // Another template.
        let next = shaped(Some(&two), work("cluster2", 2, "w"));
        assert!(!shares(&one, &next));
        assert_eq!(next.spec.workload.manifests.read()[0].0["data"]["k"], "w");
        // Nobody's work is left as it is.
        let mut other = work("cluster3", 1, "v");
        other.metadata.labels = None;
        assert!(!shares(&one, &shaped(None, other)));
    }
}
