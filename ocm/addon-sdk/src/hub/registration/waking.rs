//! Whom a change wakes: of a ClusterManagementAddOn the add-ons that it owns, of an RBAC object the add-on whose agent
//! has it.

use kube::ResourceExt;
use ocm_api::{addon::v1alpha1::ClusterManagementAddOn, labels};
use ocm_reconcile::{Cache, Watches, cache::key_of, caches::Watchable};

use crate::hub::{Context, claims::Name, rbac_objects::RbacCaches};

/// The add-ons of a ClusterManagementAddOn that comes or goes: one that came into sight before its owner waits for it.
pub(super) fn keys_of_owned(
    context: &Context,
) -> impl Fn(Option<&ClusterManagementAddOn>, Option<&ClusterManagementAddOn>) -> Vec<String> + Send + Sync + use<> {
    let addons = context.addons.clone();
    move |old, new| {
        let is_same = old
            .zip(new)
            .is_some_and(|(old, new)| old.metadata.uid == new.metadata.uid);
        let Some(owner) = new.or(old).filter(|_| !is_same) else {
            return Vec::new();
        };
        let mut all = addons.list();
        all.retain(|it| it.metadata.name == owner.metadata.name);
        all.iter().map(|it| key_of(&**it)).collect()
    }
}

/// An RBAC object that somebody changes or removes has its add-on looked at. We need not be allowed to list them: then
/// they are looked at one by one.
pub(super) fn watch_rbac(context: &Context, rbac: &RbacCaches, watches: &mut Watches) {
    watch(context, &rbac.roles, watches);
    watch(context, &rbac.role_bindings, watches);
    watch(context, &rbac.cluster_roles, watches);
    watch(context, &rbac.cluster_role_bindings, watches);
}

fn watch<K: Watchable>(context: &Context, cache: &Cache<K>, watches: &mut Watches) {
    let (addons, claims) = (context.addons.clone(), context.claims.clone());
    let key = move |old: Option<&K>, new: Option<&K>| {
        // A new one is mostly our own, and one that is somebody else's was looked for before ours was made.
        let old = old?;
        let object = new.unwrap_or(old);
        // What was put into the cache when it was written comes again by the watch.
        if new.is_some_and(|it| it.resource_version() == old.resource_version()) {
            return None;
        }
        let addon = object.labels().get(labels::ADDON_NAME)?;
        if let Some(cluster) = claims.claimant(addon, &Name::of(object)) {
            return Some(format!("{cluster}/{addon}"));
        }
        let of_cluster = object.labels().get(labels::CLUSTER_NAME).cloned();
        let namespace = of_cluster.or_else(|| object.namespace()).unwrap_or_default();
        let own = addons.get(&namespace, addon);
        // One that all clusters share is repaired on behalf of any of them.
        let any = || addons.list().into_iter().find(|it| it.name_any() == *addon);
        own.or_else(any).map(|it| key_of(&*it))
    };
    watches.wakes(cache, key).if_allowed(cache);
}
