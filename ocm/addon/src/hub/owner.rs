//! An add-on on a cluster belongs to its ClusterManagementAddOn, so that deleting the one deletes all of the other.
//!
//! Root: ManagedClusterAddOn. Reads: its ClusterManagementAddOn. Writes: the owner reference to it.
//! Never: an add-on whose own manager looks after it, or an owner reference of anybody else.
//! Upstream: ocm `pkg/addon/controllers/addonowner`.
//!
//! A reference to an earlier ClusterManagementAddOn of the same name is left alone: what it owned was deleted with it,
//! and garbage collection is on its way. Replacing the reference would make the outcome a matter of who is faster.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use ocm_api::addon::{
    GROUP,
    v1alpha1::{ClusterManagementAddOn, ManagedClusterAddOn},
    v1beta1,
};
use ocm_reconcile::{
    Cache, Caches, ObserveError, Plan, Reconciler, Site, Watches, async_trait,
    cache::{key_of, split_key},
    rbac::Right,
};

use super::{facts, indexes::AddOns, rights};

/// The reconciler.
pub struct Owner {
    addons: AddOns,
    cluster_management_addons: Cache<ClusterManagementAddOn>,
}

/// What a plan is made from.
pub struct Seen {
    /// The add-on on a cluster; `None` when it is gone.
    pub addon: Option<Arc<ManagedClusterAddOn>>,
    /// What the hub offers under its name.
    pub cluster_management_addon: Option<Arc<ClusterManagementAddOn>>,
}

#[async_trait]
impl Reconciler for Owner {
    const NAME: &'static str = "addon-owner";
    const WORKERS: usize = super::WORKERS;
    const RIGHTS: &'static [Right] = &[rights::PATCH_ADD_ONS, rights::OWNERS_STAY];
    type Seen = Seen;

    /// Add-ons that come or change their owners; ClusterManagementAddOns that come or change hands.
    fn watches(&self, watches: &mut Watches) {
        watches.wakes(&self.addons.cache, |old, new| {
            let is_same = |old: &ManagedClusterAddOn, new: &ManagedClusterAddOn| {
                old.metadata.owner_references == new.metadata.owner_references
            };
            facts::changed(old, new, is_same).map(key_of)
        });
        let addons = self.addons.clone();
        watches.wakes(&self.cluster_management_addons, move |old, new| {
            let changed = facts::changed(old, new, |old, new| facts::identity(old) == facts::identity(new));
            changed.map_or(Vec::new(), |it| addons.keys(&it.name_any()))
        });
    }

    async fn observe(&self, key: &str) -> Result<Seen, ObserveError> {
        let (cluster, name) = split_key(key);
        Ok(Seen {
            addon: self.addons.cache.get(cluster, name),
            cluster_management_addon: self.cluster_management_addons.named(name),
        })
    }

    fn plan(seen: &Seen) -> Plan {
        let mut plan = Plan::new();
        let Some(addon) = seen.addon.as_deref().filter(|it| !facts::is_leaving(it)) else {
            return plan;
        };
        let Some(owner) = facts::looked_after(&seen.cluster_management_addon) else {
            plan.wait("there is no ClusterManagementAddOn of this name to look after");
            return plan;
        };
        let mut wanted = reference(owner);
        let present = addon.owner_references();
        if present
            .iter()
            .any(|it| is_to_cluster_management_addon(it) && it.name == wanted.name && it.uid != wanted.uid)
        {
            plan.wait("its earlier ClusterManagementAddOn was deleted, and it goes with it");
            return plan;
        }
        let ours = |it: &OwnerReference| is_to_cluster_management_addon(it) && it.uid == wanted.uid;
        // An object has one controller at most; the add-on belongs to its offer even if somebody else controls it.
        if present.iter().any(|it| it.controller == Some(true) && !ours(it)) {
            plan.remark("somebody else controls it");
            wanted.controller = Some(false);
        }
        let mut new = addon.clone();
        let references = new.owner_references_mut();
        match references.iter_mut().find(|it| ours(it)) {
            // The version it is written in means nothing.
            Some(it) => {
                it.controller = wanted.controller;
                it.block_owner_deletion = wanted.block_owner_deletion;
            }
            None => references.push(wanted),
        }
        plan.change(Site::Hub, addon, &new);
        plan
    }
}

