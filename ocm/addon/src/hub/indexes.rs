//! How the hub's controllers for add-ons find objects by something else than their name: indexes beside the watches,
//! each once in a process, so that nobody goes through everything to find a little.

use std::sync::Arc;

use kube::ResourceExt;
use ocm_api::{addon::v1alpha1::ManagedClusterAddOn, cluster::PlacementDecision, labels, work::ManifestWork};
use ocm_reconcile::{Cache, Caches, Index};

/// The ManagedClusterAddOns, also by their name: one add-on on all clusters.
#[derive(Clone)]
pub struct AddOns {
    /// All of them.
    pub cache: Cache<ManagedClusterAddOn>,
    by_name: Index<ManagedClusterAddOn>,
}

impl AddOns {
    /// Those of these caches.
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|it| {
            let cache = it.of();
            let by_name = Index::over(&cache, |it: &ManagedClusterAddOn| it.metadata.name.clone());
            Self { cache, by_name }
        })
    }

    /// The add-ons of a name, by cluster.
    pub fn named(&self, name: &str) -> Vec<Arc<ManagedClusterAddOn>> {
        self.by_name.objects(name)
    }

    /// Their keys.
    pub fn keys(&self, name: &str) -> Vec<String> {
        let names = self.by_name.names(name).into_iter();
        names.map(|(cluster, name)| format!("{cluster}/{name}")).collect()
    }
}

/// The ManifestWorks, also by their add-on on a cluster.
#[derive(Clone)]
pub struct AddOnWorks {
    /// All of them, those of nobody's add-on too.
    pub cache: Cache<ManifestWork>,
    by_add_on: Index<ManifestWork>,
}

impl AddOnWorks {
    /// Those of these caches.
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|it| {
            let cache = it.of();
            let by_add_on = Index::over(&cache, add_on_of);
            Self { cache, by_add_on }
        })
    }

    /// The works of an add-on, hosted ones included, by namespace and name.
    pub fn of_add_on(&self, cluster: &str, add_on: &str) -> Vec<Arc<ManifestWork>> {
        self.by_add_on.objects(&format!("{cluster}/{add_on}"))
    }
}

/// `cluster/add-on` of a work of an add-on.
pub fn add_on_of(work: &ManifestWork) -> Option<String> {
    let add_on = work.labels().get(labels::ADDON_NAME)?;
    let cluster = work
        .labels()
        .get(labels::ADDON_NAMESPACE)
        .or(work.metadata.namespace.as_ref())?;
    Some(format!("{cluster}/{add_on}"))
}

/// The PlacementDecisions, also by their placement.
#[derive(Clone)]
pub struct Decisions {
    /// All of them.
    pub cache: Cache<PlacementDecision>,
    by_placement: Index<PlacementDecision>,
}

impl Decisions {
    /// Those of these caches.
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|it| {
            let cache = it.of();
            let by_placement = Index::over(&cache, placement_of);
            Self { cache, by_placement }
        })
    }

    /// The decisions of a placement, by name.
    pub fn of_placement(&self, namespace: &str, placement: &str) -> Vec<Arc<PlacementDecision>> {
        self.by_placement.objects(&format!("{namespace}/{placement}"))
    }
}

/// `namespace/name` of a decision's placement.
pub fn placement_of(decision: &PlacementDecision) -> Option<String> {
    let placement = decision.labels().get(labels::PLACEMENT)?;
    Some(format!("{}/{placement}", decision.metadata.namespace.as_deref()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn work(namespace: &str, name: &str, labels: serde_json::Value) -> ManifestWork {
        serde_json::from_value(json!({"metadata": {"namespace": namespace, "name": name, "labels": labels}})).unwrap()
    }

    #[test]
    fn works_are_found_by_managed_cluster_and_add_on() {
        let caches = Caches::unfed();
        let index = AddOnWorks::of(&caches);
        caches.of().fill([
            work("cluster1", "addon-a-deploy-0", json!({labels::ADDON_NAME: "a"})),
            work("cluster10", "addon-a-deploy-0", json!({labels::ADDON_NAME: "a"})),
            work(
                "host",
                "hosted",
                json!({labels::ADDON_NAME: "a", labels::ADDON_NAMESPACE: "cluster1"}),
            ),
            work("cluster1", "mine", json!({})),
        ]);
        let found = |index: &AddOnWorks| {
            let works = index.of_add_on("cluster1", "a");
            works.iter().map(|it| it.name_any()).collect::<Vec<_>>()
        };
        assert_eq!(found(&index), ["addon-a-deploy-0", "hosted"]);
        caches.of().put(work("cluster1", "addon-a-deploy-0", json!({})));
        // Who asks again has the same index.
        assert_eq!(found(&AddOnWorks::of(&caches)), ["hosted"]);
    }
}
