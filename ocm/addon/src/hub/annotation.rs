//! What a cluster's annotations say about its add-ons.
//!
//! Root: ManagedClusterAddOn. Reads: its ManagedCluster and its ClusterManagementAddOn. Writes: the annotations that
//! the cluster has with the prefix `addon.open-cluster-management.io`, and which ones these are.
//! Never: an annotation that did not come from the cluster; an add-on that somebody installs by hand.
//! Upstream: ocm `pkg/addon/controllers/addonannotation`. See [`inherited`](super::inherited) for the difference.

use std::sync::Arc;

use kube::ResourceExt;
use ocm_api::{
    addon::v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    cluster::ManagedCluster,
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, Site, Watches, async_trait,
    cache::{key_of, split_key},
    rbac::Right,
};

use super::{facts, indexes::AddOns, inherited, rights};

/// The reconciler.
pub struct Annotation {
    addons: AddOns,
    cluster_management_addons: Cache<ClusterManagementAddOn>,
    clusters: Cache<ManagedCluster>,
}

/// What a plan is made from.
pub struct Seen {
    /// The add-on on a cluster; `None` when it is gone.
    pub addon: Option<Arc<ManagedClusterAddOn>>,
    /// What the hub offers under its name.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
    /// The cluster.
    pub cluster: Option<Arc<ManagedCluster>>,
}

#[async_trait]
impl Reconciler for Annotation {
    const NAME: &'static str = "addon-annotation";
    const WORKERS: usize = super::WORKERS;
    const RIGHTS: &'static [Right] = &[rights::PATCH_ADD_ONS];
    type Seen = Seen;

    /// Add-ons and clusters whose annotations change; ClusterManagementAddOns that change who installs them.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.addons.cache, |old, new| {
            let is_same = |old: &ManagedClusterAddOn, new: &ManagedClusterAddOn| {
                old.metadata.annotations == new.metadata.annotations
                    && old.spec.install_namespace == new.spec.install_namespace
            };
            facts::changed(old, new, is_same).map(key_of)
        });
        let addons = self.addons.cache.clone();
        watches.wakes(&self.clusters, move |old, new| {
            let changed = new.filter(|it| !inherited::of(it).eq(old.into_iter().flat_map(inherited::of)));
            let there = changed.map_or(Vec::new(), |it| addons.list_in(&it.name_any()));
            there.iter().map(|it| key_of(&**it)).collect::<Vec<_>>()
        });
        let addons = self.addons.clone();
        watches.wakes(&self.cluster_management_addons, move |old, new| {
            let concern = |it: &ClusterManagementAddOn| facts::is_managed(it) && facts::follows_placements(it);
            let changed = new.filter(|it| concern(it) && !old.is_some_and(concern));
            changed.map_or(Vec::new(), |it| addons.keys(&it.name_any()))
        });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = split_key(key);
        Ok(Seen {
            addon: self.addons.cache.get(cluster, name),
            cluster_management_addon: self.cluster_management_addons.named(name),
            cluster: self.clusters.named(cluster),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(addon) = seen.addon.as_deref().filter(|it| !facts::is_leaving(it)) else {
            return plan;
        };
        let installed = facts::looked_after(&seen.cluster_management_addon).is_some_and(facts::follows_placements);
        let Some(cluster) = seen.cluster.as_deref().filter(|_| installed) else {
            return plan;
        };
        let mut new = addon.clone();
        inherited::hand_over(cluster, &mut new);
        plan.change(Site::Hub, addon, &new);
        plan
    }
}

impl Annotation {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            addons: AddOns::of(caches),
            cluster_management_addons: caches.of(),
            clusters: caches.of(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const HOST: &str = "addon.open-cluster-management.io/hosting-cluster-name";
    const VALUES: &str = "addon.open-cluster-management.io/values";
    const FROM: &str = "cluster.open-cluster-management.io/annotations-from-cluster";

    fn check(of_cluster: Value, of_addon: Value, strategy: &str, patch: Option<Value>) {
        let read = |it: Value| serde_json::from_value(it).unwrap();
        let addon = json!({"metadata": {"name": "a", "namespace": "cluster1", "annotations": of_addon}, "spec": {}});
        let offer = json!({"metadata": {"name": "a"}, "spec": {"installStrategy": {"type": strategy}}});
        let cluster = json!({"metadata": {"name": "cluster1", "annotations": of_cluster}});
        let seen = Seen {
            addon: Some(Arc::new(read(addon))),
            cluster_management_addon: Some(Arc::new(serde_json::from_value(offer).unwrap())),
            cluster: Some(Arc::new(serde_json::from_value(cluster).unwrap())),
        };
        let wanted = patch.map_or("nothing to do".to_owned(), |it| {
            format!("hub: patch ManagedClusterAddOn cluster1/a {it}")
        });
        assert_eq!(format!("{:#}", Annotation::plan(&seen)).trim(), wanted);
    }

    #[test]
    fn cluster_annotations_reach_add_ons_and_user_annotations_stay() {
        check(
            json!({HOST: "host", "other": "x"}),
            json!({VALUES: "{}"}),
            "Placements",
            Some(json!({"metadata": {"annotations": {HOST: "host", FROM: HOST}}})),
        );
        check(
            json!({HOST: "host"}),
            json!({HOST: "host", FROM: HOST, VALUES: "{}"}),
            "Placements",
            None,
        );
    }

    #[test]
    fn what_the_cluster_no_longer_says_goes_and_nothing_else() {
        check(
            json!({}),
            json!({HOST: "host", FROM: HOST, VALUES: "{}"}),
            "Placements",
            Some(json!({"metadata": {"annotations": {HOST: null, FROM: null}}})),
        );
        check(json!({}), json!({HOST: "mine"}), "Placements", None);
    }

    #[test]
    fn the_cluster_wins_over_the_add_on() {
        check(
            json!({VALUES: "{\"a\":1}"}),
            json!({VALUES: "{}"}),
            "Placements",
            Some(json!({"metadata": {"annotations": {VALUES: "{\"a\":1}", FROM: VALUES}}})),
        );
    }

    #[test]
    fn the_namespace_is_kept_in_the_spec() {
        let key = "addon.open-cluster-management.io/v1alpha1-install-namespace";
        check(
            json!({key: "ns"}),
            json!({}),
            "Placements",
            Some(json!({"metadata": {"annotations": {FROM: key}}, "spec": {"installNamespace": "ns"}})),
        );
    }

    #[test]
    fn a_manually_installed_add_on_is_left_unchanged() {
        check(json!({HOST: "host"}), json!({}), "Manual", None);
    }
}