impl Owner {
    /// Over these caches.
    pub fn new(caches: &Caches) -> Self {
        Self {
            addons: AddOns::of(caches),
            cluster_management_addons: caches.of(),
        }
    }
}

/// The reference that says so. Its version is upstream's, who serve both.
pub fn reference(addon: &ClusterManagementAddOn) -> OwnerReference {
    OwnerReference {
        api_version: v1beta1::ClusterManagementAddOn::API_VERSION.to_owned(),
        kind: ClusterManagementAddOn::KIND.to_owned(),
        name: addon.name_any(),
        uid: addon.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether a reference is to a ClusterManagementAddOn, in whatever version.
pub fn is_to_cluster_management_addon(reference: &OwnerReference) -> bool {
    let group = reference.api_version.split_once('/').map(|(group, _)| group);
    group == Some(GROUP) && reference.kind == ClusterManagementAddOn::KIND
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(owners: Value, lifecycle: Option<&str>, printed: &str) {
        let mut offer = json!({"metadata": {"name": "a", "uid": "u1"}, "spec": {}});
        if let Some(lifecycle) = lifecycle {
            offer["metadata"]["annotations"] = json!({"addon.open-cluster-management.io/lifecycle": lifecycle});
        }
        let addon = json!({"metadata": {"name": "a", "namespace": "cluster1", "ownerReferences": owners}, "spec": {}});
        let seen = Seen {
            addon: Some(Arc::new(serde_json::from_value(addon).unwrap())),
            cluster_management_addon: Some(Arc::new(serde_json::from_value(offer).unwrap())),
        };
        assert_eq!(format!("{:#}", Owner::plan(&seen)).trim(), printed);
    }

    fn owner(version: &str, uid: &str, controller: bool) -> Value {
        json!({
            "apiVersion": format!("addon.open-cluster-management.io/{version}"), "kind": "ClusterManagementAddOn",
            "name": "a", "uid": uid, "controller": controller, "blockOwnerDeletion": true,
        })
    }

    #[test]
    fn an_add_on_keeps_its_owner_in_any_api_version() {
        check(
            json!([]),
            None,
            r#"hub: patch ManagedClusterAddOn cluster1/a {"metadata":{"ownerReferences":[{"apiVersion":"addon.open-cluster-management.io/v1beta1","blockOwnerDeletion":true,"controller":true,"kind":"ClusterManagementAddOn","name":"a","uid":"u1"}]}}"#,
        );
        check(json!([owner("v1beta1", "u1", true)]), None, "nothing to do");
        check(
            json!([owner("v1alpha1", "u1", true)]),
            Some("addon-manager"),
            "nothing to do",
        );
    }

    #[test]
    fn an_add_on_that_manages_itself_is_left_alone() {
        for lifecycle in ["self", ""] {
            check(
                json!([]),
                Some(lifecycle),
                "nothing to do\nwaits: there is no ClusterManagementAddOn of this name to look after",
            );
        }
    }

    #[test]
    fn what_an_earlier_offer_owned_goes_with_it() {
        check(
            json!([owner("v1beta1", "u0", true)]),
            None,
            "nothing to do\nwaits: its earlier ClusterManagementAddOn was deleted, and it goes with it",
        );
    }

    #[test]
    fn somebody_else_may_control_it() {
        let other =
            json!({"apiVersion": "example.com/v1", "kind": "Bundle", "name": "b", "uid": "u9", "controller": true});
        check(
            json!([other]),
            None,
            "hub: patch ManagedClusterAddOn cluster1/a {\"metadata\":{\"ownerReferences\":[{\"apiVersion\":\"example.com/v1\",\"controller\":true,\"kind\":\"Bundle\",\"name\":\"b\",\"uid\":\"u9\"},{\"apiVersion\":\"addon.open-cluster-management.io/v1beta1\",\"blockOwnerDeletion\":true,\"controller\":false,\"kind\":\"ClusterManagementAddOn\",\"name\":\"a\",\"uid\":\"u1\"}]}}\nnote: somebody else controls it",
        );
    }
}
