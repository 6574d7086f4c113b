//! The three objects that an agent with a token needs on the hub: its ServiceAccount, and the cluster's right to ask for tokens of
//! it. They belong to the add-on, by owner reference and label.

use k8s_openapi::{
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt, api::ObjectMeta};
use ocm_api::{
    addon::{v1alpha1::ManagedClusterAddOn, v1beta1},
    identity, labels,
};
use ocm_reconcile::{Plan, Site};
use serde::Serialize;

use super::Seen;
use crate::hub::facts;

/// The API group of roles.
pub const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// The name of an add-on's ServiceAccount, in the cluster's namespace.
pub fn service_account_name(addon: &str) -> String {
    format!("{addon}-agent")
}

/// The name of its Role and RoleBinding.
pub fn role_name(addon: &str) -> String {
    format!("{addon}-token-role")
}

/// The key of the add-on that an object was made for.
pub fn addon_of<K: Resource>(object: &K) -> Option<String> {
    let name = object.meta().labels.as_ref()?.get(labels::ADDON_TOKEN_NAME)?;
    Some(format!("{}/{name}", object.meta().namespace.as_deref()?))
}

/// Plans that all three are there, and say what they have to.
pub fn keep_all(plan: &mut Plan, seen: &Seen, addon: &ManagedClusterAddOn) {
    let account = ServiceAccount {
        metadata: metadata(addon, service_account_name(&addon.name_any())),
        ..ServiceAccount::default()
    };
    plan.keep(Site::Hub, seen.service_account.as_deref(), &account);
    let role = role(addon);
    keep(plan, seen.role.as_deref(), &role, |current| {
        current.rules = role.rules.clone();
    });
    let binding = binding(addon);
    match seen.role_binding.as_deref() {
        // A binding cannot change its role.
        Some(current) if current.role_ref != binding.role_ref => {
            plan.delete(Site::Hub, current);
        }
        current => keep(plan, current, &binding, |current| {
            current.subjects = binding.subjects.clone();
        }),
    }
}

/// Plans that none of them is there.
pub fn remove_all(plan: &mut Plan, seen: &Seen) {
    if let Some(it) = seen.role_binding.as_deref() {
        plan.delete(Site::Hub, it);
    }
    if let Some(it) = seen.role.as_deref() {
        plan.delete(Site::Hub, it);
    }
    if let Some(it) = seen.service_account.as_deref() {
        plan.delete(Site::Hub, it);
    }
}

/// Keeps an object's labels and owner, and what `set` makes of it, exactly: a right too many is repaired like one too few.
fn keep<K>(plan: &mut Plan, current: Option<&K>, desired: &K, set: impl FnOnce(&mut K))
where
    K: Resource<DynamicType = ()> + Clone + Serialize,
{
    let Some(current) = current else {
        plan.create(Site::Hub, desired);
        return;
    };
    let mut new = current.clone();
    set(&mut new);
    new.labels_mut().extend(desired.labels().clone());
    for owner in desired.owner_references() {
        if !current.owner_references().iter().any(|it| it.uid == owner.uid) {
            new.owner_references_mut().push(owner.clone());
        }
    }
    plan.change(Site::Hub, current, &new);
}

pub(super) fn metadata(addon: &ManagedClusterAddOn, name: String) -> ObjectMeta {
    let labels = [
        (labels::ADDON_TOKEN_NAME, addon.name_any()),
        (labels::ADDON_TOKEN_INFRASTRUCTURE, "true".to_owned()),
    ];
    ObjectMeta {
        name: Some(name),
        namespace: addon.metadata.namespace.clone(),
        labels: Some(labels.map(|(key, value)| (key.to_owned(), value)).into()),
        owner_references: Some(vec![OwnerReference {
            api_version: v1beta1::ManagedClusterAddOn::API_VERSION.to_owned(),
            kind: ManagedClusterAddOn::KIND.to_owned(),
            name: addon.name_any(),
            uid: addon.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]),
        ..ObjectMeta::default()
    }
}

pub(super) fn role(addon: &ManagedClusterAddOn) -> Role {
    let rule = |verb: &str| PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["serviceaccounts/token".to_owned()]),
        verbs: vec![verb.to_owned()],
        ..PolicyRule::default()
    };
    let create = PolicyRule {
        resource_names: Some(vec![service_account_name(&addon.name_any())]),
        ..rule("create")
    };
    Role {
        metadata: metadata(addon, role_name(&addon.name_any())),
        // The second is asked for by the hub's gRPC server.
        rules: Some(vec![create, rule("subscribe")]),
    }
}

pub(super) fn binding(addon: &ManagedClusterAddOn) -> RoleBinding {
    let cluster = facts::cluster(addon);
    let groups = [
        identity::cluster_group(cluster),
        identity::cluster_external_group(cluster),
    ];
    let subjects = groups.map(|name| Subject {
        api_group: Some(RBAC_GROUP.to_owned()),
        kind: "Group".to_owned(),
        name,
        namespace: None,
    });
    RoleBinding {
        metadata: metadata(addon, role_name(&addon.name_any())),
        role_ref: RoleRef {
            api_group: Some(RBAC_GROUP.to_owned()),
            kind: "Role".to_owned(),
            name: role_name(&addon.name_any()),
        },
        subjects: Some(subjects.to_vec()),
    }
}
