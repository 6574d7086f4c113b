//! How the hub's controllers for add-ons find objects by something else than their name: indexes beside the watches, each once in
//! a process, so that nobody goes through everything to find a little.

use std::sync::Arc;

use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::ManagedClusterAddOn, cluster::PlacementDecision, labels,
    work::ManifestWork,
};
use ocm_reconcile::{Caches, Index};

/// The ManagedClusterAddOns of one name, on whatever clusters.
#[derive(Clone)]
pub struct AddOnsByName(Index<ManagedClusterAddOn>);

impl AddOnsByName {
    /// The one of these caches.
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|it| Self(Index::over(&it.of(), |it: &ManagedClusterAddOn| it.metadata.name.clone())))
    }

    /// The add-ons of a name, by cluster.
    pub fn objects(&self, name: &str) -> Vec<Arc<ManagedClusterAddOn>> {
        self.0.objects(name)
    }

    /// Their keys.
    pub fn keys(&self, name: &str) -> Vec<String> {
        let names = self.0.names(name).into_iter();
        names.map(|(cluster, name)| format!("{cluster}/{name}")).collect()
    }
}

/// The works of each add-on on a cluster.
#[derive(Clone)]
pub struct WorksByAddOn(Index<ManifestWork>);

impl WorksByAddOn {
    /// The one of these caches.
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|it| Self(Index::over(&it.of(), add_on_of)))
    }

    /// The works of an add-on, hosted ones included, by namespace and name.
    pub fn objects(&self, cluster: &str, add_on: &str) -> Vec<Arc<ManifestWork>> {
        self.0.objects(&format!("{cluster}/{add_on}"))
    }
}

/// `cluster/add-on` of a work of an add-on.
pub fn add_on_of(work: &ManifestWork) -> Option<String> {
    let add_on = work.labels().get(labels::ADDON_NAME)?;
    let cluster = work.labels().get(labels::ADDON_NAMESPACE).or(work.metadata.namespace.as_ref())?;
    Some(format!("{cluster}/{add_on}"))
}

/// The decisions of each placement.
#[derive(Clone)]
pub struct DecisionsByPlacement(Index<PlacementDecision>);

impl DecisionsByPlacement {
    /// The one of these caches.
    pub fn of(caches: &Caches) -> Self {
        caches.beside(|it| Self(Index::over(&it.of(), placement_of)))
    }

    /// The decisions of a placement, by name.
    pub fn objects(&self, namespace: &str, placement: &str) -> Vec<Arc<PlacementDecision>> {
        self.0.objects(&format!("{namespace}/{placement}"))
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
    fn works_are_found_by_cluster_and_add_on_wherever_they_are_hosted() {
        let caches = Caches::unfed();
        let index = WorksByAddOn::of(&caches);
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
        let found = |index: &WorksByAddOn| {
            let works = index.objects("cluster1", "a");
            works.iter().map(|it| it.name_any()).collect::<Vec<_>>()
        };
        assert_eq!(found(&index), ["addon-a-deploy-0", "hosted"]);
        caches.of().put(work("cluster1", "addon-a-deploy-0", json!({})));
        // Who asks again has the same index.
        assert_eq!(found(&WorksByAddOn::of(&caches)), ["hosted"]);
    }
}
